// What may change the logits: an elementwise bias (broadcast over the heads here), ALiBi, a soft cap, a sink token;
// under a causal mask from the bottom right corner, whose diagonal ALiBi counts from.
#include "example.hpp"

int main() {
  constexpr std::int64_t kHeads = 2, kRows = 33, kKeys = 50, kDim = 32, kRow = 20;
  const auto q = example::random_tensor(kHeads * kRows * kDim, 1), k = example::random_tensor(kHeads * kKeys * kDim, 2),
             v = example::random_tensor(kHeads * kKeys * kDim, 3), bias = example::random_tensor(kRows * kKeys, 4);
  const float slopes[kHeads] = {0.5F, 0.25F}, sinks[kHeads] = {1, 3};
  tilesmith::Dispatcher dispatcher;

  for (const auto kind : {tilesmith::BiasKind::elementwise, tilesmith::BiasKind::alibi}) {
    const bool elementwise = kind == tilesmith::BiasKind::elementwise;
    const tilesmith::AttentionProblem problem{.data_type = tilesmith::DataType::fp32,
                                              .heads_q = kHeads,
                                              .heads_kv = kHeads,
                                              .seqlen_q = kRows,
                                              .seqlen_k = kKeys,
                                              .head_dim_qk = kDim,
                                              .head_dim_v = kDim,
                                              .mask = tilesmith::MaskKind::bottom_right,
                                              .bias = kind,
                                              .soft_cap = true,
                                              .sink = true};
    example::Tensor o(q.size());
    auto call = tilesmith::dense_arguments(problem, tilesmith::AttentionLayout::bhsd);
    call.q = q.data(), call.k = k.data(), call.v = v.data(), call.o = o.data();
    call.bias = bias.data();
    call.bias_strides = {.batch = 0, .head = 0, .row = kKeys, .column = 1};  // one matrix for all heads
    call.alibi = slopes, call.sink = sinks, call.soft_cap = 2;
    example::check(example::value_of(dispatcher.plan(problem))->run(call));

    for (std::int64_t head = 0; head < kHeads; ++head) {
      std::vector<double> logits(kKeys, -INFINITY);
      for (std::int64_t j = 0; j <= kRow + kKeys - kRows; ++j) {
        const double product =
            call.scale * example::dot(&q[(head * kRows + kRow) * kDim], &k[(head * kKeys + j) * kDim], kDim);
        logits[j] = 2 * std::tanh(product / 2);
        logits[j] += elementwise ? bias[kRow * kKeys + j] : -slopes[head] * std::abs(kRow + kKeys - kRows - j);
      }
      const auto expected = example::attend(logits, {&v[head * kKeys * kDim], kKeys * kDim}, kDim, sinks[head]);
      example::expect_near(elementwise ? "bias, soft cap, sink" : "ALiBi, soft cap, sink",
                           {&o[(head * kRows + kRow) * kDim], kDim}, expected, 1e-5);
    }
  }
}
