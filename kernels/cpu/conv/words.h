// Elements on their way to the words that are multiplied: floats, pairs of bf16 or of int16, fours of int8. Every
// function writes whole vectors and may so write up to a vector beyond what it is asked for; callers write upwards.

using Stored = StoredAs<kElement>::Type;

constexpr bool kTiles = kInstruction == Instruction::amx_bf16 || kInstruction == Instruction::amx_int8;
constexpr bool kInteger = kInstruction == Instruction::dot_int16 || kInstruction == Instruction::dot_int8 ||
                          kInstruction == Instruction::amx_int8;
// vpdpbusd takes its left operand without sign: the image's elements get 128 added, and -128 sum(w) is added to the
// sums.
constexpr bool kOffset = kInstruction == Instruction::dot_int8;
constexpr int kPack = kInstruction == Instruction::fma_f32                                             ? 1
                      : kInstruction == Instruction::dot_int8 || kInstruction == Instruction::amx_int8 ? 4
                                                                                                       : 2;
constexpr int kRows = kTiles ? 32 : kAccumulators / 3;    // a micro-tile: rows of sums
constexpr int kPanel = kTiles ? 2 * kLanes : 3 * kLanes;  // and its columns
constexpr int kStep = kTiles ? 16 : 1;                    // words that are multiplied together: a row of a tile
// From one copied row of words to the next. Rows of a tile that are a power of two apart would compete for a few sets
// of the first-level cache.
constexpr int kRowWords = kTileK + kLanes;
constexpr int kChunk = kLanes * kPack;  // elements in a vector of words

static_assert(kTileM % kRows == 0 && kTileN % kPanel == 0 && kTileK % kLanes == 0);
static_assert(!kTiles || kLanes == kStep);  // whole vectors of words are whole steps

// Sums are floats or integers; both lie in arrays of float.
template <bool>
struct SumOf {
  using Type = Vec;
};
template <>
struct SumOf<true> {
  using Type = IVec;
};
using Sum = SumOf<kInteger>::Type;

TS_INLINE const TsConvArgs& arguments(const void* args) {
  return *static_cast<const TsConvArgs*>(args);
}

// Whether a tensor's elements as they lie are the words.
constexpr bool kWordsAreStored = kInstruction != Instruction::dot_int16 && kPack * sizeof(Stored) == 4;

// A line of elements along the channels, and along the taps that were folded into them: element e lies at
// e / channels * tap + e % channels * step, where that is even at e * step.
struct ChannelLine {
  long long elements, channels, step, tap;
  bool even;

  [[nodiscard]] TS_INLINE long long at(long long e) const {
    return even ? e * step : e / channels * tap + e % channels * step;
  }
  // Elements first .. first + count - 1, behind one another.
  TS_INLINE void copy(const Stored* from, long long first, int count, Stored* to) const {
    const Stored* place = from + at(first);
    long long channel = first % channels;
    for (int e = 0; e < count; ++e, place += step) {
      if (channel++ == channels) {  // no division for each element
        channel = 1;
        place += tap - channels * step;
      }
      to[e] = *place;
    }
  }
};

constexpr int kMostOverlapped = 160;  // columns: as many sums of a task's rows as there is room for

// A call as the products see it. Where few channels lie between neighbouring taps, as in a network's first layer, the
// innermost taps are folded into the channels: a row of the filter is one tap, and what it meets is one line of x, of
// which the part beside the image is zeros. Forward they are folded whatever the strides, so that packed weights do not
// depend on them. Backward data they are the columns of a product whose rows are pixels of y: lines of sums of
// neighbouring pixels overlap in x.
struct Call : TsConvArgs {
  long long folded = 0;      // channels of x before the taps joined them; 0: nothing is folded
  long long overlapped = 0;  // the same of backward data

  explicit Call(const TsConvArgs& args) : TsConvArgs(args) {
    if (filter[2] == 1 || dilation[2] != 1) return;
    if constexpr (kDirection == Direction::backward_data) {
      if (2 * c > kLanes || c * filter[2] > kMostOverlapped) return;
      overlapped = c;
      c *= filter[2];
      filter[2] = 1;
      return;
    }
    if (c >= kLanes) return;
    if (kDirection == Direction::backward_weight && (x_strides.channel != 1 || x_strides.spatial[2] != c)) return;
    folded = c;
    c *= filter[2];
    filter[2] = 1;
  }

  // The line of channels of x or w that taps have joined; of none, where `joined` is 0.
  [[nodiscard]] ChannelLine line(const TsConvStrides& s, long long joined) const {
    const long long channels = joined > 0 ? joined : c;
    return {c, channels, s.channel, s.spatial[2], joined == 0 || s.spatial[2] == channels * s.channel};
  }
  [[nodiscard]] ChannelLine line(const TsConvStrides& s) const { return line(s, folded); }

  // Of the line of `count` elements from element `channel` of pixel i of the innermost coordinate: what of it lies
  // inside the image.
  struct Part {
    long long first, end;
  };
  [[nodiscard]] Part inside(long long i, long long channel, long long count) const {
    const long long before = i * folded + channel;
    return {max_of(0, -before), min_of(count, x_size[2] * folded - before)};
  }
};

// Arrays one behind another in a thread's own memory; of memory at 0 `end` is their size.
struct Arrays {
  unsigned long long end;

  explicit Arrays(void* memory) : end(reinterpret_cast<unsigned long long>(memory)) {}
  template <class T>
  T* take(long long count) {
    T* const begin = reinterpret_cast<T*>(end);
    end += (count * sizeof(T) + 63) / 64 * 64;
    return begin;
  }
};

TS_INLINE long long blocks_of(long long size, long long block) {
  return (size + block - 1) / block;
}

TS_INLINE long long taps_of(const TsConvArgs& args) {
  return args.filter[0] * args.filter[1] * args.filter[2];
}

// Where tap `tap` of a filter lies behind its first.
TS_INLINE long long tap_place(const TsConvArgs& args, long long tap) {
  const TsConvStrides& s = args.w_strides;
  const long long h = tap / args.filter[2];
  return h / args.filter[1] * s.spatial[0] + h % args.filter[1] * s.spatial[1] + tap % args.filter[2] * s.spatial[2];
}

TS_INLINE int words_of(int elements) {
  return (elements + kPack - 1) / kPack;
}

TS_INLINE void zero_words(float* to, int count) {
  for (int i = 0; i < count; i += kLanes) store(to + i, Vec{});
}

// With 128 added to every element, where that is so and the words are the image's.
template <bool kImage>
TS_INLINE Vec raised(Vec x) {
  return kImage && kOffset ? (Vec)((UVec)x ^ 0x80808080u) : x;
}

// Words of the image that are all zeros.
TS_INLINE void empty_words(float* to, int count) {
  for (int i = 0; i < count; i += kLanes) store(to + i, raised<true>(Vec{}));
}

template <bool kImage>
TS_INLINE void words_of_chunk(const Stored* from, float* to) {
  if constexpr (kPack == 1) {
    store(to, load_floats<kElement, kLanes>(from));
  } else if constexpr (kInstruction == Instruction::dot_int16) {
    typedef short Shorts __attribute__((vector_size(4 * kLanes)));
    using LooseBytes = typename Group<2 * kLanes>::LooseBytes;
    store(to, (Vec) __builtin_convertvector(*reinterpret_cast<const LooseBytes*>(from), Shorts));
  } else {
    store(to, raised<kImage>(*reinterpret_cast<const LooseVec*>(from)));
  }
}

// A vector of elements first .. end - 1 of those from `from` on, beside which nothing may be read, and zeros. (AVX-512;
// a template, because only its kernels have the instruction.)
constexpr bool kLoadsParts = kLanes == 16;
typedef float TightVec __attribute__((vector_size(4 * kLanes), aligned(1), may_alias));
template <class V = Vec>
TS_INLINE V load_masked(const Stored* from, unsigned long long bytes) {
  V x;
  asm("vmovdqu8 %1, %0%{%2%}%{z%}" : "=v"(x) : "m"(*reinterpret_cast<const TightVec*>(from)), "Yk"(bytes));
  return x;
}
template <class V = Vec>
TS_INLINE V load_between(const Stored* from, int first, int end) {
  constexpr int kSize = sizeof(Stored);
  if (first >= end) return V{};
  return load_masked<V>(from, ~0ull >> (64 - (end - first) * kSize) << first * kSize);
}

// The first `count`, of which there are some.
template <class V = Vec>
TS_INLINE V load_part(const Stored* from, int count) {
  return load_masked<V>(from, ~0ull >> (64 - count * (int)sizeof(Stored)));
}

// A line of `count` elements, `step` apart, as words along it. What the last word lacks is zero.
template <bool kImage = false>
inline void line_to_words(const Stored* from, long long step, int count, float* to) {
  int i = 0;
  if (step == 1) {
    for (; i + kChunk <= count; i += kChunk) words_of_chunk<kImage>(from + i, to + i / kPack);
    if constexpr (kWordsAreStored && kLoadsParts) {
      if (i < count) store(to + i / kPack, raised<kImage>(load_part(from + i, count - i)));
      return;
    }
  }
  for (; i < count; i += kChunk) {
    Stored rest[kChunk] = {};
    const int some = (int)min_of(kChunk, count - i);
    if (step == 1)
      read_part<kChunk>(from + i, some, rest);
    else
      for (int e = 0; e < some; ++e) rest[e] = from[(i + e) * step];
    words_of_chunk<kImage>(rest, to + i / kPack);
  }
}

// Elements first .. first + count - 1 of a line as words.
template <bool kImage = false>
inline void part_of_line(const Stored* from, const ChannelLine& line, long long first, int count, float* to) {
  if (line.even) return line_to_words<kImage>(from + first * line.step, line.step, count, to);
  for (int i = 0; i < count; i += kChunk) {
    Stored some[kChunk] = {};
    const int whole = (int)min_of(kChunk, count - i);
    line.copy(from, first + i, whole, some);
    words_of_chunk<kImage>(some, to + i / kPack);
  }
}

// Elements behind one another, and zeros up to a whole vector of them.
inline void gather(const Stored* from, long long step, int count, Stored* to) {
  typedef unsigned char Bytes __attribute__((vector_size(kLanes * sizeof(Stored)), aligned(1), may_alias));
  int i = 0;
  if (step == 1)
    for (; i + kLanes <= count; i += kLanes)
      *reinterpret_cast<Bytes*>(to + i) = *reinterpret_cast<const Bytes*>(from + i);
  for (; i < count; i += kLanes) {
    *reinterpret_cast<Bytes*>(to + i) = Bytes{};
    const int some = (int)min_of(kLanes, count - i);
    for (int e = 0; e < some; ++e) to[i + e] = from[(i + e) * step];
  }
}

// Up to a vector of elements, `step` apart, as floats, and zeros behind them.
TS_INLINE Vec load_stepped(const Stored* from, long long step, int count) {
  if (step == 1 && count == kLanes) return load_floats<kElement, kLanes>(from);
  Stored some[kLanes] = {};
  for (int i = 0; i < count; ++i) some[i] = from[i * step];
  return load_floats<kElement, kLanes>(some);
}

TS_INLINE void zero_line(Stored* to, int count) {
  for (int i = 0; i < count; ++i) to[i] = 0;
}

// As many lines as a word has elements, and room for what is written beyond.
using Lines = Stored[kPack][kTileM + kTileN + 2 * kChunk];

// A vector of pairs of 16-bit elements, each of one element of both.
TS_INLINE Vec pairs_of(const Stored* low, const Stored* high) {
  using G = Group<kLanes>;
  const auto bits = [](const Stored* from) {
    return __builtin_convertvector(*reinterpret_cast<const typename G::LooseShorts*>(from), typename G::Bits);
  };
  return (Vec)(bits(low) | bits(high) << 16);
}

// Of pairs the first `count`, beside which nothing may be read, and zeros. (AVX-512; a template as above.)
template <class V = Vec>
TS_INLINE V part_of_pairs(const Stored* low, const Stored* high, long long count) {
  const auto lanes = (unsigned short)(count >= kLanes ? -1 : (1 << count) - 1);
  const auto bits = [&](const Stored* from) {
    UVec x;
    asm("vpmovzxwd %1, %0%{%2%}%{z%}"
        : "=v"(x)
        : "m"(*reinterpret_cast<const typename Group<kLanes>::LooseShorts*>(from)), "Yk"(lanes));
    return x;
  };
  return (V)(bits(low) | bits(high) << 16);
}

// Words across lines: of one line its elements, of two their pairs.
inline void lines_to_words(const Lines& lines, int count, float* to) {
  for (int i = 0; i < count; i += kLanes) {
    if constexpr (kPack == 1) {
      store(to + i, load_floats<kElement, kLanes>(lines[0] + i));
    } else {
      store(to + i, pairs_of(lines[0] + i, lines[1] + i));
    }
  }
}

// Columns in panels of kPanel; of vectors the last two are narrower where one vector would be left, and the last has
// what is left.
struct Panels {
  long long columns;  // whole vectors

  [[nodiscard]] long long count() const { return blocks_of(columns, kPanel); }
  // The first column of a panel; of count(), the end.
  [[nodiscard]] long long first(long long panel) const {
    const bool narrow = !kTiles && columns > kPanel && columns % kPanel == kLanes;
    return min_of(columns, panel * kPanel - (narrow && panel == count() - 1 ? kLanes : 0));
  }
  [[nodiscard]] int width(long long panel) const { return (int)(first(panel + 1) - first(panel)); }
};

// Rows of words, each wherever it lies: row r begins at place[r] + at.
struct PlacedRows {
  const float* const* place;
  int at;
};

// Rows whose words of one number are neighbours: word k of row r is words[k * step + r].
struct TurnedRows {
  const float* words;
  int step;
};

// Rows whose words of one number are neighbours, wherever those lie: word k of row r is place[k][r].
struct ScatteredRows {
  const float* const* place;
};

// Words that follow one another in rows and, `b` words from its first, in a panel.
template <class Rows>
struct Run {
  Rows rows;
  int words;
  long long b;
};
