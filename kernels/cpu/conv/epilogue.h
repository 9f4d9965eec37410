// Sums on their way to the result: lines of channels of some pixels.

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

// A line's strides: depthwise, groups of one channel take the channels' place.
TS_INLINE TsConvStrides line_strides(TsConvStrides s) {
  if constexpr (kDepthwise) s.channel = s.group;
  return s;
}

constexpr int kResultLines = 8;  // pixels that are finished together

// Up to so many pixels of the result, and the last of them again in the place of each that lacks: what is done for all
// takes no test.
struct ResultLines {
  int count;
  Pixel pixel[kResultLines];

  // Where the pixels' elements of a channel are.
  void places(const TsConvStrides& s, long long channel, long long (&to)[kResultLines]) const {
    for (int r = 0; r < kResultLines; ++r) {
      to[r] = place_of(s, pixel[min_of(r, count - 1)], channel);
      asm("" : "+r"(to[r]));  // g++ would gather vectors of coordinates, which takes three times as long
    }
  }
};

// A vector of sums for each line. Loops over them are unrolled, so that they stay in registers.
using Sums = Vec[kResultLines];
template <class Change>
TS_INLINE void change_each(Sums& x, Change f) {
#pragma GCC unroll 8
  for (int r = 0; r < kResultLines; ++r) x[r] = f(x[r], r);
}

template <Element kType>
struct Typed {
  using Type = StoredAs<kType>::Type;
  static constexpr Element kElement = kType;
};

// use(Typed<type>) for the types of results.
template <class Use>
TS_INLINE void with_result_type(TsGemmElement type, Use use) {
  if (type == TS_FP32) return use(Typed<Element::fp32>{});
  if (type == TS_BF16) return use(Typed<Element::bf16>{});
  if (type == TS_FP16) return use(Typed<Element::fp16>{});
  return use(Typed<Element::int8>{});
}

// `width` elements of each line: x = f(x, those). They lie `at` elements from `places`, `step` apart.
template <class Change>
TS_INLINE void change_by_tensor(TsGemmElement type, const void* from, const long long (&places)[kResultLines],
                                long long at, long long step, int width, Sums& x, Change f) {
  if (step == 1 && width == kLanes)
    return with_result_type(type, [&]<class T>(T) {
      const auto* elements = static_cast<const typename T::Type*>(from) + at;
      change_each(x, [&](Vec a, int r) { return f(a, load_floats<T::kElement, kLanes>(elements + places[r])); });
    });
  float some[kResultLines * kLanes];
  for (int r = 0; r < kResultLines; ++r) read_stepped(type, from, places[r] + at, step, width, some + r * kLanes);
  change_each(x, [&](Vec a, int r) { return f(a, load(some + r * kLanes)); });
}

TS_INLINE void write_sums(TsGemmElement type, const Sums& x, int width, void* to,
                          const long long (&places)[kResultLines], long long at, long long step) {
  if (step == 1 && width == kLanes)
    return with_result_type(type, [&]<class T>(T) {
      auto* const elements = static_cast<typename T::Type*>(to) + at;
#pragma GCC unroll 8
      for (int r = 0; r < kResultLines; ++r) store_floats<T::kElement, kLanes>(elements + places[r], x[r]);
    });
  float some[kResultLines * kLanes];
#pragma GCC unroll 8
  for (int r = 0; r < kResultLines; ++r) store(some + r * kLanes, x[r]);
  for (int r = 0; r < kResultLines; ++r) write_stepped(type, some + r * kLanes, width, to, places[r] + at, step);
}

// Of pixels that are neighbours and whose channels are apart: a run of pixels for each of `width` channels.
inline void write_runs_of_pixels(TsGemmElement type, const Sums& x, int width, int pixels, void* to, long long first,
                                 long long step) {
  Vec row[kLanes] = {};
#pragma GCC unroll 8
  for (int r = 0; r < kResultLines; ++r) row[r] = x[r];
  transpose(row);
  float turned[kLanes * kLanes];
#pragma GCC unroll 16
  for (int c = 0; c < kLanes; ++c) store(turned + c * kLanes, row[c]);
  with_result_type(type, [&]<class T>(T) {
    auto* at = static_cast<typename T::Type*>(to) + first;
    for (int c = 0; c < width; ++c, at += step) {
      typename T::Type some[kLanes];
      store_floats<T::kElement, kLanes>(some, load(turned + c * kLanes));
      if (pixels == kResultLines)
        __builtin_memcpy(at, some, kResultLines * sizeof(*at));
      else
        write_part<kLanes>(some, pixels, at);
    }
  });
}

TS_INLINE Vec clamped(Vec x, const TsConvOperand& operand) {
  const Vec raised = larger(splat(operand.low), x);  // a NaN stays
  return select(raised > operand.high, splat(operand.high), raised);
}

// Channels `channel` .. `channel + count - 1` of the pixels, of which their group has `channels`, from lines of sums
// `sums_row` apart, of which as_floats(vector, i) makes floats. Depthwise the channels are groups, and the pixels'
// group is 0.
template <class AsFloats>
inline void finish_lines(const TsConvArgs& args, const TsConvStrides& strides, long long channels,
                         const ResultLines& lines, long long channel, int count, const float* sums, long long sums_row,
                         AsFloats as_floats) {
  const TsConvStrides s = line_strides(strides);
  const float* from[kResultLines];
  for (int r = 0; r < kResultLines; ++r) from[r] = sums + min_of(r, lines.count - 1) * sums_row;
  long long places[kResultLines], places_of[TS_GEMM_MAX_OPERATIONS][kResultLines];
  lines.places(s, channel, places);
  int operations = 0;
  bool reads_tensors = false;
  for (; operations < TS_GEMM_MAX_OPERATIONS && args.operations[operations] != TS_END; ++operations)
    if (args.operations[operations] == TS_ADD || args.operations[operations] == TS_MULTIPLY) {
      lines.places(line_strides(args.operand[operations].strides), channel, places_of[operations]);
      reads_tensors = true;
    }

  bool are_neighbours = s.channel != 1 && 2 * lines.count >= kResultLines;  // turning fewer takes longer
  for (int r = 1; r < lines.count; ++r) are_neighbours = are_neighbours && places[r] == places[0] + r;

  // One line after the other: eight that are written in turns take longer. The last vector overlaps the one before.
  if (operations == 0 && s.channel == 1 && count >= kLanes)
    return with_result_type(args.out_type, [&]<class T>(T) {
      for (int r = 0; r < lines.count; ++r) {
        auto* const to = static_cast<typename T::Type*>(args.out) + places[r];
        for (int i = 0; i < count; i += kLanes) {
          const int at = (int)min_of(i, count - kLanes);
          store_floats<T::kElement, kLanes>(to + at, as_floats(load(from[r] + at), at));
        }
      }
    });

  // The last vector overlaps the one before here too, unless a tensor is read that may be the result.
  const bool overlaps = count >= kLanes && !reads_tensors;
  for (int next = 0; next < count; next += kLanes) {
    const int i = overlaps ? (int)min_of(next, count - kLanes) : next, width = (int)min_of(kLanes, count - i);
    Sums x;
    change_each(x, [&](Vec, int r) { return as_floats(load(from[r] + i), i); });
    for (int o = 0; o < operations; ++o) {
      const TsConvOperand& operand = args.operand[o];
      const auto by_channel = [&](TsGemmElement type) {
        const long long first = lines.pixel[0].group * channels + channel + i;
        if (type == TS_FP32 && width == kLanes) return load(static_cast<const float*>(operand.data) + first);
        float some[kLanes];
        read_line(type, operand.data, first, width, some);
        return load(some);
      };
      const auto by_tensor = [&](auto f) {
        const long long step = line_strides(operand.strides).channel;
        change_by_tensor(args.out_type, operand.data, places_of[o], i * step, step, width, x, f);
      };
      switch (args.operations[o]) {
        case TS_BIAS: {
          const Vec bias = by_channel(args.bias_type);
          change_each(x, [&](Vec a, int) { return a + bias; });
          break;
        }
        case TS_SCALE_N: {
          const Vec scale = by_channel(TS_FP32);
          change_each(x, [&](Vec a, int) { return a * scale; });
          break;
        }
        case TS_ADD:
          by_tensor([](Vec a, Vec b) { return a + b; });
          break;
        case TS_MULTIPLY:
          by_tensor([](Vec a, Vec b) { return a * b; });
          break;
        case TS_RELU:
          change_each(x, [](Vec a, int) { return activate<Activation::relu>(a); });
          break;
        case TS_CLAMP:
          change_each(x, [&](Vec a, int) { return clamped(a, operand); });
          break;
        default: {
          float some[kResultLines * kLanes];
          change_each(x, [&](Vec a, int r) {
            store(some + r * kLanes, a);
            return a;
          });
          apply_function(args.operations[o], some, kResultLines * kLanes);
          change_each(x, [&](Vec, int r) { return load(some + r * kLanes); });
        }
      }
    }
    if (are_neighbours)
      write_runs_of_pixels(args.out_type, x, width, lines.count, args.out, places[0] + i * s.channel, s.channel);
    else
      write_sums(args.out_type, x, width, args.out, places, i * s.channel, s.channel);
  }
}
