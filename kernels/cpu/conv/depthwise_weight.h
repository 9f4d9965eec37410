// Backward weight of a convolution of groups of few channels: channels of y lie along the lanes, those of as many
// groups as a vector holds. A pixel of y adds, for each tap and each channel of x in a group, its vector times x's:
// where a group has one channel (depthwise) x's own, else that channel of each group, spread over the group's lanes. A
// task adds up lines of pixels of y for a block of channels, and leaves its sums in the workspace; the runs of lines
// are then added in their order. How lines are cut depends on the problem alone.

constexpr long long kTasksWanted = 64;   // lines are cut until there are about so many tasks
constexpr long long kLeastPixels = 512;  // but not into less
constexpr int kBlockVectors = 2;         // of channels in a task
constexpr int kBlockChannels = kBlockVectors * kLanes;
constexpr int kMostTaps = kAccumulators / 3;               // of one row of the filter that share the loads of y
constexpr int kMostFactors = kAccumulators >= 16 ? 8 : 4;  // or channels of x in a group
constexpr int kPixelsOfRun = 64;

struct Shape {
  long long width, factors;    // channels of a group; taps times those of x
  long long channels, blocks;  // channels of y, up to whole vectors
  long long lines, splits, split_lines;

  explicit Shape(const TsConvArgs& args)
      : width(width_of(args)),
        factors(taps_of(args) * width),
        channels(blocks_of(channels_of(args), kLanes) * kLanes),
        blocks(blocks_of(channels_of(args), kBlockChannels)),
        lines(args.batch * args.y_size[0] * args.y_size[1]) {
    const long long pixels = lines * args.y_size[2];
    splits = max_of(1, min_of(blocks_of(kTasksWanted, blocks), pixels / kLeastPixels));
    split_lines = max_of(1, blocks_of(lines, splits));
    splits = max_of(1, blocks_of(lines, split_lines));
  }
  [[nodiscard]] long long partial(long long split) const { return split * factors * channels; }
};

long long workspace_size(const void* args_pointer) {
  const Shape shape(arguments(args_pointer));
  return 4 * shape.partial(shape.splits);
}

long long weight_tasks(const void* args_pointer) {
  const Shape shape(arguments(args_pointer));
  return shape.splits * shape.blocks;
}

// Pixels of a line of y that meet the image at a tap of the innermost axis.
struct Reach {
  long long first, end;
};

inline Reach reach_of(const TsConvArgs& args, long long tap) {
  const long long offset = tap * args.dilation[2] - args.pad[2], stride = args.stride[2];
  const long long first = offset < 0 ? blocks_of(-offset, stride) : 0;
  const long long end = offset < args.x_size[2] ? (args.x_size[2] - 1 - offset) / stride + 1 : 0;
  return {first, min_of(end, args.y_size[2])};
}

// Groups of one channel: a line of y and the line of the image that a row of taps meets, for kVectors vectors of groups
// (of one: `groups`).
struct MetLines {
  const TsConvArgs& args;
  const Stored *y, *x;  // pixel 0 of both
  int groups;

  // sums[tap][v] += x * y over pixels first .. end - 1 for kTaps taps from `tap` on.
  template <int kTaps, int kVectors>
  TS_INLINE void add(long long tap, Reach reach, float* sums) const {
    const long long pixel = args.x_strides.spatial[2], group = args.x_strides.group;
    const long long y_pixel = args.y_strides.spatial[2], y_group = args.y_strides.group;
    Vec sum[kTaps][kVectors];
#pragma GCC unroll 8
    for (int t = 0; t < kTaps; ++t)
      for (int v = 0; v < kVectors; ++v) sum[t][v] = load(sums + t * kBlockChannels + v * kLanes);
    for (long long o = reach.first; o < reach.end; ++o) {
      const Stored* const from = x + (o * args.stride[2] + tap * args.dilation[2] - args.pad[2]) * pixel;
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const Vec factor = read<kVectors>(y + o * y_pixel + v * kLanes * y_group, y_group);
#pragma GCC unroll 8
        for (int t = 0; t < kTaps; ++t)
          sum[t][v] =
              sum[t][v] + factor * read<kVectors>(from + t * args.dilation[2] * pixel + v * kLanes * group, group);
      }
    }
#pragma GCC unroll 8
    for (int t = 0; t < kTaps; ++t)
      for (int v = 0; v < kVectors; ++v) store(sums + t * kBlockChannels + v * kLanes, sum[t][v]);
  }

  template <int kVectors>
  TS_INLINE Vec read(const Stored* from, long long step) const {
    return kVectors == kBlockVectors ? load_floats<kElement, kLanes>(from) : load_stepped(from, step, groups);
  }

  template <int kTaps, int kVectors>
  void add_together(long long tap, float* sums) const {
    Reach shared = reach_of(args, tap);
    for (int t = 1; t < kTaps; ++t) {
      const Reach other = reach_of(args, tap + t);
      shared.first = max_of(shared.first, other.first);
      shared.end = min_of(shared.end, other.end);
    }
    if (shared.first < shared.end) add<kTaps, kVectors>(tap, shared, sums);
    for (int t = 0; t < kTaps; ++t) {
      const Reach own = reach_of(args, tap + t);
      float* const of_tap = sums + t * kBlockChannels;
      if (shared.first >= shared.end) {
        add<1, kVectors>(tap + t, own, of_tap);
        continue;
      }
      add<1, kVectors>(tap + t, {own.first, shared.first}, of_tap);
      add<1, kVectors>(tap + t, {shared.end, own.end}, of_tap);
    }
  }

  // The first `taps` of one to kMost taps.
  template <int kTaps, int kVectors>
  void add_some(long long tap, long long taps, float* sums) const {
    if (taps == kTaps) return add_together<kTaps, kVectors>(tap, sums);
    if constexpr (kTaps > 1) add_some<kTaps - 1, kVectors>(tap, taps, sums);
  }
};

template <int kVectors>
inline void add_lines(const TsConvArgs& args, const Shape& shape, long long split, long long group, int groups,
                      float* sums) {
  const long long first = split * shape.split_lines, end = min_of(shape.lines, first + shape.split_lines);
  for (long long line = first; line < end; ++line) {
    const long long o1 = line % args.y_size[1], o0 = line / args.y_size[1] % args.y_size[0];
    const long long member = line / args.y_size[1] / args.y_size[0];
    for (long long row = 0; row < args.filter[0] * args.filter[1]; ++row) {
      const long long i0 = o0 * args.stride[0] + row / args.filter[1] * args.dilation[0] - args.pad[0];
      const long long i1 = o1 * args.stride[1] + row % args.filter[1] * args.dilation[1] - args.pad[1];
      if (i0 < 0 || i0 >= args.x_size[0] || i1 < 0 || i1 >= args.x_size[1]) continue;
      const Pixel of_y = {member, group, {o0, o1, 0}}, of_x = {member, group, {i0, i1, 0}};
      const MetLines lines = {args, static_cast<const Stored*>(args.y) + place_of(args.y_strides, of_y, 0),
                              static_cast<const Stored*>(args.x) + place_of(args.x_strides, of_x, 0), groups};
      for (long long tap = 0; tap < args.filter[2]; tap += kMostTaps)
        lines.add_some<kMostTaps, kVectors>(tap, min_of(kMostTaps, args.filter[2] - tap),
                                            sums + (row * args.filter[2] + tap) * kBlockChannels);
    }
  }
}

// The block of channels of a pixel as floats, zeros where there are less.
struct Channels {
  long long places[kBlockChannels];
  int count;
  bool whole;  // vectors that lie behind one another

  Channels(const TsConvStrides& s, long long width, long long channel, int some)
      : count(some), whole(some == kBlockChannels && is_even(s, width) && channel_step(s, width) == 1) {
    for (int l = 0; l < count; ++l) places[l] = channel_place(s, width, channel + l);
  }
  void read(const Stored* pixel, float* to) const {
    if (whole) return to_floats(pixel + places[0], to);
    Stored some[kBlockChannels] = {};
    for (int l = 0; l < count; ++l) some[l] = pixel[places[l]];
    to_floats(some, to);
  }

 private:
  TS_INLINE static void to_floats(const Stored* from, float* to) {
#pragma GCC unroll 2
    for (int v = 0; v < kBlockVectors; ++v) store(to + v * kLanes, load_floats<kElement, kLanes>(from + v * kLanes));
  }
};

// Wider groups: a run of pixels of y, and what they meet of the image at a tap. Copies lie behind one another, where
// the tensors' pixels may be so far apart that they would compete for few sets of the first-level cache.
struct Pixels {
  float y[kPixelsOfRun][kBlockChannels], x[kPixelsOfRun][kBlockChannels];

  // sums[f] += x * y over pixels first .. end - 1, x being channel f of each group in all lanes of the group.
  template <int kFactors, class Spread>
  TS_INLINE void add(int first, int end, Spread spread, float* sums) const {
    Vec sum[kFactors][kBlockVectors];
#pragma GCC unroll 8
    for (int f = 0; f < kFactors; ++f)
      for (int v = 0; v < kBlockVectors; ++v) sum[f][v] = load(sums + f * kBlockChannels + v * kLanes);
    for (int p = first; p < end; ++p)
#pragma GCC unroll 2
      for (int v = 0; v < kBlockVectors; ++v) {
        const Vec of_y = load(y[p] + v * kLanes);
#pragma GCC unroll 8
        for (int f = 0; f < kFactors; ++f) sum[f][v] = sum[f][v] + of_y * spread(x[p] + v * kLanes, f);
      }
#pragma GCC unroll 8
    for (int f = 0; f < kFactors; ++f)
      for (int v = 0; v < kBlockVectors; ++v) store(sums + f * kBlockChannels + v * kLanes, sum[f][v]);
  }

  // For all channels of a group, kFactors or fewer at a time.
  template <int kFactors>
  void add_all(int first, int end, int width, const IVec* lanes, float* sums) const {
    if constexpr (kFactors > 2)
      if (width < kFactors) return add_all<kFactors / 2>(first, end, width, lanes, sums);
    for (int factor = 0; factor < width; factor += kFactors) {
      float* const to = sums + factor * kBlockChannels;
      if (width == kLanes)  // from memory: permutations and products share a port
        add<kFactors>(
            first, end, [&](const float* from, int f) { return splat(from[factor + f]); }, to);
      else
        add<kFactors>(
            first, end, [&](const float* from, int f) { return permuted(load(from), lanes[factor + f]); }, to);
    }
  }
};

inline void add_lines_of_groups(const TsConvArgs& args, const Shape& shape, long long split, long long channel,
                                int channels, Pixels& pixels, float* sums) {
  const Channels of_x(args.x_strides, shape.width, channel, channels);
  const Channels of_y(args.y_strides, shape.width, channel, channels);
  IVec lanes[kLanes];
  spread_lanes(shape.width, lanes);
  const long long first = split * shape.split_lines, end = min_of(shape.lines, first + shape.split_lines);
  for (long long line = first; line < end; ++line) {
    const long long o1 = line % args.y_size[1], o0 = line / args.y_size[1] % args.y_size[0];
    const long long member = line / args.y_size[1] / args.y_size[0];
    for (long long o = 0; o < args.y_size[2]; o += kPixelsOfRun) {
      const long long o_end = min_of(o + kPixelsOfRun, args.y_size[2]);
      const Stored* y = static_cast<const Stored*>(args.y) + place_of(args.y_strides, {member, 0, {o0, o1, o}}, 0);
      for (long long p = o; p < o_end; ++p, y += args.y_strides.spatial[2]) of_y.read(y, pixels.y[p - o]);
      for (long long tap = 0; tap < taps_of(args); ++tap) {
        const long long row = tap / args.filter[2], inner = tap % args.filter[2];
        const long long i0 = o0 * args.stride[0] + row / args.filter[1] * args.dilation[0] - args.pad[0];
        const long long i1 = o1 * args.stride[1] + row % args.filter[1] * args.dilation[1] - args.pad[1];
        if (i0 < 0 || i0 >= args.x_size[0] || i1 < 0 || i1 >= args.x_size[1]) continue;
        const Reach all = reach_of(args, inner), met = {max_of(all.first, o), min_of(all.end, o_end)};
        const long long i2 = met.first * args.stride[2] + inner * args.dilation[2] - args.pad[2];
        const Stored* x = static_cast<const Stored*>(args.x) + place_of(args.x_strides, {member, 0, {i0, i1, i2}}, 0);
        for (long long p = met.first; p < met.end; ++p, x += args.stride[2] * args.x_strides.spatial[2])
          of_x.read(x, pixels.x[p - o]);
        pixels.add_all<kMostFactors>((int)(met.first - o), (int)(met.end - o), (int)shape.width, lanes,
                                     sums + tap * shape.width * kBlockChannels);
      }
    }
  }
}

long long scratch_size(const void* args_pointer) {
  const Shape shape(arguments(args_pointer));
  return 4 * (shape.factors * kBlockChannels + kLanes) + (shape.width > 1 ? (long long)sizeof(Pixels) : 0);
}

void run_weight(const void* args_pointer, long long task, void* memory) {
  const TsConvArgs& args = arguments(args_pointer);
  const Shape shape(args);
  const long long split = task / shape.blocks, channel = task % shape.blocks * kBlockChannels;
  const int channels = (int)min_of(kBlockChannels, channels_of(args) - channel);
  // The last block, and the last vector, begin earlier where that makes them whole: by so many channels.
  const auto earlier = [&](long long first, int size) {
    const long long end = channels_of(args);
    return (int)(first + size > end && end >= size ? first + size - end : 0);
  };
  const int shift = earlier(channel, kBlockChannels), count = channels + shift;
  const long long begin = channel - shift;
  int shifts[kBlockVectors];
  for (int& each : shifts) each = shift;
  float* const sums = static_cast<float*>(memory);
  zero_words(sums, (int)shape.factors * kBlockChannels);
  if (shape.width > 1) {
    Pixels& pixels = *reinterpret_cast<Pixels*>(sums + shape.factors * kBlockChannels + kLanes);
    add_lines_of_groups(args, shape, split, begin, count, pixels, sums);
  } else if (count == kBlockChannels && args.x_strides.group == 1 && args.y_strides.group == 1) {
    add_lines<kBlockVectors>(args, shape, split, begin, kLanes, sums);
  } else {
    for (int v = 0; v * kLanes < channels; ++v) {
      const long long first = channel + v * kLanes;
      shifts[v] = earlier(first, kLanes);
      add_lines<1>(args, shape, split, first - shifts[v], (int)min_of(kLanes, channels - v * kLanes + shifts[v]),
                   sums + v * kLanes);
    }
  }
  float* const to = static_cast<float*>(args.workspace) + shape.partial(split) + channel;
  for (long long f = 0; f < shape.factors; ++f)
    for (int v = 0; v * kLanes < channels; ++v)
      store(to + f * shape.channels + v * kLanes, load(sums + f * kBlockChannels + v * kLanes + shifts[v]));
}

// A task adds the partials of a vector of channels in their order, and writes their weights.
long long reduce_tasks(const void* args_pointer) {
  return Shape(arguments(args_pointer)).channels / kLanes;
}

void run_reduce(const void* args_pointer, long long task, void*) {
  const TsConvArgs& args = arguments(args_pointer);
  const Shape shape(args);
  const TsConvStrides& s = args.w_strides;
  const long long channel = task * kLanes, width = shape.width;
  const int channels = (int)min_of(kLanes, channels_of(args) - channel);
  const float* const partials = static_cast<const float*>(args.workspace) + channel;
  // A channel's weights that lie evenly are written as lines. The stride of a dimension's only member says nothing.
  const int inner = args.filter[2] > 1 ? 2 : args.filter[1] > 1 ? 1 : 0;
  const long long step = width == 1 ? s.spatial[inner] : s.channel;
  const auto lies = [&](int dim, long long within) {
    return args.filter[dim] == 1 || s.spatial[dim] == within * width * step;
  };
  const bool even = lies(2, 1) && lies(1, args.filter[2]) && lies(0, args.filter[1] * args.filter[2]);
  for (long long first = 0; first < shape.factors; first += kLanes) {
    const int count = (int)min_of(kLanes, shape.factors - first);
    float lines[kLanes * kLanes] = {}, turned[kLanes * kLanes + kLanes];
    for (int f = 0; f < count; ++f) {
      Vec sum = {};
      for (long long split = 0; split < shape.splits; ++split)
        sum = sum + load(partials + shape.partial(split) + (first + f) * shape.channels);
      store(lines + f * kLanes, sum);
    }
    transpose_block(lines, kLanes, turned, kLanes);
    for (int l = 0; l < channels; ++l) {
      const long long at = (channel + l) / width * s.group + (channel + l) % width * s.batch;
      if (even) {
        write_stepped(args.out_type, turned + l * kLanes, count, args.out, at + first * step, step);
        continue;
      }
      for (int f = 0; f < count; ++f) {
        const long long tap = (first + f) / width, h = tap / args.filter[2];
        write_stepped(args.out_type, turned + l * kLanes + f, 1, args.out,
                      at + h / args.filter[1] * s.spatial[0] + h % args.filter[1] * s.spatial[1] +
                          tap % args.filter[2] * s.spatial[2] + (first + f) % width * s.channel,
                      1);
      }
    }
  }
}
