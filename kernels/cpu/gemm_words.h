// Products work on 32-bit words of kPack elements that are neighbours along k: floats, pairs of bf16 or of int16, fours
// of int8. Elements come in either order and leave as blocks of words in either order; beyond the matrix words are
// zero.

using Stored = StoredAs<kElement>::Type;

constexpr bool kTiles = kInstruction == Instruction::amx_bf16 || kInstruction == Instruction::amx_int8;
constexpr bool kInteger = kElement == Element::int8;
constexpr int kPack = kInstruction == Instruction::fma_f32                                             ? 1
                      : kInstruction == Instruction::dot_int8 || kInstruction == Instruction::amx_int8 ? 4
                                                                                                       : 2;
constexpr int kBlockElements = kLanes * kPack;  // of a vector of words
// vpdpbusd takes its left operand without sign: A's elements get 128 added, and the sums start at -128 sum(b).
constexpr bool kOffset = kInstruction == Instruction::dot_int8;

typedef unsigned LooseUVec __attribute__((vector_size(4 * kLanes), aligned(1), may_alias));
typedef typename Group<kLanes>::Shorts HalfVec;
typedef typename Group<kLanes>::LooseShorts LooseHalfVec;
typedef typename Group<2 * kLanes>::Bytes ByteVec;
typedef typename Group<2 * kLanes>::LooseBytes LooseByteVec;
typedef short WideShorts __attribute__((vector_size(4 * kLanes)));

// A vector of words from kBlockElements neighbours along k.
TS_INLINE Vec words_along(const Stored* from) {
  if constexpr (kPack == 1) {
    return load_floats<kElement, kLanes>(from);
  } else if constexpr (kInstruction == Instruction::dot_int16) {
    return (Vec) __builtin_convertvector(*reinterpret_cast<const LooseByteVec*>(from), WideShorts);
  } else {
    return (Vec) * reinterpret_cast<const LooseUVec*>(from);
  }
}

inline Vec words_along_part(const Stored* from, int elements) {
  Stored buffer[kBlockElements] = {};
  for (int i = 0; i < elements; ++i) buffer[i] = from[i];
  return words_along(buffer);
}

// A vector of words from kLanes neighbours of kPack rows, `leading` elements apart.
TS_INLINE Vec words_across(const Stored* from, long long leading) {
  if constexpr (kPack == 1) {
    return load_floats<kElement, kLanes>(from);
  } else if constexpr (kInteger) {
    UVec word = {};
    constexpr int kBits = 32 / kPack;
#pragma GCC unroll 4
    for (int i = 0; i < kPack; ++i) {
      const auto bytes = *reinterpret_cast<const typename Group<kLanes>::LooseBytes*>(from + i * leading);
      const UVec wide = (UVec) __builtin_convertvector(bytes, IVec);
      word |= (kBits == 32 ? wide : wide & ((1u << kBits) - 1)) << (i * kBits);
    }
    return (Vec)word;
  } else {
    const UVec low = __builtin_convertvector(*reinterpret_cast<const LooseHalfVec*>(from), UVec);
    const UVec high = __builtin_convertvector(*reinterpret_cast<const LooseHalfVec*>(from + leading), UVec);
    return (Vec)(low | (high << 16));
  }
}

// The same at the matrix' edge: `rows` (at most kPack) of `count` (at most kLanes) elements exist.
inline Vec words_across_part(const Stored* from, long long leading, int rows, int count) {
  Stored buffer[kPack * kLanes] = {};
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < count; ++j) buffer[i * kLanes + j] = from[i * leading + j];
  return words_across(buffer, kLanes);
}

// A block of kLanes indices (rows of A, columns of B) by kLanes words, of which `indices` and `elements` along k exist.
// kAlong: an index's elements are neighbours, and the block has a row of words for each index; else the elements of one
// k are neighbours, and it has a row of indices for each word. `rows` of the block are written.
template <bool kAlong>
inline void gather_block(const Stored* from, long long leading, int indices, int elements, float* to, int to_stride,
                         int rows) {
  if constexpr (kAlong) {
    for (int i = 0; i < rows; ++i) {
      const Stored* row = from + i * leading;
      store(to + i * to_stride, i >= indices || elements <= 0 ? Vec{}
                                : elements >= kBlockElements  ? words_along(row)
                                                              : words_along_part(row, elements));
    }
  } else {
    for (int w = 0; w < rows; ++w) {
      const int left = elements - w * kPack;
      const Stored* row = from + w * kPack * leading;
      store(to + w * to_stride,
            left <= 0 || indices <= 0 ? Vec{}
            : left >= kPack && indices >= kLanes
                ? words_across(row, leading)
                : words_across_part(row, leading, (int)min_of(left, kPack), (int)min_of(indices, kLanes)));
    }
  }
}
