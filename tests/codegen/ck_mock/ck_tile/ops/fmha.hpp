// A stand-in for CK Tile's attention: template arguments in order and kind, and the conditions that the generated
// sources' rules promise. Members are named after the fields of tilesmith_ck::AttentionRecord, for the test to compare.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <variant>

#include "ck_tile/core.hpp"
#include "ck_tile/ops/epilogue.hpp"

namespace ck_tile {

enum class BlockAttentionBiasEnum { NO_BIAS, ELEMENTWISE_BIAS, ALIBI };
enum class RotaryEmbeddingEnum { NONE, INTERLEAVED, HALF_ROTATED };

template <bool kMasking, bool kLocal = false>
struct GenericAttentionMask {
  static constexpr bool kIsMask = true;
  static constexpr bool kIsGeneric = true;
  static constexpr bool mask = kMasking;
};
template <bool kMasking>
struct SimplifiedGenericAttentionMask {
  static constexpr bool kIsMask = true;
  static constexpr bool kIsGeneric = false;
  static constexpr bool mask = kMasking;
};

/// What a shape is made of.
template <class Tile, class Waves0, class Warp0, class Waves1, class Warp1, bool kVRowMajor>
struct TileFmhaShape {
  static_assert(Tile::kSize == 6 && Waves0::kSize == 3 && Warp0::kSize == 3 && Waves1::kSize == 3 && Warp1::kSize == 3);
  static constexpr index_t m0 = Tile::at(0), n0 = Tile::at(1), k0 = Tile::at(2), n1 = Tile::at(3), k1 = Tile::at(4),
                           k0max = Tile::at(5);
  static constexpr index_t kWaves = Waves0::kProduct;
  static_assert(k0max % k0 == 0, "slices of k0 fill the head dim");
  static_assert(Waves1::kProduct % Waves0::kProduct == 0, "waves of the products agree");
  static_assert(kVRowMajor, "V by rows");
};

#if TILESMITH_CK_VERSION >= 202605

enum class BlockAttentionQuantScaleEnum { NO_SCALE, PERTENSOR, BLOCKSCALE, KV_BLOCKSCALE };
enum class BlockAttentionKVCacheMemoryLayoutEnum { VECTORIZED_LAYOUT, LINEAR_LAYOUT };
enum class BlockAttentionKVCacheLookupTableEnum { VLLM_BLOCK_TABLE_2D, SGLANG_PAGE_TABLE_1D };
inline constexpr std::uint32_t LOGITS_SOFT_CAP = 4;

template <std::uint32_t kCode = 0, std::uint32_t kFastExp2 = 1>
struct ComposedAttention {
  static constexpr bool kIsVariant = true;
  static constexpr bool soft_cap = kCode == LOGITS_SOFT_CAP;
  static_assert(kCode == 0 || kFastExp2 == 1, "a soft cap needs the fast exponential");
};
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
template <bool kPadS, bool kPadSk, bool kPadD, bool kPadDv, bool kSoftCap, BlockAttentionBiasEnum kBias,
          bool kBiasGradient, bool kLse, bool kPaged, bool kFp8Static, index_t kBlocks, bool kSkip, bool kSink>
struct TileFmhaFwdPagedKVTraits {
  static constexpr bool pad_s = kPadS, pad_sk = kPadSk, pad_d = kPadD, pad_dv = kPadDv;
  static constexpr bool soft_cap = kSoftCap, lse = kLse, paged_kv = kPaged, skip_min_seqlen_q = kSkip, sink = kSink;
  static constexpr auto bias = kBias;
  static constexpr index_t kBlockPerCu = kBlocks;
  static_assert(!kBiasGradient && !kFp8Static);
};
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
#if TILESMITH_CK_VERSION >= 202609
template <bool kPadS, bool kPadSk, bool kPadD, bool kPadDv, bool kSoftCap, BlockAttentionBiasEnum kBias,
          bool kBiasGradient, bool kLse, bool kDropout, BlockAttentionQuantScaleEnum kScale, index_t kBlocks,
          bool kSkip, bool kSink, index_t kPageSize, BlockAttentionKVCacheMemoryLayoutEnum kLayout,
          BlockAttentionKVCacheLookupTableEnum kLookup>
struct TileFmhaBatchPrefillTraits {
  static constexpr bool pad_s = kPadS, pad_sk = kPadSk, pad_d = kPadD, pad_dv = kPadDv;
  static constexpr bool soft_cap = kSoftCap, lse = kLse, dropout = kDropout, skip_min_seqlen_q = kSkip;
  static constexpr bool sink = kSink;
  static constexpr auto bias = kBias;
  static constexpr auto qscale = kScale;
  static constexpr auto kv_layout = kLayout;
  static constexpr auto kv_lookup = kLookup;
  static constexpr index_t page_size = kPageSize;
  static constexpr index_t kBlockPerCu = kBlocks;
  static_assert(!kBiasGradient);
};
#else
template <bool kPadS, bool kPadSk, bool kPadD, bool kPadDv, bool kSoftCap, BlockAttentionBiasEnum kBias,
          bool kBiasGradient, bool kLse, bool kDropout, BlockAttentionQuantScaleEnum kScale, index_t kBlocks,
          bool kSkip, index_t kPageSize, BlockAttentionKVCacheMemoryLayoutEnum kLayout,
          BlockAttentionKVCacheLookupTableEnum kLookup>
struct TileFmhaBatchPrefillTraits {
  static constexpr bool pad_s = kPadS, pad_sk = kPadSk, pad_d = kPadD, pad_dv = kPadDv;
  static constexpr bool soft_cap = kSoftCap, lse = kLse, dropout = kDropout, skip_min_seqlen_q = kSkip;
  static constexpr bool sink = false;
  static constexpr auto bias = kBias;
  static constexpr auto qscale = kScale;
  static constexpr auto kv_layout = kLayout;
  static constexpr auto kv_lookup = kLookup;
  static constexpr index_t page_size = kPageSize;
  static constexpr index_t kBlockPerCu = kBlocks;
  static_assert(!kBiasGradient);
};
#endif
template <index_t kPadD, index_t kPadDv, BlockAttentionBiasEnum kBias, bool kBiasGradient, index_t kBlocks>
struct TileFmhaBwdTraits {
  static constexpr index_t pad_d = kPadD, pad_dv = kPadDv, kBlockPerCu = kBlocks;
  static constexpr bool dbias = kBiasGradient;
  static constexpr auto bias = kBias;
  static_assert((kPadD == 0 || kPadD == 1 || kPadD == 8) && (kPadDv == 0 || kPadDv == 1 || kPadDv == 8));
  static_assert(kBlocks > 0, "the bound goes to the compiler as it is");
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
template <bool kPadS, bool kPadSk, bool kPadD, bool kPadDv, index_t kBlocks>
struct TileFmhaFwdAppendKVTraits {
  static constexpr bool pad_s = kPadS, pad_sk = kPadSk, pad_d = kPadD, pad_dv = kPadDv;
  static constexpr index_t kBlockPerCu = kBlocks;
};
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

#if TILESMITH_CK_VERSION >= 202605
#define TILESMITH_VARIANT class Variant,
#define TILESMITH_CHECK_VARIANT static_assert(Variant::kIsVariant && Variant::soft_cap == Traits::soft_cap)
#define TILESMITH_TRLOAD bool kUseTrLoad,
#else
#define TILESMITH_VARIANT
#define TILESMITH_CHECK_VARIANT static_assert(true)
#define TILESMITH_TRLOAD
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
#if TILESMITH_CK_VERSION >= 202605
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
template <class Q, class K, class V, class Sacc, class Softmax, class Bias, class RandVal, class Lse, class P,
          class Oacc, class O, class Shape, bool kGroup, class Variant, class Mask, bool kUseTrLoad, index_t kPageSize,
          class Traits>
struct BlockFmhaBatchPrefillPipelineProblem {
  static_assert(std::is_same_v<Q, K> && std::is_same_v<Q, V> && std::is_same_v<P, Q> && kIsFloat<Q> && kIsFloat<O>);
  static_assert(std::is_same_v<Sacc, float> && std::is_same_v<Softmax, float> && std::is_same_v<Oacc, float>);
  static_assert(std::is_same_v<Lse, float> && kIsFloat<Bias> && Mask::kIsMask);
  TILESMITH_CHECK_VARIANT;
  static_assert(kGroup && !kUseTrLoad && kPageSize == Traits::page_size && (kPageSize & (kPageSize - 1)) == 0);
  static constexpr index_t kVector = 16 / sizeof(K);
  static_assert(Traits::kv_layout == BlockAttentionKVCacheMemoryLayoutEnum::LINEAR_LAYOUT || kPageSize % kVector == 0);
  static_assert(Shape::k0max % kVector == 0);
  using QType = Q;
  using OType = O;
  using ShapeOf = Shape;
  using MaskOf = Mask;
  using TraitsOf = Traits;
  static constexpr bool group = kGroup;
  static constexpr index_t kBlockSize = Shape::kWaves * 64;
  static constexpr auto kKVLookupTable = Traits::kv_lookup;
};
#endif
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

/// A pipeline: its problem, what it asks of the shape, and the class of its mask.
template <class P, int kSlices, bool kGenericMask>
struct ForwardPipeline {
  using Problem = P;
  static_assert(P::ShapeOf::k0max / P::ShapeOf::k0 >= kSlices, "slices of the head dim");
  static_assert(P::MaskOf::kIsGeneric == kGenericMask, "the mask's class");
};
template <class P>
struct BlockFmhaPipelineQRKSVS : ForwardPipeline<P, 2, false> {};
template <class P>
struct BlockFmhaPipelineQSKSVS : ForwardPipeline<P, 2, false> {};
template <class P>
struct BlockFmhaPipelineQRKSVSAsync : ForwardPipeline<P, 1, false> {
#if TILESMITH_CK_VERSION < 202605
  static_assert(P::TraitsOf::pad_s && P::TraitsOf::pad_d && P::TraitsOf::pad_dv);
#endif
};
template <class P>
struct BlockFmhaFwdSplitKVPipelineQRKSVS : ForwardPipeline<P, 2, false> {};
#if TILESMITH_CK_VERSION >= 202502
template <class P>
struct BlockFmhaFwdSplitKVPipelineNWarpSShuffleQRKSVS : ForwardPipeline<P, 2, false> {};
#endif
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
template <class P>
struct BlockFmhaFwdPagedKVPipelineQRKSVS : ForwardPipeline<P, 1, false> {};
template <class P>
struct BlockFmhaBatchPrefillPipelineQRKSVSAsync : ForwardPipeline<P, 1, false> {};
#endif
#define TILESMITH_PIPELINE(NAME) \
  template <class P>             \
  struct NAME {                  \
    using Problem = P;           \
  }
TILESMITH_PIPELINE(BlockFmhaFwdSplitKVCombinePipeline);
TILESMITH_PIPELINE(BlockFmhaFwdAppendKVPipeline);
TILESMITH_PIPELINE(BlockFmhaBwdOGradDotO);
TILESMITH_PIPELINE(BlockFmhaBwdConvertQGrad);
#if TILESMITH_CK_VERSION >= 202605
TILESMITH_PIPELINE(BlockFmhaBwdDQDKDVPipeline);
#else
TILESMITH_PIPELINE(BlockFmhaBwdDQDKDVPipelineKRKTRVR);
#endif

#if TILESMITH_CK_VERSION < 202502
template <class Shape>
struct FmhaFwdTilePartitioner {
  static_assert(Shape::m0 > 0);
};
template <class Shape>
struct FmhaFwdSplitKVTilePartitioner {
  static_assert(Shape::m0 > 0);
};
template <index_t kM0, index_t kN1>
struct FmhaFwdSplitKVCombineTilePartitioner {};
template <index_t kM0, index_t kN0, index_t kK0, index_t kN1>
struct FmhaFwdAppendKVTilePartitioner {};
#endif

using Seed = std::variant<std::pair<std::uint64_t, std::uint64_t>, std::pair<const void*, const void*>>;

/// A parameter that takes its own type only: C++ would turn a flag into a figure and a figure into a factor.
template <class T>
struct Exactly {
  template <class Given, class = std::enable_if_t<std::is_same_v<std::decay_t<Given>, T> ||
                                                  (std::is_same_v<T, void*> && std::is_same_v<Given, std::nullptr_t>)>>
  constexpr Exactly(Given) {}
};

template <class Pipeline>
struct KernelBase {
  using PipelineOf = Pipeline;
  struct Kargs {};
  static constexpr index_t kBlockSize = Pipeline::Problem::kBlockSize;
  static constexpr index_t kBlockPerCu = Pipeline::Problem::TraitsOf::kBlockPerCu;
  static constexpr dim3 BlockSize() { return dim3(kBlockSize); }
};
// The functions' parameters come in the order of the facts, by kind: strides are integers, addresses are addresses.
#if TILESMITH_CK_VERSION >= 202410 && TILESMITH_CK_VERSION <= 202410
template <class Part0, class Pipeline, class Part2>
struct FmhaFwdKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<void*>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<float>, Exactly<float>, Exactly<float>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<float>, Exactly<bool>,
                         Exactly<Seed>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) { return {}; }
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<float>, Exactly<float>,
                         Exactly<float>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<float>, Exactly<bool>, Exactly<Seed>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202502 && TILESMITH_CK_VERSION <= 202502
template <class Pipeline, class Part1>
struct FmhaFwdKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargsImpl(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>, Exactly<void*>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<float>, Exactly<float>,
                             Exactly<float>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<float>,
                             Exactly<bool>, Exactly<Seed>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) { return {}; }
  static Kargs MakeKargsImpl(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<float>,
                             Exactly<float>, Exactly<float>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<float>, Exactly<bool>,
                             Exactly<Seed>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202605 && TILESMITH_CK_VERSION <= 202605
template <class Pipeline, class Part1>
struct FmhaFwdKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargsImpl(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<float>, Exactly<float>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<float>, Exactly<bool>,
                             Exactly<Seed>, Exactly<index_t>, Exactly<index_t>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<bool>) {
    return {};
  }
  static Kargs MakeKargsImpl(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<float>, Exactly<float>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<float>, Exactly<bool>,
                             Exactly<Seed>, Exactly<index_t>, Exactly<index_t>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202609 && TILESMITH_CK_VERSION <= 202609
template <class Pipeline, class Part1>
struct FmhaFwdKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargsImpl(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<float>, Exactly<float>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<float>, Exactly<bool>, Exactly<Seed>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<index_t>,
                             Exactly<index_t>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<bool>) {
    return {};
  }
  static Kargs MakeKargsImpl(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>, Exactly<void*>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<float>, Exactly<float>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<float>, Exactly<bool>, Exactly<Seed>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<index_t>, Exactly<index_t>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202605 && TILESMITH_CK_VERSION <= 202605
template <class Pipeline, class Part1>
struct FmhaFwdV3Kernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<float>, Exactly<float>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<void*>, Exactly<void*>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) { return {}; }
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<float>, Exactly<float>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<void*>, Exactly<void*>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202609 && TILESMITH_CK_VERSION <= 202609
template <class Pipeline, class Part1>
struct FmhaFwdV3Kernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<void*>, Exactly<void*>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<float>, Exactly<float>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<void*>, Exactly<void*>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) { return {}; }
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<float>,
                         Exactly<float>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<void*>,
                         Exactly<void*>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202605 && TILESMITH_CK_VERSION <= 202609
template <class Pipeline, class Part1>
struct FmhaFwdPagedKVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<void*>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<void*>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<void*>, Exactly<float>, Exactly<float>, Exactly<float>, Exactly<float>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<void*>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<bool>) {
    return {};
  }
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<void*>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<bool>, Exactly<float>, Exactly<float>, Exactly<float>, Exactly<float>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<void*>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202410 && TILESMITH_CK_VERSION <= 202410
template <class Part0, class Pipeline, class Part2>
struct FmhaFwdSplitKVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<void*>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<void*>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<void*>, Exactly<float>, Exactly<float>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) {
    return {};
  }
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<index_t>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<float>,
                         Exactly<float>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202502 && TILESMITH_CK_VERSION <= 202502
template <class Pipeline, class Part1>
struct FmhaFwdSplitKVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<void*>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<void*>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<void*>, Exactly<float>, Exactly<float>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                       Exactly<index_t>) {
    return {};
  }
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<index_t>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<void*>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<bool>, Exactly<float>, Exactly<float>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202605 && TILESMITH_CK_VERSION <= 202605
template <class Pipeline, class Part1>
struct FmhaFwdSplitKVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<void*>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<void*>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<void*>, Exactly<float>, Exactly<float>,
                         Exactly<float>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<void*>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                       Exactly<index_t>) {
    return {};
  }
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<index_t>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<void*>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<bool>, Exactly<float>, Exactly<float>,
                         Exactly<float>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<void*>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202609 && TILESMITH_CK_VERSION <= 202609
template <class Pipeline, class Part1>
struct FmhaFwdSplitKVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<void*>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<void*>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<void*>, Exactly<float>, Exactly<float>,
                         Exactly<float>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<void*>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                       Exactly<index_t>) {
    return {};
  }
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<index_t>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<void*>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<bool>, Exactly<float>, Exactly<float>,
                         Exactly<float>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<void*>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202410 && TILESMITH_CK_VERSION <= 202410
template <class Part0, class Pipeline, class Part2>
struct FmhaFwdSplitKVCombineKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<float>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) { return {}; }
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<index_t>,
                         Exactly<void*>, Exactly<index_t>, Exactly<index_t>, Exactly<float>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202502 && TILESMITH_CK_VERSION <= 202609
template <class Pipeline, class Part1>
struct FmhaFwdSplitKVCombineKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<float>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) { return {}; }
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<index_t>,
                         Exactly<void*>, Exactly<index_t>, Exactly<index_t>, Exactly<float>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202410 && TILESMITH_CK_VERSION <= 202410
template <class Part0, class Pipeline>
struct FmhaFwdAppendKVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<index_t>, Exactly<void*>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<void*>, Exactly<void*>, Exactly<index_t>,
                         Exactly<bool>, Exactly<void*>, Exactly<index_t>, Exactly<index_t>, Exactly<void*>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) { return {}; }
};
#endif
#if TILESMITH_CK_VERSION >= 202502 && TILESMITH_CK_VERSION <= 202609
template <class Pipeline>
struct FmhaFwdAppendKVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<index_t>, Exactly<void*>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<void*>, Exactly<void*>, Exactly<index_t>,
                         Exactly<bool>, Exactly<void*>, Exactly<index_t>, Exactly<index_t>, Exactly<void*>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) { return {}; }
};
#endif
#if TILESMITH_CK_VERSION >= 202605 && TILESMITH_CK_VERSION <= 202605
template <class Pipeline, class Part1>
struct FmhaBatchPrefillWithPagedKVCacheKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  struct ByIndices {
    const std::int32_t *kv_indptr, *kv_page_indices, *kv_last_page_lens;
  };
  struct ByTable {
    const std::int32_t* block_table_ptr;
    index_t batch_stride_block_table;
    const std::int32_t* seqlen_k_ptr;
  };
  using PageBlockTableKargs = std::conditional_t<Pipeline::Problem::kKVLookupTable ==
                                                     BlockAttentionKVCacheLookupTableEnum::SGLANG_PAGE_TABLE_1D,
                                                 ByIndices, ByTable>;
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, PageBlockTableKargs, Exactly<float>, Exactly<float>, Exactly<float>,
                         Exactly<float>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<float>, Exactly<bool>, Exactly<Seed>, Exactly<void*>, Exactly<index_t>,
                         Exactly<index_t>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<bool>) {
    return {};
  }
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, PageBlockTableKargs, Exactly<float>, Exactly<float>, Exactly<float>,
                         Exactly<float>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<float>, Exactly<bool>, Exactly<Seed>, Exactly<void*>, Exactly<index_t>,
                         Exactly<index_t>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202609 && TILESMITH_CK_VERSION <= 202609
template <class Pipeline, class Part1>
struct FmhaBatchPrefillWithPagedKVCacheKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  struct ByIndices {
    const std::int32_t *kv_indptr, *kv_page_indices, *kv_last_page_lens;
  };
  struct ByTable {
    const std::int32_t* block_table_ptr;
    index_t batch_stride_block_table;
    const std::int32_t* seqlen_k_ptr;
  };
  using PageBlockTableKargs = std::conditional_t<Pipeline::Problem::kKVLookupTable ==
                                                     BlockAttentionKVCacheLookupTableEnum::SGLANG_PAGE_TABLE_1D,
                                                 ByIndices, ByTable>;
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, PageBlockTableKargs, Exactly<float>, Exactly<float>, Exactly<float>,
                         Exactly<float>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<float>, Exactly<bool>, Exactly<Seed>, Exactly<void*>, Exactly<index_t>,
                         Exactly<index_t>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<bool>) {
    return {};
  }
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, PageBlockTableKargs, Exactly<float>, Exactly<float>, Exactly<float>,
                         Exactly<float>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<float>, Exactly<bool>, Exactly<Seed>, Exactly<void*>, Exactly<index_t>,
                         Exactly<index_t>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202410 && TILESMITH_CK_VERSION <= 202502
template <class Pipeline>
struct FmhaBwdOGradDotOKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<float>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) { return {}; }
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<float>, Exactly<void*>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202605 && TILESMITH_CK_VERSION <= 202605
template <class Pipeline>
struct FmhaBwdOGradDotOKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<float>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) { return {}; }
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<float>, Exactly<void*>, Exactly<void*>,
                         Exactly<void*>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202609 && TILESMITH_CK_VERSION <= 202609
template <class Pipeline>
struct FmhaBwdOGradDotOKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<float>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) { return {}; }
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<float>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202410 && TILESMITH_CK_VERSION <= 202410
template <class Pipeline, class Part1, class Part2>
struct FmhaBwdDQDKDVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<float>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<long_index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<long_index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<long_index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<long_index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<float>,
                         Exactly<Seed>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) { return {}; }
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<float>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<long_index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<long_index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<long_index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<float>,
                         Exactly<Seed>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202502 && TILESMITH_CK_VERSION <= 202502
template <class Pipeline, class Part1, class Part2>
struct FmhaBwdDQDKDVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargsImpl(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>, Exactly<void*>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<float>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<long_index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<long_index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<long_index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<long_index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<float>, Exactly<Seed>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) { return {}; }
  static Kargs MakeKargsImpl(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<float>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<long_index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<long_index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<long_index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<float>, Exactly<Seed>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202605 && TILESMITH_CK_VERSION <= 202605
template <class Pipeline, class Part1, class Part2, class Part3>
struct FmhaBwdDQDKDVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargsImpl(
      Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
      Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<index_t>,
      Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<float>,
      Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
      Exactly<long_index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
      Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
      Exactly<long_index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
      Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
      Exactly<long_index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
      Exactly<long_index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<float>, Exactly<Seed>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) { return {}; }
  static Kargs MakeKargsImpl(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<float>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<long_index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<long_index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<long_index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<float>, Exactly<Seed>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202609 && TILESMITH_CK_VERSION <= 202609
template <class Pipeline, class Part1, class Part2, class Part3>
struct FmhaBwdDQDKDVKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargsImpl(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<float>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<float>, Exactly<Seed>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) { return {}; }
  static Kargs MakeKargsImpl(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                             Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<float>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                             Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<float>,
                             Exactly<Seed>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202410 && TILESMITH_CK_VERSION <= 202502
template <class Pipeline>
struct FmhaBwdConvertQGradKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<long_index_t>, Exactly<index_t>, Exactly<long_index_t>,
                         Exactly<index_t>, Exactly<long_index_t>, Exactly<long_index_t>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) { return {}; }
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<long_index_t>, Exactly<index_t>, Exactly<long_index_t>,
                         Exactly<long_index_t>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202605 && TILESMITH_CK_VERSION <= 202605
template <class Pipeline>
struct FmhaBwdConvertQGradKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<long_index_t>, Exactly<index_t>, Exactly<long_index_t>,
                         Exactly<index_t>, Exactly<long_index_t>, Exactly<long_index_t>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) { return {}; }
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<void*>, Exactly<void*>, Exactly<index_t>, Exactly<index_t>, Exactly<long_index_t>,
                         Exactly<index_t>, Exactly<long_index_t>, Exactly<long_index_t>) {
    return {};
  }
};
#endif
#if TILESMITH_CK_VERSION >= 202609 && TILESMITH_CK_VERSION <= 202609
template <class Pipeline>
struct FmhaBwdConvertQGradKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) {
    return {};
  }
  static dim3 GridSize(Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) { return {}; }
  static Kargs MakeKargs(Exactly<void*>, Exactly<void*>, Exactly<index_t>, Exactly<index_t>, Exactly<void*>,
                         Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>, Exactly<void*>,
                         Exactly<index_t>, Exactly<index_t>, Exactly<index_t>) {
    return {};
  }
};
#endif

}  // namespace ck_tile
