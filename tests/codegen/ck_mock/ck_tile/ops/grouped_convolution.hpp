// A stand-in for CK Tile's grouped convolution: template arguments in order and kind, and what its classes assert.
#pragma once

#include <vector>

#include "ck_tile/ops/gemm.hpp"

namespace ck_tile {

namespace tensor_layout::convolution {
struct NWGC {};
struct NHWGC {};
struct NDHWGC {};
struct GKXC {};
struct GKYXC {};
struct GKZYXC {};
struct NWGK {};
struct NHWGK {};
struct NDHWGK {};
}  // namespace tensor_layout::convolution

enum class ConvolutionSpecialization { Default, Filter1x1Pad0, Filter1x1Stride1Pad0, Filter3x3 };
struct GroupedConvUniversalPipelineAgBgCrPolicy {};

template <class X, class W, class Y, int kDims>
struct ConvLayouts {
  static constexpr bool kFit = false;
};
template <>
struct ConvLayouts<tensor_layout::convolution::NWGC, tensor_layout::convolution::GKXC, tensor_layout::convolution::NWGK,
                   1> {
  static constexpr bool kFit = true;
};
template <>
struct ConvLayouts<tensor_layout::convolution::NHWGC, tensor_layout::convolution::GKYXC,
                   tensor_layout::convolution::NHWGK, 2> {
  static constexpr bool kFit = true;
};
template <>
struct ConvLayouts<tensor_layout::convolution::NDHWGC, tensor_layout::convolution::GKZYXC,
                   tensor_layout::convolution::NDHWGK, 3> {
  static constexpr bool kFit = true;
};

template <index_t kDims, ConvolutionSpecialization kSpecialization, class X, class W, class Ds, class Y,
          index_t kVectorA = 1, index_t kVectorB = 1, index_t kVectorC = 1, index_t kGroupsMerged = 1,
          bool kSplitImage = false, bool kExplicitGemm = false, class Depthwise = void>
struct GroupedConvTraits {
  static_assert(!std::is_void_v<Depthwise> || ConvLayouts<X, W, Y, kDims>::kFit, "layouts of these dimensions");
  static_assert(Ds::kSize == 0 && !kSplitImage);
  using DepthwiseOf = Depthwise;
  static constexpr int dims = kDims;
  static constexpr auto specialization = kSpecialization;
  static constexpr index_t vector_a = kVectorA, vector_b = kVectorB, vector_c = kVectorC, groups_merged = kGroupsMerged;
  static constexpr bool explicit_gemm = kExplicitGemm;
};

template <class In, class Wei, class Acc, class Out, index_t kBlock, index_t kTileH, index_t kTileW, index_t kFilterH,
          index_t kFilterW, index_t kStrideH, index_t kStrideW, index_t kDilationH, index_t kDilationW, index_t kPadH,
          index_t kPadW, index_t kImages, index_t kSubtileH, index_t kSubtileW, index_t kVectorIn, index_t kVectorOut>
struct DepthwiseConvFwdTraits {
  using Output = Out;
  static_assert(std::is_same_v<In, half_t> || std::is_same_v<In, float>);
  static_assert(std::is_same_v<In, Wei> && std::is_same_v<In, Out> && std::is_same_v<Acc, float>);
  static_assert(kBlock == 64 && kDilationH == 1 && kDilationW == 1 && kFilterH == kFilterW && kFilterH % 2 == 1);
  static_assert((kVectorIn & (kVectorIn - 1)) == 0 && (kVectorOut & (kVectorOut - 1)) == 0);
  static_assert(kSubtileH <= kTileH && kSubtileW <= kTileW && kPadH == kPadW && kPadW > 0);
  static constexpr index_t filter = kFilterH, stride_h = kStrideH, stride_w = kStrideW, images = kImages;
};
template <class Traits>
struct DepthwiseConvFwdPipeline {
  using TraitsOf = Traits;
};

namespace conv {
struct ConvParam {
  ConvParam(index_t, index_t, index_t, index_t, index_t, const std::vector<index_t>&, const std::vector<index_t>&,
            const std::vector<index_t>&, const std::vector<index_t>&, const std::vector<index_t>&,
            const std::vector<index_t>&) {}
};
}  // namespace conv
template <class In, class Wei, class Out, class Operation>
struct GroupedConvHostArgs {
  GroupedConvHostArgs(conv::ConvParam, In, Wei, const std::vector<const void*>, Out, index_t) {}
};
template <class Operation = element_wise::PassThrough>
using GroupedConvFwdHostArgs = GroupedConvHostArgs<const void*, const void*, void*, Operation>;
using GroupedConvBwdWeightHostArgs = GroupedConvHostArgs<const void*, void*, const void*, element_wise::PassThrough>;
using GroupedConvBwdDataHostArgs = GroupedConvHostArgs<void*, const void*, const void*, element_wise::PassThrough>;

template <class Pipeline, class = void>
struct LanesOf {
  static constexpr index_t kLanes = 256;
};
template <class Pipeline>
struct LanesOf<Pipeline, std::void_t<decltype(Pipeline::LaunchBlockSize)>> {
  static constexpr index_t kLanes = Pipeline::LaunchBlockSize;
};

template <class Conv, class Partitioner, class Pipeline, class Epilogue, class HostArgs>
struct GroupedConvolutionKernel {
  using GemmPipeline = Pipeline;
  struct Kargs {};
  static constexpr index_t kBlockSize = LanesOf<Pipeline>::kLanes;
  static constexpr bool check() {
    if constexpr (std::is_void_v<typename Conv::DepthwiseOf>) {
      using Problem = typename Pipeline::Problem;
      static_assert(Problem::TraitsOf::pad_m && Problem::TraitsOf::pad_n && Problem::TraitsOf::pad_k);
      static_assert(Problem::TraitsOf::c_by_rows && !Problem::TraitsOf::persistent);
      static_assert(Problem::fixed_vector && Problem::vector_a == Conv::vector_a &&
                    Problem::vector_b == Conv::vector_b);
      static_assert(Epilogue::ProblemOf::fixed_vector && Epilogue::ProblemOf::vector_c == Conv::vector_c);
    } else {
      static_assert(std::is_void_v<Partitioner> && Conv::dims == 2);
      static_assert(std::is_same_v<typename Epilogue::ODataType, typename Pipeline::TraitsOf::Output>);
    }
    return true;
  }
  static_assert(check());
  static Kargs MakeKernelArgs(const HostArgs&) { return {}; }
  static bool IsSupportedArgument(const Kargs&) { return true; }
  static dim3 GridSize(const Kargs&) { return {}; }
  static dim3 BlockSize() { return {}; }
  static std::size_t GetWorkSpaceSize(const Kargs&) { return 0; }
  static void SetWorkSpacePointer(Kargs&, void*) {}
};
template <class Conv, class Partitioner, class Pipeline, class Epilogue>
struct GroupedConvolutionForwardKernel
    : GroupedConvolutionKernel<Conv, Partitioner, Pipeline, Epilogue, GroupedConvFwdHostArgs<>> {
  static constexpr bool check() {
    if constexpr (std::is_void_v<typename Conv::DepthwiseOf>)
      return Pipeline::Problem::TraitsOf::a_by_rows == (Conv::groups_merged == 1) &&
             !Pipeline::Problem::TraitsOf::b_by_rows && (!Conv::explicit_gemm || Conv::groups_merged == 1);
    return true;
  }
  static_assert(check());
};
template <class Conv, class Partitioner, class Pipeline, class Epilogue>
struct GroupedConvolutionBackwardDataKernel
    : GroupedConvolutionKernel<Conv, Partitioner, Pipeline, Epilogue, GroupedConvBwdDataHostArgs> {
  static_assert(Pipeline::Problem::TraitsOf::a_by_rows && Pipeline::Problem::TraitsOf::b_by_rows);
};
template <class Conv, class Partitioner, class Pipeline, class Epilogue>
struct GroupedConvolutionBackwardWeightKernel
    : GroupedConvolutionKernel<Conv, Partitioner, Pipeline, Epilogue, GroupedConvBwdWeightHostArgs> {
  static_assert(!Pipeline::Problem::TraitsOf::a_by_rows && Pipeline::Problem::TraitsOf::b_by_rows);
};

}  // namespace ck_tile
