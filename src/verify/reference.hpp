// Reference: what the outputs of a problem should be. It holds the float64 result and the errors of the naive
// computation, is made once for a problem, and judges the results of any number of kernels.
//
// An operation derives a class that lists its tensors and knows their bounds. Error figures, sizes, the order of the
// checks and the verdict are the same for all operations.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verify/compare.hpp"
#include "verify/output.hpp"

namespace tilesmith {

/// The reference of one output.
struct ReferenceTensor {
  std::string_view name;
  ElementType type = ElementType::fp32;  ///< of the output
  std::span<const double> values;        ///< in read_output's order, not rounded
  ErrorFigures naive{};                  ///< of the naive computation; count 0: there is none of this output
};

class Reference {
 public:
  Reference(Reference&&) noexcept = default;
  Reference& operator=(Reference&&) noexcept = default;
  virtual ~Reference() = default;

  /// Judges outputs in their order: error figures of all of them, then checks until one fails. An output that the call
  /// did not ask for may be left out.
  [[nodiscard]] virtual Verdict judge(std::span<const OutputValues> outputs) const;

 protected:
  Reference() = default;

  [[nodiscard]] virtual std::vector<ReferenceTensor> tensors() const = 0;
  /// Check G. False when the other checks make no sense any more: it failed, or these inputs prove nothing.
  [[nodiscard]] virtual bool check_guards(const OutputValues& output, Verdict& verdict) const = 0;
  /// Checks B, R and N, or those in their place.
  [[nodiscard]] virtual bool check_bounds(const OutputValues& output, Verdict& verdict) const = 0;
  /// Where an element stands, for people: "[row 3, column 7]".
  [[nodiscard]] virtual std::string position(std::string_view output, std::size_t element) const = 0;

 private:
  [[nodiscard]] bool check(const OutputValues& output, const ReferenceTensor& reference, Verdict& verdict) const;
};

}  // namespace tilesmith
