// Packed weights: for each group and panel of the result's channels, all taps behind one another, each with the
// image's channels as words of the panel's columns, and zeros up to a whole step. A panel is three vectors of columns
// (of tiles two); two at the end where three would leave one, and the last has what is left. With kOffset they are
// followed by -128 times the sum of each column's weights of a tap: for each panel, by tap.

TS_INLINE long long image_channels(const TsConvArgs& args) {
  return kForward ? args.c : args.k;
}
TS_INLINE long long result_channels(const TsConvArgs& args) {
  return kForward ? args.k : args.c;
}

struct PackedWeights {
  long long words;  // of one tap
  long long taps, columns;

  explicit PackedWeights(const TsConvArgs& args)
      : words(blocks_of(image_channels(args), kPack * kStep) * kStep),
        taps(taps_of(args)),
        columns(blocks_of(result_channels(args), kLanes) * kLanes) {}

  [[nodiscard]] long long panels() const { return blocks_of(columns, kPanel); }
  // The first column of a panel; of panels(), the end.
  [[nodiscard]] long long first(long long panel) const {
    const bool narrow = !kTiles && columns > kPanel && columns % kPanel == kLanes;
    return min_of(columns, panel * kPanel - (narrow && panel == panels() - 1 ? kLanes : 0));
  }
  [[nodiscard]] int width(long long panel) const { return (int)(first(panel + 1) - first(panel)); }
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

// -128 times the sums of packed columns of a tap: the columns times a row of ones. (A template, because only kernels
// that need it have this multiplication step.)
template <class V = Vec>
void sum_columns(const float* packed, int width, long long words, float* to) {
  for (int c = 0; c < width; c += kLanes) {
    Sum sum = {};
    for (long long w = 0; w < words; ++w)
      sum = multiply_add((V)splat(0x01010101), (V)load(packed + w * width + c), sum);
    store(to + c, (V)(sum * -128));
  }
}

// Folding needs no more.
long long workspace_size(const void* args) {
  return PackedWeights(arguments(args)).bytes(arguments(args));
}

constexpr int kWordsOfTask = 64;  // backward data

// A task packs one tap: of one panel; backward data, where rows of w lie along all panels, some words of them all.
long long pack_tasks(const void* args_pointer) {
  const Call args(arguments(args_pointer));
  const PackedWeights packed(args);
  return args.groups * packed.taps * (kForward ? packed.panels() : blocks_of(packed.words, kWordsOfTask));
}

// Columns of w that lie along the image's channels: they are read as lines and turned, a vector of columns at a time.
inline void pack_turned(const Stored* from, long long column_step, const ChannelLine& line, int columns, int width,
                        float* to, float* lines) {
  for (int c = 0; c < width; c += kLanes) {
    const bool whole = line.step == 1 && c + kLanes <= columns && kWordsAreStored && column_step % kPack == 0;
    for (long long e = 0; e < line.elements; e += kChunk) {
      const int count = (int)min_of(kChunk, line.elements - e);
      float* const turned = to + e / kPack * width + c;
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

// Words first .. first + kWordsOfTask - 1 of a tap, of all panels.
inline void pack_words(const Call& args, const PackedWeights& packed, long long group, long long tap, long long first,
                       const Stored* from) {
  const TsConvStrides& s = args.w_strides;
  float* const workspace = static_cast<float*>(args.workspace);
  for (long long word = first; word < min_of(packed.words, first + kWordsOfTask); ++word)
    for (long long panel = 0; panel < packed.panels(); ++panel) {
      const long long column = packed.first(panel), elements = image_channels(args) - word * kPack;
      const int width = packed.width(panel);
      float* const to = workspace + packed.panel(group, column) + (tap * packed.words + word) * width;
      if (kTiles && elements <= 0)
        zero_words(to, width);
      else
        pack_word(from + word * kPack * s.batch + column * s.channel, s.channel, s.batch,
                  (int)min_of(width, result_channels(args) - column), width, elements, to);
    }
}

void run_pack(const void* args_pointer, long long task, void* scratch) {
  const Call args(arguments(args_pointer));
  const PackedWeights packed(args);
  const long long tap = task % packed.taps, h = tap / args.filter[2], part = task / packed.taps;
  const long long parts = kForward ? packed.panels() : blocks_of(packed.words, kWordsOfTask), group = part / parts;
  const TsConvStrides& s = args.w_strides;
  const Stored* const from = static_cast<const Stored*>(args.w) + group * s.group + h / args.filter[1] * s.spatial[0] +
                             h % args.filter[1] * s.spatial[1] + tap % args.filter[2] * s.spatial[2];
  if constexpr (!kForward) return pack_words(args, packed, group, tap, part % parts * kWordsOfTask, from);
  const long long panel = part % parts, column = packed.first(panel);
  const int width = packed.width(panel), columns = (int)min_of(width, result_channels(args) - column);
  float* const to = static_cast<float*>(args.workspace) + packed.panel(group, column) + tap * packed.words * width;
  pack_turned(from + column * s.batch, s.batch, args.line(s), columns, width, to, static_cast<float*>(scratch));
  if constexpr (kTiles)
    zero_words(to + words_of((int)args.c) * width, (int)(packed.words - words_of((int)args.c)) * width);
  if constexpr (kOffset)
    sum_columns(to, width, packed.words,
                static_cast<float*>(args.workspace) + packed.offsets(args, group, column) + tap * width);
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
