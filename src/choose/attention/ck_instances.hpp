// Composable Kernel's attention instances that carry the traits of a call, and which of them take its sizes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/function_ref.hpp"
#include "choose/refusal.hpp"
#include "spec/amd/facts.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

struct CkInstances {
  std::vector<KernelConfig> serving;  ///< in upstream's order
  std::vector<Refusal> refused;       ///< of the same traits and head dims
};

/// Why an instance does not take the sizes of a call; empty: it does.
using CkSizesTest = FunctionRef<std::string_view(const KernelConfig&)>;

/// Of the instances that have exactly the wanted family, types and traits, those of the smallest head dims that hold
/// the wanted ones, as upstream looks for them: larger ones only where no smaller one serves. Those without a sound
/// source are refused by the rule that says why. Error: unsupported, when none serves, with what refused the last.
[[nodiscard]] Result<CkInstances> ck_attention_instances(const CkFacts& facts, const AttentionSignature& wanted,
                                                         CkSizesTest suits);

/// What no instance of the chip can do, whatever its tile: the same for forward and backward. Empty: nothing.
template <class Problem>
[[nodiscard]] std::string_view ck_attention_obstacle(const Problem& p) {
  if (p.diagonal != 0) return "masks of Composable Kernel have no diagonal of their own";
  if (p.negative_scale) return "Composable Kernel takes the greatest logit before it scales, so scales are positive";
  if (p.unaligned) return "Composable Kernel reads q, k, v and writes o by whole vectors of 16 bytes";
  return {};
}

/// The mask that an instance needs for the problem's. Instances with a causal mask take its bounds at run time; where a
/// family has instances with a window of their own (`has_windows`), those take windows.
template <class Problem>
[[nodiscard]] MaskKind ck_mask_of(const Problem& p, bool has_windows) {
  const bool has_window = p.window_left >= 0 || p.window_right >= 0;
  if (has_window && has_windows) return MaskKind::generic;
  return has_window || p.mask != MaskKind::none ? MaskKind::top_left : MaskKind::none;
}

/// What upstream's dispatcher scores a tile of `rows` queries by, the lowest first, when `most` are the rows of the
/// largest tile that serves (choose/attention/ck.hpp has the categories).
[[nodiscard]] int ck_category(std::int64_t seqlen_q, int rows, int most);

/// How many of an instance's four dimensions are padded.
[[nodiscard]] int ck_padded_dimensions(const KernelConfig& config);

/// Whether a size fits an instance that pads as `pad` says and works on tiles of `tile`.
[[nodiscard]] inline bool ck_fits(std::int64_t size, std::int64_t tile, int pad) {
  return pad == 1 || (pad == 8 ? size % 8 == 0 : tile > 0 && size % tile == 0);
}

/// Blocks of an instance that share a compute unit, as Composable Kernel asks of its compiler, as far as local memory
/// allows.
[[nodiscard]] int ck_blocks_per_cu(const KernelConfig& config, const AmdChip& chip);

}  // namespace tilesmith
