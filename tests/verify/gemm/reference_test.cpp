// The GEMM checker is tested like a kernel: results of correct computations must pass, each known fault must be found,
// in every type.
#include "verify/gemm/reference.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "verify/random_gemm.hpp"

namespace tilesmith {
namespace {

using testing::emulate_gemm;
using testing::EmulatedGemm;
using testing::GemmFault;
using testing::GemmOptions;
using testing::RandomGemm;

struct Types {
  ElementType input, output;
};
constexpr Types kTypes[] = {
    {ElementType::fp32, ElementType::fp32},    {ElementType::fp16, ElementType::fp16},
    {ElementType::bf16, ElementType::bf16},    {ElementType::bf16, ElementType::fp32},
    {ElementType::fp8e4m3, ElementType::bf16}, {ElementType::fp8e5m2, ElementType::fp16},
    {ElementType::int8, ElementType::int32},   {ElementType::int8, ElementType::fp32},
    {ElementType::fp16, ElementType::fp8e4m3},
};

std::string name_of_types(const ::testing::TestParamInfo<Types>& tested) {
  return std::string(to_string(tested.param.input)) + "_to_" + std::string(to_string(tested.param.output));
}

class GemmCheckerOf : public ::testing::TestWithParam<Types> {};
INSTANTIATE_TEST_SUITE_P(Types, GemmCheckerOf, ::testing::ValuesIn(kTypes), name_of_types);

std::optional<float> asked_amax(const GemmTensors& t, float amax) {
  const bool asked = std::ranges::any_of(t.epilogue, [](const GemmStep& s) { return s.op == EpilogueOp::amax; });
  return asked ? std::optional(amax) : std::nullopt;
}

TEST_P(GemmCheckerOf, AcceptsCorrectKernels) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const GemmOptions options = testing::random_gemm_options(GetParam().input, GetParam().output, seed);
    const RandomGemm call(options);
    const auto reference = GemmReference::make(call.tensors, options.output, 1);
    ASSERT_TRUE(reference) << reference.error().text();
    const EmulatedGemm result = emulate_gemm(call.tensors, options.output, GemmFault::none, seed % 2 == 0 ? 64 : 16,
                                             1 + static_cast<std::int64_t>(seed % 3));
    const Verdict verdict = reference->judge(result.d, asked_amax(call.tensors, result.amax));
    ASSERT_NE(verdict.outcome, Outcome::fail) << describe(options) << "\n" << verdict.reason;
    const auto sampled = GemmReference::make_sampled(call.tensors, options.output, 1);
    ASSERT_TRUE(sampled) << sampled.error().text();
    const Verdict by_sample = sampled->judge(result.d, asked_amax(call.tensors, result.amax));
    ASSERT_NE(by_sample.outcome, Outcome::fail) << describe(options) << "\n" << by_sample.reason;
  }
}

TEST_P(GemmCheckerOf, ASecondProductGoesOn) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    GemmOptions options = testing::random_gemm_options(GetParam().input, GetParam().output, seed);
    options.k += 2;
    const RandomGemm call(options);
    // The same matrices cut in two along k.
    GemmTensors parts = call.tensors;
    parts.k = 1 + options.k / 3;
    parts.k2 = options.k - parts.k;
    const auto behind = [](const TensorView& view, std::int64_t step) {
      TensorView out = view;
      out.data = static_cast<const std::byte*>(view.data) + step * static_cast<std::int64_t>(size_of(view.type));
      return out;
    };
    parts.a2 = behind(parts.a, parts.k * parts.a.strides.column);
    parts.b2 = behind(parts.b, parts.k * parts.b.strides.row);
    const auto reference = GemmReference::make(parts, options.output, 1);
    ASSERT_TRUE(reference) << reference.error().text();
    const EmulatedGemm result = emulate_gemm(call.tensors, options.output);
    const Verdict verdict = reference->judge(result.d, asked_amax(call.tensors, result.amax));
    ASSERT_NE(verdict.outcome, Outcome::fail) << describe(options) << "\n" << verdict.reason;
    const auto whole = GemmReference::make(call.tensors, options.output, 1);
    ASSERT_TRUE(whole) << whole.error().text();
    EXPECT_EQ(reference->float64().d, whole->float64().d);
    EXPECT_EQ(reference->float64().bound, whole->float64().bound);
  }
  GemmOptions options{.input = GetParam().input, .output = GetParam().output};
  const RandomGemm call(options);
  GemmTensors twice = call.tensors;
  twice.k2 = twice.k;
  twice.a2 = twice.a;
  twice.b2 = twice.b;
  const auto reference = GemmReference::make(twice, options.output, 1);
  ASSERT_TRUE(reference) << reference.error().text();
  EXPECT_EQ(reference->judge(emulate_gemm(call.tensors, options.output).d, {}).outcome, Outcome::fail);
  twice.b2.data = nullptr;
  EXPECT_FALSE(GemmReference::make(twice, options.output, 1));
}

struct Subject {
  Subject(const GemmOptions& chosen)
      : options(chosen),
        call(chosen),
        reference(GemmReference::make(call.tensors, chosen.output, 1)),
        sampled(GemmReference::make_sampled(call.tensors, chosen.output, 1)),
        good(emulate_gemm(call.tensors, chosen.output)) {}

  /// The correct result of a call that was misunderstood.
  [[nodiscard]] std::vector<double> misread(const std::function<void(GemmTensors&)>& change) const {
    GemmTensors changed = call.tensors;
    change(changed);
    return emulate_gemm(changed, options.output).d;
  }
  [[nodiscard]] std::vector<double> broken(GemmFault fault) const {
    return emulate_gemm(call.tensors, options.output, fault).d;
  }
  [[nodiscard]] std::vector<double> spoiled(const std::function<void(std::vector<double>&)>& change) const {
    std::vector<double> d = good.d;
    change(d);
    return d;
  }

  GemmOptions options;
  RandomGemm call;
  Result<GemmReference> reference, sampled;
  EmulatedGemm good;
};

TEST_P(GemmCheckerOf, FindsEveryFault) {
  using Doubles = std::vector<double>&;
  const auto [input, output] = GetParam();
  const bool whole = output == ElementType::int32;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    GemmOptions options{.input = input, .output = output, .seed = seed};
    options.column_a = seed % 2 == 1;
    options.beta = whole ? 2.0F : 0.5F;
    if (!whole) options.epilogue = {EpilogueOp::bias, EpilogueOp::add};
    const Subject s(options);
    ASSERT_TRUE(s.reference) << s.reference.error().text();
    ASSERT_TRUE(s.sampled) << s.sampled.error().text();
    ASSERT_NE(s.reference->judge(s.good.d).outcome, Outcome::fail) << s.reference->judge(s.good.d).reason;
    ASSERT_NE(s.sampled->judge(s.good.d).outcome, Outcome::fail) << s.sampled->judge(s.good.d).reason;
    const auto found = [&](const char* fault, const std::vector<double>& d) {
      EXPECT_EQ(s.reference->judge(d).outcome, Outcome::fail) << fault << ", seed " << seed;
      EXPECT_EQ(s.sampled->judge(d).outcome, Outcome::fail) << fault << ", by a sample, seed " << seed;
    };
    const std::size_t columns = static_cast<std::size_t>(options.n), rows = static_cast<std::size_t>(options.m);

    found("last step dropped", s.broken(GemmFault::last_step_dropped));
    found("block added twice", s.broken(GemmFault::block_twice));
    if (!whole && input != ElementType::int8) {
      found("stale split", s.broken(GemmFault::stale_split));
      // Tensor cores add up 8-bit floats with few bits themselves.
      if (input != ElementType::fp32 && size_of(input) > 1 && output != ElementType::fp8e4m3)
        found("low precision sums", s.broken(GemmFault::low_precision_sum));
      if (size_of(input) < size_of(output) || input == ElementType::bf16)
        found("rounded twice", s.broken(GemmFault::rounded_twice));
    }
    if (!whole) found("a row without its epilogue", s.broken(GemmFault::epilogue_skipped_row));

    found("A of the first member", s.misread([](GemmTensors& t) { t.a.strides.batch = 0; }));
    found("B of the first member", s.misread([](GemmTensors& t) { t.b.strides.batch = 0; }));
    found("C of the first member", s.misread([](GemmTensors& t) { t.c.strides.batch = 0; }));
    found("beta ignored", s.misread([](GemmTensors& t) { t.beta = 0; }));
    found("B's row off by one", s.misread([](GemmTensors& t) {
      t.b.data =
          static_cast<const std::byte*>(t.b.data) + static_cast<std::ptrdiff_t>(size_of(t.b.type)) * t.b.strides.row;
      --t.k;
    }));
    if (!whole) {
      found("alpha ignored", s.misread([](GemmTensors& t) { t.alpha = 1.1F; }));
      found("bias ignored", s.misread([](GemmTensors& t) { t.epilogue.erase(t.epilogue.begin()); }));
      found("bias along m", s.misread([](GemmTensors& t) { t.epilogue[0].operand.strides = {.row = 1, .column = 0}; }));
      found("tensor ignored", s.misread([](GemmTensors& t) { t.epilogue.pop_back(); }));
      found("relu too many", s.misread([](GemmTensors& t) { t.epilogue.push_back({.op = EpilogueOp::relu}); }));
      found("clamped",
            s.misread([](GemmTensors& t) { t.epilogue.push_back({.op = EpilogueOp::clamp, .low = -1, .high = 1}); }));
    }

    found("two rows swapped", s.spoiled([&](Doubles d) {
      std::swap_ranges(d.begin(), d.begin() + static_cast<std::ptrdiff_t>(columns),
                       d.begin() + static_cast<std::ptrdiff_t>(3 * columns));
    }));
    found("columns shifted by one", s.spoiled([&](Doubles d) { std::rotate(d.begin(), d.begin() + 1, d.end()); }));
    found("a tile transposed", s.spoiled([&](Doubles d) {
      for (std::size_t i = 0; i < 8; ++i)
        for (std::size_t j = i + 1; j < 8; ++j) std::swap(d[i * columns + j], d[j * columns + i]);
    }));
    found("the second member is the first", s.spoiled([&](Doubles d) {
      std::copy_n(d.begin(), rows * columns, d.begin() + static_cast<std::ptrdiff_t>(rows * columns));
    }));
    found("a tile of zeros", s.spoiled([&](Doubles d) {
      for (std::size_t i = 0; i < 16; ++i) std::fill_n(d.begin() + static_cast<std::ptrdiff_t>(i * columns), 16, 0.0);
    }));
    found("all zero", s.spoiled([](Doubles d) { std::ranges::fill(d, 0.0); }));
    if (!whole) {
      found("an element never written",
            s.spoiled([](Doubles d) { d[d.size() / 2] = std::numeric_limits<double>::quiet_NaN(); }));
      if (output != ElementType::fp8e4m3)
        found("everything 5 % too large", s.spoiled([&](Doubles d) {
          for (double& x : d) x = round_to(output, x * 1.05);
        }));
    } else {
      found("one element off by one", s.spoiled([](Doubles d) { d[d.size() / 3] += 1; }));
      found("an element never written", s.spoiled([](Doubles d) { d[d.size() / 2] = -1; }));
    }
    found("one element of another place", s.spoiled([](Doubles d) { d[5] = d[d.size() - 7]; }));
    found("an element too few", s.spoiled([](Doubles d) { d.pop_back(); }));
  }
}

// What no sampled row shows is seen in the sums of its block: an element that was not written or is another one, which
// a rounding of its whole block may hide when it is small.
TEST_P(GemmCheckerOf, ASampleLeavesNoPlaceUnseen) {
  const auto [input, output] = GetParam();
  const GemmOptions options{.input = input, .output = output, .m = 100, .n = 80, .seed = 3};
  const Subject s(options);
  ASSERT_TRUE(s.sampled) << s.sampled.error().text();
  ASSERT_NE(s.sampled->judge(s.good.d).outcome, Outcome::fail) << s.sampled->judge(s.good.d).reason;
  std::size_t found = 0, tried = 0, by_sums = 0;
  for (std::size_t at = 0; at < s.good.d.size(); at += 101) {
    const Verdict unwritten =
        s.sampled->judge(s.spoiled([&](std::vector<double>& d) { d[at] = std::numeric_limits<double>::quiet_NaN(); }));
    EXPECT_EQ(unwritten.outcome, Outcome::fail) << at;
    const Verdict another =
        s.sampled->judge(s.spoiled([&](std::vector<double>& d) { d[at] = d[(at + d.size() / 2) % d.size()]; }));
    ++tried;
    found += another.outcome == Outcome::fail ? 1 : 0;
    by_sums += another.check == Check::sums ? 1 : 0;
  }
  EXPECT_GE(10 * found, 8 * tried);
  const bool has_sums = GemmRowSums::apply_to(s.call.tensors, output);
  EXPECT_EQ(by_sums > 0, has_sums);
}

TEST_P(GemmCheckerOf, WholeNumbersAreJudgedBitForBit) {
  const auto [input, output] = GetParam();
  GemmOptions options{.input = input, .output = output, .beta = 1, .seed = 5, .small_integers = true};
  if (output != ElementType::int32) options.epilogue = {EpilogueOp::bias, EpilogueOp::relu};
  const Subject s(options);
  ASSERT_TRUE(s.reference) << s.reference.error().text();
  const Verdict good = s.reference->judge_exact(s.good.d);
  EXPECT_NE(good.outcome, Outcome::fail) << good.reason;
  const Verdict bad = s.reference->judge_exact(s.spoiled([](std::vector<double>& d) { d[17] += 1; }));
  EXPECT_EQ(bad.outcome, Outcome::fail);
  EXPECT_EQ(bad.check, Check::exact);
  EXPECT_NE(bad.reason.find("[batch 0, row 0, column 17]"), std::string::npos) << bad.reason;
}

// The reference against formulas written out in long double, element by element.
TEST(Float64Gemm, AgreesWithTheFormula) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    GemmOptions o = testing::random_gemm_options(ElementType::fp32, ElementType::fp32, seed);
    o.epilogue = {EpilogueOp::scale_n, EpilogueOp::bias_m, EpilogueOp::swiglu, EpilogueOp::multiply, EpilogueOp::amax};
    o.beta = -0.5F;
    const RandomGemm call(o);
    const GemmTensors& t = call.tensors;
    const auto exact = float64_gemm(t, {}, 1);
    ASSERT_TRUE(exact);
    long double largest = 0;
    for (std::int64_t b = 0; b < o.batch; ++b)
      for (std::int64_t i = 0; i < o.m; ++i)
        for (std::int64_t j = 0; j < o.n / 2; ++j) {
          const auto linear = [&](std::int64_t column) {
            long double sum = 0;
            for (std::int64_t p = 0; p < o.k; ++p)
              sum += static_cast<long double>(element(t.a, b, i, p)) * element(t.b, b, p, column);
            return (o.alpha * sum - 0.5L * element(t.c, b, i, column)) * element(t.epilogue[0].operand, b, i, column) +
                   element(t.epilogue[1].operand, b, i, column);
          };
          const long double gate = linear(2 * j);
          const long double want =
              gate / (1 + std::exp(-gate)) * linear(2 * j + 1) * element(t.epilogue[3].operand, b, i, j);
          largest = std::max(largest, std::abs(want));
          const auto at = static_cast<std::size_t>((b * o.m + i) * (o.n / 2) + j);
          ASSERT_NEAR(exact->d[at], static_cast<double>(want), 1e-12) << describe(o);
          ASSERT_GT(exact->bound[at], 0);
        }
    EXPECT_NEAR(exact->amax, static_cast<double>(largest), 1e-12);
  }
}

TEST(Float64Gemm, ActivationsKeepTheirLimits) {
  for (const EpilogueOp op : {EpilogueOp::relu, EpilogueOp::gelu, EpilogueOp::gelu_tanh, EpilogueOp::silu}) {
    EXPECT_EQ(activated(op, 1000), 1000);
    EXPECT_EQ(activated(op, -1000), 0);
    EXPECT_EQ(activated(op, 0), 0);
    EXPECT_TRUE(std::isnan(activated(op, std::numeric_limits<double>::quiet_NaN())));
  }
  EXPECT_NEAR(activated(EpilogueOp::gelu, 1), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(activated(EpilogueOp::gelu_tanh, 1), 0.8411919906082768, 1e-15);
  EXPECT_NEAR(activated(EpilogueOp::silu, 1), 0.7310585786300049, 1e-15);
  EXPECT_EQ(activated(EpilogueOp::sigmoid, -1000), 0);
  EXPECT_EQ(activated(EpilogueOp::sigmoid, 1000), 1);
}

TEST(Float64Gemm, Int32WrapsAround) {
  GemmTensors t;
  const std::int8_t a[] = {-128, -128}, b[] = {-128, -128};
  t.a = {a, ElementType::int8, {.row = 2, .column = 1}};
  t.b = {b, ElementType::int8, {.row = 1, .column = 2}};
  const std::int32_t c[] = {1 << 30};
  t.c = {c, ElementType::int32, {.row = 1, .column = 1}};
  t.m = t.n = 1;
  t.k = 2;
  t.beta = 2;
  const auto reference = GemmReference::make(t, ElementType::int32, 1);
  ASSERT_TRUE(reference);
  EXPECT_EQ(reference->float64().d[0], -2147483648.0 + 32768);
}

// Tensor cores add 32 products of 8 bits to a sum and keep so many bits of it: the longer the sum, the more of these
// errors it has. On an H100 the squared error of 120x192xk is 6.9e-11 k of the squared norm, k from 1536 to 32768.
TEST(GemmCheck, LongSumsOf8BitsMayBeOffByTheirBitsAndNotByMore) {
  for (const std::int64_t k : {64, 1536, 8192}) {
    const RandomGemm call(
        {.input = ElementType::fp8e4m3, .output = ElementType::fp32, .batch = 1, .m = 24, .n = 20, .k = k, .seed = 5});
    const GemmTensors& t = call.tensors;
    const auto reference = GemmReference::make(t, ElementType::fp32, 1);
    ASSERT_TRUE(reference) << reference.error().text();
    const auto judged = [&](const GemmReference& by, int bits) {
      std::vector<double> d;
      for (std::int64_t i = 0; i < 24; ++i)
        for (std::int64_t j = 0; j < 20; ++j) {
          double sum = 0;
          for (std::int64_t p = 0; p < k; p += 32) {
            for (std::int64_t q = p; q < p + 32; ++q) sum += element(t.a, 0, i, q) * element(t.b, 0, q, j);
            int exponent = 0;
            const double share = std::frexp(sum, &exponent);
            sum = std::ldexp(std::nearbyint(std::ldexp(share, bits)), exponent - bits);
          }
          d.push_back(sum);
        }
      return by.judge(d);
    };
    EXPECT_NE(judged(*reference, 13).outcome, Outcome::fail) << k << ": " << judged(*reference, 13).reason;
    EXPECT_EQ(judged(*reference, 10).outcome, Outcome::fail) << k;

    // With scales along k each block's sum leaves the tensor cores: there one long sum is a fault.
    const float one = 1;
    GemmTensors scaled = t;
    scaled.scale_a = scaled.scale_b = {.view = {.data = &one, .strides = {0, 0, 0, 0}}, .lines = 1, .depth = 128};
    const auto of_blocks = GemmReference::make(scaled, ElementType::fp32, 1);
    ASSERT_TRUE(of_blocks) << of_blocks.error().text();
    EXPECT_EQ(judged(*of_blocks, 13).outcome == Outcome::fail, k > 1000) << k << ": " << judged(*of_blocks, 13).reason;
  }
}

TEST(GemmCheck, AmaxIsJudged) {
  GemmOptions o{.input = ElementType::bf16, .output = ElementType::bf16, .epilogue = {EpilogueOp::amax}};
  const Subject s(o);
  const Verdict good = s.reference->judge(s.good.d, s.good.amax);
  EXPECT_NE(good.outcome, Outcome::fail);
  EXPECT_EQ(good.errors_of("amax").count, 1U);
  for (const float amax : {s.good.amax * 1.01F, std::numeric_limits<float>::quiet_NaN()}) {
    const Verdict bad = s.reference->judge(s.good.d, amax);
    EXPECT_EQ(bad.check, Check::bound);
    EXPECT_EQ(bad.tensor, "amax");
  }
}

TEST(GemmCheck, EmptyAndDegenerateCalls) {
  for (const auto& [m, n, k] : {std::array{0, 4, 4}, std::array{4, 0, 4}, std::array{4, 4, 0}}) {
    GemmOptions o{.m = m, .n = n, .k = k};
    const Subject s(o);
    ASSERT_TRUE(s.reference) << s.reference.error().text();
    EXPECT_NE(s.reference->judge(s.good.d).outcome, Outcome::fail) << s.reference->judge(s.good.d).reason;
  }
}

}  // namespace
}  // namespace tilesmith
