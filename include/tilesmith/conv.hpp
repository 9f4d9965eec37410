// Grouped convolution in one to three spatial dimensions: the problem (what decides which kernel runs) and the
// arguments of one call (pointers and strides).
//
// x has `batch` images of `groups * c` channels and in_d x in_h x in_w pixels, w has `groups * k` filters of c channels
// and filter_d x filter_h x filter_w taps, y has `batch` images of `groups * k` channels and out() pixels. With pixels
// o of y and i of x, and taps t, in each coordinate
//
//   o and t meet i = o * stride + t * dilation - pad, where that lies inside x
//
//   forward           y[n][g][k][o] = epilogue(sum over t and c of x[n][g][c][i] * w[g][k][c][t])
//   backward_data     x[n][g][c][i] = epilogue(sum over o, t that meet i, and k, of y[n][g][k][o] * w[g][k][c][t])
//   backward_weight   w[g][k][c][t] = sum over n and o of x[n][g][c][i] * y[n][g][k][o]
//
// So a filter is not turned (what frameworks call convolution is cross-correlation), and pixels outside x are zeros.
// Backward data computes the gradient of x from that of y; it is also the transposed convolution, whose input is y.
//
// One and two dimensions leave the outer coordinates at their defaults. groups of c = 1 (and any k) are a depthwise
// convolution. Sums are fp32, of products of the elements as they are; of int8 they are int32, modulo 2^32, and become
// fp32. The epilogue (gemm_epilogue.hpp) is computed in fp32 and rounded once, an int8 result to the nearest number of
// its range: bias and scale_n have groups * k elements (backward data: groups * c), add and multiply read a tensor of
// the result's type and sizes. The scales of 8-bit tensors are a scale_n: that of x times those of w.
//
// A batch of 0 computes nothing forward and in backward data; the gradient of w is then zeros.
//
// Packed w: with `packed_w`, w is a buffer that Dispatcher::pack_w made of filters, so that calls do not pack them
// anew.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tilesmith/error.hpp"
#include "tilesmith/export.hpp"
#include "tilesmith/gemm_epilogue.hpp"
#include "tilesmith/types.hpp"

namespace tilesmith {

/// Three coordinates, outer to inner: depth, height, width.
using ConvSpatial = std::array<std::int64_t, 3>;

/// Everything a plan depends on.
struct ConvProblem {
  ConvDirection direction = ConvDirection::forward;
  /// Of the two tensors that are read: fp32, fp16 or bf16; forward also fp8 and int8.
  DataType data_type = DataType::bf16;
  /// Of the result and of the epilogue's tensors: data_type or fp32; of 8 bits fp32, fp16 or bf16, of int8 also int8.
  DataType type_out = DataType::bf16;
  DataType type_bias = DataType::bf16;  ///< fp32, fp16 or bf16
  std::int64_t batch = 1;
  std::int64_t groups = 1;
  std::int64_t c = 1;  ///< channels of x in a group
  std::int64_t k = 1;  ///< channels of y in a group
  std::int64_t in_d = 1;
  std::int64_t in_h = 1;
  std::int64_t in_w = 1;
  std::int64_t filter_d = 1;
  std::int64_t filter_h = 1;
  std::int64_t filter_w = 1;
  std::int64_t stride_d = 1;
  std::int64_t stride_h = 1;
  std::int64_t stride_w = 1;
  std::int64_t dilation_d = 1;
  std::int64_t dilation_h = 1;
  std::int64_t dilation_w = 1;
  std::int64_t pad_d = 0;  ///< pixels of zeros before the first
  std::int64_t pad_h = 0;
  std::int64_t pad_w = 0;
  std::int64_t pad_high_d = 0;  ///< pixels of zeros behind the last
  std::int64_t pad_high_h = 0;
  std::int64_t pad_high_w = 0;
  /// The channels, or the groups, of a tensor are not neighbours; or its pixels (of w, taps) are not evenly apart, by a
  /// multiple of 16 bytes where the channels are one (of 8, 4 or 2 where these are); or a pointer, or the step from
  /// filter to filter, is no such multiple. A plan for the CPU has room in its workspace for copies whose channels are
  /// neighbours; one of a problem that is not unaligned gathers channels that are apart, which takes longer.
  bool unaligned = false;
  bool packed_w = false;    ///< w is what Dispatcher::pack_w made of filters; CPU, forward and backward data
  GemmEpilogue epilogue{};  ///< forward and backward data: all but bias_m, scale_m, gates and amax

  [[nodiscard]] ConvSpatial in() const { return {in_d, in_h, in_w}; }
  [[nodiscard]] ConvSpatial filter() const { return {filter_d, filter_h, filter_w}; }
  [[nodiscard]] ConvSpatial stride() const { return {stride_d, stride_h, stride_w}; }
  [[nodiscard]] ConvSpatial dilation() const { return {dilation_d, dilation_h, dilation_w}; }
  [[nodiscard]] ConvSpatial pad() const { return {pad_d, pad_h, pad_w}; }
  [[nodiscard]] ConvSpatial pad_high() const { return {pad_high_d, pad_high_h, pad_high_w}; }
  /// Pixels of y: (in + pad + pad_high - dilation (filter - 1) - 1) / stride + 1, rounded down; of a valid problem.
  [[nodiscard]] ConvSpatial out() const {
    ConvSpatial size{};
    for (std::size_t d = 0; d < size.size(); ++d)
      size[d] = (in()[d] + pad()[d] + pad_high()[d] - dilation()[d] * (filter()[d] - 1) - 1) / stride()[d] + 1;
    return size;
  }

  friend bool operator==(const ConvProblem&, const ConvProblem&) = default;

  /// Calls visit(name, field) for every field in order: hashes, identities, JSON, CSV and command lines come from here.
  template <class Self, class Visitor>
  static constexpr void fields(Self& self, Visitor&& visit) {
    visit("direction", self.direction);
    visit("data_type", self.data_type);
    visit("type_out", self.type_out);
    visit("type_bias", self.type_bias);
    visit("batch", self.batch);
    visit("groups", self.groups);
    visit("c", self.c);
    visit("k", self.k);
    visit("in_d", self.in_d);
    visit("in_h", self.in_h);
    visit("in_w", self.in_w);
    visit("filter_d", self.filter_d);
    visit("filter_h", self.filter_h);
    visit("filter_w", self.filter_w);
    visit("stride_d", self.stride_d);
    visit("stride_h", self.stride_h);
    visit("stride_w", self.stride_w);
    visit("dilation_d", self.dilation_d);
    visit("dilation_h", self.dilation_h);
    visit("dilation_w", self.dilation_w);
    visit("pad_d", self.pad_d);
    visit("pad_h", self.pad_h);
    visit("pad_w", self.pad_w);
    visit("pad_high_d", self.pad_high_d);
    visit("pad_high_h", self.pad_high_h);
    visit("pad_high_w", self.pad_high_w);
    visit("unaligned", self.unaligned);
    visit("packed_w", self.packed_w);
    visit("epilogue", self.epilogue);
  }
};

/// What is wrong with the problem, or success. The message has the offending figures, the hint what would be right.
[[nodiscard]] TILESMITH_API Status validate(const ConvProblem& problem);

/// Element (n, g, c, pixel) of a tensor is at index n * batch + g * group + c * channel + the sum of pixel[i] *
/// spatial[i]. Of w, `batch` is the step between the k filters of a group. The stride of an only member is not read. Of
/// a packed w `batch` is the buffer's bytes, 0 where they are not known, and no other stride is read.
struct ConvStrides {
  std::int64_t batch = 0, group = 0, channel = 0;
  ConvSpatial spatial{};
};

/// What one operation of the epilogue reads.
struct ConvOperand {
  const void* data = nullptr;  ///< bias, scale_n: elements behind one another; add, multiply: a tensor
  ConvStrides strides{};       ///< of a tensor; 0 shares it along a dimension
  float low = 0;               ///< of clamp
  float high = 0;
};

/// The result overlaps nothing that is read, but for a tensor of the epilogue, element for element.
struct ConvArguments {
  const void* x = nullptr;  ///< of the three the result is null
  const void* w = nullptr;
  const void* y = nullptr;
  void* out = nullptr;  ///< the result: y, x or w, as the direction says, with that tensor's strides
  ConvStrides x_strides, w_strides, y_strides;
  std::array<ConvOperand, GemmEpilogue::kMax> epilogue{};  ///< in the order of the problem's
};

/// The order of dimensions. channels_last: (n, d, h, w, channels) and (filters, d, h, w, c). channels_first: (n,
/// channels, d, h, w) and (filters, c, d, h, w). Channels are group by group.
enum class ConvLayout : std::uint8_t { channels_last, channels_first };

/// Strides of dense tensors in this layout, those of the epilogue too. A packed w has none.
[[nodiscard]] TILESMITH_API ConvArguments dense_arguments(const ConvProblem& problem, ConvLayout layout);

}  // namespace tilesmith
