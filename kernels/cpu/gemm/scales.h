// Scales along k, and integer weights, which always have such scales. A block is a run of elements along k that shares
// one scale: a multiple of 32 elements, or all of k. So a vector of words never holds elements of two blocks.

constexpr bool kWeights = kScales == Scales::int8_weights || kScales == Scales::int4_weights;
constexpr bool kScaledA = kScales == Scales::blocks;
constexpr int kScaleColumns = kScales == Scales::blocks ? 128 : 1;  // so many columns of B share a scale
static_assert(kScales == Scales::none || (kRowA && !kRowB), "scaled matrices lie along k");

template <Element kType>
TS_INLINE float scale_at(const void* scales, long long index) {
  if constexpr (kType == Element::fp32) return static_cast<const float*>(scales)[index];
  if constexpr (kType == Element::int8) return (float)static_cast<const signed char*>(scales)[index];
  const unsigned bits = static_cast<const unsigned short*>(scales)[index];
  if constexpr (kType == Element::bf16) return __builtin_bit_cast(float, bits << 16);
  float x;
  asm("vmovd %1, %0\n\tvcvtph2ps %0, %0" : "=x"(x) : "r"(bits));
  return x;
}

// The scales of a part of the matrix: lines (rows of A, columns of B) from `line` on, elements along k from `k` on.
template <Element kType>
struct ScalesFrom {
  const void* data;
  long long row, block, start, k;
  int shift;

  ScalesFrom(const TsScales& scales, long long member, long long line, long long from_k, int scale_shift)
      : data(scales.data),
        row(scales.row),
        block(scales.block),
        start(member * scales.batch + line * scales.row),
        k(from_k),
        shift(scale_shift) {}
  TS_INLINE float at(long long line, long long element) const {
    return scale_at<kType>(data, start + line * row + ((k + element) >> shift) * block);
  }
};

struct ScalesOfA : ScalesFrom<Element::fp32> {
  ScalesOfA(const TsGemmArgs& args, long long member, long long line, long long from_k)
      : ScalesFrom(args.scale_a, member, line, from_k, args.scale_shift) {}
};

// One block of a column's weights means (weight - zero) * factor.
struct WeightScale {
  float factor, zero;
};

// Groups of columns that share scales are counted from the first column of the whole matrix.
struct ScalesOfB : ScalesFrom<kScaleType> {
  ScalesFrom<Element::int8> zeros;
  long long column;

  ScalesOfB(const TsGemmArgs& args, long long member, long long first_column, long long from_k)
      : ScalesFrom(args.scale_b, member, 0, from_k, args.scale_shift),
        zeros(args.zero_b, member, 0, from_k, args.scale_shift),
        column(first_column) {}
  TS_INLINE float of(long long c, long long element) const { return at((column + c) / kScaleColumns, element); }
  // The first element after `element` that has another scale.
  TS_INLINE long long end_of_block(long long element) const { return ((((k + element) >> shift) + 1) << shift) - k; }
  TS_INLINE WeightScale of_weights(long long c, long long element) const {
    return {of(c, element), kZeroPoints ? zeros.at(column + c, element) : 0.0f};
  }
};

// Rounds floats to A's type. Weights are never NaN, so the bf16 rounding need not preserve NaN.
TS_INLINE Vec rounded_weights(Vec x) {
  if constexpr (kElement == Element::bf16) {
    const UVec bits = (UVec)x;
    return (Vec)((bits + (0x7fffu + ((bits >> 16) & 1u))) & 0xffff0000u);
  } else {
    HalfVec h;
    if constexpr (kLanes == 16) {
      asm("vcvtps2ph $0, %1, %0\n\tvcvtph2ps %0, %1" : "=&v"(h), "+v"(x));
    } else {
      asm("vcvtps2ph $0, %1, %0\n\tvcvtph2ps %0, %1" : "=&x"(h), "+x"(x));
    }
    return x;
  }
}

constexpr int upper_halves(int place, int) {
  return 2 * place + 1;
}

// Turns the stored weights of one block and column into the words that the kernel multiplies.
template <Element kType>
struct Unpacked;

// Each byte: the zero point is subtracted (exactly), the difference scaled, the product rounded.
template <>
struct Unpacked<Element::int8> {
  WeightScale scale;

  TS_INLINE explicit Unpacked(const WeightScale& s) : scale(s) {}
  TS_INLINE Vec scaled(const StoredB* from) const {
    const Vec weights = load_floats<Element::int8, kLanes>(from);
    return (kZeroPoints ? weights - scale.zero : weights) * scale.factor;
  }
  TS_INLINE Vec words(const StoredB* from) const {
    if constexpr (kPack == 1) return rounded_weights(scaled(from));
    // The conversion flushes denormal numbers to zero; the instructions that multiply do the same.
    const Vec low = scaled(from), high = scaled(from + kLanes);
    Vec both;
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both) : "v"(low), "v"(high));
    return both;
  }
};

// An int4 has sixteen values: a table of their meanings is computed once for each block, then looked up.
template <>
struct Unpacked<Element::int4> {
  static constexpr int kTables = 16 / kLanes;
  Vec table[kTables];  // by the four bits; pairs of bf16: the upper halves, twice

  TS_INLINE explicit Unpacked(const WeightScale& scale) {
    constexpr IVec kNumbers = TS_LANE_NUMBERS;
    for (int i = 0; i < kTables; ++i) {
      const IVec bits = kNumbers + i * kLanes;
      table[i] = rounded_weights((__builtin_convertvector((bits ^ 8) - 8, Vec) - scale.zero) * scale.factor);
    }
    if constexpr (kPack == 2)
      table[0] = (Vec)__builtin_shufflevector((WideShorts)table[0], (WideShorts)table[0],
                                              TS_DOUBLE_LANES(upper_halves, kLanes));
  }
  TS_INLINE Vec words(const StoredB* from) const {
    Vec found;
    if constexpr (kPack == 2) {
      // A byte to each word: its low half is looked up by the lower four bits (of five, in a table that repeats), the
      // other by the upper four.
      UVec bytes;
      asm("vpmovzxbd %1, %0" : "=v"(bytes) : "m"(*reinterpret_cast<const Group<kLanes>::LooseBytes*>(from)));
      asm("vpermw %1, %2, %0" : "=v"(found) : "v"(table[0]), "v"(bytes | bytes << 12));
    } else {
      unsigned both[2] = {};
      __builtin_memcpy(both, from, kLanes / 2);
      constexpr IVec kNumbers = TS_LANE_NUMBERS;
      const UVec words = kNumbers < 8 ? splat(both[0]) : splat(both[1]);
      const UVec places = words >> ((UVec)kNumbers % 8 * 4);
      if constexpr (kTables == 1) {
        asm("vpermps %1, %2, %0" : "=v"(found) : "v"(table[0]), "v"(places));
      } else {
        Vec upper;
        asm("vpermps %1, %2, %0" : "=x"(found) : "x"(table[0]), "x"(places));
        asm("vpermps %1, %2, %0" : "=x"(upper) : "x"(table[kTables - 1]), "x"(places));
        found = (IVec)(places << 28) < 0 ? upper : found;
      }
    }
    return found;
  }
};
using Weights = Unpacked<kElementB == Element::int4 ? Element::int4 : Element::int8>;

inline Vec weight_words_part(const StoredB* from, int elements, const Weights& weights) {
  StoredB buffer[kBlockElements / kStoredElementsB] = {};
  for (int i = 0; i < elements / kStoredElementsB; ++i) buffer[i] = from[i];
  return weights.words(buffer);
}

// Words of column `c`, from element `e` of k on, of `elements` that there are; both count from where the scales begin.
TS_INLINE Vec scaled_words(const StoredB* from, int elements, const ScalesOfB& scales, long long c, long long e) {
  if (elements <= 0) return Vec{};
  if constexpr (kWeights) {
    const Weights weights(scales.of_weights(c, e));
    return elements >= kBlockElements ? weights.words(from) : weight_words_part(from, elements, weights);
  } else {
    return (elements >= kBlockElements ? words_along<kElementB>(from) : words_along_part<kElementB>(from, elements)) *
           scales.of(c, e);
  }
}
