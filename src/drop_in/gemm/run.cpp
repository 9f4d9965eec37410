// Products: of one pair of matrices, and of a list of pairs.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "base/env.hpp"
#include "drop_in/answer.hpp"
#include "drop_in/gemm/session.hpp"
#include "drop_in/memory.hpp"
#include "problem/derive.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith::drop_in {
namespace {

/// The numbers of calls that Composable Kernel's library reads from these variables, where they are set.
Repeats repeats() {
  const auto count = [](const char* variable, int usual) {
    const auto text = env(variable);
    if (!text) return usual;
    const int value = std::atoi(text->c_str());
    return value > 0 ? value : usual;
  };
  return {.warm_up = count("CK_TILE_BENCH_WARMUP", 3), .timed = count("CK_TILE_BENCH_REPEAT", 10)};
}

std::size_t matrix_bytes(std::int64_t rows, std::int64_t columns, DataType type) {
  return static_cast<std::size_t>(rows * columns) * static_cast<std::size_t>(bits_of(type)) / 8;
}

struct Product {
  const void *a, *b;
  void* c;
  std::int64_t m, n, k;
};

/// Dense matrices where the device has them.
Result<GemmArguments> bind(const GemmProblem& problem, const Product& product, Memory& memory) {
  GemmArguments arguments = dense_arguments(problem);
  TS_ASSIGN(arguments.a.data, memory.input(product.a, matrix_bytes(product.m, product.k, problem.type_a)));
  TS_ASSIGN(arguments.b.data, memory.input(product.b, matrix_bytes(product.k, product.n, problem.type_b)));
  TS_ASSIGN(arguments.d, memory.output(product.c, matrix_bytes(product.m, product.n, problem.type_d)));
  return arguments;
}

Result<double> seconds_of(const Product& product) {
  TS_ASSIGN(const auto session, gemm_session());
  TS_ASSIGN(const GemmProblem problem, session->kind().problem(product.m, product.n, product.k));
  TS_ASSIGN(const GemmPlan* plan, session->dispatcher().plan(with_derived_fields(problem)));
  TS_ASSIGN(const std::unique_ptr<Memory> memory, open_memory(session->device()));
  TS_ASSIGN(const GemmArguments arguments, bind(problem, product, *memory));
  TS_ASSIGN(const double seconds,
            memory->run([&](const RunOptions& options) { return plan->run(arguments, options); }, repeats()));
  TS_TRY(memory->finish());
  return seconds;
}

/// Where a device has no plans for lists, the products run one after another.
Result<double> seconds_of(const std::vector<Product>& products) {
  TS_ASSIGN(const auto session, gemm_session());
  TS_ASSIGN(const std::unique_ptr<Memory> memory, open_memory(session->device()));
  std::vector<GemmProblem> problems;
  std::vector<GemmArguments> arguments;
  for (const Product& product : products) {
    TS_ASSIGN(const GemmProblem problem, session->kind().problem(product.m, product.n, product.k));
    problems.push_back(with_derived_fields(problem));
    TS_ASSIGN(const GemmArguments bound, bind(problem, product, *memory));
    arguments.push_back(bound);
  }
  double seconds = 0;
  if (const auto plan = session->dispatcher().plan(std::span<const GemmProblem>(problems))) {
    TS_ASSIGN(seconds,
              memory->run([&](const RunOptions& options) { return (*plan)->run(arguments, options); }, repeats()));
  } else if (plan.error().code != ErrorCode::unsupported) {
    return std::unexpected(plan.error());
  } else {
    std::vector<const GemmPlan*> plans;
    for (const GemmProblem& problem : problems) {
      TS_ASSIGN(const GemmPlan* single, session->dispatcher().plan(problem));
      plans.push_back(single);
    }
    const auto one_by_one = [&](const RunOptions& options) -> Status {
      for (std::size_t i = 0; i < plans.size(); ++i) TS_TRY(plans[i]->run(arguments[i], options));
      return {};
    };
    TS_ASSIGN(seconds, memory->run(one_by_one, repeats()));
  }
  TS_TRY(memory->finish());
  return seconds;
}

/// `milliseconds` may be null; it gets -1 where no kernel serves the call.
template <class Call>
int run(std::string_view name, const Call& call, float* milliseconds) {
  const int code = answer(name, [&]() -> Status {
    TS_ASSIGN(const double seconds, seconds_of(call));
    if (milliseconds != nullptr) *milliseconds = static_cast<float>(seconds * 1e3);
    return {};
  });
  if (code == TILESMITH_CK_NO_KERNEL && milliseconds != nullptr) *milliseconds = -1;
  return code;
}

}  // namespace
}  // namespace tilesmith::drop_in

using namespace tilesmith;

int dispatcher_run_gemm(const void* A, const void* B, void* C, int64_t M, int64_t N, int64_t K, float* time_ms) {
  constexpr std::string_view name = "dispatcher_run_gemm";
  if (drop_in::any_is_null(name, {{"A", A}, {"B", B}, {"C", C}})) return TILESMITH_CK_FAILED;
  return drop_in::run(name, drop_in::Product{A, B, C, M, N, K}, time_ms);
}

int dispatcher_run_grouped_gemm(int group_count, const int64_t* Ms, const int64_t* Ns, const int64_t* Ks,
                                const void** A_ptrs, const void** B_ptrs, void** C_ptrs, float* time_ms) {
  constexpr std::string_view name = "dispatcher_run_grouped_gemm";
  if (drop_in::any_is_null(
          name, {{"Ms", Ms}, {"Ns", Ns}, {"Ks", Ks}, {"A_ptrs", A_ptrs}, {"B_ptrs", B_ptrs}, {"C_ptrs", C_ptrs}}))
    return TILESMITH_CK_FAILED;
  if (group_count <= 0) {
    log_error("{}: group_count is {}", name, group_count);
    return TILESMITH_CK_FAILED;
  }
  std::vector<drop_in::Product> products;
  for (int g = 0; g < group_count; ++g) {
    if (drop_in::any_is_null(name, {{"a matrix A", A_ptrs[g]}, {"a matrix B", B_ptrs[g]}, {"a matrix C", C_ptrs[g]}}))
      return TILESMITH_CK_FAILED;
    products.push_back({A_ptrs[g], B_ptrs[g], C_ptrs[g], Ms[g], Ns[g], Ks[g]});
  }
  return drop_in::run(name, products, time_ms);
}
