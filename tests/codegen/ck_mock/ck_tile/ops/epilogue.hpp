// A stand-in for CK Tile's epilogues.
#pragma once

#include "ck_tile/core.hpp"

namespace ck_tile {

template <class Acc, class Output, bool kRows, bool kColumns>
struct Default2DEpilogueProblem {
  using AccType = Acc;
  using OutputType = Output;
  static constexpr bool kPadRows = kRows;
  static constexpr bool kPadColumns = kColumns;
};

template <class Problem>
struct Default2DEpilogue {
  static_assert(std::is_same_v<typename Problem::AccType, float> && kIsFloat<typename Problem::OutputType>);
};

}  // namespace ck_tile
