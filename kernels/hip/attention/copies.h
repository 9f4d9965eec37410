// Keys and values on their way: from memory into registers, where they wait while something else is multiplied, and
// from there into local memory.
#pragma once

#include "item.h"
#include "narrow.h"

namespace ts {

// A chunk of a row of kRowElements elements. What is behind them may be any of the row's own.
template <int kRowElements, int kElementBytes>
TS_DEVICE ChunkOf<kElementBytes>::Type load_chunk(const u8* row, int chunk) {
  using Chunk = ChunkOf<kElementBytes>::Type;
  if constexpr (cfg::kUnaligned) {
    using Element = BitsOf<kElementBytes>::Type;
    constexpr int kEach = 4 / kElementBytes;
    Chunk words = {};
#pragma unroll
    for (int e = 0; e < kChunk; ++e)
      words[e / kEach] |= u32{reinterpret_cast<const Element*>(row)[imin(chunk * kChunk + e, kRowElements - 1)]}
                          << 8 * kElementBytes * (e % kEach);
    return words;
  }
  return *reinterpret_cast<const Chunk*>(row + kChunk * kElementBytes * imin(chunk, kRowElements / kChunk - 1));
}
// The chunk with zeros behind the row's elements.
template <int kRowElements>
TS_DEVICE Words4 cut_chunk(Words4 words, int chunk) {
  if constexpr (kDepthChunks * kChunk > kRowElements) {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const int count = kRowElements - (chunk * kChunk + 2 * w);
      words[w] = count >= 2 ? words[w] : count == 1 ? words[w] & 0xffff : 0;
    }
  }
  return words;
}

// The scales of a block of keys or of values, one for each key.
class ScaleCopy {
 public:
  TS_DEVICE void load(const KeySource& keys, const TsScale& scales, int first) {
    if constexpr (kScaledRows) {
#pragma unroll
      for (int i = 0; i < kUnits; ++i) held_[i] = keys.scale_at(scales, first + unit_of(i));
    }
  }
  TS_DEVICE void store(TS_LDS float* to) const {
    if constexpr (kScaledRows) {
#pragma unroll
      for (int i = 0; i < kUnits; ++i) to[unit_of(i)] = held_[i];
    }
  }

 private:
  static constexpr int kUnits = ceil_div(cfg::kTileN, kThreads);
  TS_DEVICE static int unit_of(int i) {
    return (thread_index() + i * kThreads) % cfg::kTileN;
  }
  float held_[kUnits];
};

// A block of keys, as it lies. Of a small block several threads bring the same. Keys that no row sees are not read: in
// their place is the nearest one that is seen.
class KeyCopy {
 public:
  TS_DEVICE void load(const KeySource& keys, int first) {
    const int thread = recomputed(thread_index());
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int unit = unit_of(thread, i), chunk = unit % kDepthChunks;
      const u8* const row = keys.at(first + unit / kDepthChunks);
      held_[i] = load_chunk<cfg::kHeadDimQk, kKeyElementBytes>(row, chunk);
    }
  }
  TS_DEVICE void store(TS_LDS u8* to) const {
    const int thread = recomputed(thread_index());
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int unit = unit_of(thread, i);
      const int chunk = unit % kDepthChunks;
      *reinterpret_cast<TS_LDS Words4*>(to + KeyRows::offset(unit / kDepthChunks, chunk)) =
          cut_chunk<cfg::kHeadDimQk>(widen(held_[i]), chunk);
    }
  }

 private:
  static constexpr int kAllUnits = cfg::kTileN * kDepthChunks;
  static constexpr int kUnits = ceil_div(kAllUnits, kThreads);
  TS_DEVICE static int unit_of(int thread, int i) {
    const int unit = thread + i * kThreads;
    return kAllUnits % kThreads == 0 ? unit : unit % kAllUnits;
  }
  KeyChunk held_[kUnits];
};

// A block of values, transposed on its way. A unit is a chunk of columns of kUnitKeys keys whose places follow one
// another; threads that follow one another bring other keys of the same columns.
class ValueCopy {
 public:
  TS_DEVICE void load(const KeySource& values, int first) {
    const int thread = recomputed(thread_index());
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int unit = unit_of(thread, i);
      const int chunk = unit / kKeyUnits;  // columns that are not there make results that are not stored
#pragma unroll
      for (int e = 0; e < kUnitKeys; ++e)
        held_[i][e] = load_chunk<cfg::kHeadDimV, kKeyElementBytes>(
            values.at(first + key_of_place(unit % kKeyUnits * kUnitKeys + e)), chunk);
    }
  }
  TS_DEVICE void store(TS_LDS u8* to) const {
    const int thread = recomputed(thread_index());
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int unit = unit_of(thread, i), place = unit % kKeyUnits * kUnitKeys;
      Words4 wide[kUnitKeys];
#pragma unroll
      for (int e = 0; e < kUnitKeys; ++e) wide[e] = widen(held_[i][e]);
#pragma unroll
      for (int column = 0; column < kChunk; ++column) {
        typedef u32 Keys __attribute__((vector_size(2 * kUnitKeys)));
        Keys keys;
#pragma unroll
        for (int e = 0; e < kUnitKeys; e += 2)
          keys[e / 2] = element(wide[e], column) | element(wide[e + 1], column) << 16;
        const int offset = ValueRows::offset(unit / kKeyUnits * kChunk + column, place / kChunk);
        *reinterpret_cast<TS_LDS Keys*>(to + offset + place % kChunk * 2) = keys;
      }
    }
  }

 private:
  static constexpr int kUnitKeys = cfg::kTileN / 4 * (kColumns / kChunk) >= kThreads ? 4 : 2;
  static constexpr int kKeyUnits = cfg::kTileN / kUnitKeys;
  static constexpr int kAllUnits = kKeyUnits * (kColumns / kChunk);
  static constexpr int kUnits = ceil_div(kAllUnits, kThreads);
  TS_DEVICE static int unit_of(int thread, int i) {
    const int unit = thread + i * kThreads;
    return kAllUnits % kThreads == 0 ? unit : unit % kAllUnits;
  }
  TS_DEVICE static u32 element(const Words4& words, int e) {
    return words[e / 2] >> 16 * (e % 2) & 0xffff;
  }

  KeyChunk held_[kUnits][kUnitKeys];
};

}  // namespace ts
