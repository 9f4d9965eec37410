// Values between lanes, and between lanes and scalar registers (CDNA 3 ISA 12.7 and 12.10, CDNA 4 ISA for the swaps,
// RDNA 3 and RDNA 4 ISA 16.7 and 16.10). DPP is dpp.cpp, ds_permute local_memory_access.cpp.
#include <bit>

#include "amd/lanes.hpp"
#include "amd/operations.hpp"

namespace tilesmith::amdgpu {
namespace {

/// The lowest active lane; 0 when none is.
void read_first_lane(Wave& wave, const Instruction& in) {
  const Words values(wave, in, 1, 0);
  const u64 exec = wave.exec();
  wave.set_scalar(in.at(0).index, values[exec == 0 ? 0 : std::countr_zero(exec)]);
}

u32 scalar_value(const Wave& wave, const Operand& operand) {
  return operand.kind == Operand::Kind::constant ? static_cast<u32>(operand.constant)
         : operand.index == kNull                ? 0
                                                 : wave.scalar(operand.index);
}
int lane_of(const Wave& wave, const Operand& operand) {
  return static_cast<int>(scalar_value(wave, operand) % static_cast<u32>(wave.lanes));
}

/// EXEC does not matter.
void read_lane(Wave& wave, const Instruction& in) {
  const Words values(wave, in, 1, 0);
  wave.set_scalar(in.at(0).index, values[lane_of(wave, in.at(2))]);
}
void write_lane(Wave& wave, const Instruction& in) {
  wave.row(in.at(0).index)[static_cast<std::size_t>(lane_of(wave, in.at(2)))] = scalar_value(wave, in.at(1));
}

/// Set bits of the mask in lanes below, and b.
template <bool kHigh>
void count_bits_below(Wave& wave, const Instruction& in) {
  const Words mask(wave, in, 1, 0);
  const Source<u32> addend(wave, in, 2);
  std::array<u32, kLanes> results;
  for (int lane = 0; lane < kLanes; ++lane) {
    const u64 below = (u64{1} << lane) - 1;
    const auto part = static_cast<u32>(kHigh ? below >> 32 : below);
    results[static_cast<std::size_t>(lane)] = static_cast<u32>(std::popcount(mask[lane] & part)) + addend[lane];
  }
  write_result<u32>(wave, in, 0, results, 2);
}

/// Lane i of a row of 16 reads lane s of the same row (kOther: of its neighbour), s in nibble i of two scalars. op_sel:
/// [0] inactive lanes are read too, [1] (bound control) a lane without a source reads 0.
template <bool kOther>
void permute_row(Wave& wave, const Instruction& in) {
  const Words values(wave, in, 1, 0);
  const u64 selectors = scalar_value(wave, in.at(2)) | static_cast<u64>(scalar_value(wave, in.at(3))) << 32;
  const bool fetch_inactive = (in.modifiers.op_sel & 1) != 0, zero_without = (in.modifiers.op_sel & 2) != 0;
  Row results;
  u64 lanes = wave.exec();
  for (int lane = 0; lane < wave.lanes; ++lane) {
    const int row = (lane / 16 ^ (kOther ? 1 : 0)) * 16;
    const int from = row + static_cast<int>(selectors >> (4 * (lane % 16)) & 15);
    const bool there = fetch_inactive || (wave.exec() >> from & 1) != 0;
    if (!there && !zero_without) lanes &= ~(u64{1} << lane);
    results[static_cast<std::size_t>(lane)] = there ? values[from] : 0;
  }
  wave.write(in.at(0).index, results, lanes);
}
/// Likewise, with a lane's selector in the lane (RDNA 4).
template <bool kOther>
void permute_row_by_lanes(Wave& wave, const Instruction& in) {
  const Words values(wave, in, 1, 0), selectors(wave, in, 2, 0);
  Row results;
  for (int lane = 0; lane < wave.lanes; ++lane)
    results[static_cast<std::size_t>(lane)] =
        values[(lane / 16 ^ (kOther ? 1 : 0)) * 16 + static_cast<int>(selectors[lane] & 15)];
  wave.write(in.at(0).index, results, wave.exec());
}

/// The other half of a wave of 64; in a wave of 32 nothing moves.
void permute_halves(Wave& wave, const Instruction& in) {
  const Words values(wave, in, 1, 0);
  Row results;
  for (int lane = 0; lane < wave.lanes; ++lane)
    results[static_cast<std::size_t>(lane)] = values[wave.lanes == 64 ? lane ^ 32 : lane];
  wave.write(in.at(0).index, results, wave.exec());
}

/// Odd rows of `kRow` lanes of the first register and even rows of the second change places (CDNA 4 ISA,
/// V_PERMLANE16_SWAP_B32 and V_PERMLANE32_SWAP_B32).
template <int kRow>
void swap_rows(Wave& wave, const Instruction& in) {
  Row first = wave.row(in.at(0).index), second = wave.row(in.at(1).index);
  for (int lane = 0; lane < wave.lanes; ++lane)
    if ((lane / kRow & 1) != 0)
      std::swap(first[static_cast<std::size_t>(lane)], second[static_cast<std::size_t>(lane - kRow)]);
  wave.write(in.at(0).index, first, wave.exec());
  wave.write(in.at(1).index, second, wave.exec());
}

constexpr Operation kOperations[] = {
    {"v_readfirstlane_b32", read_first_lane},
    {"v_readlane_b32", read_lane},
    {"v_writelane_b32", write_lane},
    {"v_mbcnt_lo_u32_b32", count_bits_below<false>},
    {"v_mbcnt_hi_u32_b32", count_bits_below<true>},
    {"v_permlane16_b32", permute_row<false>},
    {"v_permlanex16_b32", permute_row<true>},
    {"v_permlane16_var_b32", permute_row_by_lanes<false>},
    {"v_permlanex16_var_b32", permute_row_by_lanes<true>},
    {"v_permlane64_b32", permute_halves},
    {"v_permlane16_swap_b32", swap_rows<16>},
    {"v_permlane32_swap_b32", swap_rows<32>},
};

}  // namespace

std::span<const Operation> cross_lane_operations() {
  return kOperations;
}

}  // namespace tilesmith::amdgpu
