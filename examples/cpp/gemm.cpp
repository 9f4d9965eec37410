// Matrix products: a plain one, one with an epilogue in the same kernel, and a batch; each element against the
// definition.
#include "example.hpp"

namespace {
constexpr std::int64_t kM = 50, kN = 70, kK = 90, kBatch = 3;
}  // namespace

int main() {
  const auto a = example::random_tensor(kBatch * kM * kK, 1), b = example::random_tensor(kN * kK, 2),
             bias = example::random_tensor(kN, 3), residual = example::random_tensor(kBatch * kM * kN, 4);
  tilesmith::Dispatcher dispatcher;
  for (const bool fused : {false, true}) {
    auto problem =
        tilesmith::gemm_problem(tilesmith::DataType::fp32, kM, kN, kK);  // A (m, k), B (n, k): as torch.nn.Linear
    problem.batch = kBatch;
    if (fused)
      problem.epilogue = {tilesmith::EpilogueOp::bias, tilesmith::EpilogueOp::relu, tilesmith::EpilogueOp::add};
    example::Tensor d(residual.size()), expected(residual.size());
    auto call = tilesmith::dense_arguments(problem);
    call.a.data = a.data(), call.b.data = b.data(), call.d = d.data(), call.b.batch = 0;  // one B for all
    call.epilogue[0].data = bias.data();
    call.epilogue[2] = {.data = residual.data(), .leading = kN, .batch = kM * kN};
    const auto* plan = example::value_of(dispatcher.plan(problem));
    example::check(plan->run(call));
    for (std::int64_t i = 0; i < kBatch * kM; ++i)
      for (std::int64_t j = 0; j < kN; ++j) {
        const double sum = example::dot(&a[i * kK], &b[j * kK], kK);
        expected[i * kN + j] = static_cast<float>(fused ? std::max(sum + bias[j], 0.0) + residual[i * kN + j] : sum);
      }
    example::expect_near(plan->info().recipe.c_str(), d, expected, 1e-4);
  }
}
