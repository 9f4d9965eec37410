// Queries that see no key and stand in front of a head's first tile: their outputs are zeros. Warps of the producer's
// warpgroup that nothing else needs write them while the tiles are computed.
#pragma once

#include "layout.cuh"

namespace ts {

// Strips of 64 rows of a head go to the warps in turn. In PTX, because loops in C++ beside the roles change what the
// compiler makes of the consumers: causal tiles of head dim 128 took 1.2 % longer (docs/log/2026-11-cuda-attention.md).
TS_DEVICE void write_hidden_rows(const TsCudaAttentionArgs& args) {
  constexpr int kChunks = cfg::kHeadDimV / 8;  // of 16 bytes, of a row
  constexpr int kAtOnce = 32 / kChunks;        // rows
  const int hidden = args.first_tile * (kTileM / cfg::kPackGqa), strips = ceil_div(hidden, 64);
  const int heads = static_cast<int>(args.heads_q), units = static_cast<int>(args.batch) * heads * strips;
  const int lane = threadIdx.x & 31, warp = static_cast<int>(threadIdx.x / 32) - (4 - kFreeWarps);
  const int own_row = lane / kChunks < kAtOnce ? lane / kChunks : 64;
  // The call's own numbers, which the kernel's constants hold: anything computed from them would take a register.
  const float* const lse = cfg::kLse ? args.lse : nullptr;
  const float* const sink = cfg::kSink ? args.sink : nullptr;
  asm volatile(
      "{ .reg .pred p;\n"
      "  .reg .b32 unit, first, end, row, batch, head, value;\n"
      "  .reg .b64 at, base;\n"
      "  mov.b32 unit, %0;\n"
      "UNIT:\n"
      "  setp.ge.s32 p, unit, %1;\n"
      "  @p bra DONE;\n"
      "  div.s32 batch, unit, %3;\n"
      "  mul.lo.s32 first, batch, %3;\n"
      "  sub.s32 first, unit, first;\n"
      "  shl.b32 first, first, 6;\n"
      "  add.s32 end, first, 64;\n"
      "  min.s32 end, end, %4;\n"
      "  rem.s32 head, batch, %5;\n"
      "  div.s32 batch, batch, %5;\n"
      "  add.s32 unit, unit, %2;\n"
      "  cvt.s64.s32 at, batch;\n"
      "  mul.lo.s64 base, at, %9;\n"
      "  cvt.s64.s32 at, head;\n"
      "  mad.lo.s64 base, at, %10, base;\n"
      "  add.s32 row, first, %6;\n"
      "  mov.b32 value, 0;\n"
      "ROW:\n"
      "  setp.ge.s32 p, row, end;\n"
      "  @p bra LSE;\n"
      "  cvt.s64.s32 at, row;\n"
      "  mad.lo.s64 at, at, %11, base;\n"
      "  shl.b64 at, at, 1;\n"
      "  add.s64 at, at, %8;\n"
      "  st.global.v4.b32 [at], {value, value, value, value};\n"
      "  add.s32 row, row, %17;\n"
      "  bra ROW;\n"
      "LSE:\n"
      "  setp.eq.s64 p, %12, 0;\n"
      "  @p bra UNIT;\n"
      "  mov.b32 value, 0xff800000;\n"  // -infinity, or what the row's sink says
      "  setp.ne.s64 p, %16, 0;\n"
      "  mad.wide.s32 at, head, 4, %16;\n"
      "  @p ld.global.b32 value, [at];\n"
      "  cvt.s64.s32 at, batch;\n"
      "  mul.lo.s64 base, at, %13;\n"
      "  cvt.s64.s32 at, head;\n"
      "  mad.lo.s64 base, at, %14, base;\n"
      "  add.s32 row, first, %7;\n"
      "LSE_ROW:\n"
      "  setp.ge.s32 p, row, end;\n"
      "  @p bra UNIT;\n"
      "  cvt.s64.s32 at, row;\n"
      "  mad.lo.s64 at, at, %15, base;\n"
      "  shl.b64 at, at, 2;\n"
      "  add.s64 at, at, %12;\n"
      "  st.global.b32 [at], value;\n"
      "  add.s32 row, row, 32;\n"
      "  bra LSE_ROW;\n"
      "DONE: }" ::"r"(static_cast<int>(blockIdx.x) * kFreeWarps + warp),
      "r"(units), "r"(static_cast<int>(gridDim.x) * kFreeWarps), "r"(strips), "r"(hidden), "r"(heads), "r"(own_row),
      "r"(lane), "l"(static_cast<char*>(args.o) + lane % kChunks * 16), "l"(args.o_strides.batch),
      "l"(args.o_strides.head), "l"(args.o_strides.row), "l"(lse), "l"(args.lse_strides.batch),
      "l"(args.lse_strides.head), "l"(args.lse_strides.row), "l"(sink), "n"(kAtOnce)
      : "memory");
}

}  // namespace ts
