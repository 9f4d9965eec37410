// Which candidates of a problem are looked at, and in which order.
#pragma once

#include <cstdint>

#include "vocabulary/enum_table.hpp"

namespace tilesmith {

enum class SelectionPolicy : std::uint8_t {
  dispatch,             ///< the device's own policy
  model,                ///< all, by the seconds that the model predicts
  upstream,             ///< Composable Kernel's instances as its own dispatcher takes them
  inductor,             ///< the kernels nearest to Inductor's configs, in the order of its table
  inductor_exhaustive,  ///< those nearest to the configs of its exhaustive search
};

template <>
struct EnumTable<SelectionPolicy> {
  static constexpr std::string_view kWhat = "policy";
  static constexpr auto kNames =
      enum_names<SelectionPolicy>({{SelectionPolicy::dispatch, "dispatch"},
                                   {SelectionPolicy::model, "model"},
                                   {SelectionPolicy::upstream, "upstream"},
                                   {SelectionPolicy::inductor, "inductor"},
                                   {SelectionPolicy::inductor_exhaustive, "inductor_exhaustive"}});
};

}  // namespace tilesmith
