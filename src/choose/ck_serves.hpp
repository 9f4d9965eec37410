// Whether a recipe is among those of Composable Kernel's instances that serve a problem.
#pragma once

#include <span>

#include "base/error.hpp"
#include "choose/refusal.hpp"
#include "vocabulary/recipe.hpp"

namespace tilesmith {

/// `serving` has one recipe at least. Errors: unsupported, with what refused an instance of the recipe;
/// invalid_argument, for an instance of other traits.
[[nodiscard]] Status ck_serves(const Recipe& recipe, std::span<const Recipe> serving, std::span<const Refusal> refused);

}  // namespace tilesmith
