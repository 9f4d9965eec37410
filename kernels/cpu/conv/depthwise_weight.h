// Backward weight of a depthwise convolution: groups of one channel lie along the lanes. A task adds up lines of pixels
// of y for a block of groups, and leaves its sums in the workspace; the runs of lines are then added in their order.
// How lines are cut depends on the problem alone.

constexpr long long kTasksWanted = 64;   // lines are cut until there are about so many tasks
constexpr long long kLeastPixels = 512;  // but not into less
constexpr int kBlockVectors = 2;         // of groups in a task
constexpr int kBlockGroups = kBlockVectors * kLanes;
constexpr int kMostTaps = kAccumulators / 3;  // of one row of the filter that share the loads of y

struct Shape {
  long long taps, groups, blocks;  // groups up to whole vectors
  long long lines, splits, split_lines;

  explicit Shape(const TsConvArgs& args)
      : taps(taps_of(args)),
        groups(blocks_of(args.groups, kLanes) * kLanes),
        blocks(blocks_of(args.groups, kBlockGroups)),
        lines(args.batch * args.y_size[0] * args.y_size[1]) {
    const long long pixels = lines * args.y_size[2];
    splits = max_of(1, min_of(blocks_of(kTasksWanted, blocks), pixels / kLeastPixels));
    split_lines = max_of(1, blocks_of(lines, splits));
    splits = max_of(1, blocks_of(lines, split_lines));
  }
  [[nodiscard]] long long partial(long long split) const { return split * taps * groups; }
};

long long workspace_size(const void* args_pointer) {
  const Shape shape(arguments(args_pointer));
  return 4 * shape.partial(shape.splits);
}

long long scratch_size(const void* args_pointer) {
  return 4 * taps_of(arguments(args_pointer)) * kBlockGroups;
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

// A line of y and the line of the image that a row of taps meets, for kVectors vectors of groups (of one: `groups`).
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
      for (int v = 0; v < kVectors; ++v) sum[t][v] = load(sums + t * kBlockGroups + v * kLanes);
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
      for (int v = 0; v < kVectors; ++v) store(sums + t * kBlockGroups + v * kLanes, sum[t][v]);
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
      float* const of_tap = sums + t * kBlockGroups;
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
                                            sums + (row * args.filter[2] + tap) * kBlockGroups);
    }
  }
}

void run_weight(const void* args_pointer, long long task, void* memory) {
  const TsConvArgs& args = arguments(args_pointer);
  const Shape shape(args);
  const long long split = task / shape.blocks, group = task % shape.blocks * kBlockGroups;
  const int groups = (int)min_of(kBlockGroups, args.groups - group);
  float* const sums = static_cast<float*>(memory);
  zero_words(sums, (int)shape.taps * kBlockGroups);
  if (groups == kBlockGroups && args.x_strides.group == 1 && args.y_strides.group == 1) {
    add_lines<kBlockVectors>(args, shape, split, group, kLanes, sums);
  } else {
    for (int v = 0; v * kLanes < groups; ++v)
      add_lines<1>(args, shape, split, group + v * kLanes, (int)min_of(kLanes, groups - v * kLanes), sums + v * kLanes);
  }
  float* const to = static_cast<float*>(args.workspace) + shape.partial(split) + group;
  for (long long tap = 0; tap < shape.taps; ++tap)
    for (int v = 0; v * kLanes < groups; ++v)
      store(to + tap * shape.groups + v * kLanes, load(sums + tap * kBlockGroups + v * kLanes));
}

// A task adds the partials of a vector of groups in their order, and writes their weights.
long long reduce_tasks(const void* args_pointer) {
  return blocks_of(arguments(args_pointer).groups, kLanes);
}

void run_reduce(const void* args_pointer, long long task, void*) {
  const TsConvArgs& args = arguments(args_pointer);
  const Shape shape(args);
  const TsConvStrides& s = args.w_strides;
  const long long group = task * kLanes;
  for (long long tap = 0; tap < shape.taps; ++tap) {
    Vec sum = {};
    for (long long split = 0; split < shape.splits; ++split)
      sum = sum + load(static_cast<const float*>(args.workspace) + shape.partial(split) + tap * shape.groups + group);
    float line[kLanes];
    store(line, sum);
    const long long h = tap / args.filter[2];
    write_stepped(args.out_type, line, (int)min_of(kLanes, args.groups - group), args.out,
                  group * s.group + h / args.filter[1] * s.spatial[0] + h % args.filter[1] * s.spatial[1] +
                      tap % args.filter[2] * s.spatial[2],
                  s.group);
  }
}
