// A stand-in for CK Tile's attention: prefill on paged keys.
#pragma once

#include "ck_tile/ops/fmha/forward.hpp"

namespace ck_tile {

#if TILESMITH_CK_VERSION >= 202507

template <class P>
struct BlockFmhaBatchPrefillPipelineQRKSVSAsync : ForwardPipeline<P, 1, false> {};

#if TILESMITH_CK_VERSION >= 202605
enum class BlockAttentionKVCacheMemoryLayoutEnum { VECTORIZED_LAYOUT, LINEAR_LAYOUT };
enum class BlockAttentionKVCacheLookupTableEnum { VLLM_BLOCK_TABLE_2D, SGLANG_PAGE_TABLE_1D };
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
#if TILESMITH_CK_VERSION == 202605
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
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(
        are_kinds<Given...>(Pipeline::Problem::group ? "p11 i6 t f4 i19 f b s p i2" : "p10 i7 t f4 i24 f b s p i2"));
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
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(
        are_kinds<Given...>(Pipeline::Problem::group ? "p11 i6 t f4 i19 f b s p i2" : "p10 i7 t f4 i24 f b s p i2"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i4 b"));
    return {};
  }
};
#endif
#else
/// With pages of one token, the traits and the problem are those of forward.
template <class Pipeline, class Part1>
struct FmhaBatchPrefillWithPagedKVCacheKernel : KernelBase<Pipeline> {
  using typename KernelBase<Pipeline>::Kargs;
  template <class... Given>
  static Kargs MakeKargs(Given...) {
    static_assert(are_kinds<Given...>(Pipeline::Problem::group ? "p8 i5 p2 f4 i18 f b s" : "p7 i6 p2 f4 i23 f b s"));
    return {};
  }
  template <class... Given>
  static dim3 GridSize(Given...) {
    static_assert(are_kinds<Given...>("i4"));
    return {};
  }
};
#endif

#endif

}  // namespace ck_tile
