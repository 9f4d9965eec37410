// Problems as lines of text: what is written reads back as the same call.
#include "problem/line.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "problem/gemm/problem.hpp"

namespace tilesmith {
namespace {

using Random = std::mt19937_64;

template <class T>
T one_of(Random& random, std::initializer_list<T> values) {
  return *(values.begin() + random() % values.size());
}

RandomCall<AttentionFwd> random_attention(Random& random) {
  const auto maybe = [&] { return random() % 3 == 0; };
  RandomCall<AttentionFwd> call;
  AttentionProblem& p = call.problem;
  p.data_type = one_of(random, {DataType::fp32, DataType::fp16, DataType::bf16, DataType::fp8bf16, DataType::fp8fp16});
  if (maybe()) p.mode = SequenceMode::group;
  p.batch = one_of<std::int64_t>(random, {0, 1, 3});
  p.heads_kv = one_of<std::int64_t>(random, {1, 2, 5});
  p.heads_q = p.heads_kv * one_of<std::int64_t>(random, {1, 1, 4});
  p.seqlen_q = one_of<std::int64_t>(random, {0, 1, 17, 512});
  p.seqlen_k = maybe() ? p.seqlen_q : one_of<std::int64_t>(random, {0, 1, 33, 1000});
  p.head_dim_qk = one_of<std::int64_t>(random, {1, 64, 128, 192, 77});
  p.head_dim_v = maybe() ? one_of<std::int64_t>(random, {1, 64, 128}) : p.head_dim_qk;
  p.mask = one_of(random, {MaskKind::none, MaskKind::top_left, MaskKind::bottom_right});
  if (maybe()) p.window_left = one_of<std::int64_t>(random, {0, 7, 100});
  if (maybe()) p.window_right = one_of<std::int64_t>(random, {0, 9});
  if (maybe() && (p.mask != MaskKind::none || p.window_left >= 0 || p.window_right >= 0))
    p.diagonal = one_of<std::int64_t>(random, {-8, -1, 5});
  p.bias = one_of(random, {BiasKind::none, BiasKind::elementwise, BiasKind::alibi});
  p.sink = maybe();
  p.lse = maybe();
  p.block_scale = maybe() && input_type(p.data_type) == DataType::fp8;
  p.unaligned = maybe();
  p.unaligned_bias = maybe();
  call.numbers.layout = one_of(random, {AttentionLayout::bhsd, AttentionLayout::bshd});
  if (maybe()) call.numbers.scale = one_of(random, {0.125F, -3.7F, 1.0F});
  if (maybe()) call.numbers.soft_cap = 30.5F;
  if (maybe()) call.numbers.dropout_probability = 0.1F;
  if (maybe()) call.numbers.seed = random();
  if (maybe()) {
    call.numbers.rotary_dim = 6;
    call.numbers.rotary_style = one_of(random, {RotaryStyle::half, RotaryStyle::interleaved});
    call.numbers.choose_scales = true;
  }
  if (input_type(p.data_type) != DataType::fp8 && maybe()) {
    p.page_size = 16;
    p.append = true;
  }
  p.soft_cap = call.numbers.soft_cap != 0;
  p.dropout = call.numbers.dropout_probability != 0;
  return call;
}

RandomCall<Gemm> random_gemm(Random& random) {
  const auto maybe = [&] { return random() % 3 == 0; };
  RandomCall<Gemm> call;
  GemmProblem& p = call.problem;
  const std::initializer_list<DataType> kTypes = {DataType::fp32, DataType::tf32, DataType::fp16, DataType::bf16,
                                                  DataType::fp8,  DataType::bf8,  DataType::int8};
  const auto size = [&] { return one_of<std::int64_t>(random, {0, 1, 8, 96, 128, 250, 512}); };
  std::optional<DataType> output;
  if (maybe()) output = one_of(random, kTypes);
  p = gemm_problem(one_of(random, kTypes), size(), size(), size(), output);
  if (maybe()) p.type_b = one_of(random, {DataType::int8, DataType::int4, DataType::fp8, DataType::bf8});
  if (maybe()) p.type_c = one_of(random, kTypes);
  if (maybe()) p.type_bias = one_of(random, {DataType::fp32, DataType::fp16, DataType::bf16});
  if (maybe()) p.k2 = size();
  p.batch = one_of<std::int64_t>(random, {1, 1, 0, 3});
  for (MatrixOrder* order : {&p.order_a, &p.order_b, &p.order_d})
    if (maybe()) *order = MatrixOrder::row;
  if (random() % 8 == 0) p.order_d = MatrixOrder::column;
  for (std::uint64_t i = random() % 4; i > 0; --i)
    p.epilogue.push_back(static_cast<EpilogueOp>(1 + random() % (enum_size<EpilogueOp>() - 1)));
  if (maybe()) p.grouping = one_of(random, {GemmGrouping::contiguous, GemmGrouping::masked});
  if (maybe() || has_weights(p)) p.group_size = one_of<std::int64_t>(random, {128, 32});
  if (has_weights(p) && maybe()) p.type_scale = p.type_a;
  p.zero_points = maybe() && has_weights(p);
  p.packed_b = maybe();
  p.prefetch_weights = maybe();
  p.unaligned = maybe();
  if (maybe()) call.numbers.alpha = -0.3F;
  if (maybe()) call.numbers.beta = 2.5F;
  p.beta = call.numbers.beta != 0;
  if (maybe() && std::ranges::find(p.epilogue, EpilogueOp::clamp) != p.epilogue.end()) call.numbers.clamp_low = -6.25F;
  if (maybe() && p.grouping != GemmGrouping::none)
    for (std::int64_t g = 0; g < p.batch; ++g) call.numbers.group_rows.push_back(static_cast<int>(random() % 9));
  if (maybe()) call.numbers.seed = random();
  return call;
}

template <class Op, class Draw>
void expect_round_trips(Draw draw, int wanted) {
  Random random(7);
  int valid = 0;
  for (int i = 0; i < 100 * wanted && valid < wanted; ++i) {
    RandomCall<Op> call = draw(random);
    if (!validate(call.problem)) continue;
    std::vector<std::string> all;  // every field is given: what complete() adds
                                   // follows from the others
    const auto name = [&](std::string_view field, const auto&) { all.emplace_back(field); };
    Op::Problem::fields(call.problem, name);
    if (!Line<Op>::complete(call, GivenFields(all))) continue;
    ++valid;
    const std::string line = to_line(call);
    const auto again = parse_line(line);
    ASSERT_TRUE(again) << line << "\n" << again.error().text();
    EXPECT_EQ(std::get<RandomCall<Op>>(*again), call) << line;
    EXPECT_EQ(to_line(*again), line);
    // A problem of which no more is known has numbers that fit it.
    const auto shown = parse_line(to_line(call.problem, 3));
    ASSERT_TRUE(shown) << to_line(call.problem, 3) << "\n" << shown.error().text();
    EXPECT_EQ(std::get<RandomCall<Op>>(*shown).problem, call.problem) << to_line(call.problem);
    EXPECT_EQ(std::get<RandomCall<Op>>(*shown).numbers.seed, 3u);
  }
  EXPECT_EQ(valid, wanted);
}

TEST(ProblemLine, WhatIsWrittenReadsBackAsTheSameCall) {
  expect_round_trips<AttentionFwd>(random_attention, 100);
  expect_round_trips<Gemm>(random_gemm, 100);
}

TEST(ProblemLine, UsualValuesAreLeftOut) {
  for (const std::string line : {"attention_fwd --batch 2 --heads-q 16 --heads-kv 4 --seqlen-q 512 "
                                 "--seqlen-k 1024 --head-dim-qk 128 --dtype "
                                 "bf16 --mask bottom_right",
                                 "attention_fwd --seqlen-q 512 --head-dim-qk 64 --dtype fp8bf16 "
                                 "--window=-1,4 --scale -0.25 --softcap 20 --seed 9",
                                 "gemm -m 256 -n 512 -k 1024 --dtype bf16 --epilogue bias,gelu",
                                 "gemm -m 33 -n 70 -k 40 --dtype fp32 --grouping contiguous "
                                 "--group-rows 20,0,13 --alpha 0.5 --epilogue clamp "
                                 "--clamp=-2,3",
                                 "gemm -m 3 -n 512 -k 96 --dtype fp16 --dtype-b int4 --group-size 32 "
                                 "--dtype-scale fp16 --zero-points"}) {
    const auto call = parse_line(line);
    ASSERT_TRUE(call) << line << "\n" << call.error().text();
    std::string expected = line;
    if (const auto at = expected.find("--scale -"); at != std::string::npos) expected[at + 7] = '=';
    EXPECT_EQ(to_line(*call), expected);
  }
  const auto shapes = parse_line(
      "gemm --group-rows 3,4 --grouping=masked  "
      "--scale-depth 128 --dtype fp8 ");
  ASSERT_TRUE(shapes) << shapes.error().text();
  EXPECT_EQ(to_line(*shapes),
            "gemm -m 4 -n 512 -k 512 --dtype fp8 --grouping "
            "masked --group-rows 3,4 --group-size 128");
}

TEST(ProblemLine, WhatFollowsFromTheRestIsFilledIn) {
  const auto attention = [](const std::string& options) {
    return std::get<RandomCall<AttentionFwd>>(parse_line("attention_fwd " + options).value()).problem;
  };
  EXPECT_TRUE(attention("--scale -1").negative_scale);
  EXPECT_FALSE(attention("--scale 1").negative_scale);
  EXPECT_TRUE(attention("--head-dim-qk 100").unaligned);
  EXPECT_FALSE(attention("--head-dim-qk 100 --head-dim-v 128 --dtype fp32").unaligned);
  EXPECT_TRUE(attention("--random-bias --seqlen-q 8 --seqlen-k 30").unaligned_bias);
  EXPECT_FALSE(attention("--random-bias --seqlen-q 8 --seqlen-k 32").unaligned_bias);
  EXPECT_FALSE(attention("--seqlen-q 8 --seqlen-k 30").unaligned_bias);
  EXPECT_TRUE(attention("--softcap 3").soft_cap);
  EXPECT_TRUE(attention("--dtype fp8e4m3 --block-scale").block_scale);
  const auto gemm = [](const std::string& options) {
    return std::get<RandomCall<Gemm>>(parse_line("gemm " + options).value()).problem;
  };
  EXPECT_TRUE(gemm("-k 100").unaligned);
  EXPECT_FALSE(gemm("-k 104").unaligned);
  EXPECT_TRUE(gemm("-k 100").aligned_d);
  EXPECT_FALSE(gemm("-k 104").aligned_d);
  EXPECT_FALSE(gemm("-k 100 --unaligned").aligned_d);
  EXPECT_TRUE(gemm("--beta 2").beta);
  EXPECT_EQ(gemm("--dtype int8").type_c, DataType::int32);
}

TEST(ProblemLine, MistakesAreNamed) {
  const struct {
    std::string line, message, hint;
  } cases[] = {{"", "an empty line", "an operation"},
               {"attention_fwt --batch 1", "no operation 'attention_fwt'", "attention_fwd"},
               {"gemm --btach 2", "gemm has no option --btach", "--batch"},
               {"gemm --batch 2x", "--batch 2x", "a whole number"},
               {"gemm --batch", "--batch has no value", "GEMMs"},
               {"gemm --seed -1", "--seed -1", "from 0 to"},
               {"gemm --alpha x", "--alpha x", "a number"},
               {"gemm --packed=1", "--packed 1", "no value"},
               {"gemm -m 1 -m 2", "-m is given twice", "once"},
               {"gemm --group-size 128 --scale-depth 128", "--scale-depth is given twice", "once"},
               {"gemm --layout rcx", "--layout rcx", "each r or c"},
               {"gemm --epilogue bias,rilu", "--epilogue: \"rilu\"", "relu"},
               {"gemm --epilogue relu,relu,relu,relu,relu,relu,relu,relu,relu", "too many operations", "at most 8"},
               {"gemm --group-rows 3", "--group-rows without --grouping", "--grouping contiguous"},
               {"gemm --clamp 0,1", "--epilogue has no clamp", "clamp"},
               {"gemm --dtype-scale bf16", "--dtype-scale without scales", "--group-size"},
               {"gemm -n 7 --epilogue swiglu", "n is 7", "an even n"},
               {"attention_fwd --window 3", "--window 3", "LEFT,RIGHT"},
               {"attention_fwd --random-bias --random-alibi", "both a bias and ALiBi", "one of them"},
               {"attention_fwd --mask caussal", "--mask: \"caussal\"", "top_left"},
               {"attention_fwd --heads-q 3 --heads-kv 2", "heads_q 3", "same number"},
               {"attention_fwd word", "no option word", ""}};
  for (const auto& [line, message, hint] : cases) {
    const auto call = parse_line(line);
    ASSERT_FALSE(call) << line;
    EXPECT_NE(call.error().message.find(message), std::string::npos) << line << ": " << call.error().text();
    EXPECT_NE(call.error().hint.find(hint), std::string::npos) << line << ": " << call.error().text();
  }
}

TEST(ProblemLine, AFileHasALineForEachProblem) {
  const auto lines = parse_lines("# sizes\n\ngemm -m 1\n  attention_fwd --seqlen-q 3  # short\r\n", "a.txt");
  ASSERT_TRUE(lines) << lines.error().text();
  ASSERT_EQ(lines->size(), 2u);
  EXPECT_EQ(lines->at(0).number, 3u);
  EXPECT_EQ(lines->at(1).number, 4u);
  EXPECT_TRUE(std::holds_alternative<RandomCall<AttentionFwd>>(lines->at(1).call));
  const auto wrong = parse_lines("gemm\ngemm -m x\n", "b.txt");
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("b.txt:2: -m x"), std::string::npos) << wrong.error().text();
}

TEST(ProblemLine, EveryFieldHasAnOption) {
  for_each_operation([]<class Op>(Op) {
    RandomCall<Op> usual;
    const auto has_option = [](std::string_view field, const auto&) {
      const auto sets = [&](const ProblemOption<Op>& option) {
        return std::ranges::find(option.fields, field) != option.fields.end();
      };
      EXPECT_TRUE(std::ranges::any_of(problem_options<Op>(), sets)) << Op::kName << ": " << field;
    };
    Op::Problem::fields(usual.problem, has_option);
    Op::Numbers::fields(usual.numbers, has_option);
    std::set<std::string> names;
    for (const ProblemOption<Op>& option : problem_options<Op>())
      for (const std::string& name : option.names) EXPECT_TRUE(names.insert(name).second) << name;
  });
}

}  // namespace
}  // namespace tilesmith
