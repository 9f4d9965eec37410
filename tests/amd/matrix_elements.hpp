// What matrix instructions share: elements, where they lie in lanes and registers, products and sums.
//
// The places are those that AMD's matrix instruction calculator (1.3.2) gives; of CDNA 4, which it does not have, those
// that follow from CDNA 3's. A sum's products are added in float64 and rounded to float32 once: in which order a chip
// adds, and how it rounds between, the documents leave open.
#pragma once

#include <cmath>

#include "amd/lanes.hpp"

namespace tilesmith::amdgpu {

enum class Element : std::uint8_t { f32, f16, bf16, i8, fp8, bf8 };
constexpr int bits_of(Element element) {
  return element == Element::f32 ? 32 : element == Element::f16 || element == Element::bf16 ? 16 : 8;
}

/// float32 of all bytes, of one format.
const std::array<float, 256>& byte_values(const FloatFormat& format);

inline float flushed(float x) {
  return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x;
}

/// Values of an operand's elements, by their bits.
class Reader {
 public:
  Reader(const Wave& wave, Element element) : element_(element), flushes_(wave.chip.matrix_flushes_denormals) {
    if (element == Element::fp8) bytes_ = &byte_values(wave.chip.fnuz ? kE4m3Fnuz : kE4m3);
    if (element == Element::bf8) bytes_ = &byte_values(wave.chip.fnuz ? kE5m2Fnuz : kE5m2);
  }
  [[nodiscard]] float value(u32 bits, bool is_signed) const {
    switch (element_) {
      case Element::f32:
        return std::bit_cast<float>(bits);
      case Element::f16:
        // Exponents of 0 are denormals.
        return value_of(F16{static_cast<u16>(flushes_ && (bits & 0x7c00) == 0 ? bits & 0x8000 : bits)});
      case Element::bf16:
        return flushes_ ? flushed(value_of(Bf16{static_cast<u16>(bits)})) : value_of(Bf16{static_cast<u16>(bits)});
      case Element::i8:
        return is_signed ? static_cast<float>(static_cast<std::int8_t>(bits)) : static_cast<float>(bits);
      case Element::fp8:
      case Element::bf8:
        return (*bytes_)[bits];
    }
    return 0;
  }

 private:
  Element element_;
  bool flushes_;
  const std::array<float, 256>* bytes_ = nullptr;
};

/// Element `item` of a lane's registers.
inline u32 bits_at(const Wave& wave, int first, int lane, int item, int bits) {
  const int at = item * bits;
  const u32 word = wave.row(first + at / 32)[static_cast<std::size_t>(lane)] >> (at % 32);
  return bits == 32 ? word : word & ((1u << bits) - 1);
}

inline int vector_register(const Instruction& in, int position) {
  if (in.at(position).kind != Operand::Kind::vector)
    fault("operand {} of a matrix instruction is no register", position);
  return in.at(position).index;
}

/// Where element k of a row lies: item `item` of the lane of the row, `group` times the rows further on.
struct OfK {
  int group, item;
};
using PlaceOfK = OfK (*)(int k);
/// The lanes of a row bring kPerLane elements each, one lane after the other.
template <int kPerLane>
constexpr OfK consecutive(int k) {
  return {k / kPerLane, k % kPerLane};
}
/// Two lanes bring four elements in turn (16-bit operands of RDNA 4).
constexpr OfK fours_in_turn(int k) {
  return {k / 4 % 2, k / 8 * 4 + k % 4};
}

/// Two lanes bring eight elements in turn (B of SWMMAC).
constexpr OfK eights_in_turn(int k) {
  return {k / 8 % 2, k / 16 * 8 + k % 8};
}

/// One side of an operand: kSide rows (of A; of B columns) of kDepth elements; `block`: of MFMA with several, whose
/// rows lie behind one another.
template <int kSide, int kDepth, PlaceOfK kPlace>
struct Fragment {
  float values[kDepth][kSide];

  void read(const Wave& wave, const Instruction& in, int position, const Reader& reader, Element element, int block,
            bool is_signed) {
    const int first = vector_register(in, position), bits = bits_of(element);
    for (int k = 0; k < kDepth; ++k)
      for (int i = 0; i < kSide; ++i) {
        const auto [group, item] = kPlace(k);
        const int lane = i + kSide * (group + block);
        values[k][i] = reader.value(bits_at(wave, first, lane, item, bits), is_signed);
      }
  }
};

/// products[i][j] = sum over k of a[k][i] * b[k][j]. Products of what has at most 12 bits of mantissa are exact in
/// float64, sums of integers too.
template <int kRows, int kColumns, int kDepth>
void multiply(const float (&a)[kDepth][kRows], const float (&b)[kDepth][kColumns],
              double (&products)[kRows][kColumns]) {
  for (int i = 0; i < kRows; ++i) {
    double sums[kColumns] = {};
    for (int k = 0; k < kDepth; ++k) {
      const double factor = a[k][i];
      for (int j = 0; j < kColumns; ++j) sums[j] += factor * static_cast<double>(b[k][j]);
    }
    for (int j = 0; j < kColumns; ++j) products[i][j] = sums[j];
  }
}

/// The word of C at a lane's register, and of D: C and the sum of products.
template <bool kIntegers>
u32 accumulated(u32 c, double products, bool flushes) {
  if constexpr (kIntegers) return c + static_cast<u32>(static_cast<i64>(products));
  const auto sum = static_cast<float>(static_cast<double>(std::bit_cast<float>(c)) + products);
  return std::bit_cast<u32>(flushes ? flushed(sum) : sum);
}

/// Register `item` of C in all lanes.
inline Row addend(const Wave& wave, const Instruction& in, int item) {
  const Operand& c = in.at(3);
  Row row;
  if (c.kind == Operand::Kind::vector)
    row = wave.row(c.index + item);
  else
    row.fill(static_cast<u32>(c.constant));
  return row;
}

/// A flag of instructions whose float constants are words of float32, whatever the mnemonic ends with.
inline constexpr auto kWords = Operation::scalar_words;

}  // namespace tilesmith::amdgpu
