// A stand-in for CK Tile's attention: forward on paged keys.
#pragma once

#include "ck_tile/ops/fmha/shared.hpp"

namespace ck_tile {

#if TILESMITH_CK_VERSION >= 202507

#if TILESMITH_CK_VERSION >= 202605
template <bool kPadS, bool kPadSk, bool kPadD, bool kPadDv, bool kSoftCap, BlockAttentionBiasEnum kBias,
          bool kBiasGradient, bool kLse, bool kPaged, bool kFp8Static, index_t kBlocks, bool kSkip, bool kSink>
struct TileFmhaFwdPagedKVTraits {
  static constexpr bool pad_s = kPadS, pad_sk = kPadSk, pad_d = kPadD, pad_dv = kPadDv;
  static constexpr bool soft_cap = kSoftCap, lse = kLse, paged_kv = kPaged, skip_min_seqlen_q = kSkip, sink = kSink;
  static constexpr auto bias = kBias;
  static constexpr index_t kBlockPerCu = kBlocks;
  static_assert(!kBiasGradient && !kFp8Static);
};
#else
template <bool kPadS, bool kPadSk, bool kPadD, bool kPadDv, bool kSoftCap, BlockAttentionBiasEnum kBias,
          bool kBiasGradient, bool kLse, bool kPaged, bool kFp8Static, index_t kBlocks, bool kSkip>
struct TileFmhaFwdPagedKVTraits {
  static constexpr bool pad_s = kPadS, pad_sk = kPadSk, pad_d = kPadD, pad_dv = kPadDv;
  static constexpr bool soft_cap = kSoftCap, lse = kLse, paged_kv = kPaged, skip_min_seqlen_q = kSkip, sink = false;
  static constexpr auto bias = kBias;
  static constexpr index_t kBlockPerCu = kBlocks;
  static_assert(!kBiasGradient && !kFp8Static);
};
#endif
template <class Q, class K, class V, class Sacc, class Softmax, class Bias, class Lse, class P, class Oacc, class O,
          class Shape, bool kGroup, class Variant, class Mask, class Traits>
struct BlockFmhaFwdPagedKVPipelineProblem {
  static_assert(std::is_same_v<Q, K> && std::is_same_v<Q, V> && std::is_same_v<P, Q> && kIsFloat<Q> && kIsFloat<O>);
  static_assert(std::is_same_v<Sacc, float> && std::is_same_v<Softmax, float> && std::is_same_v<Oacc, float>);
  static_assert(std::is_same_v<Lse, float> && kIsFloat<Bias> && Mask::kIsMask);
  TILESMITH_CHECK_VARIANT;
  using QType = Q;
  using OType = O;
  using ShapeOf = Shape;
  using MaskOf = Mask;
  using TraitsOf = Traits;
  static constexpr bool group = kGroup;
  static constexpr index_t kBlockSize = Shape::kWaves * 64;
};
template <class P>
struct BlockFmhaFwdPagedKVPipelineQRKSVS : ForwardPipeline<P, 1, false> {};
#if TILESMITH_CK_VERSION == 202507
template <class Pipeline, class Part1>
struct FmhaFwdPagedKVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(are_kinds<Given...>(Pipeline::Problem::group ? "p9 i4 p i2 b f4 i17" : "p6 i2 p i4 p i2 p f4 i20"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i4 b"));
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202605
template <class Pipeline, class Part1>
struct FmhaFwdPagedKVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(
        are_kinds<Given...>(Pipeline::Problem::group ? "p9 i4 p i2 b f4 i18 p" : "p6 i2 p i4 p i2 p f4 i21 p"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i4 b"));
    return {};
  }
};
#endif

#endif

}  // namespace ck_tile
