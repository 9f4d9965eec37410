#include "amd/dpp.hpp"

#include "amd/fault.hpp"

namespace tilesmith::amdgpu {
namespace {

constexpr int kRow = 16;

/// The lane that `lane` reads; -1: none.
int source_lane(std::string_view control, const std::vector<int>& values, int lane) {
  const int row = lane / kRow * kRow, at = lane % kRow, n = values.empty() ? 1 : values[0];
  const auto within_row = [&](int place) { return place >= 0 && place < kRow ? row + place : -1; };
  if (control == "quad_perm") return lane / 4 * 4 + values.at(static_cast<std::size_t>(lane % 4));
  if (control == "dpp8") return lane / 8 * 8 + values.at(static_cast<std::size_t>(lane % 8));
  if (control == "row_shl") return within_row(at + n);
  if (control == "row_shr") return within_row(at - n);
  if (control == "row_ror") return row + (at + kRow - n) % kRow;
  if (control == "row_mirror") return row + kRow - 1 - at;
  if (control == "row_half_mirror") return lane / 8 * 8 + 7 - lane % 8;
  if (control == "row_newbcast" || control == "row_share") return row + n;
  if (control == "row_xmask") return row + (at ^ n);
  // The last lane of a row (of the first two rows) for all of the next row (of the next two).
  if (control == "row_bcast" && n == 15) return row - 1;
  if (control == "row_bcast" && n == 31) return lane < 32 ? -1 : 31;
  if (control == "wave_shl") return lane + 1 < 64 ? lane + 1 : -1;
  if (control == "wave_shr") return lane - 1;
  if (control == "wave_rol") return (lane + 1) % 64;
  if (control == "wave_ror") return (lane + 63) % 64;
  fault("the DPP control '{}' is not known", control);
}

Dpp& dpp_of(Modifiers& modifiers) {
  if (modifiers.dpp == nullptr) {
    modifiers.dpp = std::make_unique<Dpp>();
    modifiers.dpp->enabled = ~std::uint64_t{0};
  }
  return *modifiers.dpp;
}

}  // namespace

void set_dpp_control(Modifiers& modifiers, std::string_view control, const std::vector<int>& values) {
  Dpp& dpp = dpp_of(modifiers);
  for (int lane = 0; lane < 64; ++lane)
    dpp.from[static_cast<std::size_t>(lane)] = static_cast<std::int8_t>(source_lane(control, values, lane));
}

void set_dpp_flag(Modifiers& modifiers, std::string_view flag, int value) {
  Dpp& dpp = dpp_of(modifiers);
  if (flag == "bound_ctrl") {
    dpp.zero_without = value != 0;
  } else if (flag == "fi") {
    dpp.fetch_inactive = value != 0;
  } else {
    const bool rows = flag == "row_mask";
    for (int lane = 0; lane < 64; ++lane)
      if ((value >> (rows ? lane / kRow : lane / 4 % 4) & 1) == 0) dpp.enabled &= ~(std::uint64_t{1} << lane);
  }
}

}  // namespace tilesmith::amdgpu
