// The kernels that a sweep builds: those of every step of its recipes, each once, and what came of building them.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "vocabulary/recipe.hpp"

namespace tilesmith {

class BuildList {
 public:
  void add(const Recipe& recipe);
  [[nodiscard]] std::span<const KernelConfig> configs() const { return configs_; }

  /// One status for each of configs(), in order. Error: that of a build that was cancelled, which says nothing of its
  /// kernel; what is written down of a kernel is not asked again.
  [[nodiscard]] Status built(std::vector<Status> statuses);
  /// Whether all kernels of an added recipe were built. Error: that of its first step that was not; of a recipe of
  /// several steps it says which.
  [[nodiscard]] Status of(const Recipe& recipe) const;

 private:
  std::map<Key128, std::size_t> index_;
  std::vector<KernelConfig> configs_;
  std::vector<Status> statuses_;
};

}  // namespace tilesmith
