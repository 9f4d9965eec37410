// Which sizes of a range are raced, so that the sizes between them have intervals that are trusted
// (choose/intervals.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "choose/intervals.hpp"
#include "choose/tuning_file.hpp"

namespace tilesmith {

struct SizeRange {
  std::int64_t low = 1, high = 1;

  /// "1:8192": both ends are in it. Nothing for other texts.
  [[nodiscard]] static std::optional<SizeRange> parse(std::string_view text);
};

/// Both ends and the powers of two between them, rising.
[[nodiscard]] std::vector<std::int64_t> first_sizes(SizeRange range);

/// A size between two that differ by 2 or more, near their geometric middle; a multiple of 8 where they are far apart.
[[nodiscard]] std::int64_t middle_of(std::int64_t low, std::int64_t high);

/// The sizes of one kind that the file has for a class of devices, rising.
[[nodiscard]] std::vector<MeasuredSize> sizes_of(const TuningFile& file, std::string_view device_class,
                                                 std::string_view kind);

/// Of neighbours that are measured: the intervals within the range.
[[nodiscard]] std::vector<MeasuredInterval> intervals_of(std::span<const MeasuredSize> sizes, SizeRange range);

/// A size inside each interval that is not trusted, near its geometric middle, rising: what to race next.
[[nodiscard]] std::vector<std::int64_t> next_sizes(std::span<const MeasuredInterval> intervals);

}  // namespace tilesmith
