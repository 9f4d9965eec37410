// A stand-in for CK Tile's attention: forward in one step.
#pragma once

#include "ck_tile/ops/fmha/shared.hpp"

namespace ck_tile {

#if TILESMITH_CK_VERSION >= 202605
template <bool kPadS, bool kPadSk, bool kPadD, bool kPadDv, bool kSoftCap, BlockAttentionBiasEnum kBias,
          bool kBiasGradient, bool kLse, bool kDropout, BlockAttentionQuantScaleEnum kScale, index_t kBlocks = -1,
          bool kSkip = false, bool kSink = false>
struct TileFmhaTraits {
  static constexpr bool pad_s = kPadS, pad_sk = kPadSk, pad_d = kPadD, pad_dv = kPadDv;
  static constexpr bool soft_cap = kSoftCap, lse = kLse, dropout = kDropout, skip_min_seqlen_q = kSkip, sink = kSink;
  static constexpr auto bias = kBias;
  static constexpr auto qscale = kScale;
  static constexpr index_t kBlockPerCu = kBlocks;
  static_assert(!kBiasGradient);
};
#elif TILESMITH_CK_VERSION >= 202507
template <bool kPadS, bool kPadSk, bool kPadD, bool kPadDv, bool kSoftCap, BlockAttentionBiasEnum kBias,
          bool kBiasGradient, bool kLse, bool kDropout, bool kFp8Static, index_t kBlocks = -1, bool kSkip = false>
struct TileFmhaTraits {
  static constexpr bool pad_s = kPadS, pad_sk = kPadSk, pad_d = kPadD, pad_dv = kPadDv;
  static constexpr bool soft_cap = kSoftCap, lse = kLse, dropout = kDropout, dbias = kBiasGradient, sink = false;
  static constexpr bool skip_min_seqlen_q = kSkip;
  static constexpr auto bias = kBias;
  static constexpr index_t kBlockPerCu = kBlocks;
};
#else
template <bool kPadS, bool kPadSk, bool kPadD, bool kPadDv, BlockAttentionBiasEnum kBias, bool kBiasGradient, bool kLse,
          bool kDropout, bool kFp8Static, index_t kBlocks = -1>
struct TileFmhaTraits {
  static constexpr bool pad_s = kPadS, pad_sk = kPadSk, pad_d = kPadD, pad_dv = kPadDv;
  static constexpr bool lse = kLse, dropout = kDropout, dbias = kBiasGradient;
  static constexpr auto bias = kBias;
  static constexpr index_t kBlockPerCu = kBlocks;
};
#endif

template <class Q, class K, class V, class Sacc, class Softmax, class Bias, class RandVal, class Lse, class P,
          class Oacc, class O, class Shape, bool kGroup, TILESMITH_VARIANT class Mask, TILESMITH_TRLOAD class Traits>
struct BlockFmhaPipelineProblem {
  static_assert(std::is_same_v<Q, K> && std::is_same_v<Q, V> && std::is_same_v<P, Q> && kIsFloat<Q> && kIsFloat<O>);
  static_assert(std::is_same_v<Sacc, float> && std::is_same_v<Softmax, float> && std::is_same_v<Oacc, float>);
  static_assert(std::is_same_v<Lse, float> && kIsFloat<Bias> && Mask::kIsMask);
  static_assert(std::is_same_v<RandVal, std::uint8_t>);
  TILESMITH_CHECK_VARIANT;
  using QType = Q;
  using OType = O;
  using ShapeOf = Shape;
  using MaskOf = Mask;
  using TraitsOf = Traits;
  static constexpr bool group = kGroup;
  static constexpr index_t kBlockSize = Shape::kWaves * 64;
#if TILESMITH_CK_VERSION >= 202605
  static constexpr bool use_trload = kUseTrLoad;
#endif
};

template <class P>
struct BlockFmhaPipelineQRKSVS : ForwardPipeline<P, 2, false> {};
template <class P>
struct BlockFmhaPipelineQSKSVS : ForwardPipeline<P, 2, false> {};
template <class P>
struct BlockFmhaPipelineQRKSVSAsync : ForwardPipeline<P, 1, false> {
#if TILESMITH_CK_VERSION < 202507
  static_assert(P::TraitsOf::pad_s && P::TraitsOf::pad_d && P::TraitsOf::pad_dv);
#endif
};
#if TILESMITH_CK_VERSION >= 202605
template <class P>
struct BlockFmhaPipelineQRKSVSAsyncTrload : ForwardPipeline<P, 1, false> {
  static_assert(P::use_trload, "an empty kernel");
};
template <class P>
struct BlockFmhaFwdV3Pipeline : ForwardPipeline<P, 1, true> {
  static_assert(P::use_trload, "an empty kernel");
  static_assert(P::kBlockSize == 512 && P::ShapeOf::m0 == 256);
};
#endif

#if TILESMITH_CK_VERSION < 202502
template <class Shape>
struct FmhaFwdTilePartitioner {
  static_assert(Shape::m0 > 0);
};
#endif
#if TILESMITH_CK_VERSION == 202410
template <class Part0, class Pipeline, class Part2>
struct FmhaFwdKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(are_kinds<Given...>(Pipeline::Problem::group ? "p10 i4 f3 i16 f b s" : "p7 i6 f3 i23 f b s"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i4"));
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION == 202502
template <class Pipeline, class Part1>
struct FmhaFwdKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargsImpl(Given...) {
    static_assert(are_kinds<Given...>(Pipeline::Problem::group ? "p10 i4 f3 i16 f b s" : "p7 i6 f3 i23 f b s"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i4"));
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION == 202507
template <class Pipeline, class Part1>
struct FmhaFwdKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargsImpl(Given...) {
    static_assert(are_kinds<Given...>(Pipeline::Problem::group ? "p10 i4 f4 i17 f b s" : "p7 i6 f4 i23 f b s"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i4 b"));
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION == 202605
template <class Pipeline, class Part1>
struct FmhaFwdKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargsImpl(Given...) {
    static_assert(
        are_kinds<Given...>(Pipeline::Problem::group ? "p16 i4 f2 i21 f b s i2 p3" : "p10 i6 f2 i30 f b s i2 p3"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i4 b"));
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION == 202609
template <class Pipeline, class Part1>
struct FmhaFwdKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargsImpl(Given...) {
    static_assert(are_kinds<Given...>(Pipeline::Problem::group ? "p17 i4 f2 i24 f b s i2 p3 i2"
                                                               : "p10 i6 f2 i33 f b s i2 p3 i2"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i4 b"));
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION == 202605
template <class Pipeline, class Part1>
struct FmhaFwdV3Kernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(are_kinds<Given...>(Pipeline::Problem::group ? "p9 i4 f2 i13 p2" : "p5 i6 f2 i18 p2"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i4"));
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION == 202609
template <class Pipeline, class Part1>
struct FmhaFwdV3Kernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(are_kinds<Given...>(Pipeline::Problem::group ? "p12 i4 f2 i13 p2" : "p8 i6 f2 i18 p2"));
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
