// The float64 reference of attention backward against central differences of the reference of attention forward.
#include "verify/attention_backward/float64.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/random.hpp"
#include "verify/attention/float64.hpp"
#include "verify/attention_backward/reference.hpp"
#include "verify/random_attention.hpp"

namespace tilesmith {
namespace {

/// A random call with o, lse and their gradients.
class BackwardCall {
 public:
  explicit BackwardCall(const CaseOptions& options) : given(options) {
    AttentionTensors& t = given.tensors;
    const bool group = t.group_mode();
    const std::int64_t rows = output_rows(t) / t.heads_q / (group ? 1 : t.batch), width = t.head_dim_v;
    run_forward();
    weights_.resize(forward.o.size());
    lse_weights_.resize(forward.lse.size());
    fill_normal(weights_, {options.seed, 501});
    fill_normal(lse_weights_, {options.seed, 502});
    dout_.assign(weights_.begin(), weights_.end());
    for (std::size_t row = 0; row < lse_.size(); ++row)
      if (std::isinf(lse_[row])) lse_weights_[row] = 0;
    const TensorStrides strides{t.heads_q * rows * width, rows * width, width, 1};
    tensors.forward = t;
    tensors.o = {forward.o.data(), ElementType::fp64, strides, {}};
    tensors.dout = {dout_.data(), ElementType::fp64, strides, {}};
    tensors.lse = lse_.data();
    tensors.dlse = lse_weights_.data();
    tensors.lse_strides = tensors.dlse_strides = {t.heads_q * rows, rows, 1, 1};
    tensors.dbias = t.bias != nullptr;
    tensors.dalibi = t.alibi != nullptr;
    tensors.dsink = t.sink != nullptr;
    tensors.dbias_batch = tensors.dbias_head = t.bias_strides.head != 0;
    tensors.dalibi_batch = true;
  }

  /// O and lse of the inputs as they are now.
  void run_forward() {
    const Float64Attention now = *float64_attention(given.tensors);
    forward = now;  // copied, not moved: tensors point to what is there
    lse_.assign(now.lse.begin(), now.lse.end());
  }

  /// <O, R> + <lse, r> of the inputs as they are now.
  double loss() const {
    const Float64Attention now = *float64_attention(given.tensors);
    double sum = 0;
    for (std::size_t at = 0; at < now.o.size(); ++at) sum += now.o[at] * static_cast<double>(weights_[at]);
    for (std::size_t row = 0; row < now.lse.size(); ++row)
      if (lse_weights_[row] != 0) sum += now.lse[row] * static_cast<double>(lse_weights_[row]);
    return sum;
  }

  RandomAttention given;
  AttentionBackwardTensors tensors;
  Float64Attention forward;

 private:
  std::vector<float> weights_, lse_weights_, lse_;
  std::vector<double> dout_;
};

/// Moves every element of an input along a random direction and compares the change with the gradient's.
/// each(visit) calls visit(gradient, add), where add(step) changes the element.
void expect_slope(BackwardCall& call, const char* name, double step, std::uint64_t seed,
                  const std::function<void(const std::function<double(double)>&)>& move,
                  const std::vector<double>& gradient) {
  // move(direction): direction(i) is what is added to element i; the same elements in the same order every time.
  const RandomStream random{seed, 600};
  std::vector<double> along(gradient.size());
  for (std::size_t at = 0; at < along.size(); ++at)
    along[at] = static_cast<double>(random.below(at, 2001)) / 1000.0 - 1.0;
  const auto moved_by = [&](double factor) {
    std::size_t at = 0;
    move([&](double) { return factor * along[at++]; });
  };
  moved_by(step);
  const double up = call.loss();
  moved_by(-2 * step);
  const double down = call.loss();
  moved_by(step);
  double want = 0, size = 0;
  for (std::size_t at = 0; at < along.size(); ++at) {
    want += gradient[at] * along[at];
    size += gradient[at] * gradient[at];
  }
  const double got = (up - down) / (2 * step);
  EXPECT_NEAR(got, want, 2e-4 * (std::sqrt(size) + 1e-3)) << name;
}

void expect_gradients(const CaseOptions& options) {
  SCOPED_TRACE(describe(options));
  BackwardCall call(options);
  const AttentionTensors& t = call.given.tensors;
  const Float64AttentionBackward result = *float64_attention_backward(call.tensors);
  constexpr double kStep = 1e-5, kFloatStep = 0x1p-8;
  const auto over = [&](TensorView& view, bool of_queries, std::int64_t columns) {
    return [&, of_queries, columns](const std::function<double(double)>& change) {
      const std::int64_t heads = of_queries ? t.heads_q : t.heads_kv;
      const auto sequences = [&](std::int64_t b) {
        return of_queries ? sequence_of(t, b).seqlen_q : sequence_of(t, b).seqlen_k;
      };
      const auto row = [&](std::int64_t b, std::int64_t h, std::int64_t i) {
        for (std::int64_t c = 0; c < columns; ++c) {
          const double was = call.given.get(view, b, h, i, c);
          call.given.set(view, b, h, i, c, was + change(was));
        }
      };
      // In the order of the gradient: by sequence and head, or by head and sequence where sequences are packed.
      if (t.group_mode()) {
        for (std::int64_t h = 0; h < heads; ++h)
          for (std::int64_t b = 0; b < t.batch; ++b)
            for (std::int64_t i = 0; i < sequences(b); ++i) row(b, h, i);
      } else {
        for (std::int64_t b = 0; b < t.batch; ++b)
          for (std::int64_t h = 0; h < heads; ++h)
            for (std::int64_t i = 0; i < sequences(b); ++i) row(b, h, i);
      }
    };
  };
  expect_slope(call, "q", kStep, options.seed, over(call.given.tensors.q, true, t.head_dim_qk), result.dq.values);
  expect_slope(call, "k", kStep, options.seed, over(call.given.tensors.k, false, t.head_dim_qk), result.dk.values);
  expect_slope(call, "v", kStep, options.seed, over(call.given.tensors.v, false, t.head_dim_v), result.dv.values);
  const auto floats = [](std::vector<float>& values) {
    return [&values](const std::function<double(double)>& change) {
      for (float& x : values) x += static_cast<float>(change(static_cast<double>(x)));
    };
  };
  if (t.bias != nullptr)
    expect_slope(call, "bias", kFloatStep, options.seed, floats(call.given.bias), result.dbias.values);
  if (t.alibi != nullptr)
    expect_slope(call, "alibi", 0x1p-14, options.seed, floats(call.given.alibi), result.dalibi.values);
  if (t.sink != nullptr)
    expect_slope(call, "sink", kFloatStep, options.seed, floats(call.given.sink), result.dsink.values);
}

TEST(AttentionBackwardFloat64, AgreesWithDifferencesOnRandomTraits) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CaseOptions options = random_options(ElementType::fp64, seed);
    options.seqlen_q = std::min<std::int64_t>(options.seqlen_q, 40);
    options.seqlen_k = std::min<std::int64_t>(options.seqlen_k, 60);
    options.head_dim_qk = std::min<std::int64_t>(options.head_dim_qk, 9);
    options.head_dim_v = std::min<std::int64_t>(options.head_dim_v, 7);
    if (options.soft_cap != 0) options.soft_cap = 1.5F;  // small enough to be felt
    expect_gradients(options);
  }
}

TEST(AttentionBackwardFloat64, AgreesWithDifferencesWithEveryTrait) {
  for (const bool alibi : {false, true})
    expect_gradients({.type = ElementType::fp64,
                      .bias = !alibi,
                      .alibi = alibi,
                      .sink = true,
                      .window_left = 6,
                      .window_right = 0,
                      .bottom_right = true,
                      .soft_cap = 1.5F,
                      .drop_threshold = 16384});
}

// A sink of 90 leaves the keys weights of about 1e-39, which a GPU takes for zeros; a weight of 1e-30 it does not.
TEST(AttentionBackwardReference, SubnormalNumbersMayBeTakenForZeros) {
  for (const bool subnormal : {true, false}) {
    BackwardCall call({.type = ElementType::fp32, .sink = true});
    std::ranges::fill(call.given.sink, subnormal ? 90.0F : 69.0F);
    call.run_forward();
    const AttentionBackwardReference reference = *AttentionBackwardReference::make(call.tensors);
    std::vector<double> dq = reference.float64().dq.values;
    for (double& x : dq) x = std::abs(x) < 0x1p-126 ? 0 : x * (subnormal ? 1 : 1.5);
    const OutputValues output{.name = "dq", .values = dq};
    EXPECT_EQ(reference.judge({&output, 1}).outcome, subnormal ? Outcome::pass : Outcome::fail);
  }
}

}  // namespace
}  // namespace tilesmith
