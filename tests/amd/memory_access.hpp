// What memory instructions share: how a lane's value lies in memory and in its registers.
#pragma once

#include <array>
#include <cstring>

#include "amd/lanes.hpp"

namespace tilesmith::amdgpu {

enum class Form : std::uint8_t {
  byte,
  signed_byte,
  half,
  signed_half,
  low_half,   ///< 16 bits, the register's other half stays (D16)
  high_half,  ///< D16_HI
  low_byte,   ///< a byte into 16 bits (D16)
  low_signed_byte,
  high_byte,
  high_signed_byte,
  one,  ///< registers
  two,
  three,
  four,
};

constexpr int words_of(Form form) {
  return form < Form::two ? 1 : static_cast<int>(form) - static_cast<int>(Form::one) + 1;
}
constexpr std::size_t bytes_of(Form form) {
  switch (form) {
    case Form::byte:
    case Form::signed_byte:
    case Form::low_byte:
    case Form::low_signed_byte:
    case Form::high_byte:
    case Form::high_signed_byte:
      return 1;
    case Form::half:
    case Form::signed_half:
    case Form::low_half:
    case Form::high_half:
      return 2;
    default:
      return 4 * static_cast<std::size_t>(words_of(form));
  }
}
/// Only a half of the register changes.
constexpr bool is_high(Form form) {
  return form == Form::high_half || form == Form::high_byte || form == Form::high_signed_byte;
}
constexpr bool is_low(Form form) {
  return form == Form::low_half || form == Form::low_byte || form == Form::low_signed_byte;
}

/// The first register of a lane's value, from the bytes of memory and what it held.
constexpr u32 loaded_word(Form form, u32 memory, u32 old) {
  switch (form) {
    case Form::byte:
      return memory & 0xff;
    case Form::signed_byte:
      return static_cast<u32>(i32{static_cast<std::int8_t>(memory)});
    case Form::half:
      return memory & 0xffff;
    case Form::signed_half:
      return static_cast<u32>(i32{static_cast<i16>(memory)});
    case Form::low_byte:
      memory &= 0xff;
      break;
    case Form::high_byte:
      memory &= 0xff;
      break;
    case Form::low_signed_byte:
    case Form::high_signed_byte:
      memory = static_cast<u32>(i32{static_cast<std::int8_t>(memory)});
      break;
    case Form::low_half:
    case Form::high_half:
      break;
    default:
      return memory;
  }
  return is_high(form) ? (old & 0xffff) | memory << 16 : (old & 0xffff0000) | (memory & 0xffff);
}

/// Nobody may count on what a register holds while a load into it is on its way.
template <Form kForm>
void poison_destination(Wave& wave, int index, u64 lanes) {
  for (int word = 0; word < words_of(kForm); ++word) {
    Row poison;
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      poison[lane] = is_high(kForm) || is_low(kForm) ? loaded_word(is_high(kForm) ? Form::high_half : Form::low_half,
                                                                   kPoison, wave.row(index)[lane])
                                                     : kPoison;
    wave.write(index + word, poison, lanes);
  }
}

/// The registers of a store's data, as they are when it is issued; kForm: which half of the first it stores.
template <Form kForm>
void keep_data(const Wave& wave, const Operand& data, Transfer& transfer) {
  for (int word = 0; word < words_of(kForm); ++word) {
    Row& row = transfer.data.emplace_back(wave.row(data.index + word));
    if (is_high(kForm) || data.high_half)
      for (u32& each : row) each >>= 16;
  }
}

template <class Each>
void for_lanes(u64 lanes, const Each& each) {
  for (; lanes != 0; lanes &= lanes - 1) each(std::countr_zero(lanes));
}

}  // namespace tilesmith::amdgpu
