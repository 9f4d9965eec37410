// What choosing among Composable Kernel's instances knows of a chip.
#pragma once

#include <algorithm>
#include <cstdint>

#include "spec/amd/chip.hpp"
#include "spec/reference_chip.hpp"

namespace tilesmith {

struct CkFacts {
  AmdChip chip;
  ReferenceChip reference;

  /// The share of a compute unit's vector and matrix units that blocks of so many waves keep busy, when a kernel has
  /// `blocks` of them and a unit takes `most`. A wave stays on one SIMD, of which a unit of CDNA has four and of RDNA
  /// two.
  [[nodiscard]] double busy_share(int waves, std::int64_t blocks, int most) const {
    const std::int64_t units = reference.compute_units;
    const auto resident = std::clamp<std::int64_t>((blocks + units - 1) / units, 1, most);
    return std::min(1.0, static_cast<double>(waves * resident) / (chip.isa == AmdIsa::cdna ? 4 : 2));
  }
};

}  // namespace tilesmith
