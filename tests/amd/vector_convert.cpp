// Conversions between types: rounded to nearest even, to integers towards zero, what does not fit becomes the nearest
// integer that does, NaN 0 (CDNA 3 ISA 12.7 and 12.10, "V_CVT"; CDNA 4 ISA for the packed ones of bf16).
#include <cmath>
#include <limits>

#include "amd/lanes.hpp"
#include "amd/operations.hpp"

namespace tilesmith::amdgpu {
namespace {

template <class Integer>
Integer to_integer(double x) {
  using Limits = std::numeric_limits<Integer>;
  if (!(x > static_cast<double>(Limits::min()))) return x != x ? Integer{0} : Limits::min();
  if (x >= static_cast<double>(Limits::max())) return Limits::max();
  return static_cast<Integer>(x);
}
template <int kByte>
float byte_to_float(u32 a) {
  return static_cast<float>(a >> (8 * kByte) & 0xff);
}

u32 pair(u32 low, u32 high) {
  return (low & 0xffff) | high << 16;
}
/// Of a float in [-1, 1] or [0, 1], in units of the largest integer (V_CVT_PKNORM).
float clamped(float x, float least, float most) {
  return x != x ? 0.0f : x < least ? least : x > most ? most : x;
}

const FloatFormat& fp8(const Wave& wave) {
  return wave.chip.fnuz ? kE4m3Fnuz : kE4m3;
}
const FloatFormat& bf8(const Wave& wave) {
  return wave.chip.fnuz ? kE5m2Fnuz : kE5m2;
}
using FormatOf = const FloatFormat& (*)(const Wave&);

/// Two float32 to 8 bits each, into the half of the destination that op_sel names; the other half stays. Overflow is
/// saturated under MODE.FP16_OVFL alone, which kernels here leave at 0.
template <FormatOf kFormat>
void pack_8_bits(Wave& wave, const Instruction& in) {
  const Source<float> a(wave, in, 1), b(wave, in, 2);
  const FloatFormat& format = kFormat(wave);
  const Operand& to = in.at(0);
  const bool high = to.high_half || (in.modifiers.op_sel >> 2 & 1) != 0 || (in.modifiers.op_sel >> 3 & 1) != 0;
  const Row& old = wave.row(to.index);
  Row results;
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto at = static_cast<std::size_t>(lane);
    if ((wave.exec() >> lane & 1) == 0) {
      results[at] = 0;
      continue;
    }
    const u32 both = format.round(a[lane]) | format.round(b[lane]) << 8;
    results[at] = high ? (old[at] & 0xffff) | both << 16 : (old[at] & 0xffff0000) | both;
  }
  wave.write(to.index, results, written_lanes(wave, in));
}
/// The byte of the source that SDWA or op_sel names.
template <FormatOf kFormat>
void unpack_8_bits(Wave& wave, const Instruction& in) {
  const Words words(wave, in, 1, 0);
  const FloatFormat& format = kFormat(wave);
  const int byte = (in.modifiers.op_sel & 1) * 2 + (in.modifiers.op_sel >> 1 & 1);
  std::array<float, kLanes> results;
  for (int lane = 0; lane < kLanes; ++lane)
    results[static_cast<std::size_t>(lane)] = static_cast<float>(format.value(words[lane] >> (8 * byte) & 0xff));
  write_result<float>(wave, in, 0, results, 1);
}
/// Two bytes of the source, of its upper half by op_sel or SDWA, into two registers.
template <FormatOf kFormat>
void unpack_two_8_bits(Wave& wave, const Instruction& in) {
  const Source<u16> halves(wave, in, 1);
  const FloatFormat& format = kFormat(wave);
  Row low, high;
  for (int lane = 0; lane < kLanes; ++lane) {
    const u32 both = halves[lane];
    low[static_cast<std::size_t>(lane)] = std::bit_cast<u32>(static_cast<float>(format.value(both & 0xff)));
    high[static_cast<std::size_t>(lane)] = std::bit_cast<u32>(static_cast<float>(format.value(both >> 8)));
  }
  wave.write(in.at(0).index, low, written_lanes(wave, in));
  wave.write(in.at(0).index + 1, high, written_lanes(wave, in));
}

constexpr Operation kOperations[] = {
    {"v_cvt_f32_i32", each_lane([](i32 a) { return static_cast<float>(a); })},
    {"v_cvt_f32_u32", each_lane([](u32 a) { return static_cast<float>(a); })},
    {"v_cvt_i32_f32", each_lane([](float a) { return to_integer<i32>(a); })},
    {"v_cvt_u32_f32", each_lane([](float a) { return to_integer<u32>(a); })},
    {"v_cvt_rpi_i32_f32", each_lane([](float a) { return to_integer<i32>(std::floor(double{a} + 0.5)); })},
    {"v_cvt_flr_i32_f32", each_lane([](float a) { return to_integer<i32>(std::floor(double{a})); })},
    {"v_cvt_nearest_i32_f32", each_lane([](float a) { return to_integer<i32>(std::floor(double{a} + 0.5)); })},
    {"v_cvt_floor_i32_f32", each_lane([](float a) { return to_integer<i32>(std::floor(double{a})); })},
    {"v_cvt_f64_f32", each_lane([](float a) { return static_cast<double>(a); })},
    {"v_cvt_f32_f64", each_lane([](double a) { return static_cast<float>(a); })},
    {"v_cvt_f64_i32", each_lane([](i32 a) { return static_cast<double>(a); })},
    {"v_cvt_f64_u32", each_lane([](u32 a) { return static_cast<double>(a); })},
    {"v_cvt_i32_f64", each_lane([](double a) { return to_integer<i32>(a); })},
    {"v_cvt_u32_f64", each_lane([](double a) { return to_integer<u32>(a); })},
    {"v_cvt_f16_f32", each_lane([](float a) { return to_f16(a); })},
    {"v_cvt_f32_f16", each_lane([](F16 a) { return value_of(a); })},
    {"v_cvt_f32_bf16", each_lane([](Bf16 a) { return value_of(a); })},
    {"v_cvt_f16_u16", each_lane([](u16 a) { return to_f16(a); })},
    {"v_cvt_f16_i16", each_lane([](i16 a) { return to_f16(a); })},
    {"v_cvt_u16_f16", each_lane([](F16 a) { return to_integer<u16>(value_of(a)); })},
    {"v_cvt_i16_f16", each_lane([](F16 a) { return to_integer<i16>(value_of(a)); })},
    {"v_cvt_f32_ubyte0", each_lane<byte_to_float<0>>},
    {"v_cvt_f32_ubyte1", each_lane<byte_to_float<1>>},
    {"v_cvt_f32_ubyte2", each_lane<byte_to_float<2>>},
    {"v_cvt_f32_ubyte3", each_lane<byte_to_float<3>>},
    {"v_cvt_i32_i16", each_lane([](i16 a) { return i32{a}; })},
    {"v_cvt_u32_u16", each_lane([](u16 a) { return u32{a}; })},
    {"v_cvt_pkrtz_f16_f32",
     each_lane([](float a, float b) { return pair(to_f16_truncated(a).bits, to_f16_truncated(b).bits); })},
    {"v_cvt_pk_rtz_f16_f32",
     each_lane([](float a, float b) { return pair(to_f16_truncated(a).bits, to_f16_truncated(b).bits); })},
    {"v_cvt_pk_f16_f32", each_lane([](float a, float b) { return pair(to_f16(a).bits, to_f16(b).bits); })},
    {"v_cvt_pk_bf16_f32", each_lane([](float a, float b) { return pair(to_bf16(a).bits, to_bf16(b).bits); })},
    {"v_cvt_pk_u16_u32",
     each_lane([](u32 a, u32 b) { return pair(a > 0xffff ? 0xffff : a, b > 0xffff ? 0xffff : b); })},
    {"v_cvt_pk_i16_i32", each_lane([](i32 a, i32 b) {
       const auto fit = [](i32 x) { return static_cast<u32>(x < -32768 ? -32768 : x > 32767 ? 32767 : x); };
       return pair(fit(a), fit(b));
     })},
    {"v_cvt_pknorm_i16_f32", each_lane([](float a, float b) {
       const auto unit = [](float x) { return static_cast<u32>(std::lrint(clamped(x, -1, 1) * 32767.0f)); };
       return pair(unit(a), unit(b));
     })},
    {"v_pack_b32_f16", each_lane([](F16 a, F16 b) { return pair(a.bits, b.bits); })},
    {"v_cvt_pk_fp8_f32", pack_8_bits<fp8>},
    {"v_cvt_pk_bf8_f32", pack_8_bits<bf8>},
    {"v_cvt_f32_fp8", unpack_8_bits<fp8>},
    {"v_cvt_f32_bf8", unpack_8_bits<bf8>},
    {"v_cvt_pk_f32_fp8", unpack_two_8_bits<fp8>},
    {"v_cvt_pk_f32_bf8", unpack_two_8_bits<bf8>},
};

}  // namespace

std::span<const Operation> conversion_operations() {
  return kOperations;
}

}  // namespace tilesmith::amdgpu
