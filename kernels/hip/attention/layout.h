// Sizes of the attention template, and which key or column a lane's values belong to.
//
// Scores are the product of keys (the instruction's rows) and queries (its columns), outputs that of values' columns
// and queries: so a lane has one query throughout, and the lanes that have parts of the same query stand kFragment
// apart.
#pragma once

#include "../common/chunk.h"
#include "../common/matrix.h"
#include "abi.h"

namespace ts {

constexpr int kFragment = cfg::kFragment;
constexpr int kParts = cfg::kLanes / kFragment;  // lanes that have scores of one query
constexpr int kThreads = cfg::kLanes * cfg::kWaves;
constexpr int kTileM = kFragment * (cfg::kWaves / cfg::kColumnWaves);
constexpr int kChunk = 8;  // elements of 16 bytes

// Keys and values of 8 bits are widened on their way to local memory, without rounding.
constexpr bool kNarrow = cfg::kCacheFp8 || cfg::kCacheInt8;
constexpr int kKeyElementBytes = kNarrow ? 1 : 2;
constexpr bool kScaledRows = cfg::kPageScale;  // each key and value has a scale of its own

// What a lane reads of a row at a time, in chunks, and how many instructions that is.
constexpr int kLaneChunks = imax(1, cfg::kOperandWords / 4);
constexpr int kInstructions = imax(1, 4 / cfg::kOperandWords);
constexpr int kStepChunks = cfg::kGroupsK * kLaneChunks;

constexpr int kDepthChunks = round_up(ceil_div(cfg::kHeadDimQk, kChunk), kStepChunks);
constexpr int kSteps = kDepthChunks / kStepChunks;
constexpr int kColumns = round_up(cfg::kHeadDimV, kFragment* cfg::kColumnWaves);
constexpr int kColumnFragments = kColumns / kFragment / cfg::kColumnWaves;  // of a wave
constexpr int kKeyFragments = cfg::kTileN / kFragment;
static_assert(cfg::kTileN % kFragment == 0, "keys come in whole fragments");

// The row of an instruction's result that value r of a lane of part `part` is.
TS_DEVICE constexpr int row_of_result(int r, int part) {
  constexpr int kRun = cfg::kRunOfResults;
  return (r / kRun * kParts + part) * kRun + r % kRun;
}

// Which columns of values an instruction takes as its rows is free: those that make a lane's results lie beside one
// another, from column part * kResults of the fragment on.
TS_DEVICE int column_of_row(int row) {
  constexpr int kRun = cfg::kRunOfResults;
  return row / kRun % kParts * kResults + row / (kRun * kParts) * kRun + row % kRun;
}

// The order of keys in the second product is free as well. Values lie in local memory in the order in which lanes have
// the scores of their keys: of kJoin fragments of keys first all those of part 0, then all of part 1. So probabilities
// are operands as they are.
constexpr int kJoin = imax(1, kChunk / kResults);
constexpr int kShare = kJoin * kResults;  // elements of one part, of kJoin fragments
static_assert(kKeyFragments % kJoin == 0, "keys come in whole chunks of a lane");
TS_DEVICE constexpr int key_of_place(int place) {
  const int joined = place / (kFragment * kJoin), part = place / kShare % kParts, in = place % kShare;
  return (joined * kJoin + in / kResults) * kFragment + row_of_result(in % kResults, part);
}

// What a lane brings of kJoin fragments. Where all parts bring the same, that is everybody's share.
constexpr int kOperandShares = cfg::kGroupsK == 1 ? kParts : 1;
static_assert(cfg::kGroupsK == 1 || cfg::kGroupsK == kParts, "a part brings what it has");
constexpr int kProductWords = kOperandShares * kShare / 2;
static_assert(kProductWords % 4 == 0 && kProductWords % cfg::kOperandWords == 0, "whole chunks and operands");

using Operand = u32[cfg::kOperandWords];
template <int N>
TS_DEVICE const Operand& operand(const u32 (&words)[N], int index) {
  return *reinterpret_cast<const Operand*>(words + index * cfg::kOperandWords);
}

// Rows of kChunks chunks in local memory. A chunk's place is exclusive-or'ed with its row, so that lanes which read the
// same chunk of rows that follow one another find different banks; modulo eight rows, so that the fragments of a tile
// have the same places, at distances that instructions hold.
template <int kChunks>
struct LdsRows {
  static constexpr int kRowBytes = 16 * kChunks;
  static constexpr int kRowsOfBanks = imax(1, 8 / kChunks);        // that all banks hold together
  static constexpr int kOrders = imin(8, kChunks&(~kChunks + 1));  // a power of two that divides kChunks

  TS_DEVICE static int offset(int row, int chunk) {
    return row * kRowBytes + (chunk ^ (row / kRowsOfBanks % kOrders)) * 16;
  }
  // kWords words of a row from a chunk on.
  template <int kWords>
  TS_DEVICE static void read(const TS_LDS u8* rows, int row, int chunk, u32 (&words)[kWords]) {
#pragma unroll
    for (int c = 0; c < kWords / 4; ++c) {
      const Words4 read = *reinterpret_cast<const TS_LDS Words4*>(rows + offset(row, chunk + c));
#pragma unroll
      for (int w = 0; w < 4; ++w) words[4 * c + w] = read[w];
    }
  }
};
using KeyRows = LdsRows<kDepthChunks>;
using ValueRows = LdsRows<cfg::kTileN / kChunk>;  // transposed: a row is a column of values

constexpr int kKeyBytes = cfg::kTileN * KeyRows::kRowBytes;
constexpr int kValueBytes = kColumns * ValueRows::kRowBytes;
constexpr int kQueryBytes = cfg::kQueriesInLds ? kTileM * KeyRows::kRowBytes : 0;
constexpr int kValueOffset = cfg::kSharedPlace ? 0 : kKeyBytes;
constexpr int kQueryOffset = imax(kKeyBytes, kValueOffset + kValueBytes);
// Scales of a block of keys, then of its values.
constexpr int kScaleOffset = kQueryOffset + kQueryBytes;
constexpr int kLdsBytes = kScaleOffset + (kScaledRows ? 8 * cfg::kTileN : 0);

}  // namespace ts
