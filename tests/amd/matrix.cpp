// Matrix instructions of CDNA: MFMA ("Matrix Arithmetic Instructions", CDNA 3 ISA 7.1 to 7.5; CDNA 2 ISA 6, CDNA 4 ISA
// 7 likewise).
#include <vector>

#include "amd/matrix_elements.hpp"
#include "amd/operations.hpp"

namespace tilesmith::amdgpu {

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

namespace {

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

using enum Element;

constexpr Operation kOperations[] = {
    // CDNA 2
    {"v_mfma_f32_32x32x2f32", mfma<32, 2, 1, f32>, kWords},
    {"v_mfma_f32_16x16x4f32", mfma<16, 4, 1, f32>, kWords},
    {"v_mfma_f32_32x32x8f16", mfma<32, 8, 1, f16>, kWords},
    {"v_mfma_f32_16x16x16f16", mfma<16, 16, 1, f16>, kWords},
    {"v_mfma_f32_32x32x8bf16_1k", mfma<32, 8, 1, bf16>, kWords},
    {"v_mfma_f32_16x16x16bf16_1k", mfma<16, 16, 1, bf16>, kWords},
    {"v_mfma_i32_32x32x8i8", mfma<32, 8, 1, i8>, kWords},
    {"v_mfma_i32_16x16x16i8", mfma<16, 16, 1, i8>, kWords},
    // CDNA 3 and 4
    {"v_mfma_f32_32x32x2_f32", mfma<32, 2, 1, f32>, kWords},
    {"v_mfma_f32_16x16x4_f32", mfma<16, 4, 1, f32>, kWords},
    {"v_mfma_f32_32x32x4_2b_f16", mfma<32, 4, 2, f16>, kWords},
    {"v_mfma_f32_16x16x4_4b_f16", mfma<16, 4, 4, f16>, kWords},
    {"v_mfma_f32_4x4x4_16b_f16", mfma<4, 4, 16, f16>, kWords},
    {"v_mfma_f32_32x32x8_f16", mfma<32, 8, 1, f16>, kWords},
    {"v_mfma_f32_16x16x16_f16", mfma<16, 16, 1, f16>, kWords},
    {"v_mfma_f32_32x32x8_bf16", mfma<32, 8, 1, bf16>, kWords},
    {"v_mfma_f32_16x16x16_bf16", mfma<16, 16, 1, bf16>, kWords},
    {"v_mfma_i32_32x32x16_i8", mfma<32, 16, 1, i8>, kWords},
    {"v_mfma_i32_16x16x32_i8", mfma<16, 32, 1, i8>, kWords},
    {"v_mfma_f32_32x32x16_fp8_fp8", mfma<32, 16, 1, fp8>, kWords},
    {"v_mfma_f32_32x32x16_fp8_bf8", mfma<32, 16, 1, fp8, bf8>, kWords},
    {"v_mfma_f32_32x32x16_bf8_fp8", mfma<32, 16, 1, bf8, fp8>, kWords},
    {"v_mfma_f32_32x32x16_bf8_bf8", mfma<32, 16, 1, bf8>, kWords},
    {"v_mfma_f32_16x16x32_fp8_fp8", mfma<16, 32, 1, fp8>, kWords},
    {"v_mfma_f32_16x16x32_fp8_bf8", mfma<16, 32, 1, fp8, bf8>, kWords},
    {"v_mfma_f32_16x16x32_bf8_fp8", mfma<16, 32, 1, bf8, fp8>, kWords},
    {"v_mfma_f32_16x16x32_bf8_bf8", mfma<16, 32, 1, bf8>, kWords},
    {"v_mfma_f32_32x32x16_f16", mfma<32, 16, 1, f16>, kWords},
    {"v_mfma_f32_32x32x16_bf16", mfma<32, 16, 1, bf16>, kWords},
    {"v_mfma_f32_16x16x32_f16", mfma<16, 32, 1, f16>, kWords},
    {"v_mfma_f32_16x16x32_bf16", mfma<16, 32, 1, bf16>, kWords},
    {"v_mfma_i32_32x32x32_i8", mfma<32, 32, 1, i8>, kWords},
    {"v_mfma_i32_16x16x64_i8", mfma<16, 64, 1, i8>, kWords},
};

}  // namespace

std::span<const Operation> matrix_operations() {
  return kOperations;
}

}  // namespace tilesmith::amdgpu
