// Vector integers, bits and moves: VOP1, VOP2, VOP3 ("VALU instructions", CDNA 3 ISA 12.7 to 12.10, RDNA 3 and RDNA 4
// ISA 16.7 to 16.11).
#include <algorithm>
#include <bit>
#include <limits>

#include "amd/lanes.hpp"
#include "amd/operations.hpp"

namespace tilesmith::amdgpu {
namespace {

/// Operands: sum, carries out, a, b, carries in (where there are any). The mask of carries has 0 for inactive lanes.
template <auto kFunction>
void with_carry(Wave& wave, const Instruction& in) {
  const Source<u32> a(wave, in, 2), b(wave, in, 3);
  const u64 carries = in.count > 4 ? wave.mask(in.at(4).index) : 0, lanes = written_lanes(wave, in);
  Row results;
  u64 out = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    bool carry = (carries >> lane & 1) != 0;
    results[static_cast<std::size_t>(lane)] = kFunction(a[lane], b[lane], carry);
    out |= static_cast<u64>(carry) << lane;
  }
  write_word(wave, in, 0, results, lanes);
  write_mask(wave, in.at(1), out, lanes);
}
u32 add(u32 a, u32 b, bool& carry) {
  const u64 sum = u64{a} + b + carry;
  carry = sum >> 32 != 0;
  return static_cast<u32>(sum);
}
u32 subtract(u32 a, u32 b, bool& borrow) {
  const u64 taken = u64{b} + borrow;
  borrow = taken > a;
  return static_cast<u32>(a - taken);
}
u32 subtract_reversed(u32 a, u32 b, bool& borrow) {
  return subtract(b, a, borrow);
}

/// Operands: a * b + c of 64 bits, carries out, a, b, c.
template <class T>
void multiply_add_64(Wave& wave, const Instruction& in) {
  const Source<T> a(wave, in, 2), b(wave, in, 3);
  const Source<u64> c(wave, in, 4);
  std::array<u64, kLanes> results;
  u64 carries = 0;
  using Wide = std::conditional_t<std::is_signed_v<T>, i64, u64>;
  for (int lane = 0; lane < kLanes; ++lane) {
    const u64 product = static_cast<u64>(Wide{a[lane]} * Wide{b[lane]});
    u64 sum;
    carries |= static_cast<u64>(__builtin_add_overflow(product, c[lane], &sum)) << lane;
    results[static_cast<std::size_t>(lane)] = sum;
  }
  const u64 lanes = written_lanes(wave, in);
  write_result<u64>(wave, in, 0, results, 3);
  write_mask(wave, in.at(1), carries, lanes);
}

/// Operands: result, the values where the bit is 0 and 1, the mask (VCC where none is named).
template <class T>
void select(Wave& wave, const Instruction& in) {
  const Source<T> zero(wave, in, 1), one(wave, in, 2);
  const u64 mask = wave.mask(in.count > 3 ? in.at(3).index : static_cast<int>(kVcc));
  std::array<T, kLanes> results;
  for (int lane = 0; lane < kLanes; ++lane)
    results[static_cast<std::size_t>(lane)] = (mask >> lane & 1) != 0 ? one[lane] : zero[lane];
  write_result<T>(wave, in, 0, results, 2);
}

/// Any function of three bits: bit i of the table is its value for a = i >> 2, b = i >> 1 & 1, c = i & 1 (CDNA 4 ISA,
/// V_BITOP3_B32).
template <class T>
void bit_operation(Wave& wave, const Instruction& in) {
  const Source<T> a(wave, in, 1), b(wave, in, 2), c(wave, in, 3);
  const int table = in.modifiers.bitop3;
  std::array<T, kLanes> results;
  for (int lane = 0; lane < kLanes; ++lane) {
    u32 value = 0;
    const u32 x = a[lane], y = b[lane], z = c[lane];
    for (int i = 0; i < 8; ++i)
      if ((table >> i & 1) != 0) value |= ((i & 4) != 0 ? x : ~x) & ((i & 2) != 0 ? y : ~y) & ((i & 1) != 0 ? z : ~z);
    results[static_cast<std::size_t>(lane)] = static_cast<T>(value);
  }
  write_result<T>(wave, in, 0, results, 3);
}

/// Bytes of the pair of words {a, b}, b lowest; selectors from 8 on are signs and constants.
u32 permute_bytes(u32 a, u32 b, u32 selectors) {
  const u64 bytes = static_cast<u64>(a) << 32 | b;
  u32 result = 0;
  for (int i = 0; i < 4; ++i) {
    const u32 selector = selectors >> (8 * i) & 0xff;
    u32 byte;
    if (selector < 8)
      byte = static_cast<u32>(bytes >> (8 * selector)) & 0xff;
    else if (selector < 12)
      byte = (bytes >> (16 * (selector - 8) + 15) & 1) != 0 ? 0xff : 0;
    else
      byte = selector == 12 ? 0 : 0xff;
    result |= byte << (8 * i);
  }
  return result;
}

u32 reversed(u32 a) {
  u32 result = 0;
  for (int i = 0; i < 32; ++i) result |= (a >> i & 1) << (31 - i);
  return result;
}

u32 extract_unsigned(u32 a, u32 first, u32 width) {
  const u32 shifted = a >> (first & 31);
  return (width & 31) == 0 ? 0 : shifted & ((1u << (width & 31)) - 1);
}
i32 extract_signed(i32 a, u32 first, u32 width) {
  const int bits = static_cast<int>(width & 31);
  if (bits == 0) return 0;
  return static_cast<i32>(static_cast<u32>(a >> (first & 31)) << (32 - bits)) >> (32 - bits);
}

/// Both halves of a word of each lane change places with those of another (V_SWAP_B32).
void swap(Wave& wave, const Instruction& in) {
  const Row first = wave.row(in.at(0).index), second = wave.row(in.at(1).index);
  wave.write(in.at(0).index, second, wave.exec());
  wave.write(in.at(1).index, first, wave.exec());
}

template <class T>
T median(T a, T b, T c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

/// A sum or difference of two T: modulo 2^32, or with clamp the nearest T (e.g. CDNA 3 ISA, VOP3A field CLMP).
template <class T, auto kExact>
void sum_of(Wave& wave, const Instruction& in) {
  using Limits = std::numeric_limits<T>;
  if (!in.modifiers.clamp) return each_lane<[](T a, T b) { return static_cast<u32>(kExact(a, b)); }>(wave, in);
  each_lane<[](T a, T b) {
    return Held{static_cast<u32>(std::clamp<i64>(kExact(a, b), Limits::min(), Limits::max()))};
  }>(wave, in);
}
constexpr auto kPlus = [](i64 a, i64 b) { return a + b; };
constexpr auto kMinus = [](i64 a, i64 b) { return a - b; };
constexpr auto kMinusReversed = [](i64 a, i64 b) { return b - a; };

constexpr Operation kOperations[] = {
    {"v_nop", [](Wave&, const Instruction&) {}},
    {"v_mov_b32", each_lane([](u32 a) { return a; })},
    {"v_mov_b64", each_lane([](u64 a) { return a; })},
    {"v_mov_b16", each_lane([](u16 a) { return a; })},
    {"v_accvgpr_read_b32", each_lane([](u32 a) { return a; })},
    {"v_accvgpr_write_b32", each_lane([](u32 a) { return a; })},
    {"v_accvgpr_mov_b32", each_lane([](u32 a) { return a; })},
    {"v_swap_b32", swap},
    {"v_cndmask_b32", select<u32>},
    {"v_cndmask_b16", select<u16>},
    // Products, and sums without clamp, are modulo 2^32.
    {"v_add_u32", sum_of<u32, kPlus>},
    {"v_add_nc_u32", sum_of<u32, kPlus>},
    {"v_sub_u32", sum_of<u32, kMinus>},
    {"v_sub_nc_u32", sum_of<u32, kMinus>},
    {"v_subrev_u32", sum_of<u32, kMinusReversed>},
    {"v_subrev_nc_u32", sum_of<u32, kMinusReversed>},
    {"v_add_i32", sum_of<i32, kPlus>},
    {"v_add_nc_i32", sum_of<i32, kPlus>},
    {"v_sub_i32", sum_of<i32, kMinus>},
    {"v_sub_nc_i32", sum_of<i32, kMinus>},
    {"v_add3_u32", each_lane([](u32 a, u32 b, u32 c) { return a + b + c; })},
    {"v_lshl_add_u32", each_lane([](u32 a, u32 b, u32 c) { return (a << (b & 31)) + c; })},
    {"v_add_lshl_u32", each_lane([](u32 a, u32 b, u32 c) { return (a + b) << (c & 31); })},
    {"v_lshl_add_u64", each_lane([](u64 a, u32 b, u64 c) { return (a << (b & 7)) + c; })},
    {"v_xad_u32", each_lane([](u32 a, u32 b, u32 c) { return (a ^ b) + c; })},
    {"v_mul_lo_u32", each_lane([](u32 a, u32 b) { return a * b; })},
    {"v_mul_hi_u32", each_lane([](u32 a, u32 b) { return static_cast<u32>(u64{a} * b >> 32); })},
    {"v_mul_hi_i32", each_lane([](i32 a, i32 b) { return static_cast<i32>(i64{a} * b >> 32); })},
    {"v_mul_u32_u24", each_lane([](u32 a, u32 b) { return (a & 0xffffff) * (b & 0xffffff); })},
    {"v_mul_i32_i24", each_lane([](u32 a, u32 b) {
       const i64 product = i64{static_cast<i32>(a << 8) >> 8} * (static_cast<i32>(b << 8) >> 8);
       return static_cast<u32>(product);
     })},
    {"v_mad_u32_u24", each_lane([](u32 a, u32 b, u32 c) { return (a & 0xffffff) * (b & 0xffffff) + c; })},
    {"v_mad_i32_i24", each_lane([](u32 a, u32 b, u32 c) {
       return static_cast<u32>(i64{static_cast<i32>(a << 8) >> 8} * (static_cast<i32>(b << 8) >> 8)) + c;
     })},
    {"v_mad_u64_u32", multiply_add_64<u32>},
    {"v_mad_co_u64_u32", multiply_add_64<u32>},
    {"v_mad_i64_i32", multiply_add_64<i32>},
    {"v_mad_co_i64_i32", multiply_add_64<i32>},
    {"v_add_co_u32", with_carry<add>},
    {"v_addc_co_u32", with_carry<add>},
    {"v_add_co_ci_u32", with_carry<add>},
    {"v_sub_co_u32", with_carry<subtract>},
    {"v_subb_co_u32", with_carry<subtract>},
    {"v_sub_co_ci_u32", with_carry<subtract>},
    {"v_subrev_co_u32", with_carry<subtract_reversed>},
    {"v_subbrev_co_u32", with_carry<subtract_reversed>},
    {"v_subrev_co_ci_u32", with_carry<subtract_reversed>},
    {"v_min_u32", each_lane([](u32 a, u32 b) { return std::min(a, b); })},
    {"v_max_u32", each_lane([](u32 a, u32 b) { return std::max(a, b); })},
    {"v_min_i32", each_lane([](i32 a, i32 b) { return std::min(a, b); })},
    {"v_max_i32", each_lane([](i32 a, i32 b) { return std::max(a, b); })},
    {"v_min3_u32", each_lane([](u32 a, u32 b, u32 c) { return std::min(std::min(a, b), c); })},
    {"v_max3_u32", each_lane([](u32 a, u32 b, u32 c) { return std::max(std::max(a, b), c); })},
    {"v_min3_i32", each_lane([](i32 a, i32 b, i32 c) { return std::min(std::min(a, b), c); })},
    {"v_max3_i32", each_lane([](i32 a, i32 b, i32 c) { return std::max(std::max(a, b), c); })},
    {"v_med3_i32", each_lane<median<i32>>},
    {"v_med3_u32", each_lane<median<u32>>},
    {"v_minmax_i32", each_lane([](i32 a, i32 b, i32 c) { return std::max(std::min(a, b), c); })},
    {"v_maxmin_i32", each_lane([](i32 a, i32 b, i32 c) { return std::min(std::max(a, b), c); })},
    {"v_minmax_u32", each_lane([](u32 a, u32 b, u32 c) { return std::max(std::min(a, b), c); })},
    {"v_maxmin_u32", each_lane([](u32 a, u32 b, u32 c) { return std::min(std::max(a, b), c); })},
    // Bits.
    {"v_and_b32", each_lane([](u32 a, u32 b) { return a & b; })},
    {"v_or_b32", each_lane([](u32 a, u32 b) { return a | b; })},
    {"v_xor_b32", each_lane([](u32 a, u32 b) { return a ^ b; })},
    {"v_xnor_b32", each_lane([](u32 a, u32 b) { return ~(a ^ b); })},
    {"v_not_b32", each_lane([](u32 a) { return ~a; })},
    {"v_and_or_b32", each_lane([](u32 a, u32 b, u32 c) { return (a & b) | c; })},
    {"v_or3_b32", each_lane([](u32 a, u32 b, u32 c) { return a | b | c; })},
    {"v_xor3_b32", each_lane([](u32 a, u32 b, u32 c) { return a ^ b ^ c; })},
    {"v_lshl_or_b32", each_lane([](u32 a, u32 b, u32 c) { return (a << (b & 31)) | c; })},
    {"v_bfi_b32", each_lane([](u32 a, u32 b, u32 c) { return (a & b) | (~a & c); })},
    {"v_bfe_u32", each_lane([](u32 a, u32 b, u32 c) { return extract_unsigned(a, b, c); })},
    {"v_bfe_i32", each_lane([](i32 a, u32 b, u32 c) { return extract_signed(a, b, c); })},
    {"v_bfm_b32", each_lane([](u32 a, u32 b) { return ((1u << (a & 31)) - 1) << (b & 31); })},
    {"v_bfrev_b32", each_lane<reversed>},
    {"v_bitop3_b32", bit_operation<u32>},
    {"v_bitop3_b16", bit_operation<u16>},
    {"v_alignbit_b32",
     each_lane([](u32 a, u32 b, u32 c) { return static_cast<u32>((static_cast<u64>(a) << 32 | b) >> (c & 31)); })},
    {"v_alignbyte_b32",
     each_lane([](u32 a, u32 b, u32 c) { return static_cast<u32>((static_cast<u64>(a) << 32 | b) >> (8 * (c & 3))); })},
    {"v_perm_b32", each_lane([](u32 a, u32 b, u32 c) { return permute_bytes(a, b, c); })},
    {"v_bcnt_u32_b32", each_lane([](u32 a, u32 b) { return static_cast<u32>(std::popcount(a)) + b; })},
    {"v_ffbh_u32", each_lane([](u32 a) { return a == 0 ? -1 : std::countl_zero(a); })},
    {"v_clz_i32_u32", each_lane([](u32 a) { return a == 0 ? -1 : std::countl_zero(a); })},
    {"v_ffbl_b32", each_lane([](u32 a) { return a == 0 ? -1 : std::countr_zero(a); })},
    {"v_ctz_i32_b32", each_lane([](u32 a) { return a == 0 ? -1 : std::countr_zero(a); })},
    {"v_lshlrev_b32", each_lane([](u32 a, u32 b) { return b << (a & 31); })},
    {"v_lshrrev_b32", each_lane([](u32 a, u32 b) { return b >> (a & 31); })},
    {"v_ashrrev_i32", each_lane([](u32 a, i32 b) { return b >> (a & 31); })},
    {"v_lshlrev_b64", each_lane([](u32 a, u64 b) { return b << (a & 63); })},
    {"v_lshrrev_b64", each_lane([](u32 a, u64 b) { return b >> (a & 63); })},
    {"v_ashrrev_i64", each_lane([](u32 a, i64 b) { return b >> (a & 63); })},
    // 16 bits.
    {"v_add_u16", each_lane([](u16 a, u16 b) { return static_cast<u16>(a + b); })},
    {"v_add_nc_u16", each_lane([](u16 a, u16 b) { return static_cast<u16>(a + b); })},
    {"v_sub_u16", each_lane([](u16 a, u16 b) { return static_cast<u16>(a - b); })},
    {"v_sub_nc_u16", each_lane([](u16 a, u16 b) { return static_cast<u16>(a - b); })},
    {"v_subrev_u16", each_lane([](u16 a, u16 b) { return static_cast<u16>(b - a); })},
    {"v_add_nc_i16", each_lane([](u16 a, u16 b) { return static_cast<u16>(a + b); })},
    {"v_sub_nc_i16", each_lane([](u16 a, u16 b) { return static_cast<u16>(a - b); })},
    {"v_mul_lo_u16", each_lane([](u16 a, u16 b) { return static_cast<u16>(u32{a} * b); })},
    {"v_mad_u16", each_lane([](u16 a, u16 b, u16 c) { return static_cast<u16>(u32{a} * b + c); }),
     Operation::keeps_high},
    {"v_and_b16", each_lane([](u16 a, u16 b) { return static_cast<u16>(a & b); })},
    {"v_or_b16", each_lane([](u16 a, u16 b) { return static_cast<u16>(a | b); })},
    {"v_xor_b16", each_lane([](u16 a, u16 b) { return static_cast<u16>(a ^ b); })},
    {"v_not_b16", each_lane([](u16 a) { return static_cast<u16>(~a); })},
    {"v_lshlrev_b16", each_lane([](u16 a, u16 b) { return static_cast<u16>(b << (a & 15)); })},
    {"v_lshrrev_b16", each_lane([](u16 a, u16 b) { return static_cast<u16>(b >> (a & 15)); })},
    {"v_ashrrev_i16", each_lane([](u16 a, i16 b) { return static_cast<i16>(b >> (a & 15)); })},
    {"v_min_u16", each_lane([](u16 a, u16 b) { return std::min(a, b); })},
    {"v_max_u16", each_lane([](u16 a, u16 b) { return std::max(a, b); })},
    {"v_min_i16", each_lane([](i16 a, i16 b) { return std::min(a, b); })},
    {"v_max_i16", each_lane([](i16 a, i16 b) { return std::max(a, b); })},
};

}  // namespace

std::span<const Operation> integer_operations() {
  return kOperations;
}

}  // namespace tilesmith::amdgpu
