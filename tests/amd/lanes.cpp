#include "amd/lanes.hpp"

namespace tilesmith::amdgpu {
namespace {

/// The part of a word, in its lowest bits, extended by zeros or its sign.
u32 selected(u32 word, Select part, bool sign_extend) {
  switch (part) {
    case Select::dword:
      return word;
    case Select::word0:
    case Select::word1: {
      const u32 half = word >> (part == Select::word1 ? 16 : 0) & 0xffff;
      return sign_extend ? static_cast<u32>(static_cast<i32>(static_cast<i16>(half))) : half;
    }
    default: {
      const u32 byte = word >> (8 * static_cast<int>(part)) & 0xff;
      return sign_extend ? static_cast<u32>(static_cast<i32>(static_cast<std::int8_t>(byte))) : byte;
    }
  }
}

/// A result into the part of the destination that SDWA selects.
u32 placed(u32 value, u32 old, const Modifiers& m) {
  if (m.dst_select == Select::dword) return value;
  const bool is_word = m.dst_select == Select::word0 || m.dst_select == Select::word1;
  const int bits = is_word ? 16 : 8;
  const int at = is_word ? (m.dst_select == Select::word1 ? 16 : 0) : 8 * static_cast<int>(m.dst_select);
  const u32 field = ((1u << bits) - 1) << at, part = value << at & field;
  switch (m.unused) {
    case Modifiers::Unused::pad:
      return part;
    case Modifiers::Unused::preserve:
      return (old & ~field) | part;
    case Modifiers::Unused::sext: {
      // Zeros below, copies of the sign above.
      const bool negative = (value >> (bits - 1) & 1) != 0;
      const u32 above = at + bits < 32 ? ~u32{0} << (at + bits) : 0;
      return part | (negative ? above : 0);
    }
  }
  return part;
}

}  // namespace

void Words::move_lanes(const Wave& wave, const Dpp& dpp) {
  Row moved;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const int from = dpp.from[lane];
    const bool there = from >= 0 && from < wave.lanes && (dpp.fetch_inactive || (wave.exec() >> from & 1) != 0);
    moved[lane] = there ? (*data_)[static_cast<std::size_t>(from)] : 0;
  }
  buffer_ = moved;
  data_ = &buffer_;
}

void Words::select(Select part, bool sign_extend) {
  Row chosen;
  for (std::size_t lane = 0; lane < kLanes; ++lane) chosen[lane] = selected((*data_)[lane], part, sign_extend);
  buffer_ = chosen;
  data_ = &buffer_;
}

u64 written_lanes(const Wave& wave, const Instruction& in) {
  const Dpp* dpp = in.modifiers.dpp.get();
  if (dpp == nullptr) return wave.exec();
  u64 lanes = wave.exec() & dpp->enabled;
  if (dpp->zero_without) return lanes;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const int from = dpp->from[lane];
    const bool there = from >= 0 && from < wave.lanes && (dpp->fetch_inactive || (wave.exec() >> from & 1) != 0);
    if (!there) lanes &= ~(u64{1} << lane);
  }
  return lanes;
}

float modified(float value, const Modifiers& modifiers) {
  value *= modifiers.output_scale;
  // NaN becomes 0 (DX10_CLAMP).
  if (modifiers.clamp) value = value > 0 ? (value < 1 ? value : 1.0f) : 0.0f;
  return value;
}

void write_word(Wave& wave, const Instruction& in, int position, Row& values, u64 lanes) {
  const int index = in.at(position).index;
  if (in.modifiers.sdwa) {
    const Row& old = wave.row(index);
    for (std::size_t lane = 0; lane < kLanes; ++lane) values[lane] = placed(values[lane], old[lane], in.modifiers);
  }
  wave.write(index, values, lanes);
}

void write_half(Wave& wave, const Instruction& in, int position, Row& values, u64 lanes, int sources) {
  const Operand& operand = in.at(position);
  if (in.modifiers.sdwa) {
    write_word(wave, in, position, values, lanes);
    return;
  }
  const bool high = operand.high_half || (in.modifiers.op_sel >> sources & 1) != 0;
  const bool keeps =
      high || operand.names_half || !wave.chip.clears_high_half || (in.operation->flags & Operation::keeps_high) != 0;
  const Row& old = wave.row(operand.index);
  for (std::size_t lane = 0; lane < kLanes; ++lane)
    values[lane] = high    ? (old[lane] & 0xffff) | values[lane] << 16
                   : keeps ? (old[lane] & 0xffff0000) | values[lane]
                           : values[lane];
  wave.write(operand.index, values, lanes);
}

void write_mask(Wave& wave, const Operand& to, u64 bits, u64 lanes) {
  wave.set_mask(to.index, bits & lanes & wave.all_lanes());
}

}  // namespace tilesmith::amdgpu
