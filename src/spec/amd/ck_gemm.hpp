// What Composable Kernel builds for GEMM (specs/amd/ck/gemm.json): the sweep, its families, the limits on tiles, the
// preselected sets.
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

/// Which tiles an operator takes: figures of at least `min`, in steps of `step`.
struct TileLimits {
  Shape3 min{};
  Shape3 step{};
  [[nodiscard]] bool allow(const std::array<std::uint16_t, 9>& tile) const;
};

struct AmdGemmSpec {
  struct Sweep {
    std::array<std::vector<int>, 3> tile, waves, fragment;  ///< m, n, k each
  };
  struct Family {
    std::vector<DataType> data_types;
    std::vector<std::string> layouts;  ///< of A, B, C
    std::vector<Pipeline> pipelines;
    std::vector<Epilogue> epilogues;
    std::vector<Scheduler> schedulers;
    std::vector<ElementwiseKind> elementwise;  ///< multi_d
    std::vector<int> num_d;
    std::vector<StreamKReduction> reductions;  ///< stream_k
  };
  struct PreselectedKernel {
    GemmFamily family = GemmFamily::standard;
    Shape3 tile{}, wave{}, warp{};
    Pipeline pipeline = Pipeline::compv4;
    Epilogue epilogue = Epilogue::cshuffle;
    Scheduler scheduler = Scheduler::intrawave;
    bool pad = true;
    bool persistent = false;
    ElementwiseKind elementwise = ElementwiseKind::pass_through;
    int num_d = 0;
  };
  struct PreselectedSet {
    std::string name;
    DataType data_type = DataType::fp16;
    DataType output = DataType::fp16;
    std::vector<PreselectedKernel> kernels;
  };

  std::vector<std::pair<Pipeline, double>>
      lds_share;  ///< of a chip's local memory that one stage of a pipeline may take
  std::vector<Pipeline> intrawave_only;
  TileLimits gemm_limits, preshuffle_limits;
  std::array<TileLimits, enum_size<ConvDirection>()> conv_limits;
  Sweep sweep;
  std::array<Family, enum_size<GemmFamily>()> families;
  std::vector<PreselectedSet> preselected;

  [[nodiscard]] const TileLimits& limits_of(GemmFamily family) const;
  /// Bytes of a chip's local memory that a pipeline may stage A and B in.
  [[nodiscard]] long lds_budget(const AmdChip& chip, Pipeline pipeline) const;
};

[[nodiscard]] Result<AmdGemmSpec> parse_amd_gemm_spec(std::string_view file, std::string_view text);
[[nodiscard]] const Result<AmdGemmSpec>& amd_gemm_spec();

}  // namespace tilesmith
