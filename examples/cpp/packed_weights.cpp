// Weights packed once (on the CPU), read as they are by every later call, of any number of rows.
#include "example.hpp"

int main() {
  constexpr std::int64_t kN = 192, kK = 256;
  const auto weights = example::random_tensor(kN * kK, 1);
  tilesmith::Dispatcher dispatcher;
  auto problem = tilesmith::gemm_problem(tilesmith::DataType::fp32, 1, kN, kK);
  const auto bytes = example::value_of(dispatcher.packed_b_bytes(problem));
  auto* packed = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  const auto operand = tilesmith::dense_arguments(problem).b;
  example::check(dispatcher.pack_b(problem, {weights.data(), operand.leading, operand.batch}, packed));
  std::printf("%zu bytes for %zu\n", bytes, weights.size() * sizeof(float));
  for (const std::int64_t m : {1, 7, 64}) {
    const auto x = example::random_tensor(m * kK, 2);
    example::Tensor results[2];
    for (const bool is_packed : {false, true}) {
      problem.m = m, problem.packed_b = is_packed;
      auto& d = results[is_packed];
      d.resize(static_cast<std::size_t>(m * kN));
      auto call = tilesmith::dense_arguments(problem);
      call.a.data = x.data(), call.d = d.data();
      call.b.data = is_packed ? packed : weights.data();
      if (is_packed) call.b.leading = static_cast<std::int64_t>(bytes);
      example::check(example::value_of(dispatcher.plan(problem))->run(call));
    }
    example::expect_near("packed and plain", results[0], results[1], 1e-3);
  }
  std::free(packed);
}
