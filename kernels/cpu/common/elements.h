// Tensor elements as floats in registers and back, by element type; `kCount` of them (8 or 16) at a time.

template <Element>
struct StoredAs {
  using Type = unsigned short;
};
template <>
struct StoredAs<Element::fp32> {
  using Type = float;
};
template <>
struct StoredAs<Element::int8> {
  using Type = signed char;
};
template <>
struct StoredAs<Element::int32> {
  using Type = int;
};
template <>
struct StoredAs<Element::fp8e4m3> {
  using Type = unsigned char;
};
template <>
struct StoredAs<Element::fp8e5m2> {
  using Type = unsigned char;
};
template <>
struct StoredAs<Element::int4> {  // two of them
  using Type = unsigned char;
};

template <int kCount>
struct Group {
  typedef float Floats __attribute__((vector_size(4 * kCount)));
  typedef unsigned Bits __attribute__((vector_size(4 * kCount)));
  typedef int Ints __attribute__((vector_size(4 * kCount)));
  typedef unsigned short Shorts __attribute__((vector_size(2 * kCount)));
  typedef signed char Bytes __attribute__((vector_size(kCount)));
  typedef float LooseFloats __attribute__((vector_size(4 * kCount), aligned(4), may_alias));
  typedef int LooseInts __attribute__((vector_size(4 * kCount), aligned(4), may_alias));
  typedef unsigned short LooseShorts __attribute__((vector_size(2 * kCount), aligned(2), may_alias));
  typedef signed char LooseBytes __attribute__((vector_size(kCount), aligned(1), may_alias));
};

// Bytes as ints. GCC makes scalar code of a conversion from bytes to four bytes, so vectors are asked for by name.
template <int kCount>
TS_INLINE typename Group<kCount>::Ints load_bytes(const void* from) {
  const auto& bytes = *static_cast<const typename Group<kCount>::LooseBytes*>(from);
  if constexpr (kCount == kLanes) {
    typename Group<kCount>::Ints wide;
    asm("vpmovsxbd %1, %0" : "=v"(wide) : "m"(bytes));
    return wide;
  } else {
    return __builtin_convertvector(bytes, typename Group<kCount>::Ints);
  }
}

// The first `count` of kCount elements, beside which no memory may be read, and zeros. AVX-512 has masks for bytes.
template <int kCount, class T>
TS_INLINE void read_part(const T* from, int count, T* to) {
  constexpr int kBytes = kCount * (int)sizeof(T);
  if constexpr (kLanes == 16 && kBytes >= 16) {
    typedef unsigned char Bytes __attribute__((vector_size(kBytes), aligned(1), may_alias));
    const unsigned long long mask = count > 0 ? ~0ull >> (64 - count * (int)sizeof(T)) : 0;
    Bytes x;
    asm("vmovdqu8 %1, %0%{%2%}%{z%}" : "=v"(x) : "m"(*reinterpret_cast<const Bytes*>(from)), "Yk"(mask));
    *reinterpret_cast<Bytes*>(to) = x;
  } else {
    for (int i = 0; i < kCount; ++i) to[i] = i < count ? from[i] : T{};
  }
}

// The first `count` of kCount elements, beside which no memory is written.
template <int kCount, class T>
TS_INLINE void write_part(const T* from, int count, T* to) {
  constexpr int kBytes = kCount * (int)sizeof(T);
  if constexpr (kLanes == 16 && kBytes >= 16) {
    typedef unsigned char Bytes __attribute__((vector_size(kBytes), aligned(1), may_alias));
    const unsigned long long mask = count > 0 ? ~0ull >> (64 - count * (int)sizeof(T)) : 0;
    asm volatile("vmovdqu8 %1, %0%{%2%}"
                 : "+m"(*reinterpret_cast<Bytes*>(to))
                 : "v"(*reinterpret_cast<const Bytes*>(from)), "Yk"(mask));
  } else {
    for (int i = 0; i < count; ++i) to[i] = from[i];
  }
}

template <Element kType, int kCount>
TS_INLINE typename Group<kCount>::Floats load_floats(const void* from) {
  using G = Group<kCount>;
  using Floats = typename G::Floats;
  if constexpr (kType == Element::fp32) {
    return *static_cast<const typename G::LooseFloats*>(from);
  } else if constexpr (kType == Element::int32) {
    return __builtin_convertvector(*static_cast<const typename G::LooseInts*>(from), Floats);
  } else if constexpr (kType == Element::int8) {
    return __builtin_convertvector(load_bytes<kCount>(from), Floats);
  } else if constexpr (kType == Element::fp8e4m3) {
    // The exponent's bias is 7; bits moved to where a float has them are off by 2^(127 - 7), denormal numbers too.
    using Bits = typename G::Bits;
    const Bits bits = (Bits)load_bytes<kCount>(from);
    const Floats size = (Floats)((bits & 0x7fu) << 20) * 0x1p120f;
    const Bits number = (Bits)size | (bits & 0x80u) << 24;
    return (Floats)((bits & 0x7fu) == 0x7fu ? Bits{} + 0x7fc00000u : number);
  } else {
    typename G::Shorts halves;
    if constexpr (kType == Element::fp8e5m2) {  // the upper half of an fp16
      halves = (typename G::Shorts) __builtin_convertvector(*static_cast<const typename G::LooseBytes*>(from),
                                                            typename G::Shorts)
               << 8;
    } else {
      halves = *static_cast<const typename G::LooseShorts*>(from);
    }
    if constexpr (kType == Element::bf16) {
      return (Floats)(__builtin_convertvector(halves, typename G::Bits) << 16);
    } else {
      Floats x;
      if constexpr (kCount == 16) {
        asm("vcvtph2ps %1, %0" : "=v"(x) : "v"(halves));
      } else {
        asm("vcvtph2ps %1, %0" : "=x"(x) : "x"(halves));
      }
      return x;
    }
  }
}

// Floats rounded to ints, of which those beyond the largest byte are 127; a NaN is 0. (AVX-512; a template, because
// only its kernels have the instruction.)
template <class Ints, class Floats>
TS_INLINE Ints rounded_for_bytes(Floats x) {
  // Above 127 first, because beyond 2^31 all become the lowest integer.
  constexpr int kNansToZero = 0x88;
  asm("vfixupimmps $0, %1, %0, %0" : "+v"(x) : "v"(Ints{} + kNansToZero));
  asm("vminps %1, %0, %0" : "+v"(x) : "v"(Floats{} + 127.0f));
  Ints whole;
  asm("vcvtps2dq %1, %0" : "=v"(whole) : "v"(x));
  return whole;
}

// Rounds to nearest even; a NaN stays a NaN, and becomes 0 among the integers, whose range is kept to.
template <Element kType, int kCount>
TS_INLINE void store_floats(void* to, typename Group<kCount>::Floats x) {
  using G = Group<kCount>;
  if constexpr (kType == Element::fp32) {
    *static_cast<typename G::LooseFloats*>(to) = x;
  } else if constexpr (kType == Element::bf16 && kCount == 16 && kConvertsBf16) {
    typename G::Shorts h;  // the instruction flushes denormal numbers
    asm("vcvtneps2bf16 %1, %0" : "=v"(h) : "v"(x));
    *static_cast<typename G::LooseShorts*>(to) = h;
  } else if constexpr (kType == Element::bf16) {
    const typename G::Bits bits = (typename G::Bits)x;
    const typename G::Bits rounded = (bits + (0x7fffu + ((bits >> 16) & 1u))) >> 16;
    const typename G::Bits word = (bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded;
    *static_cast<typename G::LooseShorts*>(to) = __builtin_convertvector(word, typename G::Shorts);
  } else if constexpr (kType == Element::fp16) {
    typename G::Shorts h;
    if constexpr (kCount == 16) {
      asm("vcvtps2ph $0, %1, %0" : "=v"(h) : "v"(x));
    } else {
      asm("vcvtps2ph $0, %1, %0" : "=x"(h) : "x"(x));
    }
    *static_cast<typename G::LooseShorts*>(to) = h;
  } else if constexpr (kType == Element::int8 && kCount == 16 && kLanes == 16) {
    const auto whole = rounded_for_bytes<typename G::Ints>(x);
    asm("vpmovsdb %1, %0" : "=m"(*static_cast<typename G::LooseBytes*>(to)) : "v"(whole));
  } else {
    // Beyond 2^23 floats are whole; nearer to 0, adding 1.5 * 2^23 rounds.
    constexpr float kMagic = 12582912.0f;
    constexpr float kLow = kType == Element::int8 ? -128.0f : -2147483648.0f;
    constexpr float kHigh = kType == Element::int8 ? 127.0f : 2147483520.0f;  // the largest float below 2^31
    typename G::Floats y = x == x ? x : typename G::Floats{};
    y = y < kLow ? typename G::Floats{} + kLow : y;
    y = y > kHigh ? typename G::Floats{} + kHigh : y;
    const typename G::Floats size = (typename G::Floats)((typename G::Bits)y & 0x7fffffffu);
    const typename G::Floats near = (y + kMagic) - kMagic;
    const auto whole = __builtin_convertvector(size < 4194304.0f ? near : y, typename G::Ints);
    if constexpr (kType == Element::int8) {
      *static_cast<typename G::LooseBytes*>(to) = __builtin_convertvector(whole, typename G::Bytes);
    } else {
      *static_cast<typename G::LooseInts*>(to) = whole;
    }
  }
}
