// Runs of elements whose type is known at run time, as floats and back, and what an epilogue's operations do to them.
// Lines of floats have room for whole vectors.

template <Element kType>
inline void read_as(const void* from, long long first, int count, float* to) {
  using Type = typename StoredAs<kType>::Type;
  const Type* at = static_cast<const Type*>(from) + first;
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, load_floats<kType, kLanes>(at + i));
  if (i == count) return;
  Type rest[kLanes];
  read_part<kLanes>(at + i, count - i, rest);
  store(to + i, load_floats<kType, kLanes>(rest));
}

// `count` int4 from byte `first` on, in two's complement.
inline void read_int4(const void* from, long long first, int count, float* to) {
  const unsigned char* at = static_cast<const unsigned char*>(from) + first;
  for (int i = 0; i < count; ++i) to[i] = (float)(((at[i / 2] >> (i % 2 * 4) & 15) ^ 8) - 8);
}

// `count` neighbours from element `first` on (of int4: from byte `first` on) as floats, and zeros up to a whole vector.
inline void read_line(TsGemmElement type, const void* from, long long first, int count, float* to) {
  switch (type) {
    case TS_FP32:
      return read_as<Element::fp32>(from, first, count, to);
    case TS_BF16:
      return read_as<Element::bf16>(from, first, count, to);
    case TS_FP16:
      return read_as<Element::fp16>(from, first, count, to);
    case TS_INT8:
      return read_as<Element::int8>(from, first, count, to);
    case TS_INT32:
      return read_as<Element::int32>(from, first, count, to);
    case TS_FP8E4M3:
      return read_as<Element::fp8e4m3>(from, first, count, to);
    case TS_FP8E5M2:
      return read_as<Element::fp8e5m2>(from, first, count, to);
    case TS_INT4:
      return read_int4(from, first, count, to);
  }
}

inline float read_one(TsGemmElement type, const void* from, long long index) {
  float x[kLanes];
  read_line(type, from, index, 1, x);
  return x[0];
}

template <Element kType>
inline void write_as(const float* from, int count, void* to, long long first) {
  using Type = typename StoredAs<kType>::Type;
  Type* at = static_cast<Type*>(to) + first;
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) store_floats<kType, kLanes>(at + i, load(from + i));
  if (i == count) return;
  Type rest[kLanes];
  store_floats<kType, kLanes>(rest, load(from + i));
  write_part<kLanes>(rest, count - i, at + i);
}

// Rounds to nearest even; what is beyond the largest number (kMost) becomes it, as on the GPUs. A NaN stays a NaN.
template <int kMantissa, int kBias, unsigned kMost>
inline unsigned char to_fp8(float x) {
  constexpr int kDropped = 23 - kMantissa;
  const unsigned bits = __builtin_bit_cast(unsigned, x), sign = bits >> 24 & 0x80u, size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return (unsigned char)(sign | 0x7fu);
  unsigned code;
  if (size < (unsigned)(128 - kBias) << 23) {  // less than the smallest normal number
    // Beside 2^23 a float's last place is 1: it rounds to multiples of the smallest number.
    const float steps =
        __builtin_bit_cast(float, size) * __builtin_bit_cast(float, (unsigned)(126 + kBias + kMantissa) << 23);
    code = __builtin_bit_cast(unsigned, steps + 8388608.0f) & 0xffu;
  } else {
    const unsigned rounded = size + ((1u << (kDropped - 1)) - 1) + (size >> kDropped & 1u);
    code = (rounded >> kDropped) - ((unsigned)(127 - kBias) << kMantissa);
  }
  return (unsigned char)(sign | (code < kMost ? code : kMost));
}

inline void write_line(TsGemmElement type, const float* from, int count, void* to, long long first) {
  unsigned char* const bytes = static_cast<unsigned char*>(to) + first;
  switch (type) {
    case TS_FP32:
      return write_as<Element::fp32>(from, count, to, first);
    case TS_BF16:
      return write_as<Element::bf16>(from, count, to, first);
    case TS_FP16:
      return write_as<Element::fp16>(from, count, to, first);
    case TS_INT8:
      return write_as<Element::int8>(from, count, to, first);
    case TS_FP8E4M3:
      for (int i = 0; i < count; ++i) bytes[i] = to_fp8<3, 7, 0x7e>(from[i]);
      return;
    case TS_FP8E5M2:
      for (int i = 0; i < count; ++i) bytes[i] = to_fp8<2, 15, 0x7b>(from[i]);
      return;
    default:
      return;
  }
}

template <Activation kFunction>
inline void activate_line(float* x, int count) {
  for (int i = 0; i < count; i += kLanes) store(x + i, activate<kFunction>(load(x + i)));
}

// An activation, or the function of a gate.
inline void apply_function(TsGemmOperation operation, float* x, int count) {
  switch (operation) {
    case TS_RELU:
    case TS_REGLU:
      return activate_line<Activation::relu>(x, count);
    case TS_GELU:
    case TS_GEGLU:
      return activate_line<Activation::gelu>(x, count);
    case TS_GELU_TANH:
    case TS_GEGLU_TANH:
      return activate_line<Activation::gelu_tanh>(x, count);
    case TS_SILU:
    case TS_SWIGLU:
      return activate_line<Activation::silu>(x, count);
    case TS_SIGMOID:
    case TS_GLU:
      return activate_line<Activation::sigmoid>(x, count);
    case TS_TANH:
      return activate_line<Activation::tanh>(x, count);
    default:
      return;
  }
}
