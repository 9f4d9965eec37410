// What happens to a GEMM's products on their way to D: a list of operations, done in its order in fp32.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace tilesmith {

/// v is the value at row i and column j. Vectors are shared by the batch, unless its members are
/// groups; scales are fp32.
enum class EpilogueOp : std::uint8_t {
  none,      ///< never in a list
  bias,      ///< v += bias[j]
  bias_m,    ///< v += bias[i]
  scale_n,   ///< v *= scale[j]
  scale_m,   ///< v *= scale[i]
  add,       ///< v += tensor[i][j]
  multiply,  ///< v *= tensor[i][j]
  relu,
  gelu,       ///< v (1 + erf(v / sqrt 2)) / 2
  gelu_tanh,  ///< v (1 + tanh(sqrt(2 / pi) (v + 0.044715 v^3))) / 2
  silu,       ///< v sigmoid(v)
  sigmoid,
  tanh,
  clamp,  ///< limited to low .. high; NaN stays NaN
  // Gates (Shazeer 2020, arXiv:2002.05202) join columns 2 j and 2 j + 1 into column j: f(v[2 j]) v[2 j + 1]. What
  // follows one sees n / 2 columns.
  glu,         ///< f = sigmoid
  reglu,       ///< f = relu
  geglu,       ///< f = gelu
  geglu_tanh,  ///< f = gelu_tanh
  swiglu,      ///< f = silu
  amax,        ///< *amax = max(*amax, |v|) over the whole call, of the values before they are rounded; last
};

[[nodiscard]] constexpr bool is_gate(EpilogueOp op) {
  return op >= EpilogueOp::glu && op <= EpilogueOp::swiglu;
}
/// Reads a vector along n or m.
[[nodiscard]] constexpr bool reads_vector(EpilogueOp op) {
  return op >= EpilogueOp::bias && op <= EpilogueOp::scale_m;
}
/// Reads a tensor of D's shape.
[[nodiscard]] constexpr bool reads_tensor(EpilogueOp op) {
  return op == EpilogueOp::add || op == EpilogueOp::multiply;
}

/// Up to eight operations.
class GemmEpilogue {
 public:
  using value_type = EpilogueOp;
  static constexpr std::size_t kMax = 8;

  constexpr GemmEpilogue() = default;
  /// What is beyond kMax is left out: see push_back.
  constexpr GemmEpilogue(std::initializer_list<EpilogueOp> ops) {
    for (const EpilogueOp op : ops) push_back(op);
  }

  /// False, and nothing done, when the list is full or the operation is `none`.
  constexpr bool push_back(EpilogueOp op) {
    const std::size_t at = size();
    if (at == kMax || op == EpilogueOp::none) return false;
    ops_[at] = op;
    return true;
  }

  [[nodiscard]] constexpr std::size_t size() const {
    std::size_t count = 0;
    while (count < kMax && ops_[count] != EpilogueOp::none) ++count;
    return count;
  }
  [[nodiscard]] constexpr bool empty() const { return ops_[0] == EpilogueOp::none; }
  [[nodiscard]] constexpr EpilogueOp operator[](std::size_t i) const { return ops_[i]; }
  [[nodiscard]] constexpr const EpilogueOp* begin() const { return ops_.data(); }
  [[nodiscard]] constexpr const EpilogueOp* end() const { return ops_.data() + size(); }

  [[nodiscard]] constexpr bool gated() const {
    for (const EpilogueOp op : *this)
      if (is_gate(op)) return true;
    return false;
  }

  friend constexpr bool operator==(const GemmEpilogue&, const GemmEpilogue&) = default;

 private:
  std::array<EpilogueOp, kMax> ops_{};  // `none` from the end of the list on
};

}  // namespace tilesmith
