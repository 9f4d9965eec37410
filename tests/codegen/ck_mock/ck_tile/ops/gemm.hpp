// A stand-in for CK Tile's GEMM: template arguments in order and kind, and the conditions of its pipelines.
#pragma once

#include <array>
#include <vector>

#include "ck_tile/core.hpp"
#include "ck_tile/host/kernel_launch.hpp"

namespace ck_tile {

using int8_t = std::int8_t;
using int32_t = std::int32_t;
namespace tensor_layout::gemm {
struct RowMajor {};
struct ColumnMajor {};
}  // namespace tensor_layout::gemm
namespace element_wise {
struct MultiDAdd {};
struct MultiDMultiply {};
}  // namespace element_wise
enum class GemmPipelineScheduler { Default, Intrawave, Interwave };

template <class Layout>
inline constexpr bool kIsLayout =
    std::is_same_v<Layout, tensor_layout::gemm::RowMajor> || std::is_same_v<Layout, tensor_layout::gemm::ColumnMajor>;

template <class Tile, class Waves, class Warp, bool kPermuteA = false, bool kPermuteB = false>
struct TileGemmShape {
  static_assert(Tile::kSize == 3 && Waves::kSize == 3 && Warp::kSize == 3);
  using TileOf = Tile;
  using WavesOf = Waves;
  using WarpOf = Warp;
  static constexpr index_t kWaves = Waves::at(0) * Waves::at(1) * Waves::at(2);
  static constexpr bool kWhole = Tile::at(0) % (Waves::at(0) * Warp::at(0)) == 0 &&
                                 Tile::at(1) % (Waves::at(1) * Warp::at(1)) == 0 && Tile::at(2) % Warp::at(2) == 0;
  static_assert(kWhole, "a tile is whole fragments of its waves");
};

template <class Shape, index_t kGroups, index_t kM01>
struct GemmSpatiallyLocalTilePartitioner {
  static_assert(Shape::kWhole && kGroups == 8 && kM01 == 4);
};

template <bool kPadM, bool kPadN, bool kPadK, bool kDoubleLds, class A, class B, class C, bool kTransposeC,
          bool kSparse = false, bool kPersistent = false, index_t kWaveGroups = 1, bool kPreshuffle = false,
          int kVector = 16>
struct TileGemmUniversalTraits {
  static_assert(kIsLayout<A> && kIsLayout<B> && kIsLayout<C> && !kSparse && kWaveGroups >= 1);
  static constexpr bool pad_m = kPadM, pad_n = kPadN, pad_k = kPadK, double_lds = kDoubleLds, persistent = kPersistent,
                        preshuffle = kPreshuffle;
  static constexpr bool a_by_rows = std::is_same_v<A, tensor_layout::gemm::RowMajor>;
  static constexpr bool b_by_rows = std::is_same_v<B, tensor_layout::gemm::RowMajor>;
  static constexpr bool c_by_rows = std::is_same_v<C, tensor_layout::gemm::RowMajor>;
};

template <class A, class B, class Acc, class Shape, class Traits,
          GemmPipelineScheduler kScheduler = GemmPipelineScheduler::Intrawave,
          class AElementwise = element_wise::PassThrough, class BElementwise = element_wise::PassThrough,
          class AComputeType = A, class BComputeType = B, bool kFixedVector = false, index_t kVectorA = 1,
          index_t kVectorB = 1>
struct UniversalGemmPipelineProblem {
  static_assert(Shape::kWhole && sizeof(Acc) >= sizeof(A) && sizeof(Traits) > 0);
  static_assert(std::is_same_v<AElementwise, element_wise::PassThrough> &&
                std::is_same_v<BElementwise, element_wise::PassThrough>);
  static_assert(std::is_same_v<AComputeType, A> && std::is_same_v<BComputeType, B>);
  static constexpr bool fixed_vector = kFixedVector;
  static constexpr index_t vector_a = kVectorA, vector_b = kVectorB;
  using TraitsOf = Traits;
  using ShapeOf = Shape;
  static constexpr auto scheduler = kScheduler;
};

template <class P, bool kDoubleLds, bool kPreshuffle>
struct GemmPipeline {
  using Problem = P;
  static_assert(P::TraitsOf::double_lds == kDoubleLds, "buffers of local memory");
  static_assert(P::TraitsOf::preshuffle == kPreshuffle);
  static_assert(kPreshuffle == (P::scheduler == GemmPipelineScheduler::Default));
};
/// Convolution has its own policy of local memory for some pipelines.
struct DefaultGemmPolicy {};
template <class P, class Policy = DefaultGemmPolicy>
struct GemmPipelineAgBgCrMem : GemmPipeline<P, false, false> {
  using PolicyOf = Policy;
};
template <class P, class Policy = DefaultGemmPolicy>
struct GemmPipelineAgBgCrCompV3 : GemmPipeline<P, false, false> {
  using PolicyOf = Policy;
  static_assert(P::scheduler == GemmPipelineScheduler::Intrawave);
};
template <class P>
struct GemmPipelineAgBgCrCompV4 : GemmPipeline<P, true, false> {
  static_assert(P::scheduler == GemmPipelineScheduler::Intrawave);
};
template <class P>
struct GemmPipelineAgBgCrCompV6 : GemmPipeline<P, false, false> {
  static_assert(P::scheduler == GemmPipelineScheduler::Intrawave);
};
template <class P, class Policy = DefaultGemmPolicy>
struct GemmPipelineAGmemBGmemCRegV1 : GemmPipeline<P, false, false> {
  using PolicyOf = Policy;
};
template <class P>
struct GemmPipelineAGmemBGmemCRegAsyncV1 : GemmPipeline<P, false, false> {
  static_assert(P::scheduler == GemmPipelineScheduler::Intrawave);
};
/// Beside waves that multiply it has some that only load.
template <class P, class Policy = DefaultGemmPolicy, index_t kLoadingWaves = 4>
struct GemmPipelineAgBgCrWavelet : GemmPipeline<P, false, false> {
  using PolicyOf = Policy;
  static constexpr index_t LaunchBlockSize = 64 * (P::ShapeOf::kWaves + kLoadingWaves);
  static_assert(P::scheduler == GemmPipelineScheduler::Intrawave);
};
template <class P>
struct WeightPreshufflePipelineAGmemBGmemCRegV2 : GemmPipeline<P, true, true> {};

template <class A, class B, class Ds, class Acc, class O, class DsLayout, class ELayout, class Elementwise,
          index_t kTileM, index_t kTileN, index_t kWavesM, index_t kWavesN, index_t kWarpM, index_t kWarpN,
          index_t kWarpK, bool kTransposeC, index_t kWaveGroups = 1, bool kFixedVector = false, index_t kVectorC = 1,
          index_t kBlockedN = 1, bool kDoubleLds = false>
struct CShuffleEpilogueProblem {
  static_assert(Ds::kSize == DsLayout::kSize && kIsLayout<ELayout>);
  using Output = O;
  static constexpr bool fixed_vector = kFixedVector;
  static constexpr index_t vector_c = kVectorC;
  static_assert(kTileM % (kWavesM * kWarpM) == 0 && kTileN % (kWavesN * kWarpN) == 0);
  static_assert(std::is_same_v<Elementwise, element_wise::PassThrough> == (Ds::kSize == 0));
  static constexpr int num_d = Ds::kSize;
};
template <class Problem>
struct CShuffleEpilogue {
  using ProblemOf = Problem;
  static constexpr int num_d = Problem::num_d;
};
template <class A, class B, class Ds, class Acc, class O, class DsLayout, class CLayout, class Elementwise,
          index_t kTileM, index_t kTileN, bool kPadM, bool kPadN, index_t kWarpM, index_t kWarpN, index_t kWarpK,
          bool kTransposeC>
struct DefaultGemm2DEpilogueProblem {
  static_assert(Ds::kSize == DsLayout::kSize && kIsLayout<CLayout>);
  static_assert(kTileM % kWarpM == 0 && kTileN % kWarpN == 0);
  static_assert(std::is_same_v<Elementwise, element_wise::PassThrough> == (Ds::kSize == 0));
  static constexpr int num_d = Ds::kSize;
};
template <class Problem>
struct DefaultGemm2DEpilogue {
  static constexpr int num_d = Problem::num_d;
};

struct GemmHostArgs {
  GemmHostArgs(const void*, const void*, void*, index_t, index_t, index_t, index_t, index_t, index_t, index_t) {}
};
template <index_t kNumD>
struct GemmMultiDHostArgs {
  GemmMultiDHostArgs(const void*, const void*, const std::array<const void*, kNumD>&, void*, index_t, index_t, index_t,
                     index_t, index_t, index_t, const std::array<index_t, kNumD>&, index_t) {}
};

template <class Partitioner, class Pipeline, class Epilogue>
struct GemmKernelBase {
  static_assert(sizeof(Partitioner) > 0 && sizeof(Epilogue) > 0);
  struct Kargs {};
  static constexpr index_t kBlockSize = 256;
  static bool IsSupportedArgument(const Kargs&) { return true; }
  static dim3 GridSize(index_t, index_t, index_t) { return {}; }
  static dim3 MaxOccupancyGridSize(const stream_config&) { return {}; }
  static dim3 BlockSize() { return {}; }
};
template <class Partitioner, class Pipeline, class Epilogue>
struct GemmKernel : GemmKernelBase<Partitioner, Pipeline, Epilogue> {
  static_assert(Epilogue::num_d == 0 && sizeof(typename Pipeline::Problem) > 0);
  using typename GemmKernelBase<Partitioner, Pipeline, Epilogue>::Kargs;
  static Kargs MakeKernelArgs(const GemmHostArgs&) { return {}; }
};
template <class Partitioner, class Pipeline, class Epilogue>
struct GemmKernelMultiD : GemmKernelBase<Partitioner, Pipeline, Epilogue> {
  using typename GemmKernelBase<Partitioner, Pipeline, Epilogue>::Kargs;
  static Kargs MakeKernelArgs(const GemmMultiDHostArgs<Epilogue::num_d>&) { return {}; }
};

enum class StreamKReductionStrategy { Atomic, Linear, Tree };
template <class Shape, StreamKReductionStrategy kStrategy, bool kPersistent>
struct StreamKTilePartitioner {
  static_assert(Shape::kWhole);
  static constexpr auto strategy = kStrategy;
  static constexpr bool persistent = kPersistent;
};
struct StreamKHostArgs {
  StreamKHostArgs(const void*, const void*, void*, index_t, index_t, index_t, index_t, index_t, index_t) {}
};
template <class Partitioner, class Pipeline, class Epilogue>
struct StreamKKernel : GemmKernelBase<Partitioner, Pipeline, Epilogue> {
  static_assert(Partitioner::persistent == Pipeline::Problem::TraitsOf::persistent, "persistence of the partitioner");
  struct Kargs {
    Partitioner tile_partitioner;
  };
  static Kargs MakeKernelArgs(const StreamKHostArgs&) { return {}; }
  static bool IsSupportedArgument(const Kargs&) { return true; }
  static std::uint32_t GetWorkSpaceSize(const Kargs&) { return 0; }
  static void SetWorkSpacePointer(Kargs&, void*) {}
  static dim3 GridSize(const Partitioner&) { return {}; }
};

template <index_t kNumD = 0>
struct GroupedGemmHostArgs {
  GroupedGemmHostArgs(const void*, const void*, const std::array<const void*, kNumD>&, void*, index_t, index_t, index_t,
                      index_t, index_t, index_t, const std::array<index_t, kNumD>&, index_t) {}
};
template <index_t kNumD = 0>
struct GemmTransKernelArg {
  char bytes[64];
};
inline const void* cast_pointer_to_constant_address_space(void* pointer) {
  return pointer;
}
template <class Partitioner, class Pipeline, class Epilogue>
struct GroupedGemmKernel {
  static_assert(Epilogue::num_d == 0 && sizeof(Partitioner) > 0);
  static constexpr index_t kBlockSize = 256;
  using Hosts = std::vector<GroupedGemmHostArgs<0>>;
  using List = std::vector<GemmTransKernelArg<0>>;
  static std::size_t GetWorkSpaceSize(index_t groups) { return static_cast<std::size_t>(groups); }
  static List MakeKargs(const Hosts&) { return {}; }
  static bool IsSupportedArgument(const List&) { return true; }
  static dim3 GridSize(const Hosts&) { return {}; }
  static dim3 MaxOccupancyGridSize(const stream_config&) { return {}; }
  static dim3 BlockSize() { return {}; }
  void operator()(const void*, index_t) const {}
};

}  // namespace ck_tile
