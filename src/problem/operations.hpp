// The operations, one row each: its name, its problem, the arguments of a call, the numbers of a call on random inputs,
// and the signature its kernels have.
//
// A station that does something for every operation declares a template over a row and specialises it once for each (a
// reference, a case, options of the command line). Whatever holds all operations (variants of problems, plan caches,
// verbs) is made from the tuple below, so a row that lacks a specialisation does not compile.
#pragma once

#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>

#include "problem/attention/numbers.hpp"
#include "problem/conv/numbers.hpp"
#include "problem/fields.hpp"
#include "problem/gemm/numbers.hpp"
#include "tilesmith/attention.hpp"
#include "tilesmith/attention_backward.hpp"
#include "tilesmith/conv.hpp"
#include "tilesmith/gemm.hpp"
#include "vocabulary/signature.hpp"

namespace tilesmith {

struct AttentionFwd {
  using Problem = AttentionProblem;
  using Arguments = AttentionArguments;
  using Numbers = AttentionNumbers;
  static constexpr std::string_view kName = "attention_fwd";
  static constexpr std::string_view kAbout = "Attention forward: softmax(scale q k^T + bias) v";
  static constexpr Operation kKernels = Operation::attention;
};

struct Gemm {
  using Problem = GemmProblem;
  using Arguments = GemmArguments;
  using Numbers = GemmNumbers;
  static constexpr std::string_view kName = "gemm";
  static constexpr std::string_view kAbout = "D = epilogue(alpha op(A) op(B) + beta C)";
  static constexpr Operation kKernels = Operation::gemm;
};

struct AttentionBwd {
  using Problem = AttentionBackwardProblem;
  using Arguments = AttentionBackwardArguments;
  using Numbers = AttentionNumbers;
  static constexpr std::string_view kName = "attention_bwd";
  static constexpr std::string_view kAbout = "Attention backward: gradients by q, k, v, the bias, slopes and sinks";
  static constexpr Operation kKernels = Operation::attention;
};

struct Conv {
  using Problem = ConvProblem;
  using Arguments = ConvArguments;
  using Numbers = ConvNumbers;
  static constexpr std::string_view kName = "conv";
  static constexpr std::string_view kAbout =
      "Grouped convolution: forward, backward data (transposed), backward weight";
  static constexpr Operation kKernels = Operation::conv;
};

/// Every operation that runs.
using Operations = std::tuple<AttentionFwd, Gemm, AttentionBwd, Conv>;

namespace detail {
template <class Tuple>
struct OperationList;
template <class... Ops>
struct OperationList<std::tuple<Ops...>> {
  static_assert((lists_every_field<typename Ops::Problem> && ...), "a problem's `fields` lacks a member");
  using AnyProblem = std::variant<typename Ops::Problem...>;
  template <template <class> class Of>
  using VariantOf = std::variant<Of<Ops>...>;
  template <class Visit>
  static constexpr void for_each(Visit&& visit) {
    (visit(Ops{}), ...);
  }
  template <class Visit>
  static constexpr bool any_of(Visit&& visit) {
    return (visit(Ops{}) || ...);
  }
};

/// The row of a tuple with this problem; none where the type is no problem.
template <class Problem, class Tuple>
struct RowOf {};
template <class Problem, class First, class... Rest>
struct RowOf<Problem, std::tuple<First, Rest...>>
    : std::conditional_t<std::is_same_v<Problem, typename First::Problem>, std::type_identity<First>,
                         RowOf<Problem, std::tuple<Rest...>>> {};
}  // namespace detail

/// A problem of any operation.
using AnyProblem = detail::OperationList<Operations>::AnyProblem;

/// std::variant<Of<Op>...> of every row: a specialisation that is missing does not compile.
template <template <class> class Of>
using VariantOfOperations = detail::OperationList<Operations>::VariantOf<Of>;

/// The row that a problem belongs to.
template <class Problem>
struct OperationOf : detail::RowOf<Problem, Operations> {};

/// A problem of one of the rows.
template <class T>
concept OperationProblem = requires {
  typename OperationOf<T>::type;
};

/// "gemm": what the problem is called on command lines and in results.
[[nodiscard]] constexpr std::string_view operation_name_of(const AnyProblem& problem) {
  return std::visit([]<class P>(const P&) { return OperationOf<P>::type::kName; }, problem);
}

/// Calls visit(Op{}) for every row, in order.
template <class Visit>
constexpr void for_each_operation(Visit&& visit) {
  detail::OperationList<Operations>::for_each(visit);
}

/// Calls visit(Op{}) for the rows in order until it returns true; whether it did.
template <class Visit>
constexpr bool any_operation(Visit&& visit) {
  return detail::OperationList<Operations>::any_of(visit);
}

/// Which row is meant: by its name, or the first whose kernels an operation has. Operations of kernels that no row has
/// are a choice of none.
class RowChoice {
 public:
  constexpr RowChoice() = default;
  constexpr RowChoice(Operation kernels)  // NOLINT(google-explicit-constructor)
      : name_(name_of(kernels)) {
    any_operation([&]<class Op>(Op) {
      if (Op::kKernels != kernels) return false;
      name_ = Op::kName;
      return true;
    });
  }
  template <class Op>
  [[nodiscard]] static constexpr RowChoice of() {
    RowChoice choice;
    choice.name_ = Op::kName;
    return choice;
  }

  template <class Op>
  [[nodiscard]] constexpr bool is() const {
    return name_ == Op::kName;
  }
  [[nodiscard]] constexpr std::string_view name() const { return name_; }

 private:
  std::string_view name_ = std::tuple_element_t<0, Operations>::kName;
};

/// "gemm;m=256;n=512;": the operation and every field that is not at its default. Equal for equal problems alone, and
/// the same text after a field with a default was added. Rows of a bench are known by it.
template <OperationProblem P>
[[nodiscard]] std::string identity_of(const P& problem) {
  return std::string(OperationOf<P>::type::kName) + ";" + differences_from_default(problem);
}
[[nodiscard]] inline std::string identity_of(const AnyProblem& problem) {
  return std::visit([](const auto& each) { return identity_of(each); }, problem);
}

}  // namespace tilesmith
