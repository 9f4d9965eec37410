// The kernels multiply 32-bit words of kPack elements that are neighbours along k: floats, pairs of bf16 or of int16,
// fours of int8. Elements come in either order and leave as blocks of words in either order; beyond the matrix words
// are zero.

using Stored = StoredAs<kElement>::Type;
using StoredB = StoredAs<kElementB>::Type;
constexpr int kStoredElementsB = kElementB == Element::int4 ? 2 : 1;  // in a StoredB

constexpr bool kTiles = kInstruction == Instruction::amx_bf16 || kInstruction == Instruction::amx_int8;
constexpr bool kInteger = kElement == Element::int8;
constexpr int kPack = kInstruction == Instruction::fma_f32                                             ? 1
                      : kInstruction == Instruction::dot_int8 || kInstruction == Instruction::amx_int8 ? 4
                                                                                                       : 2;
constexpr int kBlockElements = kLanes * kPack;  // of a vector of words
// vpdpbusd takes its left operand without sign: A's elements get 128 added, and the sums start at -128 sum(b).
constexpr bool kOffset = kInstruction == Instruction::dot_int8;

// Sums are floats or integers. Both lie in arrays of float; load_sum and store_sum know which they are.
template <bool>
struct SumOf {
  using Type = Vec;
};
template <>
struct SumOf<true> {
  using Type = IVec;
};
using Sum = SumOf<kInteger>::Type;

TS_INLINE Sum load_sum(const float* from) {
  return (Sum)load(from);
}
TS_INLINE void store_sum(float* to, Sum x) {
  store(to, (Vec)x);
}

typedef unsigned LooseUVec __attribute__((vector_size(4 * kLanes), aligned(1), may_alias));
typedef typename Group<kLanes>::Shorts HalfVec;
typedef typename Group<kLanes>::LooseShorts LooseHalfVec;
typedef typename Group<2 * kLanes>::Bytes ByteVec;
typedef typename Group<2 * kLanes>::LooseBytes LooseByteVec;
typedef short WideShorts __attribute__((vector_size(4 * kLanes)));

// A vector of words from kBlockElements neighbours along k.
template <Element kType = kElement>
TS_INLINE Vec words_along(const typename StoredAs<kType>::Type* from) {
  if constexpr (kPack == 1) {
    return load_floats<kType, kLanes>(from);
  } else if constexpr (kInstruction == Instruction::dot_int16) {
    return (Vec) __builtin_convertvector(*reinterpret_cast<const LooseByteVec*>(from), WideShorts);
  } else {
    return (Vec) * reinterpret_cast<const LooseUVec*>(from);
  }
}

template <Element kType = kElement>
inline Vec words_along_part(const typename StoredAs<kType>::Type* from, int elements) {
  typename StoredAs<kType>::Type buffer[kBlockElements];
  read_part<kBlockElements>(from, elements, buffer);
  return words_along<kType>(buffer);
}

// Element l of the result's even places is a's, of its odd places b's.
constexpr int interleaved(int place, int count) {
  return place / 2 + place % 2 * count;
}

// A vector of words from kLanes neighbours of kPack rows, `leading` elements apart.
template <Element kType = kElement>
TS_INLINE Vec words_across(const typename StoredAs<kType>::Type* from, long long leading) {
  if constexpr (kPack == 1) {
    return load_floats<kType, kLanes>(from);
  } else if constexpr (kInteger) {
    using Bytes = typename Group<kLanes>::Bytes;
    Bytes row[kPack];
#pragma GCC unroll 4
    for (int i = 0; i < kPack; ++i)
      row[i] = *reinterpret_cast<const typename Group<kLanes>::LooseBytes*>(from + i * leading);
    const auto pairs = __builtin_shufflevector(row[0], row[1], TS_DOUBLE_LANES(interleaved, kLanes));
    if constexpr (kPack == 2) return (Vec) __builtin_convertvector(pairs, WideShorts);
    const auto others = __builtin_shufflevector(row[kPack - 2], row[kPack - 1], TS_DOUBLE_LANES(interleaved, kLanes));
    return (Vec)__builtin_shufflevector((HalfVec)pairs, (HalfVec)others, TS_DOUBLE_LANES(interleaved, kLanes));
  } else {
    const HalfVec low = *reinterpret_cast<const LooseHalfVec*>(from);
    const HalfVec high = *reinterpret_cast<const LooseHalfVec*>(from + leading);
    return (Vec)__builtin_shufflevector(low, high, TS_DOUBLE_LANES(interleaved, kLanes));
  }
}

// The same at the matrix' edge: `rows` (at most kPack) of `count` (at most kLanes) elements exist.
template <Element kType = kElement>
inline Vec words_across_part(const typename StoredAs<kType>::Type* from, long long leading, int rows, int count) {
  typename StoredAs<kType>::Type buffer[kPack * kLanes];
#pragma GCC unroll 4
  for (int i = 0; i < kPack; ++i) read_part<kLanes>(from + i * leading, i < rows ? count : 0, buffer + i * kLanes);
  return words_across<kType>(buffer, kLanes);
}

// Words with 128 added to every element, for the operand without sign.
template <bool kRaised>
TS_INLINE Vec raised(Vec x) {
  return kRaised ? (Vec)((UVec)x ^ 0x80808080u) : x;
}

// The transpose of a block whose rows of words are row(0), row(1) ... : of its own rows the first `rows`.
template <class Row>
TS_INLINE void transpose_rows(const Row& row, float* to, long long to_stride, int rows) {
  Vec x[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) x[i] = row(i);
  transpose(x);
#pragma GCC unroll 16
  for (int r = 0; r < kLanes; ++r)
    if (r < rows) store(to + r * to_stride, x[r]);
}

// A row of `words` from `elements` neighbours along k; its vectors are `step` words apart.
template <bool kRaised>
inline void gather_row(const Stored* from, int elements, int words, float* to, int step) {
  int e = 0;
  for (; e + kBlockElements <= elements; e += kBlockElements, to += step)
    store(to, raised<kRaised>(words_along(from + e)));
  for (; e < words * kPack; e += kBlockElements, to += step)
    store(to, raised<kRaised>(e < elements ? words_along_part(from + e, elements - e) : Vec{}));
}
