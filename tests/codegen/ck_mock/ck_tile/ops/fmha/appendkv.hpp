// A stand-in for CK Tile's attention: appending to a cache.
#pragma once

#include "ck_tile/ops/fmha/shared.hpp"

namespace ck_tile {

template <bool kPadS, bool kPadSk, bool kPadD, bool kPadDv, index_t kBlocks>
struct TileFmhaFwdAppendKVTraits {
  static constexpr bool pad_s = kPadS, pad_sk = kPadSk, pad_d = kPadD, pad_dv = kPadDv;
  static constexpr index_t kBlockPerCu = kBlocks;
};
template <class Q, class K, class V, index_t kM0, index_t kN0, index_t kK0, index_t kN1, bool kVRowMajor,
          RotaryEmbeddingEnum kRope, bool kPaged, class Traits>
struct BlockFmhaFwdAppendKVPipelineProblem {
  static_assert(std::is_same_v<Q, K> && std::is_same_v<K, V> && kVRowMajor && kK0 == kN1);
  using QType = Q;
  using TraitsOf = Traits;
  static constexpr auto rope = kRope;
  static constexpr bool paged_kv = kPaged, group = false;
  static constexpr index_t m0 = kM0, n0 = kN0, kBlockSize = 256;
};
template <class P>
struct BlockFmhaFwdAppendKVPipeline {
  using Problem = P;
};
#if TILESMITH_CK_VERSION < 202502
template <index_t kM0, index_t kN0, index_t kK0, index_t kN1>
struct FmhaFwdAppendKVTilePartitioner {};
#endif
#if TILESMITH_CK_VERSION == 202410
template <class Part0, class Pipeline>
struct FmhaFwdAppendKVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(are_kinds<Given...>("p5 i p i5 p2 i b p i2 p i15"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i4"));
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202502
template <class Pipeline>
struct FmhaFwdAppendKVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(are_kinds<Given...>("p5 i p i5 p2 i b p i2 p i15"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i4"));
    return {};
  }
};
#endif

}  // namespace ck_tile
