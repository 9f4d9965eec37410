// Backward weight with pixels along the lanes, for groups of few channels or few filters: a sum is a vector of partial
// sums of one weight, and its lanes are added up at the end. A task copies what some lines of pixels meet of x, and
// these lines of y, channels apart, for some channels and filters and a run of lines, and leaves its sums in the
// workspace; runs are then added in their order. How lines are cut depends on the problem alone.

static_assert(kPack == 1);

constexpr long long kTasksWanted = 64;           // lines are cut until there are about so many tasks
constexpr long long kLeastPixels = 1024;         // but not into less
constexpr int kMostPositions = 1024;             // that are copied at a time
constexpr int kMostFilters = kAccumulators / 6;  // that share the loads of x
constexpr int kMostTogether = 12;                // weights of each of these
constexpr long long kMostRows = 32;              // channels of x
constexpr long long kMostColumns = 48;           // and of y
constexpr long long kMostImage = 1 << 16;        // floats of x, but for one channel
constexpr long long kMostSums = 1 << 16;         // of a task, but for one channel

// Weights of each filter whose sums are in registers, beside a vector of each filter and one of x.
constexpr int weights_of(int filters) {
  constexpr int kRegisters = kAccumulators / 3 * 4;
  return (int)min_of(kMostTogether, (kRegisters - 1 - filters) / filters);
}

// The axes of x as pixels of y meet it, and of y alone.
inline Phase phase_of_x(const TsConvArgs& args) {
  Phase phase = {{}, 0, taps_of(args)};
  for (int d = 0; d < 3; ++d)
    phase.axis[d] = {0, 1, args.y_size[d], args.stride[d], -args.pad[d], args.dilation[d], args.x_size[d],
                     0, 1, args.filter[d]};
  return phase;
}
inline Phase phase_of_y(const TsConvArgs& args) {
  Phase phase = {{}, 0, 1};
  for (int d = 0; d < 3; ++d) phase.axis[d] = {0, 1, args.y_size[d], 1, 0, 0, args.y_size[d], 0, 1, 1};
  return phase;
}

struct Shape {
  long long taps, groups, channels, columns;
  long long lines, pixels;  // of one plane of y
  long long lines_of_chunk, pixels_of_chunk;
  long long groups_of_task, channels_of_task, columns_of_task;
  long long x_plane, y_plane;
  long long all_lines, splits, split_lines;

  explicit Shape(const TsConvArgs& args)
      : taps(taps_of(args)),
        groups(args.groups),
        channels(args.c),
        columns(args.k),
        lines(args.y_size[1]),
        pixels(args.y_size[2]),
        all_lines(args.batch * args.y_size[0] * args.y_size[1]) {
    const auto even = [](long long size, long long most) { return blocks_of(size, blocks_of(size, most)); };
    const auto length = [&](int d, long long count) {
      return count + (args.filter[d] - 1) * args.dilation[d] / args.stride[d];
    };
    const auto remainders = [&](int d) { return min_of(args.stride[d], (args.filter[d] - 1) * args.dilation[d] + 1); };
    pixels_of_chunk = min_of(pixels, blocks_of(even(pixels, kMostPositions), kLanes) * kLanes);
    lines_of_chunk = even(lines, (kMostPositions - pixels_of_chunk) / length(2, pixels_of_chunk) + 1);
    x_plane = args.filter[0] * remainders(1) * remainders(2) * length(1, lines_of_chunk) * length(2, pixels_of_chunk) +
              kLanes;
    y_plane = lines_of_chunk * pixels_of_chunk + kLanes;
    columns_of_task = even(columns, kMostColumns);
    const long long most = min_of(kMostRows, min_of(kMostImage / x_plane, kMostSums / (taps * columns_of_task)));
    channels_of_task = even(channels, max_of(1, most));
    groups_of_task = channels_of_task < channels || columns_of_task < columns
                         ? 1
                         : max_of(1, min_of(groups, min_of(most / channels, kMostColumns / columns)));
    const long long tasks = group_blocks() * column_blocks() * channel_blocks();
    splits = max_of(1, min_of(blocks_of(kTasksWanted, tasks), all_lines * pixels / kLeastPixels));
    split_lines = max_of(1, blocks_of(all_lines, splits));
    splits = max_of(1, blocks_of(all_lines, split_lines));
  }
  [[nodiscard]] long long group_blocks() const { return blocks_of(groups, groups_of_task); }
  [[nodiscard]] long long column_blocks() const { return blocks_of(columns, columns_of_task); }
  [[nodiscard]] long long channel_blocks() const { return blocks_of(channels, channels_of_task); }
  // Sums of a filter, and where they are.
  [[nodiscard]] long long of_filter() const { return taps * channels; }
  [[nodiscard]] long long partial(long long split, long long group, long long column) const {
    return ((split * groups + group) * columns + column) * of_filter();
  }
};

long long workspace_size(const void* args_pointer) {
  const Shape shape(arguments(args_pointer));
  return 4 * (shape.partial(shape.splits, 0, 0) + kLanes);
}

long long weight_tasks(const void* args_pointer) {
  const Shape shape(arguments(args_pointer));
  return shape.splits * shape.group_blocks() * shape.column_blocks() * shape.channel_blocks();
}

// A thread's own memory.
struct Scratch : Arrays {
  float *x, *y, *sums;
  long long* places;  // where pixels meet a channel at a tap

  Scratch(const Shape& shape, void* memory) : Arrays(memory) {
    const long long rows = shape.groups_of_task * shape.channels_of_task;
    x = take<float>(rows * shape.x_plane);
    y = take<float>(shape.groups_of_task * shape.columns_of_task * shape.y_plane);
    sums = take<float>(shape.columns_of_task * rows * shape.taps);
    places = take<long long>(shape.channels_of_task * shape.taps);
  }
};

long long scratch_size(const void* args_pointer) {
  return (long long)Scratch(Shape(arguments(args_pointer)), nullptr).end;
}

constexpr int other_lane(int lane, int step) {
  return lane ^ step;
}
TS_INLINE float sum_of_lanes(Vec x) {
  if constexpr (kLanes == 16) x = x + __builtin_shufflevector(x, x, TS_LANES(other_lane, 8));
  x = x + __builtin_shufflevector(x, x, TS_LANES(other_lane, 4));
  x = x + __builtin_shufflevector(x, x, TS_LANES(other_lane, 2));
  x = x + __builtin_shufflevector(x, x, TS_LANES(other_lane, 1));
  return x[0];
}

// Lines of y and of x, copied.
struct MetLines {
  const float *x, *y;
  long long lines, pixels;
  long long x_line, y_line;  // from one line to the next
  long long y_plane;         // from one filter to the next

  // sums[f][w] += y of filter f times x from places[w] on, over all pixels.
  template <int kFilters, int kWeights>
  [[gnu::noinline]] void add(const long long* places, float* sums, long long sums_row) const {
    Vec c[kFilters][kWeights];
#pragma GCC unroll 8
    for (int f = 0; f < kFilters; ++f) {
#pragma GCC unroll 16
      for (int w = 0; w < kWeights; ++w) c[f][w] = fresh_zero<Vec>();
    }
    const auto step = [&](const float* from_x, const float* from_y, auto part) __attribute__((always_inline)) {
      Vec b[kFilters];
#pragma GCC unroll 8
      for (int f = 0; f < kFilters; ++f) b[f] = part(load(from_y + f * y_plane));
#pragma GCC unroll 16
      for (int w = 0; w < kWeights; ++w) {
        Vec a = part(load(from_x + places[w]));
        if constexpr (kFilters > 1) asm("" : "+v"(a));  // g++ would read it again for each filter
#pragma GCC unroll 8
        for (int f = 0; f < kFilters; ++f) c[f][w] = multiply_add(a, b[f], c[f][w]);
      }
    };
    const long long rest = pixels % kLanes;
    const IVec numbers = IVec TS_LANE_NUMBERS;
    const IVec inside = numbers < splat((int)rest);  // neighbours of a line's end may be infinite or NaN
    for (long long l = 0; l < lines; ++l) {
      const float *from_x = x + l * x_line, *from_y = y + l * y_line;
      for (long long i = 0; i + kLanes <= pixels; i += kLanes) step(from_x + i, from_y + i, [](Vec v) { return v; });
      if (rest > 0)
        step(from_x + pixels - rest, from_y + pixels - rest, [&](Vec v) { return (Vec)((IVec)v & inside); });
    }
#pragma GCC unroll 8
    for (int f = 0; f < kFilters; ++f) {
#pragma GCC unroll 16
      for (int w = 0; w < kWeights; ++w) sums[f * sums_row + w] += sum_of_lanes(c[f][w]);
    }
  }

  // Fewer weights are added up by a body of their own.
  template <int kFilters, int kWeights>
  void add_some(const long long* places, int count, float* sums, long long sums_row) const {
    if constexpr (kWeights > 1) {
      if (count < kWeights) return add_some<kFilters, kWeights - 1>(places, count, sums, sums_row);
    }
    add<kFilters, kWeights>(places, sums, sums_row);
  }

  template <int kFilters>
  void add_all(const long long* places, long long count, float* sums) const {
    constexpr int kMost = weights_of(kFilters);
    const long long blocks = blocks_of(count, kMost);
    long long first = 0;
    for (long long b = 0; b < blocks; ++b) {  // as even as can be
      const long long some = (count - first) / (blocks - b);
      add_some<kFilters, kMost>(places + first, (int)some, sums + first, count);
      first += some;
    }
  }
};

void run_weight(const void* args_pointer, long long task, void* memory) {
  const TsConvArgs& args = arguments(args_pointer);
  const Shape shape(args);
  const Scratch w(shape, memory);
  TaskDigits digits{task};
  const long long channel = digits.next(shape.channel_blocks()) * shape.channels_of_task;
  const long long column = digits.next(shape.column_blocks()) * shape.columns_of_task;
  const long long group = digits.next(shape.group_blocks()) * shape.groups_of_task, split = digits.rest;
  const long long channels = min_of(shape.channels_of_task, shape.channels - channel);
  const long long columns = min_of(shape.columns_of_task, shape.columns - column);
  const long long groups = min_of(shape.groups_of_task, shape.groups - group);
  const Phase x_phase = phase_of_x(args), y_phase = phase_of_y(args);
  const Tensor x = {static_cast<const Stored*>(args.x), args.x_strides, args.c};
  const Tensor y = {static_cast<const Stored*>(args.y), args.y_strides, args.k};
  const long long count = channels * shape.taps, end = min_of(shape.all_lines, (split + 1) * shape.split_lines);
  zero_words(w.sums, (int)(groups * columns * count));

  for (long long line = split * shape.split_lines; line < end;) {
    const long long at = line % shape.lines, plane = line / shape.lines;
    const long long lines = min_of(min_of(shape.lines_of_chunk, shape.lines - at), end - line);
    for (long long pixel = 0; pixel < shape.pixels; pixel += shape.pixels_of_chunk) {
      const long long pixels = min_of(shape.pixels_of_chunk, shape.pixels - pixel);
      const auto block_of = [&](const Phase& phase) {
        return Block{phase, plane / args.y_size[0], plane % args.y_size[0], Stretch(phase.axis[1], at, lines),
                     Stretch(phase.axis[2], pixel, pixels)};
      };
      const Block of_x = block_of(x_phase), of_y = block_of(y_phase);
      copy_image(of_x, x, {group, groups, channel, channels}, w.x);
      copy_image(of_y, y, {group, groups, column, columns}, w.y);
      long long number = 0;
      for (long long t0 = 0; t0 < args.filter[0]; ++t0)
        for (long long t1 = 0; t1 < args.filter[1]; ++t1)
          for (long long t2 = 0; t2 < args.filter[2]; ++t2)
            for (long long c = 0; c < channels; ++c) w.places[number++] = of_x.place(t0, t1, t2) + c * of_x.plane();
      const bool joined = of_x.pitch() == of_y.pitch();  // nothing lies between lines
      for (long long g = 0; g < groups; ++g)
        for (long long f = 0; f < columns;) {
          const MetLines met = {w.x + g * channels * of_x.plane(),
                                w.y + (g * columns + f) * of_y.plane(),
                                joined ? 1 : lines,
                                joined ? lines * pixels : pixels,
                                of_x.pitch(),
                                of_y.pitch(),
                                of_y.plane()};
          float* const sums = w.sums + (g * columns + f) * count;
          const long long some = blocks_of(columns - f, blocks_of(columns - f, kMostFilters));
          static_assert(kMostFilters <= 4);
          if (some == 4) met.add_all<4>(w.places, count, sums);
          if (some == 3) met.add_all<3>(w.places, count, sums);
          if (some == 2) met.add_all<2>(w.places, count, sums);
          if (some == 1) met.add_all<1>(w.places, count, sums);
          f += some;
        }
    }
    line += lines;
  }

  for (long long g = 0; g < groups; ++g)
    for (long long f = 0; f < columns; ++f) {
      const float* from = w.sums + (g * columns + f) * count;
      float* to = static_cast<float*>(args.workspace) + shape.partial(split, group + g, column + f) + channel;
      for (long long t = 0; t < shape.taps; ++t, from += channels, to += shape.channels)
        for (long long c = 0; c < channels; ++c) to[c] = from[c];  // what lies behind is of other tasks
    }
}

// A task adds up the partial sums of a filter, in their order, and writes its weights.
long long reduce_tasks(const void* args_pointer) {
  const Shape shape(arguments(args_pointer));
  return shape.groups * shape.columns;
}

void run_reduce(const void* args_pointer, long long task, void*) {
  const TsConvArgs& args = arguments(args_pointer);
  const TsConvStrides& s = args.w_strides;
  const Shape shape(args);
  const long long group = task / shape.columns, column = task % shape.columns;
  const long long first = group * s.group + column * s.batch;
  const float* const partials = static_cast<const float*>(args.workspace);
  constexpr int kLine = 512;
  float line[kLine + kLanes];
  const auto add = [&](long long from, int count) {
    for (int i = 0; i < count; i += kLanes) {
      Vec sum = {};
      for (long long split = 0; split < shape.splits; ++split)
        sum = sum + load(partials + shape.partial(split, group, column) + from + i);
      store(line + i, sum);
    }
  };
  bool dense = s.channel == 1 || shape.channels == 1;
  long long step = shape.channels;
  for (int d = 2; d >= 0; --d) {
    dense = dense && (args.filter[d] == 1 || s.spatial[d] == step);
    step *= args.filter[d];
  }
  const long long lines = dense ? 1 : shape.taps, length = shape.of_filter() / lines;
  for (long long l = 0; l < lines; ++l)
    for (long long i = 0; i < length; i += kLine) {
      const int count = (int)min_of(kLine, length - i);
      add(l * length + i, count);
      if (dense)
        write_line(args.out_type, line, count, args.out, first + i);
      else
        write_stepped(args.out_type, line, count, args.out, first + tap_place(args, l) + i * s.channel, s.channel);
    }
}
