// Several dispatchers with options of their own: for all threads and for one, and one that may never wait for a
// compiler. They share the store of compiled kernels.
#include "example.hpp"

int main() {
  const tilesmith::AttentionProblem problem{.data_type = tilesmith::DataType::fp32,
                                            .heads_q = 8,
                                            .heads_kv = 8,
                                            .seqlen_q = 64,
                                            .seqlen_k = 64,
                                            .head_dim_qk = 64,
                                            .head_dim_v = 64};
  const auto q = example::random_tensor(8 * 64 * 64, 1);
  tilesmith::Dispatcher all, one({.threads = 1}), serving({.build = tilesmith::BuildPolicy::never});
  example::Tensor first;
  for (auto* dispatcher : {&all, &one, &serving}) {
    const auto* plan = example::value_of(dispatcher->plan(problem));
    example::Tensor o(q.size());
    auto call = tilesmith::dense_arguments(problem, tilesmith::AttentionLayout::bhsd);
    call.q = call.k = call.v = q.data(), call.o = o.data();
    example::check(plan->run(call));
    std::printf("%s (%s)\n", plan->info().recipe.c_str(), plan->info().source.c_str());
    if (first.empty()) first = o;
    example::expect_near("o", o, first, 1e-5);
  }
}
