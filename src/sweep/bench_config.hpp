// What a bench sweeps: a JSON file in the form of a sweep file. Traits of the problem pick shapes, traits of the
// algorithm pick recipes: those all of whose steps have values of the lists, so that nothing runs that is not named.
//
//   {"variant": "fwd", "trait_config": {"data_type": {"values": ["bf16"]}, "mask": {"values": ["no", "top_left"]},
//                                       "pipeline": {"values": ["flash"]}, "tile_n": {"values": [128, 256]}}}
//
// A trait that is absent allows everything. The traits of a problem are its fields, by their names; those of GEMM also
// data_type (type_a), output_type (type_d) and layout ("rcr"). An epilogue is written "bias+gelu", and "" for none. The
// traits of a kernel are arch, tile_m, tile_n, tile_k, and the fields of its algorithm that are one value (pipeline,
// instruction, split_k, ...) and whose name no field of the problem has. `variant` is attention's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "problem/operations.hpp"
#include "vocabulary/recipe.hpp"

namespace tilesmith {

class BenchConfig {
 public:
  /// Allows everything.
  BenchConfig() = default;

  /// Errors name file, JSON path, value and what would be right.
  [[nodiscard]] static Result<BenchConfig> parse(RowChoice operation, std::string_view file, std::string_view text);

  [[nodiscard]] bool allows(const AnyProblem& problem) const;
  [[nodiscard]] bool allows(const Recipe& recipe) const;

 private:
  struct Allowed {
    std::string trait;
    bool of_problem = false;          ///< else of the kernels
    std::vector<std::string> values;  ///< canonical text of each
  };
  [[nodiscard]] bool allows(const KernelConfig& config) const;
  /// Whether the lists of problems', or of kernels', traits have the object's values. `traits` are a table of
  /// bench_config.cpp.
  template <class Traits, class Object>
  [[nodiscard]] bool allows_by(const Traits& traits, const Object& object, bool of_problem) const;

  std::vector<Allowed> allowed_;
};

}  // namespace tilesmith
