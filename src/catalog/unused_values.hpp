// Values of a spec's tile tables that make no kernel: whoever adds a tile (TILESMITH_SPEC_DIR) learns that every rule
// set refuses it, and by which figures, and does not look for it in vain.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "spec/cpu/spec.hpp"
#include "spec/cuda/spec.hpp"

namespace tilesmith {

struct UnusedValue {
  std::string where;    ///< "cuda/sm_90a.json, attention_fwd, warp_specialized, tile 3"
  std::string value;    ///< "128 x 500"
  std::string refusal;  ///< "rule shared_memory_fits refuses it: ..."
};

/// Each tile, or of CPU levels each of a tile's figures, that no listed signature makes an instance of.
[[nodiscard]] std::vector<UnusedValue> unused_values(const CpuSpec& spec);
[[nodiscard]] std::vector<UnusedValue> unused_values(const CudaSpec& spec);
/// The same of an architecture by its name; none for names without own kernels. Error: a wrong spec.
[[nodiscard]] Result<std::vector<UnusedValue>> unused_values(std::string_view arch);

}  // namespace tilesmith
