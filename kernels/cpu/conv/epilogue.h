// Sums on their way to the result: a line of channels of one pixel.

// A line whose elements are apart goes by way of a vector of them; of any type of 4 bytes at most, as the compiler sees
// it.
template <class Bytes>
inline void write_apart(TsGemmElement type, const float* from, int count, Bytes* to, long long step) {
  for (int i = 0; i < count; i += kLanes) {
    Bytes some[4 * kLanes / sizeof(Bytes)];
    const int width = (int)min_of(kLanes, count - i);
    write_line(type, from + i, width, some, 0);
    for (int e = 0; e < width; ++e) to[(i + e) * step] = some[e];
  }
}

template <class Bytes>
inline void read_apart(TsGemmElement type, const Bytes* from, long long step, int count, float* to) {
  for (int i = 0; i < count; i += kLanes) {
    Bytes some[4 * kLanes / sizeof(Bytes)];
    const int width = (int)min_of(kLanes, count - i);
    for (int e = 0; e < width; ++e) some[e] = from[(i + e) * step];
    read_line(type, some, 0, width, to + i);
  }
}

// Writes `count` elements, `step` apart.
inline void write_stepped(TsGemmElement type, const float* from, int count, void* to, long long first, long long step) {
  if (step == 1) return write_line(type, from, count, to, first);
  if (type == TS_INT8) return write_apart(type, from, count, static_cast<unsigned char*>(to) + first, step);
  if (type != TS_FP32) return write_apart(type, from, count, static_cast<unsigned short*>(to) + first, step);
  for (int i = 0; i < count; ++i) static_cast<float*>(to)[first + i * step] = from[i];
}

inline void read_stepped(TsGemmElement type, const void* from, long long first, long long step, int count, float* to) {
  if (step == 1) return read_line(type, from, first, count, to);
  if (type == TS_INT8) return read_apart(type, static_cast<const unsigned char*>(from) + first, step, count, to);
  if (type != TS_FP32) return read_apart(type, static_cast<const unsigned short*>(from) + first, step, count, to);
  for (int i = 0; i < count; ++i) to[i] = static_cast<const float*>(from)[first + i * step];
}

struct Pixel {
  long long member, group;
  long long at[3];
};

TS_INLINE long long place_of(const TsConvStrides& s, const Pixel& pixel, long long channel) {
  return pixel.member * s.batch + pixel.group * s.group + channel * s.channel + pixel.at[0] * s.spatial[0] +
         pixel.at[1] * s.spatial[1] + pixel.at[2] * s.spatial[2];
}

template <class Change>
TS_INLINE void change_line(float* x, const float* y, int count, Change f) {
  for (int i = 0; i < count; i += kLanes) store(x + i, f(load(x + i), load(y + i)));
}

// A line's strides: depthwise, groups of one channel take the channels' place.
TS_INLINE TsConvStrides line_strides(TsConvStrides s) {
  if constexpr (kDepthwise) s.channel = s.group;
  return s;
}

// Channels `channel` .. `channel + count - 1` of a pixel, of which its group has `channels`; x and y have room for
// whole vectors. Depthwise the channels are groups, and the pixel's group is 0.
inline void finish_line(const TsConvArgs& args, const TsConvStrides& strides, long long channels, const Pixel& pixel,
                        long long channel, int count, float* x, float* y) {
  const auto plus = [](Vec a, Vec b) { return a + b; };
  const auto times = [](Vec a, Vec b) { return a * b; };
  for (int i = 0; i < TS_GEMM_MAX_OPERATIONS && args.operations[i] != TS_END; ++i) {
    const TsConvOperand& operand = args.operand[i];
    const auto read_tensor = [&] {
      const TsConvStrides s = line_strides(operand.strides);
      read_stepped(args.out_type, operand.data, place_of(s, pixel, channel), s.channel, count, y);
    };
    // A vector by channel: where it lies, if it lies as whole vectors of floats.
    const auto read_vector = [&](TsGemmElement type) -> const float* {
      const long long first = pixel.group * channels + channel;
      if (type == TS_FP32 && count % kLanes == 0) return static_cast<const float*>(operand.data) + first;
      read_line(type, operand.data, first, count, y);
      return y;
    };
    switch (args.operations[i]) {
      case TS_BIAS:
        change_line(x, read_vector(args.bias_type), count, plus);
        break;
      case TS_SCALE_N:
        change_line(x, read_vector(TS_FP32), count, times);
        break;
      case TS_ADD:
        read_tensor();
        change_line(x, y, count, plus);
        break;
      case TS_MULTIPLY:
        read_tensor();
        change_line(x, y, count, times);
        break;
      case TS_CLAMP:
        change_line(x, x, count, [&](Vec a, Vec) {
          const Vec raised = larger(splat(operand.low), a);  // a NaN stays
          return select(raised > operand.high, splat(operand.high), raised);
        });
        break;
      default:
        apply_function(args.operations[i], x, count);
    }
  }
  const TsConvStrides s = line_strides(strides);
  write_stepped(args.out_type, x, count, args.out, place_of(s, pixel, channel), s.channel);
}
