// What a bench asks of an operation: one specialisation of BenchOperation for each.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.hpp"
#include "dispatch/backend.hpp"
#include "problem/describe.hpp"
#include "trial/attention/case.hpp"
#include "trial/gemm/case.hpp"
#include "verify/attention/reference.hpp"
#include "verify/gemm/reference.hpp"
#include "vocabulary/signature.hpp"

namespace tilesmith {

/// A problem of any operation that is benched; problems of one operation. In the order of Operation.
using BenchProblem = AnyProblem;
using BenchProblems = std::variant<std::vector<AttentionProblem>, std::vector<GemmProblem>>;

[[nodiscard]] constexpr Operation operation_of(const BenchProblem& problem) {
  return static_cast<Operation>(problem.index());
}
[[nodiscard]] constexpr Operation operation_of(const BenchProblems& problems) {
  return static_cast<Operation>(problems.index());
}

/// The problems of a tier ("smoke") of the shapes file `path`, or of the operation's built-in one when it is empty; of
/// the part `shard` ("2/8"), or all when it is empty. Each comes once. Errors: unsupported, for operations that are not
/// benched.
[[nodiscard]] Result<BenchProblems> load_problems(Operation operation, const std::string& path, std::string_view tier,
                                                  std::string_view shard);

/// How long one candidate may take on one problem of the tier, as the same file says.
[[nodiscard]] Result<std::chrono::milliseconds> time_limit(Operation operation, const std::string& path,
                                                           std::string_view tier);

template <class Problem>
struct BenchOperation;

template <>
struct BenchOperation<AttentionProblem> {
  using Kernels = OperationBackend<AttentionFwd>;
  using Case = AttentionCase;
  using Expectation = AttentionReference;

  /// Error: unsupported, where the device has no kernels of the operation.
  [[nodiscard]] static Result<Kernels*> kernels(Backend& backend) { return backend.find<AttentionFwd>(); }
  /// The problem on random data, the same for all kernels.
  [[nodiscard]] static Result<Case> make_case(const AttentionProblem& problem);
  /// What is done once before the calls that are measured.
  [[nodiscard]] static Status prepare(Case&, Dispatcher&) { return {}; }
  /// The kernel that prepare() runs, if it runs one.
  [[nodiscard]] static std::optional<KernelConfig> preparing(const Backend&, const AttentionProblem&) {
    return std::nullopt;
  }
  [[nodiscard]] static Result<Expectation> expect(const Case& problem_case);
  /// The type whose product instructions set the roofline.
  [[nodiscard]] static DataType product_type(const AttentionProblem& problem) { return problem.data_type; }
  /// Seconds of the naive computation on this host; 0 where there is none.
  [[nodiscard]] static double naive_seconds(const Case& problem_case, int threads);
};

template <>
struct BenchOperation<GemmProblem> {
  using Kernels = OperationBackend<Gemm>;
  using Case = GemmCase;
  using Expectation = GemmReference;

  [[nodiscard]] static Result<Kernels*> kernels(Backend& backend) { return backend.find<Gemm>(); }
  [[nodiscard]] static Result<Case> make_case(const GemmProblem& problem);
  [[nodiscard]] static Status prepare(Case& problem_case, Dispatcher& dispatcher) {
    return problem_case.pack_b(dispatcher);
  }
  [[nodiscard]] static std::optional<KernelConfig> preparing(const Backend& backend, const GemmProblem& problem);
  [[nodiscard]] static Result<Expectation> expect(const Case& problem_case);
  [[nodiscard]] static DataType product_type(const GemmProblem& problem) { return problem.type_a; }
  [[nodiscard]] static double naive_seconds(const Case& problem_case, int threads);
};

}  // namespace tilesmith
