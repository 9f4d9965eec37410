// Matrix instructions: MFMA of CDNA, WMMA of RDNA 3 and 4, with the places of their elements in lanes and registers.
//
// The places are those that AMD's matrix instruction calculator (1.3.2) gives; of CDNA 4, which it does not have, those
// that follow from CDNA 3's.
//
// Sources: CDNA 3 ISA 7.1 to 7.5 and CDNA 4 ISA 7 ("Matrix Arithmetic Instructions"; CDNA 2 ISA 6 likewise), RDNA 3 ISA
// 7.9 and RDNA 4 ISA 7.12 ("Wave Matrix Multiply Accumulate"). A sum's products are added in float64 and rounded to
// float32 once: in which order a chip adds, and how it rounds between, these documents leave open.
#include <cmath>
#include <string>

#include "amd/lanes.hpp"
#include "amd/operations.hpp"

namespace tilesmith::amdgpu {
namespace {

enum class Element : std::uint8_t { f32, f16, bf16, i8, fp8, bf8 };
constexpr int bits_of(Element element) {
  return element == Element::f32 ? 32 : element == Element::f16 || element == Element::bf16 ? 16 : 8;
}

/// float32 of all bytes, of one format.
const std::array<float, 256>& byte_values(const FloatFormat& format) {
  static const auto tables = [] {
    std::array<std::pair<const FloatFormat*, std::array<float, 256>>, 4> all;
    std::size_t i = 0;
    for (const FloatFormat* each : {&kE4m3, &kE5m2, &kE4m3Fnuz, &kE5m2Fnuz}) {
      all[i].first = each;
      for (u32 bits = 0; bits < 256; ++bits) all[i].second[bits] = static_cast<float>(each->value(bits));
      ++i;
    }
    return all;
  }();
  for (const auto& [of, values] : tables)
    if (of == &format) return values;
  fault("no table of this format");
}

float flushed(float x) {
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
u32 bits_at(const Wave& wave, int first, int lane, int item, int bits) {
  const int at = item * bits;
  const u32 word = wave.row(first + at / 32)[static_cast<std::size_t>(lane)] >> (at % 32);
  return bits == 32 ? word : word & ((1u << bits) - 1);
}

int vector_register(const Instruction& in, int position) {
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
Row addend(const Wave& wave, const Instruction& in, int item) {
  const Operand& c = in.at(3);
  Row row;
  if (c.kind == Operand::Kind::vector)
    row = wave.row(c.index + item);
  else
    row.fill(static_cast<u32>(c.constant));
  return row;
}

/// V_MFMA: kBlocks products of kRows x kDepth by kDepth x kColumns, in a wave of 64, whatever EXEC. Of D, item r of a
/// block in lane l is column l % kColumns and row (r / 4 * (64 / kColumns) + l / kColumns) * 4 + r % 4; the items of
/// blocks follow one another. Blocks of 4 x 4 lie in 4 lanes each.
template <int kRows, int kDepth, int kBlocks, Element kA, Element kB = kA>
void mfma(Wave& wave, const Instruction& in) {
  constexpr int kColumns = kRows, kPerLane = kRows * kDepth * kBlocks / 64;
  static_assert(kPerLane > 0 && (kBlocks == 1 || kPerLane == kDepth));
  const Modifiers& m = in.modifiers;
  if (m.cbsz != 0 || m.abid != 0 || m.blgp != 0) fault("broadcasts of MFMA (cbsz, abid, blgp) are not emulated");
  constexpr bool kIntegers = kA == Element::i8;
  const Reader reader_a(wave, kA), reader_b(wave, kB);
  const bool flushes = wave.chip.matrix_flushes_denormals && (kA == Element::f16 || kA == Element::bf16);
  constexpr int kItems = kRows == 4 ? 4 : kRows * kColumns / 64;  // of a block
  std::vector<Row> results(static_cast<std::size_t>(kRows == 4 ? kItems : kItems * kBlocks));
  for (std::size_t item = 0; item < results.size(); ++item) results[item] = addend(wave, in, static_cast<int>(item));
  for (int block = 0; block < kBlocks; ++block) {
    Fragment<kRows, kDepth, consecutive<kPerLane>> a, b;
    a.read(wave, in, 1, reader_a, kA, block, true);
    b.read(wave, in, 2, reader_b, kB, block, true);
    double products[kRows][kColumns];
    multiply<kRows, kColumns, kDepth>(a.values, b.values, products);
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kColumns; ++j) {
        constexpr int kGroups = 64 / kColumns;  // lanes that share a column
        const int lane = kRows == 4 ? j + 4 * block : j + kColumns * (i / 4 % kGroups);
        const int item = kRows == 4 ? i : block * kItems + i / (4 * kGroups) * 4 + i % 4;
        u32& word = results[static_cast<std::size_t>(item)][static_cast<std::size_t>(lane)];
        word = accumulated<kIntegers>(word, products[i][j], flushes);
      }
  }
  const int to = vector_register(in, 0);
  for (std::size_t item = 0; item < results.size(); ++item) wave.row(to + static_cast<int>(item)) = results[item];
}

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

constexpr auto kF32 = Element::f32;
constexpr auto kF16Element = Element::f16;
constexpr auto kBf16Element = Element::bf16;
constexpr auto kI8 = Element::i8;
constexpr auto kFp8 = Element::fp8;
constexpr auto kBf8 = Element::bf8;
constexpr auto kWords = Operation::scalar_words;

constexpr Operation kOperations[] = {
    // CDNA 2
    {"v_mfma_f32_32x32x2f32", mfma<32, 2, 1, kF32>, kWords},
    {"v_mfma_f32_16x16x4f32", mfma<16, 4, 1, kF32>, kWords},
    {"v_mfma_f32_32x32x8f16", mfma<32, 8, 1, kF16Element>, kWords},
    {"v_mfma_f32_16x16x16f16", mfma<16, 16, 1, kF16Element>, kWords},
    {"v_mfma_f32_32x32x8bf16_1k", mfma<32, 8, 1, kBf16Element>, kWords},
    {"v_mfma_f32_16x16x16bf16_1k", mfma<16, 16, 1, kBf16Element>, kWords},
    {"v_mfma_i32_32x32x8i8", mfma<32, 8, 1, kI8>, kWords},
    {"v_mfma_i32_16x16x16i8", mfma<16, 16, 1, kI8>, kWords},
    // CDNA 3 and 4
    {"v_mfma_f32_32x32x2_f32", mfma<32, 2, 1, kF32>, kWords},
    {"v_mfma_f32_16x16x4_f32", mfma<16, 4, 1, kF32>, kWords},
    {"v_mfma_f32_32x32x4_2b_f16", mfma<32, 4, 2, kF16Element>, kWords},
    {"v_mfma_f32_16x16x4_4b_f16", mfma<16, 4, 4, kF16Element>, kWords},
    {"v_mfma_f32_4x4x4_16b_f16", mfma<4, 4, 16, kF16Element>, kWords},
    {"v_mfma_f32_32x32x8_f16", mfma<32, 8, 1, kF16Element>, kWords},
    {"v_mfma_f32_16x16x16_f16", mfma<16, 16, 1, kF16Element>, kWords},
    {"v_mfma_f32_32x32x8_bf16", mfma<32, 8, 1, kBf16Element>, kWords},
    {"v_mfma_f32_16x16x16_bf16", mfma<16, 16, 1, kBf16Element>, kWords},
    {"v_mfma_i32_32x32x16_i8", mfma<32, 16, 1, kI8>, kWords},
    {"v_mfma_i32_16x16x32_i8", mfma<16, 32, 1, kI8>, kWords},
    {"v_mfma_f32_32x32x16_fp8_fp8", mfma<32, 16, 1, kFp8>, kWords},
    {"v_mfma_f32_32x32x16_fp8_bf8", mfma<32, 16, 1, kFp8, kBf8>, kWords},
    {"v_mfma_f32_32x32x16_bf8_fp8", mfma<32, 16, 1, kBf8, kFp8>, kWords},
    {"v_mfma_f32_32x32x16_bf8_bf8", mfma<32, 16, 1, kBf8>, kWords},
    {"v_mfma_f32_16x16x32_fp8_fp8", mfma<16, 32, 1, kFp8>, kWords},
    {"v_mfma_f32_16x16x32_fp8_bf8", mfma<16, 32, 1, kFp8, kBf8>, kWords},
    {"v_mfma_f32_16x16x32_bf8_fp8", mfma<16, 32, 1, kBf8, kFp8>, kWords},
    {"v_mfma_f32_16x16x32_bf8_bf8", mfma<16, 32, 1, kBf8>, kWords},
    {"v_mfma_f32_32x32x16_f16", mfma<32, 16, 1, kF16Element>, kWords},
    {"v_mfma_f32_32x32x16_bf16", mfma<32, 16, 1, kBf16Element>, kWords},
    {"v_mfma_f32_16x16x32_f16", mfma<16, 32, 1, kF16Element>, kWords},
    {"v_mfma_f32_16x16x32_bf16", mfma<16, 32, 1, kBf16Element>, kWords},
    {"v_mfma_i32_32x32x32_i8", mfma<32, 32, 1, kI8>, kWords},
    {"v_mfma_i32_16x16x64_i8", mfma<16, 64, 1, kI8>, kWords},
    // RDNA 3 and 4
    {"v_wmma_f32_16x16x16_f16", wmma<kF16Element>, kWords},
    {"v_wmma_f32_16x16x16_bf16", wmma<kBf16Element>, kWords},
    {"v_wmma_f16_16x16x16_f16", wmma<kF16Element, kF16Element, true>, kWords},
    {"v_wmma_bf16_16x16x16_bf16", wmma<kBf16Element, kBf16Element, true>, kWords},
    {"v_wmma_i32_16x16x16_iu8", wmma<kI8>, kWords},
    {"v_wmma_f32_16x16x16_fp8_fp8", wmma<kFp8>, kWords},
    {"v_wmma_f32_16x16x16_fp8_bf8", wmma<kFp8, kBf8>, kWords},
    {"v_wmma_f32_16x16x16_bf8_fp8", wmma<kBf8, kFp8>, kWords},
    {"v_wmma_f32_16x16x16_bf8_bf8", wmma<kBf8>, kWords},
};

}  // namespace

std::span<const Operation> matrix_operations() {
  return kOperations;
}

}  // namespace tilesmith::amdgpu
