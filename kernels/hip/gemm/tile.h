// A step of an operand on its way: from memory into registers, where it waits while another step is multiplied, and
// from there into local memory.
//
// In local memory a tile lies along k, whatever its order in memory: a row of kTileK elements for each row of A or
// column of B, in chunks of 16 bytes. A chunk's place is exclusive-or'ed with its row, so that lanes which read the
// same chunk of rows that follow one another find different banks.
#pragma once

#include "types.h"

namespace ts::gemm {

constexpr int kThreads = cfg::kLanes * cfg::kWavesM * cfg::kWavesN;
constexpr int kElementBytes = bytes_of(cfg::kTypeA);
constexpr int kChunk = 16 / kElementBytes;        // elements
constexpr int kRowChunks = cfg::kTileK / kChunk;  // of a row
constexpr int kRowBytes = cfg::kTileK * kElementBytes;
constexpr int kRowsOfBanks = imax(1, 128 / kRowBytes);  // rows that all banks hold together

TS_DEVICE int chunk_offset(int row, int chunk) {
  return row * kRowBytes + (chunk ^ row / kRowsOfBanks % imin(kRowChunks, 8)) * 16;
}

// kRows rows of A, or columns of B, by kTileK of k. A unit is what a thread brings at a time: along k a chunk; across k
// the chunks of as many k as share a word, which are interleaved on their way.
template <int kRows, bool kAlongK>
class TileCopy {
 public:
  static constexpr int kBytes = kRows * kRowBytes;

  // `base` is element (0, 0) of the operand, `first` the tile's first of `rows` rows.
  TS_DEVICE TileCopy(const void* base, i64 stride, int first, int rows) {
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int unit = unit_of(i);
      if constexpr (kAlongK) {
        // A row that is not there is read as the last one: what it makes is not stored.
        const int row = imin(first + unit / kRowChunks, rows - 1);
        from_[i] = static_cast<const u8*>(base) + (row * stride + unit % kRowChunks * kChunk) * kElementBytes;
      } else {
        const int inner = first + unit % (kRows / kChunk) * kChunk;
        left_[i] = rows - inner;
        from_[i] = static_cast<const u8*>(base) + (unit / (kRows / kChunk) * kPack * stride + inner) * kElementBytes;
      }
    }
    step_bytes_ = (kAlongK ? i64{1} : stride) * cfg::kTileK * kElementBytes;
    across_bytes_ = kAlongK ? 0 : stride * kElementBytes;
  }

  // Loads the next step, of which `k_left` elements of k are there; kWhole: all kTileK.
  template <bool kWhole>
  TS_DEVICE void load(int k_left) {
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int unit = unit_of(i);
#pragma unroll
      for (int p = 0; p < kLoads; ++p) {
        int count = kChunk;
        if constexpr (kAlongK) {
          if constexpr (!kWhole) count = k_left - unit % kRowChunks * kChunk;
        } else {
          const bool there = kWhole || unit / (kRows / kChunk) * kPack + p < k_left;
          count = there ? left_[i] : 0;
        }
        const u8* const from = from_[i] + p * across_bytes_;
        if (cfg::kAligned && count >= kChunk)
          held_[i][p] = *reinterpret_cast<const Words4*>(from);
        else
          held_[i][p] = load_part<kElementBytes>(from, count);
      }
      from_[i] += step_bytes_;
    }
  }

  TS_DEVICE void store(TS_LDS u8* to) const {
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int unit = unit_of(i);
      if constexpr (kAlongK) {
        Words4 words = held_[i][0];
        if constexpr (cfg::kFnuz) {
#pragma unroll
          for (int w = 0; w < 4; ++w) words[w] = recode_fp8(words[w]);
        }
        *reinterpret_cast<TS_LDS Words4*>(to + chunk_offset(unit / kRowChunks, unit % kRowChunks)) = words;
      } else {
        const int row = unit % (kRows / kChunk) * kChunk, k = unit / (kRows / kChunk) * kPack;
#pragma unroll
        for (int e = 0; e < kChunk; ++e) {
          u32 word = 0;
#pragma unroll
          for (int p = 0; p < kPack; ++p) word |= element(held_[i][p], e) << (8 * kElementBytes * p);
          if constexpr (cfg::kFnuz) word = recode_fp8(word);
          *reinterpret_cast<TS_LDS u32*>(to + chunk_offset(row + e, k / kChunk) + k % kChunk * kElementBytes) = word;
        }
      }
    }
  }

 private:
  static constexpr int kPack = 4 / kElementBytes;
  static constexpr int kLoads = kAlongK ? 1 : kPack;
  static constexpr int kAllUnits = kRows * kRowChunks / kLoads;
  static constexpr int kUnits = ceil_div(kAllUnits, kThreads);
  static_assert(kRows % kChunk == 0 && cfg::kTileK % kChunk == 0, "a tile has whole chunks");

  // Of a small tile several threads bring the same.
  TS_DEVICE static int unit_of(int i) {
    const int unit = thread_index() + i * kThreads;
    return kAllUnits % kThreads == 0 ? unit : unit % kAllUnits;
  }

  TS_DEVICE static u32 element(const Words4& words, int e) {
    const u32 word = words[e / kPack] >> (8 * kElementBytes * (e % kPack));
    return kElementBytes == 2 ? word & 0xffff : word & 0xff;
  }

  Words4 held_[kUnits][kLoads];
  const u8* from_[kUnits];
  int left_[kUnits];
  i64 step_bytes_, across_bytes_;
};

}  // namespace ts::gemm
