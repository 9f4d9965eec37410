// Packed weights: for each group and panel of the result's channels, all taps behind one another, each with the
// image's channels as words of the panel's columns, and zeros up to a whole step. With kOffset they are followed by
// -128 times the sum of each column's weights of a tap: for each panel, by tap.

struct PackedWeights {
  long long words;  // of one tap
  long long taps, columns;

  explicit PackedWeights(const TsConvArgs& args)
      : words(blocks_of(image_channels(args), kPack * kStep) * kStep),
        taps(taps_of(args)),
        columns(blocks_of(result_channels(args), kLanes) * kLanes) {}

  [[nodiscard]] long long panels() const { return Panels{columns}.count(); }
  [[nodiscard]] long long first(long long panel) const { return Panels{columns}.first(panel); }
  [[nodiscard]] int width(long long panel) const { return Panels{columns}.width(panel); }
  // Where the panel that begins at a column lies, in words.
  [[nodiscard]] long long panel(long long group, long long column) const {
    return (group * columns + column) * taps * words;
  }
  // And -128 times its columns' sums.
  [[nodiscard]] long long offsets(const TsConvArgs& args, long long group, long long column) const {
    return args.groups * columns * taps * words + (group * columns + column) * taps;
  }
  [[nodiscard]] long long bytes(const TsConvArgs& args) const {
    return 4 * args.groups * columns * taps * (words + (kOffset ? 1 : 0));
  }
};

// -128 times the sums of packed columns, added to what is there if there are more: the columns times a row of ones. (A
// template, because only kernels that need it have this multiplication step.)
template <class V = Vec>
void sum_columns(const float* packed, int width, long long words, bool more, int* to) {
  for (int c = 0; c < width; c += kLanes) {
    Sum sum = {};
    for (long long w = 0; w < words; ++w)
      sum = multiply_add((V)splat(0x01010101), (V)load(packed + w * width + c), sum);
    const IVec offset = (IVec)(sum * -128);
    store(to + c, more ? load(to + c) + offset : offset);
  }
}

// Elements first .. end - 1 of columns of w that lie along the image's channels: they are read as lines and turned, a
// vector of columns at a time.
inline void pack_turned(const Stored* from, long long column_step, const ChannelLine& line, long long first,
                        long long end, int columns, int width, float* to, float* lines) {
  for (int c = 0; c < width; c += kLanes) {
    const bool whole =
        line.even && line.step == 1 && c + kLanes <= columns && kWordsAreStored && column_step % kPack == 0;
    for (long long e = first; e < end; e += kChunk) {
      const int count = (int)min_of(kChunk, end - e);
      float* const turned = to + (e - first) / kPack * width + c;
      if (whole && count == kChunk) {
        transpose_block(reinterpret_cast<const float*>(from + c * column_step + e), column_step / kPack, turned, width);
        continue;
      }
      for (int l = 0; l < kLanes; ++l) {
        if (c + l < columns)
          part_of_line(from + (c + l) * column_step, line, e, count, lines + l * kLanes);
        else
          store(lines + l * kLanes, Vec{});
      }
      float* const some = lines + kLanes * kLanes;
      transpose_block(lines, kLanes, some, kLanes);
      for (int i = 0; i < words_of(count); ++i) store(turned + i * width, load(some + i * kLanes));
    }
  }
}

// Columns of one word, of elements `step` apart from one row to the next, of which `elements` are left.
inline void pack_word(const Stored* from, long long column_step, long long step, int columns, int width,
                      long long elements, float* to) {
  if constexpr (kPack == 1) {
    int c = 0;
    if (column_step == 1)
      for (; c + kLanes <= columns; c += kLanes) store(to + c, load_floats<kElement, kLanes>(from + c));
    for (; c < width; c += kLanes)
      store(to + c, load_stepped(from + c * column_step, column_step, (int)min_of(kLanes, columns - c)));
  } else {
    Lines lines;
    for (int half = 0; half < kPack; ++half) {
      if (half < elements)
        gather(from + half * step, column_step, columns, lines[half]);
      else
        zero_line(lines[half], columns);
    }
    float words[kPanel];
    lines_to_words(lines, width, words);
    for (int c = 0; c < width; c += kLanes) store(to + c, load(words + c));
  }
}

// The same of columns that are unevenly apart, from column `first` on.
inline void pack_uneven_word(const Stored* from, const ChannelLine& line, long long step, long long first, int columns,
                             int width, long long elements, float* to) {
  Lines lines;
  for (int half = 0; half < kPack; ++half) {
    zero_line(lines[half], width);
    if (half < elements) line.copy(from + half * step, first, columns, lines[half]);
  }
  float words[kPanel];
  lines_to_words(lines, width, words);
  for (int c = 0; c < width; c += kLanes) store(to + c, load(words + c));
}

// Where the weights of a tap and of a panel's first column begin.
TS_INLINE const Stored* weights_of(const Call& args, long long group, long long tap, long long column) {
  const TsConvStrides& s = args.w_strides;
  return static_cast<const Stored*>(args.w) + group * s.group + tap_place(args, tap) +
         column * (kForward ? s.batch : s.channel);
}

// Words first .. first + words - 1 of a tap, of one panel, to `to`.
inline void pack_part(const Call& args, const PackedWeights& packed, long long group, long long tap, long long panel,
                      long long first, long long words, float* to, float* lines) {
  const long long column = packed.first(panel), channel = first * kPack;
  const int width = packed.width(panel), columns = (int)min_of(width, result_channels(args) - column);
  const int elements = (int)min_of(words * kPack, image_channels(args) - channel), filled = words_of(elements);
  const Stored* const from = weights_of(args, group, tap, column);
  const TsConvStrides& s = args.w_strides;
  if constexpr (kForward) {
    pack_turned(from, s.batch, args.line(s), channel, channel + elements, columns, width, to, lines);
  } else {
    // Rows of w of which a panel reads one or two lines: no prefetcher of the processor follows them.
    constexpr int kAhead = 16;
    const ChannelLine line = args.line(s, args.overlapped);
    for (int word = 0; word < filled && !line.even; ++word)
      pack_uneven_word(weights_of(args, group, tap, 0) + (first + word) * kPack * s.batch, line, s.batch, column,
                       columns, width, elements - word * kPack, to + word * width);
    for (int word = 0; word < filled && line.even; ++word) {
      for (int e = 0; e < kPack; ++e)
        for (int c = 0; c < width; c += 64 / (int)sizeof(Stored))
          __builtin_prefetch(from + ((first + word + kAhead) * kPack + e) * s.batch + c * s.channel);
      pack_word(from + (first + word) * kPack * s.batch, s.channel, s.batch, columns, width, elements - word * kPack,
                to + word * width);
    }
  }
  if constexpr (kTiles) zero_words(to + filled * width, (int)(words - filled) * width);
}

constexpr int kWordsOfTask = 64;  // backward data

// A task packs one tap: of one panel; backward data, where rows of w lie along all panels, some words of them all.
inline long long pack_parts(const TsConvArgs& args) {
  const PackedWeights packed(args);
  return args.groups * packed.taps * (kForward ? packed.panels() : blocks_of(packed.words, kWordsOfTask));
}

void run_pack(const void* args_pointer, long long task, void* scratch) {
  const Call args(arguments(args_pointer));
  const PackedWeights packed(args);
  float* const workspace = static_cast<float*>(args.workspace);
  float* const lines = static_cast<float*>(scratch);
  const long long tap = task % packed.taps, part = task / packed.taps;
  const long long parts = kForward ? packed.panels() : blocks_of(packed.words, kWordsOfTask), group = part / parts;
  if constexpr (kForward) {
    const long long panel = part % parts, column = packed.first(panel);
    const int width = packed.width(panel);
    float* const to = workspace + packed.panel(group, column) + tap * packed.words * width;
    pack_part(args, packed, group, tap, panel, 0, packed.words, to, lines);
    if constexpr (kOffset)
      sum_columns(to, width, packed.words, false,
                  reinterpret_cast<int*>(workspace + packed.offsets(args, group, column) + tap * width));
  } else {
    const long long first = part % parts * kWordsOfTask, words = min_of(kWordsOfTask, packed.words - first);
    for (long long panel = 0; panel < packed.panels(); ++panel)
      pack_part(
          args, packed, group, tap, panel, first, words,
          workspace + packed.panel(group, packed.first(panel)) + (tap * packed.words + first) * packed.width(panel),
          lines);
  }
}

// Those of all taps of a panel's columns.
inline void offsets_of_panel(const TsConvArgs& args, const PackedWeights& packed, long long group, long long panel,
                             int* to) {
  const float* from = static_cast<const float*>(args.workspace) + packed.offsets(args, group, packed.first(panel));
  const int width = packed.width(panel);
  for (int c = 0; c < width; c += kLanes) {
    IVec sum = {};
    for (long long tap = 0; tap < packed.taps; ++tap) sum += (IVec)load(from + tap * width + c);
    store(to + c, sum);
  }
}
