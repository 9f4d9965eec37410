// Dropout: the mask depends on the seed, the offset and the element alone, so a call repeats, whatever kernel runs it.
#include "example.hpp"

int main() {
  constexpr std::int64_t kRows = 64, kKeys = 256, kDim = 64;
  const tilesmith::AttentionProblem problem{.data_type = tilesmith::DataType::fp32,
                                            .seqlen_q = kRows,
                                            .seqlen_k = kKeys,
                                            .head_dim_qk = kDim,
                                            .head_dim_v = kDim,
                                            .dropout = true};
  // Zeros as queries make all weights 1 / 256; ones as values make an output the share of keys kept, times 1 / (1 - p).
  const example::Tensor q(kRows * kDim), k(kKeys * kDim), v(kKeys * kDim, 1);
  tilesmith::Dispatcher dispatcher;
  const auto* plan = example::value_of(dispatcher.plan(problem));
  const auto run = [&](std::uint64_t seed) {
    example::Tensor o(q.size());
    auto call = tilesmith::dense_arguments(problem, tilesmith::AttentionLayout::bhsd);
    call.q = q.data(), call.k = k.data(), call.v = v.data(), call.o = o.data();
    call.dropout_probability = 0.25F, call.seed = seed;
    example::check(plan->run(call));
    return o;
  };
  const auto first = run(7);
  double kept = 0;
  for (std::int64_t row = 0; row < kRows; ++row) kept += 0.75 * first[row * kDim] / kRows;
  std::printf("kept %.3f of the weights\n", kept);
  const bool repeats = run(7) == first, differs = run(8) != first;
  return kept > 0.72 && kept < 0.78 && repeats && differs ? 0 : 1;
}
