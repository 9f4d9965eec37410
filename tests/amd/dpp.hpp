// Data-parallel primitives (DPP): the lane from which each lane has its first source.
#pragma once

#include <string_view>
#include <vector>

#include "amd/instruction.hpp"

namespace tilesmith::amdgpu {

/// Vega ISA 13.3.9 and CDNA 3 ISA 12.4 (quad_perm, row_shl, row_shr, row_ror, wave_*, row_mirror, row_half_mirror,
/// row_bcast, row_newbcast); RDNA 3 ISA 15.3.4 (row_share, row_xmask, dpp8). Fault: the control is not known.
void set_dpp_control(Modifiers& modifiers, std::string_view control, const std::vector<int>& values);
/// row_mask, bank_mask, bound_ctrl, fi.
void set_dpp_flag(Modifiers& modifiers, std::string_view flag, int value);

}  // namespace tilesmith::amdgpu
