// Grouped queries: query head h reads key head h / (heads_q / heads_kv). The same as with the heads repeated.
#include "example.hpp"

namespace {
constexpr std::int64_t kHeads = 8, kRows = 50, kDim = 64;

example::Tensor attention(tilesmith::Dispatcher& dispatcher, std::int64_t heads_kv, const example::Tensor& q,
                          const example::Tensor& k, const example::Tensor& v) {
  const tilesmith::AttentionProblem problem{.data_type = tilesmith::DataType::fp32,
                                            .heads_q = kHeads,
                                            .heads_kv = heads_kv,
                                            .seqlen_q = kRows,
                                            .seqlen_k = kRows,
                                            .head_dim_qk = kDim,
                                            .head_dim_v = kDim,
                                            .mask = tilesmith::MaskKind::bottom_right};
  example::Tensor o(q.size());
  auto call = tilesmith::dense_arguments(problem, tilesmith::AttentionLayout::bhsd);
  call.q = q.data(), call.k = k.data(), call.v = v.data(), call.o = o.data();
  example::check(example::value_of(dispatcher.plan(problem))->run(call));
  return o;
}

example::Tensor repeated(const example::Tensor& tensor, std::int64_t heads) {
  const auto head = static_cast<std::ptrdiff_t>(tensor.size()) / heads;
  example::Tensor all;
  for (std::int64_t h = 0; h < kHeads; ++h) {
    const auto begin = tensor.begin() + h / (kHeads / heads) * head;
    all.insert(all.end(), begin, begin + head);
  }
  return all;
}
}  // namespace

int main() {
  tilesmith::Dispatcher dispatcher;
  const auto q = example::random_tensor(kHeads * kRows * kDim, 1);
  for (const std::int64_t heads_kv : {8, 4, 2, 1}) {
    const auto k = example::random_tensor(heads_kv * kRows * kDim, 2),
               v = example::random_tensor(heads_kv * kRows * kDim, 3);
    std::printf("%d heads of keys: ", static_cast<int>(heads_kv));
    example::expect_near("o", attention(dispatcher, heads_kv, q, k, v),
                         attention(dispatcher, kHeads, q, repeated(k, heads_kv), repeated(v, heads_kv)), 1e-6);
  }
}
