// Forward and backward data as one product: pixels of the result by its channels, over taps and channels of the image.
// A task computes a run of pixels of one phase, a block of (tap, channel) at a time: the image's pixels that they meet,
// read as they lie or brought into rows of words, times the packed weights.

// Pixels of a line of x whose sums overlap, with what lies beside them.
constexpr int kMostPixels = 2048;
constexpr int kLineSums = (kMostPixels + 2 * kMostOverlapped) * kLanes / 2 + 2 * kMostOverlapped + 4 * kLanes;

// A thread's own memory.
struct Scratch : Arrays {
  float *rows, *image_lines, *sums, *line, *weights, *lines;
  int* offsets;  // -128 times the sums of the columns' weights
  Segment* segments;
  Run<PlacedRows>* runs;
  RowPlaces* places;
  Stored* raised;
  const float** table;  // where the rows of words begin: kPlaces for each segment, or one for all

  explicit Scratch(void* memory) : Arrays(memory) {
    rows = take<float>(kFewRows * kRowWords + 2 * kLanes);
    image_lines = take<float>(kForward ? kLineWords : 0);
    sums = take<float>(kTileM * kTileN + kLanes);
    line = take<float>(kForward ? 0 : kLineSums);
    weights = take<float>(kTileK * kPanel);
    lines = take<float>((kPanel + kLanes) * kLanes);
    offsets = take<int>(kOffset ? kTileN : 0);
    segments = take<Segment>(kMaxSegments);
    runs = take<Run<PlacedRows>>(kMaxSegments);
    places = take<RowPlaces>(1);
    raised = take<Stored>(kMostRaised + kChunk);
    table = take<const float*>(kPlaces * (kReadsImage || kForward ? kMaxSegmentsInPlace : 1));
  }
};

long long scratch_size(const void*) {
  return (long long)Scratch(nullptr).end;
}

// Tasks by group, phase, run of rows and run of panels, both runs as even as can be. Smaller ones where there are few
// tasks: the longer side is cut. Where a task has all rows, so that nobody else reads its panels, it packs them itself,
// a block at a time; then only the columns are cut.
struct Grid {
  long long phases, panels, most_phase_rows = 0;
  int most_rows = kTileM, task_panels;
  bool tasks_pack;

  explicit Grid(const Call& args)
      : phases(phases_of(args, 0) * phases_of(args, 1) * phases_of(args, 2)), panels(PackedWeights(args).panels()) {
    for (long long p = 0; p < phases; ++p) most_phase_rows = max_of(most_phase_rows, phase_of(args, p).rows);
    tasks_pack = args.overlapped == 0 && !args.packed_w && most_phase_rows <= kFewRows &&
                 (args.threads == 1 || args.groups * panels >= 2 * args.threads);
    if (tasks_pack) most_rows = kFewRows;
    const int most_panels =
        (int)min_of(kTileN, kTileM * kTileN / max_of(1, round_up((int)min_of(most_phase_rows, most_rows), kRows))) /
        kPanel;
    task_panels = even_part(panels, most_panels, 1);
    while (args.threads > 1 && tasks(args) < 4 * args.threads) {
      const bool wide = task_panels > 1 && (tasks_pack || task_panels * kPanel > most_rows);
      if (!wide && (tasks_pack || most_rows <= 2 * kRows)) break;
      if (wide)
        task_panels = even_part(panels, (task_panels + 1) / 2, 1);
      else
        most_rows = round_up(most_rows / 2, kRows);
    }
  }

  // Of a run in parts of at most `most`, which is a multiple of `step`: the size of the parts.
  [[nodiscard]] static int even_part(long long size, int most, int step) {
    const long long parts = max_of(1, blocks_of(size, most));
    return round_up((int)blocks_of(size, parts), step);
  }
  [[nodiscard]] int rows(const Phase& phase) const { return even_part(max_of(1, phase.rows), most_rows, kRows); }
  [[nodiscard]] long long column_blocks() const { return blocks_of(panels, task_panels); }
  [[nodiscard]] long long tasks_of_group(const TsConvArgs& args) const {
    long long row_blocks = 0;
    for (long long p = 0; p < phases; ++p) {
      const Phase phase = phase_of(args, p);
      row_blocks += blocks_of(phase.rows, rows(phase));
    }
    return row_blocks * column_blocks();
  }
  [[nodiscard]] long long tasks(const TsConvArgs& args) const { return args.groups * tasks_of_group(args); }
};

long long workspace_size(const void* args_pointer) {
  const Call args(arguments(args_pointer));
  return Grid(args).tasks_pack ? 0 : PackedWeights(args).bytes(args);
}

long long pack_tasks(const void* args_pointer) {
  const Call args(arguments(args_pointer));
  return Grid(args).tasks_pack ? 0 : pack_parts(args);
}

// Of lines of sums that overlap (data_lines.h, which forward kernels do without).
template <class AnyCall>
long long line_tasks(const AnyCall& args);
template <class AnyCall>
void run_line(const AnyCall& args, long long task, const Scratch& w);

long long data_tasks(const void* args_pointer) {
  const Call args(arguments(args_pointer));
  if constexpr (!kForward)
    if (args.overlapped > 0) return line_tasks(args);
  return args.batch == 0 ? 0 : Grid(args).tasks(args);
}

// From one pixel of a phase to the next in the result; 0 where they are unevenly apart.
inline long long step_of_result(const TsConvArgs& args, const Phase& phase) {
  const TsConvStrides& strides = result_strides(args);
  long long step = 0, pixels = 1;
  for (int d = 2; d >= -1; --d) {
    const long long count = d < 0 ? args.batch : phase.axis[d].count;
    const long long apart = d < 0 ? strides.batch : strides.spatial[d] * phase.axis[d].step;
    if (count == 1) continue;
    if (pixels == 1) step = apart;
    if (apart != step * pixels) return 0;
    pixels *= count;
  }
  return max_of(step, pixels == 1 ? 1 : 0);
}

inline Pixel pixel_of(const Phase& phase, const Place& place, long long group) {
  Pixel pixel = {place.member, group, {}};
  for (int d = 0; d < 3; ++d) pixel.at[d] = phase.axis[d].first + place.i[d] * phase.axis[d].step;
  return pixel;
}

// Finds what rows meet in a block of `count` words, or copies it: runs of words that w.table places, beside packed
// weights, of which the task has packed this block alone or all are there. Their number.
inline int place_block(const ImageRows& image_rows, const PackedWeights& packed, int rows, int segments, int count,
                       bool packs, const Scratch& w) {
  const bool by_lines = image_rows.by_lines &&
                        image_rows.place_lines(*w.places, rows, w.segments, segments, w.table, w.image_lines, w.rows);
  const bool copied = !by_lines && !image_rows.in_place;
  for (int r = 0; copied && r < kPlaces; ++r) w.table[r] = w.rows + r * kRowWords;
  int runs = 0;
  for (int s = 0; s < segments; ++s) {
    const Segment& segment = w.segments[s];
    const long long b = packs ? segment.at : segment.tap * packed.words + segment.word;
    if (!copied) {
      if (!by_lines) image_rows.place(*w.places, rows, segment, w.table + s * kPlaces, w.rows);
      w.runs[runs++] = {{w.table + s * kPlaces, 0}, segment.words, b};
    } else if (runs > 0 && w.runs[runs - 1].b + w.runs[runs - 1].words == b) {
      w.runs[runs - 1].words += segment.words;
    } else {
      w.runs[runs++] = {{w.table, segment.at}, segment.words, b};
    }
  }
  if (copied) {
    for (int s = 0; s < segments; ++s) image_rows.copy(*w.places, rows, w.segments[s], w.rows);
    for (int r = rows; r < round_up(rows, kRows); ++r) zero_words(w.rows + r * kRowWords, count);
  }
  return runs;
}

void run_data(const void* args_pointer, long long task, void* memory) {
  const Call args(arguments(args_pointer));
  const Scratch w(memory);
  if constexpr (!kForward)
    if (args.overlapped > 0) return run_line(args, task, w);
  const Grid grid(args);
  const PackedWeights packed(args);
  const long long in_group = grid.tasks_of_group(args), group = task / in_group;
  const long long first_panel = task % grid.column_blocks() * grid.task_panels;
  const int panels = (int)min_of(grid.task_panels, packed.panels() - first_panel);
  const long long first_column = packed.first(first_panel);
  const int columns = (int)min_of(packed.first(first_panel + panels), result_channels(args)) - (int)first_column;
  long long block = task % in_group / grid.column_blocks(), number = 0;
  Phase phase = phase_of(args, 0);
  for (long long blocks; block >= (blocks = blocks_of(phase.rows, grid.rows(phase))); phase = phase_of(args, ++number))
    block -= blocks;
  const long long first_row = block * grid.rows(phase);
  const int rows = (int)min_of(grid.rows(phase), phase.rows - first_row);
  const Strips strips(rows);
  const long long words = phase.taps * packed.words;
  const int sums_row = grid.task_panels * kPanel;

  find_rows(args, phase, group, first_row, rows, *w.places);

  // Where the result is nothing but the sums, they are added up where it lies.
  const TsConvStrides& strides = result_strides(args);
  const long long result_step = step_of_result(args, phase);
  float* result = nullptr;
  if (!kInteger && args.out_type == TS_FP32 && args.operations[0] == TS_END && strides.channel == 1 &&
      result_step > 0 && words > 0 && columns % kLanes == 0)
    result = static_cast<float*>(args.out) +
             place_of(strides, pixel_of(phase, Place(phase, first_row), group), first_column);

  // Where tasks do not pack, each strip is finished behind its last block, while its sums are in the first-level cache;
  // strips of one block alone then use the same place.
  const bool shares_sums = !grid.tasks_pack && words > 0 && words <= kTileK;
  const auto sums_of = [&](int row) { return w.sums + (shares_sums ? 0 : row * sums_row); };
  if constexpr (kOffset) {
    for (int p = 0; p < panels && !grid.tasks_pack; ++p)
      offsets_of_panel(args, packed, group, first_panel + p, w.offsets + packed.first(first_panel + p) - first_column);
  }
  const auto finish_strip = [&](int strip) {
    const int begin = strips.first(strip), end = strips.first(strip + 1);
    if (result != nullptr && is_whole_strip(end - begin)) return;
    Place at(phase, first_row + begin);
    for (int row = begin; row < end; row += kResultLines) {
      ResultLines lines;
      lines.count = (int)min_of(kResultLines, end - row);
      for (int r = 0; r < lines.count; ++r, at.advance(phase)) lines.pixel[r] = pixel_of(phase, at, group);
      finish_lines(args, strides, result_channels(args), lines, first_column, columns,
                   sums_of(begin) + (row - begin) * sums_row, sums_row, [&](Vec sum, int i) {
                     if constexpr (!kInteger) return sum;
                     if constexpr (kOffset) return __builtin_convertvector((IVec)sum + load(w.offsets + i), Vec);
                     return __builtin_convertvector((IVec)sum, Vec);
                   });
    }
  };

  const ImageRows image_rows(args, phase, packed.words, *w.places, rows, w.raised);
  if (words == 0) zero_words(w.sums, kTileM * kTileN);
  for (long long first = 0; first < words; first += kTileK) {
    const int count = (int)min_of(kTileK, words - first);
    const int segments = cut(args, phase, packed.words, first, count, w.segments);
    const int runs = place_block(image_rows, packed, rows, segments, count, grid.tasks_pack, w);
    const auto multiply = [&](int p, const float* b, int strip) {
      const long long panel = first_panel + p;
      const int row = strips.first(strip), some = strips.first(strip + 1) - row;
      const int at = (int)(packed.first(panel) - first_column), width = packed.width(panel);
      if (result != nullptr && is_whole_strip(some))
        multiply_tile(w.runs, runs, row, some, b, width, result + row * result_step + at, result_step, first == 0);
      else
        multiply_tile(w.runs, runs, row, some, b, width, sums_of(row) + at, sums_row, first == 0);
    };
    if (grid.tasks_pack) {
      for (int p = 0; p < panels; ++p) {
        const long long panel = first_panel + p;
        const int width = packed.width(panel);
        for (int s = 0; s < segments; ++s) {
          const Segment& segment = w.segments[s];
          pack_part(args, packed, group, segment.tap, panel, segment.word, segment.words,
                    w.weights + segment.at * width, w.lines);
        }
        if constexpr (kOffset)
          sum_columns(w.weights, width, count, first > 0, w.offsets + packed.first(panel) - first_column);
        for (int s = 0; s < strips.count; ++s) multiply(p, w.weights, s);
      }
    } else {
      for (int s = 0; s < strips.count; ++s) {
        for (int p = 0; p < panels; ++p)
          multiply(p, static_cast<const float*>(args.workspace) + packed.panel(group, packed.first(first_panel + p)),
                   s);
        if (first + count == words) finish_strip(s);
      }
    }
  }
  if (words == 0 || grid.tasks_pack)
    for (int s = 0; s < strips.count; ++s) finish_strip(s);
}
