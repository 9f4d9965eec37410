// The numbers of a GEMM on random inputs.
#pragma once

#include <cstdint>
#include <vector>

namespace tilesmith {

struct GemmNumbers {
  float alpha = 1, beta = 0;
  float clamp_low = -1, clamp_high = 1;
  /// Rows of each group; empty: contiguous groups share m evenly, masked groups are full.
  std::vector<std::int32_t> group_rows{};
  std::uint64_t seed = 0;  ///< of random inputs

  friend bool operator==(const GemmNumbers&, const GemmNumbers&) = default;

  template <class Self, class Visitor>
  static constexpr void fields(Self& self, Visitor&& visit) {
    visit("alpha", self.alpha);
    visit("beta", self.beta);
    visit("clamp_low", self.clamp_low);
    visit("clamp_high", self.clamp_high);
    visit("group_rows", self.group_rows);
    visit("seed", self.seed);
  }
};

}  // namespace tilesmith
