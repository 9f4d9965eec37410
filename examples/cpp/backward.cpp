// Gradients: dq, dk and dv of a loss <o, dout>, with a causal mask, grouped heads, and the gradient of a bias. A step
// along a direction changes the loss by what the gradients say, and a second run gives the same bits.
#include "example.hpp"

namespace {
constexpr std::int64_t kHeads = 4, kHeadsKv = 2, kRows = 48, kDim = 32;

double inner(const example::Tensor& a, const example::Tensor& b) {
  return example::dot(a.data(), b.data(), static_cast<std::int64_t>(a.size()));
}
}  // namespace

int main() {
  const tilesmith::AttentionBackwardProblem problem{.data_type = tilesmith::DataType::fp32,
                                                    .heads_q = kHeads,
                                                    .heads_kv = kHeadsKv,
                                                    .seqlen_q = kRows,
                                                    .seqlen_k = kRows,
                                                    .head_dim_qk = kDim,
                                                    .head_dim_v = kDim,
                                                    .mask = tilesmith::MaskKind::bottom_right,
                                                    .bias = tilesmith::BiasKind::elementwise,
                                                    .dbias = true};
  const std::int64_t queries = kHeads * kRows * kDim, keys = kHeadsKv * kRows * kDim, pairs = kHeads * kRows * kRows;
  const auto k = example::random_tensor(keys, 2), dout = example::random_tensor(queries, 5),
             step = example::random_tensor(queries, 6);
  auto q = example::random_tensor(queries, 1), v = example::random_tensor(keys, 3),
       bias = example::random_tensor(pairs, 4);
  example::Tensor o(q.size()), lse(kHeads * kRows), dq(q.size()), dk(k.size()), dv(k.size()), dbias(bias.size());

  tilesmith::Dispatcher dispatcher;
  const auto* forward = example::value_of(dispatcher.plan(tilesmith::forward_of(problem)));
  const auto* backward = example::value_of(dispatcher.plan(problem));
  auto call = tilesmith::dense_arguments(problem, tilesmith::AttentionLayout::bhsd);
  auto& inputs = call.forward;
  inputs.q = q.data(), inputs.k = k.data(), inputs.v = v.data(), inputs.bias = bias.data(), inputs.o = o.data(),
  inputs.lse = lse.data();
  call.dout = dout.data(), call.dq = dq.data(), call.dk = dk.data(), call.dv = dv.data(), call.dbias = dbias.data();
  example::check(forward->run(inputs));
  example::check(backward->run(call));
  for (const auto& each : backward->info().steps) std::printf("%s: %s\n", each.role.c_str(), each.kernel.c_str());
  const auto first = dq;
  example::check(backward->run(call));
  example::expect_near("a second run", dq, first, 0);

  // (loss(q + h step) - loss(q - h step)) / 2 h is <dq, step>.
  double loss[2];
  for (const int sign : {0, 1}) {
    for (std::size_t i = 0; i < q.size(); ++i) q[i] += (sign ? -2 : 1) * 0.01F * step[i];
    example::check(forward->run(inputs));
    loss[sign] = inner(o, dout);
  }
  const float by_steps = static_cast<float>((loss[0] - loss[1]) / 0.02),
              by_gradient = static_cast<float>(inner(dq, step));
  example::expect_near("along dq", {&by_steps, 1}, {&by_gradient, 1}, 0.01 * std::abs(by_gradient) + 0.05);
}
