// What moves values between lanes: DPP, permutations, swaps, lanes to scalars. Lane l holds 100 + l.
#include "amd/bench.hpp"

namespace tilesmith::amdgpu {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

class AmdLanesTest : public InstructionTest {
 protected:
  static constexpr int kKept = -1, kZero = -2;
  struct Case {
    std::string line;                   ///< v0 of v1
    std::function<int(int lane)> from;  ///< the lane whose value comes, kKept or kZero
    u64 exec = ~u64{0};
  };
  void check(std::string_view chip, const std::vector<Case>& cases) {
    std::vector<std::string> lines;
    for (const Case& c : cases) lines.push_back(c.line);
    Bench on = bench(chip, lines);
    ASSERT_EQ(on.size(), cases.size());
    for (std::size_t i = 0; i < cases.size(); ++i) {
      on.set_vector(0, [](int) { return 7u; });
      on.set_vector(1, [](int lane) { return static_cast<u32>(100 + lane); });
      on.set_vector(2, [](int lane) { return static_cast<u32>(4 * ((lane * 7 + 3) % 64)); });
      on.set_vector(3, [](int lane) { return static_cast<u32>((lane * 5 + 1) % 16); });
      on.wave().set_scalar(2, 0x76543210);
      on.wave().set_scalar(3, 0xfedcba98);
      on.wave().set_scalar(4, 0x89abcdef);
      on.wave().set_scalar(5, 0x01234567);
      on.wave().set_mask(kExec, cases[i].exec & on.wave().all_lanes());
      on.execute(i);
      for (int lane = 0; lane < on.wave().lanes; ++lane) {
        const bool active = (cases[i].exec >> lane & 1) != 0;
        const int from = active ? cases[i].from(lane) : kKept;
        const u32 wanted = from == kKept ? 7u : from == kZero ? 0u : static_cast<u32>(100 + from);
        ASSERT_EQ(on.vector(0, lane), wanted) << chip << " " << on.text(i) << ", lane " << lane;
      }
    }
  }
};

TEST_F(AmdLanesTest, DppOfAllChips) {
  const std::vector<Case> cases = {
      {"v_mov_b32_dpp v0, v1 quad_perm:[3,0,2,1] row_mask:0xf bank_mask:0xf",
       [](int l) {
         return l - l % 4 + (l % 4 == 0 ? 3 : l % 4 == 1 ? 0 : l % 4 == 2 ? 2 : 1);
       }},
      {"v_mov_b32_dpp v0, v1 row_shl:3 row_mask:0xf bank_mask:0xf", [](int l) { return l % 16 < 13 ? l + 3 : kKept; }},
      {"v_mov_b32_dpp v0, v1 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1",
       [](int l) { return l % 16 > 0 ? l - 1 : kZero; }},
      {"v_mov_b32_dpp v0, v1 row_ror:5 row_mask:0xf bank_mask:0xf", [](int l) { return l % 16 >= 5 ? l - 5 : l + 11; }},
      {"v_mov_b32_dpp v0, v1 row_mirror row_mask:0xf bank_mask:0xf", [](int l) { return l ^ 15; }},
      {"v_mov_b32_dpp v0, v1 row_half_mirror row_mask:0xf bank_mask:0xf", [](int l) { return l ^ 7; }},
      {"v_mov_b32_dpp v0, v1 row_mirror row_mask:0x1 bank_mask:0x6",
       [](int l) { return l < 16 && l >= 4 && l < 12 ? l ^ 15 : kKept; }},
      // Lane 4 is inactive: lane 5 has no source.
      {"v_mov_b32_dpp v0, v1 row_shr:1 row_mask:0xf bank_mask:0xf",
       [](int l) { return l == 5 || l % 16 == 0 ? kKept : l - 1; }, ~u64{0x10}},
      {"v_mov_b32_dpp v0, v1 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1",
       [](int l) { return l == 5 || l % 16 == 0 ? kZero : l - 1; }, ~u64{0x10}},
  };
  for (const auto chip : kAllChips) check(chip, cases);
}

TEST_F(AmdLanesTest, DppOfFamilies) {
  check("gfx942",
        {{"v_mov_b32_dpp v0, v1 row_bcast:15 row_mask:0xf bank_mask:0xf",
          [](int l) { return l < 16 ? kKept : l / 16 * 16 - 1; }},
         {"v_mov_b32_dpp v0, v1 row_bcast:31 row_mask:0xf bank_mask:0xf", [](int l) { return l < 32 ? kKept : 31; }},
         {"v_mov_b32_dpp v0, v1 wave_shr:1 row_mask:0xf bank_mask:0xf", [](int l) { return l == 0 ? kKept : l - 1; }},
         {"v_mov_b32_dpp v0, v1 wave_shl:1 row_mask:0xf bank_mask:0xf", [](int l) { return l == 63 ? kKept : l + 1; }},
         {"v_mov_b32_dpp v0, v1 wave_ror:1 row_mask:0xf bank_mask:0xf", [](int l) { return l == 0 ? 63 : l - 1; }},
         {"v_mov_b32_dpp v0, v1 row_newbcast:6 row_mask:0xf bank_mask:0xf", [](int l) { return l / 16 * 16 + 6; }}});
  for (const std::string_view chip : {"gfx1100", "gfx1201"})
    check(chip, {{"v_mov_b32_dpp v0, v1 row_share:6 row_mask:0xf bank_mask:0xf", [](int l) { return l / 16 * 16 + 6; }},
                 {"v_mov_b32_dpp v0, v1 row_xmask:9 row_mask:0xf bank_mask:0xf", [](int l) { return l ^ 9; }},
                 {"v_mov_b32_dpp v0, v1 dpp8:[7,6,5,4,3,2,1,0]", [](int l) { return l ^ 7; }},
                 {"v_mov_b32_dpp v0, v1 row_shr:1 row_mask:0xf bank_mask:0xf fi:1",
                  [](int l) { return l % 16 == 0 ? kKept : l - 1; }, ~u64{0x10}}});
}

TEST_F(AmdLanesTest, ArithmeticTakesItsFirstSourceThroughDpp) {
  Bench on = bench("gfx942", {"v_sub_f32_dpp v0, v1, v2 row_shr:8 row_mask:0xf bank_mask:0xf bound_ctrl:1"});
  on.set_vector(1, [](int lane) { return std::bit_cast<u32>(static_cast<float>(lane)); });
  on.set_vector(2, [](int) { return std::bit_cast<u32>(0.5f); });
  on.execute(0);
  EXPECT_EQ(std::bit_cast<float>(on.vector(0, 28)), 19.5f);
  EXPECT_EQ(std::bit_cast<float>(on.vector(0, 3)), -0.5f);
}

TEST_F(AmdLanesTest, Permutations) {
  const auto backward = [](int l) { return (l * 7 + 3) % 64; };
  // 55 is the inverse of 7 modulo 64.
  check("gfx942",
        {{"ds_permute_b32 v0, v2, v1", [](int l) { return (l + 61) * 55 % 64; }},
         {"ds_bpermute_b32 v0, v2, v1", backward},
         {"ds_bpermute_b32 v0, v2, v1", [&](int l) { return backward(l) < 8 ? kZero : backward(l); }, ~u64{0xff}}});
  for (const std::string_view chip : {"gfx1100", "gfx1201"})
    check(chip,
          {{"ds_bpermute_b32 v0, v2, v1", [](int l) { return (l * 7 + 3) % 32; }},
           {"v_permlane16_b32 v0, v1, s4, s5", [](int l) { return l / 16 * 16 + 15 - l % 16; }},
           {"v_permlanex16_b32 v0, v1, s2, s3", [](int l) { return l ^ 16; }},
           // Without a source a lane keeps its value, or reads 0 by bound control; `fi` reads inactive lanes.
           {"v_permlanex16_b32 v0, v1, s2, s3", [](int l) { return l >= 16 && l < 24 ? kKept : l ^ 16; }, 0xffffff00u},
           {"v_permlanex16_b32 v0, v1, s2, s3 op_sel:[0,1]", [](int l) { return l >= 16 && l < 24 ? kZero : l ^ 16; },
            0xffffff00u},
           {"v_permlanex16_b32 v0, v1, s2, s3 op_sel:[1,0]", [](int l) { return l ^ 16; }, 0xffffff00u}});
  check("gfx1201", {{"v_permlane16_var_b32 v0, v1, v3", [](int l) { return l / 16 * 16 + (l * 5 + 1) % 16; }},
                    {"v_permlanex16_var_b32 v0, v1, v3", [](int l) { return (l ^ 16) / 16 * 16 + (l * 5 + 1) % 16; }}});
}

TEST_F(AmdLanesTest, SwapsOfCdna4) {
  Bench on = bench("gfx950", {"v_permlane32_swap_b32 v0, v1", "v_permlane16_swap_b32 v2, v3"});
  for (const int first : {0, 2}) {
    on.set_vector(first, [](int lane) { return static_cast<u32>(lane); });
    on.set_vector(first + 1, [](int lane) { return static_cast<u32>(100 + lane); });
  }
  on.execute(0);
  on.execute(1);
  for (int lane = 0; lane < 64; ++lane) {
    EXPECT_EQ(on.vector(0, lane), static_cast<u32>(lane < 32 ? lane : 100 + lane - 32));
    EXPECT_EQ(on.vector(1, lane), static_cast<u32>(lane < 32 ? lane + 32 : 100 + lane));
    EXPECT_EQ(on.vector(2, lane), static_cast<u32>(lane % 32 < 16 ? lane : 100 + lane - 16));
    EXPECT_EQ(on.vector(3, lane), static_cast<u32>(lane % 32 < 16 ? lane + 16 : 100 + lane));
  }
}

TEST_F(AmdLanesTest, LanesAndScalars) {
  Bench on = bench("gfx942",
                   {"v_readfirstlane_b32 s0, v1", "v_readlane_b32 s1, v1, s6", "v_writelane_b32 v2, s6, 9",
                    "v_mbcnt_lo_u32_b32 v3, -1, 0", "v_mbcnt_hi_u32_b32 v3, -1, v3", "v_mbcnt_lo_u32_b32 v4, s7, 5"});
  on.set_vector(1, [](int lane) { return static_cast<u32>(100 + lane); });
  on.set_vector(2, [](int) { return 1u; });
  on.wave().set_scalar(6, 64 + 40);
  on.wave().set_scalar(7, 0x0f);
  on.wave().set_mask(kExec, 0xffff0000ffff0000);
  for (std::size_t i = 0; i < on.size(); ++i) on.execute(i);
  EXPECT_EQ(on.wave().scalar(0), 116u) << "the lowest active lane";
  EXPECT_EQ(on.wave().scalar(1), 140u) << "lane 40, active or not";
  EXPECT_EQ(on.vector(2, 9), 104u);
  EXPECT_EQ(on.vector(2, 10), 1u);
  for (const int lane : {16, 31, 48, 63}) EXPECT_EQ(on.vector(3, lane), static_cast<u32>(lane));
  EXPECT_EQ(on.vector(4, 17), 9u);
  on.wave().set_mask(kExec, 0);
  on.execute(0);
  EXPECT_EQ(on.wave().scalar(0), 100u) << "lane 0 when none is active";
}

}  // namespace
}  // namespace tilesmith::amdgpu
