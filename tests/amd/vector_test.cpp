// Vector integer and float instructions, comparisons, modifiers and conversions, against values from the ISA documents
// that are worked out in another way than the interpreter does.
#include <cmath>
#include <random>

#include "amd/bench.hpp"
#include "amd/float_formats.hpp"

namespace tilesmith::amdgpu {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i32 = std::int32_t;
using i64 = std::int64_t;

u32 bits(float x) {
  return std::bit_cast<u32>(x);
}
float real(u32 x) {
  return std::bit_cast<float>(x);
}

class AmdVectorTest : public InstructionTest {
 protected:
  // Awkward words first, then any.
  u32 any() {
    constexpr u32 kAwkward[] = {0, 1, 0xffffffff, 0x80000000, 0x7fffffff, 0xffff, 0x10000, 0xff, 31, 32};
    return random_() % 3 == 0 ? kAwkward[random_() % std::size(kAwkward)] : static_cast<u32>(random_());
  }
  /// v0 = operation of v1, v2, v3 in every lane, of which half are active.
  struct Case {
    std::string line;
    std::function<u32(u32 a, u32 b, u32 c)> wanted;
  };
  void check(std::string_view chip, const std::vector<Case>& cases, const std::function<u32()>& value) {
    std::vector<std::string> lines;
    for (const Case& c : cases) lines.push_back(c.line);
    Bench on = bench(chip, lines);
    ASSERT_EQ(on.size(), cases.size());
    for (std::size_t i = 0; i < cases.size(); ++i) {
      u32 in[3][kLanes];
      for (auto& each : in)
        for (u32& word : each) word = value();
      for (int k = 0; k < 3; ++k) on.set_vector(k + 1, [&](int lane) { return in[k][lane]; });
      on.set_vector(0, [](int) { return 0x5a5a5a5au; });
      const u64 exec = u64{random_()} << 32 | random_();
      on.wave().set_mask(kExec, exec);
      on.execute(i);
      for (int lane = 0; lane < on.wave().lanes; ++lane) {
        const u32 wanted =
            (exec >> lane & 1) != 0 ? cases[i].wanted(in[0][lane], in[1][lane], in[2][lane]) : 0x5a5a5a5a;
        ASSERT_EQ(on.vector(0, lane), wanted) << std::hex << chip << " " << on.text(i) << " of " << in[0][lane] << " "
                                              << in[1][lane] << " " << in[2][lane];
      }
    }
  }
  std::mt19937 random_{17};
};

TEST_F(AmdVectorTest, Integers) {
  const auto value = [&] { return any(); };
  const std::vector<Case> common = {
      {"v_and_b32 v0, v1, v2", [](u32 a, u32 b, u32) { return a & b; }},
      {"v_or3_b32 v0, v1, v2, v3", [](u32 a, u32 b, u32 c) { return a | b | c; }},
      {"v_and_or_b32 v0, v1, v2, v3", [](u32 a, u32 b, u32 c) { return (a & b) | c; }},
      {"v_xor_b32 v0, v1, v2", [](u32 a, u32 b, u32) { return a ^ b; }},
      {"v_not_b32 v0, v1", [](u32 a, u32, u32) { return 0xffffffff - a; }},
      {"v_bfi_b32 v0, v1, v2, v3",
       [](u32 a, u32 b, u32 c) {
         u32 r = 0;
         for (int i = 0; i < 32; ++i) r |= ((a >> i & 1) != 0 ? b : c) & 1u << i;
         return r;
       }},
      {"v_bfe_u32 v0, v1, v2, v3",
       [](u32 a, u32 b, u32 c) { return static_cast<u32>((u64{a} >> (b % 32)) % (u64{1} << (c % 32))); }},
      {"v_bfe_i32 v0, v1, 4, 8",
       [](u32 a, u32, u32) { return static_cast<u32>(i32{static_cast<std::int8_t>(a >> 4)}); }},
      {"v_lshl_or_b32 v0, v1, v2, v3", [](u32 a, u32 b, u32 c) { return static_cast<u32>(u64{a} << (b % 32)) | c; }},
      {"v_lshl_add_u32 v0, v1, v2, v3", [](u32 a, u32 b, u32 c) { return static_cast<u32>((u64{a} << (b % 32)) + c); }},
      {"v_add_lshl_u32 v0, v1, v2, v3", [](u32 a, u32 b, u32 c) { return static_cast<u32>((u64{a} + b) << (c % 32)); }},
      {"v_add3_u32 v0, v1, v2, v3", [](u32 a, u32 b, u32 c) { return static_cast<u32>(u64{a} + b + c); }},
      {"v_lshlrev_b32 v0, v1, v2", [](u32 a, u32 b, u32) { return static_cast<u32>(u64{b} << (a % 32)); }},
      {"v_lshrrev_b32 v0, v1, v2", [](u32 a, u32 b, u32) { return static_cast<u32>(u64{b} >> (a % 32)); }},
      {"v_ashrrev_i32 v0, v1, v2",
       [](u32 a, u32 b, u32) { return static_cast<u32>(i64{static_cast<i32>(b)} >> (a % 32)); }},
      {"v_mul_lo_u32 v0, v1, v2", [](u32 a, u32 b, u32) { return static_cast<u32>(u64{a} * b); }},
      {"v_mul_hi_u32 v0, v1, v2", [](u32 a, u32 b, u32) { return static_cast<u32>((u64{a} * b) / 0x100000000u); }},
      {"v_mul_hi_i32 v0, v1, v2",
       [](u32 a, u32 b, u32) {
         return static_cast<u32>(static_cast<u64>(i64{static_cast<i32>(a)} * i64{static_cast<i32>(b)}) / 0x100000000u);
       }},
      {"v_mul_u32_u24 v0, v1, v2",
       [](u32 a, u32 b, u32) { return static_cast<u32>(u64{a % 0x1000000} * (b % 0x1000000)); }},
      {"v_min_u32 v0, v1, v2", [](u32 a, u32 b, u32) { return a < b ? a : b; }},
      {"v_max_i32 v0, v1, v2", [](u32 a, u32 b, u32) { return static_cast<i32>(a) > static_cast<i32>(b) ? a : b; }},
      {"v_perm_b32 v0, v1, v2, v3",
       [](u32 a, u32 b, u32 c) {
         // Bytes 0 to 3 of b, then those of a; 8 to 11 signs of bytes 1, 3, 5, 7; 12: 0; above: 255.
         u32 r = 0;
         for (int i = 0; i < 4; ++i) {
           const u32 s = c >> (8 * i) & 255;
           const auto byte = [&](u32 n) { return (n < 4 ? b >> (8 * n) : a >> (8 * (n - 4))) & 255; };
           const u32 v = s < 8 ? byte(s) : s < 12 ? (byte(2 * (s - 8) + 1) > 127 ? 255 : 0) : s == 12 ? 0 : 255;
           r |= v << (8 * i);
         }
         return r;
       }},
      {"v_alignbit_b32 v0, v1, v2, v3",
       [](u32 a, u32 b, u32 c) {
         const u32 n = c % 32;
         return n == 0 ? b : a << (32 - n) | b >> n;
       }},
      {"v_bfrev_b32 v0, v1",
       [](u32 a, u32, u32) {
         u32 r = 0;
         for (int i = 0; i < 32; ++i, a /= 2) r = 2 * r + a % 2;
         return r;
       }},
      {"v_bcnt_u32_b32 v0, v1, v2",
       [](u32 a, u32 b, u32) {
         for (; a != 0; a >>= 1) b += a & 1;
         return b;
       }},
      {"v_cvt_f32_u32 v0, v1", [](u32 a, u32, u32) { return bits(static_cast<float>(static_cast<double>(a))); }},
      {"v_cvt_f32_i32 v0, v1",
       [](u32 a, u32, u32) { return bits(static_cast<float>(static_cast<double>(static_cast<i32>(a)))); }},
      {"v_cvt_f32_ubyte2 v0, v1", [](u32 a, u32, u32) { return bits(static_cast<float>(a / 0x10000 % 256)); }},
      {"v_mov_b32 v0, 0xdeadbeef", [](u32, u32, u32) { return 0xdeadbeef; }},
      {"v_mov_b32 v0, -16", [](u32, u32, u32) { return 0xfffffff0; }},
      {"v_mov_b32 v0, 4.0", [](u32, u32, u32) { return 0x40800000; }},
  };
  for (const auto chip : kAllChips) check(chip, common, value);
  check("gfx942",
        {{"v_add_u32 v0, v1, v2", [](u32 a, u32 b, u32) { return static_cast<u32>(u64{a} + b); }},
         {"v_add_u32_e64 v0, v1, v2 clamp",
          [](u32 a, u32 b, u32) { return static_cast<u32>(std::min<u64>(u64{a} + b, 0xffffffff)); }},
         {"v_sub_u32_e64 v0, v1, v2 clamp", [](u32 a, u32 b, u32) { return a < b ? 0 : a - b; }},
         {"v_subrev_u32_e64 v0, v1, v2 clamp", [](u32 a, u32 b, u32) { return b < a ? 0 : b - a; }},
         {"v_sub_i32 v0, v1, v2 clamp",
          [](u32 a, u32 b, u32) {
            const i64 exact = i64{static_cast<i32>(a)} - static_cast<i32>(b);
            return exact > 0x7fffffff ? 0x7fffffff : exact < -0x80000000ll ? 0x80000000 : static_cast<u32>(exact);
          }},
         {"v_subrev_u32 v0, v1, v2", [](u32 a, u32 b, u32) { return static_cast<u32>(i64{b} - a); }},
         {"v_add_u16 v0, v1, v2", [](u32 a, u32 b, u32) { return (a + b) % 0x10000; }},
         {"v_pk_add_u16 v0, v1, v2",
          [](u32 a, u32 b, u32) { return (a + b) % 0x10000 | (a / 0x10000 + b / 0x10000) % 0x10000 << 16; }},
         {"v_pk_lshlrev_b16 v0, 4, v2 op_sel_hi:[0,1]",
          [](u32, u32 b, u32) { return (b << 4) % 0x10000 | ((b / 0x10000) << 4) % 0x10000 << 16; }},
         {"v_or_b32_sdwa v0, v1, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 src1_sel:WORD_1",
          [](u32 a, u32 b, u32) { return a / 256 % 256 | b / 0x10000; }},
         {"v_and_b32_sdwa v0, v1, v2 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:DWORD",
          [](u32 a, u32 b, u32) { return (a / 0x10000 & b) << 16; }},
         {"v_mov_b32_sdwa v0, v1 dst_sel:BYTE_2 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_3",
          [](u32 a, u32, u32) { return 0x5a005a5a | a / 0x1000000 << 16; }},
         {"v_mov_b32_sdwa v0, sext(v1) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_0",
          [](u32 a, u32, u32) { return a % 256 < 128 ? a % 256 : a % 256 + 0xffffff00; }}},
        value);
  check("gfx950",
        {{"v_bitop3_b32 v0, v1, v2, v3 bitop3:0x96", [](u32 a, u32 b, u32 c) { return a ^ b ^ c; }},
         {"v_bitop3_b32 v0, v1, v2, v3 bitop3:0xca", [](u32 a, u32 b, u32 c) { return (a & b) | (~a & c); }},
         {"v_bitop3_b32 v0, v1, v2, v3 bitop3:0x10", [](u32 a, u32 b, u32 c) { return a & ~b & ~c; }}},
        value);
  check("gfx1100",
        {{"v_add_nc_u32 v0, v1, v2", [](u32 a, u32 b, u32) { return static_cast<u32>(u64{a} + b); }},
         {"v_add_nc_u16 v0.l, v1.h, v2.l", [](u32 a, u32 b, u32) { return 0x5a5a0000 | (a / 0x10000 + b) % 0x10000; }},
         {"v_sub_nc_u16 v0.h, v1.l, v2.h",
          [](u32 a, u32 b, u32) { return ((a - b / 0x10000) % 0x10000) << 16 | 0x5a5a; }},
         {"v_lshrrev_b16 v0.l, 3, v1.h", [](u32 a, u32, u32) { return 0x5a5a0000 | a / 0x10000 / 8; }},
         {"v_mov_b16 v0.h, v1.l", [](u32 a, u32, u32) { return a << 16 | 0x5a5a; }},
         {"v_mul_i32_i24 v0, v1, v2",
          [](u32 a, u32 b, u32) {
            const auto low = [](u32 x) {
              return x % 0x1000000 < 0x800000 ? i64{x % 0x1000000} : i64{x % 0x1000000} - 0x1000000;
            };
            return static_cast<u32>(low(a) * low(b));
          }}},
        value);
}

TEST_F(AmdVectorTest, PairsOf64Bits) {
  for (const std::string_view chip : {"gfx942", "gfx1100", "gfx1201"}) {
    const bool cdna = chip == "gfx942";
    const std::string mask = cdna ? "vcc" : "vcc_lo";
    Bench on = bench(chip, {"v_lshlrev_b64 v[0:1], v2, v[4:5]", "v_lshrrev_b64 v[0:1], v2, v[4:5]",
                            "v_ashrrev_i64 v[0:1], v2, v[4:5]",
                            (chip == "gfx1201" ? "v_mad_co_u64_u32" : "v_mad_u64_u32") + std::string(" v[0:1], ") +
                                (cdna ? "s[0:1]" : "s0") + ", v2, v3, v[4:5]",
                            "v_add_co_u32 v0, " + mask + ", v2, v4",
                            (cdna ? "v_addc_co_u32 v1, " : "v_add_co_ci_u32 v1, ") + mask + ", v3, v5, " + mask,
                            "v_sub_co_u32 v0, " + mask + ", v2, v4",
                            (cdna ? "v_subb_co_u32 v1, " : "v_sub_co_ci_u32 v1, ") + mask + ", v3, v5, " + mask});
    for (int round = 0; round < 8; ++round) {
      u32 in[4][kLanes];
      for (auto& each : in)
        for (u32& word : each) word = any();
      for (int k = 0; k < 4; ++k) on.set_vector(k + 2, [&](int lane) { return in[k][lane]; });
      const auto expect = [&](std::string_view what, const std::function<u64(u64 a, u64 b)>& wanted) {
        for (int lane = 0; lane < on.wave().lanes; ++lane) {
          const u64 a = u64{in[1][lane]} << 32 | in[0][lane], b = u64{in[3][lane]} << 32 | in[2][lane];
          ASSERT_EQ(u64{on.vector(1, lane)} << 32 | on.vector(0, lane), wanted(a, b)) << chip << " " << what;
        }
      };
      on.execute(0);
      expect("shift left", [](u64 a, u64 b) {
        for (u64 n = a % 64; n > 0; --n) b += b;
        return b;
      });
      on.execute(1);
      expect("shift right", [](u64 a, u64 b) {
        for (u64 n = a % 64; n > 0; --n) b /= 2;
        return b;
      });
      on.execute(2);
      expect("arithmetic shift", [](u64 a, u64 b) {
        for (u64 n = a % 64; n > 0; --n) b = b / 2 | (b & u64{1} << 63);
        return b;
      });
      on.execute(3);
      expect("multiply and add", [](u64 a, u64 b) { return (a % 0x100000000u) * (a / 0x100000000u) + b; });
      on.execute(4);
      on.execute(5);
      expect("add with carry", [](u64 a, u64 b) { return a + b; });
      on.execute(6);
      on.execute(7);
      expect("subtract with borrow", [](u64 a, u64 b) { return a - b; });
    }
  }
}

TEST_F(AmdVectorTest, FloatsWithModifiers) {
  const auto value = [&] {
    constexpr float kAwkward[] = {0.0f,      -0.0f,       1.0f,  -1.0f,    0.5f,     3.0f,
                                  0x1p-149f, 0x1.8p-127f, 1e38f, INFINITY, -INFINITY};
    return random_() % 3 == 0 ? bits(kAwkward[random_() % std::size(kAwkward)])
                              : bits(std::ldexp(static_cast<float>(static_cast<i32>(random_())), -31));
  };
  const auto of = [](const std::function<double(double, double, double)>& f) {
    return [f](u32 a, u32 b, u32 c) {
      const auto r = static_cast<float>(f(real(a), real(b), real(c)));
      return std::isnan(r) ? 0x7fc00000u : bits(r);
    };
  };
  std::vector<Case> cases = {
      {"v_add_f32 v0, v1, v2", of([](double a, double b, double) { return a + b; })},
      {"v_sub_f32 v0, v1, v2", of([](double a, double b, double) { return a - b; })},
      {"v_subrev_f32 v0, v1, v2", of([](double a, double b, double) { return b - a; })},
      {"v_mul_f32 v0, -v1, v2", of([](double a, double b, double) { return -a * b; })},
      {"v_mul_f32 v0, |v1|, -|v2|", of([](double a, double b, double) { return -std::fabs(a) * std::fabs(b); })},
      {"v_add_f32 v0, v1, v2 mul:2", of([](double a, double b, double) { return 2 * (a + b); })},
      {"v_max_f32 v0, v1, v2 clamp",
       of([](double a, double b, double) { return std::fmin(std::fmax(std::fmax(a, b), 0), 1); })},
      {"v_med3_f32 v0, v1, v2, v3",
       of([](double a, double b, double c) { return std::fmax(std::fmin(a, b), std::fmin(std::fmax(a, b), c)); })},
      {"v_cvt_f32_f16 v0, 1.0", of([](double, double, double) { return 1; })},
      {"v_rndne_f32 v0, v1", of([](double a, double, double) { return std::nearbyint(a); })},
      {"v_floor_f32 v0, v1", of([](double a, double, double) { return std::floor(a); })},
  };
  for (Case& c : cases) c.wanted = [f = c.wanted](u32 a, u32 b, u32 d) { return f(a, b, d); };
  const auto finite = [&] {
    u32 word = value();
    while (!std::isfinite(real(word)) || std::fabs(real(word)) > 1e30f) word = value();
    return word;
  };
  check("gfx942", cases, finite);
  cases.erase(cases.begin() + 6, cases.begin() + 8);  // RDNA 4 names minima and maxima otherwise
  check("gfx1100", cases, finite);
  check("gfx1201", cases, finite);
}

TEST_F(AmdVectorTest, FusedProductsRoundOnce) {
  // (1 + 2^-12)^2 - 1 = 2^-11 + 2^-24: a product rounded on its own would lose the last term.
  const float a = 1 + 0x1p-12f, exact = 0x1p-11f + 0x1p-24f;
  Bench on =
      bench("gfx942", {"v_fma_f32 v0, v1, v1, v2", "v_fmac_f32 v3, v1, v1", "v_fmaak_f32 v0, v1, v1, 0xbf800000",
                       "v_pk_fma_f32 v[4:5], v[6:7], v[6:7], v[8:9] op_sel_hi:[0,0,1] neg_lo:[1,0,0]",
                       "v_fma_mixlo_f16 v10, v1, v1, v11 op_sel_hi:[0,0,1]", "v_fma_mixhi_f16 v10, -v1, 1.0, v2"});
  on.set_vector(1, [&](int) { return bits(a); });
  on.set_vector(2, [](int) { return bits(-1.0f); });
  on.set_vector(3, [](int) { return bits(-1.0f); });
  on.set_vector(6, [&](int) { return bits(a); });
  on.set_vector(8, [](int) { return bits(1.0f); });
  on.set_vector(9, [](int) { return bits(-1.0f); });
  on.set_vector(10, [](int) { return 0x12345678u; });
  on.set_vector(11, [](int) { return 0x0000bc00u; });  // -1 in fp16
  for (std::size_t i = 0; i < on.size(); ++i) on.execute(i);
  EXPECT_EQ(on.vector(0, 5), bits(exact));
  EXPECT_EQ(on.vector(3, 5), bits(exact));
  EXPECT_EQ(on.vector(4, 5), bits(-exact));
  EXPECT_EQ(on.vector(5, 5), bits(exact)) << "both upper results read the lower word of v[6:7]";
  EXPECT_EQ(on.vector(10, 5) & 0xffff, 0x1000u) << "2^-11";
  EXPECT_EQ(on.vector(10, 5) >> 16, 0xc000u) << "-(1 + 2^-12) - 1 to nearest even";
}

// The compiler's sequence for a division is right to the last bit, denormals and overflow included.
TEST_F(AmdVectorTest, DivisionStepsDivide) {
  Bench on =
      bench("gfx942", {"v_div_scale_f32 v2, s[0:1], v1, v1, v0", "v_div_scale_f32 v3, vcc, v0, v1, v0",
                       "v_rcp_f32 v4, v2", "v_fma_f32 v5, -v2, v4, 1.0", "v_fma_f32 v4, v5, v4, v4",
                       "v_mul_f32 v5, v3, v4", "v_fma_f32 v6, -v2, v5, v3", "v_fma_f32 v5, v6, v4, v5",
                       "v_fma_f32 v2, -v2, v5, v3", "v_div_fmas_f32 v2, v2, v4, v5", "v_div_fixup_f32 v7, v2, v1, v0"});
  const float awkward[] = {0.0f, -1.0f, 3.0f, 1e-40f, -1e-45f, 3e38f, 1e-30f, 1e30f, 0x1p-126f, -INFINITY, 7e-10f};
  for (int round = 0; round < 20; ++round) {
    const auto value = [&] {
      if (round < 2) return awkward[random_() % std::size(awkward)];
      return std::ldexp(1 + static_cast<float>(random_() % 0x800000) * 0x1p-23f, static_cast<int>(random_() % 60) - 30);
    };
    float in[2][kLanes];
    for (auto& each : in)
      for (float& x : each) x = value();
    for (int k = 0; k < 2; ++k) on.set_vector(k, [&](int lane) { return bits(in[k][lane]); });
    for (std::size_t i = 0; i < on.size(); ++i) on.execute(i);
    for (int lane = 0; lane < kLanes; ++lane) {
      const float wanted = in[0][lane] / in[1][lane], got = real(on.vector(7, lane));
      if (std::isnan(wanted)) {
        ASSERT_TRUE(std::isnan(got)) << in[0][lane] << " / " << in[1][lane];
      } else {
        ASSERT_EQ(bits(got), bits(wanted)) << in[0][lane] << " / " << in[1][lane];
      }
    }
  }
}

TEST_F(AmdVectorTest, ComparisonsWriteMasks) {
  Bench on = bench("gfx942", {"v_cmp_gt_i32 vcc, v1, v2", "v_cmp_lt_f32_e64 s[4:5], v3, -v4", "v_cmp_u_f32 vcc, v3, v4",
                              "v_cmp_nge_f32 vcc, v3, v4", "v_cmp_class_f32_e64 s[4:5], v3, 3",
                              "v_cndmask_b32 v0, v1, v2, vcc", "v_cmpx_eq_u32 vcc, v1, v2"});
  on.set_vector(1, [](int lane) { return static_cast<u32>(lane - 32); });
  on.set_vector(2, [](int) { return 0u; });
  on.set_vector(3, [](int lane) {
    return lane == 9 ? 0x7fc00000u : lane == 10 ? 0x7f800001u : bits(static_cast<float>(lane));
  });
  on.set_vector(4, [](int) { return bits(-12.0f); });
  on.wave().set_mask(kExec, ~u64{0xf0});
  on.execute(0);
  EXPECT_EQ(on.wave().mask(kVcc), ~((u64{1} << 33) - 1));
  on.execute(1);
  EXPECT_EQ(on.wave().scalar_pair(4), 0xfffu & ~0x6f0u) << "3 to 12, but NaN in lanes 9 and 10 and inactive 4 to 7";
  on.execute(2);
  EXPECT_EQ(on.wave().mask(kVcc), 0x600u);
  on.execute(3);
  EXPECT_EQ(on.wave().mask(kVcc), 0x600u) << "not (x >= -12) holds for NaN alone";
  on.execute(4);
  EXPECT_EQ(on.wave().scalar_pair(4), 0x600u) << "signalling and quiet NaN";
  on.wave().set_mask(kVcc, 0xff);
  on.execute(5);
  EXPECT_EQ(on.vector(0, 1), 0u);
  EXPECT_EQ(on.vector(0, 4), kPoison) << "inactive";
  EXPECT_EQ(on.vector(0, 8), static_cast<u32>(8 - 32));
  on.execute(6);
  EXPECT_EQ(on.wave().exec(), u64{1} << 32);
  EXPECT_EQ(on.wave().mask(kVcc), u64{1} << 32);

  Bench narrow = bench("gfx1100", {"v_cmpx_gt_u32 v1, v2", "v_cmp_eq_u32_e64 s4, 3, v1"});
  narrow.set_vector(1, [](int lane) { return static_cast<u32>(lane); });
  narrow.set_vector(2, [](int) { return 15u; });
  narrow.wave().set_scalar(kVcc, 0x77);
  narrow.wave().set_scalar(5, 0x99);
  narrow.execute(0);
  EXPECT_EQ(narrow.wave().exec(), 0xffff0000u);
  EXPECT_EQ(narrow.wave().scalar(kVcc), 0x77u) << "RDNA's V_CMPX writes EXEC alone";
  narrow.execute(1);
  EXPECT_EQ(narrow.wave().scalar(4), 0u) << "lane 3 is inactive";
  EXPECT_EQ(narrow.wave().scalar(5), 0x99u) << "a mask of one word";
}

TEST_F(AmdVectorTest, Conversions) {
  struct Conversion {
    std::string line;  ///< v0 of v1 and v2
    u32 a, b, wanted;
  };
  const u32 old = 0x5a5a5a5a;
  const std::vector<Conversion> cdna = {
      {"v_cvt_f16_f32 v0, v1", bits(1.0f + 0x1p-11f), 0, 0x3c00},  // a tie to even
      {"v_cvt_f16_f32 v0, v1", bits(1.0f + 0x3p-11f), 0, 0x3c02},  // a tie to even, upwards
      {"v_cvt_f16_f32 v0, v1", bits(65519.0f), 0, 0x7bff},         // below the tie of the largest
      {"v_cvt_f16_f32 v0, v1", bits(65520.0f), 0, 0x7c00},         // infinity
      {"v_cvt_f16_f32 v0, v1", bits(0x1p-24f), 0, 0x0001},         // the smallest denormal
      {"v_cvt_f16_f32 v0, v1", bits(0x1p-25f), 0, 0x0000},         // half of it, to even
      {"v_cvt_f16_f32 v0, v1", bits(-0x1.8p-25f), 0, 0x8001},      //
      {"v_cvt_f32_f16 v0, v1", 0xffff8001, 0, bits(-0x1p-24f)},    // the upper half does not matter
      {"v_cvt_pkrtz_f16_f32 v0, v1, v2", bits(1.9999f), bits(-1.9999f), 0xbfff3fff},
      {"v_cvt_i32_f32 v0, v1", bits(-1.9f), 0, 0xffffffff},
      {"v_cvt_i32_f32 v0, v1", bits(3e9f), 0, 0x7fffffff},
      {"v_cvt_i32_f32 v0, v1", 0x7fc00000, 0, 0},
      {"v_cvt_u32_f32 v0, v1", bits(-5.0f), 0, 0},
      {"v_cvt_u32_f32 v0, v1", bits(4294967040.0f), 0, 4294967040u},
      {"v_cvt_f32_u32 v0, v1", 0x1000001, 0, bits(16777216.0f)},
      {"v_pack_b32_f16 v0, v1, v2", 0x11112222, 0x33334444, 0x44442222},
      {"v_pack_b32_f16 v0, v1, v2 op_sel:[1,0,0]", 0x11112222, 0x33334444, 0x44441111},
      {"v_exp_f32 v0, v1", bits(3.0f), 0, bits(8.0f)},
      {"v_exp_f32 v0, v1", bits(-140.0f), 0, 0},                  // a denormal result is flushed
      {"v_log_f32 v0, v1", bits(0x1p-140f), 0, bits(-INFINITY)},  // a denormal operand is flushed
      {"v_rcp_f32 v0, v1", bits(-4.0f), 0, bits(-0.25f)},
      {"v_sqrt_f32 v0, v1", bits(2.25f), 0, bits(1.5f)},
      {"v_ldexp_f32 v0, v1, v2", bits(3.0f), static_cast<u32>(-5), bits(0.09375f)},
      {"v_fract_f32 v0, v1", bits(-1.25f), 0, bits(0.75f)},
      {"v_max_f32 v0, v1, v2", 0x7fc00000, bits(2.0f), bits(2.0f)},  // a quiet NaN gives way
      {"v_max_f32 v0, v1, v2", 0x7f800001, bits(2.0f), 0x7fc00000},  // a signalling one does not
      {"v_min_f32 v0, v1, v2", 0, 0x80000000, 0x80000000},
      {"v_cvt_pk_u16_u32 v0, v1, v2", 0x12345, 7, 0x0007ffff},
      {"v_cvt_pk_i16_i32 v0, v1, v2", static_cast<u32>(-40000), 40000, 0x7fff8000},
      {"v_cvt_pknorm_i16_f32 v0, v1, v2", bits(1.0f), bits(-0.5f), 0xc0007fff},
      {"v_mul_f16 v0, v1, v2", 0xffff4000, 0xffff3800, 0x3c00},  // the upper half is cleared
      {"v_add_f16 v0, v1, -v2", 0x3c00, 0x4000, 0xbc00},
      {"v_pk_mul_f16 v0, v1, v2", 0x3c004000, 0x42003800, 0x42003c00},
      {"v_pk_mul_f16 v0, v1, v2 neg_lo:[1,0] neg_hi:[0,1]", 0x3c004000, 0x42003800, 0xc200bc00},
      {"v_pk_fma_f16 v0, v1, v2, v1 op_sel:[1,0,0] op_sel_hi:[0,1,1]", 0x3c004000, 0x42003800, 0x47004100},
      {"v_pk_max_f16 v0, v1, v2", 0x3c004000, 0xc2003800, 0x3c004000},
      {"v_dot2_f32_f16 v0, v1, v2, 1.0", 0x3c004000, 0x42003800, bits(5.0f)},
      {"v_dot4_i32_i8 v0, v1, v2, 10", 0x7f80ff02, 0x010203fe, static_cast<u32>(127 - 256 - 3 - 4 + 10)},
  };
  const std::vector<Conversion> fnuz = {
      {"v_cvt_pk_fp8_f32 v0, v1, v2", bits(1.0f), bits(-240.0f), (old & 0xffff0000) | 0xff40},  // bias 8
      {"v_cvt_pk_bf8_f32 v0, v1, v2 op_sel:[0,0,1]", bits(1.0f), bits(-0.0f), (old & 0xffff) | 0x00400000},
      {"v_cvt_f32_fp8 v0, v1", 0x40, 0, bits(1.0f)},
      {"v_cvt_f32_fp8 v0, v1", 0x80, 0, 0x7fc00000},  // the only NaN
  };
  const std::vector<Conversion> ocp = {
      {"v_cvt_pk_fp8_f32 v0, v1, v2", bits(1.0f), bits(-448.0f), (old & 0xffff0000) | 0xfe38},  // bias 7
      {"v_cvt_pk_fp8_f32 v0, v1, v2", bits(17.0f), bits(19.0f), (old & 0xffff0000) | 0x5a58},   // ties to even
      {"v_cvt_pk_bf16_f32 v0, v1, v2", bits(1.0f + 0x1p-8f), bits(1.0f + 0x3p-8f), 0x3f823f80},
      {"v_cvt_pk_f16_f32 v0, v1, v2", bits(0.5f), bits(-2.0f), 0xc0003800},
  };
  const std::vector<Conversion> rdna = {
      {"v_cvt_f16_f32 v0.h, v1", bits(1.0f), 0, 0x3c005a5a},
      {"v_cvt_f32_f16 v0, v1.h", 0xc0003c00, 0, bits(-2.0f)},
      {"v_cvt_pk_rtz_f16_f32 v0, v1, v2", bits(1.9999f), bits(-1.9999f), 0xbfff3fff},
  };
  const auto run = [&](std::string_view chip, const std::vector<Conversion>& cases) {
    std::vector<std::string> lines;
    for (const Conversion& c : cases) lines.push_back(c.line);
    Bench on = bench(chip, lines);
    ASSERT_EQ(on.size(), cases.size());
    for (std::size_t i = 0; i < cases.size(); ++i) {
      on.set_vector(0, [&](int) { return old; });
      on.set_vector(1, [&](int) { return cases[i].a; });
      on.set_vector(2, [&](int) { return cases[i].b; });
      on.execute(i);
      EXPECT_EQ(on.vector(0, 31), cases[i].wanted) << std::hex << chip << " " << on.text(i) << " of " << cases[i].a;
    }
  };
  run("gfx90a", cdna);
  run("gfx942", cdna);
  run("gfx942", fnuz);
  run("gfx950", ocp);
  run("gfx1100", rdna);
}

// Every value of a format is its own rounding, and a value between two neighbours goes to the nearer.
TEST_F(AmdVectorTest, NarrowFormatsRoundToTheNearest) {
  for (const FloatFormat* format : {&kF16, &kBf16, &kE4m3, &kE5m2, &kE4m3Fnuz, &kE5m2Fnuz}) {
    const u32 positive = 1u << (format->bits() - 1);
    for (u32 word = 0; word + 1 < positive; ++word) {
      const double low = format->value(word), high = format->value(word + 1);
      if (!std::isfinite(low)) continue;
      ASSERT_EQ(format->round(low), word);
      if (!std::isfinite(high)) continue;
      ASSERT_LT(low, high);
      const double middle = (low + high) / 2;
      ASSERT_EQ(format->round(middle), word % 2 == 0 ? word : word + 1);
      ASSERT_EQ(format->round(std::nextafter(middle, 1e300)), word + 1);
      ASSERT_EQ(format->round(-std::nextafter(middle, 0)),
                word == 0 && format->special == FloatFormat::Special::fnuz ? 0 : word | positive);
    }
  }
}

TEST_F(AmdVectorTest, Float64) {
  Bench on =
      bench("gfx942", {"v_fma_f64 v[0:1], v[2:3], -v[4:5], v[6:7]", "v_cvt_f64_f32 v[8:9], v10",
                       "v_max_f64 v[8:9], v[8:9], 0.5", "v_cvt_f32_f64 v11, v[0:1]", "v_mov_b64 v[12:13], v[0:1]"});
  const auto set = [&](int index, double value) {
    const u64 word = std::bit_cast<u64>(value);
    on.set_vector(index, [word](int) { return static_cast<u32>(word); });
    on.set_vector(index + 1, [word](int) { return static_cast<u32>(word >> 32); });
  };
  const auto get = [&](int index) {
    return std::bit_cast<double>(u64{on.vector(index + 1, 9)} << 32 | on.vector(index, 9));
  };
  set(2, 1 + 0x1p-30);
  set(4, 1 + 0x1p-30);
  set(6, 1);
  on.set_vector(10, [](int) { return bits(-3.0f); });
  for (std::size_t i = 0; i < on.size(); ++i) on.execute(i);
  EXPECT_EQ(get(0), -(0x1p-29 + 0x1p-60)) << "rounded once";
  EXPECT_EQ(get(8), 0.5);
  EXPECT_EQ(real(on.vector(11, 9)), -0x1p-29f);
  EXPECT_EQ(get(12), get(0));
}

TEST_F(AmdVectorTest, DualInstructionsReadBeforeTheyWrite) {
  Bench on = bench("gfx1100", {"v_dual_mov_b32 v1, v2 :: v_dual_mov_b32 v2, v1",
                               "v_dual_cndmask_b32 v1, v3, v4 :: v_dual_fmaak_f32 v2, v4, v3, 0x3f800000"});
  on.set_vector(1, [](int) { return 1u; });
  on.set_vector(2, [](int) { return 2u; });
  on.execute(0);
  EXPECT_EQ(on.vector(1, 7), 2u);
  EXPECT_EQ(on.vector(2, 7), 1u);
  on.set_vector(3, [](int) { return bits(2.0f); });
  on.set_vector(4, [](int) { return bits(3.0f); });
  on.wave().set_mask(kVcc, 0xf);
  on.execute(1);
  EXPECT_EQ(on.vector(1, 3), bits(3.0f));
  EXPECT_EQ(on.vector(1, 4), bits(2.0f));
  EXPECT_EQ(on.vector(2, 7), bits(7.0f));
}

}  // namespace
}  // namespace tilesmith::amdgpu
