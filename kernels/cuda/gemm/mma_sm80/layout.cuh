// What follows from the tile configuration of the mma_sm80 template: how operands lie in shared memory and how they get
// there.
//
// A tile of an operand lies along k (rows of 64 bytes of k) or, 16-bit and MN-major in memory, as it does there (rows
// of the tile's m or n, read by transposing ldmatrix). 16 bytes of padding make a row an odd number of 16-byte chunks,
// so that the eight rows of a matrix fall into different banks.
#pragma once

#include "../../attention/mma_sm80/copy.cuh"
#include "../../common/mma_sm80.h"
#include "../epilogue.cuh"
#include "../mma.cuh"
#include "../walk.cuh"
#include "../weights.cuh"

namespace ts::gemm {

constexpr int kThreads = 32 * cfg::kWarpsM * cfg::kWarpsN;
constexpr int kElementBytes = bytes_of(cfg::kTypeA);
constexpr int kTileBytesK = 64;
constexpr int kTileK = kTileBytesK / kElementBytes;
constexpr int kWarpM = cfg::kTileM / cfg::kWarpsM;
constexpr int kWarpN = cfg::kTileN / cfg::kWarpsN;

// How an operand gets to shared memory.
enum class Way {
  chunks,     // 16 bytes at a time, asynchronously, as it lies in memory
  words,      // 4 bytes at a time, asynchronously, to where they belong along k
  transpose,  // 4 x 4 bytes at a time through registers
  elements    // one by one, through registers
};

template <int kTile, bool kAlongK>
struct OperandLayout {
  static constexpr bool kTransposed = !kAlongK && kElementBytes == 2;  // lies as in memory, along m or n
  static constexpr int kRows = kTransposed ? kTileK : kTile;
  static constexpr int kRowBytes = kTransposed ? kTile * 2 : kTileBytesK;
  static constexpr int kPitch = kRowBytes + 16;
  static constexpr int kBytes = kRows * kPitch;
  static constexpr Way kWay = cfg::kAligned && (kAlongK || kElementBytes == 2) ? Way::chunks
                              : kElementBytes == 4                             ? Way::words
                              : cfg::kAligned && kElementBytes == 1            ? Way::transpose
                                                                               : Way::elements;
};
using LayoutA = OperandLayout<cfg::kTileM, cfg::kRowMajorA>;
using LayoutB = OperandLayout<cfg::kTileN, !cfg::kRowMajorB>;

constexpr int kStageBytes = LayoutA::kBytes + LayoutB::kBytes;
constexpr int kFlagOffset = cfg::kStages * kStageBytes;
constexpr int kSharedBytes = kFlagOffset + 16;

static_assert(kWeights || bytes_of(cfg::kTypeA) == bytes_of(cfg::kTypeB), "operands of one size");
static_assert(!kWeights || (cfg::kRowMajorA && !cfg::kRowMajorB), "weights lie along k, and a beside them");
static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0, "a warp has a multiple of 16 by 16 of the tile");
static_assert(cfg::kTileM % 16 == 0 && cfg::kTileN % 16 == 0 && cfg::kStages >= 2,
              "tiles of sixteens, two stages or more");
static_assert(cfg::kScaling != TS_GEMM_SCALE_BLOCK ||
                  (is_fp8(cfg::kTypeA) && is_fp8(cfg::kTypeB) && 128 % cfg::kTileN == 0),
              "block scales are for fp8 operands, and the tile's columns divide 128");
static_assert(!cfg::kTf32x3 || cfg::kTypeA == TS_GEMM_F32, "3xTF32 is for float32");
static_assert(!cfg::kMmPlusMm || (cfg::kGrouping == TS_GEMM_UNGROUPED && cfg::kScaling == TS_GEMM_SCALE_TENSOR),
              "mm_plus_mm goes with neither groups, block scales nor weights");
static_assert(kSharedBytes <= TS_MMA_SM80_SHARED_BYTES, "what a block may have on every chip from sm_80 on");

using TileWalk = Walk<cfg::kTileM, cfg::kTileN, kTileK, 1, 1>;

// Copies one step of an operand: rows (of m or n) from `first` on, k from `k` on; what lies beyond `rows` and `k_end`
// becomes zeros. `stride` is the elements from one row (along k) or one k (along m or n) to the next.
template <class Layout, int kTile, bool kAlongK>
TS_DEVICE void copy_operand(u32 to, const char* base, i64 stride, int first, int rows, int k, int k_end) {
  constexpr int kInner = kAlongK ? kTileK : kTile;  // elements of the tile in memory's order
  constexpr int kOuter = kAlongK ? kTile : kTileK;
  const int inner_first = kAlongK ? k : first, outer_first = kAlongK ? first : k;
  const int inner_end = kAlongK ? k_end : rows, outer_end = kAlongK ? rows : k_end;
  if constexpr (Layout::kWay == Way::chunks) {
    constexpr int kElements = 16 / kElementBytes, kChunks = kInner / kElements;
#pragma unroll
    for (int i = threadIdx.x; i < kOuter * kChunks; i += kThreads) {
      const int outer = i / kChunks, inner = i % kChunks * kElements;
      const int left = (inner_end - inner_first - inner) * kElementBytes;
      const int bytes = outer_first + outer < outer_end && left > 0 ? imin(left, 16) : 0;
      const char* const from = base + ((outer_first + outer) * stride + inner_first + inner) * kElementBytes;
      copy_async_part(to + outer * Layout::kPitch + inner * kElementBytes, bytes > 0 ? from : base, bytes);
    }
  } else if constexpr (Layout::kWay == Way::transpose) {
    constexpr int kQuads = kInner / 4;
    for (int i = threadIdx.x; i < kOuter / 4 * kQuads; i += kThreads) {
      const int outer = i / kQuads * 4, inner = i % kQuads * 4;
      u32 words[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int left = outer_first + outer + e < outer_end ? inner_end - inner_first - inner : 0;
        const char* const from = base + (outer_first + outer + e) * stride + inner_first + inner;
        words[e] = left >= 4 ? load_bits<4>(from) : 0;
        for (int b = 0; b < left && left < 4; ++b) words[e] |= load_bits<1>(from + b) << 8 * b;
      }
      const u32 low01 = __byte_perm(words[0], words[1], 0x5140), low23 = __byte_perm(words[2], words[3], 0x5140);
      const u32 high01 = __byte_perm(words[0], words[1], 0x7362), high23 = __byte_perm(words[2], words[3], 0x7362);
      const u32 columns[4] = {__byte_perm(low01, low23, 0x5410), __byte_perm(low01, low23, 0x7632),
                              __byte_perm(high01, high23, 0x5410), __byte_perm(high01, high23, 0x7632)};
#pragma unroll
      for (int e = 0; e < 4; ++e)
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + (inner + e) * Layout::kPitch + outer), "r"(columns[e])
                     : "memory");
    }
  } else {
    for (int i = threadIdx.x; i < kOuter * kInner; i += kThreads) {
      const int outer = i / kInner, inner = i % kInner;
      const bool valid = outer_first + outer < outer_end && inner_first + inner < inner_end;
      const char* const from = base + ((outer_first + outer) * stride + inner_first + inner) * kElementBytes;
      const int row = Layout::kTransposed == kAlongK ? inner : outer;  // in shared memory
      const int column = Layout::kTransposed == kAlongK ? outer : inner;
      const u32 at = to + row * Layout::kPitch + column * kElementBytes;
      if constexpr (Layout::kWay == Way::words) {
        copy_async_word(at, valid ? from : base, valid);
      } else {
        const u32 bits = valid ? load_bits<kElementBytes>(from) : 0;
        if constexpr (kElementBytes == 2)
          asm volatile("{ .reg .b16 x; cvt.u16.u32 x, %1; st.shared.b16 [%0], x; }" ::"r"(at), "r"(bits) : "memory");
        else
          asm volatile("st.shared.u8 [%0], %1;" ::"r"(at), "r"(bits) : "memory");
      }
    }
  }
}

// One step of weights on its way to b's place in shared memory: eight at a time are loaded into registers before
// another step is multiplied, and stored as 16-bit floats after it.
struct WeightsOnTheWay {
  static constexpr int kGroups = kTileK / 8;  // of eight, in a row of the tile
  static constexpr int kItems = ceil_div(cfg::kTileN * kGroups, kThreads);
  static constexpr int kBits = bits_of_type(cfg::kTypeB);
  static constexpr int kWords = kBits / 4;
  u32 words[kItems][kWords];
  StoredScale scales[kItems];

  // Eight weights at `p`, of which `left` exist.
  static TS_DEVICE void load_words(u32 (&w)[kWords], const char* p, int left) {
    if (cfg::kAligned && left >= 8) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) w[i] = load_bits<4>(p + 4 * i);
      return;
    }
    const int bytes = (imin(left, 8) * kBits + 7) / 8;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      w[i] = 0;
#pragma unroll
      for (int b = 0; b < 4; ++b) w[i] |= 4 * i + b < bytes ? load_bits<1>(p + 4 * i + b) << 8 * b : 0;
    }
  }

  TS_DEVICE void load(const TsCudaGemmArgs& args, int batch, int column, int k) {
    const char* const base = static_cast<const char*>(args.b);
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int item = i * kThreads + static_cast<int>(threadIdx.x);
      const int row = column + item / kGroups, at = k + item % kGroups * 8;
      const bool there = item < cfg::kTileN * kGroups && row < args.n;
      const int left = there ? args.k - at : 0;
      load_words(words[i], base + (batch * args.b_batch_stride + row * args.b_stride + at) * kBits / 8, left);
      scales[i] = left > 0 ? ScaleLine(args, batch, row).load(args, at) : StoredScale{0, 0};
    }
  }

  TS_DEVICE void leave(u32 to) const {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int item = i * kThreads + static_cast<int>(threadIdx.x);
      if (kItems * kThreads > cfg::kTileN * kGroups && item >= cfg::kTileN * kGroups) return;
      u32 pairs[4], out[4];
      const Scale scale(scales[i]);
      constexpr int kFar = cfg::kTypeB == TS_GEMM_S4 ? 2 : 1;  // from the first word of a pair's elements to the second
      if constexpr (cfg::kTypeB == TS_GEMM_S4) {
        pairs[0] = pair_of_int4<0>(words[i][0], scale.minus);  // 0 and 4
        pairs[1] = pair_of_int4<1>(words[i][0], scale.minus);
        pairs[2] = pair_of_int4<2>(words[i][0], scale.minus);
        pairs[3] = pair_of_int4<3>(words[i][0], scale.minus);
      } else {
        pairs[0] = pair_of_int8<0>(words[i][0], scale.minus);  // 0 and 2
        pairs[1] = pair_of_int8<1>(words[i][0], scale.minus);
        pairs[2] = pair_of_int8<0>(words[i][kWords - 1], scale.minus);
        pairs[3] = pair_of_int8<1>(words[i][kWords - 1], scale.minus);
      }
      out[0] = __byte_perm(pairs[0], pairs[1], 0x5410);
      out[kFar] = __byte_perm(pairs[0], pairs[1], 0x7632);
      out[3 - kFar] = __byte_perm(pairs[2], pairs[3], 0x5410);
      out[3] = __byte_perm(pairs[2], pairs[3], 0x7632);
#pragma unroll
      for (int e = 0; e < 4; ++e) out[e] = scaled(out[e], scale.factor);
      store_shared(to + item / kGroups * LayoutB::kPitch + item % kGroups * 16, out);
    }
  }
};

// The address that this lane gives to ldmatrix for four matrices: two blocks of eight rows by two of 16 bytes of k. The
// registers are then, for a (kRowsFirst), rows 0-7 and 8-15 of the first 16 bytes and of the second; for b, the first
// and the second 16 bytes of rows 0-7 and of rows 8-15.
template <class Layout, bool kRowsFirst>
TS_DEVICE u32 lane_address(u32 tile, int row) {
  const int lane = threadIdx.x & 31;
  const int fast = lane >> 3 & 1, slow = lane >> 4;
  const int row_block = kRowsFirst ? fast : slow, k_block = kRowsFirst ? slow : fast;
  if constexpr (Layout::kTransposed)
    return tile + (k_block * 8 + (lane & 7)) * Layout::kPitch + (row + row_block * 8) * 2;
  else
    return tile + (row + row_block * 8 + (lane & 7)) * Layout::kPitch + k_block * 16;
}
template <class Layout>
TS_DEVICE void load_fragment(u32 (&r)[4], u32 address, int row, int step) {
  if constexpr (Layout::kTransposed)
    load_matrices_transposed(r, address + step * 16 * Layout::kPitch + row * 2);
  else
    load_matrices(r, address + row * Layout::kPitch + step * 32);
}

}  // namespace ts::gemm
