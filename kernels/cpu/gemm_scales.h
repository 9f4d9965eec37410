// Scales along k, and integer weights, which are nothing without them. A vector of words never crosses from one block
// of k to the next: blocks are multiples of 32 elements, or all of k.

constexpr bool kWeights = kScales == Scales::int8_weights || kScales == Scales::int4_weights;
constexpr bool kScaledA = kScales == Scales::blocks;
constexpr int kScaleColumns = kScales == Scales::blocks ? 128 : 1;  // of B, that share scales
static_assert(kScales == Scales::none || (kRowA && !kRowB), "scaled matrices lie along k");

template <Element kType>
TS_INLINE float scale_at(const void* scales, long long index) {
  if constexpr (kType == Element::fp32) return static_cast<const float*>(scales)[index];
  const unsigned bits = static_cast<const unsigned short*>(scales)[index];
  if constexpr (kType == Element::bf16) return __builtin_bit_cast(float, bits << 16);
  float x;
  asm("vmovd %1, %0\n\tvcvtph2ps %0, %0" : "=x"(x) : "r"(bits));
  return x;
}

// The scales of lines (rows of A, columns of B) from `line` on and of k from `k` on.
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

// Columns of B that share scales are counted from the matrix' first.
struct ScalesOfB : ScalesFrom<kScaleType> {
  long long column;

  ScalesOfB(const TsGemmArgs& args, long long member, long long first_column, long long from_k)
      : ScalesFrom(args.scale_b, member, 0, from_k, args.scale_shift), column(first_column) {}
  TS_INLINE float of(long long c, long long element) const { return at((column + c) / kScaleColumns, element); }
};

// kLanes weights as floats.
TS_INLINE Vec load_weights(const StoredB* from) {
  if constexpr (kElementB == Element::int4) {
    unsigned both[2] = {};
    __builtin_memcpy(both, from, kLanes / 2);
    constexpr IVec kNumbers = TS_LANE_NUMBERS;
    const UVec words = kNumbers < 8 ? splat(both[0]) : splat(both[1]);
    const UVec nibbles = words >> ((UVec)kNumbers % 8 * 4) & 15u;
    return __builtin_convertvector((IVec)(nibbles ^ 8u) - 8, Vec);
  } else {
    return load_floats<kElementB, kLanes>(from);
  }
}

// Floats rounded to A's type. Weights are numbers: there is no NaN to keep.
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

// A vector of words from kBlockElements weights of a column.
TS_INLINE Vec weight_words(const StoredB* from, float scale) {
  const Vec low = rounded_weights(load_weights(from) * scale);
  if constexpr (kPack == 1) {
    return low;
  } else {
    // The upper halves of two vectors side by side.
    const Vec high = rounded_weights(load_weights(from + kLanes / kStoredElementsB) * scale);
    return (Vec)__builtin_shufflevector((WideShorts)low, (WideShorts)high, TS_DOUBLE_LANES(upper_halves, kLanes));
  }
}

inline Vec weight_words_part(const StoredB* from, int elements, float scale) {
  StoredB buffer[kBlockElements / kStoredElementsB] = {};
  for (int i = 0; i < elements / kStoredElementsB; ++i) buffer[i] = from[i];
  return weight_words(buffer, scale);
}

// Words of column `c`, from element `e` of k on, of `elements` that there are; both count from where the scales begin.
TS_INLINE Vec scaled_words(const StoredB* from, int elements, const ScalesOfB& scales, long long c, long long e) {
  if (elements <= 0) return Vec{};
  const float scale = scales.of(c, e);
  if constexpr (kWeights) {
    return elements >= kBlockElements ? weight_words(from, scale) : weight_words_part(from, elements, scale);
  } else {
    return (elements >= kBlockElements ? words_along<kElementB>(from) : words_along_part<kElementB>(from, elements)) *
           scale;
  }
}
