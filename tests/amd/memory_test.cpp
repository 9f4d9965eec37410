// Memory instructions, waits, branches and barriers; and what a program must not do, which is found and named.
#include <cstring>
#include <numeric>

#include "amd/bench.hpp"
#include "amd/machine.hpp"

namespace tilesmith::amdgpu {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

class AmdMemoryTest : public InstructionTest {
 protected:
  [[nodiscard]] Result<Program> assemble(std::string_view chip, std::string_view text) const {
    return compiler().assemble(chip, text, 1024);
  }
  /// Runs a whole kernel, whose argument is a pointer to `words`.
  static Result<RunReport> run(const Result<Program>& kernel, std::vector<u32>& words, u32 threads,
                               const RunOptions& options = {}) {
    if (!kernel) return std::unexpected(kernel.error());
    DeviceMemory memory;
    memory.add("words", words.data(), 4 * words.size(), DeviceMemory::Access::read_write);
    const void* pointer = words.data();
    std::string arguments(sizeof pointer, '\0');
    std::memcpy(arguments.data(), &pointer, sizeof pointer);
    return amdgpu::run(*kernel, "snippet", arguments, {.threads = {threads, 1, 1}}, memory, options);
  }
};

TEST_F(AmdMemoryTest, LocalMemory) {
  for (const std::string_view chip : {"gfx942", "gfx1100", "gfx1201"}) {
    const bool cdna = chip == "gfx942";
    const auto name = [&](const char* old_name, const char* new_name) {
      return std::string(cdna ? old_name : new_name);
    };
    Bench on = bench(
        chip,
        {name("ds_write_b128", "ds_store_b128") + " v1, v[4:7]",
         name("ds_read2_b32", "ds_load_2addr_b32") + " v[8:9], v1 offset0:1 offset1:3",
         name("ds_read_u16_d16_hi", "ds_load_u16_d16_hi") + " v10, v1 offset:2",
         name("ds_read_i8", "ds_load_i8") + " v11, v1 offset:3",
         name("ds_write2st64_b32", "ds_store_2addr_stride64_b32") + " v2, v4, v5 offset0:0 offset1:1",
         name("ds_read_b64", "ds_load_b64") + " v[12:13], v2",
         name("ds_read_b32", "ds_load_b32") + " v14, v2 offset:256",
         name("ds_write_b8", "ds_store_b8") + " v1, v4 offset:1", name("ds_read_b32", "ds_load_b32") + " v15, v1"},
        2048);
    on.set_vector(1, [](int lane) { return static_cast<u32>(16 * lane); });
    on.set_vector(2, [](int lane) { return static_cast<u32>(1024 + 4 * lane); });
    for (int r = 4; r < 8; ++r)
      on.set_vector(r, [r](int lane) { return 0x81000000u * (r == 4) + static_cast<u32>(0x1000 * r + lane); });
    on.wave().row(10).fill(0x11112222);
    on.wave().set_mask(kExec, on.wave().all_lanes() & ~u64{1});
    on.execute_all();
    on.wave().finish_all();
    EXPECT_EQ(on.vector(8, 9), 0x5009u);
    EXPECT_EQ(on.vector(9, 9), 0x7009u);
    EXPECT_EQ(on.vector(10, 9), 0x81002222u);
    EXPECT_EQ(on.vector(11, 9), 0xffffff81u);
    EXPECT_EQ(on.vector(12, 9), 0x81004009u);
    EXPECT_EQ(on.vector(14, 9), 0x5009u);
    EXPECT_EQ(on.vector(15, 9), 0x81000909u);
    EXPECT_EQ(on.vector(8, 0), kPoison) << "inactive";
    on.set_vector(1, [](int) { return 2040u; });
    EXPECT_THROW(on.execute(0), std::runtime_error);
  }
}

TEST_F(AmdMemoryTest, GlobalMemory) {
  std::vector<u32> words(256);
  std::iota(words.begin(), words.end(), 0x80000000u);
  for (const std::string_view chip : {"gfx942", "gfx1100", "gfx1201"}) {
    const bool cdna = chip == "gfx942";
    const auto name = [&](const char* old_name, const char* new_name) {
      return std::string(cdna ? old_name : new_name);
    };
    Bench on = bench(chip, {name("global_load_dwordx4", "global_load_b128") + " v[4:7], v[2:3], off offset:16",
                            name("global_load_dword", "global_load_b32") + " v8, v1, s[2:3] offset:-4",
                            name("global_load_short_d16", "global_load_d16_b16") + " v9, v1, s[2:3]",
                            name("global_load_sbyte", "global_load_i8") + " v10, v1, s[2:3] offset:3",
                            name("global_store_short_d16_hi", "global_store_d16_hi_b16") + " v1, v11, s[2:3]",
                            name("s_load_dwordx4", "s_load_b128") + " s[4:7], s[2:3], 0x40"});
    on.memory().add("words", words.data(), 4 * words.size(), DeviceMemory::Access::read_write);
    const auto base = reinterpret_cast<u64>(words.data());
    on.wave().set_scalar_pair(2, base);
    on.set_vector(1, [](int lane) { return static_cast<u32>(4 * (lane + 1)); });
    on.set_vector(2, [&](int lane) { return static_cast<u32>(base + static_cast<u64>(4 * lane)); });
    on.set_vector(3, [&](int lane) { return static_cast<u32>((base + static_cast<u64>(4 * lane)) >> 32); });
    on.wave().row(9).fill(0x11112222);
    on.wave().row(11).fill(0xabcd1234);
    on.wave().set_mask(kExec, 0x300);
    for (std::size_t i = 0; i < on.size(); ++i) on.execute(i);
    EXPECT_EQ(on.vector(4, 9), 0x80000000u + 13);
    EXPECT_EQ(on.vector(7, 9), 0x80000000u + 16);
    EXPECT_EQ(on.vector(8, 9), 0x80000000u + 9);
    EXPECT_EQ(on.vector(9, 9), 0x11110000u + 10);
    EXPECT_EQ(on.vector(10, 9), 0xffffff80u);
    EXPECT_EQ(words[10], 0x8000abcdu);
    EXPECT_EQ(words[11], 0x8000000bu);
    EXPECT_EQ(on.wave().scalar(7), 0x80000000u + 19);
    words[10] = 0x8000000au;
    words[9] = 0x80000009u;
  }
}

// Raw buffers: what lies outside of the records reads as 0 and is not written, whatever memory is there.
TEST_F(AmdMemoryTest, RawBuffers) {
  std::vector<u32> words(64, 9);
  std::iota(words.begin(), words.end(), 1000u);
  Bench on = bench("gfx942", {"buffer_load_dword v4, v1, s[8:11], 0 offen offset:4",
                              "buffer_load_dwordx2 v[6:7], off, s[8:11], 0 offset:56",
                              "buffer_store_short v5, v1, s[8:11], s12 offen", "flat_load_dword v8, v[2:3]"});
  on.memory().add("words", words.data(), 4 * words.size(), DeviceMemory::Access::read_write);
  const auto base = reinterpret_cast<u64>(words.data());
  on.wave().set_scalar_pair(8, base);
  on.wave().set_scalar(10, 64);
  on.wave().set_scalar(11, 0x00020000);
  on.wave().set_scalar(12, 128);
  on.set_vector(1, [](int lane) { return static_cast<u32>(4 * lane); });
  on.set_vector(2, [&](int) { return static_cast<u32>(base + 8); });
  on.set_vector(3, [&](int) { return static_cast<u32>((base + 8) >> 32); });
  on.set_vector(5, [](int lane) { return static_cast<u32>(lane); });
  for (std::size_t i = 0; i < on.size(); ++i) on.execute(i);
  for (int lane = 0; lane < 64; ++lane) {
    EXPECT_EQ(on.vector(4, lane), lane < 15 ? static_cast<u32>(1001 + lane) : 0u);
    EXPECT_EQ(words[static_cast<std::size_t>(lane)],
              lane >= 32 && lane < 48 ? static_cast<u32>(lane - 32) : static_cast<u32>(1000 + lane));
  }
  EXPECT_EQ(on.vector(6, 3), 1014u);
  EXPECT_EQ(on.vector(7, 3), 1015u);
  EXPECT_EQ(on.vector(8, 3), 1002u);
}

TEST_F(AmdMemoryTest, LoadsIntoLocalMemory) {
  std::vector<u32> words(512);
  std::iota(words.begin(), words.end(), 0u);
  const auto base = reinterpret_cast<u64>(words.data());
  Bench three = bench("gfx942", {"global_load_lds_dword v1, s[2:3] offset:8", "ds_read_b32 v2, v3"});
  Bench four = bench("gfx950", {"global_load_lds_dwordx4 v1, s[2:3] offset:8", "ds_read_b32 v2, v3"}, 2048);
  for (Bench* on : {&three, &four}) {
    const int bytes = on == &three ? 4 : 16;
    on->memory().add("words", words.data(), 4 * words.size(), DeviceMemory::Access::read);
    on->wave().set_scalar_pair(2, base);
    on->wave().set_scalar(kM0, 64);
    on->set_vector(1, [](int lane) { return static_cast<u32>(4 * (63 - lane)); });
    // Lane l's value lies at M0 + offset + l times its size.
    on->set_vector(3, [&](int lane) { return static_cast<u32>(64 + 8 + bytes * lane + bytes - 4); });
    on->execute(0);
    on->execute(1);
    for (int lane = 0; lane < 64; ++lane)
      EXPECT_EQ(on->vector(2, lane), static_cast<u32>(63 - lane + 2 + bytes / 4 - 1));
  }
}

TEST_F(AmdMemoryTest, ALoadCanBeReadAfterItsWaitOnly) {
  std::vector<u32> words = {7, 8};
  for (const auto& [chip, load, wait] :
       {std::tuple{"gfx942", "s_load_dword s4, s[2:3], 0x4", "s_waitcnt lgkmcnt(0)"},
        std::tuple{"gfx1100", "global_load_b32 v4, v1, s[2:3]", "s_waitcnt vmcnt(0)"},
        std::tuple{"gfx1201", "global_load_b32 v4, v1, s[2:3]", "s_wait_loadcnt 0x0"}}) {
    Bench on = bench(chip, {load, wait});
    on.memory().add("words", words.data(), 8, DeviceMemory::Access::read);
    on.wave().set_scalar_pair(2, reinterpret_cast<u64>(words.data()));
    on.set_vector(1, [](int) { return 4u; });
    const auto result = [&] { return std::string_view(chip) == "gfx942" ? on.wave().scalar(4) : on.vector(4, 3); };
    const Program program = compiler().assemble(chip, std::string(load) + "\n" + wait).value();
    const Instruction& first = program.instructions()[0];
    first.execute(on.wave(), first);
    EXPECT_EQ(result(), kPoison) << chip;
    const Instruction& second = program.instructions()[1];
    second.execute(on.wave(), second);
    EXPECT_EQ(result(), 8u) << chip;
  }
}

// Every wave stores its number into local memory, and reads its neighbour's.
std::string exchange(std::string_view barrier) {
  return std::string(
             "s_load_dwordx2 s[4:5], s[0:1], 0x0\nv_lshlrev_b32 v1, 2, v0\nds_write_b32 v1, v0\n"
             "s_waitcnt lgkmcnt(0)\n") +
         std::string(barrier) +
         "\nv_xor_b32 v2, 0x100, v1\nds_read_b32 v3, v2\ns_waitcnt lgkmcnt(0)\nglobal_store_dword v1, v3, s[4:5]\n";
}

TEST_F(AmdMemoryTest, ABarrierOrdersWavesAndItsAbsenceIsARace) {
  std::vector<u32> words(128);
  const auto with = assemble("gfx942", exchange("s_barrier")), without = assemble("gfx942", exchange(""));
  for (u32 seed = 0; seed < 8; ++seed) {
    const auto right = run(with, words, 128, {.seed = seed});
    ASSERT_TRUE(right.has_value()) << right.error().text();
    for (u32 i = 0; i < 128; ++i) ASSERT_EQ(words[i], i ^ 64);
    const auto wrong = run(without, words, 128, {.seed = seed});
    ASSERT_FALSE(wrong.has_value()) << "whatever the order of the waves";
    EXPECT_NE(wrong.error().message.find("a race in local memory"), std::string::npos) << wrong.error().message;
    EXPECT_NE(wrong.error().message.find("ds_write_b32"), std::string::npos) << wrong.error().message;
    EXPECT_NE(wrong.error().message.find("ds_read_b32"), std::string::npos) << wrong.error().message;
  }
}

TEST_F(AmdMemoryTest, SplitBarriersOfRdna4) {
  const std::string text =
      "s_load_b64 s[4:5], s[0:1], 0x0\nv_lshlrev_b32 v1, 2, v0\nds_store_b32 v1, v0\ns_wait_dscnt 0x0\n"
      "s_barrier_signal -1\ns_barrier_wait 0xffff\nv_xor_b32 v2, 0x80, v1\nds_load_b32 v3, v2\ns_wait_dscnt 0x0\n"
      "s_wait_kmcnt 0x0\nglobal_store_b32 v1, v3, s[4:5]\n";
  std::vector<u32> words(64);
  std::string early = text;
  early.erase(early.find("s_barrier_wait 0xffff\n"), 22);
  const auto with = assemble("gfx1201", text), without = assemble("gfx1201", early);
  for (u32 seed = 0; seed < 8; ++seed) {
    const auto right = run(with, words, 64, {.seed = seed});
    ASSERT_TRUE(right.has_value()) << right.error().text();
    for (u32 i = 0; i < 64; ++i) ASSERT_EQ(words[i], i ^ 32);
    EXPECT_FALSE(run(without, words, 64, {.seed = seed}).has_value());
  }
}

TEST_F(AmdMemoryTest, LoopsBranchByScc) {
  std::vector<u32> words(64);
  const auto ran =
      run(assemble("gfx942",
                   "s_load_dwordx2 s[4:5], s[0:1], 0x0\ns_mov_b32 s6, 0\ns_mov_b32 s7, 0\nloop:\ns_add_i32 s7, s7, s6\n"
                   "s_add_i32 s6, s6, 1\ns_cmp_lt_i32 s6, 10\ns_cbranch_scc1 loop\nv_mov_b32 v1, s7\n"
                   "v_lshlrev_b32 v2, 2, v0\ns_waitcnt lgkmcnt(0)\nglobal_store_dword v2, v1, s[4:5]\n"),
          words, 64);
  ASSERT_TRUE(ran.has_value()) << ran.error().text();
  EXPECT_EQ(words[63], 45u);
  EXPECT_EQ(ran->instructions, 3u + 4 * 10 + 5);
}

TEST_F(AmdMemoryTest, FaultsNameWhatWasDone) {
  std::vector<u32> words(64);
  const auto message = [&](std::string_view text, u32 threads = 64, const RunOptions& options = {}) {
    const auto ran = run(assemble("gfx942", text), words, threads, options);
    return ran ? std::string("no fault") : ran.error().text();
  };
  const auto expect = [&](const std::string& got, std::string_view part) {
    EXPECT_NE(got.find(part), std::string::npos) << got;
  };
  const std::string base = "s_load_dwordx2 s[4:5], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\nv_lshlrev_b32 v1, 2, v0\n";
  expect(message(base + "global_load_dword v2, v1, s[4:5] offset:8"),
         "lane 62 reads 4 bytes at 0 bytes behind the end of words");
  expect(message(base + "global_store_dwordx2 v1, v[2:3], s[4:5]"),
         "lane 63 writes 8 bytes at byte 252 of the 256 bytes of words");
  expect(message(base + "global_store_dword v1, v2, s[0:1]"), "of the kernel's arguments, which is not written");
  expect(message("global_load_dword v2, v[4:5], off"), "in no buffer");
  expect(message("v_mov_b32 v1, 0x400\nds_read_b32 v2, v1"),
         "lane 0 accesses 4 bytes at 1024 of 1024 bytes of local memory");
  expect(message("loop:\ns_branch loop", 64, {.most_instructions = 1000}), "the kernel does not end");
  expect(
      message("v_readfirstlane_b32 s6, v0\ns_cmp_lg_u32 s6, 0\ns_cbranch_scc1 out\ns_endpgm\nout:\ns_cbranch_scc1 out",
              128, {.most_instructions = 1000}),
      "wave 1, 's_cbranch_scc1");
  expect(message("v_sad_u8 v0, v1, v2, v3"), "the instruction v_sad_u8 is not known");
  expect(message("s_setreg_imm32_b32 hwreg(HW_REG_MODE), 3"), "the instruction s_setreg_imm32_b32 is not known");
  expect(message("v_mad_u32_u24 v0, v1, v2, v3 clamp"), "clamp of integer results is not emulated");
}

}  // namespace
}  // namespace tilesmith::amdgpu
