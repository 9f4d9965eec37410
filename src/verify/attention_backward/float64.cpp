#include "verify/attention_backward/float64.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <span>

#include "base/parallel.hpp"
#include "verify/product64.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kTileRows = kProductRows;  // of queries, and of keys
constexpr double kLostLse = 0x1p23;               // from here on float32 has no fraction, and a row adds nothing
using Matrix = std::vector<double>;

void load_view_row(const TensorView& view, std::int64_t offset, std::int64_t count, double* to) {
  for (std::int64_t c = 0; c < count; ++c)
    to[c] = load_element(view.type, view.data, static_cast<std::size_t>(offset + c * view.strides.column));
}

/// Rows of matrices whose columns are padded for products, and their squares and sizes.
struct Rows64 {
  std::int64_t columns = 0, padded = 0;
  Matrix values, squares, sizes;
  double norms[kTileRows] = {};

  explicit Rows64(std::int64_t count)
      : columns(count),
        padded(padded_columns(count)),
        values(static_cast<std::size_t>(kTileRows * padded)),
        squares(values.size()),
        sizes(values.size()) {}

  void clear() { std::fill(values.begin(), values.end(), 0.0); }
  double* row(std::int64_t r) { return values.data() + r * padded; }
  void finish() {
    for (std::int64_t r = 0; r < kTileRows; ++r) norms[r] = 0;
    for (std::size_t at = 0; at < values.size(); ++at) {
      norms[static_cast<std::int64_t>(at) / padded] += values[at] * values[at];
      squares[at] = values[at] * values[at];
      sizes[at] = std::abs(values[at]);
    }
    for (double& norm : norms) norm = std::sqrt(norm);
  }
};

/// Sums of terms of a tile's rows.
struct Sums64 {
  std::int64_t columns, padded;
  Matrix values, squares, sizes;

  explicit Sums64(std::int64_t count)
      : columns(count),
        padded(padded_columns(count)),
        values(static_cast<std::size_t>(kTileRows * padded)),
        squares(values.size()),
        sizes(values.size()) {}

  /// += weights (kTileRows x kTileRows) times the rows.
  void add(const Matrix& weights, const Matrix& squared, const Matrix& sized, const Rows64& rows) {
    multiply_add64(weights.data(), kTileRows, rows.values.data(), values.data(), kTileRows, padded);
    multiply_add64(squared.data(), kTileRows, rows.squares.data(), squares.data(), kTileRows, padded);
    multiply_add64(sized.data(), kTileRows, rows.sizes.data(), sizes.data(), kTileRows, padded);
  }
  void write(std::int64_t r, std::int64_t row, double factor, Gradient64& to) const {
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto from = static_cast<std::size_t>(r * padded + c);
      const auto at = static_cast<std::size_t>(row * columns + c);
      to.values[at] = factor * values[from];
      to.spread[at] = static_cast<float>(std::abs(factor) * std::sqrt(squares[from]));
      to.total[at] = static_cast<float>(std::abs(factor) * sizes[from]);
    }
  }
};

/// The weights and gradients of a tile of queries and keys, [query][key]: what multiplies do (kept), k and q (dx), and
/// dt; beside dx and dt the sizes of their parts, because their difference cancels.
struct Tile64 {
  Matrix kept, kept_squared, kept_sized, dx, dx_squared, dx_sized, dt, dt_size;
  Tile64() {
    for (Matrix* m : {&kept, &kept_squared, &kept_sized, &dx, &dx_squared, &dx_sized, &dt, &dt_size})
      m->resize(static_cast<std::size_t>(kTileRows * kTileRows));
  }
};

Matrix transposed(const Matrix& from) {
  Matrix to(from.size());
  for (std::int64_t r = 0; r < kTileRows; ++r)
    for (std::int64_t c = 0; c < kTileRows; ++c)
      to[static_cast<std::size_t>(c * kTileRows + r)] = from[static_cast<std::size_t>(r * kTileRows + c)];
  return to;
}

class Worker {
 public:
  explicit Worker(const AttentionBackwardTensors& tensors)
      : all_(tensors),
        t_(tensors.forward),
        q_(t_.head_dim_qk),
        k_(t_.head_dim_qk),
        v_(t_.head_dim_v),
        do_(t_.head_dim_v),
        floor_(t_.q.type == ElementType::fp16 ? 0x1p-14 : 0) {}

  void load_queries(std::int64_t b, std::int64_t h, std::int64_t first) {
    b_ = b;
    h_ = h;
    first_query_ = first;
    sequence_ = sequence_of(t_, b);
    q_.clear();
    do_.clear();
    Matrix o(static_cast<std::size_t>(t_.head_dim_v));
    for (std::int64_t r = 0; r < kTileRows; ++r) {
      const std::int64_t i = first + r;
      lse_[r] = -std::numeric_limits<double>::infinity();
      delta_[r] = 0;
      o_norm_[r] = 0;
      if (i >= sequence_.seqlen_q) continue;
      load_view_row(t_.q, query_offset(t_, t_.q, b, h, i), t_.head_dim_qk, q_.row(r));
      load_view_row(all_.dout, query_offset(t_, all_.dout, b, h, i), t_.head_dim_v, do_.row(r));
      load_view_row(all_.o, query_offset(t_, all_.o, b, h, i), t_.head_dim_v, o.data());
      lse_[r] = static_cast<double>(all_.lse[row_offset(all_.lse_strides, i)]);
      if (std::abs(lse_[r]) >= kLostLse) lse_[r] = -std::numeric_limits<double>::infinity();
      if (std::isinf(lse_[r])) continue;
      for (std::int64_t c = 0; c < t_.head_dim_v; ++c) delta_[r] += o[static_cast<std::size_t>(c)] * do_.row(r)[c];
      if (all_.dlse != nullptr) delta_[r] -= static_cast<double>(all_.dlse[row_offset(all_.dlse_strides, i)]);
      for (const double x : o) o_norm_[r] += x * x;
      o_norm_[r] = std::sqrt(o_norm_[r]);
    }
    q_.finish();
    do_.finish();
  }

  void load_keys(std::int64_t b, std::int64_t head_kv, std::int64_t first) {
    first_key_ = first;
    const SequenceSpan sequence = sequence_of(t_, b);
    k_.clear();
    v_.clear();
    for (std::int64_t r = 0; r < kTileRows && first + r < sequence.seqlen_k; ++r) {
      load_view_row(t_.k, key_offset(t_, t_.k, b, head_kv, first + r), t_.head_dim_qk, k_.row(r));
      load_view_row(t_.v, key_offset(t_, t_.v, b, head_kv, first + r), t_.head_dim_v, v_.row(r));
    }
    k_.finish();
    v_.finish();
  }

  void weigh() {
    const Matrix s = products(q_, k_), dp = products(do_, v_);
    for (std::int64_t r = 0; r < kTileRows; ++r) {
      const std::int64_t i = first_query_ + r;
      const bool is_row = i < sequence_.seqlen_q && !std::isinf(lse_[r]);
      const auto [low, high] = is_row ? visible_keys(t_, sequence_, i) : std::pair<std::int64_t, std::int64_t>{0, 0};
      for (std::int64_t c = 0; c < kTileRows; ++c) {
        const std::int64_t j = first_key_ + c;
        const auto at = static_cast<std::size_t>(r * kTileRows + c);
        const bool seen = j >= low && j < high;
        weigh_pair(r, i, j, c, seen, s[at], dp[at], at);
      }
    }
  }

  AttentionTensors const& tensors() const { return t_; }
  const SequenceSpan& sequence() const { return sequence_; }
  const Tile64& tile() const { return tile_; }
  const Rows64& q() const { return q_; }
  const Rows64& k() const { return k_; }
  const Rows64& dout() const { return do_; }
  double lse(std::int64_t r) const { return lse_[r]; }
  double delta(std::int64_t r) const { return delta_[r]; }
  double distance(std::int64_t r, std::int64_t c) const {
    return static_cast<double>(
        std::abs(first_query_ + r + sequence_.diagonal_offset(t_.mask_bottom_right) - (first_key_ + c)));
  }

 private:
  std::int64_t row_offset(const TensorStrides& s, std::int64_t i) const {
    return (t_.group_mode() ? sequence_.q_begin * s.row : b_ * s.batch) + h_ * s.head + i * s.row;
  }

  static Matrix products(const Rows64& a, const Rows64& b) {
    Matrix turned(static_cast<std::size_t>(a.columns * kTileRows)),
        out(static_cast<std::size_t>(kTileRows * kTileRows));
    for (std::int64_t r = 0; r < kTileRows; ++r)
      for (std::int64_t c = 0; c < a.columns; ++c)
        turned[static_cast<std::size_t>(c * kTileRows + r)] = b.values[static_cast<std::size_t>(r * b.padded + c)];
    multiply_add64(a.values.data(), a.padded, turned.data(), out.data(), a.columns, kTileRows);
    return out;
  }

  void weigh_pair(std::int64_t r, std::int64_t i, std::int64_t j, std::int64_t c, bool seen, double product, double dp,
                  std::size_t at) {
    for (Matrix* m : {&tile_.kept, &tile_.kept_squared, &tile_.kept_sized, &tile_.dx, &tile_.dx_squared,
                      &tile_.dx_sized, &tile_.dt, &tile_.dt_size})
      (*m)[at] = 0;
    if (!seen) return;
    double x = static_cast<double>(t_.scale) * product, slant = 1;
    const double cap = static_cast<double>(t_.soft_cap);
    if (cap != 0) {
      const double y = std::tanh(x / cap);
      x = cap * y;
      slant = 1 - y * y;
    }
    if (t_.bias != nullptr) {
      const TensorStrides& s = t_.bias_strides;
      x += static_cast<double>(t_.bias[b_ * s.batch + h_ * s.head + i * s.row + j * s.column]);
    }
    if (t_.alibi != nullptr) {
      const std::int64_t offset = sequence_.diagonal_offset(t_.mask_bottom_right);
      x -= static_cast<double>(t_.alibi[b_ * t_.alibi_batch_stride + h_]) *
           static_cast<double>(std::abs(i + offset - j));
    }
    const double p = std::exp(x - lse_[r]);
    const bool is_kept = t_.drop_threshold == 0 || keeps(t_, b_, h_, i, j);
    const double keep = is_kept ? 1 / (1 - t_.drop_threshold / 65536.0) : 0;
    // What fp32 logits round, for each of which the weight is off by a share; and what fp32 dot products round.
    const double logits = 1 + (std::isfinite(x) ? std::abs(x) : 0) + std::abs(lse_[r]) +
                          std::abs(static_cast<double>(t_.scale)) * q_.norms[r] * k_.norms[c];
    const double g = keep * dp, dt = p * (g - delta_[r]), parts = p * (std::abs(g) + std::abs(delta_[r]));
    const double sums = p * do_.norms[r] * (keep * v_.norms[c] + o_norm_[r]);
    const auto square = [&](double size) {
      const double rounded_as = size == 0 ? 0 : std::max(size, floor_);
      return rounded_as * rounded_as;
    };
    tile_.kept[at] = p * keep;
    tile_.kept_squared[at] = square(p * keep);
    tile_.kept_sized[at] = p * keep * logits;
    tile_.dt[at] = dt;
    tile_.dt_size[at] = parts * logits + sums;
    tile_.dx[at] = dt * slant;
    // Where the cap is near, 1 - y^2 cancels: it is off by roundings of 1.
    tile_.dx_squared[at] = square(parts * slant);
    tile_.dx_sized[at] = (parts * logits + sums) * (cap != 0 ? std::max(slant, 0x1p-4) : 1.0);
  }

  const AttentionBackwardTensors& all_;
  const AttentionTensors& t_;
  Rows64 q_, k_, v_, do_;
  double floor_;
  Tile64 tile_;
  SequenceSpan sequence_{};
  std::int64_t b_ = 0, h_ = 0, first_query_ = 0, first_key_ = 0;
  double lse_[kTileRows] = {}, delta_[kTileRows] = {}, o_norm_[kTileRows] = {};
};

/// Single numbers that sums over tiles add to: the shares of tasks, in order.
struct Share {
  double value = 0, square = 0, size = 0;
  void add(double term, double parts) {
    value += term;
    square += parts * parts;
    size += parts;
  }
  void add(const Share& other) {
    value += other.value;
    square += other.square;
    size += other.size;
  }
  void write(std::size_t at, Gradient64& to) const {
    to.values[at] = value;
    to.spread[at] = static_cast<float>(std::sqrt(square));
    to.total[at] = static_cast<float>(size);
  }
};

/// dq of a tile of queries, and its shares of dsink and dalibi.
void run_queries(const AttentionBackwardTensors& all, Float64AttentionBackward& result, std::int64_t b, std::int64_t h,
                 std::int64_t first, Share& sink, Share& alibi) {
  Worker w(all);
  const AttentionTensors& t = all.forward;
  w.load_queries(b, h, first);
  Sums64 dq(t.head_dim_qk);
  const std::int64_t keys = w.sequence().seqlen_k;
  for (std::int64_t key = 0; key < keys; key += kTileRows) {
    w.load_keys(b, h / (t.heads_q / t.heads_kv), key);
    w.weigh();
    dq.add(w.tile().dx, w.tile().dx_squared, w.tile().dx_sized, w.k());
    for (std::int64_t r = 0; all.dalibi && r < kTileRows; ++r)
      for (std::int64_t c = 0; c < kTileRows; ++c) {
        const auto at = static_cast<std::size_t>(r * kTileRows + c);
        alibi.add(-w.tile().dt[at] * w.distance(r, c), w.tile().dt_size[at] * w.distance(r, c));
      }
  }
  for (std::int64_t r = 0; r < kTileRows && first + r < w.sequence().seqlen_q; ++r) {
    dq.write(r, output_row(t, b, h, first + r), static_cast<double>(t.scale), result.dq);
    if (!all.dsink || std::isinf(w.lse(r))) continue;
    const double p = std::exp(static_cast<double>(t.sink[h]) - w.lse(r));
    sink.add(-p * w.delta(r), std::abs(p * w.delta(r)) * (1 + std::abs(w.lse(r))));
  }
}

/// dk and dv of a tile of keys.
void run_keys(const AttentionBackwardTensors& all, Float64AttentionBackward& result, std::int64_t b, std::int64_t head,
              std::int64_t first) {
  Worker w(all);
  const AttentionTensors& t = all.forward;
  w.load_keys(b, head, first);
  Sums64 dk(t.head_dim_qk), dv(t.head_dim_v);
  const std::int64_t per_head = t.heads_q / t.heads_kv;
  const SequenceSpan sequence = sequence_of(t, b);
  for (std::int64_t h = head * per_head; h < (head + 1) * per_head; ++h)
    for (std::int64_t query = 0; query < sequence.seqlen_q; query += kTileRows) {
      w.load_queries(b, h, query);
      w.weigh();
      const Tile64& tile = w.tile();
      dk.add(transposed(tile.dx), transposed(tile.dx_squared), transposed(tile.dx_sized), w.q());
      dv.add(transposed(tile.kept), transposed(tile.kept_squared), transposed(tile.kept_sized), w.dout());
    }
  for (std::int64_t r = 0; r < kTileRows && first + r < sequence.seqlen_k; ++r) {
    const std::int64_t row = key_row(t, b, head, first + r);
    dk.write(r, row, static_cast<double>(t.scale), result.dk);
    dv.write(r, row, 1, result.dv);
  }
}

/// All of dbias that the pairs of a head of the result reach. `shares` has a member for each element of dbias.
void run_bias(const AttentionBackwardTensors& all, std::int64_t batch, std::int64_t head, std::vector<Share>& shares) {
  Worker w(all);
  const AttentionTensors& t = all.forward;
  const TensorExtents sizes = all.dbias_extents();
  for (std::int64_t b = all.dbias_batch ? batch : 0; b < (all.dbias_batch ? batch + 1 : t.batch); ++b)
    for (std::int64_t h = all.dbias_head ? head : 0; h < (all.dbias_head ? head + 1 : t.heads_q); ++h) {
      const SequenceSpan sequence = sequence_of(t, b);
      for (std::int64_t query = 0; query < sequence.seqlen_q; query += kTileRows) {
        w.load_queries(b, h, query);
        for (std::int64_t key = 0; key < sequence.seqlen_k; key += kTileRows) {
          w.load_keys(b, h / (t.heads_q / t.heads_kv), key);
          w.weigh();
          for (std::int64_t r = 0; r < std::min(kTileRows, sequence.seqlen_q - query); ++r)
            for (std::int64_t c = 0; c < std::min(kTileRows, sequence.seqlen_k - key); ++c) {
              const std::int64_t i = all.dbias_row ? query + r : 0, j = all.dbias_column ? key + c : 0;
              const auto at = static_cast<std::size_t>(r * kTileRows + c);
              shares[static_cast<std::size_t>(((batch * sizes.head + head) * sizes.row + i) * sizes.column + j)].add(
                  w.tile().dt[at], w.tile().dt_size[at]);
            }
        }
      }
    }
}

}  // namespace

std::int64_t key_rows(const AttentionTensors& t) {
  return t.heads_kv * (t.group_mode() ? t.cu_seqlens_k[t.batch] : t.batch * t.seqlen_k);
}

std::int64_t key_row(const AttentionTensors& t, std::int64_t b, std::int64_t head_kv, std::int64_t j) {
  if (!t.group_mode()) return (b * t.heads_kv + head_kv) * t.seqlen_k + j;
  return head_kv * t.cu_seqlens_k[t.batch] + t.cu_seqlens_k[b] + j;
}

Result<Float64AttentionBackward> float64_attention_backward(const AttentionBackwardTensors& all, unsigned threads) {
  const AttentionTensors& t = all.forward;
  TS_TRY(check_tensors(t));
  Float64AttentionBackward result;
  const TensorExtents bias = all.dbias_extents();
  const std::int64_t row_tiles = (t.seqlen_q + kTileRows - 1) / kTileRows;
  const std::int64_t key_tiles = (t.seqlen_k + kTileRows - 1) / kTileRows;
  const std::int64_t query_tasks = t.batch * t.heads_q * row_tiles;
  std::vector<Share> of_bias, of_sink, of_alibi;
  try {
    const auto count = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    result.dq.resize(count(output_rows(t) * t.head_dim_qk));
    result.dk.resize(count(key_rows(t) * t.head_dim_qk));
    result.dv.resize(count(key_rows(t) * t.head_dim_v));
    result.dbias.resize(all.dbias ? count(bias.count()) : 0);
    result.dalibi.resize(all.dalibi ? count((all.dalibi_batch ? t.batch : 1) * t.heads_q) : 0);
    result.dsink.resize(all.dsink ? count(t.heads_q) : 0);
    of_bias.resize(result.dbias.values.size());
    of_sink.resize(count(query_tasks));
    of_alibi.resize(count(query_tasks));
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "no memory for the reference result");
  }
  const std::int64_t key_tasks = t.batch * t.heads_kv * key_tiles;
  const std::int64_t bias_tasks = all.dbias ? bias.batch * bias.head : 0;
  parallel_for(static_cast<std::size_t>(query_tasks + key_tasks + bias_tasks), threads, [&](std::size_t index) {
    auto task = static_cast<std::int64_t>(index);
    if (task < query_tasks) {
      const std::int64_t b = task / row_tiles / t.heads_q, first = task % row_tiles * kTileRows;
      if (first < sequence_of(t, b).seqlen_q)
        run_queries(all, result, b, task / row_tiles % t.heads_q, first, of_sink[index], of_alibi[index]);
    } else if ((task -= query_tasks) < key_tasks) {
      const std::int64_t b = task / key_tiles / t.heads_kv, first = task % key_tiles * kTileRows;
      if (first < sequence_of(t, b).seqlen_k) run_keys(all, result, b, task / key_tiles % t.heads_kv, first);
    } else {
      task -= key_tasks;
      run_bias(all, task / bias.head, task % bias.head, of_bias);
    }
  });
  for (std::size_t at = 0; at < of_bias.size(); ++at) of_bias[at].write(at, result.dbias);
  const auto sum_shares = [&](const std::vector<Share>& shares, bool by_batch, Gradient64& to) {
    std::vector<Share> sums(to.values.size());
    for (std::int64_t task = 0; task < query_tasks; ++task) {
      const std::int64_t h = task / row_tiles % t.heads_q, b = by_batch ? task / row_tiles / t.heads_q : 0;
      sums[static_cast<std::size_t>(b * t.heads_q + h)].add(shares[static_cast<std::size_t>(task)]);
    }
    for (std::size_t at = 0; at < sums.size(); ++at) sums[at].write(at, to);
  };
  if (all.dsink) sum_shares(of_sink, false, result.dsink);
  if (all.dalibi) sum_shares(of_alibi, all.dalibi_batch, result.dalibi);
  return result;
}

}  // namespace tilesmith
