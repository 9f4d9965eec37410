// A thread's sums of a box, as products leave them.
#pragma once

#include "../../gemm/epilogue.cuh"
#include "tables.cuh"

namespace ts::conv {

constexpr int kSixteens = cfg::kTileM / 16 / cfg::kWarps;  // of results, of a warp
constexpr int kEights = cfg::kTileN / 8;
static_assert(cfg::kTileM == 16 * kSixteens * cfg::kWarps && (kEights == 1 || kEights % 2 == 0));

using Sums = float[kSixteens][kEights][4];

constexpr bool reads_tensors() {
  for (int i = 0; i < cfg::kEpilogueLength; ++i) {
    if (is_tensor(cfg::kEpilogue[i])) return true;
  }
  return false;
}
static_assert(!reads_tensors(), "an epilogue that reads tensors takes more registers than are left");

}  // namespace ts::conv
