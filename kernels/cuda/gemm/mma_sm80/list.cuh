// GEMMs of their own sizes in one launch: the mma_sm80 template on a table of GEMMs that comes with the launch.
//
// Configuration and launch are those of mma_sm80/gemm.cuh, ungrouped and unsplit, with
//   kGemms                entries that the table has room for
// and a grid of at most one block for each tile of all GEMMs.
#pragma once

#define TS_GEMM_OWN_ENTRY
#include "gemm.cuh"

namespace ts::gemm {

template <int kOperands>
struct Entry : TsCudaGemmListEntry {
  TsCudaGemmListOperand operands[kOperands];

  TS_DEVICE void set_operands(TsCudaGemmArgs& args) const {
#pragma unroll
    for (int i = 0; i < kOperands; ++i)
      args.epilogue[i] = {operands[i].data, operands[i].row_stride, 0, operands[i].value, operands[i].limit};
  }
};
template <>
struct Entry<0> : TsCudaGemmListEntry {
  TS_DEVICE void set_operands(TsCudaGemmArgs&) const {}
};

struct List {
  union {
    Entry<cfg::kEpilogueLength> entries[cfg::kGemms];
    unsigned char bytes[TS_GEMM_LIST_BYTES];
  };
  int gemms, tiles;
};
static_assert(sizeof(List) == sizeof(TsCudaGemmList), "the host's table is the kernel's");
static_assert(sizeof(List) + sizeof(TsCudaGemmArgs) <= 4096, "what every driver passes to a kernel");
static_assert(cfg::kGrouping == TS_GEMM_UNGROUPED && !cfg::kSplitK && cfg::kScaling == TS_GEMM_SCALE_TENSOR,
              "the GEMMs of a list have no groups, splits or scales along k");

// Finds the entry that an item belongs to, copies it into the arguments, and finds the item's tile.
struct ListWalk {
  const List& list;
  TsCudaGemmArgs& args;

  TS_DEVICE bool find(int item, int, Tile& t) {
    if (item >= list.tiles) return false;
    int low = 0, high = list.gemms;  // the entry whose first tile is the last one not after the item
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (list.entries[middle].first_tile <= item ? low : high) = middle;
    }
    const auto& p = list.entries[low];
    args.a = p.a;
    args.b = p.b;
    args.d = p.d;
    args.a_stride = p.a_stride;
    args.b_stride = p.b_stride;
    args.d_stride = p.d_stride;
    args.m = p.m;
    args.n = p.n;
    args.k = p.k;
    args.alpha = p.alpha;
    p.set_operands(args);
    t = {};
    t.index = item - p.first_tile;
    t.row_limit = p.m;
    t.steps = ceil_div(p.k, kTileK);
    int m, n;
    place_in_bands(args, t.index, ceil_div(p.m, cfg::kTileM), ceil_div(p.n, cfg::kTileN), m, n);
    t.row = m * cfg::kTileM;
    t.column = n * cfg::kTileN;
    return true;
  }
};

}  // namespace ts::gemm

extern "C" __global__ void __launch_bounds__(ts::gemm::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaGemmArgs args, const __grid_constant__ ts::gemm::List list) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  TsCudaGemmArgs own = args;
  const ts::gemm::Gemm gemm{own, ts::smem_address(dynamic_shared)};
  gemm.run(ts::gemm::ListWalk{list, own});
}
