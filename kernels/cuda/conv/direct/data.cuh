// Convolution of few channels, forward and backward data, of 16-bit tensors, for sm_80 and newer, in one to three
// dimensions. A block brings the pixels that a box of results meets to shared memory once, and a tap is an address
// there; all filters of its columns stay in shared memory. So pixels are not brought again for each tap, and a place in
// memory is worked out once for each pixel.
//
// Configuration, in namespace ts::cfg (constexpr int unless said otherwise; the numbers are those of conv/abi.h):
//   kDirection                TS_CONV_FORWARD or TS_CONV_BACKWARD_DATA
//   kTypeA, kTypeB            of what is read, bf16 or f16; kTypeD: of the result
//   kTileM                    the most results of a box; a warp has kTileM / kWarps of them, a multiple of 16
//   kTileN                    columns that a block multiplies at a time, a multiple of 16: channels of the result
//   kAllPhases (bool)         of backward data of one group without dilation: columns are the channels of x of all phases, in whose
//                             order they lie in x (all_phases.cuh); kTileN is at least as many, and may be 8. w is read
//                             element by element; channels are rows of the epilogue
//   kWarps, kBlocksPerSm
//   kStages                   boxes in shared memory: one is multiplied, others come
//   kRead                     channels that are read together: 8 or 4; those of the image that is read are a multiple of
//                             them (backward data: those of x too), and pixels and taps begin at such multiples
//   kPairs (bool)             as in mma_sm80/conv.cuh
//   kEpilogueLength, kEpilogue[], kEpilogueTypes[] and what else gemm's files ask for; it reads no tensors
//
// Launch: args.boxes, of at most kTileM results; kThreads threads; the grid that boxes.step is of. Dynamic shared
// memory (direct/tables.cuh): kStages times args.stage_bytes, which is pixels * pitch; 16 bytes for each pixel, for each
// of octets * taps, made even, and for zeros; 4 bytes for each of kTileM; of all phases 16 for each of kTileN columns; 16
// bytes for each of kTileN columns by octets * taps.
#pragma once

#include "../../common/launch.cuh"
#include "copies.cuh"
#include "results.cuh"

namespace ts::conv {

// Where in a box the results begin whose pixels the thread loads, in bytes.
TS_DEVICE void find_places(const Tables& tables, int (&places)[kSixteens]) {
  const TsCudaConvBoxes& sizes = tables.boxes.sizes;
#pragma unroll
  for (int m = 0; m < kSixteens; ++m) {
    const int row = tables.row_at(Results::first_row() + 16 * m + static_cast<int>(threadIdx.x & 15));
    int number = 0;
#pragma unroll
    for (int d = 0; d < 3; ++d) number = number * sizes.pixels[d] + coordinate(row, d) * sizes.apart[d];
    places[m] = number * tables.pitch;
  }
}

// Two units of filters.
TS_DEVICE void load_filters(u32 (&b)[kEights][2], u32 from) {
  if constexpr (kEights == 1) {
    load_two_matrices(b[0], from);
  } else {
#pragma unroll
    for (int n = 0; n < kEights; n += 2) {
      u32 four[4];
      if constexpr (kForward || cfg::kAllPhases)
        load_matrices(four, from + n * 128);
      else
        load_matrices_transposed(four, from + n * 128);
      b[n][0] = four[0], b[n][1] = four[1], b[n + 1][0] = four[2], b[n + 1][1] = four[3];
    }
  }
}

// The products of a box with `count` units of filters.
TS_DEVICE void multiply(const Tables& tables, u32 stage, const int (&places)[kSixteens], int count, Sums& sums) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  u32 place_at = tables.units_of_taps() + kEntryBytes * (lane >> 4) + 8;
  const auto next_place = [&] {
    const int place = load_word(place_at);
    place_at += 2 * kEntryBytes;
    return place;
  };
  const auto load_results = [&](u32(&a)[kSixteens][4], int place) {
#pragma unroll
    for (int m = 0; m < kSixteens; ++m)
      load_matrices(a[m], place < 0 ? tables.zeros() : stage + places[m] + place);
  };
#pragma unroll
  for (int m = 0; m < kSixteens; ++m) {
#pragma unroll
    for (int e = 0; e < 4 * kEights; ++e) sums[m][e / 4][e % 4] = 0.0f;
  }
  if (count == 0) return;
  // Of the four matrices of a load of filters the units change first, then the eights of columns.
  u32 filter = tables.filters() + ((lane >> 3 & 1) * kEights + (kEights > 1 ? lane >> 4 : 0)) * 128 + (lane & 7) * 16;
  // Places and pixels of the next two units come before the products of these; behind the last they are read again.
  u32 a[kSixteens][4];
  load_results(a, next_place());
  int place = count > 2 ? next_place() : -1;
#pragma unroll 2
  for (int unit = 0; unit < count; unit += 2) {
    u32 b[kEights][2], next[kSixteens][4];
    load_filters(b, filter);
    load_results(next, place);
    if (unit + 4 < count) place = next_place();
#pragma unroll
    for (int n = 0; n < kEights; ++n) {
#pragma unroll
      for (int m = 0; m < kSixteens; ++m) multiply_add(sums[m][n], a[m][0], a[m][1], a[m][2], a[m][3], b[n][0], b[n][1]);
    }
#pragma unroll
    for (int m = 0; m < kSixteens; ++m) {
#pragma unroll
      for (int e = 0; e < 4; ++e) a[m][e] = next[m][e];
    }
    filter += 2 * kEights * 128;
  }
}

TS_DEVICE void run_direct(const TsCudaConvArgs& args, u32 shared) {
  const TsCudaConvBoxes& sizes = args.boxes;
  Item it = Item::at(sizes, blockIdx.x), ahead = it;
  if (!it.is_there(sizes)) return;
  const Tables tables(args, shared);
  const Copies copies(tables);
  Phase p = phase_of_box(args, it.phase());
  tables.prepare_units(p);
  tables.prepare();
  const bool wide = Results::go_wide(tables);
  wait_for_previous_kernel();  // nothing of the tensors is read before
  let_next_kernel_start();
  __syncthreads();
  copies.bring_filters(it, p);
  const auto bring_ahead = [&](int stage) {
    if (ahead.is_there(sizes)) {
      const Phase of_ahead = ahead.phase() == it.phase() ? p : phase_of_box(args, ahead.phase());
      copies.bring_pixels(ahead, of_ahead, tables.stage_at(stage));
      ahead = ahead.next(sizes);
    }
    copy_commit();
  };
#pragma unroll
  for (int stage = 0; stage < cfg::kStages - 1; ++stage) bring_ahead(stage);
  int places[kSixteens];
  find_places(tables, places);
  const Results results(tables);
  for (int stage = 0, free = cfg::kStages - 1;;) {
    copy_wait_for<cfg::kStages - 2>();
    __syncthreads();
    bring_ahead(free);
    Sums sums;
    multiply(tables, tables.stage_at(stage), places, tables.units_of(p), sums);
    if constexpr (cfg::kAllPhases) PhaseColumns{tables}.mend(tables.stage_at(stage), Results::first_row(), sums);
    results.store(it, p, sums, wide);
    const Item next = it.next(sizes);
    if (!next.is_there(sizes)) return;
    if (!next.shares_filters(it)) {
      __syncthreads();  // the filters are read no more
      if (next.phase() != it.phase()) {
        p = phase_of_box(args, next.phase());
        tables.prepare_units(p);
        __syncthreads();
      }
      copies.bring_filters(next, p);
      copy_commit();
      copy_wait();
    }
    it = next;
    free = stage;
    stage = stage + 1 == cfg::kStages ? 0 : stage + 1;
  }
}

}  // namespace ts::conv

#ifndef TS_ENTRY
#define TS_ENTRY ts_conv_direct
#endif

extern "C" __global__ void __launch_bounds__(ts::conv::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaConvArgs args) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  ts::conv::run_direct(args, ts::smem_address(dynamic_shared));
}
