// tilesmith run append_kv and merge_states: calls without a plan, on random data, verified.
#include <gtest/gtest.h>

#include "base/json.hpp"
#include "cli/program.hpp"

namespace tilesmith {
namespace {
using testing::run;

TEST(RunServing, CallsWithoutAPlanAreVerified) {
  for (const std::string words :
       {"append_kv",
        "append_kv --batch 3 --heads-q 4 --heads-kv 2 --seqlen 5 --seqlen-k 40 --head-dim-qk 72 --head-dim-v 40 "
        "--page-size 7 --rotary-dim 48 --dtype fp16",
        "append_kv --batch 2 --heads-kv 3 --seqlen-k 9 --head-dim-qk 33 --rotary-dim 20 --rotary-style interleaved "
        "--cache int8",
        "append_kv --batch 2 --heads-kv 3 --seqlen 30 --page-size 1 --rotary-dim 128 --cache fp8 --dtype fp32 --seed 3",
        "append_kv --batch 3 --heads-q 2 --heads-kv 3 --seqlen 21 --seqlen-k 50 --head-dim-qk 96 --head-dim-v 40 "
        "--page-size 32 --rotary-dim 24 --cache int8 --row-scale --vectorized-pages",
        "append_kv --batch 2 --heads-kv 3 --seqlen 30 --page-size 1 --rotary-dim 128 --cache fp8 --row-scale --dtype "
        "fp16",
        "append_kv --batch 2 --heads-kv 3 --seqlen 9 --page-size 4 --rotary-dim 20 --rotary-style interleaved "
        "--cache int8 --page-scale",
        "append_kv --batch 2 --heads-kv 2 --seqlen 9 --seqlen-k 9 --page-size 8 --head-dim-qk 64 --head-dim-v 33 "
        "--rotary-dim 20 --vectorized-pages",
        "append_kv --batch 3 --heads-q 2 --heads-kv 2 --seqlen 3 --seqlen-k 20 --head-dim-qk 64 --page-size 7 "
        "--rotary-dim 64 --lengths-after",
        "append_kv --heads-kv 2 --seqlen 9 --page-size 4 --head-dim-qk 260 --rotary-dim 260 --dtype fp32 "
        "--vectorized-pages",
        "merge_states", "merge_states --states 7 --batch 2 --heads 3 --seqlen 5 --head-dim 33 --dtype fp32",
        "merge_states --states 65 --heads 4 --dtype fp16 --seed 4"}) {
    const ProcessOutcome outcome = run("run " + words + " --verify --no-time");
    EXPECT_EQ(outcome.code, 0) << words << "\n" << outcome.errors;
    EXPECT_NE(outcome.output.find("verified pass"), std::string::npos) << words << "\n" << outcome.output;
  }
  const nlohmann::json json = testing::document(run("run merge_states --states 3 --verify --json"));
  EXPECT_EQ(json["verify"]["outcome"], "pass");
  EXPECT_GT(json["timing"]["median_ms"].get<double>(), 0);
}

TEST(RunServing, WhatCannotBeIsRefused) {
  for (const auto& [words, message] :
       {std::pair{"append_kv --rotary-dim 3", "rotary_dim is 3"}, std::pair{"append_kv --cache e5m2", "e5m2"},
        std::pair{"append_kv --rotary-style quarter", "\"quarter\" is no rotary style"},
        std::pair{"append_kv --page-size 0", "page_size is 0"},
        std::pair{"append_kv --row-scale", "cache that has none"},
        std::pair{"append_kv --vectorized-pages --page-size 7", "vectorized pages of 7 keys"},
        std::pair{"merge_states --dtype fp8", "merge_states of fp8"},
        std::pair{"merge_states --states 0", "states is 0"}}) {
    const ProcessOutcome outcome = run(std::string("run ") + words);
    EXPECT_NE(outcome.code, 0) << words;
    EXPECT_NE(outcome.errors.find(message), std::string::npos) << words << "\n" << outcome.errors;
  }
}

// Composable Kernel's instances are chosen for the same words.
TEST(RunServing, InstancesThatAppendAreListed) {
  const std::string list = "list --arch gfx942 --op append_kv --candidates ";
  const nlohmann::json json =
      testing::document(run(list + "--origin ck --heads-q 8 --heads-kv 2 --rotary-dim 64 --seqlen 5 --json"));
  ASSERT_FALSE(json["candidates"].empty());
  EXPECT_EQ(json["candidates"][0]["name"].get<std::string>().find("fmha_fwd_appendkv_bf16"), 0u);
  for (const auto& [words, message] :
       {std::pair{"--origin ck --cache int8", "type of the new tokens"},
        std::pair{"--origin ck --rotary-style quarter", "\"quarter\" is no rotary style"},
        std::pair{"", "nothing to choose"}, std::pair{"--origin ck -m 3", "-m"}}) {
    const ProcessOutcome outcome = run(list + words);
    EXPECT_NE(outcome.code, 0) << words;
    EXPECT_NE(outcome.errors.find(message), std::string::npos) << words << "\n" << outcome.errors;
  }
}

}  // namespace
}  // namespace tilesmith
