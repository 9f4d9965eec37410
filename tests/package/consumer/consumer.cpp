// What a user of the installed library writes: a problem, a plan, a run.
#include <cmath>
#include <cstdio>
#include <vector>

#include <tilesmith/tilesmith.hpp>

int main() {
  const tilesmith::AttentionProblem problem{.data_type = tilesmith::DataType::fp32,
                                            .heads_q = 2,
                                            .heads_kv = 1,
                                            .seqlen_q = 5,
                                            .seqlen_k = 9,
                                            .head_dim_qk = 64,
                                            .head_dim_v = 64};
  tilesmith::Dispatcher dispatcher({.build = tilesmith::BuildPolicy::never});
  const auto plan = dispatcher.plan(problem);
  if (!plan) {
    std::printf("%s\n", plan.error().text().c_str());
    return 1;
  }
  std::vector<float> q(2 * 5 * 64, 0.5f), k(9 * 64, 0.25f), v(9 * 64, 3.0f), o(2 * 5 * 64, NAN);
  auto arguments = tilesmith::dense_arguments(problem, tilesmith::AttentionLayout::bhsd);
  arguments.q = q.data();
  arguments.k = k.data();
  arguments.v = v.data();
  arguments.o = o.data();
  if (const auto status = (*plan)->run(arguments); !status) {
    std::printf("%s\n", status.error().text().c_str());
    return 1;
  }
  for (const float value : o)
    if (std::abs(value - 3.0f) > 1e-5f) {  // every value row is 3, and so is every weighted mean of them
      std::printf("wrong: %f\n", static_cast<double>(value));
      return 1;
    }
  return 0;
}
