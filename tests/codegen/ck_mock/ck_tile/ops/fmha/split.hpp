// A stand-in for CK Tile's attention: a split over keys, and what joins its parts.
#pragma once

#include "ck_tile/ops/fmha/shared.hpp"

namespace ck_tile {

#if TILESMITH_CK_VERSION >= 202605
#if TILESMITH_CK_VERSION >= 202609
#define TILESMITH_SHORT_PAGES , bool kShortPages
#else
#define TILESMITH_SHORT_PAGES
#endif
template <bool kPadS, bool kPadSk, bool kPadD, bool kPadDv, bool kSoftCap, BlockAttentionBiasEnum kBias,
          bool kBiasGradient, bool kLse, bool kFp8Static, bool kPaged, bool kUneven, bool kMerged, index_t kBlocks,
          bool kSink TILESMITH_SHORT_PAGES>
struct TileFmhaFwdSplitKVTraits {
  static constexpr bool pad_s = kPadS, pad_sk = kPadSk, pad_d = kPadD, pad_dv = kPadDv;
  static constexpr bool soft_cap = kSoftCap, lse = kLse, paged_kv = kPaged, sink = kSink;
  static constexpr auto bias = kBias;
  static constexpr index_t kBlockPerCu = kBlocks;
  static_assert(!kBiasGradient && !kFp8Static && kUneven && !kMerged && kLse);
};
#elif TILESMITH_CK_VERSION >= 202507
template <bool kPadS, bool kPadSk, bool kPadD, bool kPadDv, bool kSoftCap, BlockAttentionBiasEnum kBias,
          bool kBiasGradient, bool kLse, bool kFp8Static, bool kPaged, bool kUneven, bool kMerged, index_t kBlocks>
struct TileFmhaFwdSplitKVTraits {
  static constexpr bool pad_s = kPadS, pad_sk = kPadSk, pad_d = kPadD, pad_dv = kPadDv;
  static constexpr bool soft_cap = kSoftCap, lse = kLse, paged_kv = kPaged, sink = false;
  static constexpr auto bias = kBias;
  static constexpr index_t kBlockPerCu = kBlocks;
  static_assert(!kBiasGradient && kUneven && !kMerged && kLse);
};
#else
#if TILESMITH_CK_VERSION >= 202502
#define TILESMITH_MERGED bool kMerged,
#else
#define TILESMITH_MERGED
#endif
template <bool kPadS, bool kPadSk, bool kPadD, bool kPadDv, BlockAttentionBiasEnum kBias, bool kBiasGradient, bool kLse,
          bool kFp8Static, bool kPaged, bool kUneven, TILESMITH_MERGED index_t kBlocks>
struct TileFmhaFwdSplitKVTraits {
  static constexpr bool pad_s = kPadS, pad_sk = kPadSk, pad_d = kPadD, pad_dv = kPadDv;
  static constexpr bool lse = kLse, paged_kv = kPaged;
  static constexpr auto bias = kBias;
  static constexpr index_t kBlockPerCu = kBlocks;
  static_assert(!kBiasGradient && kUneven && kLse);
};
#endif
template <bool kPadS, bool kPadDv, bool kLse, bool kFp8Static, index_t kLog2MaxSplits, index_t kBlocks>
struct TileFmhaFwdSplitKVCombineTraits {
  static constexpr bool pad_s = kPadS, pad_dv = kPadDv, lse = kLse;
  static constexpr index_t kMaxSplits = 1 << kLog2MaxSplits, kBlockPerCu = kBlocks;
  static_assert(kLog2MaxSplits >= 3 && kLog2MaxSplits <= 7);
};

template <class Q, class K, class V, class Sacc, class Softmax, class Bias, class Lse, class P, class Oacc, class O,
          class Shape, bool kGroup, TILESMITH_VARIANT class Mask, class Traits>
struct BlockFmhaFwdSplitKVPipelineProblem {
  static_assert(std::is_same_v<Q, K> && std::is_same_v<Q, V> && std::is_same_v<P, Q> && kIsFloat<Q> &&
                std::is_same_v<O, float>);
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
#if TILESMITH_CK_VERSION >= 202502
template <class Lse, class Oacc, class O, index_t kHeadDimV, bool kGroup, index_t kN1, class Traits>
#else
template <class Lse, class Oacc, class O, index_t kHeadDimV, index_t kM0, index_t kN1, bool kGroup, class Traits>
#endif
struct BlockFmhaSplitKVCombinePipelineProblem {
  static_assert(std::is_same_v<Lse, Oacc> && kIsFloat<O> && kHeadDimV % kN1 == 0);
  using OType = O;
  using TraitsOf = Traits;
  static constexpr bool group = kGroup;
  static constexpr index_t n1 = kN1, hdim_v = kHeadDimV, kBlockSize = 256;
};

template <class P>
struct BlockFmhaFwdSplitKVPipelineQRKSVS : ForwardPipeline<P, 2, false> {};
#if TILESMITH_CK_VERSION >= 202502
template <class P>
struct BlockFmhaFwdSplitKVPipelineNWarpSShuffleQRKSVS : ForwardPipeline<P, 2, false> {};
#endif
template <class P>
struct BlockFmhaFwdSplitKVCombinePipeline {
  using Problem = P;
};

#if TILESMITH_CK_VERSION < 202502
template <class Shape>
struct FmhaFwdSplitKVTilePartitioner {
  static_assert(Shape::m0 > 0);
};
template <index_t kM0, index_t kN1>
struct FmhaFwdSplitKVCombineTilePartitioner {};
#endif
#if TILESMITH_CK_VERSION == 202410
template <class Part0, class Pipeline, class Part2>
struct FmhaFwdSplitKVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(are_kinds<Given...>(Pipeline::Problem::group ? "p6 i p3 i5 f2 i18" : "p6 i3 p i5 p i2 p f2 i22"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i5"));
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION == 202502
template <class Pipeline, class Part1>
struct FmhaFwdSplitKVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(
        are_kinds<Given...>(Pipeline::Problem::group ? "p6 i p3 i5 p i2 b f2 i18" : "p6 i3 p i5 p i2 p f2 i22"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i6"));
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION == 202507
template <class Pipeline, class Part1>
struct FmhaFwdSplitKVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(
        are_kinds<Given...>(Pipeline::Problem::group ? "p6 i p3 i5 p i2 b f3 i18" : "p6 i3 p i5 p i2 p f3 i22"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i6"));
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION == 202605
template <class Pipeline, class Part1>
struct FmhaFwdSplitKVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(
        are_kinds<Given...>(Pipeline::Problem::group ? "p6 i p3 i5 p i2 b f3 i19 p" : "p6 i3 p i5 p i2 p f3 i23 p"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i6"));
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION == 202609
template <class Pipeline, class Part1>
struct FmhaFwdSplitKVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(
        are_kinds<Given...>(Pipeline::Problem::group ? "p6 i p3 i5 p i2 b f3 i19 p" : "p6 i3 p i5 p i2 p f3 i23 p"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i6"));
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION == 202410
template <class Part0, class Pipeline, class Part2>
struct FmhaFwdSplitKVCombineKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(are_kinds<Given...>(Pipeline::Problem::group ? "p4 i p i2 f i8" : "p4 i4 f i12"));
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
template <class Pipeline, class Part1>
struct FmhaFwdSplitKVCombineKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(are_kinds<Given...>(Pipeline::Problem::group ? "p4 i p i2 f i8" : "p4 i4 f i12"));
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
