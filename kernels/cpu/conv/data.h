// Forward and backward data as one product: pixels of the result by its channels, over taps and channels of the image.
// A task computes a run of pixels of one phase; it brings the image's pixels that they meet into rows of words, a block
// of (tap, channel) at a time, and multiplies them with the packed weights.

// A run of channels of one tap in a block.
struct Segment {
  long long offset[3];  // of the image's pixel from the result's, times its pace
  long long channel;
  int elements, at, words;
};

constexpr int kMaxSegments = kTileK;  // a block of single words

struct Scratch {
  float *rows, *sums, *line, *other;
  int* offsets;  // -128 times the sums of the columns' weights
  Segment* segments;
  Run* runs;

  explicit Scratch(void* memory) {
    rows = static_cast<float*>(memory);
    sums = rows + kTileM * kTileK + 2 * kLanes;
    line = sums + kTileM * kTileN;
    other = line + kPanel + kLanes;
    offsets = reinterpret_cast<int*>(other + kPanel + kLanes);
    segments = reinterpret_cast<Segment*>(offsets + (kOffset ? kTileN : 0));
    runs = reinterpret_cast<Run*>(segments + kMaxSegments);
  }
};

long long scratch_size(const void*) {
  constexpr long long kFloats =
      kTileM * kTileK + 2 * kLanes + kTileM * kTileN + 2 * (kPanel + kLanes) + (kOffset ? kTileN : 0);
  return max_of(4 * kFloats + kMaxSegments * (long long)(sizeof(Segment) + sizeof(Run)),
                4ll * (kPanel + kLanes) * kLanes);
}

// Tasks by group, phase, run of rows and columns. Fewer rows a task where there are few tasks.
struct Grid {
  long long phases, column_blocks;
  int rows = kTileM;

  explicit Grid(const TsConvArgs& args)
      : phases(phases_of(args, 0) * phases_of(args, 1) * phases_of(args, 2)),
        column_blocks(blocks_of(result_channels(args), kTileN)) {
    while (rows > 2 * kRows && tasks(args) < 4 * args.threads) rows = round_up(rows / 2, kRows);
  }

  [[nodiscard]] long long tasks_of_group(const TsConvArgs& args) const {
    long long row_blocks = 0;
    for (long long p = 0; p < phases; ++p) row_blocks += blocks_of(phase_of(args, p).rows, rows);
    return row_blocks * column_blocks;
  }
  [[nodiscard]] long long tasks(const TsConvArgs& args) const { return args.groups * tasks_of_group(args); }
};

long long data_tasks(const void* args_pointer) {
  const TsConvArgs& args = arguments(args_pointer);
  return args.batch == 0 ? 0 : Grid(args).tasks(args);
}

// The segments of words first .. first + count - 1 of the phase's (tap, channel) words, and the runs that they are in
// the packed weights.
inline int cut(const TsConvArgs& args, const Phase& phase, long long tap_words, long long first, int count, Scratch& w,
               int& runs) {
  int segments = 0;
  runs = 0;
  for (int at = 0; at < count;) {
    const long long number = (first + at) / tap_words, word = (first + at) % tap_words;
    const int words = (int)min_of(tap_words - word, count - at);
    Segment& s = w.segments[segments++];
    long long rest = number, tap = 0, filter = 1;
    for (int d = 2; d >= 0; --d) {
      const Axis& axis = phase.axis[d];
      const long long j = rest % axis.taps;
      rest /= axis.taps;
      s.offset[d] = axis.start + j * axis.hop;
      tap += (axis.tap_first + j * axis.tap_step) * filter;
      filter *= args.filter[d];
    }
    s.channel = word * kPack;
    s.elements = (int)min_of(words * kPack, image_channels(args) - s.channel);
    s.at = at;
    s.words = words;
    const long long b = tap * tap_words + word;
    if (runs > 0 && w.runs[runs - 1].b + w.runs[runs - 1].words == b)
      w.runs[runs - 1].words += words;
    else
      w.runs[runs++] = {at, words, b};
    at += words;
  }
  return segments;
}

// The part of a line that lies inside the image, and zeros beside it.
inline void part_to_words(const Stored* from, Call::Part part, int count, float* to) {
  if (part.first == 0 && part.end == count) return line_to_words<true>(from, 1, count, to);
  if (part.first >= part.end) return empty_words(to, words_of(count));
  Stored line[kTileK * kPack] = {};
  for (long long e = part.first; e < part.end; ++e) line[e] = from[e];
  line_to_words<true>(line, 1, count, to);
}

// The image's words that a pixel of the result meets in a block.
inline void bring_row(const Call& args, const Phase& phase, long long group, const Place& place,
                      const Segment* segments, int count, float* to) {
  const TsConvStrides& strides = kForward ? args.x_strides : args.y_strides;
  const Stored* const image =
      static_cast<const Stored*>(kForward ? args.x : args.y) + place.member * strides.batch + group * strides.group;
  for (int s = 0; s < count; ++s) {
    const Segment& segment = segments[s];
    long long at = segment.channel * strides.channel;
    bool inside = true;
    long long i = 0;
    for (int d = 0; d < 3; ++d) {
      i = place.i[d] * phase.axis[d].pace + segment.offset[d];
      inside = inside && ((i >= 0 && i < phase.axis[d].size) || (d == 2 && args.folded > 0));
      at += i * strides.spatial[d];
    }
    if (inside && args.folded > 0)
      part_to_words(image + at, args.inside(i, segment.channel, segment.elements), segment.elements, to + segment.at);
    else if (inside)
      line_to_words<true>(image + at, strides.channel, segment.elements, to + segment.at);
    else
      empty_words(to + segment.at, segment.words);
  }
}

// A line of sums as floats.
inline void floats_of_sums(const float* sums, [[maybe_unused]] const int* offsets, int count, float* to) {
  for (int i = 0; i < count; i += kLanes) {
    if constexpr (!kInteger)
      store(to + i, load(sums + i));
    else if constexpr (kOffset)
      store(to + i, __builtin_convertvector((IVec)load(sums + i) + load(offsets + i), Vec));
    else
      store(to + i, __builtin_convertvector((IVec)load(sums + i), Vec));
  }
}

void run_data(const void* args_pointer, long long task, void* memory) {
  const Call args(arguments(args_pointer));
  const Grid grid(args);
  const PackedWeights packed(args);
  Scratch w(memory);
  const long long in_group = grid.tasks_of_group(args), group = task / in_group;
  const long long first_column = task % grid.column_blocks * kTileN;
  long long block = task % in_group / grid.column_blocks, number = 0;
  Phase phase = phase_of(args, 0);
  for (long long blocks; block >= (blocks = blocks_of(phase.rows, grid.rows)); phase = phase_of(args, ++number))
    block -= blocks;
  const long long first_row = block * grid.rows;
  const int rows = (int)min_of(grid.rows, phase.rows - first_row), strips = (int)blocks_of(rows, kRows);
  const int columns = (int)min_of(kTileN, result_channels(args) - first_column);
  const int panels = (int)blocks_of(columns, kPanel);
  const long long words = phase.taps * packed.words;

  if (words == 0) zero_words(w.sums, strips * panels * kSumsPerTile);
  for (long long first = 0; first < words; first += kTileK) {
    const int count = (int)min_of(kTileK, words - first);
    int runs = 0;
    const int segments = cut(args, phase, packed.words, first, count, w, runs);
    Place place(phase, first_row);
    for (int r = 0; r < strips * kRows; ++r) {
      if (r >= rows) {
        zero_words(w.rows + r * kTileK, count);
        continue;
      }
      bring_row(args, phase, group, place, w.segments, segments, w.rows + r * kTileK);
      place.advance(phase);
    }
    for (int p = 0; p < panels; ++p) {
      const long long column = first_column + p * kPanel;
      const float* const b = static_cast<const float*>(args.workspace) + packed.panel(group, column);
      for (int s = 0; s < strips; ++s)
        multiply_tile(w.rows + s * kRows * kTileK, kTileK, 1, b, packed.width(column), w.runs, runs,
                      w.sums + (s * panels + p) * kSumsPerTile, first == 0);
    }
  }

  if constexpr (kOffset) {
    for (int p = 0; p < panels; ++p)
      offsets_of_panel(args, packed, group, first_column + p * kPanel, w.offsets + p * kPanel);
  }
  const TsConvStrides& strides = kForward ? args.y_strides : args.x_strides;
  Place place(phase, first_row);
  for (int r = 0; r < rows; ++r, place.advance(phase)) {
    Pixel pixel = {place.member, group, {}};
    for (int d = 0; d < 3; ++d) pixel.at[d] = phase.axis[d].first + place.i[d] * phase.axis[d].step;
    for (int p = 0; p < panels; ++p) {
      const float* const sums = w.sums + (r / kRows * panels + p) * kSumsPerTile + r % kRows * kPanel;
      const int count = (int)min_of(kPanel, columns - p * kPanel);
      floats_of_sums(sums, w.offsets + p * kPanel, count, w.line);
      finish_line(args, strides, result_channels(args), pixel, first_column + p * kPanel, count, w.line, w.other);
    }
  }
}
