// Scalar arithmetic and masks: SOP1, SOP2, SOPC, SOPK. "SALU instructions" of the ISA documents (CDNA 3 12.1 to 12.4,
// RDNA 3 and RDNA 4 16.1 to 16.4).
#include <algorithm>
#include <bit>
#include <cmath>

#include "amd/lanes.hpp"
#include "amd/operations.hpp"

namespace tilesmith::amdgpu {
namespace {

template <class T>
T read(const Wave& wave, const Operand& operand) {
  if constexpr (sizeof(T) == 8) {
    if (operand.kind == Operand::Kind::constant) return std::bit_cast<T>(operand.constant);
    if (operand.kind == Operand::Kind::scalar) return std::bit_cast<T>(wave.scalar_pair(operand.index));
  } else {
    if (operand.kind == Operand::Kind::constant) return std::bit_cast<T>(static_cast<u32>(operand.constant));
    if (operand.kind == Operand::Kind::scalar)
      return std::bit_cast<T>(operand.index == kNull ? 0u : wave.scalar(operand.index));
  }
  fault("an operand is no scalar");
}

template <class T>
void write(Wave& wave, const Operand& operand, T value) {
  if constexpr (sizeof(T) == 8)
    wave.set_scalar_pair(operand.index, std::bit_cast<u64>(value));
  else
    wave.set_scalar(operand.index, std::bit_cast<u32>(value));
}

struct Scc {
  bool& bit;
};

/// Operand 0 = kFunction(scc, operand 1, ...); the function sets SCC itself.
template <auto kFunction>
void scalar(Wave& wave, const Instruction& in) {
  using Arguments = typename SignatureOf<decltype(kFunction)>::Arguments;
  constexpr int kCount = SignatureOf<decltype(kFunction)>::kCount - 1;
  const auto argument = [&]<int kAt>() { return read<std::tuple_element_t<kAt, Arguments>>(wave, in.at(kAt)); };
  if constexpr (kCount == 1)
    write(wave, in.at(0), kFunction(Scc{wave.scc}, argument.template operator()<1>()));
  else
    write(wave, in.at(0),
          kFunction(Scc{wave.scc}, argument.template operator()<1>(), argument.template operator()<2>()));
}
template <class F>
constexpr Handler scalar(F) {
  return scalar<F{}>;
}
/// Likewise, and SCC says whether the result is not 0.
template <auto kFunction>
void logical(Wave& wave, const Instruction& in) {
  using Signature = SignatureOf<decltype(kFunction)>;
  using T = typename Signature::Result;
  const auto a = read<T>(wave, in.at(1));
  T result;
  if constexpr (Signature::kCount == 1)
    result = kFunction(a);
  else
    result = kFunction(a, read<std::tuple_element_t<1, typename Signature::Arguments>>(wave, in.at(2)));
  write(wave, in.at(0), result);
  wave.scc = result != 0;
}
template <class F>
constexpr Handler logical(F) {
  return logical<F{}>;
}
/// SCC = kFunction(operand 0, operand 1).
template <auto kFunction>
void compare(Wave& wave, const Instruction& in) {
  using Arguments = typename SignatureOf<decltype(kFunction)>::Arguments;
  wave.scc = kFunction(read<std::tuple_element_t<0, Arguments>>(wave, in.at(0)),
                       read<std::tuple_element_t<1, Arguments>>(wave, in.at(1)));
}

template <class F>
constexpr Handler compare(F) {
  return compare<F{}>;
}

/// The 16 bits of a SOPK instruction, sign-extended.
i32 immediate(const Instruction& in) {
  return static_cast<i16>(in.at(1).constant);
}
template <auto kFunction>
void compare_immediate(Wave& wave, const Instruction& in) {
  using T = std::tuple_element_t<0, typename SignatureOf<decltype(kFunction)>::Arguments>;
  const T value = std::is_signed_v<T> ? static_cast<T>(immediate(in)) : static_cast<T>(static_cast<u16>(immediate(in)));
  wave.scc = kFunction(read<T>(wave, in.at(0)), value);
}

template <class F>
constexpr Handler compare_immediate(F) {
  return compare_immediate<F{}>;
}

/// Operand 0 = EXEC; EXEC = kFunction(operand 1, EXEC); SCC: EXEC is not 0.
template <auto kFunction>
void save_exec(Wave& wave, const Instruction& in) {
  const u64 exec = wave.exec();
  const u64 source = in.at(1).kind == Operand::Kind::constant ? in.at(1).constant : wave.mask(in.at(1).index);
  const u64 result = kFunction(source, exec) & wave.all_lanes();
  wave.set_mask(in.at(0).index, exec);
  wave.set_mask(kExec, result);
  wave.scc = result != 0;
}

template <class F>
constexpr Handler save_exec(F) {
  return save_exec<F{}>;
}

/// The bit of operand 0 that operand 1 numbers becomes kBit.
template <bool kBit>
void set_bit(Wave& wave, const Instruction& in) {
  const u32 bit = u32{1} << (read<u32>(wave, in.at(1)) & 31), old = read<u32>(wave, in.at(0));
  write(wave, in.at(0), kBit ? old | bit : old & ~bit);
}

/// Operand 0 = operand 1 * operand 2 + operand 3 or, where there is none, operand 0; rounded once.
void fused(Wave& wave, const Instruction& in) {
  const float term = read<float>(wave, in.at(in.count > 3 ? 3 : 0));
  write(wave, in.at(0), std::fma(read<float>(wave, in.at(1)), read<float>(wave, in.at(2)), term));
}

template <class T>
void select(Wave& wave, const Instruction& in) {
  write<T>(wave, in.at(0), read<T>(wave, in.at(wave.scc ? 1 : 2)));
}
template <class T>
void move(Wave& wave, const Instruction& in) {
  write<T>(wave, in.at(0), read<T>(wave, in.at(1)));
}
template <class T>
void move_if(Wave& wave, const Instruction& in) {
  if (wave.scc) move<T>(wave, in);
}
void move_immediate(Wave& wave, const Instruction& in) {
  write<i32>(wave, in.at(0), immediate(in));
}
void add_immediate(Wave& wave, const Instruction& in) {
  i32 sum;
  wave.scc = __builtin_add_overflow(read<i32>(wave, in.at(0)), immediate(in), &sum);
  write(wave, in.at(0), sum);
}
void multiply_immediate(Wave& wave, const Instruction& in) {
  write<u32>(wave, in.at(0), read<u32>(wave, in.at(0)) * static_cast<u32>(immediate(in)));
}

i32 add(Scc scc, i32 a, i32 b) {
  i32 sum;
  scc.bit = __builtin_add_overflow(a, b, &sum);
  return sum;
}
i32 subtract(Scc scc, i32 a, i32 b) {
  i32 difference;
  scc.bit = __builtin_sub_overflow(a, b, &difference);
  return difference;
}
u32 add_unsigned(Scc scc, u32 a, u32 b) {
  u32 sum;
  scc.bit = __builtin_add_overflow(a, b, &sum);
  return sum;
}
u32 subtract_unsigned(Scc scc, u32 a, u32 b) {
  u32 difference;
  scc.bit = __builtin_sub_overflow(a, b, &difference);
  return difference;
}
/// Bits of a field: its first bit in the lowest bits of `field`, its width in bits 22:16.
template <class T>
T field_of(T value, u32 field) {
  constexpr int kBits = 8 * sizeof(T);
  const int first = static_cast<int>(field & (kBits - 1)), width = static_cast<int>(field >> 16 & 127);
  if (width == 0) return 0;
  const T shifted = static_cast<T>(value >> first);
  if (width >= kBits) return shifted;
  const int unused = kBits - width;
  using U = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<T>(static_cast<U>(shifted) << unused) >> unused);
}

constexpr Operation kOperations[] = {
    {"s_mov_b32", move<u32>},
    {"s_mov_b64", move<u64>},
    {"s_cmov_b32", move_if<u32>},
    {"s_cmov_b64", move_if<u64>},
    {"s_movk_i32", move_immediate},
    {"s_addk_i32", add_immediate},
    {"s_addk_co_i32", add_immediate},
    {"s_mulk_i32", multiply_immediate},
    {"s_cselect_b32", select<u32>},
    {"s_cselect_b64", select<u64>},
    {"s_add_i32", scalar([](Scc s, i32 a, i32 b) { return add(s, a, b); })},
    {"s_add_co_i32", scalar([](Scc s, i32 a, i32 b) { return add(s, a, b); })},
    {"s_sub_i32", scalar([](Scc s, i32 a, i32 b) { return subtract(s, a, b); })},
    {"s_sub_co_i32", scalar([](Scc s, i32 a, i32 b) { return subtract(s, a, b); })},
    {"s_add_u32", scalar([](Scc s, u32 a, u32 b) { return add_unsigned(s, a, b); })},
    {"s_add_co_u32", scalar([](Scc s, u32 a, u32 b) { return add_unsigned(s, a, b); })},
    {"s_sub_u32", scalar([](Scc s, u32 a, u32 b) { return subtract_unsigned(s, a, b); })},
    {"s_sub_co_u32", scalar([](Scc s, u32 a, u32 b) { return subtract_unsigned(s, a, b); })},
    {"s_addc_u32", scalar([](Scc s, u32 a, u32 b) {
       const u64 sum = u64{a} + b + s.bit;
       s.bit = sum >> 32 != 0;
       return static_cast<u32>(sum);
     })},
    {"s_add_co_ci_u32", scalar([](Scc s, u32 a, u32 b) {
       const u64 sum = u64{a} + b + s.bit;
       s.bit = sum >> 32 != 0;
       return static_cast<u32>(sum);
     })},
    {"s_subb_u32", scalar([](Scc s, u32 a, u32 b) {
       const u64 taken = u64{b} + s.bit;
       s.bit = taken > a;
       return static_cast<u32>(a - taken);
     })},
    {"s_sub_co_ci_u32", scalar([](Scc s, u32 a, u32 b) {
       const u64 taken = u64{b} + s.bit;
       s.bit = taken > a;
       return static_cast<u32>(a - taken);
     })},
    {"s_add_nc_u64", scalar([](Scc, u64 a, u64 b) { return a + b; })},
    {"s_sub_nc_u64", scalar([](Scc, u64 a, u64 b) { return a - b; })},
    {"s_mul_i32", scalar([](Scc, u32 a, u32 b) { return a * b; })},
    {"s_mul_u64", scalar([](Scc, u64 a, u64 b) { return a * b; })},
    {"s_mul_hi_u32", scalar([](Scc, u32 a, u32 b) { return static_cast<u32>(u64{a} * b >> 32); })},
    {"s_mul_hi_i32", scalar([](Scc, i32 a, i32 b) { return static_cast<i32>(i64{a} * b >> 32); })},
    {"s_abs_i32", logical([](i32 a) { return a < 0 ? static_cast<i32>(-static_cast<u32>(a)) : a; })},
    {"s_absdiff_i32", logical([](i32 a, i32 b) {
       const auto d = static_cast<i32>(static_cast<u32>(a) - static_cast<u32>(b));
       return d < 0 ? static_cast<i32>(-static_cast<u32>(d)) : d;
     })},
    // SCC: the first operand was taken.
    {"s_min_i32", scalar([](Scc s, i32 a, i32 b) { return (s.bit = a < b) ? a : b; })},
    {"s_max_i32", scalar([](Scc s, i32 a, i32 b) { return (s.bit = a >= b) ? a : b; })},
    {"s_min_u32", scalar([](Scc s, u32 a, u32 b) { return (s.bit = a < b) ? a : b; })},
    {"s_max_u32", scalar([](Scc s, u32 a, u32 b) { return (s.bit = a >= b) ? a : b; })},
    {"s_and_b32", logical([](u32 a, u32 b) { return a & b; })},
    {"s_and_b64", logical([](u64 a, u64 b) { return a & b; })},
    {"s_or_b32", logical([](u32 a, u32 b) { return a | b; })},
    {"s_or_b64", logical([](u64 a, u64 b) { return a | b; })},
    {"s_xor_b32", logical([](u32 a, u32 b) { return a ^ b; })},
    {"s_xor_b64", logical([](u64 a, u64 b) { return a ^ b; })},
    {"s_not_b32", logical([](u32 a) { return ~a; })},
    {"s_not_b64", logical([](u64 a) { return ~a; })},
    {"s_andn2_b32", logical([](u32 a, u32 b) { return a & ~b; })},
    {"s_andn2_b64", logical([](u64 a, u64 b) { return a & ~b; })},
    {"s_and_not1_b32", logical([](u32 a, u32 b) { return a & ~b; })},
    {"s_and_not1_b64", logical([](u64 a, u64 b) { return a & ~b; })},
    {"s_orn2_b32", logical([](u32 a, u32 b) { return a | ~b; })},
    {"s_orn2_b64", logical([](u64 a, u64 b) { return a | ~b; })},
    {"s_or_not1_b32", logical([](u32 a, u32 b) { return a | ~b; })},
    {"s_or_not1_b64", logical([](u64 a, u64 b) { return a | ~b; })},
    {"s_nand_b32", logical([](u32 a, u32 b) { return ~(a & b); })},
    {"s_nand_b64", logical([](u64 a, u64 b) { return ~(a & b); })},
    {"s_nor_b32", logical([](u32 a, u32 b) { return ~(a | b); })},
    {"s_nor_b64", logical([](u64 a, u64 b) { return ~(a | b); })},
    {"s_xnor_b32", logical([](u32 a, u32 b) { return ~(a ^ b); })},
    {"s_xnor_b64", logical([](u64 a, u64 b) { return ~(a ^ b); })},
    {"s_lshl_b32", logical([](u32 a, u32 b) { return a << (b & 31); })},
    {"s_lshl_b64", logical([](u64 a, u32 b) { return a << (b & 63); })},
    {"s_lshr_b32", logical([](u32 a, u32 b) { return a >> (b & 31); })},
    {"s_lshr_b64", logical([](u64 a, u32 b) { return a >> (b & 63); })},
    {"s_ashr_i32", logical([](i32 a, u32 b) { return a >> (b & 31); })},
    {"s_ashr_i64", logical([](i64 a, u32 b) { return a >> (b & 63); })},
    {"s_lshl1_add_u32", scalar([](Scc s, u32 a, u32 b) { return add_unsigned(s, a << 1, b); })},
    {"s_lshl2_add_u32", scalar([](Scc s, u32 a, u32 b) { return add_unsigned(s, a << 2, b); })},
    {"s_lshl3_add_u32", scalar([](Scc s, u32 a, u32 b) { return add_unsigned(s, a << 3, b); })},
    {"s_lshl4_add_u32", scalar([](Scc s, u32 a, u32 b) { return add_unsigned(s, a << 4, b); })},
    {"s_bfe_u32", logical<field_of<u32>>},
    {"s_bfe_i32", logical<field_of<i32>>},
    {"s_bfe_u64", logical<field_of<u64>>},
    {"s_bfe_i64", logical<field_of<i64>>},
    {"s_bfm_b32", scalar([](Scc, u32 a, u32 b) { return ((1u << (a & 31)) - 1) << (b & 31); })},
    {"s_bfm_b64", scalar([](Scc, u32 a, u32 b) { return ((u64{1} << (a & 63)) - 1) << (b & 63); })},
    {"s_bcnt1_i32_b32", logical([](u32 a) { return static_cast<u32>(std::popcount(a)); })},
    {"s_brev_b32", scalar([](Scc, u32 a) {
       u32 r = 0;
       for (int i = 0; i < 32; ++i) r |= (a >> i & 1) << (31 - i);
       return r;
     })},
    {"s_ff1_i32_b32", scalar([](Scc, u32 a) { return a == 0 ? -1 : std::countr_zero(a); })},
    {"s_ff1_i32_b64", scalar([](Scc, u64 a) { return a == 0 ? -1 : std::countr_zero(a); })},
    {"s_ctz_i32_b32", scalar([](Scc, u32 a) { return a == 0 ? -1 : std::countr_zero(a); })},
    {"s_ctz_i32_b64", scalar([](Scc, u64 a) { return a == 0 ? -1 : std::countr_zero(a); })},
    {"s_flbit_i32_b32", scalar([](Scc, u32 a) { return a == 0 ? -1 : std::countl_zero(a); })},
    {"s_flbit_i32_b64", scalar([](Scc, u64 a) { return a == 0 ? -1 : std::countl_zero(a); })},
    {"s_clz_i32_u32", scalar([](Scc, u32 a) { return a == 0 ? -1 : std::countl_zero(a); })},
    {"s_clz_i32_u64", scalar([](Scc, u64 a) { return a == 0 ? -1 : std::countl_zero(a); })},
    {"s_sext_i32_i8", scalar([](Scc, u32 a) { return static_cast<i32>(static_cast<std::int8_t>(a)); })},
    {"s_sext_i32_i16", scalar([](Scc, u32 a) { return static_cast<i32>(static_cast<i16>(a)); })},
    {"s_pack_ll_b32_b16", scalar([](Scc, u32 a, u32 b) { return (a & 0xffff) | b << 16; })},
    {"s_pack_lh_b32_b16", scalar([](Scc, u32 a, u32 b) { return (a & 0xffff) | (b & 0xffff0000); })},
    {"s_pack_hh_b32_b16", scalar([](Scc, u32 a, u32 b) { return a >> 16 | (b & 0xffff0000); })},
    {"s_pack_hl_b32_b16", scalar([](Scc, u32 a, u32 b) { return a >> 16 | b << 16; })},
    {"s_bitcmp0_b32", compare([](u32 a, u32 b) { return (a >> (b & 31) & 1) == 0; })},
    {"s_bitcmp1_b32", compare([](u32 a, u32 b) { return (a >> (b & 31) & 1) != 0; })},
    {"s_cmp_eq_i32", compare([](i32 a, i32 b) { return a == b; })},
    {"s_cmp_lg_i32", compare([](i32 a, i32 b) { return a != b; })},
    {"s_cmp_gt_i32", compare([](i32 a, i32 b) { return a > b; })},
    {"s_cmp_ge_i32", compare([](i32 a, i32 b) { return a >= b; })},
    {"s_cmp_lt_i32", compare([](i32 a, i32 b) { return a < b; })},
    {"s_cmp_le_i32", compare([](i32 a, i32 b) { return a <= b; })},
    {"s_cmp_eq_u32", compare([](u32 a, u32 b) { return a == b; })},
    {"s_cmp_lg_u32", compare([](u32 a, u32 b) { return a != b; })},
    {"s_cmp_gt_u32", compare([](u32 a, u32 b) { return a > b; })},
    {"s_cmp_ge_u32", compare([](u32 a, u32 b) { return a >= b; })},
    {"s_cmp_lt_u32", compare([](u32 a, u32 b) { return a < b; })},
    {"s_cmp_le_u32", compare([](u32 a, u32 b) { return a <= b; })},
    {"s_cmp_eq_u64", compare([](u64 a, u64 b) { return a == b; })},
    {"s_cmp_lg_u64", compare([](u64 a, u64 b) { return a != b; })},
    {"s_cmpk_eq_i32", compare_immediate([](i32 a, i32 b) { return a == b; })},
    {"s_cmpk_lg_i32", compare_immediate([](i32 a, i32 b) { return a != b; })},
    {"s_cmpk_gt_i32", compare_immediate([](i32 a, i32 b) { return a > b; })},
    {"s_cmpk_ge_i32", compare_immediate([](i32 a, i32 b) { return a >= b; })},
    {"s_cmpk_lt_i32", compare_immediate([](i32 a, i32 b) { return a < b; })},
    {"s_cmpk_le_i32", compare_immediate([](i32 a, i32 b) { return a <= b; })},
    {"s_cmpk_eq_u32", compare_immediate([](u32 a, u32 b) { return a == b; })},
    {"s_cmpk_lg_u32", compare_immediate([](u32 a, u32 b) { return a != b; })},
    {"s_cmpk_gt_u32", compare_immediate([](u32 a, u32 b) { return a > b; })},
    {"s_cmpk_ge_u32", compare_immediate([](u32 a, u32 b) { return a >= b; })},
    {"s_cmpk_lt_u32", compare_immediate([](u32 a, u32 b) { return a < b; })},
    {"s_cmpk_le_u32", compare_immediate([](u32 a, u32 b) { return a <= b; })},
    {"s_and_saveexec_b64", save_exec([](u64 s, u64 exec) { return s & exec; })},
    {"s_and_saveexec_b32", save_exec([](u64 s, u64 exec) { return s & exec; })},
    {"s_or_saveexec_b64", save_exec([](u64 s, u64 exec) { return s | exec; })},
    {"s_or_saveexec_b32", save_exec([](u64 s, u64 exec) { return s | exec; })},
    {"s_xor_saveexec_b64", save_exec([](u64 s, u64 exec) { return s ^ exec; })},
    {"s_xor_saveexec_b32", save_exec([](u64 s, u64 exec) { return s ^ exec; })},
    // N2 and NOT1 negate different operands: the source less EXEC is ANDN2, EXEC less the source is ANDN1 (NOT0).
    {"s_andn2_saveexec_b64", save_exec([](u64 s, u64 exec) { return s & ~exec; })},
    {"s_and_not1_saveexec_b64", save_exec([](u64 s, u64 exec) { return s & ~exec; })},
    {"s_and_not1_saveexec_b32", save_exec([](u64 s, u64 exec) { return s & ~exec; })},
    {"s_andn1_saveexec_b64", save_exec([](u64 s, u64 exec) { return ~s & exec; })},
    {"s_and_not0_saveexec_b64", save_exec([](u64 s, u64 exec) { return ~s & exec; })},
    {"s_and_not0_saveexec_b32", save_exec([](u64 s, u64 exec) { return ~s & exec; })},
    {"s_orn2_saveexec_b64", save_exec([](u64 s, u64 exec) { return s | ~exec; })},
    {"s_or_not1_saveexec_b64", save_exec([](u64 s, u64 exec) { return s | ~exec; })},
    {"s_or_not1_saveexec_b32", save_exec([](u64 s, u64 exec) { return s | ~exec; })},
    {"s_bitset0_b32", set_bit<false>},
    {"s_bitset1_b32", set_bit<true>},
    // Scalar float32 (RDNA 4 ISA, 16.1 and 16.2).
    {"s_add_f32", scalar([](Scc, float a, float b) { return a + b; })},
    {"s_sub_f32", scalar([](Scc, float a, float b) { return a - b; })},
    {"s_mul_f32", scalar([](Scc, float a, float b) { return a * b; })},
    {"s_fmac_f32", fused},
    {"s_fmaak_f32", fused},
    {"s_fmamk_f32", fused},
    {"s_min_num_f32", scalar([](Scc, float a, float b) { return std::fmin(a, b); })},
    {"s_max_num_f32", scalar([](Scc, float a, float b) { return std::fmax(a, b); })},
    {"s_cvt_f32_u32", scalar([](Scc, u32 a) { return static_cast<float>(a); })},
    {"s_cvt_f32_i32", scalar([](Scc, i32 a) { return static_cast<float>(a); })},
    {"s_cvt_u32_f32",
     scalar([](Scc, float a) { return a > 0 ? (a < 0x1p32f ? static_cast<u32>(a) : ~u32{0}) : u32{0}; })},
    {"s_cmp_lt_f32", compare([](float a, float b) { return a < b; })},
    {"s_cmp_le_f32", compare([](float a, float b) { return a <= b; })},
    {"s_cmp_gt_f32", compare([](float a, float b) { return a > b; })},
    {"s_cmp_ge_f32", compare([](float a, float b) { return a >= b; })},
    {"s_cmp_eq_f32", compare([](float a, float b) { return a == b; })},
    {"s_cmp_neq_f32", compare([](float a, float b) { return !(a == b); })},
    {"s_cmp_lg_f32", compare([](float a, float b) { return a < b || a > b; })},
    {"s_cmp_o_f32", compare([](float a, float b) { return a == a && b == b; })},
    {"s_cmp_u_f32", compare([](float a, float b) { return a != a || b != b; })},
    {"s_cmp_nge_f32", compare([](float a, float b) { return !(a >= b); })},
    {"s_cmp_nlg_f32", compare([](float a, float b) { return !(a < b || a > b); })},
    {"s_cmp_ngt_f32", compare([](float a, float b) { return !(a > b); })},
    {"s_cmp_nle_f32", compare([](float a, float b) { return !(a <= b); })},
    {"s_cmp_nlt_f32", compare([](float a, float b) { return !(a < b); })},
};

}  // namespace

std::span<const Operation> scalar_operations() {
  return kOperations;
}

}  // namespace tilesmith::amdgpu
