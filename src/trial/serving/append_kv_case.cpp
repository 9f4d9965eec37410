#include "trial/serving/append_kv_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <tuple>

#include "base/host_array.hpp"
#include "base/random.hpp"
#include "problem/serving/types.hpp"

namespace tilesmith {
namespace {

enum AppendStream : std::uint64_t { kNewQ = 1, kNewK, kNewV, kAngles, kLengths, kOrder };

/// The largest value of a cache of 8 bits.
double largest_of(ElementType type) {
  return type == ElementType::int8 ? 127 : 448;
}

class AppendKvCase final : public DirectCase {
 public:
  explicit AppendKvCase(const AppendKvSizes& sizes)
      : s_(sizes), type_(floating_element(sizes.data_type)), cached_(cache_element(sizes.data_type, sizes.cache)) {
    q_ = tokens(s_.heads_q, s_.head_dim_qk, kNewQ);
    k_ = tokens(s_.heads_kv, s_.head_dim_qk, kNewK);
    v_ = tokens(s_.heads_kv, s_.head_dim_v, kNewV);
    place_pages();
    const auto angles = static_cast<std::size_t>((s_.seqlen_k + s_.seqlen) * (s_.rotary_dim / 2));
    std::vector<float> angle(angles);
    fill_uniform(angle, {s_.seed, kAngles}, -3.2F, 3.2F);
    for (const float x : angle) cos_.push_back(std::cos(x)), sin_.push_back(std::sin(x));
    // Some values are beyond the largest, and become it.
    const std::int64_t scales = s_.cache == KvElements::as_queries || s_.row_scale ? 0
                                : s_.page_scale                                    ? pages() * s_.heads_kv
                                                                                   : s_.heads_kv;
    for (std::int64_t i = 0; i < scales; ++i)
      scale_.push_back(static_cast<float>((2.5 + 0.1 * static_cast<double>(i % 7)) / largest_of(cached_)));
  }

  [[nodiscard]] std::vector<NamedInput> inputs() const override {
    std::vector<NamedInput> out;
    for (const auto& [name, array] : {std::pair{"q", &q_}, std::pair{"k", &k_}, std::pair{"v", &v_}})
      out.push_back({name, array->data.data(), array->data.size()});
    for (const auto& [name, numbers] : {std::pair{"seqlens_k", &lengths_}, std::pair{"page_numbers", &numbers_}})
      out.push_back({name, numbers->data(), numbers->size() * sizeof(std::int32_t)});
    for (const auto& [name, numbers] : {std::pair{"cos", &cos_}, std::pair{"sin", &sin_}, std::pair{"scale", &scale_}})
      out.push_back({name, numbers->data(), numbers->size() * sizeof(float)});
    return out;
  }

  [[nodiscard]] std::vector<OutputSpec> outputs() const override {
    const auto spec = [](const char* name, ElementType type, std::int64_t members, std::int64_t heads,
                         std::int64_t rows, std::int64_t dim) {
      return OutputSpec{.name = name,
                        .type = type,
                        .extents = {.batch = members, .head = heads, .row = rows, .column = dim},
                        .strides = {heads * rows * dim, rows * dim, dim, 1}};
    };
    std::vector<OutputSpec> out{spec("k_cache", cached_, pages(), s_.heads_kv, s_.page_size, s_.head_dim_qk),
                                spec("v_cache", cached_, pages(), s_.heads_kv, s_.page_size, s_.head_dim_v)};
    if (s_.heads_q > 0) out.push_back(spec("q_out", type_, s_.batch, s_.heads_q, s_.seqlen, s_.head_dim_qk));
    if (s_.row_scale)
      for (const char* const name : {"k_row_scale", "v_row_scale"})
        out.push_back(spec(name, ElementType::fp32, pages(), s_.heads_kv, s_.page_size, 1));
    return out;
  }

  [[nodiscard]] Status call(Dispatcher& dispatcher, const CallMemory& memory,
                            const RunOptions& options) const override {
    return dispatcher.append_kv(on(memory), options);
  }

  [[nodiscard]] AppendKv on(const CallMemory& memory) const {
    const auto dense = [](std::int64_t heads, std::int64_t rows, std::int64_t dim) {
      return AttentionStrides{heads * rows * dim, rows * dim, dim};
    };
    AppendKv c;
    c.data_type = s_.data_type;
    c.cache = s_.cache;
    c.batch = s_.batch;
    c.heads_q = s_.heads_q;
    c.heads_kv = s_.heads_kv;
    c.seqlen = s_.seqlen;
    c.head_dim_qk = s_.head_dim_qk;
    c.head_dim_v = s_.head_dim_v;
    c.page_size = s_.page_size;
    c.q = memory.input("q");
    c.k = memory.input("k");
    c.v = memory.input("v");
    c.q_out = memory.output("q_out");
    c.k_cache = memory.output("k_cache");
    c.v_cache = memory.output("v_cache");
    c.q_strides = c.q_out_strides = dense(s_.heads_q, s_.seqlen, s_.head_dim_qk);
    c.k_strides = dense(s_.heads_kv, s_.seqlen, s_.head_dim_qk);
    c.v_strides = dense(s_.heads_kv, s_.seqlen, s_.head_dim_v);
    c.k_cache_strides = dense(s_.heads_kv, s_.page_size, s_.head_dim_qk);
    c.v_cache_strides = dense(s_.heads_kv, s_.page_size, s_.head_dim_v);
    c.pages = {.lengths = memory.input<std::int32_t>("seqlens_k"),
               .numbers = memory.input<std::int32_t>("page_numbers"),
               .stride = stride_,
               .num_pages = pages()};
    c.rotary = {.dim = s_.rotary_dim,
                .style = s_.rotary_style,
                .cos = memory.input<float>("cos"),
                .sin = memory.input<float>("sin"),
                .row_stride = s_.rotary_dim / 2,
                .positions = s_.seqlen_k + s_.seqlen};
    c.vectorized_pages = s_.vectorized_pages;
    c.lengths_after = s_.lengths_after;
    c.page_scale = s_.page_scale;
    if (!scale_.empty())
      c.k_scale =
          c.v_scale = {.data = memory.input<float>("scale"), .batch = s_.page_scale ? s_.heads_kv : 0, .head = 1};
    if (s_.row_scale) {
      c.k_row_scale = static_cast<float*>(memory.output("k_row_scale"));
      c.v_row_scale = static_cast<float*>(memory.output("v_row_scale"));
      c.k_row_scale_strides = c.v_row_scale_strides = {s_.heads_kv * s_.page_size, s_.page_size, 1};
    }
    return c;
  }

  [[nodiscard]] std::string fault(std::span<const std::vector<std::byte>> written) const override {
    Check check(written);
    const std::size_t row_scales = s_.heads_q > 0 ? 3 : 2;  // of the outputs
    for (std::int64_t b = 0; b < s_.batch; ++b)
      for (std::int64_t t = 0; t < s_.seqlen; ++t) {
        const std::int64_t position = before_[static_cast<std::size_t>(b)] + t;
        const std::int64_t page = numbers_[static_cast<std::size_t>(b * stride_ + position / s_.page_size)];
        for (std::int64_t h = 0; h < s_.heads_kv; ++h) {
          const std::int64_t from = (b * s_.heads_kv + h) * s_.seqlen + t, share = page * s_.heads_kv + h;
          const std::int64_t page_row = position % s_.page_size;
          for (const bool key : {true, false}) {
            std::vector<double> wanted = key ? turned(k_, from, position) : row_of(v_, from, s_.head_dim_v);
            double unit =
                scale_.empty() ? 1 : static_cast<double>(scale_[static_cast<std::size_t>(s_.page_scale ? share : h)]);
            if (s_.row_scale)
              unit = check.row_scale(row_scales + (key ? 0 : 1), share * s_.page_size + page_row, wanted,
                                     largest_of(cached_), key ? "k_row_scale" : "v_row_scale");
            for (std::size_t c = 0; c < wanted.size(); ++c)
              check.element(key ? 0 : 1, cached_,
                            share * s_.page_size * static_cast<std::int64_t>(wanted.size()) +
                                within_page(page_row, static_cast<std::int64_t>(c), key),
                            wanted[c] / unit, kInexact / unit, key ? "k_cache" : "v_cache");
          }
        }
        for (std::int64_t h = 0; h < s_.heads_q; ++h) {
          const std::int64_t row = (b * s_.heads_q + h) * s_.seqlen + t;
          const std::vector<double> wanted = turned(q_, row, position);
          for (std::size_t c = 0; c < wanted.size(); ++c)
            check.element(2, type_, row * s_.head_dim_qk + static_cast<std::int64_t>(c), wanted[c], kInexact, "q_out");
        }
      }
    for (std::size_t i = 0; i < written.size(); ++i) check.untouched(i, outputs()[i].name);
    return check.wrong;
  }

  [[nodiscard]] double bytes() const override {
    const auto rows = static_cast<double>(s_.batch * s_.seqlen);
    const auto wide = static_cast<double>(size_of(type_)), narrow = static_cast<double>(size_of(cached_));
    return rows * (static_cast<double>(s_.heads_kv * (s_.head_dim_qk + s_.head_dim_v)) * (wide + narrow) +
                   static_cast<double>(s_.heads_q * s_.head_dim_qk) * 2 * wide);
  }

 private:
  /// Compares what was written, and keeps the first difference and what has been looked at.
  struct Check {
    explicit Check(std::span<const std::vector<std::byte>> outputs) : written(outputs) {
      for (const auto& output : written) touched.emplace_back(output.size(), 0);
    }
    double look(std::size_t output, ElementType type, std::int64_t at) {
      std::fill_n(touched[output].begin() + at * static_cast<std::int64_t>(size_of(type)), size_of(type), 1);
      return load_element(type, written[output].data(), static_cast<std::size_t>(at));
    }
    void element(std::size_t output, ElementType type, std::int64_t at, double want, double limit, const char* name) {
      const double got = look(output, type, at);
      if (type == ElementType::int8) {
        want = std::clamp(want, -128.0, 127.0);
        limit += 0.5;
      } else {
        if (type == ElementType::fp8e4m3) want = std::clamp(want, -448.0, 448.0);
        limit += unit_roundoff(type) * std::abs(want) + smallest_subnormal(type);
      }
      if (wrong.empty() && !(std::abs(got - want) <= limit))
        wrong = fmt::format("{}, element {} is {:.9g}, it should be {:.9g}: off by {:.3g}, at most {:.3g}", name, at,
                            got, want, std::abs(got - want), limit);
    }
    /// The scale that was written for a row: what the row was divided by.
    double row_scale(std::size_t output, std::int64_t at, std::span<const double> row, double largest,
                     const char* name) {
      const double got = look(output, ElementType::fp32, at);
      double want = 0;
      for (const double x : row) want = std::max(want, std::abs(x));
      want = want == 0 ? 1 : want / largest;
      if (wrong.empty() && !(std::abs(got - want) <= kInexact * want))
        wrong = fmt::format("{}, row {} is {:.9g}, it should be {:.9g}", name, at, got, want);
      return got;
    }
    void untouched(std::size_t output, const std::string& name) {
      for (std::size_t byte = 0; byte < written[output].size() && wrong.empty(); ++byte)
        if (touched[output][byte] == 0 && written[output][byte] != kBefore)
          wrong = fmt::format("{} is changed at byte {}, where no token goes", name, byte);
    }

    std::span<const std::vector<std::byte>> written;
    std::vector<std::vector<char>> touched;
    std::string wrong;
  };

  /// Where an element of a row lies in a head's share of a page.
  [[nodiscard]] std::int64_t within_page(std::int64_t row, std::int64_t column, bool key) const {
    const std::int64_t dim = key ? s_.head_dim_qk : s_.head_dim_v;
    if (!s_.vectorized_pages) return row * dim + column;
    const auto unit = static_cast<std::int64_t>(16 / size_of(cached_));
    return key ? (column / unit * s_.page_size + row) * unit + column % unit
               : (row / unit * dim + column) * unit + row % unit;
  }

  /// What fp32 arithmetic on numbers of up to 8 may lose.
  static constexpr double kInexact = 0x1p-19;

  HostArray tokens(std::int64_t heads, std::int64_t dim, AppendStream stream) const {
    std::vector<float> values(static_cast<std::size_t>(s_.batch * heads * s_.seqlen * dim));
    fill_normal(values, {s_.seed, stream});
    return make_array(type_, {s_.batch, heads, s_.seqlen, dim}, values);
  }

  void place_pages() {
    std::uint64_t draw = 0;
    const auto below = [&](AppendStream stream, std::int64_t bound) {
      return static_cast<std::int64_t>(RandomStream{s_.seed, stream}.below(draw++, static_cast<std::uint64_t>(bound)));
    };
    stride_ = (s_.seqlen_k + s_.seqlen + s_.page_size - 1) / s_.page_size;
    numbers_.resize(static_cast<std::size_t>(s_.batch * stride_));
    std::iota(numbers_.begin(), numbers_.end(), 0);
    for (std::size_t i = numbers_.size(); i > 1; --i)
      std::swap(numbers_[i - 1], numbers_[static_cast<std::size_t>(below(kOrder, static_cast<std::int64_t>(i)))]);
    for (std::int64_t b = 0; b < s_.batch; ++b)
      before_.push_back(static_cast<std::int32_t>(b + 1 == s_.batch ? s_.seqlen_k : below(kLengths, s_.seqlen_k + 1)));
    lengths_ = before_;
    if (s_.lengths_after)
      for (std::int32_t& length : lengths_) length += static_cast<std::int32_t>(s_.seqlen);
  }

  [[nodiscard]] std::int64_t pages() const { return s_.batch * stride_; }

  [[nodiscard]] std::vector<double> row_of(const HostArray& array, std::int64_t row, std::int64_t dim) const {
    std::vector<double> out;
    for (std::int64_t c = 0; c < dim; ++c)
      out.push_back(load_element(type_, array.data.data(), static_cast<std::size_t>(row * dim + c)));
    return out;
  }

  [[nodiscard]] std::vector<double> turned(const HostArray& array, std::int64_t row, std::int64_t position) const {
    std::vector<double> x = row_of(array, row, s_.head_dim_qk);
    const std::int64_t half = s_.rotary_dim / 2;
    for (std::int64_t i = 0; i < half; ++i) {
      const bool apart = s_.rotary_style == RotaryStyle::half;
      double& low = x[static_cast<std::size_t>(apart ? i : 2 * i)];
      double& high = x[static_cast<std::size_t>(apart ? i + half : 2 * i + 1)];
      const auto angle = static_cast<std::size_t>(position * half + i);
      const auto cosine = static_cast<double>(cos_[angle]), sine = static_cast<double>(sin_[angle]);
      const double first = low * cosine - high * sine;
      high = high * cosine + low * sine;
      low = first;
    }
    return x;
  }

  AppendKvSizes s_;
  ElementType type_, cached_;
  HostArray q_, k_, v_;
  std::vector<std::int32_t> before_, lengths_, numbers_;  // lengths: what the call is given
  std::int64_t stride_ = 0;
  std::vector<float> cos_, sin_, scale_;
};

}  // namespace

Result<std::unique_ptr<const DirectCase>> append_kv_case(const AppendKvSizes& s) {
  TS_TRY(check_floating_type("append_kv", s.data_type));
  for (const auto& [name, size, least] :
       {std::tuple{"batch", s.batch, 1}, std::tuple{"heads_kv", s.heads_kv, 1}, std::tuple{"heads_q", s.heads_q, 0},
        std::tuple{"seqlen", s.seqlen, 1}, std::tuple{"seqlen_k", s.seqlen_k, 0},
        std::tuple{"page_size", s.page_size, 1}, std::tuple{"head_dim_qk", s.head_dim_qk, 1},
        std::tuple{"head_dim_v", s.head_dim_v, 1}})
    if (size < least)
      return fail(ErrorCode::invalid_argument, fmt::format("{} is {}", name, size), fmt::format("{} or more", least));
  if (s.rotary_dim < 0 || s.rotary_dim % 2 != 0 || s.rotary_dim > s.head_dim_qk)
    return fail(ErrorCode::invalid_argument, fmt::format("rotary_dim is {}", s.rotary_dim),
                fmt::format("an even number of 0 to {}, head_dim_qk", s.head_dim_qk));
  if ((s.page_scale || s.row_scale) && (s.cache == KvElements::as_queries || (s.page_scale && s.row_scale)))
    return fail(ErrorCode::invalid_argument, "scales of pages or rows of a cache that has none, or both",
                "a cache of fp8 or int8, and one of them");
  for (const std::int64_t heads : {s.heads_q, s.heads_kv}) {
    const std::array whole{s.batch, heads, s.seqlen_k + s.seqlen + s.page_size, std::max(s.head_dim_qk, s.head_dim_v)};
    if (const auto bytes = byte_size(ElementType::fp32, whole); !bytes) return std::unexpected(bytes.error());
  }
  return std::make_unique<const AppendKvCase>(s);
}

}  // namespace tilesmith
