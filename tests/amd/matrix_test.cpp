// Matrix instructions: where the elements of A, B and D lie. The places are written out here for each instruction as
// the ISA documents show them; the interpreter derives them from a few sizes. One element of A is set at a time, so
// that D has one row: that of B which it picks.
#include <cmath>
#include <random>

#include "amd/bench.hpp"
#include "amd/float_formats.hpp"

namespace tilesmith::amdgpu {
namespace {

using u32 = std::uint32_t;

struct Place {
  int lane, item;
};

/// `side` x `depth` of A and `depth` x `side` of B, elements of `bits`; places of A[i][k] (of B[k][i] alike) and
/// D[i][j].
struct Layout {
  std::string chip, line;  ///< D in v[0:..], A in v[32:..], B in v[48:..], C in v[64:..]
  int side, depth, bits;
  u32 one;                                                  ///< the bits of 1
  std::vector<u32> values;                                  ///< bits of some values of B, and
  std::vector<float> real;                                  ///< what they are
  std::function<std::vector<Place>(int i, int k)> operand;  ///< all places that must hold it
  std::function<Place(int i, int j)> result;
  bool integers = false;
};

const std::vector<float> kReals = {1, -2, 0.5f, 3, -1.5f, 4};
const std::vector<u32> kHalves = {0x3c00, 0xc000, 0x3800, 0x4200, 0xbe00, 0x4400};
const std::vector<u32> kBfloats = {0x3f80, 0xc000, 0x3f00, 0x4040, 0xbfc0, 0x4080};
const std::vector<u32> kE4m3Bits = {0x38, 0xc0, 0x30, 0x44, 0xbc, 0x48};
const std::vector<u32> kE5m2Bits = {0x3c, 0xc0, 0x38, 0x42, 0xbe, 0x44};
const std::vector<u32> kE4m3FnuzBits = {0x40, 0xc8, 0x38, 0x4c, 0xc4, 0x50};
const std::vector<u32> kE5m2FnuzBits = {0x40, 0xc4, 0x3c, 0x46, 0xc2, 0x48};
const std::vector<u32> kBytes = {1, 0xfe, 3, 0x80, 0x7f, 0xf5};
const std::vector<float> kByteReals = {1, -2, 3, -128, 127, -11};

// Results of MFMA: 32 x 32 in 16 registers, 16 x 16 in 4.
Place mfma_32(int i, int j) {
  return {j + 32 * (i / 4 % 2), i % 4 + 4 * (i / 8)};
}
Place mfma_16(int i, int j) {
  return {j + 16 * (i / 4), i % 4};
}

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  const auto mfma = [&](std::string chip, std::string name, int side, int depth, int bits,
                        const std::vector<u32>& values, const std::vector<float>& real, int registers) {
    const int per_lane = registers * 32 / bits;
    const std::string operand = registers == 1 ? "" : "range";
    const auto range = [&](int first, int count) {
      return count == 1 ? "v" + std::to_string(first)
                        : "v[" + std::to_string(first) + ":" + std::to_string(first + count - 1) + "]";
    };
    const int results = side == 32 ? 16 : 4;
    all.push_back({std::move(chip),
                   name + " " + range(0, results) + ", " + range(32, registers) + ", " + range(48, registers) + ", " +
                       range(64, results),
                   side, depth, bits, values[0], values, real,
                   [side, per_lane](int i, int k) {
                     return std::vector<Place>{{i + side * (k / per_lane), k % per_lane}};
                   },
                   side == 32 ? mfma_32 : mfma_16, bits == 8 && values == kBytes});
  };
  mfma("gfx90a", "v_mfma_f32_32x32x8f16", 32, 8, 16, kHalves, kReals, 2);
  mfma("gfx90a", "v_mfma_f32_32x32x8bf16_1k", 32, 8, 16, kBfloats, kReals, 2);
  mfma("gfx90a", "v_mfma_f32_16x16x16f16", 16, 16, 16, kHalves, kReals, 2);
  mfma("gfx90a", "v_mfma_f32_16x16x16bf16_1k", 16, 16, 16, kBfloats, kReals, 2);
  mfma("gfx90a", "v_mfma_i32_32x32x8i8", 32, 8, 8, kBytes, kByteReals, 1);
  mfma("gfx90a", "v_mfma_i32_16x16x16i8", 16, 16, 8, kBytes, kByteReals, 1);
  mfma("gfx942", "v_mfma_f32_32x32x8_f16", 32, 8, 16, kHalves, kReals, 2);
  mfma("gfx942", "v_mfma_f32_16x16x16_bf16", 16, 16, 16, kBfloats, kReals, 2);
  mfma("gfx942", "v_mfma_i32_32x32x16_i8", 32, 16, 8, kBytes, kByteReals, 2);
  mfma("gfx942", "v_mfma_i32_16x16x32_i8", 16, 32, 8, kBytes, kByteReals, 2);
  mfma("gfx942", "v_mfma_f32_16x16x32_fp8_fp8", 16, 32, 8, kE4m3FnuzBits, kReals, 2);
  mfma("gfx942", "v_mfma_f32_32x32x16_bf8_bf8", 32, 16, 8, kE5m2FnuzBits, kReals, 2);
  mfma("gfx950", "v_mfma_f32_32x32x16_f16", 32, 16, 16, kHalves, kReals, 4);
  mfma("gfx950", "v_mfma_f32_32x32x16_bf16", 32, 16, 16, kBfloats, kReals, 4);
  mfma("gfx950", "v_mfma_f32_16x16x32_f16", 16, 32, 16, kHalves, kReals, 4);
  mfma("gfx950", "v_mfma_f32_16x16x32_bf16", 16, 32, 16, kBfloats, kReals, 4);
  mfma("gfx950", "v_mfma_i32_32x32x32_i8", 32, 32, 8, kBytes, kByteReals, 4);
  mfma("gfx950", "v_mfma_i32_16x16x64_i8", 16, 64, 8, kBytes, kByteReals, 4);
  mfma("gfx950", "v_mfma_f32_32x32x16_fp8_fp8", 32, 16, 8, kE4m3Bits, kReals, 2);
  mfma("gfx950", "v_mfma_f32_16x16x32_bf8_bf8", 16, 32, 8, kE5m2Bits, kReals, 2);

  // RDNA 3: all 16 of k in a lane, in lanes l and l + 16 alike; rows 2 r and 2 r + 1 of D in register r.
  const auto both = [](int i, int k) { return std::vector<Place>{{i, k}, {i + 16, k}}; };
  const auto alternate = [](int i, int j) { return Place{j + 16 * (i % 2), i / 2}; };
  all.push_back({"gfx1100", "v_wmma_f32_16x16x16_f16 v[0:7], v[32:39], v[48:55], v[64:71]", 16, 16, 16, 0x3c00, kHalves,
                 kReals, both, alternate});
  all.push_back({"gfx1100", "v_wmma_f32_16x16x16_bf16 v[0:7], v[32:39], v[48:55], v[64:71]", 16, 16, 16, 0x3f80,
                 kBfloats, kReals, both, alternate});
  all.push_back({"gfx1100", "v_wmma_i32_16x16x16_iu8 v[0:7], v[32:35], v[48:51], v[64:71] neg_lo:[1,1,0]", 16, 16, 8, 1,
                 kBytes, kByteReals, both, alternate, true});
  // RDNA 4: of bytes k 0 to 7 in lanes 0 to 15, 8 to 15 in the others; of 16 bits 0 to 3 and 8 to 11 in lanes 0 to 15;
  // rows 0 to 7 of D in lanes 0 to 15, 8 to 15 in the others.
  const auto halves = [](int i, int k) { return std::vector<Place>{{k < 8 ? i : i + 16, k % 8}}; };
  const auto fours = [](int i, int k) {
    constexpr int kItems[] = {0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7};
    return std::vector<Place>{{(k & 4) == 0 ? i : i + 16, kItems[k]}};
  };
  const auto blocks = [](int i, int j) { return Place{i < 8 ? j : j + 16, i % 8}; };
  all.push_back({"gfx1201", "v_wmma_f32_16x16x16_f16 v[0:7], v[32:35], v[48:51], v[64:71]", 16, 16, 16, 0x3c00, kHalves,
                 kReals, fours, blocks});
  all.push_back({"gfx1201", "v_wmma_f32_16x16x16_bf16 v[0:7], v[32:35], v[48:51], v[64:71]", 16, 16, 16, 0x3f80,
                 kBfloats, kReals, fours, blocks});
  all.push_back({"gfx1201", "v_wmma_i32_16x16x16_iu8 v[0:7], v[32:33], v[48:49], v[64:71] neg_lo:[1,1,0]", 16, 16, 8, 1,
                 kBytes, kByteReals, halves, blocks, true});
  all.push_back({"gfx1201", "v_wmma_f32_16x16x16_fp8_fp8 v[0:7], v[32:33], v[48:49], v[64:71]", 16, 16, 8, 0x38,
                 kE4m3Bits, kReals, halves, blocks});
  all.push_back({"gfx1201", "v_wmma_f32_16x16x16_bf8_bf8 v[0:7], v[32:33], v[48:49], v[64:71]", 16, 16, 8, 0x3c,
                 kE5m2Bits, kReals, halves, blocks});
  return all;
}

class AmdMatrixTest : public InstructionTest {};

void put(Bench& on, const Layout& of, int first, int i, int k, u32 value) {
  for (const Place& place : of.operand(i, k)) {
    u32& word = on.wave().row(first + place.item * of.bits / 32)[static_cast<std::size_t>(place.lane)];
    const int shift = place.item * of.bits % 32;
    const u32 field = of.bits == 16 ? 0xffffu : 0xffu;
    word = (word & ~(field << shift)) | value << shift;
  }
}

TEST_F(AmdMatrixTest, OneElementOfAPicksARowOfB) {
  for (const std::string_view chip : kAllChips) {
    std::vector<Layout> mine;
    std::vector<std::string> lines;
    for (Layout& each : layouts())
      if (each.chip == chip) {
        lines.push_back(each.line);
        mine.push_back(std::move(each));
      }
    Bench on = bench(chip, lines);
    ASSERT_EQ(on.size(), mine.size());
    std::mt19937 random(5);
    for (std::size_t n = 0; n < mine.size(); ++n) {
      const Layout& of = mine[n];
      on.reset();
      for (int r = 32; r < 64; ++r) on.set_vector(r, [](int) { return 0u; });
      std::vector<std::vector<float>> b(static_cast<std::size_t>(of.depth),
                                        std::vector<float>(static_cast<std::size_t>(of.side)));
      for (int k = 0; k < of.depth; ++k)
        for (int j = 0; j < of.side; ++j) {
          const std::size_t which = random() % of.values.size();
          put(on, of, 48, j, k, of.values[which]);
          b[static_cast<std::size_t>(k)][static_cast<std::size_t>(j)] = of.real[which];
        }
      for (int r = 64; r < 80; ++r)
        on.set_vector(r, [&](int lane) {
          return of.integers ? static_cast<u32>(1000 * r + lane)
                             : std::bit_cast<u32>(static_cast<float>(1000 * r + lane));
        });
      // EXEC does not matter.
      on.wave().set_mask(kExec, 5);
      for (int k = 0; k < of.depth; ++k) {
        const int row = static_cast<int>(random() % static_cast<unsigned>(of.side));
        put(on, of, 32, row, k, of.one);
        on.execute(n);
        put(on, of, 32, row, k, 0);
        for (int i = 0; i < of.side; ++i)
          for (int j = 0; j < of.side; ++j) {
            const Place at = of.result(i, j);
            const double wanted = 1000.0 * (64 + at.item) + at.lane +
                                  (i == row ? b[static_cast<std::size_t>(k)][static_cast<std::size_t>(j)] : 0.0f);
            const u32 word = on.vector(at.item, at.lane);
            const double got =
                of.integers ? static_cast<double>(static_cast<std::int32_t>(word)) : std::bit_cast<float>(word);
            ASSERT_EQ(got, wanted) << of.line << " with A[" << row << "][" << k << "]: D[" << i << "][" << j << "]";
          }
      }
    }
  }
}

// Results of A's type: RDNA 3 in the half of each register that op_sel names, RDNA 4 two rows in a register.
TEST_F(AmdMatrixTest, PackedResults) {
  // A is the matrix whose rows have 1 at k = row, so that D is B: column j of row i is 4 i + j / 4 + 1.
  const auto value = [](int row, int column) { return static_cast<u32>(to_f16(4 * row + column / 4 + 1).bits); };
  Bench three = bench("gfx1100", {"v_wmma_f16_16x16x16_f16 v[0:7], v[32:39], v[48:55], v[64:71]",
                                  "v_wmma_f16_16x16x16_f16 v[0:7], v[32:39], v[48:55], v[64:71] op_sel:[0,0,1]"});
  Bench four = bench("gfx1201", {"v_wmma_f16_16x16x16_f16 v[0:3], v[32:35], v[48:51], v[64:67]"});
  for (Bench* on : {&three, &four})
    for (int r = 0; r < 72; ++r) on->set_vector(r, [](int) { return 0u; });
  const auto put_half = [](Bench& on, int first, int lane, int item, u32 bits) {
    on.wave().row(first + item / 2)[static_cast<std::size_t>(lane)] |= bits << (item % 2 * 16);
  };
  for (int k = 0; k < 16; ++k)
    for (int i = 0; i < 16; ++i)
      for (const bool of_a : {true, false}) {
        const u32 bits = of_a ? (i == k ? 0x3c00u : 0u) : value(k, i);
        const int first = of_a ? 32 : 48;
        put_half(three, first, i, k, bits);
        put_half(three, first, i + 16, k, bits);
        put_half(four, first, (k & 4) == 0 ? i : i + 16, k % 4 + k / 8 * 4, bits);
      }
  three.execute(0);
  three.execute(1);
  four.execute(0);
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 16; ++j) {
      EXPECT_EQ(three.vector(i / 2, j + 16 * (i % 2)), value(i, j) * 0x10001u) << i << " " << j;
      EXPECT_EQ(four.vector(i % 8 / 2, j + i / 8 * 16) >> (16 * (i % 2)) & 0xffff, value(i, j)) << i << " " << j;
    }
}

// Row i of A has 1 and -1 in two places of each four along k; D[i][j] is the difference of B's rows there, summed.
TEST_F(AmdMatrixTest, SparseRowsOfA) {
  struct Sparse {
    std::string line;
    int bits;
    std::vector<u32> values;  ///< of kReals
    u32 one, minus_one;
  };
  const std::vector<Sparse> cases = {
      {"v_swmmac_f32_16x16x32_f16 v[0:7], v[32:35], v[48:55], v64 index_key:1", 16, kHalves, 0x3c00, 0xbc00},
      {"v_swmmac_f32_16x16x32_bf16 v[0:7], v[32:35], v[48:55], v64", 16, kBfloats, 0x3f80, 0xbf80},
      {"v_swmmac_f32_16x16x32_fp8_bf8 v[0:7], v[32:33], v[48:51], v64 index_key:1", 8, kE5m2Bits, 0x38, 0xb8}};
  std::vector<std::string> lines;
  for (const Sparse& each : cases) lines.push_back(each.line);
  Bench on = bench("gfx1201", lines);
  ASSERT_EQ(on.size(), cases.size());
  std::mt19937 random(9);
  for (std::size_t n = 0; n < cases.size(); ++n) {
    const Sparse& of = cases[n];
    for (int r = 0; r < 65; ++r) on.set_vector(r, [](int) { return 0u; });
    const int key = of.line.ends_with("index_key:1") ? 16 : 0;
    const auto put_bits = [&](int first, int lane, int item, u32 bits) {
      on.wave().row(first + item * of.bits / 32)[static_cast<std::size_t>(lane)] |= bits << (item * of.bits % 32);
    };
    float b[32][16], wanted[16][16] = {};
    for (int k = 0; k < 32; ++k)
      for (int j = 0; j < 16; ++j) {
        const std::size_t which = random() % kReals.size();
        b[k][j] = kReals[which];
        // As AMD's calculator prints it: 16 bits alternate by eight, bytes lie in halves.
        const bool upper = of.bits == 16 ? (k & 8) != 0 : k >= 16;
        put_bits(48, upper ? j + 16 : j, of.bits == 16 ? k % 8 + k / 16 * 8 : k % 16, of.values[which]);
      }
    for (int i = 0; i < 16; ++i)
      for (int four = 0; four < 8; ++four) {
        const int first = static_cast<int>(random() % 3),
                  second = first + 1 + static_cast<int>(random() % static_cast<unsigned>(3 - first));
        // Fours 2, 3, 6, 7 of 16 bits lie in the upper lanes, fours 4 to 7 of bytes.
        const bool upper = of.bits == 16 ? (four & 2) != 0 : four >= 4;
        const int pair = of.bits == 16 ? four % 2 + four / 4 * 2 : four % 4;
        const int lane = upper ? i + 16 : i;
        put_bits(32, lane, 2 * pair, of.one);
        put_bits(32, lane, 2 * pair + 1, of.minus_one);
        on.wave().row(64)[static_cast<std::size_t>(lane)] |= static_cast<u32>(first | second << 2) << (4 * pair + key);
        for (int j = 0; j < 16; ++j) wanted[i][j] += b[4 * four + first][j] - b[4 * four + second][j];
      }
    on.execute(n);
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 16; ++j)
        ASSERT_EQ(std::bit_cast<float>(on.vector(i % 8, i < 8 ? j : j + 16)), wanted[i][j])
            << of.line << " " << i << " " << j;
  }
}

TEST_F(AmdMatrixTest, IntegersWrapAndAreSignedAsToldTo) {
  Bench on = bench("gfx1201", {"v_wmma_i32_16x16x16_iu8 v[0:7], v[32:33], v[48:49], v[64:71] neg_lo:[1,1,0]",
                               "v_wmma_i32_16x16x16_iu8 v[0:7], v[32:33], v[48:49], v[64:71] neg_lo:[0,1,0]",
                               "v_wmma_i32_16x16x16_iu8 v[0:7], v[32:33], v[48:49], v[64:71]"});
  for (const int r : {32, 33, 48, 49}) on.set_vector(r, [](int) { return 0xffffffffu; });
  for (int r = 64; r < 72; ++r) on.set_vector(r, [](int) { return 0x7fffffffu; });
  on.execute(0);
  EXPECT_EQ(on.vector(3, 3), 0x7fffffffu + 16);
  on.execute(1);
  EXPECT_EQ(on.vector(3, 3), 0x7fffffffu - 16 * 255);
  on.execute(2);
  EXPECT_EQ(on.vector(3, 3), 0x7fffffffu + 16 * 255 * 255);
}

TEST_F(AmdMatrixTest, Cdna2FlushesDenormals) {
  for (const std::string_view chip : {"gfx90a", "gfx942"}) {
    const bool flushes = chip == "gfx90a";
    Bench on = bench(chip, {flushes ? "v_mfma_f32_16x16x16f16 a[0:3], v[32:33], v[48:49], 0"
                                    : "v_mfma_f32_16x16x16_f16 a[0:3], v[32:33], v[48:49], 0"});
    for (const int r : {32, 33}) on.set_vector(r, [](int) { return 0x00010001u; });  // 2^-24
    for (const int r : {48, 49}) on.set_vector(r, [](int) { return 0x3c003c00u; });
    on.execute(0);
    EXPECT_EQ(std::bit_cast<float>(on.vector(kAccumulation, 20)), flushes ? 0.0f : 0x1p-20f) << chip;
  }
}

TEST_F(AmdMatrixTest, HalvesOfAWaveThatDifferAreAFault) {
  Bench on = bench("gfx1100", {"v_wmma_f32_16x16x16_f16 v[0:7], v[32:39], v[48:55], v[64:71]"});
  for (int r = 32; r < 72; ++r) on.set_vector(r, [](int) { return 0u; });
  on.execute(0);
  on.set_vector(35, [](int lane) { return lane == 17 ? 1u : 0u; });
  EXPECT_THROW(on.execute(0), std::runtime_error);
}

}  // namespace
}  // namespace tilesmith::amdgpu
