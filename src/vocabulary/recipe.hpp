// Recipe: the kernels that compute a problem together, in launch order. Most recipes have one step; attention backward
// has three, split-KV decoding two.
//
// A recipe's name is its steps' names joined by "+". A step's name is its kernel's, behind "role:" where the role is
// not `compute`. So the recipe of one kernel has that kernel's name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// What a kernel does in a recipe. One kernel may serve in several roles.
enum class StepRole : std::uint8_t {
  compute,   ///< computes the operation's result
  pack_b,    ///< GEMM: packs B for kernels that read it packed
  prepare,   ///< attention backward: the rows' statistics, and zeros where the computing step adds
  convert,   ///< attention backward: what the computing step added in fp32 becomes the result
  sum_bias,  ///< attention backward: the gradient of a bias, summed over what it broadcasts
  join,      ///< attention forward: the partial results of pieces of keys become the result
  pack_w,    ///< convolution: packs the filters for kernels that read them packed
};
template <>
struct EnumTable<StepRole> {
  static constexpr std::string_view kWhat = "step's role";
  static constexpr auto kNames = enum_names<StepRole>({{StepRole::compute, "compute"},
                                                       {StepRole::pack_b, "pack_b"},
                                                       {StepRole::prepare, "prepare"},
                                                       {StepRole::convert, "convert"},
                                                       {StepRole::sum_bias, "sum_bias"},
                                                       {StepRole::join, "join"},
                                                       {StepRole::pack_w, "pack_w"}});
};

struct Step {
  KernelConfig config;
  StepRole role = StepRole::compute;

  friend bool operator==(const Step&, const Step&) = default;
};

struct Recipe {
  std::vector<Step> steps;  ///< never empty

  Recipe() = default;
  /// One step.
  Recipe(KernelConfig config, StepRole role = StepRole::compute) : steps{{std::move(config), role}} {}
  explicit Recipe(std::vector<Step> given) : steps(std::move(given)) {}

  /// The first computing step, or the first step where none computes. It takes most of the time, and stands for the
  /// recipe where one kernel's figures are shown.
  [[nodiscard]] const KernelConfig& main() const;
  /// Whether the same call gives the same bits every time.
  [[nodiscard]] bool is_bitwise() const;

  friend bool operator==(const Recipe&, const Recipe&) = default;
};

/// "gemm_...", or with a role "pack_b:gemm_...".
[[nodiscard]] std::string step_name(const Step& step);
[[nodiscard]] std::string recipe_name(const Recipe& recipe);

/// The inverse of recipe_name. Error: parse, which says what is wrong with which step.
[[nodiscard]] Result<Recipe> parse_recipe_name(std::string_view name);

/// Of a recipe of one computing step: the key of its kernel; of others the head of the SHA-256 of roles and keys.
[[nodiscard]] Key128 key_of(const Recipe& recipe);

}  // namespace tilesmith
