// Scalar instructions: results and SCC, against values worked out by hand from the ISA documents.
#include "amd/bench.hpp"

namespace tilesmith::amdgpu {
namespace {

class AmdScalarTest : public InstructionTest {};

struct Case {
  std::string line;  ///< s[0:1] = operation of s[2:3] and s[4:5]
  std::uint64_t a, b;
  std::uint64_t wanted;
  int scc;  ///< afterwards; -1: as before
  bool scc_before = false;
};

void check(Bench bench, const std::vector<Case>& cases) {
  ASSERT_EQ(bench.size(), cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    bench.reset();
    Wave& wave = bench.wave();
    wave.set_scalar_pair(2, c.a);
    wave.set_scalar_pair(4, c.b);
    wave.set_scalar_pair(0, 0);
    wave.scc = c.scc_before;
    bench.execute(i);
    EXPECT_EQ(wave.scalar_pair(0), c.wanted) << bench.text(i);
    EXPECT_EQ(wave.scc, c.scc < 0 ? c.scc_before : c.scc != 0) << bench.text(i);
  }
}

std::vector<std::string> lines_of(const std::vector<Case>& cases) {
  std::vector<std::string> lines;
  for (const Case& c : cases) lines.push_back(c.line);
  return lines;
}

TEST_F(AmdScalarTest, ArithmeticAndCarries) {
  const std::vector<Case> cases = {
      {"s_add_u32 s0, s2, s4", 0xffffffff, 2, 1, 1},
      {"s_add_u32 s0, s2, s4", 0xfffffffe, 1, 0xffffffff, 0},
      {"s_addc_u32 s0, s2, s4", 0xffffffff, 0, 0, 1, true},
      {"s_addc_u32 s0, s2, s4", 0xffffffff, 0xffffffff, 0xffffffff, 1, true},
      {"s_sub_u32 s0, s2, s4", 3, 4, 0xffffffff, 1},
      {"s_subb_u32 s0, s2, s4", 4, 4, 0xffffffff, 1, true},
      {"s_subb_u32 s0, s2, s4", 5, 4, 0, 0, true},
      {"s_add_i32 s0, s2, s4", 0x7fffffff, 1, 0x80000000, 1},
      {"s_add_i32 s0, s2, s4", 0xffffffff, 1, 0, 0},
      {"s_sub_i32 s0, s2, s4", 0x80000000, 1, 0x7fffffff, 1},
      {"s_mul_i32 s0, s2, s4", 0x10001, 0x10001, 0x20001, -1},
      {"s_mul_hi_u32 s0, s2, s4", 0xffffffff, 0xffffffff, 0xfffffffe, -1, true},
      {"s_mul_hi_i32 s0, s2, s4", 0xffffffff, 2, 0xffffffff, -1},
      {"s_abs_i32 s0, s2", 0xfffffff9, 0, 7, 1},
      {"s_abs_i32 s0, s2", 0, 0, 0, 0},
      {"s_min_i32 s0, s2, s4", 0xffffffff, 1, 0xffffffff, 1},
      {"s_max_i32 s0, s2, s4", 0xffffffff, 1, 1, 0},
      {"s_min_u32 s0, s2, s4", 0xffffffff, 1, 1, 0},
      {"s_max_u32 s0, s2, s4", 0xffffffff, 1, 0xffffffff, 1},
      {"s_movk_i32 s0, 0xff80", 0, 0, 0xffffff80, -1},
      {"s_cselect_b32 s0, s2, s4", 7, 9, 7, -1, true},
      {"s_cselect_b32 s0, s2, s4", 7, 9, 9, -1, false},
      {"s_cselect_b64 s[0:1], s[2:3], s[4:5]", 1ull << 40, 9, 1ull << 40, -1, true},
      {"s_mov_b64 s[0:1], -2", 0, 0, ~1ull, -1},
      {"s_mov_b64 s[0:1], 1.0", 0, 0, 0x3ff0000000000000ull, -1},
      {"s_mov_b32 s0, 0.5", 0, 0, 0x3f000000, -1},
      {"s_mov_b32 s0, 0x12345678", 0, 0, 0x12345678, -1},
  };
  for (const auto chip : {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"}) {
    SCOPED_TRACE(chip);
    check(bench(chip, lines_of(cases)), cases);
  }
}

TEST_F(AmdScalarTest, BitsAndShifts) {
  const std::vector<Case> cases = {
      {"s_and_b64 s[0:1], s[2:3], s[4:5]", 0xff00ff00ff00ff00ull, 0x0ff00ff00ff00ff0ull, 0x0f000f000f000f00ull, 1},
      {"s_and_b32 s0, s2, s4", 0xf0, 0x0f, 0, 0},
      {"s_or_b32 s0, s2, s4", 0xf0, 0x0f, 0xff, 1},
      {"s_xor_b64 s[0:1], s[2:3], s[4:5]", ~0ull, ~0ull, 0, 0},
      {"s_not_b32 s0, s2", 0xffffffff, 0, 0, 0},
      {"s_andn2_b32 s0, s2, s4", 0xff, 0x0f, 0xf0, 1},
      {"s_orn2_b64 s[0:1], s[2:3], s[4:5]", 0, ~1ull, 1, 1},
      {"s_lshl_b32 s0, s2, s4", 1, 33, 2, 1},
      {"s_lshl_b64 s[0:1], s[2:3], s4", 3, 63, 1ull << 63, 1},
      {"s_lshr_b64 s[0:1], s[2:3], s4", 1ull << 63, 63, 1, 1},
      {"s_lshr_b32 s0, s2, s4", 0x80000000, 31, 1, 1},
      {"s_ashr_i32 s0, s2, s4", 0x80000000, 31, 0xffffffff, 1},
      {"s_ashr_i64 s[0:1], s[2:3], s4", 1ull << 63, 62, ~1ull, 1},
      {"s_bfe_u32 s0, s2, 0x40004", 0xabcd, 0, 0xc, 1},
      {"s_bfe_i32 s0, s2, 0x40004", 0xabcd, 0, 0xfffffffc, 1},
      {"s_bfm_b32 s0, s2, s4", 4, 8, 0xf00, -1},
      {"s_bcnt1_i32_b32 s0, s2", 0xff00ff, 0, 16, 1},
      {"s_brev_b32 s0, s2", 1, 0, 0x80000000, -1},
      {"s_ff1_i32_b32 s0, s2", 0x100, 0, 8, -1},
      {"s_ff1_i32_b32 s0, s2", 0, 0, 0xffffffff, -1},
      {"s_flbit_i32_b32 s0, s2", 0x100, 0, 23, -1},
      {"s_sext_i32_i8 s0, s2", 0x80, 0, 0xffffff80, -1},
      {"s_sext_i32_i16 s0, s2", 0x17fff, 0, 0x7fff, -1},
      {"s_pack_lh_b32_b16 s0, s2, s4", 0x11112222, 0x33334444, 0x33332222, -1},
      {"s_lshl2_add_u32 s0, s2, s4", 5, 3, 23, 0},
  };
  for (const auto chip : {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"}) {
    SCOPED_TRACE(chip);
    check(bench(chip, lines_of(cases)), cases);
  }
}

TEST_F(AmdScalarTest, ComparesSetScc) {
  struct Compare {
    std::string line;
    std::uint32_t a, b;
    bool wanted;
  };
  const std::vector<Compare> cases = {
      {"s_cmp_lt_i32 s2, s4", 0xffffffff, 0, true}, {"s_cmp_lt_u32 s2, s4", 0xffffffff, 0, false},
      {"s_cmp_ge_u32 s2, s4", 5, 5, true},          {"s_cmp_gt_i32 s2, s4", 5, 5, false},
      {"s_cmp_lg_u32 s2, s4", 1, 2, true},          {"s_cmp_le_i32 s2, s4", 0x80000000, 0x7fffffff, true},
      {"s_cmp_eq_u64 s[2:3], s[4:5]", 7, 7, true},  {"s_bitcmp1_b32 s2, s4", 4, 2, true},
      {"s_bitcmp0_b32 s2, s4", 4, 2, false},
  };
  for (const auto chip : kAllChips) {
    std::vector<std::string> lines;
    for (const Compare& c : cases) lines.push_back(c.line);
    Bench on = bench(chip, lines);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      on.wave().set_scalar_pair(2, cases[i].a);
      on.wave().set_scalar_pair(4, cases[i].b);
      on.wave().scc = !cases[i].wanted;
      on.execute(i);
      EXPECT_EQ(on.wave().scc, cases[i].wanted) << chip << " " << on.text(i);
    }
  }
}

TEST_F(AmdScalarTest, MasksOfExecAreSaved) {
  Bench wide = bench("gfx942", {"s_and_saveexec_b64 s[0:1], s[2:3]", "s_or_b64 exec, exec, s[0:1]",
                                "s_andn2_saveexec_b64 s[0:1], s[2:3]", "s_or_saveexec_b64 s[0:1], s[2:3]"});
  Wave& wave = wide.wave();
  wave.set_mask(kExec, 0xff00ff00ff00ff00);
  wave.set_scalar_pair(2, 0x0ff00ff00ff00ff0);
  wide.execute(0);
  EXPECT_EQ(wave.exec(), 0x0f000f000f000f00u);
  EXPECT_EQ(wave.scalar_pair(0), 0xff00ff00ff00ff00u);
  EXPECT_TRUE(wave.scc);
  wide.execute(1);
  EXPECT_EQ(wave.exec(), 0xff00ff00ff00ff00u);
  wide.execute(2);
  EXPECT_EQ(wave.exec(), 0x00f000f000f000f0u);
  wide.execute(3);
  EXPECT_EQ(wave.exec(), 0x0ff00ff00ff00ff0u | 0x00f000f000f000f0u);

  Bench narrow = bench("gfx1100", {"s_and_saveexec_b32 s0, s2", "s_and_not1_saveexec_b32 s0, s2"});
  narrow.wave().set_scalar(kExec + 1, 0x1234);
  narrow.wave().set_mask(kExec, 0xf0f0f0f0);
  narrow.wave().set_scalar(2, 0x0f0f0f0f);
  narrow.execute(0);
  EXPECT_EQ(narrow.wave().exec(), 0u);
  EXPECT_FALSE(narrow.wave().scc);
  EXPECT_EQ(narrow.wave().scalar(0), 0xf0f0f0f0);
  EXPECT_EQ(narrow.wave().scalar(kExec + 1), 0x1234u) << "a wave of 32 has masks of one word";
  narrow.execute(1);
  EXPECT_EQ(narrow.wave().exec(), 0x0f0f0f0fu);
}

TEST_F(AmdScalarTest, FloatsAndBitsOfRdna4) {
  const auto bits = [](float x) { return std::uint64_t{std::bit_cast<std::uint32_t>(x)}; };
  const std::vector<Case> cases = {
      {"s_mul_f32 s0, s2, s4", bits(1.5f), bits(-2.0f), bits(-3.0f), -1},
      {"s_add_f32 s0, s2, s4", bits(16777216.0f), bits(1.0f), bits(16777216.0f), -1},
      {"s_fmaak_f32 s0, s2, s4, 0x41200000", bits(1.5f), bits(2.0f), bits(13.0f), -1},
      {"s_fmamk_f32 s0, s2, 0x41200000, s4", bits(1.5f), bits(2.0f), bits(17.0f), -1},
      {"s_cvt_f32_u32 s0, s2", 0xffffffff, 0, bits(4294967296.0f), -1},
      {"s_cvt_u32_f32 s0, s2", bits(-1.0f), 0, 0, -1},
      {"s_cvt_u32_f32 s0, s2", bits(5e9f), 0, 0xffffffff, -1},
      {"s_mul_u64 s[0:1], s[2:3], s[4:5]", 0x100000001ull, 0x100000001ull, 0x200000001ull, -1},
      {"s_add_nc_u64 s[0:1], s[2:3], s[4:5]", ~0ull, 2, 1, -1},
  };
  check(bench("gfx1201", lines_of(cases)), cases);
  Bench bits_of = bench("gfx1201", {"s_bitset0_b32 s0, 31", "s_bitset1_b32 s0, s2"});
  bits_of.wave().set_scalar(0, 0x80000001);
  bits_of.wave().set_scalar(2, 36);
  bits_of.execute_all();
  EXPECT_EQ(bits_of.wave().scalar(0), 0x11u);
  // A fused product's term is what it is written to; the product is not rounded before.
  Bench sum = bench("gfx1201", {"s_fmac_f32 s0, s2, s2"});
  sum.wave().set_scalar(0, std::bit_cast<std::uint32_t>(-0x1.002p0f));
  sum.wave().set_scalar(2, std::bit_cast<std::uint32_t>(0x1.001p0f));
  sum.execute_all();
  EXPECT_EQ(std::bit_cast<float>(sum.wave().scalar(0)), 0x1p-24f);
}

}  // namespace
}  // namespace tilesmith::amdgpu
