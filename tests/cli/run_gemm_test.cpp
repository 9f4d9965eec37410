// tilesmith run gemm: files hold op(A), op(B) and D, whatever the layout stores.
#include <gtest/gtest.h>

#include "base/json.hpp"
#include "base/npy.hpp"
#include "cli/program.hpp"
#include "dispatch/test_store.hpp"
#include "verify/gemm/reference.hpp"

namespace tilesmith {
namespace {
using testing::document;
using testing::random_array;
using testing::run;

class RunGemm : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return (directory_.path() / name).string(); }
  void expect_refused(const std::string& words, int code, const std::string& message) const {
    const ProcessOutcome outcome = run("run gemm --no-time --dtype fp32 " + words);
    EXPECT_EQ(outcome.code, code) << words << "\n" << outcome.errors;
    EXPECT_NE(outcome.errors.find(message), std::string::npos) << words << "\n" << outcome.errors;
    EXPECT_EQ(outcome.output, "");
  }

  TemporaryDirectory directory_ = TemporaryDirectory::create("tilesmith-gemm-").value();
};

TEST_F(RunGemm, FilesHaveOneShapeForEveryLayout) {
  const HostArray a = random_array({9, 20}, 1, path("a.npy")), b = random_array({20, 14}, 2, path("b.npy"));
  const HostArray c = random_array({9, 14}, 3, path("c.npy")), bias = random_array({14}, 4, path("bias.npy"));
  const HostArray d0 = random_array({9, 14}, 5, path("d0.npy"));
  GemmTensors t;
  t.a = {a.data.data(), a.type, {.row = 20, .column = 1}};
  t.b = {b.data.data(), b.type, {.row = 14, .column = 1}};
  t.c = {c.data.data(), c.type, {.row = 14, .column = 1}};
  t.m = 9;
  t.n = 14;
  t.k = 20;
  t.alpha = 0.5f;
  t.beta = 2;
  t.epilogue = {{.op = EpilogueOp::bias, .operand = {bias.data.data(), bias.type, {.row = 0, .column = 1}}},
                {.op = EpilogueOp::silu},
                {.op = EpilogueOp::add, .operand = {d0.data.data(), d0.type, {.row = 14, .column = 1}}}};
  const auto reference = GemmReference::make(t, ElementType::fp32, 1);
  ASSERT_TRUE(reference) << reference.error().text();
  for (const std::string layout : {"rcr", "rrr", "crr", "ccr", "rcc", "ccc"}) {
    const ProcessOutcome outcome =
        run("run gemm --dtype fp32 --no-time --alpha 0.5 --beta 2 --epilogue bias,silu,add --layout " + layout +
            " --a " + path("a.npy") + " --b " + path("b.npy") + " --c " + path("c.npy") + " --bias " +
            path("bias.npy") + " --d0 " + path("d0.npy") + " --out " + path("d.npy"));
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    const auto d = read_npy(path("d.npy"));
    ASSERT_TRUE(d) << d.error().text();
    EXPECT_EQ(d->shape, (std::vector<std::int64_t>{9, 14}));
    const Verdict verdict = reference->judge(read_output(t, {d->data.data(), d->type, {.row = 14, .column = 1}}));
    EXPECT_NE(verdict.outcome, Outcome::fail) << layout << ": " << verdict.reason;
  }
}

TEST_F(RunGemm, ASecondProductIsAdded) {
  const HostArray a = random_array({9, 20}, 1, path("a.npy")), b = random_array({20, 14}, 2, path("b.npy"));
  const HostArray a2 = random_array({9, 33}, 3, path("a2.npy")), b2 = random_array({33, 14}, 4, path("b2.npy"));
  GemmTensors t;
  t.a = {a.data.data(), a.type, {.row = 20, .column = 1}};
  t.b = {b.data.data(), b.type, {.row = 14, .column = 1}};
  t.a2 = {a2.data.data(), a2.type, {.row = 33, .column = 1}};
  t.b2 = {b2.data.data(), b2.type, {.row = 14, .column = 1}};
  t.m = 9;
  t.n = 14;
  t.k = 20;
  t.k2 = 33;
  const auto reference = GemmReference::make(t, ElementType::fp32, 1);
  ASSERT_TRUE(reference) << reference.error().text();
  const std::string files =
      " --a " + path("a.npy") + " --b " + path("b.npy") + " --a2 " + path("a2.npy") + " --b2 " + path("b2.npy");
  const ProcessOutcome outcome =
      run("run gemm --dtype fp32 --no-time --verify --layout ccc --out " + path("d.npy") + files);
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("9x14x20+33"), std::string::npos) << outcome.output;
  const auto d = read_npy(path("d.npy"));
  ASSERT_TRUE(d) << d.error().text();
  const Verdict verdict = reference->judge(read_output(t, {d->data.data(), d->type, {.row = 14, .column = 1}}));
  EXPECT_NE(verdict.outcome, Outcome::fail) << verdict.reason;
  expect_refused("--k2 32" + files, 2, "k2 is 32 by --k2 and 33 by the shape");
  expect_refused("-m 4 -n 6 -k 8 --k2 7 --batch 2 --grouping masked", 1, "k2 is 7) beside masked groups");
}

TEST_F(RunGemm, OneDocumentSaysWhatRanAndHowWell) {
  const ProcessOutcome outcome =
      run("run gemm -m 33 -n 40 -k 50 --batch 2 --dtype bf16 --epilogue bias,swiglu,amax --threads 2 --verify --json "
          "--no-time --seed 3");
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  const nlohmann::json json = document(outcome);
  EXPECT_EQ(json["operation"], "gemm");
  EXPECT_EQ(json["device"], "cpu");
  EXPECT_EQ(json["problem"]["epilogue"], (nlohmann::json{"bias", "swiglu", "amax"}));
  EXPECT_GT(json["problem"]["amax"].get<double>(), 0);
  EXPECT_EQ(json["verify"]["outcome"], "pass");
  EXPECT_EQ(json["verify"]["output"]["count"], 2 * 33 * 20);
  EXPECT_FALSE(json.contains("timing"));
}

TEST_F(RunGemm, GroupsScalesAndWeights) {
  for (const std::string options :
       {"--grouping contiguous --group-rows 5,0,17 --epilogue scale_m,bias",
        "--grouping masked --batch 3 -m 9 --dtype fp8 --scale-depth 128 -k 200",
        "--dtype fp16 --dtype-b int4 --scale-depth 32 --dtype-scale fp16 --zero-points -k 96 -m 3",
        "--grouping masked --group-rows 4,9 --dtype-b int8 --scale-depth 50 -k 50"}) {
    const ProcessOutcome outcome = run(std::string("run gemm -n 40 --verify --json ") + options);
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    const nlohmann::json json = document(outcome);
    EXPECT_EQ(json["verify"]["outcome"], "pass") << options;
    EXPECT_EQ(json["problem"]["grouping"] != "none", options.find("--grouping") != std::string::npos);
    if (options.find("5,0,17") != std::string::npos) {
      EXPECT_EQ(json["problem"]["m"], 22);
      EXPECT_EQ(json["problem"]["batch"], 3);
      EXPECT_EQ(json["verify"]["output"]["count"], 22 * 40);
    }
  }
}

TEST_F(RunGemm, APackedBIsReadByEveryCall) {
  for (const std::string options :
       {"-m 33 -n 70 -k 300 --dtype bf16", "-m 5 -n 41 -k 90 --dtype int8 --batch 3 --layout rrr",
        "-m 17 -n 40 -k 64 --dtype fp32 --epilogue bias,swiglu --layout crr --beta 1 --no-time"}) {
    const ProcessOutcome outcome = run("run gemm --packed --verify --json --threads 2 " + options);
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    const nlohmann::json json = document(outcome);
    EXPECT_EQ(json["verify"]["outcome"], "pass") << options;
    EXPECT_EQ(json["problem"]["packed_b"], true);
    EXPECT_NE(json["kernel"].get<std::string>().find("_packedb"), std::string::npos) << json["kernel"];
    EXPECT_EQ(json.contains("timing"), options.find("--no-time") == std::string::npos);
  }
  const std::string kernel = document(run("run gemm -m 33 --dtype fp32 --packed --no-time --json"))["kernel"];
  expect_refused("-m 33 --kernel " + kernel, 2, "it reads a packed B");
  std::string plain = kernel;
  plain.erase(plain.find("_packedb"), std::string_view("_packedb").size());
  expect_refused("-m 33 --packed --kernel " + plain, 2, "it reads B as it lies");
  (void)random_array({9, 20}, 1, path("a.npy"));
  (void)random_array({20, 14}, 2, path("b.npy"));
  (void)random_array({2, 20, 14}, 3, path("b2.npy"));
  const std::string a = "--verify --a " + path("a.npy") + " --b ";
  const ProcessOutcome given = run("run gemm --packed --dtype bf16 --no-time " + a + path("b.npy"));
  EXPECT_EQ(given.code, 0) << given.errors;
  EXPECT_NE(given.output.find("9x14x20 rcr packed B"), std::string::npos) << given.output;
  EXPECT_NE(given.output.find(": pass"), std::string::npos) << given.output;
  expect_refused("--packed " + a + path("b2.npy"), 2, "b has shape (2, 20, 14)");
  expect_refused("--packed --k2 7", 1, "a packed B beside a second product");
  expect_refused("--packed --grouping masked --batch 2", 1, "a packed B beside masked groups");
  expect_refused("--packed --device cuda:99", 1, "");
}

TEST_F(RunGemm, AWrongResultSaysHowToRepeatIt) {
  const testing::EmptyStore store;
  const testing::ScopedVariable compiler(
      "TILESMITH_CXX", std::string(TILESMITH_SOURCE_DIR) + "/tests/sweep/fake_compilers/makes_bad_kernels");
  (void)random_array({70}, 4, path("it's b.npy"));
  const std::string commands[] = {
      " run gemm -m 33 -n 70 -k 40 --dtype fp32 --grouping contiguous --group-rows 20,0,13 --alpha 0.5 --epilogue "
      "bias,clamp "
      "--clamp=-2,3 --seed 7 --bias '" +
          path("it'\\''s b.npy") +
          "' --threads 1 --kernel gemm_standard_a_fp32_b_fp32_c_fp32_aux_fp32_bias_fp32_with_bias_clamp_blocked_fma_"
          "tile48x528x256_on_x86_64_v3 --verify --no-time",
      " run attention_fwd --seqlen-q 33 --head-dim-qk 64 --dtype fp32 --window=-1,4 --scale 0.25 --softcap 20 --seed 9 "
      "--threads 1 --kernel attention_fwd_fp32_batch_d64_dv64_mask_generic_softcap_flash_fma_tile48x64_on_x86_64_v3 "
      "--verify --no-time"};
  for (const std::string& command : commands) {
    const ProcessOutcome outcome = testing::run_by("\"$0\"" + command, "");
    EXPECT_EQ(outcome.code, 1) << outcome.errors;
    EXPECT_NE(outcome.errors.find(" is wrong: "), std::string::npos) << outcome.errors;
    EXPECT_NE(outcome.errors.find("hint: repeat with: tilesmith" + command + "\n"), std::string::npos)
        << outcome.errors << command;
  }
}

TEST_F(RunGemm, WholeNumbersOfFilesAreKeptInEveryLayout) {
  HostArray c;
  c.type = ElementType::int32;
  c.shape = {3, 2};
  const std::int32_t values[] = {16777217, -16777219, 2147483647, 0, 5, -7};
  c.data.assign(reinterpret_cast<const std::byte*>(values), reinterpret_cast<const std::byte*>(values + 6));
  ASSERT_TRUE(write_npy(path("c.npy"), c));
  for (const std::string layout : {"rcr", "rcc"}) {
    const ProcessOutcome outcome = run("run gemm -k 0 --dtype int8 --no-time --beta 1 --c " + path("c.npy") +
                                       " --out " + path("d.npy") + " --layout " + layout);
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_EQ(read_npy(path("d.npy"))->data, c.data) << layout;
  }
}

TEST_F(RunGemm, ARandomInputIsTheSameInEveryLayout) {
  for (const std::string layout : {"rcr", "crr"})
    ASSERT_EQ(
        run("run gemm -m 5 -n 6 -k 7 --dtype int8 --no-time --layout " + layout + " --out " + path(layout + ".npy"))
            .code,
        0);
  EXPECT_EQ(read_npy(path("rcr.npy"))->data, read_npy(path("crr.npy"))->data);
  EXPECT_EQ(read_npy(path("rcr.npy"))->type, ElementType::int32);
}

TEST_F(RunGemm, WhatCannotBeIsRefused) {
  (void)random_array({9, 20}, 1, path("a.npy"));
  (void)random_array({14}, 2, path("v.npy"));
  expect_refused("--layout rcx", 2, "each r or c, as in rcr");
  expect_refused("--layout rcc --epilogue swiglu", 1, "a column-major D beside a gate");
  expect_refused("--epilogue bias,rilu", 2, "rilu");
  expect_refused("--packed --epilogue multiply,relu,bias", 1, "bias at place 2");
  expect_refused("-m 4 --a " + path("a.npy"), 2, "m is 4 by -m and 9");
  expect_refused("--a " + path("v.npy"), 2, "a has shape");
  expect_refused("--bias " + path("v.npy"), 2, "no operation of --epilogue reads it");
  expect_refused("-n 15 --epilogue bias --bias " + path("v.npy"), 2, "has shape (14");
  expect_refused("-n 15 --epilogue swiglu", 2, "an even n");
  expect_refused("--c " + path("a.npy"), 2, "--beta is 0");
  expect_refused("--dtype-scale bf16", 2, "--dtype-scale without scales");
  expect_refused("--seed -1", 2, "--seed");
  expect_refused("--grouping contiguous --group-rows 3,-4", 2, "--group-rows has -4");
  expect_refused("--out " + path("absent/d.npy"), 1, "cannot write to " + path("absent"));
  expect_refused("--clamp 0,1 --epilogue relu", 2, "--epilogue has no clamp");
  expect_refused("--clamp 1,0 --epilogue clamp", 2, "the limits are 1 and 0");
  expect_refused("--dtype-out int32", 1, "no int32 result");
  expect_refused("--group-rows 3,4", 2, "--grouping contiguous or masked");
  expect_refused("--grouping contiguous --group-rows 3,4 -m 6", 2, "group 1 of 2 ends at row 7");
  expect_refused("--dtype-b int4", 1, "int8 or int4 weights of fp16 and bf16");
  const ProcessOutcome fractions = run("run gemm --no-time -n 3 --dtype int8 --a " + path("a.npy"));
  EXPECT_EQ(fractions.code, 2);
  EXPECT_NE(fractions.errors.find("a is int8, and is given as"), std::string::npos) << fractions.errors;
  EXPECT_NE(fractions.errors.find("whole numbers from -128 to 127"), std::string::npos) << fractions.errors;
  const ProcessOutcome tf32 = run("run gemm --no-time --dtype tf32 --packed");
  EXPECT_EQ(tf32.code, 1);
  EXPECT_NE(tf32.errors.find("no CPU kernel multiplies tf32 matrices"), std::string::npos) << tf32.errors;
  expect_refused("--device cuda:99", 1, "");
}

}  // namespace
}  // namespace tilesmith
