// What a sweep asks of an operation beside its case (trial/case.hpp): one specialisation of BenchOperation for each
// row.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "dispatch/backend.hpp"
#include "problem/describe.hpp"
#include "problem/operations.hpp"
#include "sweep/shard.hpp"
#include "trial/attention/case.hpp"
#include "trial/attention_backward/case.hpp"
#include "trial/conv/case.hpp"
#include "trial/gemm/case.hpp"
#include "vocabulary/signature.hpp"

namespace tilesmith {

namespace detail {
template <class Tuple>
struct ProblemLists;
template <class... Ops>
struct ProblemLists<std::tuple<Ops...>> : std::type_identity<std::variant<std::vector<typename Ops::Problem>...>> {};
}  // namespace detail

/// A problem of any operation; problems of one operation.
using BenchProblem = AnyProblem;
using BenchProblems = detail::ProblemLists<Operations>::type;

/// The problems of a tier ("smoke") of the shapes file `path`, or of the operation's built-in file when it is empty; of
/// the part `shard` ("2/8"), or all when it is empty. Each comes once. Errors: unsupported, for operations that no
/// sweep runs.
[[nodiscard]] Result<BenchProblems> load_problems(RowChoice operation, const std::string& path, std::string_view tier,
                                                  std::string_view shard);

/// How long one candidate may take on one problem of the tier, as the same file says.
[[nodiscard]] Result<std::chrono::milliseconds> time_limit(RowChoice operation, const std::string& path,
                                                           std::string_view tier);

template <class Op>
struct BenchOperation;

template <>
struct BenchOperation<AttentionFwd> {
  /// The problem that is planned and measured: with what follows from the usual call on dense tensors.
  [[nodiscard]] static AttentionProblem measured(const AttentionProblem& problem);
  /// The recipe that Case::prepare runs, if it runs one.
  [[nodiscard]] static std::optional<Recipe> preparing(const Backend&, const AttentionProblem&) { return std::nullopt; }
  /// The type whose product instructions set the roofline.
  [[nodiscard]] static DataType product_type(const AttentionProblem& problem) { return problem.data_type; }
  [[nodiscard]] static Result<std::vector<AttentionProblem>> load(const std::string& path, std::string_view tier,
                                                                  Shard part);
  [[nodiscard]] static Result<int> timeout_s(const std::string& path, std::string_view tier);
};

template <>
struct BenchOperation<AttentionBwd> {
  [[nodiscard]] static AttentionBackwardProblem measured(const AttentionBackwardProblem& problem);
  [[nodiscard]] static std::optional<Recipe> preparing(const Backend&, const AttentionBackwardProblem&) {
    return std::nullopt;
  }
  [[nodiscard]] static DataType product_type(const AttentionBackwardProblem& problem) { return problem.data_type; }
  /// The backward of attention forward's shapes: those of problems that have one.
  [[nodiscard]] static Result<std::vector<AttentionBackwardProblem>> load(const std::string& path,
                                                                          std::string_view tier, Shard part);
  [[nodiscard]] static Result<int> timeout_s(const std::string& path, std::string_view tier);
};

template <>
struct BenchOperation<Gemm> {
  [[nodiscard]] static GemmProblem measured(const GemmProblem& problem);
  [[nodiscard]] static std::optional<Recipe> preparing(const Backend& backend, const GemmProblem& problem);
  [[nodiscard]] static DataType product_type(const GemmProblem& problem) { return problem.type_a; }
  [[nodiscard]] static Result<std::vector<GemmProblem>> load(const std::string& path, std::string_view tier,
                                                             Shard part);
  [[nodiscard]] static Result<int> timeout_s(const std::string& path, std::string_view tier);
};

template <>
struct BenchOperation<Conv> {
  [[nodiscard]] static ConvProblem measured(const ConvProblem& problem);
  [[nodiscard]] static std::optional<Recipe> preparing(const Backend& backend, const ConvProblem& problem);
  [[nodiscard]] static DataType product_type(const ConvProblem& problem) { return problem.data_type; }
  /// The lines of a tier's built-in file.
  [[nodiscard]] static Result<std::vector<ConvProblem>> load(const std::string& path, std::string_view tier,
                                                             Shard part);
  [[nodiscard]] static Result<int> timeout_s(const std::string& path, std::string_view tier);
};

}  // namespace tilesmith
