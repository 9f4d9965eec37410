// The numbers of an attention call on random inputs.
#pragma once

#include <cstdint>
#include <optional>

#include "tilesmith/attention.hpp"
#include "vocabulary/enum_table.hpp"

namespace tilesmith {

template <>
struct EnumTable<AttentionLayout> {
  static constexpr std::string_view kWhat = "layout";
  static constexpr auto kNames =
      enum_names<AttentionLayout>({{AttentionLayout::bhsd, "bhsd"}, {AttentionLayout::bshd, "bshd"}});
};

template <>
struct EnumTable<RotaryStyle> {
  static constexpr std::string_view kWhat = "rotary style";
  static constexpr auto kNames =
      enum_names<RotaryStyle>({{RotaryStyle::half, "half"}, {RotaryStyle::interleaved, "interleaved"}});
};

struct AttentionNumbers {
  AttentionLayout layout = AttentionLayout::bhsd;
  std::optional<float> scale{};  ///< absent: 1 / sqrt(head_dim_qk)
  float soft_cap = 0;
  float dropout_probability = 0;
  std::int64_t rotary_dim = 0;  ///< of a call that appends
  RotaryStyle rotary_style = RotaryStyle::half;
  bool choose_scales = false;      ///< a call that appends chooses its rows' scales
  std::optional<float> padding{};  ///< what a random bias has for keys that it hides; absent: -infinity
  std::uint64_t seed = 0;          ///< of dropout and of random inputs

  friend bool operator==(const AttentionNumbers&, const AttentionNumbers&) = default;

  template <class Self, class Visitor>
  static constexpr void fields(Self& self, Visitor&& visit) {
    visit("layout", self.layout);
    visit("scale", self.scale);
    visit("soft_cap", self.soft_cap);
    visit("dropout_probability", self.dropout_probability);
    visit("rotary_dim", self.rotary_dim);
    visit("rotary_style", self.rotary_style);
    visit("choose_scales", self.choose_scales);
    visit("padding", self.padding);
    visit("seed", self.seed);
  }
};

}  // namespace tilesmith
