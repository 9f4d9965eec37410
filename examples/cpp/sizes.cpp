// Many sizes, one dispatcher: each problem is planned once and found again without a lock; time and rate of a call.
#include "example.hpp"

#include <chrono>

int main() {
  using Clock = std::chrono::steady_clock;
  tilesmith::Dispatcher dispatcher({.build = tilesmith::BuildPolicy::never});  // linked-in and stored kernels alone
  std::printf("%6s %6s %6s  %10s %10s  kernel\n", "m", "n", "k", "us", "GFLOP/s");
  for (const auto& [m, n, k] : {std::array{1, 512, 512}, {16, 512, 512}, {128, 128, 128}, {257, 129, 65}}) {
    const auto problem = tilesmith::gemm_problem(tilesmith::DataType::fp32, m, n, k);
    const auto a = example::random_tensor(m * k, 1), b = example::random_tensor(n * k, 2);
    example::Tensor d(m * n);
    auto call = tilesmith::dense_arguments(problem);
    call.a.data = a.data(), call.b.data = b.data(), call.d = d.data();
    const auto* plan = example::value_of(dispatcher.plan(problem));
    std::vector<double> seconds;
    for (int i = 0; i < 20; ++i) {
      const auto begin = Clock::now();
      example::check(plan->run(call));
      seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
    std::ranges::nth_element(seconds, seconds.begin() + 10);
    std::printf("%6d %6d %6d  %10.1f %10.1f  %s\n", m, n, k, 1e6 * seconds[10], 2e-9 * m * n * k / seconds[10],
                plan->info().recipe.c_str());
    if (example::value_of(dispatcher.plan(problem)) != plan) return 1;
    const float expected = static_cast<float>(example::dot(&a[(m - 1) * k], &b[(n - 1) * k], k));  // the last element
    example::expect_near("last element", {&d.back(), 1}, {&expected, 1}, 1e-3);
  }
}
