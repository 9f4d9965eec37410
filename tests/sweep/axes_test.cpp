#include "sweep/axes.hpp"

#include <gtest/gtest.h>

namespace tilesmith {
namespace {

std::vector<GemmProblem> gemms(std::vector<std::string> words, std::vector<std::string> lines = {}) {
  const auto problems = problems_of_words({.operation = {}, .words = std::move(words), .lines = std::move(lines)}, {});
  EXPECT_TRUE(problems.has_value()) << problems.error().text();
  return problems ? std::get<std::vector<GemmProblem>>(*problems) : std::vector<GemmProblem>();
}

TEST(Axes, ListsAndRanges) {
  using Values = std::vector<std::string>;
  EXPECT_EQ(axis_values("-m", "1,8,16:64:16"), (Values{"1", "8", "16", "32", "48", "64"}));
  EXPECT_EQ(axis_values("-m", "1:10:4"), (Values{"1", "5", "9"})) << "an end that no step reaches";
  EXPECT_EQ(axis_values("-m", "3:5"), (Values{"3", "4", "5"}));
  EXPECT_EQ(axis_values("-m", "1:20:*3"), (Values{"1", "3", "9"}));
  EXPECT_EQ(axis_values("--dtype", "bf16,fp32"), (Values{"bf16", "fp32"}));
  EXPECT_EQ(axis_values("-m", "9223372036854775806:9223372036854775807:5"), (Values{"9223372036854775806"}));
  for (const char* wrong : {"", "1,,2", "1,", "5:1:1", "1:5:0", "1:5:-1", "1:5:*1", "0:5:*2", "1:2:3:4", "a:b:c", ":",
                            "1:99999999999999:1"}) {
    const auto values = axis_values("-m", wrong);
    ASSERT_FALSE(values.has_value()) << wrong;
    EXPECT_EQ(values.error().code, ErrorCode::invalid_argument);
    EXPECT_TRUE(values.error().message.starts_with("-m ")) << values.error().message;
    EXPECT_FALSE(values.error().hint.empty());
  }
}

TEST(Axes, TheProductOfAllOptionsWithTheLastOneFastest) {
  const auto problems = gemms({"-m", "1,8", "-n", "64", "-k", "32:96:32", "--dtype=bf16,fp32"});
  ASSERT_EQ(problems.size(), 12u);
  EXPECT_EQ(problems[0].m, 1);
  EXPECT_EQ(problems[0].type_a, DataType::bf16);
  EXPECT_EQ(problems[1].type_a, DataType::fp32);
  EXPECT_EQ(problems[2].k, 64);
  EXPECT_EQ(problems[11].m, 8);
}

TEST(Axes, AnOptionThatIsAListHasSeveralValuesWhenItIsGivenSeveralTimes) {
  const auto problems = gemms({"-m", "3", "--epilogue", "bias,gelu", "--epilogue", "relu", "--packed"});
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].epilogue.size(), 2u);
  EXPECT_EQ(problems[1].epilogue.size(), 1u);
  EXPECT_TRUE(problems[1].packed_b);
}

TEST(Axes, LinesComeBehindAndNothingComesTwice) {
  const auto problems = gemms({"-m", "3,3,4"}, {"gemm -m 4", "-m 5"});
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_EQ(problems[2].m, 5);
}

TEST(Axes, TheOperationIsTheOneThatHasTheOptions) {
  const auto attention = problems_of_words({.operation = {}, .words = {"--seqlen-q", "7,9"}, .lines = {}}, {});
  ASSERT_TRUE(attention.has_value());
  EXPECT_EQ(std::get<std::vector<AttentionProblem>>(*attention).size(), 2u);
  const auto asked = problems_of_words({.operation = Operation::gemm, .words = {"--batch", "2"}, .lines = {}}, {});
  ASSERT_TRUE(asked.has_value());
  EXPECT_EQ(std::get<std::vector<GemmProblem>>(*asked).size(), 1u);
}

TEST(Axes, MistakesNameTheOption) {
  for (const auto& [words, says] : {std::pair<std::vector<std::string>, const char*>{{"-m", "x,4"}, "-m x"},
                                    {{"--dtype", "bf17"}, "bf17"},
                                    {{"--epilog", "relu"}, "--epilog"},
                                    {{"-m"}, "-m has no value"},
                                    {{"-m", "1:900:1", "-n", "1:900:1", "-k", "1:900:1"}, "more than 1000000"}}) {
    const auto problems = problems_of_words({.operation = Operation::gemm, .words = words, .lines = {}}, {});
    ASSERT_FALSE(problems.has_value()) << says;
    EXPECT_NE(problems.error().message.find(says), std::string::npos) << problems.error().message;
  }
}

}  // namespace
}  // namespace tilesmith
