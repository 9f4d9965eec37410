// tilesmith build --origin ck with a stand-in for hipcc (fake_hipcc) and for Composable Kernel (tests/codegen/ck_mock):
// how sources come into the store, not that hipcc compiles them.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "cli/program.hpp"

namespace tilesmith {
namespace {

namespace fs = std::filesystem;
using testing::document;
using testing::run_by;

class BuildCk : public ::testing::Test {
 protected:
  void SetUp() override {
    const fs::path here = fs::path(__FILE__).parent_path();
    compiler_ = here / "fake_hipcc";
    fs::create_directory(folder_.path() / "ck");
    fs::create_directory(folder_.path() / "store");
    // A copy: a test changes it.
    fs::copy(here.parent_path() / "codegen" / "ck_mock", tree() / "include", fs::copy_options::recursive);
    const auto has_clang =
        run_process({.arguments = {find_program("bash").value().string(), "-c",
                                   "compgen -c clang- | grep -qE '^clang-(1[89]|[2-9][0-9])$' && command -v python3"}});
    if (!has_clang || !has_clang->succeeded()) GTEST_SKIP() << "no clang 18 or newer, or no python3: tools/setup.sh";
  }

  [[nodiscard]] fs::path tree() const { return folder_.path() / "ck"; }
  [[nodiscard]] std::string path(const char* name) const { return (folder_.path() / name).string(); }
  /// The program with the stand-ins, and a store of its own.
  [[nodiscard]] ProcessOutcome program(const std::string& words, const std::string& variables = {}) const {
    return run_by(fmt::format("TILESMITH_CACHE_DIR='{}' HIPCC='{}' TILESMITH_CK_DIR='{}' {} \"$0\" \"$@\"",
                              path("store"), compiler_.string(), tree().string(), variables),
                  words);
  }

  TemporaryDirectory folder_ = TemporaryDirectory::create("tilesmith-build-ck-test-").value();
  fs::path compiler_;
};

const std::string kForward =
    "fmha_fwd_fp16_batch_h128_qr_async_t128x128x32x128x32x128_w32x32x16_pad1111_mask=no_bias=no_bpc=-1";
const std::string kGemm = "gemm_fp16_rcr_compv4_cshuffle_intrawave_True_True_True_False_128x128x64_2x2x1_32x32x16";
const std::string kSourceless =
    "fmha_fwd_fp16_batch_h256_qr_t64x64x256x256x32x256_w32x32x16_pad0000_mask=no_bias=no_bpc=-1";
const std::string kSpilling =
    "fmha_bwd_convert_dq_fp16_batch_h256_qr_t64x128x32x128x32x128_w32x32x16_pad1111_mask=no_bias=no_bpc=-1";

TEST_F(BuildCk, LibrariesComeIntoTheStoreWithWhatTheirKernelsTake) {
  const std::string build = "build --arch gfx942 --origin ck --workers 2 --kernel " + kForward + " --kernel " + kGemm;
  const auto built = program(build);
  ASSERT_EQ(built.code, 0) << built.errors;
  EXPECT_NE(built.output.find("2 of 2 instances are in the store"), std::string::npos) << built.output;
  const auto listed = document(program("list --built --arch gfx942 --json"));
  ASSERT_EQ(listed.size(), 2u);
  for (const auto& entry : listed) {
    EXPECT_EQ(entry["arch"], "gfx942");
    EXPECT_TRUE(entry["name"] == kForward || entry["name"] == kGemm) << entry["name"];
    const auto& kernel = entry["resources"]["functions"].at(0);
    EXPECT_EQ(kernel["function"], "stand_in");
    EXPECT_GT(kernel["registers"], 0);
    EXPECT_TRUE(kernel.contains("accumulation_registers"));
    EXPECT_TRUE(kernel.contains("shared_bytes"));
    EXPECT_TRUE(kernel.contains("stack_bytes"));
    EXPECT_EQ(kernel["spill_store_bytes"], 0);
  }
  EXPECT_NE(program("list --built").output.find(" registers, "), std::string::npos);

  // Found again without a compile: a compiler that fails would show.
  const auto again = program(build);
  EXPECT_EQ(again.code, 0) << again.errors;
  EXPECT_EQ(document(program("list --built --json")).size(), 2u);

  // Another chip, another state of Composable Kernel, and a changed header have other keys.
  EXPECT_EQ(program("build --arch gfx950 --origin ck --kernel " + kGemm).code, 0);
  EXPECT_EQ(document(program("list --built --json")).size(), 3u);
  ASSERT_TRUE(write_file_atomic(tree() / "include" / "ck_tile" / "changed.hpp", "// changed\n"));
  EXPECT_EQ(program("build --arch gfx950 --origin ck --kernel " + kGemm).code, 0);
  EXPECT_EQ(document(program("list --built --json")).size(), 4u);
}

TEST_F(BuildCk, SpillsFailTheBuildUnlessTheyAreAllowed) {
  const std::string build = "build --arch gfx942 --origin ck --kernel " + kSpilling;
  const auto refused = program(build);
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.errors.find("spills registers"), std::string::npos) << refused.errors;
  const auto allowed = program(build + " --spill-limit 4096");
  EXPECT_EQ(allowed.code, 0) << allowed.errors;
}

TEST_F(BuildCk, InstancesWithoutASourceAreCountedByRule) {
  const auto built = program("build --arch gfx942 --origin ck --kernel " + kSourceless + " --kernel " + kGemm);
  EXPECT_EQ(built.code, 0) << built.errors;
  EXPECT_NE(built.output.find("1 without a source: rule two_slices_of_k0"), std::string::npos) << built.output;
  EXPECT_NE(built.output.find("1 of 2 instances are in the store"), std::string::npos) << built.output;
}

TEST_F(BuildCk, SaysWhatIsMissing) {
  const std::string build = "build --arch gfx942 --origin ck --kernel " + kGemm;
  const auto no_tree = program(build, "TILESMITH_CK_DIR=/nowhere");
  EXPECT_EQ(no_tree.code, 1);
  EXPECT_NE(no_tree.errors.find("ck_tile/core.hpp"), std::string::npos) << no_tree.errors;
  const auto no_compiler = program(build, "HIPCC=/nowhere/hipcc");
  EXPECT_EQ(no_compiler.code, 1);
  EXPECT_NE(no_compiler.errors.find("/nowhere/hipcc"), std::string::npos) << no_compiler.errors;
  const auto not_here = run_by("env -u HIPCC TILESMITH_CK_DIR='" + tree().string() + "' TILESMITH_CACHE_DIR='" +
                                   path("store") + "' \"$0\" \"$@\"",
                               build);
  EXPECT_NE(not_here.errors.find("install ROCm, or set HIPCC"), std::string::npos) << not_here.errors;
  EXPECT_EQ(program("build --arch gfx942 --op gemm --spill-limit 16").code, 2);
  EXPECT_EQ(program("build --arch gfx94 --origin ck --op gemm").code, 1);
}

TEST_F(BuildCk, ANamedInstanceIsWritten) {
  const auto written =
      program("generate --arch gfx942 --kernel " + kForward + " --out " + (folder_.path() / "named").string());
  EXPECT_EQ(written.code, 0) << written.errors;
  EXPECT_NE(written.output.find("1 sources"), std::string::npos) << written.output;
}

TEST_F(BuildCk, AnEmptySelectionNamesWhatEmptiedIt) {
  const std::string generate = "generate --out " + (folder_.path() / "none").string() + " --arch ";
  for (const auto& [words, hint] :
       {std::pair{std::string("build --arch gfx942 --op gemm --dtype fp32"), "without --dtype it holds some"},
        std::pair{std::string("build --arch gfx942 --op attention --origin own --dtype bf16 --head-dim 7"),
                  "without --head-dim"},
        std::pair{generate + "gfx1100 --op conv --mode sound", "without --mode"},
        std::pair{generate + "gfx942 --filter c.tile_m0==1 --filter c.lse", "without --filter"},
        std::pair{generate + "gfx942 --sample -3", "--sample"},
        std::pair{std::string("list --built --arch gfx999"), "there is no architecture 'gfx999'"},
        std::pair{generate + "gfx942 --max 0", "--max"}}) {
    const auto outcome = program(words);
    EXPECT_NE(outcome.code, 0) << words;
    EXPECT_NE(outcome.errors.find(hint), std::string::npos) << words << "\n" << outcome.errors;
    EXPECT_FALSE(std::filesystem::exists(folder_.path() / "none")) << words;
  }
}

}  // namespace
}  // namespace tilesmith
