#include "tune/size_range.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tilesmith {

std::optional<SizeRange> SizeRange::parse(std::string_view text) {
  SizeRange range;
  const char* end = text.data() + text.size();
  const auto [colon, first] = std::from_chars(text.data(), end, range.low);
  if (first != std::errc{} || colon == end || *colon != ':') return std::nullopt;
  const auto [last, second] = std::from_chars(colon + 1, end, range.high);
  if (second != std::errc{} || last != end || range.low < 1 || range.high < range.low) return std::nullopt;
  return range;
}

std::vector<std::int64_t> first_sizes(SizeRange range) {
  std::vector<std::int64_t> sizes{range.low};
  for (std::int64_t size = 1; size < range.high && size > 0; size *= 2)
    if (size > range.low) sizes.push_back(size);
  if (range.high > range.low) sizes.push_back(range.high);
  return sizes;
}

std::vector<MeasuredSize> sizes_of(const TuningFile& file, std::string_view device_class, std::string_view kind) {
  std::vector<MeasuredSize> sizes;
  for (const TunedChoice& choice : file.choices) {
    if (choice.device_class != device_class) continue;
    const auto sized = sized_identity(choice.problem);
    if (sized && sized->kind == kind) sizes.push_back({sized->size, choice.recipe, choice.seconds});
  }
  std::ranges::sort(sizes, {}, &MeasuredSize::size);
  return sizes;
}

std::vector<MeasuredInterval> intervals_of(std::span<const MeasuredSize> sizes, SizeRange range) {
  std::vector<MeasuredInterval> intervals;
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    if (sizes[i - 1].size < range.low || sizes[i].size > range.high) continue;
    if (const auto interval = interval_of(sizes, sizes[i - 1].size + 1)) intervals.push_back(*interval);
  }
  return intervals;
}

std::int64_t middle_of(std::int64_t low, std::int64_t high) {
  constexpr std::int64_t kCoarse = 64, kStep = 8;  // tiles have multiples of this many rows
  auto middle = static_cast<std::int64_t>(std::sqrt(static_cast<double>(low) * static_cast<double>(high)));
  if (high - low >= kCoarse) middle = middle / kStep * kStep;
  return std::clamp(middle, low + 1, high - 1);
}

std::vector<std::int64_t> next_sizes(std::span<const MeasuredInterval> intervals) {
  std::vector<std::int64_t> sizes;
  for (const MeasuredInterval& interval : intervals)
    if (!is_trusted(interval)) sizes.push_back(middle_of(interval.low, interval.high));
  return sizes;
}

}  // namespace tilesmith
