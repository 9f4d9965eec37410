// The operations, one row each: its name, its problem, the arguments of a call, and the signature its kernels have.
//
// A station that does something for every operation declares a template over a row and specialises it once for each
// (a reference, a case, options of the command line). Whatever holds all operations (variants of problems, plan caches,
// verbs) is made from the tuple below, so a row that lacks a specialisation does not compile.
#pragma once

#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>

#include "tilesmith/attention.hpp"
#include "tilesmith/gemm.hpp"
#include "vocabulary/signature.hpp"

namespace tilesmith {

struct AttentionFwd {
  using Problem = AttentionProblem;
  using Arguments = AttentionArguments;
  static constexpr std::string_view kName = "attention_fwd";
  static constexpr Operation kKernels = Operation::attention;
};

struct Gemm {
  using Problem = GemmProblem;
  using Arguments = GemmArguments;
  static constexpr std::string_view kName = "gemm";
  static constexpr Operation kKernels = Operation::gemm;
};

/// Every operation that runs.
using Operations = std::tuple<AttentionFwd, Gemm>;

namespace detail {
template <class Tuple>
struct OperationList;
template <class... Ops>
struct OperationList<std::tuple<Ops...>> {
  using AnyProblem = std::variant<typename Ops::Problem...>;
  template <class Visit>
  static constexpr void for_each(Visit&& visit) {
    (visit(Ops{}), ...);
  }
};
}  // namespace detail

/// A problem of any operation.
using AnyProblem = detail::OperationList<Operations>::AnyProblem;

/// The row that a problem belongs to.
template <class Problem>
struct OperationOf;
template <>
struct OperationOf<AttentionProblem> : std::type_identity<AttentionFwd> {};
template <>
struct OperationOf<GemmProblem> : std::type_identity<Gemm> {};

/// Calls visit(Op{}) for every row, in order.
template <class Visit>
constexpr void for_each_operation(Visit&& visit) {
  detail::OperationList<Operations>::for_each(visit);
}

}  // namespace tilesmith
