#include "verify/attention/float64.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

#include "base/parallel.hpp"
#include "verify/product64.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kRows = kProductRows;  // query rows of a task
constexpr std::int64_t kKeys = 64;            // keys of a tile

// One task: kRows query rows of one head of one sequence.
class RowBlock {
 public:
  RowBlock(const AttentionTensors& tensors, Float64Attention& result, std::int64_t b, std::int64_t h, std::int64_t i0)
      : tensors_(tensors),
        result_(result),
        sequence_(sequence_of(tensors, b)),
        b_(b),
        h_(h),
        i0_(i0),
        rows_(std::min(kRows, sequence_.seqlen_q - i0)) {
    first_ = sequence_.seqlen_k;
    for (std::int64_t r = 0; r < rows_; ++r) {
      const auto [first, last] = visible_keys(tensors_, sequence_, i0_ + r);
      if (first >= last) continue;
      first_ = std::min(first_, first);
      last_ = std::max(last_, last);
    }
    first_ = std::min(first_, last_);
    stride_ = (last_ - first_ + kKeys - 1) / kKeys * kKeys;
    weights_.assign(static_cast<std::size_t>(kRows * stride_), 0.0);
  }

  void run() {
    compute_products();
    for (std::int64_t r = 0; r < rows_; ++r) softmax(r);
    combine();
  }

 private:
  /// The row that begins at `offset`.
  void load_row(const TensorView& view, std::int64_t offset, double scale, std::span<double> to) const {
    const std::byte* source =
        static_cast<const std::byte*>(view.data) + offset * static_cast<std::int64_t>(size_of(view.type));
    if (view.strides.column == 1)
      load_elements(view.type, source, to);
    else
      for (std::size_t c = 0; c < to.size(); ++c)
        to[c] = load_element(view.type, source, c * static_cast<std::size_t>(view.strides.column));
    if (scale == 1) return;
    for (double& x : to) x *= scale;
  }
  void load_query(std::int64_t i, std::span<double> to) const {
    load_row(tensors_.q, query_offset(tensors_, tensors_.q, b_, h_, i), tensors_.q.scale.at(b_, h_, i), to);
  }
  void load_key(const TensorView& view, std::int64_t j, std::span<double> to) const {
    load_row(view, key_offset(tensors_, view, b_, kv_head(), j), key_scale(tensors_, view, b_, kv_head(), j), to);
  }
  std::int64_t kv_head() const { return h_ / (tensors_.heads_q / tensors_.heads_kv); }

  // weights_[r][j - first_] = q_r . k_j for every key the block touches.
  void compute_products() {
    const std::int64_t depth = tensors_.head_dim_qk;
    std::vector<double> q(static_cast<std::size_t>(kRows * depth));
    std::vector<double> q_norm(kRows);
    for (std::int64_t r = 0; r < rows_; ++r) {
      const std::span row(q.data() + r * depth, static_cast<std::size_t>(depth));
      load_query(i0_ + r, row);
      q_norm[static_cast<std::size_t>(r)] = norm(row);
    }
    std::vector<double> row(static_cast<std::size_t>(depth));
    std::vector<double> transposed(static_cast<std::size_t>(depth * kKeys));
    std::vector<double> products(kRows * kKeys);
    double k_norm = 0;
    for (std::int64_t j0 = first_; j0 < last_; j0 += kKeys) {
      const std::int64_t keys = std::min(kKeys, last_ - j0);
      std::fill(transposed.begin(), transposed.end(), 0.0);
      for (std::int64_t j = 0; j < keys; ++j) {
        load_key(tensors_.k, j0 + j, row);
        k_norm = std::max(k_norm, norm(row));
        for (std::int64_t d = 0; d < depth; ++d)
          transposed[static_cast<std::size_t>(d * kKeys + j)] = row[static_cast<std::size_t>(d)];
      }
      std::fill(products.begin(), products.end(), 0.0);
      multiply_add64(q.data(), depth, transposed.data(), products.data(), depth, kKeys);
      for (std::int64_t r = 0; r < rows_; ++r)
        std::copy_n(products.begin() + r * kKeys, keys, weights_.begin() + r * stride_ + j0 - first_);
    }
    for (std::int64_t r = 0; r < rows_; ++r)
      magnitude_[r] = std::abs(static_cast<double>(tensors_.scale)) * q_norm[static_cast<std::size_t>(r)] * k_norm;
  }

  static double norm(std::span<const double> row) {
    double sum = 0;
    for (const double x : row) sum += x * x;
    return std::sqrt(sum);
  }

  double logit(std::int64_t i, std::int64_t j, double product) const {
    double s = static_cast<double>(tensors_.scale) * product;
    const double soft_cap = static_cast<double>(tensors_.soft_cap);
    if (soft_cap != 0) s = soft_cap * std::tanh(s / soft_cap);
    if (tensors_.bias != nullptr) {
      const TensorStrides& strides = tensors_.bias_strides;
      s += static_cast<double>(
          tensors_.bias[b_ * strides.batch + h_ * strides.head + i * strides.row + j * strides.column]);
    }
    if (tensors_.alibi != nullptr) {
      const double slope = static_cast<double>(tensors_.alibi[b_ * tensors_.alibi_batch_stride + h_]);
      const std::int64_t offset = sequence_.diagonal_offset(tensors_.mask_bottom_right);
      s -= slope * static_cast<double>(std::abs(i + offset - j));
    }
    // Where float32 has no fraction, logits of padding are equal that are not for a float64: their row is a mean.
    return std::abs(s) < 0x1p23 ? s : static_cast<double>(static_cast<float>(s));
  }

  // Turns the products of row r into the weights of the values, and gives its lse.
  void softmax(std::int64_t r) {
    constexpr double kNothing = -std::numeric_limits<double>::infinity();
    const std::int64_t i = i0_ + r;
    auto [first, last] = visible_keys(tensors_, sequence_, i);
    first = std::clamp(first, first_, last_);  // moves only the bounds of rows that see nothing
    last = std::clamp(last, first, last_);
    double* weights = weights_.data() + r * stride_ - first_;
    const double sink = tensors_.sink != nullptr ? static_cast<double>(tensors_.sink[h_]) : kNothing;
    double maximum = sink;
    double largest = 0;
    for (std::int64_t j = first; j < last; ++j) {
      weights[j] = logit(i, j, weights[j]);
      maximum = std::max(maximum, weights[j]);
      if (std::isfinite(weights[j])) largest = std::max(largest, std::abs(weights[j]));
    }
    const std::size_t row = static_cast<std::size_t>(output_row(tensors_, b_, h_, i));
    result_.magnitude[row] = static_cast<float>(magnitude_[r] + largest);
    std::fill(weights + first_, weights + first, 0.0);
    std::fill(weights + last, weights + first_ + stride_, 0.0);
    if (maximum == kNothing) {  // nothing visible, or nothing with any weight
      std::fill(weights + first_, weights + first_ + stride_, 0.0);
      result_.lse[row] = kNothing;
      return;
    }
    double sum = sink == kNothing ? 0.0 : std::exp(sink - maximum);
    for (std::int64_t j = first; j < last; ++j) {
      weights[j] = std::exp(weights[j] - maximum);
      sum += weights[j];
    }
    result_.lse[row] = std::log(sum) + maximum;
    const double kept = 1.0 / (sum * (1.0 - tensors_.drop_threshold / 65536.0));
    for (std::int64_t j = first; j < last; ++j) weights[j] *= kept;
    smallest_normal_[r] = has_fp16_weights() ? kept * 0x1p-14 : 0;
    if (tensors_.drop_threshold != 0)
      for (std::int64_t j = first; j < last; ++j)
        if (!keeps(tensors_, b_, h_, i, j)) weights[j] = 0;
  }

  // Values of 8 bits are exact in fp16, so that kernels take them as such beside queries of bf16 too.
  [[nodiscard]] bool has_fp16_weights() const {
    const bool narrow = tensors_.v.type == ElementType::fp8e4m3 || tensors_.v.type == ElementType::int8;
    return tensors_.q.type == ElementType::fp16 || (tensors_.q.type == ElementType::bf16 && narrow);
  }

  // A weight that is subnormal in fp16, where a row's largest one is 1 before it is normalised, is rounded as coarsely
  // as the smallest normal number. (Of the other types none is subnormal, or the bound does not use the spread.)
  [[nodiscard]] double square_for_spread(std::int64_t r, double weight) const {
    if (weight == 0) return 0;
    const double rounded_as = std::max(weight, smallest_normal_[r]);
    return rounded_as * rounded_as;
  }

  // o = weights v, and the spread of its terms.
  void combine() {
    const std::int64_t width = tensors_.head_dim_v;
    const std::int64_t columns = padded_columns(width);
    std::vector<double> values(static_cast<std::size_t>(kKeys * columns));
    std::vector<double> o(static_cast<std::size_t>(kRows * columns));
    std::vector<double> spread(o.size());
    std::vector<double> squared_weights(kRows * kKeys);
    for (std::int64_t j0 = first_; j0 < last_; j0 += kKeys) {
      const std::int64_t keys = std::min(kKeys, last_ - j0);
      for (std::int64_t j = 0; j < keys; ++j)
        load_key(tensors_.v, j0 + j, std::span(values.data() + j * columns, static_cast<std::size_t>(width)));
      const double* weights = weights_.data() + j0 - first_;
      multiply_add64(weights, stride_, values.data(), o.data(), keys, columns);
      for (double& value : values) value *= value;
      for (std::int64_t r = 0; r < kRows; ++r)
        for (std::int64_t j = 0; j < keys; ++j)
          squared_weights[static_cast<std::size_t>(r * kKeys + j)] = square_for_spread(r, weights[r * stride_ + j]);
      multiply_add64(squared_weights.data(), kKeys, values.data(), spread.data(), keys, columns);
    }
    for (std::int64_t r = 0; r < rows_; ++r) {
      const std::int64_t start = output_row(tensors_, b_, h_, i0_ + r) * width;
      for (std::int64_t c = 0; c < width; ++c) {
        const auto from = static_cast<std::size_t>(r * columns + c);
        const auto to = static_cast<std::size_t>(start + c);
        result_.o[to] = o[from];
        result_.spread[to] = static_cast<float>(std::sqrt(spread[from]));
      }
    }
  }

  const AttentionTensors& tensors_;
  Float64Attention& result_;
  SequenceSpan sequence_;
  std::int64_t b_, h_, i0_, rows_;
  std::int64_t first_ = 0, last_ = 0;  // the keys any row of the block sees
  std::int64_t stride_ = 0;
  std::vector<double> weights_;
  double magnitude_[kRows] = {};
  double smallest_normal_[kRows] = {};
};

}  // namespace

Result<Float64Attention> float64_attention(const AttentionTensors& tensors, unsigned threads) {
  TS_TRY(check_tensors(tensors));
  const auto rows = static_cast<std::size_t>(output_rows(tensors));
  const auto elements = rows * static_cast<std::size_t>(tensors.head_dim_v);
  Float64Attention result;
  try {
    result.o.resize(elements);
    result.spread.resize(elements);
    result.lse.resize(rows);
    result.magnitude.resize(rows);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "no memory for the reference result");
  }
  const std::int64_t blocks = (tensors.seqlen_q + kRows - 1) / kRows;
  const std::int64_t tasks = tensors.batch * tensors.heads_q * blocks;
  parallel_for(static_cast<std::size_t>(tasks), threads, [&](std::size_t task) {
    const auto index = static_cast<std::int64_t>(task);
    const std::int64_t b = index / blocks / tensors.heads_q;
    const std::int64_t i0 = index % blocks * kRows;
    if (i0 < sequence_of(tensors, b).seqlen_q) RowBlock(tensors, result, b, index / blocks % tensors.heads_q, i0).run();
  });
  return result;
}

}  // namespace tilesmith
