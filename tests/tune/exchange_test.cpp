// Files of other formats: what is ours comes back as it was, what is not is kept as what it is or refused.
#include "tune/exchange.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "base/file.hpp"
#include "base/json.hpp"
#include "problem/line.hpp"
#include "sweep/lines.hpp"
#include "tune/choices.hpp"
#include "tune/sample_races.hpp"

namespace tilesmith {
namespace {

using testing::sample_race;
using testing::sample_run;

constexpr const char* kTunableOp =
    "Validator,PT_VERSION,2.9.0\n"
    "Validator,GCN_ARCH_NAME,gfx942:sramecc+:xnack-\n"
    "GemmTunableOp_BFloat16_TN,tn_512_256_4096_ld_4096_4096_512,Gemm_Rocblas_45,0.1\n"
    "GemmTunableOp_float_NT,nt_25088_4096_64,1219,1.262\n"
    "GemmStridedBatchedTunableOp_Half_NN,nn_64_128_96_B_6_ld_64_96_64,Default,0.025\n"
    "GemmAndBiasTunableOp_Half_TN,tn_768_1024_768_ld_768_768_768,Gemm_Hipblaslt_9,0.5\n"
    "ScaledGemmTunableOp_Float8_e4m3fn_Float8_e4m3fn_BFloat16_TN,tn_64_12288_2048_ld_2048_2048_64_rw_1_bias_None,x,1\n"
    "GemmTunableOp_double_TN,tn_8_8_8_ld_8_8_8,Default\n"
    "GemmTunableOp_Half_TN,tn_512_256_4096_ld_4096_4096_512\n";

constexpr const char* kInductor = R"({
  "NVIDIA H100+((torch.float16, [64, 128], [128, 1]), (torch.float16, [128, 256], [1, 128]))+mm": [
    {"template_id": "triton::mm", "EVEN_K": true, "num_stages": 2, "num_warps": 4, "BLOCK_M": 32, "BLOCK_N": 32},
    {"template_id": "aten::mm"}],
  "NVIDIA H100+((torch.float16, [128, 256], [0, 1]), (torch.float16, [128, 64], [64, 1]), (torch.float16, [64, 256], [256, 1]))+alpha=1&beta=1+addmm": [
    {"template_id": "aten::bias_addmm"}],
  "NVIDIA H100+((torch.bfloat16, [4, 32, 64], [2048, 64, 1]), (torch.bfloat16, [4, 64, 96], [6144, 96, 1]))+bmm": [
    {"template_id": "triton::bmm"}],
  "NVIDIA H100+((torch.bfloat16, [32, 64], [64, 1]), (torch.bfloat16, [64, 96], [1, 64]), (torch.bfloat16, [32, 40], [40, 1]), (torch.bfloat16, [40, 96], [1, 40]))+mm_plus_mm": [
    {"template_id": "triton::mm_plus_mm"}],
  "NVIDIA H100+((torch.float16, [s0, 128], [128, 1]), (torch.float16, [128, 256], [256, 1]))+mm": [
    {"template_id": "triton::mm"}],
  "NVIDIA H100+((torch.float8_e4m3fn, [64, 128], [128, 1]), (torch.float8_e4m3fn, [128, 256], [1, 128]))+scaled_mm": [
    {"template_id": "triton::scaled_mm"}]
})";

/// Two runs, times that no decimal fraction of few digits is, a failure with a comma, quotes and a line break.
std::vector<StoredRace> some_races() {
  std::vector<StoredRace> races;
  for (const char letter : {'a', 'b'}) {
    RaceRecord race = sample_race("gemm;m=3;", {1e-3 / 3, 7e-5 / 11, 0});
    race.line = "gemm -m 3 -n 512 -k 512 --dtype bf16 --seed 1";
    race.entrants[1].blocks[0] = {1e-5 / 3, 1e-5 / 7, 1e-5 / 9};
    race.entrants[2].failure = "its result is wrong: \"D\", row 3\nand more";
    races.push_back({sample_run(letter, std::string("2026-11-2") + letter), race});
  }
  return races;
}

ExchangeContent read(ExchangeFormat format, std::string_view text) {
  auto content = read_exchange(format, "a file", text);
  EXPECT_TRUE(content) << content.error().text();
  return content.value_or(ExchangeContent());
}

void expect_equal(const std::vector<StoredRace>& a, const std::vector<StoredRace>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].run, b[i].run);
    EXPECT_EQ(a[i].race, b[i].race);
  }
}

TEST(Exchange, AFileOfOtherRowsIsNamedOnce) {
  for (const ExchangeFormat format : {ExchangeFormat::tunableop, ExchangeFormat::inductor, ExchangeFormat::t4}) {
    const auto content = read_exchange(format, "f.json", R"({"tilesmith_database": 1})");
    ASSERT_FALSE(content);
    const std::string& message = content.error().message;
    EXPECT_EQ(message.find("f.json"), 0u) << message;
    EXPECT_EQ(message.find("f.json", 1), std::string::npos) << message;
  }
}

TEST(Exchange, OurRacesComeBackBitForBitFromEachFormat) {
  const auto races = some_races();
  for (const ExchangeFormat format : {ExchangeFormat::json, ExchangeFormat::csv, ExchangeFormat::t4}) {
    const auto text = write_exchange(format, races, {});
    ASSERT_TRUE(text) << text.error().text();
    const ExchangeContent content = read(format, *text);
    expect_equal(content.races, races);
    EXPECT_TRUE(content.foreign.empty());
    EXPECT_TRUE(content.refused.empty());
    EXPECT_EQ(choices_of(content.races).digest(), choices_of(races).digest());
  }
}

TEST(Exchange, ADatabaseTakesAFileOnceAndWhole) {
  const auto folder = TemporaryDirectory::create("tilesmith-exchange-test-").value();
  const auto open = [&](const char* name) {
    return Database::open(folder.path() / name, Database::Mode::write).value();
  };
  Database database = open("a.db");
  EXPECT_TRUE(database.foreign().value().empty());
  const auto foreign = read(ExchangeFormat::tunableop, kTunableOp).foreign;
  for (const bool first : {true, false}) {
    const auto gain = database.add_all(some_races(), foreign);
    ASSERT_TRUE(gain) << gain.error().text();
    EXPECT_EQ(gain->races, first ? 2 : 0);
    EXPECT_EQ(gain->samples, first ? 7 : 0);
  }
  EXPECT_EQ(database.foreign().value(), foreign);
  EXPECT_EQ(database.counts()->foreign, 7);

  Database other = open("b.db");
  EXPECT_EQ(other.merge(database)->samples, 7);
  EXPECT_EQ(other.merge(database)->samples, 0);
  const std::string whole =
      write_exchange(ExchangeFormat::json, other.races().value(), other.foreign().value()).value();
  const ExchangeContent content = read(ExchangeFormat::json, whole);
  expect_equal(content.races, some_races());
  EXPECT_EQ(content.foreign, foreign);

  // A race that cannot be added takes those before it back.
  auto bad = some_races();
  for (StoredRace& stored : bad) stored.run.uuid = std::string(32, stored.run.uuid[0] == 'a' ? 'c' : 'd');
  bad.back().race.incumbent = {9, 9};
  EXPECT_FALSE(other.add_all(bad, {}));
  EXPECT_EQ(other.counts()->races, 2);
}

TEST(Exchange, TunableOpIsReadAsRowMajor) {
  const ExchangeContent content = read(ExchangeFormat::tunableop, kTunableOp);
  EXPECT_TRUE(content.refused.empty()) << content.refused.front();
  ASSERT_EQ(content.foreign.size(), 1u);
  const ForeignSource& source = content.foreign.front();
  EXPECT_EQ(source.device, "gfx942:sramecc+:xnack-");
  const auto& samples = source.samples;
  ASSERT_EQ(samples.size(), 7u);
  EXPECT_EQ(samples[0].line, "gemm -m 256 -n 512 -k 4096 --dtype bf16 --seed 1");
  EXPECT_EQ(samples[0].kernel, "Gemm_Rocblas_45");
  EXPECT_DOUBLE_EQ(samples[0].seconds, 1e-4);
  EXPECT_EQ(samples[1].line, "gemm -m 4096 -n 25088 -k 64 --dtype fp32 --layout crr --seed 1");
  EXPECT_EQ(samples[2].line, "gemm -m 128 -n 64 -k 96 --batch 6 --dtype fp16 --layout rrr --seed 1");
  for (const std::size_t i : {3u, 4u, 5u}) EXPECT_TRUE(samples[i].problem.empty()) << samples[i].line;
  EXPECT_NE(samples[3].line.find("which activation"), std::string::npos) << samples[3].line;
  EXPECT_EQ(samples[6].seconds, 0);
  EXPECT_EQ(samples[6].kernel, "");
  // The identity is the one that tune gives the problem.
  const auto call = std::get<RandomCall<Gemm>>(parse_line(samples[0].line).value());
  EXPECT_EQ(samples[0].problem, identity_of(call.problem));

  EXPECT_EQ(write_exchange(ExchangeFormat::tunableop, {}, content.foreign).value(), kTunableOp);
  ForeignSource other = source;
  other.header = "Validator,PT_VERSION,2.0.0\n";
  EXPECT_EQ(write_exchange(ExchangeFormat::tunableop, {}, {source, other}).error().code, ErrorCode::unsupported);
}

TEST(Exchange, TunableOpRowsThatContradictThemselvesAreRefused) {
  for (const char* row :
       {"GemmTunableOp_BFloat16_TN,nn_512_256_4096_ld_4096_4096_512,x,0.1",
        "GemmTunableOp_BFloat16_TN,tn_512_256_4096_ld_4095_4096_512,x,0.1",
        "GemmTunableOp_BFloat16_TN,tn_512_256_4096_B_3_ld_4096_4096_512,x,0.1",
        "GemmTunableOp_BFloat16_TN,tn_512_256,x,0.1", "GemmTunableOp_BFloat16_TN,tn_512_-2_3,x,0.1",
        "GemmTunableOp_BFloat16_TN,tn_512_256_4096_ld_4096_4096_512,x,0.1ms",
        "GemmTunableOp_BFloat16_TN,tn_512_256_4096_ld_4096_4096_512,x,nan",
        "GemmTunableOp_BFloat16_TN,tn_512_256_4096,x,0.1,more", "gemm,tn_512_256_4096,x,1", "nonsense"}) {
    const auto alone = read_exchange(ExchangeFormat::tunableop, "f.csv", row);
    ASSERT_FALSE(alone) << row;
    EXPECT_NE(alone.error().message.find("f.csv:1:"), std::string::npos) << alone.error().message;
    const auto content = read(ExchangeFormat::tunableop, std::string(kTunableOp) + row + "\r\n");
    EXPECT_EQ(content.refused.size(), 1u) << row;
    EXPECT_EQ(content.foreign.front().samples.size(), 7u);
  }
}

TEST(Exchange, ProblemsForTunableOpReadBackAsTheSameProblems) {
  std::vector<StoredRace> races;
  for (const char* line : {"gemm -m 256 -n 512 -k 4096 --dtype bf16 --seed 1",
                           "gemm -m 40 -n 24 -k 64 --batch 6 --dtype fp16 --layout crr --seed 1",
                           "gemm -m 40 -n 24 -k 64 --dtype fp32 --layout ccr --seed 1",
                           "gemm -m 40 -n 24 -k 64 --dtype fp32 --epilogue gelu --seed 1"}) {
    const auto call = std::get<RandomCall<Gemm>>(parse_line(line).value());
    RaceRecord race = sample_race(identity_of(call.problem), {1.0});
    race.line = line;
    races.push_back({sample_run('a', "1"), race});
  }
  const std::string text = write_exchange(ExchangeFormat::untuned, races, {}).value();
  EXPECT_TRUE(text.starts_with("GemmTunableOp_BFloat16_TN,tn_512_256_4096_ld_4096_4096_512\n")) << text;
  const auto content = read(ExchangeFormat::untuned, text);
  ASSERT_EQ(content.foreign.front().samples.size(), 3u) << "gelu has no place in its parameters";
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(content.foreign.front().samples[i].problem, races[i].race.problem);
}

TEST(Exchange, InductorTablesComeBackAsTheyWere) {
  const ExchangeContent content = read(ExchangeFormat::inductor, kInductor);
  EXPECT_TRUE(content.refused.empty());
  ASSERT_EQ(content.foreign.size(), 2u) << "a key of unknown form names no device";
  const auto& samples = content.foreign[1].samples;
  EXPECT_EQ(content.foreign[1].device, "NVIDIA H100");
  ASSERT_EQ(samples.size(), 6u);
  EXPECT_EQ(samples[0].line, "gemm -m 64 -n 256 -k 128 --dtype fp16 --seed 1");
  EXPECT_EQ(samples[1].line, samples[0].line);
  EXPECT_EQ(samples[2].line, "gemm -m 128 -n 256 -k 64 --dtype fp16 --layout rrr --epilogue bias --seed 1");
  EXPECT_EQ(samples[3].line, "gemm -m 32 -n 96 -k 64 --batch 4 --dtype bf16 --layout rrr --seed 1");
  EXPECT_EQ(samples[4].line, "gemm -m 32 -n 96 -k 64 --k2 40 --dtype bf16 --seed 1");
  EXPECT_TRUE(samples[5].problem.empty());
  EXPECT_TRUE(content.foreign[0].samples.front().problem.empty());
  const std::string text = write_exchange(ExchangeFormat::inductor, {}, content.foreign).value();
  EXPECT_EQ(nlohmann::json::parse(text), nlohmann::json::parse(kInductor));

  const auto refused = read(ExchangeFormat::inductor, R"({"((torch.float16, [1, 1], [1, 1]))+mm": [{"BLOCK_M": 3}, 7],
    "other": 5, "((torch.float16, [64, 128], [128, 1]), (torch.float16, [99, 256], [1, 99]))+mm": [{"template_id": "x"}]})");
  EXPECT_EQ(refused.refused.size(), 3u);
  EXPECT_EQ(refused.foreign.front().samples.front().line, "its matrices do not fit");
}

TEST(Exchange, ForeignResultsOfKernelTunerStayForeign) {
  const std::string text = R"({"schema_version": "1.0.0", "results": [
    {"timestamp": "t", "configuration": {"block_size_x": 128}, "objectives": ["time"], "times": {"runtimes": [0.02]},
     "invalidity": "correct", "correctness": 1, "measurements": [{"name": "time", "value": 0.02, "unit": "ms"}]},
    {"configuration": {"block_size_x": 2048}, "times": {}, "invalidity": "compile", "correctness": 1},
    {"configuration": {"block_size_x": 64}, "objectives": ["GFLOP/s"], "times": {}, "invalidity": "correct", "correctness": 1,
     "measurements": [{"name": "GFLOP/s", "value": 900, "unit": ""}]},
    {"configuration": {"block_size_x": 32}, "times": {}, "invalidity": "perhaps", "correctness": 1}]})";
  const ExchangeContent content = read(ExchangeFormat::t4, text);
  EXPECT_TRUE(content.races.empty());
  ASSERT_EQ(content.foreign.size(), 1u);
  const auto& samples = content.foreign.front().samples;
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].kernel, R"({"block_size_x":128})");
  EXPECT_DOUBLE_EQ(samples[0].seconds, 2e-5);
  EXPECT_EQ(samples[1].failure, "compile");
  EXPECT_EQ(content.refused.size(), 2u);
}

TEST(Exchange, TornChangedAndForeignFilesAreRefused) {
  const auto races = some_races();
  const std::string json = write_exchange(ExchangeFormat::json, races, {}).value();
  const std::string csv = write_exchange(ExchangeFormat::csv, races, {}).value();
  const std::string t4 = write_exchange(ExchangeFormat::t4, races, {}).value();
  const auto with = [](std::string text, const std::string& from, const std::string& to) {
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const std::vector<std::pair<ExchangeFormat, std::string>> files{
      {ExchangeFormat::json, json.substr(0, json.size() / 2)},
      {ExchangeFormat::json, "[]"},
      {ExchangeFormat::json, with(json, "\"v2\"", "\"v1\"")},
      {ExchangeFormat::json, with(json, "\"tilesmith_database\": 1", "\"tilesmith_database\": 9")},
      {ExchangeFormat::json, with(json, std::string(32, 'a'), "a")},
      {ExchangeFormat::csv, csv.substr(0, csv.size() - 5)},
      {ExchangeFormat::csv, with(csv, "block_0_s", "block_s")},
      {ExchangeFormat::csv, with(csv, "keys: v2", "keys: v1")},
      {ExchangeFormat::csv, json},
      {ExchangeFormat::t4, t4.substr(0, t4.size() - 4)},
      {ExchangeFormat::t4, with(t4, "\"1.0.0\"", "\"2.0.0\"")},
      {ExchangeFormat::t4, with(t4, "tilesmith_incumbent", "another")},
      {ExchangeFormat::t4, json},
      {ExchangeFormat::tunableop, json},
      {ExchangeFormat::inductor, csv},
      {ExchangeFormat::lines, "gemm -m 3"}};
  for (const auto& [format, text] : files) {
    const auto content = read_exchange(format, "a file", text);
    ASSERT_FALSE(content) << exchange_format_names()[static_cast<std::size_t>(format)] << ": " << text.substr(0, 60);
    EXPECT_EQ(content.error().message.find("json.exception"), std::string::npos) << content.error().message;
  }
  // A time that is none, in each place that has one.
  for (const char* to : {"-1", "0"}) {
    EXPECT_FALSE(read_exchange(ExchangeFormat::csv, "f", with(csv, "1.1111111111111112e-06", to)));
    EXPECT_FALSE(read_exchange(ExchangeFormat::json, "f", with(json, "1.1111111111111112e-06", to)));
  }
  EXPECT_EQ(write_exchange(ExchangeFormat::tunableop, races, {}).error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace tilesmith
