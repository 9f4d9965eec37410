// An operation of three outputs that no other station knows. What trials, buffers, verdicts and reports do for it, they
// do for any operation: a gradient with gaps between its rows, a gradient that kernels add up in place and that leaves
// rows out, and bytes that are right only bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/json.hpp"
#include "trial/report.hpp"
#include "trial/trial.hpp"

namespace tilesmith {
namespace {

struct TwiceProblem {
  std::int64_t batch = 2, rows = 5, columns = 12;
};

/// Of x (batch, rows, columns) in fp32: dx = 2 x in bf16; dbias, the sums of the columns of each row but the last; and
/// the bytes of x, turned round.
struct TwiceArguments {
  const float* x = nullptr;
  void* dx = nullptr;
  std::int64_t dx_row = 0, dx_batch = 0;
  float* dbias = nullptr;
  std::uint8_t* packed = nullptr;
};

struct Twice {
  using Problem = TwiceProblem;
  using Arguments = TwiceArguments;
};

enum class Spoiled {
  nothing,
  dx_value,
  dx_left_out,
  dx_gap,
  dbias_value,
  dbias_row_left_out,
  dbias_behind,
  packed_bit,
  packed_before,
  input,
};

/// Runs on memory that the host can read; the fake device's is.
class TwicePlan {
 public:
  explicit TwicePlan(const TwiceProblem& problem, Spoiled spoiled = Spoiled::nothing)
      : problem_(problem), spoiled_(spoiled) {}

  [[nodiscard]] static std::size_t workspace_bytes() { return 0; }
  [[nodiscard]] Status run(const TwiceArguments& a, const RunOptions&) const {
    const TwiceProblem& p = problem_;
    for (std::int64_t b = 0; b < p.batch; ++b)
      for (std::int64_t r = 0; r < p.rows; ++r) {
        float sum = 0;
        for (std::int64_t c = 0; c < p.columns; ++c) {
          const float x = a.x[(b * p.rows + r) * p.columns + c];
          sum += x;
          if (spoiled_ == Spoiled::dx_left_out && b == 1 && r == 2 && c == 3) continue;
          put(a, b, r, c, 2.0 * static_cast<double>(x));
        }
        if (r + 1 < p.rows || spoiled_ == Spoiled::dbias_row_left_out) a.dbias[b * p.rows + r] += sum;
      }
    const std::int64_t bytes = p.batch * p.rows * p.columns * 4;
    std::reverse_copy(reinterpret_cast<const std::uint8_t*>(a.x), reinterpret_cast<const std::uint8_t*>(a.x) + bytes,
                      a.packed);
    if (spoiled_ == Spoiled::dx_value) put(a, 1, 2, 3, 100);
    if (spoiled_ == Spoiled::dx_gap) put(a, 0, 0, p.columns, 1);
    if (spoiled_ == Spoiled::dbias_value) a.dbias[1] += 1;
    if (spoiled_ == Spoiled::dbias_behind) a.dbias[p.batch * p.rows] = 1;
    if (spoiled_ == Spoiled::packed_bit) a.packed[7] ^= 1;
    if (spoiled_ == Spoiled::packed_before) a.packed[-1] = 1;
    if (spoiled_ == Spoiled::input) const_cast<float*>(a.x)[11] = 0;  // NOLINT: the fault
    return {};
  }

 private:
  static void put(const TwiceArguments& a, std::int64_t b, std::int64_t r, std::int64_t c, double value) {
    store_element(ElementType::bf16, a.dx, static_cast<std::size_t>(b * a.dx_batch + r * a.dx_row + c), value);
  }

  TwiceProblem problem_;
  Spoiled spoiled_;
};

class TwiceReference final : public Reference {
 public:
  TwiceReference(const TwiceProblem& p, std::span<const float> x) {
    for (const float value : x) dx_.push_back(2.0 * static_cast<double>(value));
    for (std::int64_t line = 0; line < p.batch * p.rows; ++line) {
      if (line % p.rows + 1 == p.rows) continue;
      double sum = 0;
      for (std::int64_t c = 0; c < p.columns; ++c)
        sum += static_cast<double>(x[static_cast<std::size_t>(line * p.columns + c)]);
      dbias_.push_back(sum);
    }
    for (const std::byte byte : std::as_bytes(x)) packed_.push_back(std::to_integer<int>(byte));
    std::ranges::reverse(packed_);
  }

 protected:
  [[nodiscard]] std::vector<ReferenceTensor> tensors() const override {
    return {{.name = "dx", .type = ElementType::bf16, .values = dx_, .naive = {.count = 1, .max_abs = 1e-3}},
            {.name = "dbias", .type = ElementType::fp32, .values = dbias_},
            {.name = "packed", .type = ElementType::uint8, .values = packed_}};
  }
  [[nodiscard]] bool check_guards(const OutputValues& output, Verdict& verdict) const override {
    if (std::ranges::all_of(output.values, [](double value) { return std::isfinite(value); })) return true;
    return fails(verdict, Check::guards, "an element was never written");
  }
  [[nodiscard]] bool check_bounds(const OutputValues& output, Verdict& verdict) const override {
    const std::vector<double>& want = output.name == "dx" ? dx_ : dbias_;
    const double roundoff = output.name == "dx" ? 0x1p-8 : 0x1p-20;
    for (std::size_t at = 0; at < want.size(); ++at)
      if (!(std::abs(output.values[at] - want[at]) <= roundoff * (1 + std::abs(want[at]))))
        return fails(verdict, Check::bound, std::string(output.name) + position(output.name, at));
    return true;
  }
  [[nodiscard]] std::string position(std::string_view, std::size_t element) const override {
    return "[" + std::to_string(element) + "]";
  }

 private:
  std::vector<double> dx_, dbias_, packed_;
};

}  // namespace

template <>
class Case<Twice> {
 public:
  using Plan = TwicePlan;

  explicit Case(const TwiceProblem& problem) : problem_(problem) {
    x_.resize(static_cast<std::size_t>(problem.batch * problem.rows * problem.columns));
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(i % 17) - 7.5F;
  }

  [[nodiscard]] std::vector<NamedInput> inputs() const { return {{"x", x_.data(), x_.size() * sizeof(float)}}; }
  [[nodiscard]] std::vector<OutputSpec> outputs() const {
    const TwiceProblem& p = problem_;
    return {{.name = "dx",
             .type = ElementType::bf16,
             .extents = {p.batch, 1, p.rows, p.columns},
             .strides = {p.rows * p.columns, 0, p.columns, 1},
             .axes = {Axis::batch, Axis::row, Axis::column}},
            {.name = "dbias",
             .type = ElementType::fp32,
             .extents = {p.batch, 1, p.rows, 1},
             .strides = {p.rows, 0, 1, 1},
             .axes = {Axis::batch, Axis::row},
             .accumulates = true,
             .written = [rows = p.rows](std::int64_t, std::int64_t row) { return row + 1 < rows; }},
            {.name = "packed",
             .type = ElementType::uint8,
             .extents = {.column = p.batch * p.rows * p.columns * 4},
             .judged = Judged::bit_for_bit,
             .axes = {Axis::column}}};
  }
  [[nodiscard]] std::vector<OutputSpec> guarded_outputs(DeviceKind) const {
    std::vector<OutputSpec> out = outputs();
    out[0].strides.row += 5;
    out[0].strides.batch = problem_.rows * out[0].strides.row + 3;
    return out;
  }
  [[nodiscard]] TwiceArguments arguments(const CallMemory& memory) const {
    const TensorStrides& dx = memory.output_spec("dx")->strides;
    return {.x = memory.input<float>("x"),
            .dx = memory.output("dx"),
            .dx_row = dx.row,
            .dx_batch = dx.batch,
            .dbias = memory.output<float>("dbias"),
            .packed = memory.output<std::uint8_t>("packed")};
  }
  [[nodiscard]] TwiceReference reference() const { return {problem_, x_}; }
  [[nodiscard]] double flops() const { return 2.0 * static_cast<double>(x_.size()); }
  [[nodiscard]] double bytes() const { return 10.0 * static_cast<double>(x_.size()); }

 private:
  TwiceProblem problem_;
  std::vector<float> x_;
};

namespace {

class SeveralOutputs : public ::testing::TestWithParam<DeviceKind> {
 protected:
  static void SetUpTestSuite() { ::setenv("TILESMITH_LIBCUDA", TILESMITH_FAKE_LIBCUDA, 1); }

  [[nodiscard]] Trial<Twice> trial() const { return make_trial(made, {GetParam(), 0}).value(); }

  TwiceProblem problem;
  Case<Twice> made{problem};
};
INSTANTIATE_TEST_SUITE_P(Devices, SeveralOutputs, ::testing::Values(DeviceKind::cpu, DeviceKind::cuda),
                         [](const auto& tested) { return tested.param == DeviceKind::cpu ? "cpu" : "cuda"; });

TEST_P(SeveralOutputs, ComeBackAsArrays) {
  const auto outputs = trial().run(TwicePlan(problem));
  ASSERT_TRUE(outputs) << outputs.error().text();
  const HostArray dx = outputs->array("dx"), dbias = outputs->array("dbias"), packed = outputs->array("packed");
  EXPECT_EQ(dx.shape, (std::vector<std::int64_t>{2, 5, 12}));
  EXPECT_EQ(dx.to_floats()[1], -13.0F);
  EXPECT_EQ(dbias.shape, (std::vector<std::int64_t>{2, 5}));
  EXPECT_EQ(dbias.to_floats()[4], 0.0F) << "rows that are left out are zeros";
  EXPECT_EQ(packed.shape, (std::vector<std::int64_t>{480}));
  EXPECT_TRUE(outputs->array("dy").data.empty());
}

TEST_P(SeveralOutputs, AreJudgedEachInItsWay) {
  const TwiceReference reference = made.reference();
  const auto verdict = [&](Spoiled spoiled) { return trial().verify(TwicePlan(problem, spoiled), reference).value(); };
  const Verdict right = verdict(Spoiled::nothing);
  EXPECT_TRUE(right.passed()) << right.reason;
  EXPECT_EQ(right.tensor, "");
  const std::tuple<Spoiled, Check, const char*> faults[] = {
      {Spoiled::dx_value, Check::bound, "dx"},
      {Spoiled::dx_left_out, Check::guards, "dx"},
      {Spoiled::dx_gap, Check::guards, "dx"},
      {Spoiled::dbias_value, Check::bound, "dbias"},
      {Spoiled::dbias_row_left_out, Check::guards, "dbias"},
      {Spoiled::dbias_behind, Check::guards, "dbias"},
      {Spoiled::packed_bit, Check::exact, "packed"},
      {Spoiled::packed_before, Check::guards, "packed"},
      {Spoiled::input, Check::guards, "x"},
  };
  for (const auto& [spoiled, check, tensor] : faults) {
    const Verdict wrong = verdict(spoiled);
    EXPECT_EQ(wrong.outcome, Outcome::fail) << tensor;
    EXPECT_EQ(wrong.check, check) << wrong.reason;
    EXPECT_EQ(wrong.tensor, tensor) << wrong.reason;
  }
}

TEST_P(SeveralOutputs, AreKeptAsTheyWereJudged) {
  const auto done = trial().run_verified(TwicePlan(problem, Spoiled::dx_value), made.reference());
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_EQ(done->verdict.outcome, Outcome::fail);
  EXPECT_EQ(done->outputs.array("dx").to_floats()[(1 * 5 + 2) * 12 + 3], 100.0F) << "the very values that are wrong";
  EXPECT_EQ(done->outputs.array("dbias").to_floats()[4], 0.0F) << "rows that are left out are zeros, not poison";
}

TEST_P(SeveralOutputs, AreReportedByName) {
  const Verdict verdict = trial().verify(TwicePlan(problem, Spoiled::dbias_value), made.reference()).value();
  const nlohmann::json json = to_json(verdict);
  EXPECT_EQ(json["outcome"], "fail");
  EXPECT_EQ(json["tensor"], "dbias");
  EXPECT_EQ(json["output"]["count"], 120);
  EXPECT_EQ(json["output"], json["tensors"]["dx"]);
  EXPECT_NEAR(json["tensors"]["dbias"]["max_abs"].get<double>(), 1, 1e-5);
  EXPECT_EQ(json["tensors"]["dbias"]["count"], 8);
  EXPECT_EQ(json["packed"]["max_abs"], 0);
  EXPECT_EQ(verdict.errors_of("nothing").count, 0U);
}

TEST_P(SeveralOutputs, AreTimedTogether) {
  const auto timing = trial().time(TwicePlan(problem), {.min_samples = 2, .max_samples = 2});
  ASSERT_TRUE(timing) << timing.error().text();
  EXPECT_EQ(timing->samples, 2);
  EXPECT_EQ(timing->flops, 240);
}

TEST(Reference, NamesAnOutputItDoesNotKnowAndOneOfAnotherSize) {
  const Case<Twice> made{TwiceProblem{}};
  const std::vector<double> values(7);
  for (const auto& [name, words] :
       {std::pair{"dy", "no reference of dy"}, std::pair{"dx", "dx has 7 elements, the problem 120"}}) {
    const OutputValues output{.name = name, .values = values};
    const Verdict verdict = made.reference().judge(std::span(&output, 1));
    EXPECT_EQ(verdict.outcome, Outcome::fail);
    EXPECT_EQ(verdict.check, Check::guards);
    EXPECT_NE(verdict.reason.find(words), std::string::npos) << verdict.reason;
  }
}

}  // namespace
}  // namespace tilesmith
