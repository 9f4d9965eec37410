// The options that describe a GEMM on the command line, and the case they make.
#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trial/gemm/case.hpp"

namespace tilesmith::cli {

struct GemmOptions {
  static constexpr std::size_t kTensors = 4;

  std::optional<std::int64_t> batch, m, n, k, k2;
  bool packed = false, prefetch_weights = false;
  std::string layout = "rcr";
  std::string dtype = "bf16";
  std::string dtype_b, dtype_out, dtype_c, dtype_bias;  ///< empty: the usual ones
  std::string grouping = "none";
  std::vector<std::int32_t> group_rows;
  std::int64_t group_size = 0;
  std::string dtype_scale = "fp32";
  bool zero_points = false;
  std::string epilogue;
  float alpha = 1, beta = 0;
  std::vector<float> clamp;  ///< empty: -1 and 1
  std::uint64_t seed = 0;
  std::string a, b, a2, b2, c, bias, scale_m, scale_n, out;
  std::array<std::string, kTensors> tensors;  ///< what add and multiply read, in the epilogue's order

  void add_to(CLI::App& verb);
};

/// Reads the files, takes sizes that are not given from their shapes, and checks that all of it fits together.
[[nodiscard]] Result<GemmCase> make_case(const GemmOptions& options);

}  // namespace tilesmith::cli
