// Exit codes, what goes to which stream, and what the program says to a mistake.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/json.hpp"
#include "cli/program.hpp"
#include "dispatch/test_store.hpp"

namespace tilesmith {
namespace {
using testing::run;

TEST(Usage, HelpSucceeds) {
  for (const char* words :
       {"--help", "arch --help", "run --help", "run attention_fwd --help", "bench --help", "sweep --help"}) {
    const ProcessOutcome outcome = run(words);
    EXPECT_EQ(outcome.code, 0) << words;
    EXPECT_NE(outcome.output.find("--help"), std::string::npos) << words;
    EXPECT_EQ(outcome.errors, "") << words;
  }
}

TEST(Usage, MistakesAreUsageErrorsThatSayWhatWouldBeRight) {
  const std::tuple<const char*, const char*> mistakes[] = {
      {"", "hint: tilesmith --help"},
      {"rnu", "hint: rnu: did you mean 'run'?"},
      {"run", "hint: tilesmith run --help"},
      {"run attention_fdw", "did you mean 'attention_fwd' or 'attention_bwd'?"},
      {"run attention_fwd --hedas-q 3", "hint: --hedas-q: did you mean '--heads-q'"},
      {"run gemm --lay rcr", "hint: --lay: did you mean '--layout'?"},
      {"run gemm --dtype-o fp32", "hint: --dtype-o: did you mean '--dtype-out'?"},
      {"arch --jsn", "hint: --jsn: did you mean '--json'?"},
      {"run attention_fwd --seqlen-q many", "--seqlen-q"},
      {"run attention_fwd --seqlen-q 99999999999999999999", "a whole number up to 9223372036854775807"},
      {"run attention_fwd --window 3", "--window"},
      {"run attention_fwd --dtype fp17", "hint: did you mean fp16?"},
      {"run attention_fwd --mask diagonal", "top_left"},
      {"run attention_fwd --mask generic", "top_left or bottom_right"},
      {"run attention_fwd --mode pack", "group"},
      {"run attention_fwd --layout sbhd", "known: bhsd, bshd"},
      {"run attention_fwd --heads-q 6 --heads-kv 4", "heads_q 6 is not a multiple of heads_kv 4"},
      {"run attention_fwd --head-dim-qk 0", "head_dim_qk is 0"},
      {"run attention_fwd --batch -1", "batch is -1"},
      {"run attention_fwd --batch 2x", "error: --batch 2x"},
      {"run", "An operation or --file"},
      {"run --threads 1 attention_fwd", "options before the operation"},
      {"run attention_fwd --mask top_left --window=-1,4", "overlapping masks"},
      {"run attention_fwd --window=-7,4", "the window is (-7, 4)"},
      {"run attention_fwd --seqlen-q 1099511627776 --batch 1099511627776", "overflows"},
      {"run attention_fwd --softcap -3", "soft_cap is -3"},
      {"run attention_fwd --dropout 1", "dropout_probability is 1"},
      {"run attention_fwd --random-bias --random-alibi", "both a bias and ALiBi slopes"},
      {"run attention_fwd --threads -2", "--threads -2"},
      {"run attention_fwd --kernel fastest", "kernel name \"fastest\""},
      {"run attention_fwd --out o.txt --seqlen-q 9", "o.txt is neither a .npy nor a .safetensors file"},
      {"run attention_fwd --out r.npy --lse r.npy --seqlen-q 9", "two tensors are to be written to r.npy"},
      {"run attention_fwd --cu-seqlens-q a.txt", "neither a .npy nor"},
      {"list --op gemm --arch x86_64_v4 --rule-set x", "gemm and conv on AMD architectures"},
      {"list --op gemm --arch sm_90a -m 99999999999999999999 -n 5 -k 5", "k from 0 to 1099511627776"},
      {"list --arch gfx950 --count --json --csv", "error: --csv does not go with --count"},
      {"list --arch gfx950 --json --csv", "error: --csv does not go with --json"},
      {"list --arch gfx950 --json --ndjson", "error: --ndjson does not go with --json"},
      {"list --arch gfx950 --stats --csv", "hint: one of --names, --json, --ndjson, --csv, --count and --stats"},
      {"list --arch gfx950 --count --stats", "error: --stats does not go with --count"},
      {"list --arch gfx950 --names --count", "error: --names does not go with --count"},
      {"list --built --csv", "hint: --arch, --count, --json do"},
      {"list --import kernels.json --csv", "error: --csv does not go with --import"},
      {"bench --category smok", "did you mean 'smoke'?"},
      {"bench --shard 5/2", "I/N with I from 1 to N"},
      {"bench --resume", "--resume without --csv"},
      {"bench --workers -1", "a negative count"},
      {"bench --limit 0", "--limit 0"},
      {"bench --limit 1e300", "--limit 1e+300"},
      {"tun gemm -m 3", "tilesmith has no \"tun\"\nhint: tun: did you mean 'run' or 'tune'?"},
      {"run gem -m 3", "tilesmith run has no \"gem\"\nhint: gem: did you mean 'gemm'?"},
      {"db shw", "tilesmith db has no \"shw\"\nhint: shw: did you mean 'show'?"},
      {"store", "required"},
      {"tune gemm -m 3 --shard 1/2", "--shard for one problem"},
      {"tune gemm -m 3 --max-problems 2", "--max-problems for one problem"},
      {"tune gemm -m 8:4", "-m 8:4: no range"},
      {"tune gemm -m 1:8 --candidates -1", "--candidates: -1 is not a number from 0 on"},
      {"bench --op gemm --oracle --samples 0", "--sample"},
      {"run attention_fwd --device gpu", "'gpu' is no device"},
      {"run attention_fwd --device rocm:0", "hip:N for an AMD GPU"},
      {"list --arch x86", "tilesmith arch names the architectures"},
      {"list --arch gfx9999 --count", "is no architecture"},
      {"build --arch x86_64_v5", "x86_64_v"},
      {"explain attention_fwd_fp32_batch_d64_dv64_flash_fma_tile64x128_on_x86_64_v9", "x86_64_v"},
      {"run attention_fwd --kernel attention_fwd_bf16_batch_d128_dv128_flash_fma_tile64x128_on_x86_64_v5 --no-time",
       "which is no architecture"},
      {"generate --arch gfx942 --ck-version 2026 --out /nonexistent/out", "no Composable Kernel version 2026 is known"},
      {"generate --arch x86_64_v4 --ck-version 2026-05 --out /nonexistent/out", "--ck-version and --sample without"},
  };
  for (const auto& [words, said] : mistakes) {
    const ProcessOutcome outcome = run(words);
    EXPECT_EQ(outcome.code, 2) << words << "\n" << outcome.errors;
    EXPECT_EQ(outcome.output, "") << words;
    EXPECT_EQ(outcome.errors.find("error: "), 0u) << words << "\n" << outcome.errors;
    EXPECT_NE(outcome.errors.find("hint: "), std::string::npos) << words << "\n" << outcome.errors;
    EXPECT_NE(outcome.errors.find(said), std::string::npos) << words << "\n" << outcome.errors;
    EXPECT_EQ(outcome.errors.find("defect"), std::string::npos) << words << "\n" << outcome.errors;
  }
}

TEST(Usage, WhatCannotBeDoneFails) {
  const std::tuple<const char*, const char*> failures[] = {
      {"run attention_fwd --q /nonexistent/q.npy", "/nonexistent/q.npy"},
      {"run attention_fwd --dtype int8", "fp8bf16 or fp8fp16"},
      {"run attention_fwd --device cuda:77", "cuda"},
      {"build --arch gfx908 --dtype bf16", "has no templates of its own"},
      {"build --arch gfx942 --op conv --dtype bf16", "conv kernels are not enumerated for gfx942"},
      {"list /nonexistent.json --op gemm --arch gfx950", "/nonexistent.json"},
      {"run attention_fwd --seqlen-q 900000000 --seqlen-k 1 --heads-q 1024", "out of memory"},
      {"bench /nonexistent.json", "/nonexistent.json"},
      {"bench --shapes /nonexistent.yaml", "/nonexistent.yaml"},
      {"bench --max-problems 1 --csv /nonexistent/rows.csv", "/nonexistent/rows.csv"},
      {"sweep --variant bwd", "--variant bwd"},
  };
  for (const auto& [words, said] : failures) {
    const ProcessOutcome outcome = run(words);
    EXPECT_EQ(outcome.code, 1) << words << "\n" << outcome.errors;
    EXPECT_EQ(outcome.output, "") << words;
    EXPECT_EQ(outcome.errors.find("error: "), 0u) << words << "\n" << outcome.errors;
    EXPECT_NE(outcome.errors.find(said), std::string::npos) << words << "\n" << outcome.errors;
    EXPECT_EQ(outcome.errors.find("defect"), std::string::npos) << words << "\n" << outcome.errors;
  }
}

TEST(Usage, BackwardKernelsAreListedByTheOperationAndByTheVariant) {
  for (const char* arch : {"x86_64_v4", "sm_90a", "gfx942"}) {
    const std::string list = fmt::format("list --arch {} --count --dtype fp16 --head-dim 64 ", arch);
    const std::string variant = run(list + "--variant bwd").output;
    EXPECT_NE(variant, run(list + "--variant fwd").output);
    EXPECT_EQ(run(list + "--op attention_bwd").output, variant);
    EXPECT_EQ(run(list + "--op attention_bwd --variant fwd").code, 2);
  }
}

TEST(Usage, JsonIsOneDocument) {
  const nlohmann::json arch = testing::document(run("arch --json"));
  EXPECT_GE(arch["cpu"]["levels"].size(), 4u);
  EXPECT_EQ(arch["cuda"]["devices"].empty(), arch["cuda"].contains("error")) << arch["cuda"];
  EXPECT_TRUE(arch["cuda"]["compiler"].contains("identity") || arch["cuda"]["compiler"].contains("error"));
  const ProcessOutcome ran =
      run("run attention_fwd --heads-q 4 --heads-kv 2 --seqlen-q 33 --head-dim-qk 64 --mask bottom_right --with-lse "
          "--verify --json");
  EXPECT_EQ(ran.code, 0) << ran.errors;
  const nlohmann::json json = testing::document(ran);
  EXPECT_EQ(json["operation"], "attention_fwd");
  EXPECT_EQ(json["problem"]["heads_kv"], 2);
  EXPECT_EQ(json["verify"]["outcome"], "pass");
  EXPECT_GT(json["timing"]["median_ms"], 0);
  EXPECT_GE(json["threads"], 1) << "those that it ran on, when none were asked for";
  EXPECT_TRUE(json["kernel"].get<std::string>().starts_with("attention_fwd_bf16_"));
  EXPECT_GE(testing::document(run("bench --max-problems 3 --dry-run")).size(), 3u);
}

TEST(Usage, TheVersionIsSaid) {
  const ProcessOutcome outcome = run("--version");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(outcome.output.starts_with("tilesmith 0.")) << outcome.output;
  EXPECT_EQ(outcome.errors, "");
}

TEST(Usage, AMisspeltValueOfAVariableIsAnErrorAtOnce) {
  for (const auto& [name, value, hint] : {std::tuple{"TILESMITH_LOG", "banana", "debug"},
                                          {"TILESMITH_WORKERS", "banana", "a number from 1 to 1024"},
                                          {"TILESMITH_BUILD", "sometimes", "now, never"},
                                          {"TILESMITH_DETERMINISM", "exact", "bitwise, tolerant"}}) {
    const testing::ScopedVariable variable(name, value);
    for (const char* words : {"arch", "list --arch x86_64_v4 --count", "run gemm --no-time", "store stats"}) {
      const ProcessOutcome outcome = run(words);
      EXPECT_EQ(outcome.code, 2) << name << ' ' << words;
      EXPECT_EQ(outcome.output, "") << name << ' ' << words;
      EXPECT_EQ(outcome.errors, fmt::format("error: {} is '{}'\nhint: {}\n", name, value,
                                            std::string_view(name).ends_with("LOG") ? "off, error, warn, info, debug"
                                                                                    : std::string_view(hint)));
    }
    EXPECT_EQ(run("--help").code, 0) << "help is there all the same";
  }
}

// Of all problems it is one that no kernel serves without a compiler.
constexpr const char* kPacked = "run gemm -m 50 -n 60 -k 70 --dtype fp32 --packed-b --no-time";

TEST(Usage, WhereBuildingIsOffNothingIsCompiled) {
  const testing::EmptyStore store;
  const std::string words = kPacked;
  {
    const testing::ScopedVariable off("TILESMITH_BUILD", "never");
    const ProcessOutcome refused = run(words);
    EXPECT_EQ(refused.code, 1);
    EXPECT_NE(refused.errors.find("TILESMITH_BUILD is never"), std::string::npos) << refused.errors;
    EXPECT_NE(refused.errors.find("hint: TILESMITH_BUILD=now"), std::string::npos) << refused.errors;
    const ProcessOutcome build =
        run("build --arch x86_64_v3 --head-dim 64 --dtype fp32 --filter "
            "\"c.tile_m == 64 and not c.dropout and c.lse\" --max 2000");
    EXPECT_NE(build.code, 0) << build.output;
    EXPECT_EQ(run("list --built --count").output, "0\n");
  }
  EXPECT_EQ(run(words).code, 0);
  const testing::ScopedVariable off("TILESMITH_BUILD", "never");
  EXPECT_EQ(run(words).code, 0) << "what is in the store is used";
}

TEST(Usage, ArchHasARowForEachArchitecture) {
  const nlohmann::json rows = testing::document(run("arch --json"))["architectures"];
  std::map<std::string, nlohmann::json> by_name;
  for (const nlohmann::json& row : rows) by_name[row["arch"]] = row;
  for (const char* name : {"x86_64_v3", "x86_64_amx", "sm_80", "sm_90a", "gfx942", "gfx1201"}) {
    ASSERT_TRUE(by_name.contains(name)) << name;
    const nlohmann::json& row = by_name[name];
    EXPECT_TRUE(row["list"]);
    EXPECT_TRUE(row["generate"]) << row;
    // Of chips without kernels of our own there are Composable Kernel's sources alone.
    EXPECT_FALSE(row["device"] == "amd" && (row["build"] || row["run"])) << row;
    for (const char* verb : {"generate", "build", "run"})
      EXPECT_EQ(row[verb], !row.contains("why_not") || !row["why_not"].contains(verb)) << row;
    EXPECT_EQ(run(fmt::format("list --arch {} --op gemm --count", name)).code, 0) << name;
  }
  // A chip without attention instances has sources all the same.
  const auto folder = TemporaryDirectory::create("tilesmith-arch-test-").value();
  for (const auto& [name, row] : by_name) {
    if (row["device"] != "amd" && row["device"] != "hip") continue;
    const std::string out = (folder.path() / name).string();
    const ProcessOutcome written =
        run(fmt::format("generate --arch {} --op gemm --variant standard --layout rcr --dtype fp16 --sample 1 --out {}",
                        name, out),
            {"--filter", "c.tile_m == 128"});
    EXPECT_EQ(written.code == 0, row["generate"].get<bool>()) << name << ": " << written.errors;
    if (row["device"] != "hip") continue;
    const std::string attention =
        run(fmt::format("list --arch {} --origin own --dtype bf16 --head-dim 64 --count", name)).output;
    EXPECT_EQ(row["about"].get<std::string>().contains("own attention and GEMM"), attention != "0\n") << row;
  }
  const std::string text = run("arch").output;
  EXPECT_NE(text.find("\ngfx942 "), std::string::npos) << text;
}

TEST(Usage, HintsNameOnlyWhatIsTaken) {
  const ProcessOutcome gemm = run("run gemm --dtype qf33");
  EXPECT_EQ(gemm.code, 2);
  EXPECT_NE(gemm.errors.find("bf16"), std::string::npos) << gemm.errors;
  for (const char* refused : {"fp64", "mxfp4", "pk_fp4"})
    EXPECT_EQ(gemm.errors.find(refused), std::string::npos) << gemm.errors;
  EXPECT_NE(run("run gemm --dtype bf17").errors.find("did you mean bf16"), std::string::npos);
}

TEST(Usage, ExplainAndListAgreeAboutTiles) {
  const std::string name = "attention_fwd_fp32_batch_d64_dv64_flash_fma_tile64x512_on_x86_64_v4";
  const ProcessOutcome explained = run("explain " + name);
  EXPECT_EQ(explained.code, 0) << explained.errors;
  EXPECT_NE(explained.output.find("not listed"), std::string::npos) << explained.output;
  EXPECT_NE(explained.output.find("specs/cpu/x86_64_v4.json"), std::string::npos) << explained.output;
  const std::string listed = run("list --arch x86_64_v4 --dtype fp32 --head-dim 64 --names").output;
  EXPECT_EQ(listed.find(name), std::string::npos);
  const std::string first = listed.substr(0, listed.find('\n'));
  EXPECT_NE(run("explain " + first).output.find(": listed and sound"), std::string::npos) << first;
}

TEST(Usage, ArchSaysWhatCudaLacks) {
  const testing::ScopedVariable driver("TILESMITH_LIBCUDA", "/nonexistent/libcuda.so.1");
  const testing::ScopedVariable compiler("TILESMITH_NVRTC", "/nonexistent/libnvrtc.so");
  const nlohmann::json cuda = testing::document(run("arch --json"))["cuda"];
  EXPECT_TRUE(cuda["devices"].empty());
  EXPECT_NE(cuda["error"].get<std::string>().find("install the NVIDIA driver"), std::string::npos) << cuda;
  EXPECT_NE(cuda["compiler"]["error"].get<std::string>().find("pip install nvidia-cuda-nvrtc"), std::string::npos);
  const ProcessOutcome text = run("arch");
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.output.find("CUDA no CUDA driver: /nonexistent/libcuda.so.1"), std::string::npos) << text.output;
}

TEST(Usage, FiguresOfAListAreTextOrJson) {
  const std::string list = "list --arch x86_64_v4";
  const std::string count = run(list + " --count").output;
  ASSERT_GT(std::strtoll(count.c_str(), nullptr, 10), 0) << count;
  const nlohmann::json json = testing::document(run(list + " --json --count"));
  EXPECT_EQ(std::to_string(json["count"].get<std::int64_t>()) + "\n", count);
  EXPECT_GT(testing::document(run(list + " --stats --json")).size(), 1u);
}

TEST(Usage, ListsWhatIsBuilt) {
  const testing::EmptyStore store;
  EXPECT_EQ(run("list --built --count").output, "0\n");
  EXPECT_EQ(run("list --built --count --json").output, "{\"count\":0}\n");
  const ProcessOutcome ran = run("run attention_fwd --seqlen-q 50 --head-dim-qk 72 --no-time --verify");
  ASSERT_EQ(ran.code, 0) << ran.errors;
  const nlohmann::json entries = testing::document(run("list --built --json"));
  ASSERT_GE(entries.size(), 1u);
  EXPECT_TRUE(entries[0]["name"].get<std::string>().starts_with("attention_fwd_")) << entries[0];
  EXPECT_GT(entries[0]["bytes"], 0);
  EXPECT_FALSE(entries[0].contains("resources")) << "a CPU kernel has no such report";
  EXPECT_NE(run("list --built").output.find(entries[0]["name"].get<std::string>()), std::string::npos);
  EXPECT_EQ(run("list --built --arch sm_90a --count").output, "0\n");
  const ProcessOutcome mixed = run("list --built --stats");
  EXPECT_NE(mixed.code, 0);
  EXPECT_NE(mixed.errors.find("--stats does not go with --built"), std::string::npos) << mixed.errors;
}

TEST(Usage, ARecipesNameServesWhereAKernelsDoes) {
  const testing::EmptyStore store;
  const std::string listed = run("list --op gemm --arch x86_64_v3 --dtype fp32").output;
  const std::size_t end = listed.find('\n');
  const std::string first = listed.substr(0, end),
                    second = listed.substr(end + 1, listed.find('\n', end + 1) - end - 1);
  const std::string recipe = fmt::format("pack_b:{}+{}+{}", first, second, second);

  const ProcessOutcome explained = run("explain " + recipe);
  ASSERT_EQ(explained.code, 0) << explained.errors;
  EXPECT_NE(explained.output.find("step 1 of 3, role pack_b\n"), std::string::npos) << explained.output;
  EXPECT_NE(explained.output.find("step 3 of 3, role compute\n"), std::string::npos) << explained.output;
  EXPECT_EQ(testing::document(run("explain " + recipe + " --json")).size(), 3u);
  const ProcessOutcome wrong = run("explain " + first + "+fastest");
  EXPECT_NE(wrong.code, 0);
  EXPECT_NE(wrong.errors.find("step 2"), std::string::npos) << wrong.errors;

  const std::filesystem::path out = store.path() / "sources";
  const ProcessOutcome generated = run(fmt::format("generate --kernel {} --out {}", recipe, out.string()));
  ASSERT_EQ(generated.code, 0) << generated.errors;
  EXPECT_TRUE(generated.output.starts_with("2 sources and build.ninja")) << generated.output;
  EXPECT_TRUE(std::filesystem::exists(out / (second + ".cpp")));
  const ProcessOutcome two = run("build --kernel " + first + " --arch sm_90a");
  EXPECT_NE(two.code, 0);
  EXPECT_NE(two.errors.find("is not for sm_90a"), std::string::npos) << two.errors;
  const ProcessOutcome lost = run(fmt::format("build --kernel {} {}", first, second));
  EXPECT_NE(lost.code, 0) << "the second name is no option of --kernel: it would be left out";
  EXPECT_NE(lost.errors.find("--kernel before the name of each kernel"), std::string::npos) << lost.errors;
}

TEST(Usage, GeneratedCudaSourcesAreBuiltWithNvccsOptions) {
  const testing::EmptyStore store;
  const std::filesystem::path out = store.path() / "sources";
  const std::string name = "attention_fwd_bf16_batch_d64_dv64_lse_decode_mma_tile16x128_stages3_blocks2_on_sm_90a";
  const ProcessOutcome generated =
      run(fmt::format("generate --arch sm_90a --op attention_fwd --kernel {} --out {}", name, out.string()));
  ASSERT_EQ(generated.code, 0) << generated.errors;
  std::ifstream file(out / "build.ninja");
  const std::string ninja{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(ninja.find("--expt-relaxed-constexpr"), std::string::npos) << ninja;
  EXPECT_EQ(ninja.find("-default-device"), std::string::npos) << "is an option of NVRTC alone";
}

TEST(Usage, StoreVerifyFailsOnceWhereThereWasDamage) {
  const testing::EmptyStore store;
  EXPECT_EQ(run("store verify").code, 0) << "an empty store is whole";
  for (const std::string flag : {"", " --json"}) {
    ASSERT_EQ(run("run attention_fwd --seqlen-q 50 --head-dim-qk 72 --no-time").code, 0);
    EXPECT_EQ(run("store verify").code, 0);
    const std::filesystem::path entries = store.path() / "v1/entries";
    const auto count = std::distance(std::filesystem::directory_iterator(entries), {});
    const std::filesystem::path binary = std::filesystem::directory_iterator(entries)->path() / "binary";
    std::filesystem::permissions(binary, std::filesystem::perms::owner_all);
    std::filesystem::resize_file(binary, 100);
    const ProcessOutcome damaged = run("store verify" + flag);
    EXPECT_EQ(damaged.code, 1) << damaged.output;
    EXPECT_NE(damaged.output.find(binary.string()), std::string::npos) << damaged.output;
    EXPECT_NE(damaged.errors.find(fmt::format("error: 1 of {} stored entries were damaged\n", count)),
              std::string::npos)
        << damaged.errors;
    EXPECT_NE(damaged.errors.find("hint: they are in quarantine now"), std::string::npos) << damaged.errors;
    if (!flag.empty()) {
      EXPECT_EQ(testing::document(damaged)["corrupt"].size(), 1u);
    }
    EXPECT_FALSE(std::filesystem::exists(binary));
    const ProcessOutcome after = run("store verify");
    EXPECT_EQ(after.code, 0) << after.errors;
    EXPECT_EQ(after.errors, "");
  }
  EXPECT_EQ(testing::document(run("store stats --json"))["quarantined"], 2);
}

TEST(Usage, APathThatIsNoUtf8StandsInJson) {
  const auto folder = TemporaryDirectory::create("tilesmith-usage-test-").value();
  const std::string store = (folder.path() / "caf\xe9").string();
  const ProcessOutcome stats =
      testing::run_by("TILESMITH_CACHE_DIR=" + store + " exec \"$0\" \"$@\"", "store stats --json");
  ASSERT_EQ(stats.code, 0) << stats.errors;
  EXPECT_EQ(testing::document(stats)["entries"], 0);
}

TEST(Usage, StoreStatsCountsWhatAllProcessesDid) {
  const testing::EmptyStore store;
  const std::string words = "run gemm -m 3 -n 5 -k 7 --no-time";
  for (int i = 0; i < 3; ++i) ASSERT_EQ(run(words).code, 0);
  const auto counts = testing::document(run("store stats --json"))["counts"];
  EXPECT_EQ(counts["builds"], counts["misses"]);
  EXPECT_GE(counts["builds"], 1);
  EXPECT_EQ(counts["hits"], 2 * counts["builds"].get<int>()) << counts.dump();
  EXPECT_GT(counts["build_seconds"], 0);
  EXPECT_NE(run("store stats").output.find("all processes found 2 kernels here"), std::string::npos);
}

TEST(Usage, ABuildThatNothingKeepsFails) {
  const testing::EmptyStore scratch;
  const std::string build =
      "build --arch x86_64_v3 --kernel attention_fwd_fp32_batch_d64_dv64_decode_fma_tile1x256_on_x86_64_v3";
  const auto refused = [&](const std::filesystem::path& store, const std::string& why) {
    const testing::ScopedVariable place("TILESMITH_CACHE_DIR", store.string());
    const ProcessOutcome outcome = run(build);
    EXPECT_EQ(outcome.code, 1) << outcome.errors;
    EXPECT_NE(outcome.output.find("0 of 1 instances are in the store"), std::string::npos) << outcome.output;
    EXPECT_NE(outcome.errors.find(why), std::string::npos) << outcome.errors;
  };
  const std::filesystem::path file = scratch.path() / "file", split = scratch.path() / "split";
  std::ofstream(file) << "no directory";
  refused(file, "there is no store");
  {
    const testing::ScopedVariable place("TILESMITH_CACHE_DIR", file.string());
    for (const char* words : {"store stats", "store verify", "store prune", "store stats --json"}) {
      const ProcessOutcome outcome = run(words);
      EXPECT_EQ(outcome.code, 1) << words;
      EXPECT_EQ(outcome.output, "") << words;
      EXPECT_NE(outcome.errors.find(file.string()), std::string::npos) << words << ": " << outcome.errors;
    }
  }
  // Entries cannot be renamed into another file system, which is as good as a full one.
  const auto other = TemporaryDirectory::create("tilesmith-cli-test-", "/dev/shm");
  if (!other) GTEST_SKIP() << other.error().text();
  std::error_code code;
  std::filesystem::rename(file, other->path() / "file", code);
  if (!code) GTEST_SKIP() << "/dev/shm is the file system of " << scratch.path();
  std::filesystem::create_directories(split / "v1");
  for (const auto& each : {split, split / "v1"})
    std::filesystem::permissions(each, std::filesystem::perms::owner_all, std::filesystem::perm_options::replace);
  std::filesystem::create_directory_symlink(other->path(), split / "v1/entries");
  refused(split, "cannot keep it");
}

TEST(Usage, AFullStandardOutputIsAFailure) {
  for (const char* words : {"arch --json", "--help", "run --help", "--help-all", "--version"}) {
    const ProcessOutcome outcome = testing::run_by("exec \"$0\" \"$@\" > /dev/full", words);
    EXPECT_EQ(outcome.code, 1) << words;
    EXPECT_NE(outcome.errors.find("standard output"), std::string::npos) << words << ": " << outcome.errors;
  }
}

TEST(Usage, WithoutACompilerItSaysSoOnceAndGoesOn) {
  const testing::EmptyStore store;
  const testing::ScopedVariable compiler("TILESMITH_CXX", "/nonexistent/c++");
  const ProcessOutcome outcome =
      run("run attention_fwd --seqlen-q 50 --head-dim-qk 64 --mask top_left --no-time --verify --json");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(testing::document(outcome)["reason"].get<std::string>().find("/nonexistent/c++"), std::string::npos);
  EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
  EXPECT_NE(outcome.errors.find("going on with kernels that need no compiler"), std::string::npos) << outcome.errors;
  const ProcessOutcome refused = run(kPacked);
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.errors.find("/nonexistent/c++"), std::string::npos) << refused.errors;
}

TEST(Usage, ACompilersWordsNeedNotBeText) {
  const testing::EmptyStore store;
  const std::filesystem::path script = store.path() / "compiler";
  ASSERT_TRUE(write_new_file(
      script, "#!/bin/sh\n[ \"$1\" = --version ] && { echo 1; exit; }\nprintf 'error: \\377\\376' >&2; exit 1\n"));
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const testing::ScopedVariable compiler("TILESMITH_CXX", script.string());
  const ProcessOutcome outcome = run("run attention_fwd --seqlen-q 20 --head-dim-qk 64 --no-time --json");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_TRUE(testing::document(outcome).contains("reason"));
}

TEST(Usage, CandidatesOfAProblemAreListedInDispatchOrder) {
  for (const char* words :
       {"list --op gemm --arch sm_90a --candidates -m 300 -n 320 -k 64 --dtype bf16 --dtype-out fp32",
        "list --op gemm --arch sm_90a --candidates -m 512 -n 512 -k 512 --unaligned",
        "list --op gemm --arch gfx942 --candidates -m 300 -n 322 -k 64 --dtype fp16 --epilogue bias,gelu",
        "list --op gemm --arch x86_64_v4 --candidates -m 300 -n 320 -k 64 --threads 4",
        "list --arch sm_80 --candidates --seqlen-q 512 --seqlen-k 512 --mask top_left",
        "list --op attention --arch x86_64_v3 --candidates --seqlen-q 1 --seqlen-k 4096 --dtype fp32"}) {
    const ProcessOutcome text = run(words);
    ASSERT_EQ(text.code, 0) << words << text.errors;
    EXPECT_NE(text.output.find(" us  "), std::string::npos) << text.output;
    EXPECT_EQ(text.output.find("refused"), std::string::npos);
    const nlohmann::json json = testing::document(run(std::string(words) + " --refused --json"));
    ASSERT_FALSE(json["candidates"].empty()) << words;
    EXPECT_EQ(json["candidates"][0]["rank"], 1);
    EXPECT_GT(json["candidates"][0]["predicted_seconds"], 0);
    EXPECT_NE(text.output.find(json["candidates"][0]["name"].get<std::string>()), std::string::npos);
    for (const nlohmann::json& refused : json["refused"]) EXPECT_FALSE(refused["rule"].get<std::string>().empty());
    const ProcessOutcome grouped = run(std::string(words) + " --refused");
    EXPECT_NE(grouped.output.find(fmt::format("refused: {}\n", json["refused"].size())), std::string::npos)
        << grouped.output;
  }
  for (const auto& [words, says] :
       {std::pair{"list --candidates -m 3", "--arch is missing"},
        {"list --arch gfx908 --candidates --seqlen-q 5", "no templates of its own"},
        {"list --arch sm_90 --candidates --seqlen-q 5", "did you mean"},
        {"list --op conv --arch gfx950 --candidates", "no kernels of conv for this device"},
        {"list --arch sm_90a --candidates --seqlen-q 5 --policy upstream", "no rules of upstream for attention_fwd"},
        {"list --op conv --arch sm_90a --candidates -k 96 --policy inductor", "no configs of Inductor for conv here"},
        {"list --op attention_bwd --arch sm_90a --candidates --policy inductor_exhaustive",
         "no configs of Inductor for attention_bwd here"},
        {"tune conv -c 8 --policy inductor --db /dev/null", "no configs of Inductor for conv here"},
        {"list --arch gfx908 --origin ck --candidates --seqlen-q 5", "no figures of a chip for gfx908"},
        {"list --arch sm_90a --candidates --csv", "--csv does not go with --candidates"},
        {"list --arch sm_90a --candidates --seqlen-z 5", "--seqlen-z"},
        {"list --arch sm_90a --refused", "--refused goes with --candidates"},
        {"list --arch sm_90a --seqlen-q 5", "--seqlen-q"}}) {
    const ProcessOutcome outcome = run(words);
    EXPECT_NE(outcome.code, 0) << words;
    EXPECT_NE(outcome.errors.find(says), std::string::npos) << words << ": " << outcome.errors;
  }
}

}  // namespace
}  // namespace tilesmith
