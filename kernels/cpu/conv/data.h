// Forward and backward data as one product: pixels of the result by its channels, over taps and channels of the image.
// A task computes a run of pixels of one phase; it brings the image's pixels that they meet into rows of words, a block
// of (tap, channel) at a time, and multiplies them with the packed weights.

// A run of channels of one tap in a block.
struct Segment {
  long long offset[3];  // of the image's pixel from the row's
  long long place;      // of its elements from the row's
  long long channel;
  int elements, at, words;
};

// A pixel of the result as the image sees it, at a tap without offset.
struct RowPlace {
  long long at[3];
  const Stored* image;
};

// From one row of words to the next. Rows of a tile that are a power of two apart would compete for a few sets of the
// first-level cache.
constexpr int kRowWords = kTileK + (kTiles ? kStep : 0);
constexpr int kMaxSegments = kTileK;  // a block of single words

struct Scratch {
  float *rows, *sums, *line, *other;
  int* offsets;  // -128 times the sums of the columns' weights
  Segment* segments;
  Run* runs;
  RowPlace* places;

  explicit Scratch(void* memory) {
    rows = static_cast<float*>(memory);
    sums = rows + kTileM * kRowWords + 2 * kLanes;
    line = sums + kTileM * kTileN + kLanes;
    other = line + kTileN + kLanes;
    offsets = reinterpret_cast<int*>(other + kTileN + kLanes);
    segments = reinterpret_cast<Segment*>(offsets + (kOffset ? kTileN : 0));
    runs = reinterpret_cast<Run*>(segments + kMaxSegments);
    places = reinterpret_cast<RowPlace*>(runs + kMaxSegments);
  }
};

long long scratch_size(const void*) {
  constexpr long long kFloats =
      kTileM * kRowWords + 2 * kLanes + kTileM * kTileN + kLanes + 2 * (kTileN + kLanes) + (kOffset ? kTileN : 0);
  return max_of(
      4 * kFloats + kMaxSegments * (long long)(sizeof(Segment) + sizeof(Run)) + kTileM * (long long)sizeof(RowPlace),
      4ll * (kPanel + kLanes) * kLanes);
}

// Tasks by group, phase, run of rows and run of panels, both runs as even as can be. Smaller ones where there are few
// tasks: the longer side is cut.
struct Grid {
  long long phases, panels;
  int most_rows = kTileM, task_panels;

  explicit Grid(const TsConvArgs& args)
      : phases(phases_of(args, 0) * phases_of(args, 1) * phases_of(args, 2)), panels(PackedWeights(args).panels()) {
    constexpr int kMostPanels = kTileN / kPanel;
    task_panels = even_part(panels, kMostPanels, 1);
    while (args.threads > 1 && tasks(args) < 4 * args.threads) {
      const bool wide = task_panels * kPanel > most_rows && task_panels > 1;
      if (!wide && most_rows <= 2 * kRows) break;
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

long long data_tasks(const void* args_pointer) {
  const TsConvArgs& args = arguments(args_pointer);
  return args.batch == 0 ? 0 : Grid(args).tasks(args);
}

TS_INLINE const TsConvStrides& image_strides(const TsConvArgs& args) {
  return kForward ? args.x_strides : args.y_strides;
}

// The segments of words first .. first + count - 1 of the phase's (tap, channel) words, and the runs that they are in
// the packed weights.
inline int cut(const Call& args, const Phase& phase, long long tap_words, long long first, int count, Scratch& w,
               int& runs) {
  const TsConvStrides& strides = image_strides(args);
  int segments = 0;
  runs = 0;
  for (int at = 0; at < count;) {
    const long long number = (first + at) / tap_words, word = (first + at) % tap_words;
    const int words = (int)min_of(tap_words - word, count - at);
    Segment& s = w.segments[segments++];
    long long rest = number, tap = 0, filter = 1;
    s.channel = word * kPack;
    s.place = args.folded > 0 ? 0 : s.channel * strides.channel;
    for (int d = 2; d >= 0; --d) {
      const Axis& axis = phase.axis[d];
      const long long j = rest % axis.taps;
      rest /= axis.taps;
      s.offset[d] = axis.start + j * axis.hop;
      s.place += s.offset[d] * strides.spatial[d];
      tap += (axis.tap_first + j * axis.tap_step) * filter;
      filter *= args.filter[d];
    }
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
inline void inner_part_to_words(const Stored* from, const ChannelLine& line, long long channel, Call::Part part,
                                int count, float* to) {
  if (part.first >= part.end) return empty_words(to, words_of(count));
  Stored some[kTileK * kPack] = {};
  for (long long e = part.first; e < part.end; ++e) some[e] = from[line.at(channel + e)];
  line_to_words<true>(some, 1, count, to);
}

// The image's words that a pixel of the result meets in a block.
inline void bring_row(const Call& args, const Phase& phase, const ChannelLine& line, const RowPlace& row,
                      const Segment* segments, int count, float* to) {
  const auto is_inside = [&](const Segment& segment, int d) {
    return (unsigned long long)(row.at[d] + segment.offset[d]) < (unsigned long long)phase.axis[d].size;
  };
  if (args.folded > 0) {
    // All lines of a row begin at the same pixel of the innermost coordinate.
    const long long first = row.at[2] + segments[0].offset[2];
    const bool whole = first >= 0 && first * args.folded + args.c <= args.x_size[2] * args.folded;
    for (int s = 0; s < count; ++s) {
      const Segment& segment = segments[s];
      if (!is_inside(segment, 0) || !is_inside(segment, 1))
        empty_words(to + segment.at, segment.words);
      else if (whole)
        part_of_line<true>(row.image + segment.place, line, segment.channel, segment.elements, to + segment.at);
      else
        inner_part_to_words(row.image + segment.place, line, segment.channel,
                            args.inside(first, segment.channel, segment.elements), segment.elements, to + segment.at);
    }
    return;
  }
  for (int s = 0; s < count; ++s) {
    const Segment& segment = segments[s];
    if (is_inside(segment, 0) && is_inside(segment, 1) && is_inside(segment, 2))
      line_to_words<true>(row.image + segment.place, line.step, segment.elements, to + segment.at);
    else
      empty_words(to + segment.at, segment.words);
  }
}

// A line of sums as floats: where they lie, or in `to`.
inline float* floats_of_sums(float* sums, [[maybe_unused]] const int* offsets, int count, float* to) {
  if constexpr (!kInteger) return sums;
  for (int i = 0; i < count; i += kLanes) {
    if constexpr (kOffset)
      store(to + i, __builtin_convertvector((IVec)load(sums + i) + load(offsets + i), Vec));
    else
      store(to + i, __builtin_convertvector((IVec)load(sums + i), Vec));
  }
  return to;
}

void run_data(const void* args_pointer, long long task, void* memory) {
  const Call args(arguments(args_pointer));
  const Grid grid(args);
  const PackedWeights packed(args);
  Scratch w(memory);
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
  const long long words = phase.taps * packed.words;

  const TsConvStrides& from = image_strides(args);
  const ChannelLine line = args.line(from);
  Place place(phase, first_row);
  for (int r = 0; r < rows; ++r, place.advance(phase)) {
    RowPlace& row = w.places[r];
    row.image = static_cast<const Stored*>(kForward ? args.x : args.y) + place.member * from.batch + group * from.group;
    for (int d = 0; d < 3; ++d) {
      row.at[d] = place.i[d] * phase.axis[d].pace;
      row.image += row.at[d] * from.spatial[d];
    }
  }

  if (words == 0) zero_words(w.sums, kTileM * kTileN);
  for (long long first = 0; first < words; first += kTileK) {
    const int count = (int)min_of(kTileK, words - first);
    int runs = 0;
    const int segments = cut(args, phase, packed.words, first, count, w, runs);
    for (int r = 0; r < rows; ++r)
      bring_row(args, phase, line, w.places[r], w.segments, segments, w.rows + r * kRowWords);
    for (int r = rows; r < round_up(rows, kRows); ++r) zero_words(w.rows + r * kRowWords, count);
    for (int p = 0; p < panels; ++p) {
      const long long column = packed.first(first_panel + p);
      const float* const b = static_cast<const float*>(args.workspace) + packed.panel(group, column);
      for (int r = 0; r < rows; r += kRows)
        multiply_tile({w.rows + r * kRowWords, kRowWords, 1}, rows - r, b, packed.width(first_panel + p), w.runs, runs,
                      w.sums + r * kTileN + (column - first_column), kTileN, first == 0);
    }
  }

  if constexpr (kOffset) {
    for (int p = 0; p < panels; ++p)
      offsets_of_panel(args, packed, group, first_panel + p, w.offsets + packed.first(first_panel + p) - first_column);
  }
  const TsConvStrides& strides = kForward ? args.y_strides : args.x_strides;
  place = Place(phase, first_row);
  for (int r = 0; r < rows; ++r, place.advance(phase)) {
    Pixel pixel = {place.member, group, {}};
    for (int d = 0; d < 3; ++d) pixel.at[d] = phase.axis[d].first + place.i[d] * phase.axis[d].step;
    float* const sums = floats_of_sums(w.sums + r * kTileN, w.offsets, columns, w.line);
    finish_line(args, strides, result_channels(args), pixel, first_column, columns, sums, w.other);
  }
}
