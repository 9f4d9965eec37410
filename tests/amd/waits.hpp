// How many memory instructions of each kind a wait leaves outstanding.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "amd/chip.hpp"

namespace tilesmith::amdgpu {

/// By the chip's queues; -1: any number. All are -1 where the mnemonic is no wait. Fault: its argument is not known.
[[nodiscard]] std::array<std::int16_t, kQueues> wait_counts(std::string_view mnemonic, std::string_view argument,
                                                            const Chip& chip);

}  // namespace tilesmith::amdgpu
