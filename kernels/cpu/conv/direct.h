// Forward and backward data with pixels along the lanes, for groups of few channels or few filters, which would leave
// most lanes empty. A task copies what some lines of pixels meet of the image, words of channels apart; a product is a
// vector of pixels by one weight.

constexpr int kMostPositions = 1024;               // whose sums a task holds
constexpr int kMostColumns = 48;                   // channels of the result
constexpr int kMostRows = 32;                      // words of the image's channels that are copied at a time
constexpr long long kMostImage = 1 << 16;          // and all of them, but for one
constexpr int kMostFilters = 4;                    // that share the loads of the image
constexpr int kMostVectors = 8;                    // of pixels that are computed together
constexpr int kSumsRow = kMostPositions + kLanes;  // no power of two, which would compete for few sets of a cache

// Vectors of pixels whose sums are in registers, beside a weight of each filter and a vector of the image.
constexpr int vectors_of(int filters) {
  constexpr int kRegisters = kAccumulators / 3 * 4;
  return (int)min_of(kMostVectors, (kRegisters - 1 - filters) / filters);
}

// Where a tap meets position 0 of a plane, and its weights.
struct Tap {
  int image, weights;
};

// Tasks by phase, line of the outer axis, run of lines, run of pixels of a line, block of groups and of columns.
struct Grid {
  long long phases, outer, lines, pixels, groups, words, columns;
  long long lines_of_task, pixels_of_task, groups_of_task, columns_of_task;
  long long plane;  // of a word, at most
  long long rows;   // words that are copied at a time, at most

  explicit Grid(const TsConvArgs& args)
      : phases(phases_of(args, 0) * phases_of(args, 1) * phases_of(args, 2)),
        groups(args.groups),
        words(PackedWeights(args).words),
        columns(result_channels(args)) {
    const Phase first = phase_of(args, 0);  // has as many pixels as any
    outer = args.batch * first.axis[0].count;
    lines = first.axis[1].count;
    pixels = first.axis[2].count;
    pixels_of_task = min_of(pixels, blocks_of(blocks_of(pixels, blocks_of(pixels, kMostPositions)), kLanes) * kLanes);
    const long long most = (kMostPositions - pixels_of_task) / length(args, 2, pixels_of_task) + 1;
    lines_of_task = blocks_of(lines, blocks_of(lines, most));
    plane = args.filter[0] * remainders(args, 1) * remainders(args, 2) * length(args, 1, lines_of_task) *
                length(args, 2, pixels_of_task) +
            kLanes;
    rows = max_of(1, min_of(kMostRows, kMostImage / plane));
    groups_of_task = max_of(1, min_of(groups, min_of(rows / max_of(1, words), kMostColumns / max_of(1, columns))));
    columns_of_task = columns <= kMostColumns
                          ? columns
                          : blocks_of(blocks_of(columns, blocks_of(columns, kMostColumns)), kLanes) * kLanes;
    while (tasks() < 4 * args.threads && lines_of_task > 1) lines_of_task = blocks_of(lines_of_task, 2);
    while (tasks() < 4 * args.threads && groups_of_task > 1) groups_of_task = blocks_of(groups_of_task, 2);
  }

  // No phase has more, or longer ones.
  [[nodiscard]] static long long remainders(const TsConvArgs& args, int d) {
    return kForward ? min_of(args.stride[d], (args.filter[d] - 1) * args.dilation[d] + 1) : 1;
  }
  [[nodiscard]] static long long length(const TsConvArgs& args, int d, long long count) {
    return count + (args.filter[d] - 1) * args.dilation[d] / args.stride[d];
  }
  [[nodiscard]] long long column_blocks() const { return blocks_of(columns, columns_of_task); }
  [[nodiscard]] long long group_blocks() const { return blocks_of(groups, groups_of_task); }
  [[nodiscard]] long long tasks() const {
    return phases * outer * blocks_of(lines, lines_of_task) * blocks_of(pixels, pixels_of_task) * group_blocks() *
           column_blocks();
  }
};

// A thread's own memory.
struct Scratch : Arrays {
  float *sums, *image, *lines, *offsets;
  Tap* taps;

  Scratch(const TsConvArgs& args, const Grid& grid, void* memory) : Arrays(memory) {
    sums = take<float>((kMostColumns + kLanes) * kSumsRow);
    image = take<float>(grid.rows * grid.plane);
    lines = take<float>(kLanes * (kMostColumns + kLanes));
    offsets = take<float>(kOffset ? kMostColumns + kLanes : 0);
    taps = take<Tap>(taps_of(args));
  }
};

long long scratch_size(const void* args_pointer) {
  const TsConvArgs& args = arguments(args_pointer);
  return (long long)Scratch(args, Grid(args), nullptr).end;
}

long long data_tasks(const void* args_pointer) {
  const TsConvArgs& args = arguments(args_pointer);
  return args.batch == 0 ? 0 : Grid(args).tasks();
}

// Planes of words by weights.
struct Product {
  const float* image;
  const float* weights;
  long long plane, word_weights;  // from one word to the next
  long long words;
  const Tap* taps;
  long long tap_count;
  bool first, last;      // of the blocks of words
  const float* offsets;  // of the sums, with kOffset
};

template <int kFilters, int kVectors>
[[gnu::noinline]] void multiply_pixels(const Product& p, long long position, long long filter, float* sums) {
  Sum c[kFilters][kVectors];
#pragma GCC unroll 8
  for (int f = 0; f < kFilters; ++f) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      if (!p.first)
        c[f][v] = (Sum)load(sums + f * kSumsRow + v * kLanes);
      else if constexpr (kOffset)
        c[f][v] = (Sum)splat(p.offsets[f]);
      else
        c[f][v] = fresh_zero<Sum>();
    }
  }
  const float *image = p.image + position, *weights = p.weights + filter;
  for (long long w = 0; w < p.words; ++w, image += p.plane, weights += p.word_weights)
    for (long long t = 0; t < p.tap_count; ++t) {
      const float *x = image + p.taps[t].image, *b = weights + p.taps[t].weights;
      Vec y[kFilters];
#pragma GCC unroll 8
      for (int f = 0; f < kFilters; ++f) y[f] = splat(b[f]);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        Vec pixels = load(x + v * kLanes);
        if constexpr (kFilters > 1) asm("" : "+v"(pixels));  // g++ would read it again for each filter
#pragma GCC unroll 8
        for (int f = 0; f < kFilters; ++f) c[f][v] = multiply_add(pixels, y[f], c[f][v]);
      }
    }
#pragma GCC unroll 8
  for (int f = 0; f < kFilters; ++f) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      Vec sum = (Vec)c[f][v];
      if constexpr (kInteger)
        if (p.last) sum = __builtin_convertvector(c[f][v], Vec);
      store(sums + f * kSumsRow + v * kLanes, sum);
    }
  }
}

// Fewer vectors than the most are computed by a body of their own.
template <int kFilters, int kVectors>
inline void multiply_vectors(const Product& p, long long position, int vectors, long long filter, float* sums) {
  if constexpr (kVectors > 1) {
    if (vectors < kVectors) return multiply_vectors<kFilters, kVectors - 1>(p, position, vectors, filter, sums);
  }
  multiply_pixels<kFilters, kVectors>(p, position, filter, sums);
}

template <int kFilters>
inline void multiply_filters(const Product& p, long long positions, long long filter, float* sums) {
  constexpr int kMost = vectors_of(kFilters);
  const long long all = blocks_of(positions, kLanes), blocks = blocks_of(all, kMost);
  long long first = 0;
  for (long long b = 0; b < blocks; ++b) {  // as even as can be
    const long long count = (all - first) / (blocks - b);
    multiply_vectors<kFilters, kMost>(p, first * kLanes, (int)count, filter, sums + first * kLanes);
    first += count;
  }
}

inline void multiply_columns(Product p, long long positions, long long columns, float* sums) {
  const long long blocks = blocks_of(columns, kMostFilters);
  long long first = 0;
  for (long long b = 0; b < blocks; ++b) {
    const long long count = (columns - first) / (blocks - b);
    float* const to = sums + first * kSumsRow;
    static_assert(kMostFilters == 4);
    if (count == 4) multiply_filters<4>(p, positions, first, to);
    if (count == 3) multiply_filters<3>(p, positions, first, to);
    if (count == 2) multiply_filters<2>(p, positions, first, to);
    if (count == 1) multiply_filters<1>(p, positions, first, to);
    first += count;
    if constexpr (kOffset) p.offsets += count;
  }
}

// Sums of some groups' columns, one behind another.
struct Results {
  const TsConvArgs& args;
  const Block& block;
  long long group, groups, column, columns;  // columns of each group
  float* sums;
  float* lines;

  [[nodiscard]] long long rows() const { return groups * columns; }

  void write() const {
    const TsConvStrides& s = result_strides(args);
    const long long step = block.pixels.axis.step * s.spatial[2];
    const bool neighbours = s.channel == 1 && (groups == 1 || s.group == columns);
    const bool plain = apply_by_channel();
    for (long long l = 0; l < block.lines.count; ++l) {
      const float* const from = sums + l * block.pitch();
      if (plain && step == 1)
        write_along_pixels(l, from);
      else if (plain && neighbours && rows() <= kLanes && step == rows())
        write_as_run(l, from);
      else if (plain && neighbours && rows() >= kLanes)
        write_neighbours(l, from);
      else
        write_by_pixels(l, from, plain);
    }
  }

 private:
  // Passes the sums through the epilogue's operations; not where one of them reads a tensor.
  [[nodiscard]] bool apply_by_channel() const {
    int count = 0;
    for (; count < TS_GEMM_MAX_OPERATIONS && args.operations[count] != TS_END; ++count)
      if (args.operations[count] == TS_ADD || args.operations[count] == TS_MULTIPLY) return false;
    const int positions = (int)block.positions();
    for (long long r = 0; count > 0 && r < rows(); ++r) {
      float* const row = sums + r * kSumsRow;
      const long long channel = (group + r / columns) * result_channels(args) + column + r % columns;
      const auto change = [&](auto f) {
        for (int i = 0; i < positions; i += kLanes) store(row + i, f(load(row + i)));
      };
      for (int o = 0; o < count; ++o) {
        const TsConvOperand& operand = args.operand[o];
        if (args.operations[o] == TS_BIAS) {
          const Vec bias = splat(read_one(args.bias_type, operand.data, channel));
          change([&](Vec x) { return x + bias; });
        } else if (args.operations[o] == TS_SCALE_N) {
          const Vec scale = splat(read_one(TS_FP32, operand.data, channel));
          change([&](Vec x) { return x * scale; });
        } else if (args.operations[o] == TS_CLAMP) {
          change([&](Vec x) { return clamped(x, operand); });
        } else {
          apply_function(args.operations[o], row, positions);
        }
      }
    }
    return true;
  }

  [[nodiscard]] Pixel pixel(long long line, long long i, long long of_group) const {
    const Axis* const axis = block.phase.axis;
    return {block.member,
            of_group,
            {axis[0].first + block.outer * axis[0].step, axis[1].first + (block.lines.first + line) * axis[1].step,
             axis[2].first + (block.pixels.first + i) * axis[2].step}};
  }

  // The pixels of a line are neighbours.
  void write_along_pixels(long long line, const float* from) const {
    for (long long g = 0; g < groups; ++g)
      for (long long c = 0; c < columns; ++c, from += kSumsRow)
        write_line(args.out_type, from, (int)block.pixels.count, args.out,
                   place_of(result_strides(args), pixel(line, 0, group + g), column + c));
  }

  // Nothing lies between the columns of one pixel and those of the next.
  void write_as_run(long long line, const float* from) const {
    const long long first = place_of(result_strides(args), pixel(line, 0, group), column);
    for (long long i = 0; i < block.pixels.count; i += kLanes) {
      float turned[kLanes * kLanes];
      transpose_block(from + i, kSumsRow, turned, kLanes);
      for (int p = 0; p < kLanes; ++p) store(lines + p * rows(), load(turned + p * kLanes));
      write_line(args.out_type, lines, (int)(min_of(kLanes, block.pixels.count - i) * rows()), args.out,
                 first + i * rows());
    }
  }

  // kLanes pixels from i on, one behind another, `row` apart.
  void turn_rows(const float* from, long long i, int row) const {
    for (int c = 0; c < row; c += kLanes) transpose_block(from + c * kSumsRow + i, kSumsRow, lines + c, row);
  }

  // Lines of a vector's columns at least, of which the last vector overlaps the one before.
  void write_neighbours(long long line, const float* from) const {
    const TsConvStrides& s = result_strides(args);
    const int count = (int)rows(), row = round_up(count, kLanes);
    const long long first = place_of(s, pixel(line, 0, group), column), step = block.pixels.axis.step * s.spatial[2];
    with_result_type(args.out_type, [&]<class T>(T) {
      auto* to = static_cast<typename T::Type*>(args.out) + first;
      for (long long i = 0; i < block.pixels.count; i += kLanes) {
        turn_rows(from, i, row);
        for (int p = 0; p < (int)min_of(kLanes, block.pixels.count - i); ++p, to += step)
          for (int c = 0; c < count; c += kLanes) {
            const int at = (int)min_of(c, count - kLanes);
            store_floats<T::kElement, kLanes>(to + at, load(lines + p * row + at));
          }
      }
    });
  }

  // Whether groups follow one another evenly in the result and in all tensors that the epilogue reads.
  [[nodiscard]] bool is_even() const {
    const auto even = [&](const TsConvStrides& s) { return groups == 1 || s.group == columns * s.channel; };
    bool all = even(result_strides(args));
    for (int i = 0; i < TS_GEMM_MAX_OPERATIONS && args.operations[i] != TS_END; ++i)
      if (args.operations[i] == TS_ADD || args.operations[i] == TS_MULTIPLY) all = all && even(args.operand[i].strides);
    return all;
  }

  // Of any strides, with what is left of the epilogue, if something is.
  void write_by_pixels(long long line, const float* from, bool plain) const {
    TsConvArgs rest = args;
    if (plain) rest.operations[0] = TS_END;
    const int row = round_up((int)rows(), kLanes);
    const bool even = is_even();
    const auto unchanged = [](Vec sum, int) { return sum; };
    for (long long i = 0; i < block.pixels.count; i += kLanes) {
      turn_rows(from, i, row);
      const int some = (int)min_of(kLanes, block.pixels.count - i);
      for (int p = 0; p < some; p += kResultLines)
        for (long long g = 0; g < (even ? 1 : groups); ++g) {
          ResultLines result;
          result.count = (int)min_of(kResultLines, some - p);
          for (int r = 0; r < result.count; ++r) result.pixel[r] = pixel(line, i + p + r, group + g);
          finish_lines(rest, result_strides(args), result_channels(args), result, column,
                       (int)(even ? rows() : columns), lines + p * row + g * columns, row, unchanged);
        }
    }
  }
};

// The taps of a phase: where they meet a block's positions, and their weights. Their number.
inline long long list_taps(const TsConvArgs& args, const Block& block, const PackedWeights& packed, Tap* to) {
  const Axis* const axis = block.phase.axis;
  const auto tap = [&](int d, long long i) { return axis[d].tap_first + i * axis[d].tap_step; };
  long long count = 0;
  for (long long i = 0; i < axis[0].taps; ++i)
    for (long long j = 0; j < axis[1].taps; ++j)
      for (long long k = 0; k < axis[2].taps; ++k)
        to[count++] = {(int)block.place(i, j, k),
                       (int)(((tap(0, i) * args.filter[1] + tap(1, j)) * args.filter[2] + tap(2, k)) * packed.columns)};
  return count;
}

// -128 times the sums of a group's columns of weights, of all words and taps. (A template, because only kernels that
// need it have this multiplication step.)
template <class V = Vec>
void sum_weights(const float* weights, const PackedWeights& packed, long long columns, const Tap* taps, long long count,
                 float* to) {
  for (long long c = 0; c < columns; c += kLanes) {
    Sum sum = {};
    for (long long w = 0; w < packed.words; ++w)
      for (long long t = 0; t < count; ++t)
        sum = multiply_add((V)splat(0x01010101), (V)load(weights + w * packed.of_word() + taps[t].weights + c), sum);
    store(to + c, (V)(sum * -128));
  }
}

void run_data(const void* args_pointer, long long task, void* memory) {
  const TsConvArgs& args = arguments(args_pointer);
  const Grid grid(args);
  const Scratch w(args, grid, memory);
  const PackedWeights packed(args);
  TaskDigits digits{task};
  const long long column = digits.next(grid.column_blocks()) * grid.columns_of_task;
  const long long group = digits.next(grid.group_blocks()) * grid.groups_of_task;
  const long long pixel = digits.next(blocks_of(grid.pixels, grid.pixels_of_task)) * grid.pixels_of_task;
  const long long line = digits.next(blocks_of(grid.lines, grid.lines_of_task)) * grid.lines_of_task;
  const long long outer = digits.next(grid.outer);
  const Phase phase = phase_of(args, digits.rest);
  const Axis* const axis = phase.axis;
  if (outer >= args.batch * axis[0].count || line >= axis[1].count || pixel >= axis[2].count) return;
  const Block block = {phase, outer / axis[0].count, outer % axis[0].count,
                       Stretch(axis[1], line, min_of(grid.lines_of_task, axis[1].count - line)),
                       Stretch(axis[2], pixel, min_of(grid.pixels_of_task, axis[2].count - pixel))};
  const long long groups = min_of(grid.groups_of_task, args.groups - group);
  const long long columns = min_of(grid.columns_of_task, grid.columns - column);
  const long long positions = block.positions(), plane = block.plane();
  const long long taps = list_taps(args, block, packed, w.taps);
  const float* const weights = static_cast<const float*>(args.workspace) + column;

  const Tensor image = {static_cast<const Stored*>(kForward ? args.x : args.y), image_strides(args),
                        image_channels(args)};

  // Groups whole, or one group's words some at a time.
  const long long words = groups > 1 ? packed.words : max_of(1, min_of(grid.rows, packed.words));
  if (taps == 0 || packed.words == 0)
    for (long long r = 0; r < groups * columns; ++r) zero_words(w.sums + r * kSumsRow, (int)positions);
  for (long long word = 0; word < packed.words && taps > 0; word += words) {
    const ImageWords some = {group, groups, word, min_of(words, packed.words - word)};
    copy_image(block, image, some, w.image);
    for (long long g = 0; g < groups; ++g) {
      if constexpr (kOffset)
        if (word == 0) sum_weights(weights + packed.place(group + g, 0), packed, columns, w.taps, taps, w.offsets);
      multiply_columns({w.image + g * some.words * plane, weights + packed.place(group + g, word), plane,
                        packed.of_word(), some.words, w.taps, taps, word == 0, word + words >= packed.words, w.offsets},
                       positions, columns, w.sums + g * columns * kSumsRow);
    }
  }
  Results{args, block, group, groups, column, columns, w.sums, w.lines}.write();
}
