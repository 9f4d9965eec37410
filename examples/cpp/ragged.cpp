// Sequences of different lengths without padding (group mode): packed behind one another, with offsets.
#include "example.hpp"

namespace {
constexpr std::int64_t kHeads = 2, kDim = 64;
constexpr std::int32_t kEndsQ[] = {0, 5, 5, 42},
                       kEndsK[] = {0, 30, 41, 90};  // three sequences; the second has no queries
}  // namespace

int main() {
  const auto q = example::random_tensor(42 * kHeads * kDim, 1), k = example::random_tensor(90 * kHeads * kDim, 2),
             v = example::random_tensor(90 * kHeads * kDim, 3);
  tilesmith::Dispatcher dispatcher;
  const tilesmith::AttentionProblem problem{.data_type = tilesmith::DataType::fp32,
                                            .mode = tilesmith::SequenceMode::group,
                                            .batch = 3,
                                            .heads_q = kHeads,
                                            .heads_kv = kHeads,
                                            .seqlen_q = 37,
                                            .seqlen_k = 49,
                                            .head_dim_qk = kDim,
                                            .head_dim_v = kDim,
                                            .mask = tilesmith::MaskKind::bottom_right};
  example::Tensor o(q.size());
  auto call = tilesmith::dense_arguments(problem, tilesmith::AttentionLayout::bshd, 42, 90);  // (total, heads, dim)
  call.q = q.data(), call.k = k.data(), call.v = v.data(), call.o = o.data();
  call.cu_seqlens_q = kEndsQ, call.cu_seqlens_k = kEndsK;
  example::check(example::value_of(dispatcher.plan(problem))->run(call));

  // The third sequence alone.
  auto alone = problem;
  alone.mode = tilesmith::SequenceMode::batch, alone.batch = 1;
  example::Tensor one(37 * kHeads * kDim);
  auto single = tilesmith::dense_arguments(alone, tilesmith::AttentionLayout::bshd);
  single.q = &q[5 * kHeads * kDim], single.k = &k[41 * kHeads * kDim], single.v = &v[41 * kHeads * kDim];
  single.o = one.data();
  example::check(example::value_of(dispatcher.plan(alone))->run(single));
  example::expect_near("third sequence", std::span(o).subspan(5 * kHeads * kDim), one, 1e-6);
}
