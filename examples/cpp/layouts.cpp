// Layouts are strides: (batch, heads, rows, dim), (batch, rows, heads, dim), and rows with padding behind them.
#include "example.hpp"

namespace {
constexpr std::int64_t kHeads = 3, kRows = 20, kDim = 40, kPadded = 48;

// Element (head, row, d) of a dense (heads, rows, dim) tensor, moved to where the strides have it.
example::Tensor moved(const example::Tensor& from, const tilesmith::AttentionStrides& to) {
  example::Tensor result(kHeads * kRows * kPadded, NAN);  // NaN where nothing belongs: nobody reads it
  for (std::int64_t h = 0; h < kHeads; ++h)
    for (std::int64_t i = 0; i < kRows; ++i)
      for (std::int64_t d = 0; d < kDim; ++d) result[h * to.head + i * to.row + d] = from[(h * kRows + i) * kDim + d];
  return result;
}
}  // namespace

int main() {
  const tilesmith::AttentionProblem problem{.data_type = tilesmith::DataType::fp32,
                                            .heads_q = kHeads,
                                            .heads_kv = kHeads,
                                            .seqlen_q = kRows,
                                            .seqlen_k = kRows,
                                            .head_dim_qk = kDim,
                                            .head_dim_v = kDim};
  const tilesmith::AttentionStrides layouts[] = {
      {.batch = 0, .head = kRows * kDim, .row = kDim},
      {.batch = 0, .head = kDim, .row = kHeads * kDim},
      {.batch = 0, .head = kRows * kPadded, .row = kPadded},
  };
  const auto q = example::random_tensor(kHeads * kRows * kDim, 1), k = example::random_tensor(kHeads * kRows * kDim, 2),
             v = example::random_tensor(kHeads * kRows * kDim, 3);
  tilesmith::Dispatcher dispatcher;
  const auto* plan = example::value_of(dispatcher.plan(problem));  // one plan for all layouts
  example::Tensor first;
  for (const auto& strides : layouts) {
    const auto moved_q = moved(q, strides), moved_k = moved(k, strides), moved_v = moved(v, strides);
    example::Tensor o(kHeads * kRows * kDim);
    auto call = tilesmith::dense_arguments(problem, tilesmith::AttentionLayout::bhsd);
    call.q = moved_q.data(), call.k = moved_k.data(), call.v = moved_v.data(), call.o = o.data();
    call.q_strides = call.k_strides = call.v_strides = strides;
    example::check(plan->run(call));
    if (first.empty()) first = o;
    example::expect_near("o", o, first, 0);
  }
}
