// What Composable Kernel builds for grouped convolution (specs/amd/ck/conv.json): per direction, the tiles and what
// each is built with.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "spec/amd/chip.hpp"
#include "vocabulary/algorithm.hpp"
#include "vocabulary/signature.hpp"

namespace tilesmith {

struct AmdConvSpec {
  using PipelineChoice = std::pair<Pipeline, Scheduler>;
  using Vector3 = std::array<std::uint8_t, 3>;
  using FragmentMn = std::array<std::uint16_t, 2>;

  /// What a tile is built with for one class of data types.
  struct ByClass {
    std::vector<int> spatial_dims;  ///< where the tile is listed by itself
    std::vector<Vector3> vectors;   ///< elements per access to A, B, C; candidates, sorted
    std::vector<PipelineChoice> pipelines;
  };
  struct Row {
    Shape3 tile{};
    std::vector<Shape3> waves;
    std::vector<std::pair<Shape3, std::vector<FragmentMn>>> fragments_mn;  ///< where the size rule does not hold
    ByClass half, single;
    [[nodiscard]] const ByClass& of(DataType type) const { return type == DataType::fp32 ? single : half; }
  };
  /// A feature built for some tiles on top of the plain kernels.
  struct Feature {
    std::vector<Shape3> tiles;
    bool large_tensor = false, explicit_gemm = false, two_stage = false, persistent = false, half_only = false;
    int groups_merged = 1;
    StreamKReduction stream_k = StreamKReduction::none;
    std::vector<PipelineChoice> pipelines;  ///< empty: the tile's own
  };
  struct Direction {
    std::vector<Row> rows;
    std::vector<Feature> features;
    std::vector<std::pair<Pipeline, Epilogue>> default_pipelines;
    [[nodiscard]] const Row* row(const Shape3& tile) const;
  };
  struct DefaultKernel {
    Shape3 tile{}, waves{}, fragment{};
    bool compv4 = false;
  };
  struct Depthwise {
    std::uint16_t tile_h = 0, tile_w = 0;
    std::uint8_t filter = 0, stride_h = 0, stride_w = 0, sub_h = 0, sub_w = 0, images = 0, load = 0, store = 0;
  };
  /// Kernels that upstream lists and knows to compute wrong results.
  struct WrongResults {
    ConvDirection direction = ConvDirection::forward;
    bool half_only = false;
    std::vector<PipelineChoice> pipelines;
    int waves_mn_above = 0;
  };

  std::vector<DataType> data_types;
  std::vector<FragmentMn> excluded_fragments_mn;
  ConvDirection legacy_direction =
      ConvDirection::backward_weight;  ///< kernels that keep the fragment depth of an earlier matrix unit
  Pipeline legacy_pipeline = Pipeline::wavelet;
  std::vector<Shape3> legacy_tiles;
  std::array<Direction, enum_size<ConvDirection>()> directions;
  std::vector<Depthwise> depthwise;
  std::vector<DefaultKernel> default_kernels;
  Vector3 default_vector{};
  std::vector<WrongResults> wrong_results;
};

[[nodiscard]] Result<AmdConvSpec> parse_amd_conv_spec(std::string_view file, std::string_view text);
[[nodiscard]] const Result<AmdConvSpec>& amd_conv_spec();

}  // namespace tilesmith
