// Attention of one problem: plan once, run as often as wanted; the result and the log-sum-exp.
#include "example.hpp"

int main() {
  constexpr std::int64_t kHeads = 4, kRows = 100, kKeys = 130, kDim = 64;
  const tilesmith::AttentionProblem problem{.data_type = tilesmith::DataType::fp32,
                                            .heads_q = kHeads,
                                            .heads_kv = kHeads,
                                            .seqlen_q = kRows,
                                            .seqlen_k = kKeys,
                                            .head_dim_qk = kDim,
                                            .head_dim_v = kDim,
                                            .lse = true};
  const auto q = example::random_tensor(kHeads * kRows * kDim, 1), k = example::random_tensor(kHeads * kKeys * kDim, 2),
             v = example::random_tensor(kHeads * kKeys * kDim, 3);
  example::Tensor o(q.size()), lse(kHeads * kRows);

  tilesmith::Dispatcher dispatcher;  // one for each process and device; thread-safe
  const auto* plan = example::value_of(dispatcher.plan(problem));
  auto call = tilesmith::dense_arguments(problem, tilesmith::AttentionLayout::bhsd);
  call.q = q.data(), call.k = k.data(), call.v = v.data(), call.o = o.data(), call.lse = lse.data();
  example::check(plan->run(call));
  std::printf("%s\n  %s\n", plan->info().recipe.c_str(), plan->info().reason.c_str());

  // Row 7 of head 2, by the definition.
  const float *query = &q[(2 * kRows + 7) * kDim], *keys = &k[2 * kKeys * kDim];
  std::vector<double> logits(kKeys);
  double sum = 0;
  for (std::int64_t j = 0; j < kKeys; ++j) {
    logits[j] = call.scale * example::dot(query, keys + j * kDim, kDim);
    sum += std::exp(logits[j]);
  }
  const auto expected = example::attend(logits, {&v[2 * kKeys * kDim], kKeys * kDim}, kDim);
  example::expect_near("o", {&o[(2 * kRows + 7) * kDim], kDim}, expected, 1e-5);
  const float logarithm = static_cast<float>(std::log(sum));
  example::expect_near("lse", {&lse[2 * kRows + 7], 1}, {&logarithm, 1}, 1e-5);
}
