// The reference of an attention-backward problem: outputs "dq", "dk", "dv" and, where they are wanted, "dbias",
// "dalibi" and "dsink".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "verify/attention_backward/float64.hpp"
#include "verify/reference.hpp"
#include "verify/tolerance.hpp"

namespace tilesmith {

class AttentionBackwardReference final : public Reference {
 public:
  /// What the tensors point to must outlive the reference. threads = 0: as many as the machine has.
  [[nodiscard]] static Result<AttentionBackwardReference> make(const AttentionBackwardTensors& tensors,
                                                               unsigned threads = 0);

  [[nodiscard]] const Float64AttentionBackward& float64() const { return float64_; }

 protected:
  [[nodiscard]] std::vector<ReferenceTensor> tensors() const override;
  [[nodiscard]] bool check_guards(const OutputValues& output, Verdict& verdict) const override;
  [[nodiscard]] bool check_bounds(const OutputValues& output, Verdict& verdict) const override;
  [[nodiscard]] std::string position(std::string_view output, std::size_t element) const override;

 private:
  AttentionBackwardReference(const AttentionBackwardTensors& tensors, const AttentionTolerance& tolerance)
      : tensors_(tensors), type_(tensors.forward.q.type), tolerance_(tolerance) {}

  [[nodiscard]] const Gradient64& gradient(std::string_view output) const;
  [[nodiscard]] ElementType type_of(std::string_view output) const;
  [[nodiscard]] std::size_t columns_of(std::string_view output) const;
  [[nodiscard]] bool check_norm_wise(const OutputValues& output, Verdict& verdict) const;

  AttentionBackwardTensors tensors_;
  ElementType type_;
  AttentionTolerance tolerance_;
  Float64AttentionBackward float64_;
};

}  // namespace tilesmith
