#include "trial/serving/merge_states_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/host_array.hpp"
#include "base/random.hpp"
#include "problem/serving/types.hpp"

namespace tilesmith {
namespace {

class MergeStatesCase final : public DirectCase {
 public:
  explicit MergeStatesCase(const MergeStatesSizes& sizes) : s_(sizes), type_(floating_element(sizes.data_type)) {
    constexpr float kNothing = -std::numeric_limits<float>::infinity();
    const std::int64_t rows = s_.batch * s_.heads * s_.seqlen;
    const RandomStream nothing{s_.seed, 1};
    for (std::int64_t i = 0; i < s_.states; ++i) {
      const auto number = static_cast<std::uint64_t>(i);
      std::vector<float> output(static_cast<std::size_t>(rows * s_.head_dim)), lse(static_cast<std::size_t>(rows));
      fill_normal(output, {s_.seed, 2 + 2 * number});
      fill_normal(lse, {s_.seed, 3 + 2 * number}, 3);
      for (std::int64_t row = 0; row < rows; ++row) {
        // A quarter of the parts saw nothing, and some rows' every part: what they have as output is not read.
        const auto draw = static_cast<std::uint64_t>(row);
        if (nothing.below(draw * 64 + number % 64, 4) != 0 && nothing.below(~draw, 8) != 0) continue;
        lse[static_cast<std::size_t>(row)] = kNothing;
        std::fill_n(output.begin() + row * s_.head_dim, s_.head_dim, std::numeric_limits<float>::quiet_NaN());
      }
      outputs_.push_back(make_array(type_, {rows, s_.head_dim}, output));
      lses_.push_back(std::move(lse));
    }
  }

  [[nodiscard]] std::vector<NamedInput> inputs() const override {
    std::vector<NamedInput> out;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      out.push_back({output_name(i), outputs_[i].data.data(), outputs_[i].data.size()});
      out.push_back({lse_name(i), lses_[i].data(), lses_[i].size() * sizeof(float)});
    }
    return out;
  }

  [[nodiscard]] std::vector<OutputSpec> outputs() const override {
    const TensorExtents rows{.batch = s_.batch, .head = s_.heads, .row = s_.seqlen};
    TensorExtents elements = rows;
    elements.column = s_.head_dim;
    const auto dense = [&](std::int64_t dim) {
      return TensorStrides{s_.heads * s_.seqlen * dim, s_.seqlen * dim, dim, 1};
    };
    return {{.name = "o", .type = type_, .extents = elements, .strides = dense(s_.head_dim)},
            {.name = "lse", .type = ElementType::fp32, .extents = rows, .strides = dense(1)}};
  }

  [[nodiscard]] Status call(Dispatcher& dispatcher, const CallMemory& memory,
                            const RunOptions& options) const override {
    std::vector<const void*> outputs;
    std::vector<const float*> lses;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      outputs.push_back(memory.input(output_name(i)));
      lses.push_back(memory.input<float>(lse_name(i)));
    }
    MergeStates c = sizes();
    c.outputs = outputs.data();
    c.lses = lses.data();
    c.o = memory.output("o");
    c.lse = memory.output<float>("lse");
    return dispatcher.merge_states(c, options);
  }

  [[nodiscard]] std::string fault(std::span<const std::vector<std::byte>> written) const override {
    const std::int64_t rows = s_.batch * s_.heads * s_.seqlen;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto at = static_cast<std::size_t>(row);
      double top = -std::numeric_limits<double>::infinity(), sum = 0;
      for (const auto& lse : lses_) top = std::max(top, static_cast<double>(lse[at]));
      std::vector<double> weights;
      for (const auto& lse : lses_) {
        weights.push_back(std::isinf(lse[at]) ? 0 : std::exp(static_cast<double>(lse[at]) - top));
        sum += weights.back();
      }
      const double wanted_lse = sum == 0 ? top : top + std::log(sum);
      const double lse = load_element(ElementType::fp32, written[1].data(), at);
      if (lse != wanted_lse && !(std::abs(lse - wanted_lse) <= 1e-6 * (1 + std::abs(wanted_lse))))
        return fmt::format("lse of row {} is {:.9g}, it should be {:.9g}", row, lse, wanted_lse);
      for (std::int64_t c = 0; c < s_.head_dim; ++c) {
        const auto element = static_cast<std::size_t>(row * s_.head_dim + c);
        double wanted = 0, terms = 0;
        for (std::size_t i = 0; i < weights.size(); ++i) {
          if (weights[i] == 0) continue;
          const double term = weights[i] / sum * load_element(type_, outputs_[i].data.data(), element);
          wanted += term;
          terms += std::abs(term);
        }
        // One rounding to the output's type, and in fp32 some for each term.
        constexpr double kFloatRoundoff = 0x1p-24;
        const double limit = unit_roundoff(type_) * std::abs(wanted) + smallest_subnormal(type_) +
                             kFloatRoundoff * 16 * terms * (1 + unit_roundoff(type_));
        const double got = load_element(type_, written[0].data(), element);
        if (!(std::abs(got - wanted) <= limit))
          return fmt::format("o of row {}, column {} is {:.9g}, it should be {:.9g}: off by {:.3g}, at most {:.3g}",
                             row, c, got, wanted, std::abs(got - wanted), limit);
      }
    }
    return {};
  }

  [[nodiscard]] double bytes() const override {
    const auto rows = static_cast<double>(s_.batch * s_.heads * s_.seqlen);
    return static_cast<double>(s_.states + 1) * rows *
           (static_cast<double>(s_.head_dim) * static_cast<double>(size_of(type_)) + sizeof(float));
  }

  [[nodiscard]] MergeStates sizes() const {
    MergeStates c;
    c.data_type = s_.data_type;
    c.states = s_.states;
    c.batch = s_.batch;
    c.heads = s_.heads;
    c.seqlen = s_.seqlen;
    c.head_dim = s_.head_dim;
    c.output_strides = c.o_strides = {s_.heads * s_.seqlen * s_.head_dim, s_.seqlen * s_.head_dim, s_.head_dim};
    c.input_lse_strides = c.lse_strides = {s_.heads * s_.seqlen, s_.seqlen, 1};
    return c;
  }

 private:
  static std::string output_name(std::size_t i) { return fmt::format("output {}", i); }
  static std::string lse_name(std::size_t i) { return fmt::format("lse {}", i); }

  MergeStatesSizes s_;
  ElementType type_;
  std::vector<HostArray> outputs_;
  std::vector<std::vector<float>> lses_;
};

}  // namespace

Result<std::unique_ptr<const DirectCase>> merge_states_case(const MergeStatesSizes& sizes) {
  TS_TRY(check_floating_type("merge_states", sizes.data_type));
  for (const auto& [name, size] :
       {std::pair{"states", sizes.states}, std::pair{"batch", sizes.batch}, std::pair{"heads", sizes.heads},
        std::pair{"seqlen", sizes.seqlen}, std::pair{"head_dim", sizes.head_dim}})
    if (size < 1) return fail(ErrorCode::invalid_argument, fmt::format("{} is {}", name, size), "1 or more");
  const std::array whole{sizes.states, sizes.batch, sizes.heads, sizes.seqlen, sizes.head_dim};
  if (const auto bytes = byte_size(ElementType::fp32, whole); !bytes) return std::unexpected(bytes.error());
  return std::make_unique<const MergeStatesCase>(sizes);
}

}  // namespace tilesmith
