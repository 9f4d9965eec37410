// Elements on their way to the words that are multiplied: floats, pairs of bf16 or of int16, fours of int8. Every
// function writes whole vectors and may so write up to a vector beyond what it is asked for; callers write upwards.

using Stored = StoredAs<kElement>::Type;

constexpr bool kInteger = kInstruction == Instruction::dot_int16 || kInstruction == Instruction::dot_int8;
// vpdpbusd takes its left operand without sign: the image's elements get 128 added, and -128 sum(w) is added to the
// sums.
constexpr bool kOffset = kInstruction == Instruction::dot_int8;
constexpr int kPack = kInstruction == Instruction::fma_f32 ? 1 : kInstruction == Instruction::dot_int8 ? 4 : 2;
constexpr int kRows = kAccumulators / 3;  // a micro-tile: rows of sums
constexpr int kPanel = 3 * kLanes;        // and its columns
constexpr int kSumsPerTile = kRows * kPanel;
constexpr int kChunk = kLanes * kPack;  // elements in a vector of words

static_assert(kTileM % kRows == 0 && kTileN % kPanel == 0 && kTileK % kLanes == 0);

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

// A call as the products see it. Where pixels of x are few channels behind one another, as in a network's first layer,
// the innermost taps are folded into the channels: a row of the filter is one tap, and what it meets is one line of x,
// of which the part beside the image is zeros.
struct Call : TsConvArgs {
  long long folded = 0;  // channels of x before the taps joined them; 0: nothing is folded

  explicit Call(const TsConvArgs& args) : TsConvArgs(args) {
    if (kDirection == Direction::backward_data || c >= kLanes || filter[2] == 1 || dilation[2] != 1 ||
        x_strides.channel != 1 || x_strides.spatial[2] != c)
      return;
    const bool w_folds = w_strides.channel == 1 && w_strides.spatial[2] == c;
    if (kDirection == Direction::forward && !w_folds) return;
    folded = c;
    c *= filter[2];
    filter[2] = 1;
  }

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

TS_INLINE long long blocks_of(long long size, long long block) {
  return (size + block - 1) / block;
}

TS_INLINE long long taps_of(const TsConvArgs& args) {
  return args.filter[0] * args.filter[1] * args.filter[2];
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

// A line of `count` elements, `step` apart, as words along it. What the last word lacks is zero.
template <bool kImage = false>
inline void line_to_words(const Stored* from, long long step, int count, float* to) {
  int i = 0;
  if (step == 1)
    for (; i + kChunk <= count; i += kChunk) words_of_chunk<kImage>(from + i, to + i / kPack);
  for (; i < count; i += kChunk) {
    Stored rest[kChunk] = {};
    const int some = (int)min_of(kChunk, count - i);
    for (int e = 0; e < some; ++e) rest[e] = from[(i + e) * step];
    words_of_chunk<kImage>(rest, to + i / kPack);
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

// Words across lines: of one line its elements, of two their pairs.
inline void lines_to_words(const Lines& lines, int count, float* to) {
  for (int i = 0; i < count; i += kLanes) {
    if constexpr (kPack == 1) {
      store(to + i, load_floats<kElement, kLanes>(lines[0] + i));
    } else {
      using G = Group<kLanes>;
      const auto low =
          __builtin_convertvector(*reinterpret_cast<const typename G::LooseShorts*>(lines[0] + i), typename G::Bits);
      const auto high =
          __builtin_convertvector(*reinterpret_cast<const typename G::LooseShorts*>(lines[1] + i), typename G::Bits);
      store(to + i, (Vec)(low | high << 16));
    }
  }
}

// Words that follow one another in a and, `b` words from its first, in a panel of b.
struct Run {
  int at, words;
  long long b;
};

template <int kVectors>
inline void multiply_runs(const float* a, long long a_row, int a_step, const float* b, const Run* runs, int count,
                          float* sums, bool first) {
  Sum c[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) c[r][v] = first ? fresh_zero<Sum>() : (Sum)load(sums + r * kPanel + v * kLanes);
  }
  for (int i = 0; i < count; ++i)
    multiply<kRows, kVectors>(c, a + (long long)runs[i].at * a_step, a_row, a_step, b + runs[i].b * kVectors * kLanes,
                              kVectors * kLanes, runs[i].words);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) store(sums + r * kPanel + v * kLanes, (Vec)c[r][v]);
  }
}

// sums[r][j] (+)= sum over the runs' words of a[r * a_row + word * a_step] * b[word * width + j], for kRows rows and
// `width` columns.
inline void multiply_tile(const float* a, long long a_row, int a_step, const float* b, int width, const Run* runs,
                          int count, float* sums, bool first) {
  if (width == kPanel) return multiply_runs<3>(a, a_row, a_step, b, runs, count, sums, first);
  if (width == 2 * kLanes) return multiply_runs<2>(a, a_row, a_step, b, runs, count, sums, first);
  return multiply_runs<1>(a, a_row, a_step, b, runs, count, sums, first);
}
