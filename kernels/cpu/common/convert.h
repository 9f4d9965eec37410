// Between the tensors' element type and the kernel's 32-bit words. A word is a float, or a pair of bf16 when the
// instruction takes pairs. Rows are walked in chunks of eight elements: head dimensions are multiples of 8, so no chunk
// passes a row's end.

using Stored = StoredAs<kElement>::Type;

typedef float Chunk __attribute__((vector_size(32)));
typedef unsigned ChunkBits __attribute__((vector_size(32)));
typedef float LooseChunk __attribute__((vector_size(32), aligned(4), may_alias));
typedef unsigned short Shorts __attribute__((vector_size(16)));
typedef unsigned short LooseShorts __attribute__((vector_size(16), aligned(2), may_alias));

constexpr int kPack = kInstruction == Instruction::fma_f32 ? 1 : 2;  // elements in a word
constexpr int kWordsQk = kHeadDimQk / kPack;

TS_INLINE Shorts load_shorts(const void* from) {
  return *static_cast<const LooseShorts*>(from);
}

// Eight elements as floats.
TS_INLINE Chunk load_chunk(const Stored* from) {
  return load_floats<kElement, 8>(from);
}

// Rounds eight floats to nearest even; a NaN stays a NaN.
TS_INLINE void store_chunk(Stored* to, Chunk x) {
  store_floats<kElement, 8>(to, x);
}

TS_INLINE void store_words(float* to, Chunk x) {
  *reinterpret_cast<LooseChunk*>(to) = x;
}

// One row of `kColumns` elements as words.
template <int kColumns>
TS_INLINE void row_to_words(const Stored* from, float* to) {
#pragma GCC unroll 2
  for (int c = 0; c < kColumns; c += 8) {
    if constexpr (kPack == 1) {
      store_words(to + c, load_chunk(from + c));
    } else {
      *reinterpret_cast<LooseShorts*>(to + c / 2) = load_shorts(from + c);
    }
  }
}

// Two rows as one row of pairs (first[c], second[c]).
template <int kColumns>
TS_INLINE void rows_to_pairs(const Stored* first, const Stored* second, float* to) {
#pragma GCC unroll 2
  for (int c = 0; c < kColumns; c += 8) {
    const ChunkBits low = __builtin_convertvector(load_shorts(first + c), ChunkBits);
    const ChunkBits high = __builtin_convertvector(load_shorts(second + c), ChunkBits);
    store_words(to + c, (Chunk)(low | (high << 16)));
  }
}

TS_INLINE void zero_words(float* to, int count) {
  for (int c = 0; c < count; ++c) to[c] = 0;
}

// The element that joins a lone last row to a pair: zeros, never leftovers, because 0 * NaN is NaN.
alignas(64) constexpr Stored kZeroRow[256] = {};
