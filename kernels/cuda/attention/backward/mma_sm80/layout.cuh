// Sizes and the shared-memory map of the mma_sm80 templates of attention backward. A block of threads has kRows resident
// rows, 16 for each warp, and kStep rows of the other side at a time, as the mma reads them:
// clang-format off
//   resident first   [kRows][kPitchQk bytes]     q or k
//   resident second  [kRows][kPitchV bytes]      do or v
//   streamed first   [kStep][kPitchQk bytes]     k or q
//   streamed second  [kStep][kPitchV bytes]      v or do
//   words            [warp][512 bytes]           the dropout stream of 16 pairs by 16
// clang-format on
// A row is its head dimension rounded up to 16 elements (the surplus is zero) and 16 bytes more, so that eight rows of a
// column of 16 bytes lie in eight different bank groups.
#pragma once

#include "../../../common/mma_sm80.h"
#include "../../mma_sm80/products.cuh"
#include "../scores.cuh"

namespace ts {

constexpr int kRows = cfg::kTileM;
constexpr int kStep = cfg::kTileN;
constexpr int kWarps = kRows / 16;
constexpr int kThreads = 32 * kWarps;
constexpr int kWidthQk = round_up(cfg::kHeadDimQk, 16);
constexpr int kWidthV = round_up(cfg::kHeadDimV, 16);
constexpr int kPitchQk = kElementBytes * kWidthQk + 16;
constexpr int kPitchV = kElementBytes * kWidthV + 16;
constexpr int kResidentSecond = kRows * kPitchQk;
constexpr int kStreamedFirst = kResidentSecond + kRows * kPitchV;
constexpr int kStreamedSecond = kStreamedFirst + kStep * kPitchQk;
constexpr int kWords = kStreamedSecond + kStep * kPitchV;
constexpr int kSharedBytes = kWords + (cfg::kDropout ? kWarps * 512 : 0);

static_assert(kRows % 16 == 0 && (kStep == 16 || kStep == 32), "16 rows of a warp, sums of at most 32 products");
static_assert(cfg::kUnaligned || (cfg::kHeadDimQk * kElementBytes % 16 == 0 && cfg::kHeadDimV * kElementBytes % 16 == 0),
              "rows are copied 16 bytes at a time, unless kUnaligned");
static_assert(kSharedBytes <= TS_MMA_SM80_SHARED_BYTES, "what a block may have on every chip from sm_80 on");

template <bool kFp32>
struct StoredElement {
  using Type = unsigned short;
};
template <>
struct StoredElement<true> {
  using Type = float;
};
using Stored = StoredElement<cfg::kFp32>::Type;

// The operands of a block, in shared memory.
struct Operands {
  const TsCudaAttentionBackwardArgs& args;
  u32 shared;

  // kCount rows of a head of queries, q and do, from `row` on; begins the copies.
  template <int kCount>
  TS_DEVICE void load_queries(u32 first, u32 second, const Sequence& s, int batch, int head, int row) const {
    load<kCount, kPitchQk>(first, args.q, args.q_strides, batch, head, row, s.offset_q, s.length_q, cfg::kHeadDimQk);
    load<kCount, kPitchV>(second, args.grad.dout, args.grad.dout_strides, batch, head, row, s.offset_q, s.length_q,
                          cfg::kHeadDimV);
  }
  // Of a head of keys, k and v.
  template <int kCount>
  TS_DEVICE void load_keys(u32 first, u32 second, const Sequence& s, int batch, int head, int row) const {
    load<kCount, kPitchQk>(first, args.k, args.k_strides, batch, head, row, s.offset_k, s.length_k, cfg::kHeadDimQk);
    load<kCount, kPitchV>(second, args.v, args.v_strides, batch, head, row, s.offset_k, s.length_k, cfg::kHeadDimV);
  }
  template <int kCount, int kPitch>
  TS_DEVICE static void load(u32 to, const void* tensor, const TsStrides& strides, int batch, int head, int row,
                             int offset, int length, int columns) {
    const Stored* const from = row_of(static_cast<const Stored*>(tensor), strides, batch, head, 0, offset);
    load_rows<kThreads, kCount, kPitch>(to, reinterpret_cast<const char*>(from), kElementBytes * strides.row, row, length,
                                        columns);
  }

  TS_DEVICE static int warp() { return threadIdx.x / 32; }
  // Of a warp's 16 rows and kStep streamed ones: scores before their scale, and products of do and v.
  TS_DEVICE void score(float (&s)[kStep / 2]) const {
#pragma unroll
    for (int i = 0; i < kStep / 2; ++i) s[i] = 0.0f;
    multiply_rows<kWidthQk * kElementBytes / 32, kStep, kPitchQk>(s, shared + warp() * 16 * kPitchQk, shared + kStreamedFirst);
  }
  TS_DEVICE void multiply_seconds(float (&dp)[kStep / 2]) const {
#pragma unroll
    for (int i = 0; i < kStep / 2; ++i) dp[i] = 0.0f;
    multiply_rows<kWidthV * kElementBytes / 32, kStep, kPitchV>(dp, shared + kResidentSecond + warp() * 16 * kPitchV,
                                                                shared + kStreamedSecond);
  }
  TS_DEVICE u32 words() const { return shared + kWords + warp() * 512; }
};

// Statistics of queries that lie along columns: those of columns 8j, 8j + 1 from the thread's first.
struct OfColumns {
  const float* from;
  TS_DEVICE float2 operator()(int j) const { return *reinterpret_cast<const float2*>(from + 8 * j); }
};
// Of the thread's two rows.
struct OfRows {
  float2 both;
  TS_DEVICE explicit OfRows(const float* from) : both{from[0], from[8]} {}
  TS_DEVICE float2 operator()(int) const { return both; }
};

}  // namespace ts
