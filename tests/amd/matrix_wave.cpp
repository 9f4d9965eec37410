// Matrix instructions of RDNA: WMMA, SWMMAC ("Wave Matrix Multiply Accumulate", RDNA 3 ISA 7.9, RDNA 4 ISA 7.12).
#include <cstring>

#include "amd/matrix_elements.hpp"
#include "amd/operations.hpp"

namespace tilesmith::amdgpu {
namespace {

/// V_WMMA of 16 x 16 x 16 in a wave of 32. RDNA 3: both halves of the wave bring all of a row's k, alike; item r of
/// half h is row 2 r + h of D. RDNA 4: each half brings half of k, of 16-bit operands four in turn; item r of half h is
/// row 8 h + r. kPacked: results are of A's type, RDNA 3 in the half of each register that op_sel names, RDNA 4 two in
/// a register.
template <Element kA, Element kB = kA, bool kPacked = false>
void wmma(Wave& wave, const Instruction& in) {
  constexpr int kSide = 16, kItems = 8;
  constexpr bool kIntegers = kA == Element::i8;
  const bool rdna4 = wave.chip.family == Family::rdna4;
  if (wave.lanes != 32) fault("WMMA of waves of 64 is not emulated");
  const Modifiers& m = in.modifiers;
  if (m.clamp) fault("clamp of WMMA is not emulated");
  if (!kIntegers && ((m.neg_lo | m.neg_hi) & 7) != 0) fault("neg of WMMA is not emulated");
  const Reader reader_a(wave, kA), reader_b(wave, kB);
  float a[kSide][kSide], b[kSide][kSide];
  if (rdna4) {
    constexpr PlaceOfK kPlace = bits_of(kA) == 16 ? fours_in_turn : consecutive<kSide / 2>;
    Fragment<kSide, kSide, kPlace> half_a, half_b;
    half_a.read(wave, in, 1, reader_a, kA, 0, (m.neg_lo & 1) != 0);
    half_b.read(wave, in, 2, reader_b, kB, 0, (m.neg_lo & 2) != 0);
    std::memcpy(a, half_a.values, sizeof a);
    std::memcpy(b, half_b.values, sizeof b);
  } else {
    Fragment<kSide, kSide, consecutive<kSide>> whole_a, whole_b;
    whole_a.read(wave, in, 1, reader_a, kA, 0, (m.neg_lo & 1) != 0);
    whole_b.read(wave, in, 2, reader_b, kB, 0, (m.neg_lo & 2) != 0);
    for (const int position : {1, 2})
      for (int word = 0; word < kSide * bits_of(position == 1 ? kA : kB) / 32; ++word) {
        const Row& row = wave.row(vector_register(in, position) + word);
        for (std::size_t lane = 0; lane < kSide; ++lane)
          if (row[lane] != row[lane + kSide]) fault("the halves of a wave bring different rows to WMMA");
      }
    std::memcpy(a, whole_a.values, sizeof a);
    std::memcpy(b, whole_b.values, sizeof b);
  }
  double products[kSide][kSide];
  multiply<kSide, kSide, kSide>(a, b, products);
  const auto row_of = [&](int item, int half) { return rdna4 ? 8 * half + item : 2 * item + half; };
  const int to = vector_register(in, 0);
  std::array<Row, kItems> results;
  for (int item = 0; item < kItems; ++item) {
    const auto at = static_cast<std::size_t>(item);
    const bool pair = kPacked && rdna4;
    const int word = pair ? item / 2 : item;
    const int shift = pair ? 16 * (item % 2) : kPacked && (m.op_sel & 4) != 0 ? 16 : 0;
    const Row c = addend(wave, in, word);
    Row& row = results[static_cast<std::size_t>(word)];
    if (!pair || item % 2 == 0) row = wave.row(to + word);
    for (int lane = 0; lane < 32; ++lane) {
      const auto l = static_cast<std::size_t>(lane);
      const double product = products[row_of(static_cast<int>(at), lane / kSide)][lane % kSide];
      if constexpr (kPacked) {
        const u32 old = c[l] >> shift & 0xffff;
        const double sum = product + (kA == Element::f16 ? value_of(F16{static_cast<u16>(old)})
                                                         : value_of(Bf16{static_cast<u16>(old)}));
        const u32 bits = kA == Element::f16 ? to_f16(sum).bits : to_bf16(sum).bits;
        row[l] = (row[l] & ~(0xffffu << shift)) | bits << shift;
      } else {
        row[l] = accumulated<kIntegers>(c[l], product, false);
      }
    }
  }
  for (int word = 0; word < (kPacked && rdna4 ? kItems / 2 : kItems); ++word)
    wave.row(to + word) = results[static_cast<std::size_t>(word)];
}

/// V_SWMMAC of 16 x 32 by 32 x 16: of each four elements of A along k two are given, the others are 0. A lane's pairs
/// of elements have their places, two of two bits, in the lane's nibbles of operand 3; index_key: in its upper half. D
/// is what is added to.
template <Element kA, Element kB = kA>
void swmmac(Wave& wave, const Instruction& in) {
  constexpr int kSide = 16, kDepth = 32, kItems = 8;
  constexpr bool kWide = bits_of(kA) == 16, kIntegers = kA == Element::i8;
  const Modifiers& m = in.modifiers;
  if (m.clamp) fault("clamp of SWMMAC is not emulated");
  if (!kIntegers && ((m.neg_lo | m.neg_hi) & 7) != 0) fault("neg of SWMMAC is not emulated");
  const Reader reader_a(wave, kA), reader_b(wave, kB);
  constexpr PlaceOfK kPlaceA = kWide ? fours_in_turn : consecutive<kSide / 2>;
  constexpr PlaceOfK kPlaceB = kWide ? eights_in_turn : consecutive<kSide>;
  Fragment<kSide, kSide, kPlaceA> given;
  given.read(wave, in, 1, reader_a, kA, 0, (m.neg_lo & 1) != 0);
  Fragment<kSide, kDepth, kPlaceB> b;
  b.read(wave, in, 2, reader_b, kB, 0, (m.neg_lo & 2) != 0);
  float a[kDepth][kSide] = {};
  const Row& places = wave.row(vector_register(in, 3));
  for (int pair = 0; pair < kSide / 2; ++pair) {
    const auto [group, item] = kPlaceA(2 * pair);
    for (int i = 0; i < kSide; ++i) {
      const u32 nibbles = places[static_cast<std::size_t>(i + kSide * group)] >> (16 * m.index_key);
      const u32 nibble = nibbles >> (4 * (item / 2)) & 15;
      a[4 * pair + static_cast<int>(nibble & 3)][i] = given.values[2 * pair][i];
      a[4 * pair + static_cast<int>(nibble >> 2)][i] = given.values[2 * pair + 1][i];
    }
  }
  double products[kSide][kSide];
  multiply<kSide, kSide, kDepth>(a, b.values, products);
  for (int item = 0; item < kItems; ++item) {
    Row& row = wave.row(vector_register(in, 0) + item);
    for (int lane = 0; lane < 32; ++lane) {
      u32& word = row[static_cast<std::size_t>(lane)];
      word = accumulated<kIntegers>(word, products[8 * (lane / kSide) + item][lane % kSide], false);
    }
  }
}

using enum Element;

constexpr Operation kOperations[] = {
    {"v_wmma_f32_16x16x16_f16", wmma<f16>, kWords},
    {"v_wmma_f32_16x16x16_bf16", wmma<bf16>, kWords},
    {"v_wmma_f16_16x16x16_f16", wmma<f16, f16, true>, kWords},
    {"v_wmma_bf16_16x16x16_bf16", wmma<bf16, bf16, true>, kWords},
    {"v_wmma_i32_16x16x16_iu8", wmma<i8>, kWords},
    {"v_wmma_f32_16x16x16_fp8_fp8", wmma<fp8>, kWords},
    {"v_wmma_f32_16x16x16_fp8_bf8", wmma<fp8, bf8>, kWords},
    {"v_wmma_f32_16x16x16_bf8_fp8", wmma<bf8, fp8>, kWords},
    {"v_wmma_f32_16x16x16_bf8_bf8", wmma<bf8>, kWords},
    {"v_swmmac_f32_16x16x32_f16", swmmac<f16>},
    {"v_swmmac_f32_16x16x32_bf16", swmmac<bf16>},
    {"v_swmmac_i32_16x16x32_iu8", swmmac<i8>},
    {"v_swmmac_f32_16x16x32_fp8_fp8", swmmac<fp8>},
    {"v_swmmac_f32_16x16x32_fp8_bf8", swmmac<fp8, bf8>},
    {"v_swmmac_f32_16x16x32_bf8_fp8", swmmac<bf8, fp8>},
    {"v_swmmac_f32_16x16x32_bf8_bf8", swmmac<bf8>},
};

}  // namespace

std::span<const Operation> wave_matrix_operations() {
  return kOperations;
}

}  // namespace tilesmith::amdgpu
