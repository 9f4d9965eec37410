// A stand-in for CK Tile's attention: backward, in three steps.
#pragma once

#include "ck_tile/ops/fmha/forward.hpp"

namespace ck_tile {

#if TILESMITH_CK_VERSION >= 202605
template <index_t kPadD, index_t kPadDv, BlockAttentionBiasEnum kBias, bool kBiasGradient, index_t kBlocks>
struct TileFmhaBwdTraits {
  static constexpr index_t pad_d = kPadD, pad_dv = kPadDv, kBlockPerCu = kBlocks;
  static constexpr bool dbias = kBiasGradient;
  static constexpr auto bias = kBias;
  static_assert((kPadD == 0 || kPadD == 1 || kPadD == 8) && (kPadDv == 0 || kPadDv == 1 || kPadDv == 8));
  static_assert(kBlocks > 0, "the bound goes to the compiler as it is");
};
#endif
template <bool kPadS, bool kPadDv, index_t kBlocks>
struct TileFmhaBwdOGradDotOTraits {
  static constexpr bool pad_s = kPadS, pad_dv = kPadDv;
  static constexpr index_t kBlockPerCu = kBlocks;
  static_assert(kBlocks > 0);
};
template <bool kPadS, bool kPadD, index_t kBlocks>
struct TileFmhaBwdConvertQGradTraits {
  static constexpr bool pad_s = kPadS, pad_d = kPadD;
  static constexpr index_t kBlockPerCu = kBlocks;
  static_assert(kBlocks > 0);
};

template <bool kHas, bool kWide, bool kStores>
struct BlockDropoutBwd {
  static constexpr bool dropout = kHas, stores_rand_val = kStores, kIsWide = kWide;
};

#if TILESMITH_CK_VERSION >= 202609
#define TILESMITH_DOT_LSE class Lse,
#else
#define TILESMITH_DOT_LSE
#endif
template <class O, class OGrad, class D, TILESMITH_DOT_LSE index_t kBlock, index_t kHeadDimV, bool kGroup, class Traits>
struct BlockFmhaBwdOGradDotOPipelineProblem {
  static_assert(std::is_same_v<O, OGrad> && std::is_same_v<D, float> && kBlock == 64);
  using TraitsOf = Traits;
  static constexpr bool group = kGroup;
  static constexpr index_t hdim_v = kHeadDimV, kBlockSize = kBlock;
};
template <class Q, class K, class V, class Gemm, class Lse, class Acc, class D, class Bias, class RandVal, class O,
          class OGrad, class QGrad, class KGrad, class VGrad, class BiasGrad, class Shape, bool kGroup,
          bool kDeterministic, class Mask, class Dropout, TILESMITH_TRLOAD class Traits>
struct BlockFmhaBwdPipelineProblem {
  static_assert(std::is_same_v<Q, Gemm> && std::is_same_v<Lse, float> && std::is_same_v<Acc, float> &&
                std::is_same_v<D, float>);
  static_assert(std::is_same_v<RandVal, std::uint8_t> && std::is_same_v<OGrad, O> && std::is_same_v<BiasGrad, Bias>);
  static_assert(std::is_same_v<QGrad, Q> && std::is_same_v<KGrad, K> && std::is_same_v<VGrad, V> && Mask::kIsMask);
  static_assert(!Dropout::dropout || Dropout::kIsWide == (Shape::kWarpN == 32));
  using TraitsOf = Traits;
  using DropoutOf = Dropout;
  using MaskOf = Mask;
  using ShapeOf = Shape;
  static constexpr bool group = kGroup, deterministic = kDeterministic;
  static constexpr index_t kBlockSize = Shape::kWaves * 64;
};
#if TILESMITH_CK_VERSION >= 202609
#define TILESMITH_CONVERT_N0
#else
#define TILESMITH_CONVERT_N0 index_t kN0,
#endif
template <class Acc, class QGrad, index_t kBlock, index_t kM0, TILESMITH_CONVERT_N0 index_t kHeadDimQ, bool kGroup,
          bool kDeterministic, class Traits>
struct BlockFmhaBwdConvertQGradPipelineProblem {
  static_assert(std::is_same_v<Acc, float> && kIsFloat<QGrad> && kBlock == 256);
  using TraitsOf = Traits;
  static constexpr bool group = kGroup, deterministic = kDeterministic;
  static constexpr index_t hdim_q = kHeadDimQ, m0 = kM0, kBlockSize = kBlock;
};

#if TILESMITH_CK_VERSION >= 202605
#define TILESMITH_MAX_SEQLEN_Q , index_t kMaxSeqLenQ = 0
#else
#define TILESMITH_MAX_SEQLEN_Q
#endif
template <class Tile, class Waves0, class Warp0, class Waves1, class Warp1, class Waves2, class Warp2, class Waves3,
          class Warp3, class Waves4, class Warp4 TILESMITH_MAX_SEQLEN_Q>
struct TileFmhaBwdShape {
  static_assert(Tile::kSize == 9 && std::is_same_v<Waves0, Waves2> && std::is_same_v<Warp0, Warp2>);
  static_assert(std::is_same_v<Waves1, Waves3> && std::is_same_v<Warp1, Warp3>);
  static constexpr index_t m0 = Tile::at(0), n0 = Tile::at(1), hdim_q = Tile::at(7), hdim_v = Tile::at(8);
  static constexpr index_t kWaves = Waves0::kProduct, kWarpN = Warp0::at(1);
  static_assert(Tile::at(3) == m0 && Tile::at(5) == m0, "the products over rows take m0 of them");
  static_assert(hdim_q >= Tile::at(2) && hdim_v >= Tile::at(4));
  static_assert(Waves0::kProduct == Waves1::kProduct && Waves1::kProduct == Waves4::kProduct);
#if TILESMITH_CK_VERSION >= 202605
  static constexpr index_t max_seqlen_q = kMaxSeqLenQ;
  static_assert(kMaxSeqLenQ == 0 || kMaxSeqLenQ == m0);
#endif
};

template <class P>
struct BlockFmhaBwdOGradDotO {
  using Problem = P;
};
template <class P>
struct BlockFmhaBwdConvertQGrad {
  using Problem = P;
};
#if TILESMITH_CK_VERSION >= 202605
template <class P>
struct BlockFmhaBwdDQDKDVPipeline {
  using Problem = P;
};
#else
template <class P>
struct BlockFmhaBwdDQDKDVPipelineKRKTRVR {
  using Problem = P;
};
#endif

#if TILESMITH_CK_VERSION <= 202507
template <class Pipeline>
struct FmhaBwdOGradDotOKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(are_kinds<Given...>(Pipeline::Problem::group ? "p3 f p i6" : "p3 f i10"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i3"));
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION == 202605
template <class Pipeline>
struct FmhaBwdOGradDotOKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(are_kinds<Given...>(Pipeline::Problem::group ? "p3 f p3 i6" : "p3 f i10"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i3"));
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION == 202609
template <class Pipeline>
struct FmhaBwdOGradDotOKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(are_kinds<Given...>(Pipeline::Problem::group ? "p6 f p3 i7" : "p6 f i11"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i3"));
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION == 202410
template <class Pipeline, class Part1, class Part2>
struct FmhaBwdDQDKDVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(are_kinds<Given...>(Pipeline::Problem::group ? "p15 i4 f i6 l i10 l i3 l i3 f s"
                                                               : "p12 i6 f i6 l i10 l i10 l i3 l i3 f s"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i3"));
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202502 && TILESMITH_CK_VERSION <= 202507
template <class Pipeline, class Part1, class Part2>
struct FmhaBwdDQDKDVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargsImpl(Given...) {
    static_assert(are_kinds<Given...>(Pipeline::Problem::group ? "p15 i4 f i6 l i10 l i3 l i3 f s"
                                                               : "p12 i6 f i6 l i10 l i10 l i3 l i3 f s"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i3"));
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION == 202605
template <class Pipeline, class Part1, class Part2, class Part3>
struct FmhaBwdDQDKDVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargsImpl(Given...) {
    static_assert(are_kinds<Given...>(Pipeline::Problem::group ? "p19 i4 f i6 l i11 l i4 l i3 f s"
                                                               : "p13 i6 f i6 l i11 l i11 l i4 l i3 f s"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i3"));
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION == 202609
template <class Pipeline, class Part1, class Part2, class Part3>
struct FmhaBwdDQDKDVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargsImpl(Given...) {
    static_assert(are_kinds<Given...>(Pipeline::Problem::group ? "p19 i5 f i24 f s" : "p13 i7 f i35 f s"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i3"));
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION <= 202507
template <class Pipeline>
struct FmhaBwdConvertQGradKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(are_kinds<Given...>(Pipeline::Problem::group ? "p4 i2 l i l2" : "p2 i4 l i l i l2"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i3"));
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION == 202605
template <class Pipeline>
struct FmhaBwdConvertQGradKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(are_kinds<Given...>(Pipeline::Problem::group ? "p8 i2 l i l2" : "p2 i4 l i l i l2"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i3"));
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION == 202609
template <class Pipeline>
struct FmhaBwdConvertQGradKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(are_kinds<Given...>(Pipeline::Problem::group ? "p2 i2 p6 i3" : "p2 i8"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i3"));
    return {};
  }
};
#endif

}  // namespace ck_tile
