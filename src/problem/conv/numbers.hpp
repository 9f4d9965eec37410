// The numbers of a convolution on random inputs.
#pragma once

#include <cstdint>

#include "tilesmith/conv.hpp"
#include "vocabulary/enum_table.hpp"

namespace tilesmith {

template <>
struct EnumTable<ConvLayout> {
  static constexpr std::string_view kWhat = "layout";
  static constexpr auto kNames = enum_names<ConvLayout>(
      {{ConvLayout::channels_last, "channels_last"}, {ConvLayout::channels_first, "channels_first"}});
  static constexpr EnumName<ConvLayout> kAliases[] = {{ConvLayout::channels_last, "nhwc"},
                                                      {ConvLayout::channels_first, "nchw"}};
};

struct ConvNumbers {
  ConvLayout layout = ConvLayout::channels_last;
  float clamp_low = -1, clamp_high = 1;
  std::uint64_t seed = 0;  ///< of random inputs

  friend bool operator==(const ConvNumbers&, const ConvNumbers&) = default;

  template <class Self, class Visitor>
  static constexpr void fields(Self& self, Visitor&& visit) {
    visit("layout", self.layout);
    visit("clamp_low", self.clamp_low);
    visit("clamp_high", self.clamp_high);
    visit("seed", self.seed);
  }
};

}  // namespace tilesmith
