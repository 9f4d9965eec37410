// The reference of a convolution: one output, "out": y, x or w, as the direction says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "verify/conv/float64.hpp"
#include "verify/reference.hpp"
#include "verify/tolerance.hpp"

namespace tilesmith {

class ConvReference final : public Reference {
 public:
  /// What `tensors` point to must outlive the reference. threads = 0: as many as the machine has.
  [[nodiscard]] static Result<ConvReference> make(ConvTensors tensors, ElementType output_type, unsigned threads = 0);

  [[nodiscard]] const Float64Conv& float64() const { return float64_; }

 protected:
  [[nodiscard]] std::vector<ReferenceTensor> tensors() const override;
  [[nodiscard]] bool check_guards(const OutputValues& output, Verdict& verdict) const override;
  [[nodiscard]] bool check_bounds(const OutputValues& output, Verdict& verdict) const override;
  [[nodiscard]] std::string position(std::string_view output, std::size_t element) const override;

 private:
  ConvReference(ConvTensors tensors, ElementType output_type, const GemmTolerance& tolerance)
      : tensors_(std::move(tensors)), output_type_(output_type), tolerance_(tolerance) {}

  /// The result that is right: of int8 the nearest that the type has.
  [[nodiscard]] double wanted(std::size_t element) const;
  [[nodiscard]] double limit_of(std::size_t element) const;

  ConvTensors tensors_;
  ElementType output_type_;
  GemmTolerance tolerance_;
  Float64Conv float64_;
};

}  // namespace tilesmith
