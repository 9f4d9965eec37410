// Rows of a tensor to shared memory, by all threads of a block.
#pragma once

#include "ptx.cuh"

namespace ts {

constexpr int kElementBytes = cfg::kFp32 ? 4 : 2;

// Copies `kRows` rows from row `first` of a sequence of `length`, the first `columns` elements of each; rows and
// columns outside become zeros. A row in shared memory has kPitch bytes, of which the last 16 are left alone.
template <int kThreads, int kRows, int kPitch>
TS_DEVICE void load_rows(u32 destination, const char* base, i64 row_bytes, int first, int length, int columns) {
  constexpr int kRowBytes = kPitch - 16;
  if constexpr (cfg::kUnaligned && cfg::kFp32) {
    constexpr int kWords = kRowBytes / 4;
    for (int i = threadIdx.x; i < kRows * kWords; i += kThreads) {
      const int row = i / kWords, column = i % kWords;
      const bool valid = first + row < length && column < columns;
      copy_async_word(destination + row * kPitch + column * 4,
                      valid ? base + (first + row) * row_bytes + column * 4 : base, valid);
    }
  } else if constexpr (cfg::kUnaligned) {
    // Several pairs are on their way before the first is stored: a store waits for its own.
    constexpr int kPairs = kRowBytes / 4, kAtOnce = 8;
    for (int begin = threadIdx.x; begin < kRows * kPairs; begin += kAtOnce * kThreads) {
      u32 low[kAtOnce], high[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int i = begin + j * kThreads, row = i / kPairs, column = i % kPairs * 2;
        const auto* const from = reinterpret_cast<const unsigned short*>(base + (first + row) * row_bytes) + column;
        const bool inside = i < kRows * kPairs && first + row < length;
        low[j] = inside && column < columns ? from[0] : 0;
        high[j] = inside && column + 1 < columns ? from[1] : 0;
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int i = begin + j * kThreads, row = i / kPairs, column = i % kPairs * 2;
        if (i < kRows * kPairs)
          asm volatile("st.shared.b32 [%0], %1;" ::"r"(destination + row * kPitch + column * 2), "r"(low[j] | high[j] << 16)
                       : "memory");
      }
    }
  } else {
    constexpr int kPieces = kRowBytes / 16;
    for (int i = threadIdx.x; i < kRows * kPieces; i += kThreads) {
      const int row = i / kPieces, piece = i % kPieces;
      const bool valid = first + row < length && piece * (16 / kElementBytes) < columns;
      copy_async(destination + row * kPitch + piece * 16, valid ? base + (first + row) * row_bytes + piece * 16 : base,
                 valid);
    }
  }
}

}  // namespace ts
