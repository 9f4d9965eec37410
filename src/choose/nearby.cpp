#include "choose/nearby.hpp"

#include <algorithm>
#include <charconv>

#include "choose/intervals.hpp"

namespace tilesmith {
namespace {

struct OperationSizes {
  std::string_view operation;                ///< as an identity begins
  std::array<std::string_view, 3> fields{};  ///< as it has them
};

constexpr std::array<OperationSizes, 2> kOperationSizes = {
    {{"gemm;", {";m=", ";batch="}}, {"attention_fwd;", {";seqlen_k=", ";seqlen_q=", ";batch="}}}};

bool none_larger(const ChangingSizes& sizes, const ChangingSizes& than) {
  return std::ranges::equal(sizes, than, std::ranges::less_equal());
}

}  // namespace

std::optional<SeveralSizes> sizes_of_identity(std::string_view identity) {
  const auto* known = std::ranges::find_if(
      kOperationSizes, [&](const OperationSizes& each) { return identity.starts_with(each.operation); });
  if (known == kOperationSizes.end()) return std::nullopt;
  SeveralSizes out{.kind = std::string(identity)};
  for (std::size_t i = 0; i < known->fields.size(); ++i) {
    const std::string_view field = known->fields[i];
    const std::size_t at = field.empty() ? std::string::npos : out.kind.find(field);
    if (at == std::string::npos) continue;  // at its default, which is 1
    const std::size_t begin = at + field.size(), end = std::min(out.kind.find(';', begin), out.kind.size());
    const auto [last, error] = std::from_chars(out.kind.data() + begin, out.kind.data() + end, out.sizes[i]);
    if (error != std::errc{} || last != out.kind.data() + end) return std::nullopt;
    out.kind.erase(at, end - at);
  }
  return out;
}

std::optional<MeasuredBox> box_around(std::span<const MeasuredCorner> corners, const ChangingSizes& sizes) {
  const MeasuredCorner *above = nullptr, *below = nullptr;
  for (const MeasuredCorner& corner : corners) {
    if (none_larger(sizes, corner.sizes) && (above == nullptr || corner.seconds < above->seconds)) above = &corner;
    if (none_larger(corner.sizes, sizes) && (below == nullptr || corner.seconds > below->seconds)) below = &corner;
  }
  if (above == nullptr || below == nullptr || !(below->seconds > 0)) return std::nullopt;
  return MeasuredBox{.low = below->sizes,
                     .high = above->sizes,
                     .recipe = above->recipe,
                     .seconds = above->seconds,
                     .bound = std::max(1.0, above->seconds / below->seconds),
                     .has_one_recipe = above->recipe == below->recipe};
}

bool is_trusted(const MeasuredBox& box) {
  if (box.bound <= kMostBound) return true;
  double growth = 1;
  for (std::size_t i = 0; i < box.low.size(); ++i)
    growth *= static_cast<double>(box.high[i]) / static_cast<double>(std::max<std::int64_t>(box.low[i], 1));
  return box.has_one_recipe && growth <= static_cast<double>(kNearEnds);
}

}  // namespace tilesmith
