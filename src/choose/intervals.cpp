#include "choose/intervals.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace tilesmith {
namespace {

struct ChangingSize {
  std::string_view operation, field;  ///< as an identity begins and has them
};

constexpr std::array<ChangingSize, 2> kChangingSizes = {{{"gemm;", ";m="}, {"attention_fwd;", ";seqlen_k="}}};

}  // namespace

std::optional<SizedIdentity> sized_identity(std::string_view identity) {
  for (const auto& [operation, field] : kChangingSizes) {
    if (!identity.starts_with(operation)) continue;
    SizedIdentity out{.kind = std::string(identity)};
    const std::size_t at = identity.find(field);
    if (at == std::string_view::npos) return out;  // at its default, which is 1
    const std::size_t begin = at + field.size(), end = identity.find(';', begin);
    const std::string_view digits = identity.substr(begin, end - begin);
    const auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out.size);
    if (error != std::errc{} || last != digits.data() + digits.size()) return std::nullopt;
    out.kind.erase(at, field.size() + digits.size());
    return out;
  }
  return std::nullopt;
}

std::optional<MeasuredInterval> interval_of(std::span<const MeasuredSize> sizes, std::int64_t size) {
  const auto above = std::ranges::lower_bound(sizes, size, {}, &MeasuredSize::size);
  if (above == sizes.end() || above == sizes.begin() || above->size == size) return std::nullopt;
  const MeasuredSize& below = *(above - 1);
  if (!(below.seconds > 0)) return std::nullopt;
  return MeasuredInterval{.low = below.size,
                          .high = above->size,
                          .recipe = above->recipe,
                          .seconds = above->seconds,
                          .bound = std::max(1.0, above->seconds / below.seconds),
                          .has_one_recipe = above->recipe == below.recipe};
}

bool is_trusted(const MeasuredInterval& interval) {
  return interval.bound <= kMostBound || (interval.has_one_recipe && interval.high <= kNearEnds * interval.low);
}

}  // namespace tilesmith
