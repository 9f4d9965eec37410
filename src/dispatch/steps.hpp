// The kernels of a recipe's steps, had one after the other.
#pragma once

#include <type_traits>
#include <vector>

#include "base/error.hpp"
#include "vocabulary/recipe.hpp"

namespace tilesmith {

/// The error of one step: of a recipe of several steps it says which, as "step 1 of 3 (KERNEL): ...".
[[nodiscard]] Error of_step(const Error& error, const Recipe& recipe, std::size_t step);

/// The kernels of the recipe's steps, in launch order. `find(config, step)` loads or builds one and returns a Result of
/// it. Error: that of the first step whose kernel cannot be had.
template <class Find>
[[nodiscard]] auto kernels_of(const Recipe& recipe, Find&& find)
    -> Result<std::vector<typename std::invoke_result_t<Find, const KernelConfig&, std::size_t>::value_type>> {
  std::vector<typename std::invoke_result_t<Find, const KernelConfig&, std::size_t>::value_type> kernels;
  kernels.reserve(recipe.steps.size());
  for (std::size_t step = 0; step < recipe.steps.size(); ++step) {
    auto kernel = find(recipe.steps[step].config, step);
    if (!kernel) return std::unexpected(of_step(kernel.error(), recipe, step));
    kernels.push_back(std::move(*kernel));
  }
  return kernels;
}

}  // namespace tilesmith
