// Between the tensors' element type and the kernel's 32-bit words. A word is a float, or a pair of bf16 when the
// instruction takes pairs. Rows are walked in chunks of eight elements: head dimensions are multiples of 8, so no chunk
// passes a row's end.

using Stored = StoredAs<kElement>::Type;  // of q and o
using Cached = StoredAs<kCache>::Type;    // of k and v

typedef float Chunk __attribute__((vector_size(32)));
typedef unsigned ChunkBits __attribute__((vector_size(32)));
typedef float LooseChunk __attribute__((vector_size(32), aligned(4), may_alias));
typedef unsigned short Shorts __attribute__((vector_size(16)));
typedef unsigned short LooseShorts __attribute__((vector_size(16), aligned(2), may_alias));

constexpr int kPack = kInstruction == Instruction::fma_f32 ? 1 : 2;  // elements in a word
constexpr int kWordsQk = kHeadDimQk / kPack;

// Eight elements as bf16, which holds 8-bit ones without rounding.
template <Element kType>
TS_INLINE Shorts load_shorts(const typename StoredAs<kType>::Type* from) {
  if constexpr (sizeof(*from) == 2) {
    return *reinterpret_cast<const LooseShorts*>(from);
  } else {
    return __builtin_convertvector((ChunkBits)load_floats<kType, 8>(from) >> 16, Shorts);
  }
}

// Rounds eight floats to nearest even; a NaN stays a NaN.
TS_INLINE void store_chunk(Stored* to, Chunk x) {
  store_floats<kElement, 8>(to, x);
}

TS_INLINE void store_words(float* to, Chunk x) {
  *reinterpret_cast<LooseChunk*>(to) = x;
}

// One row of `kColumns` elements as words.
template <int kColumns, Element kType>
TS_INLINE void row_to_words(const typename StoredAs<kType>::Type* from, float* to) {
#pragma GCC unroll 2
  for (int c = 0; c < kColumns; c += 8) {
    if constexpr (kPack == 1) {
      store_words(to + c, load_floats<kType, 8>(from + c));
    } else {
      *reinterpret_cast<LooseShorts*>(to + c / 2) = load_shorts<kType>(from + c);
    }
  }
}

// Two rows of keys or values as one row of pairs (first[c], second[c]).
template <int kColumns>
TS_INLINE void rows_to_pairs(const Cached* first, const Cached* second, float* to) {
#pragma GCC unroll 2
  for (int c = 0; c < kColumns; c += 8) {
    const ChunkBits low = __builtin_convertvector(load_shorts<kCache>(first + c), ChunkBits);
    const ChunkBits high = __builtin_convertvector(load_shorts<kCache>(second + c), ChunkBits);
    store_words(to + c, (Chunk)(low | (high << 16)));
  }
}

TS_INLINE void zero_words(float* to, int count) {
  for (int c = 0; c < count; ++c) to[c] = 0;
}

// The element that joins a lone last row to a pair: zeros, never leftovers, because 0 * NaN is NaN.
alignas(64) constexpr Cached kZeroRow[kHeadDimV] = {};
