#include "sweep/row.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/json.hpp"
#include "sweep/lines.hpp"
#include "sweep/operation.hpp"
#include "sweep/sample_row.hpp"
#include "vocabulary/names/name.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

std::map<std::string, std::string> cells_of(const BenchRow& row) {
  const std::string_view operation = operation_name_of(row.problem);
  const auto names = parse_csv_line(operation, csv_header(operation));
  const auto cells = parse_csv_line(operation, csv_line(row));
  EXPECT_TRUE(names && cells);
  std::map<std::string, std::string> out;
  for (std::size_t i = 0; i < names->size(); ++i)
    EXPECT_TRUE(out.emplace(names->at(i), cells->at(i)).second) << "two columns " << names->at(i);
  return out;
}

TEST(BenchRow, CellsComeBackFromALine) {
  const BenchRow row = testing::sample_row();
  const auto cells = cells_of(row);
  const std::pair<const char*, std::string> expected[] = {{"identity", row.identity()},
                                                          {"data_type", "bf16"},
                                                          {"seqlen_q", "512"},
                                                          {"heads_kv", "2"},
                                                          {"window_left", "30"},
                                                          {"window_right", "-1"},
                                                          {"lse", "1"},
                                                          {"sink", "0"},
                                                          {"threads", "2"},
                                                          {"rank", "3"},
                                                          {"status", "correct"},
                                                          {"median_ms", "2"},
                                                          {"samples", "7"},
                                                          {"tflops", "2"},
                                                          {"gbps", "0.5"},
                                                          {"worst_output", "o"},
                                                          {"max_abs_error", "0.5"},
                                                          {"rms_error", "0.125"},
                                                          {"error_ratio_to_naive", "1.5"},
                                                          {"naive_ms", "10"},
                                                          {"roofline_percent", "50"},
                                                          {"message", ""}};
  for (const auto& [name, value] : expected) EXPECT_EQ(cells.at(name), value) << name;
}

TEST(BenchRow, TheColumnsAreEnoughToRebuildTheKernel) {
  const BenchRow row = testing::sample_row();
  const auto cells = cells_of(row);
  const auto config = parse_native_name(cells.at("kernel"));
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(*config, row.recipe.main());
  EXPECT_EQ(key_of(*config).hex(), cells.at("key"));
}

TEST(BenchRow, AwkwardMessagesStayOnTheirLine) {
  BenchRow row = testing::sample_row();
  row.timing.reset();
  row.errors = {};
  row.status = RowStatus::compile;
  for (const auto& [message, read] : {std::pair{"a,b", "a,b"},
                                      {"say \"no\"", "say \"no\""},
                                      {"two\nlines\r\n", "two lines  "},
                                      {"\"", "\""},
                                      {",\"\",", ",\"\","},
                                      {"", ""}}) {
    row.message = message;
    EXPECT_EQ(csv_line(row).find('\n'), std::string::npos);
    const auto cells = cells_of(row);
    EXPECT_EQ(cells.at("message"), read);
    EXPECT_EQ(cells.at("median_ms"), "");
    EXPECT_EQ(cells.at("status"), "compile");
  }
}

TEST(BenchRow, TornLinesAreNoRows) {
  BenchRow row = testing::sample_row();
  row.message = "a,\"b\"";
  const std::string line = csv_line(row);
  ASSERT_TRUE(parse_csv_line("attention_fwd", line));
  // Torn before the last cell, "a,""b""".
  for (std::size_t bytes = 0; bytes < line.size() - 10; ++bytes)
    EXPECT_FALSE(parse_csv_line("attention_fwd", line.substr(0, bytes))) << bytes;
  EXPECT_FALSE(parse_csv_line("attention_fwd", line + ",more"));
}

TEST(BenchRow, IdentityIsProblemKernelAndThreads) {
  std::set<std::string> identities;
  const auto add = [&](auto change) {
    BenchRow row = testing::sample_row();
    change(row);
    return identities.insert(row.identity()).second;
  };
  EXPECT_TRUE(add([](BenchRow&) {}));
  EXPECT_FALSE(add([](BenchRow& r) { r.status = RowStatus::wrong, r.timing.reset(), r.message = "x"; }));
  EXPECT_TRUE(add([](BenchRow& r) { r.threads = 1; }));
  EXPECT_TRUE(add([](BenchRow& r) { std::get<AttentionProblem>(r.problem).batch = 1; }));
  EXPECT_TRUE(add([](BenchRow& r) { std::get<AttentionProblem>(r.problem).window_right = 0; }));
  EXPECT_TRUE(add([](BenchRow& r) { r.recipe.steps[0].config.algorithm.tile[1] = 128; }));
  EXPECT_TRUE(add([](BenchRow& r) { r.recipe.steps[0].role = StepRole::pack_b; }));
  EXPECT_TRUE(add([](BenchRow& r) { r.recipe.steps.push_back(r.recipe.steps[0]); }));
  EXPECT_TRUE(add([](BenchRow& r) { r = testing::sample_gemm_row(); }));
  EXPECT_TRUE(add([](BenchRow& r) { r = testing::sample_row_of_two_steps(); }));
  EXPECT_FALSE(add([](BenchRow& r) { r = testing::sample_gemm_row(); }));
  for (void (*change)(GemmProblem&) :
       {+[](GemmProblem& p) { p.m = 1; }, +[](GemmProblem& p) { p.n = 2; }, +[](GemmProblem& p) { p.k = 1; },
        +[](GemmProblem& p) { p.batch = 1; }, +[](GemmProblem& p) { p.order_a = MatrixOrder::column; },
        +[](GemmProblem& p) { p.type_d = DataType::fp32; }, +[](GemmProblem& p) { p.type_c = DataType::fp32; },
        +[](GemmProblem& p) { p.type_bias = DataType::fp32; }, +[](GemmProblem& p) { p.beta = false; },
        +[](GemmProblem& p) { p.packed_b = true; }, +[](GemmProblem& p) { p.epilogue = {EpilogueOp::bias}; }})
    EXPECT_TRUE(add([&](BenchRow& r) {
      r = testing::sample_gemm_row();
      change(std::get<GemmProblem>(r.problem));
    })) << "each field of a problem is part of what it is";
}

/// Changes the field to another value than it has.
template <class F>
void change(F& value) {
  if constexpr (FlagField<F>)
    value = !value;
  else if constexpr (EnumField<F>)
    value = static_cast<F>((static_cast<unsigned>(value) + 1) % enum_size<F>());
  else if constexpr (ListField<F>)
    value.push_back(static_cast<typename F::value_type>(1));
  else
    value += 1;
}

TEST(BenchRow, EveryFieldOfAProblemIsPartOfItsIdentityAndAColumn) {
  for_each_operation([]<class Op>(Op) {
    BenchRow row = testing::sample_row();
    row.problem = typename Op::Problem{};
    std::set<std::string> identities{row.identity()}, lines{csv_line(row)};
    std::size_t fields = 0;
    typename Op::Problem usual;
    Op::Problem::fields(usual, [&](std::string_view name, const auto&) {
      ++fields;
      typename Op::Problem other;
      Op::Problem::fields(other, [&](std::string_view each, auto& value) {
        if (each == name) change(value);
      });
      row.problem = other;
      EXPECT_TRUE(identities.insert(row.identity()).second) << Op::kName << ": " << name;
      EXPECT_NE(cells_of(row).at(std::string(name)), "") << name;
      lines.insert(csv_line(row));
    });
    EXPECT_EQ(lines.size(), fields + 1);
  });
}

TEST(BenchRow, GemmHasColumnsOfItsOwn) {
  const BenchRow row = testing::sample_gemm_row();
  const auto cells = cells_of(row);
  const std::pair<const char*, const char*> expected[] = {{"operation", "gemm"}, {"m", "256"},
                                                          {"n", "512"},          {"k", "1024"},
                                                          {"batch", "3"},        {"order_a", "r"},
                                                          {"order_b", "r"},      {"order_d", "r"},
                                                          {"type_a", "int8"},    {"type_d", "bf16"},
                                                          {"beta", "1"},         {"epilogue", "bias+gelu"},
                                                          {"packed_b", "0"},     {"prefetch_weights", "0"},
                                                          {"unaligned", "0"},    {"tile", "96x528x512"},
                                                          {"status", "correct"}};
  for (const auto& [name, value] : expected) EXPECT_EQ(cells.at(name), value) << name;
  EXPECT_FALSE(cells.contains("seqlen_q"));
  const auto config = parse_native_name(cells.at("kernel"));
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(*config, row.recipe.main());
  EXPECT_EQ(to_json(row)["problem"]["epilogue"].size(), 2u);
  EXPECT_FALSE(parse_csv_line("attention_fwd", csv_line(row))) << "the other operation's file";
}

TEST(BenchRow, JsonHasWhatThereIs) {
  BenchRow row = testing::sample_row();
  nlohmann::json json = to_json(row);
  EXPECT_EQ(json["status"], "correct");
  EXPECT_EQ(json["timing"]["median_ms"], 2.0);
  EXPECT_EQ(json["error"]["max_abs"], 0.5);
  EXPECT_FALSE(json.contains("message"));
  EXPECT_EQ(config_from_json(json["config"]).value(), row.recipe.main());
  EXPECT_EQ(json["steps"].size(), 1u);
  row.timing.reset();
  row.errors = {};
  row.message = "killed";
  json = to_json(row);
  EXPECT_FALSE(json.contains("timing") || json.contains("error") || json.contains("roofline_percent"));
  EXPECT_EQ(json["message"], "killed");
}

TEST(BenchRow, IdentitiesOfFilesThatExistStay) {
  EXPECT_EQ(testing::sample_row().identity(), "v2:92643414e2317ed313ae5bec10bae921");
  EXPECT_EQ(testing::sample_gemm_row().identity(), "v2:0978f77f69ad0d9ab03fcc7a3bf87285");
}

TEST(BenchRow, EveryStepOfARecipeIsNamedAndCanBeRebuilt) {
  const BenchRow row = testing::sample_row_of_two_steps();
  const auto cells = cells_of(row);
  EXPECT_TRUE(cells.at("kernel").starts_with("pack_b:gemm_")) << cells.at("kernel");
  const auto recipe = parse_recipe_name(cells.at("kernel"));
  ASSERT_TRUE(recipe) << recipe.error().text();
  EXPECT_EQ(*recipe, row.recipe);
  EXPECT_EQ(cells.at("key"), key_of(row.recipe).hex());
  EXPECT_EQ(cells.at("arch"), "x86_64_v4+x86_64_v4");
  EXPECT_EQ(cells.at("pipeline"), "blocked+blocked");
  EXPECT_EQ(cells.at("instruction"), "int16dot+int16dot");
  EXPECT_EQ(cells.at("tile"), "48x528x512+96x528x512");
  const nlohmann::json json = to_json(row);
  EXPECT_EQ(json["kernel"], cells.at("kernel"));
  ASSERT_EQ(json["steps"].size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(json["steps"][i]["role"], i == 0 ? "pack_b" : "compute");
    EXPECT_EQ(parse_kernel_name(json["steps"][i]["kernel"].get<std::string>()).value(), row.recipe.steps[i].config);
  }
}

TEST(BenchRow, TheWorstOutputIsNamedAndAllAreInJson) {
  const auto errors = [](Outcome outcome, const char* failed, double ratio_of_dk) {
    return RowErrors::of({.outcome = outcome,
                          .tensor = failed,
                          .reason = {},
                          .tensors = {{"dq", {.max_abs = 3, .max_ratio = 1}},
                                      {"dk", {.max_abs = 2, .max_ratio = ratio_of_dk}},
                                      {"lse", {.max_abs = 1}}}});
  };
  EXPECT_EQ(errors(Outcome::pass, "", 1).worst()->output, "dq") << "the first of equal ones";
  EXPECT_EQ(errors(Outcome::pass, "", 1.5).worst()->output, "dk");
  EXPECT_EQ(errors(Outcome::fail, "lse", 1.5).worst()->output, "lse");
  EXPECT_EQ(errors(Outcome::fail, "dq", 1.5).worst()->output, "dq");
  EXPECT_EQ(RowErrors().worst(), nullptr);
  BenchRow row = testing::sample_row();
  row.errors = errors(Outcome::pass, "", 1.5);
  EXPECT_EQ(cells_of(row).at("worst_output"), "dk");
  EXPECT_EQ(cells_of(row).at("max_abs_error"), "2");
  const nlohmann::json json = to_json(row);
  EXPECT_EQ(json["error"]["output"], "dk");
  EXPECT_EQ(json["errors"].size(), 3u);
  EXPECT_EQ(json["errors"]["lse"]["max_abs"], 1.0);
}

TEST(BenchRow, TheLineDescribesTheCallThatWasMeasured) {
  for (const BenchRow& row : {testing::sample_row(), testing::sample_gemm_row()}) {
    const std::string line = cells_of(row).at("line");
    EXPECT_EQ(line, to_json(row)["line"].get<std::string>());
    const auto call = parse_line(line);
    ASSERT_TRUE(call) << line << call.error().text();
    std::visit(
        [&]<class Op>(const RandomCall<Op>& read) {
          const auto& problem = std::get<typename Op::Problem>(row.problem);
          EXPECT_EQ(read.problem, BenchOperation<Op>::measured(problem)) << line;
          EXPECT_EQ(read.numbers, usual_call(problem, kSweepSeed).numbers) << line;
        },
        *call);
  }
}

}  // namespace
}  // namespace tilesmith
