// What a bench sweeps: a JSON file in the form of a sweep file. Traits of the problem pick shapes, traits of the
// algorithm pick recipes: those all of whose steps have values of the lists, so that nothing runs that is not named.
//
//   {"variant": "fwd", "trait_config": {"data_type": {"values": ["bf16"]}, "mask": {"values": ["no", "top_left"]},
//                                       "pipeline": {"values": ["flash"]}, "tile_n": {"values": [128, 256]}}}
//
// A trait that is absent allows everything. Problem traits of attention: data_type, mode, mask, bias, lse, dropout,
// head_dim_qk, head_dim_v; of GEMM: data_type (of A), output_type, layout ("rcr"), epilogue ("bias+gelu", "" for
// none), beta. Kernel traits: arch, pipeline, instruction, tile_m, tile_n, of GEMM also tile_k and split_k. `variant`
// is attention's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "tilesmith/attention.hpp"
#include "tilesmith/gemm.hpp"
#include "vocabulary/recipe.hpp"

namespace tilesmith {

class BenchConfig {
 public:
  /// Allows everything.
  BenchConfig() = default;

  /// Errors name file, JSON path, value and what would be right.
  [[nodiscard]] static Result<BenchConfig> parse(Operation operation, std::string_view file, std::string_view text);

  [[nodiscard]] bool allows(const AttentionProblem& problem) const;
  [[nodiscard]] bool allows(const GemmProblem& problem) const;
  [[nodiscard]] bool allows(const Recipe& recipe) const;

 private:
  struct Allowed {
    std::string trait;
    std::vector<std::string> values;  ///< canonical text of each
  };
  [[nodiscard]] bool allows(const KernelConfig& config) const;
  [[nodiscard]] bool allows(std::string_view trait, std::string_view value) const;

  std::vector<Allowed> allowed_;
};

}  // namespace tilesmith
