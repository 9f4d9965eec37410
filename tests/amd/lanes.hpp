// Vector instructions as functions of one lane: sources with their modifiers (neg, abs, SDWA, DPP, op_sel), the
// function, the result with its own (clamp, omod, SDWA, op_sel) into the lanes of EXEC. A function's types say how
// registers are read: u32, i32 and float one, u64, i64 and double two, F16, Bf16, u16 and i16 half of one; a bool is a
// lane's bit of a mask.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "amd/fault.hpp"
#include "amd/float_formats.hpp"
#include "amd/wave.hpp"

namespace tilesmith::amdgpu {

using u16 = std::uint16_t;
using i16 = std::int16_t;
using u32 = std::uint32_t;
using i32 = std::int32_t;
using u64 = std::uint64_t;
using i64 = std::int64_t;

/// One register of an operand, in all lanes, before neg and abs.
class Words {
 public:
  Words(const Wave& wave, const Instruction& in, int position, int word) {
    const Operand& operand = in.at(position);
    const Modifiers& m = in.modifiers;
    switch (operand.kind) {
      case Operand::Kind::vector:
        data_ = &wave.row(operand.index + word);
        break;
      case Operand::Kind::scalar:
        fill(operand.index == kNull ? 0 : wave.scalar(operand.index + word));
        break;
      case Operand::Kind::constant:
        fill(static_cast<u32>(operand.constant >> (32 * word)));
        break;
      default:
        fault("operand {} is missing", position);
    }
    if (m.dpp != nullptr && position == 1) move_lanes(wave, *m.dpp);
    if (m.sdwa && (position == 1 || position == 2)) select(m.select[position - 1], operand.sign_extend);
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  u32 operator[](int lane) const { return (*data_)[static_cast<std::size_t>(lane)]; }

 private:
  void fill(u32 value) {
    buffer_.fill(value);
    data_ = &buffer_;
  }
  void move_lanes(const Wave& wave, const Dpp& dpp);
  void select(Select part, bool sign_extend);

  Row buffer_;
  const Row* data_ = nullptr;
};

template <class T>
inline constexpr bool kIsHalf = sizeof(T) == 2;

/// An operand in all lanes.
template <class T>
class Source {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4);

 public:
  Source(const Wave& wave, const Instruction& in, int position) : words_(wave, in, position, 0) {
    const Operand& operand = in.at(position);
    constexpr u32 kSign = sizeof(T) == 2 ? 0x8000u : 0x80000000u;
    if (operand.absolute) keep_ = ~kSign;
    if (operand.negate) flip_ = kSign;
    const bool selects_high = position > 0 && (in.modifiers.op_sel >> (position - 1) & 1) != 0;
    if (kIsHalf<T> && (operand.high_half || selects_high) && operand.kind != Operand::Kind::constant) shift_ = 16;
  }
  T operator[](int lane) const {
    const u32 word = words_[lane];
    if constexpr (kIsHalf<T>)
      return std::bit_cast<T>(static_cast<u16>(((word >> shift_) & keep_) ^ flip_));
    else
      return std::bit_cast<T>((word & keep_) ^ flip_);
  }

 private:
  Words words_;
  u32 keep_ = ~u32{0}, flip_ = 0;
  int shift_ = 0;
};

template <class T>
requires(sizeof(T) == 8) class Source<T> {
 public:
  Source(const Wave& wave, const Instruction& in, int position)
      : low_(wave, in, position, 0), high_(wave, in, position, 1) {
    if (in.at(position).absolute) keep_ = 0x7fffffffu;
    if (in.at(position).negate) flip_ = 0x80000000u;
  }
  T operator[](int lane) const {
    return std::bit_cast<T>(static_cast<u64>((high_[lane] & keep_) ^ flip_) << 32 | low_[lane]);
  }

 private:
  Words low_, high_;
  u32 keep_ = ~u32{0}, flip_ = 0;
};

/// A lane's bit of a mask.
template <>
class Source<bool> {
 public:
  Source(const Wave& wave, const Instruction& in, int position) {
    const Operand& operand = in.at(position);
    if (operand.kind == Operand::Kind::scalar)
      bits_ = wave.mask(operand.index);
    else if (operand.kind == Operand::Kind::constant)
      bits_ = operand.constant;
    else
      fault("operand {} is no mask", position);
  }
  bool operator[](int lane) const { return (bits_ >> lane & 1) != 0; }

 private:
  u64 bits_ = 0;
};

/// The lanes that a vector instruction writes.
u64 written_lanes(const Wave& wave, const Instruction& in);

// A result's bits, after clamp and omod.
float modified(float value, const Modifiers& modifiers);
inline u32 result_bits(float value) {
  return std::bit_cast<u32>(value);
}
inline u32 result_bits(u32 value) {
  return value;
}
inline u32 result_bits(i32 value) {
  return static_cast<u32>(value);
}
inline u32 result_bits(F16 value) {
  return value.bits;
}
inline u32 result_bits(Bf16 value) {
  return value.bits;
}
/// A whole number that clamp has held within its type's range.
struct Held {
  u32 bits;
};
inline u32 result_bits(Held value) {
  return value.bits;
}
inline u32 result_bits(u16 value) {
  return value;
}
inline u32 result_bits(i16 value) {
  return static_cast<u16>(value);
}

/// `sources`: how many the instruction has, whose op_sel bits come before the result's.
void write_word(Wave& wave, const Instruction& in, int position, Row& values, u64 lanes);
void write_half(Wave& wave, const Instruction& in, int position, Row& values, u64 lanes, int sources);
void write_mask(Wave& wave, const Operand& to, u64 bits, u64 lanes);

/// Writes a result into operand `position`.
template <class T>
void write_result(Wave& wave, const Instruction& in, int position, const std::array<T, kLanes>& values, int sources) {
  const u64 lanes = written_lanes(wave, in);
  const bool modifies = in.modifiers.clamp || in.modifiers.output_scale != 1;
  if constexpr (std::is_same_v<T, bool>) {
    u64 bits = 0;
    for (int lane = 0; lane < kLanes; ++lane) bits |= static_cast<u64>(values[static_cast<std::size_t>(lane)]) << lane;
    write_mask(wave, in.at(position), bits, lanes);
  } else if constexpr (sizeof(T) == 8) {
    if (modifies) fault("clamp and omod of 64-bit results are not emulated");
    Row low, high;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto bits = std::bit_cast<u64>(values[lane]);
      low[lane] = static_cast<u32>(bits);
      high[lane] = static_cast<u32>(bits >> 32);
    }
    wave.write(in.at(position).index, low, lanes);
    wave.write(in.at(position).index + 1, high, lanes);
  } else {
    Row words;
    for (std::size_t lane = 0; lane < kLanes; ++lane) words[lane] = result_bits(values[lane]);
    if (modifies) {
      if constexpr (std::is_same_v<T, float>) {
        for (std::size_t lane = 0; lane < kLanes; ++lane)
          words[lane] = result_bits(modified(values[lane], in.modifiers));
      } else if constexpr (std::is_same_v<T, F16>) {
        for (std::size_t lane = 0; lane < kLanes; ++lane)
          words[lane] = to_f16(modified(value_of(values[lane]), in.modifiers)).bits;
      } else if constexpr (!std::is_same_v<T, Held>) {
        fault("clamp of integer results is not emulated");
      }
    }
    if constexpr (kIsHalf<T>)
      write_half(wave, in, position, words, lanes, sources);
    else
      write_word(wave, in, position, words, lanes);
  }
}

template <class F>
struct SignatureOf : SignatureOf<decltype(&F::operator())> {};
template <class R, class... A>
struct SignatureOf<R (*)(A...)> {
  using Result = R;
  using Arguments = std::tuple<A...>;
  static constexpr int kCount = sizeof...(A);
};
template <class C, class R, class... A>
struct SignatureOf<R (C::*)(A...) const> : SignatureOf<R (*)(A...)> {};

/// Operand 0 = kFunction(operand 1, ...). With kAccumulates the last argument is operand 0 as it was.
template <auto kFunction, bool kAccumulates = false>
void each_lane(Wave& wave, const Instruction& in) {
  using Signature = SignatureOf<decltype(kFunction)>;
  using Arguments = typename Signature::Arguments;
  constexpr int kCount = Signature::kCount, kSources = kCount - (kAccumulates ? 1 : 0);
  constexpr auto kPosition = [](int argument) { return kAccumulates && argument == kCount ? 0 : argument; };
  std::array<typename Signature::Result, kLanes> results;
  const Source<std::tuple_element_t<0, Arguments>> a(wave, in, kPosition(1));
  if constexpr (kCount == 1) {
    for (int lane = 0; lane < kLanes; ++lane) results[static_cast<std::size_t>(lane)] = kFunction(a[lane]);
  } else {
    const Source<std::tuple_element_t<1, Arguments>> b(wave, in, kPosition(2));
    if constexpr (kCount == 2) {
      for (int lane = 0; lane < kLanes; ++lane) results[static_cast<std::size_t>(lane)] = kFunction(a[lane], b[lane]);
    } else {
      static_assert(kCount == 3);
      const Source<std::tuple_element_t<2, Arguments>> c(wave, in, kPosition(3));
      for (int lane = 0; lane < kLanes; ++lane)
        results[static_cast<std::size_t>(lane)] = kFunction(a[lane], b[lane], c[lane]);
    }
  }
  write_result<typename Signature::Result>(wave, in, 0, results, kSources);
}

/// Likewise, of a function object.
template <class F>
constexpr Handler each_lane(F) {
  return each_lane<F{}>;
}

/// A function of two float64 as one of two fp16, rounded.
template <auto kFunction>
constexpr auto kHalves =
    [](F16 a, F16 b) { return to_f16(kFunction(static_cast<double>(value_of(a)), static_cast<double>(value_of(b)))); };
inline double sum(double a, double b) {
  return a + b;
}
inline double product(double a, double b) {
  return a * b;
}

}  // namespace tilesmith::amdgpu
