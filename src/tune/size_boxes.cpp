#include "tune/size_boxes.hpp"

#include <algorithm>

#include "tune/size_range.hpp"

namespace tilesmith {
namespace {

double ratio_of_side(const SizeBox& box, std::size_t side) {
  return static_cast<double>(box.high[side]) / static_cast<double>(box.low[side]);
}

double growth_of(const SizeBox& box) {
  double growth = 1;
  for (std::size_t side = 0; side < box.low.size(); ++side) growth *= ratio_of_side(box, side);
  return growth;
}

bool is_measured(std::span<const MeasuredCorner> corners, const ChangingSizes& sizes) {
  return std::ranges::find(corners, sizes, &MeasuredCorner::sizes) != corners.end();
}

/// What dispatch would find around sizes in the box's middle.
std::optional<MeasuredBox> around_middle(std::span<const MeasuredCorner> corners, const SizeBox& box) {
  ChangingSizes middle = box.low;
  for (std::size_t side = 0; side < middle.size(); ++side)
    if (box.high[side] - box.low[side] > 1) middle[side] = middle_of(box.low[side], box.high[side]);
  return box_around(corners, middle);
}

}  // namespace

std::vector<SizeBox> halves_of(const SizeBox& box) {
  std::size_t longest = box.low.size();
  for (std::size_t side = 0; side < box.low.size(); ++side)
    if (box.high[side] - box.low[side] > 1 &&
        (longest == box.low.size() || ratio_of_side(box, side) > ratio_of_side(box, longest)))
      longest = side;
  if (longest == box.low.size()) return {};
  SizeBox below = box, above = box;
  below.high[longest] = above.low[longest] = middle_of(box.low[longest], box.high[longest]);
  return {below, above};
}

std::vector<MeasuredCorner> corners_of(const TuningFile& file, std::string_view device_class, std::string_view kind) {
  std::vector<MeasuredCorner> corners;
  for (const TunedChoice& choice : file.choices) {
    if (choice.device_class != device_class) continue;
    const auto sized = sizes_of_identity(choice.problem);
    if (sized && sized->kind == kind) corners.push_back({sized->sizes, choice.recipe, choice.seconds});
  }
  return corners;
}

std::vector<ChangingSizes> BoxSearch::next(std::span<const MeasuredCorner> corners, std::size_t most) {
  std::vector<SizeBox> waiting;
  while (!open_.empty()) {
    const SizeBox box = open_.back();
    open_.pop_back();
    const bool has_corners = is_measured(corners, box.low) && is_measured(corners, box.high);
    const std::optional<MeasuredBox> around = has_corners ? around_middle(corners, box) : std::nullopt;
    if (!around) {
      waiting.push_back(box);
      continue;
    }
    std::vector<SizeBox> halves = is_trusted(*around) ? std::vector<SizeBox>() : halves_of(box);
    if (halves.empty())
      settled_.push_back({box, *around});
    else
      open_.insert(open_.end(), halves.begin(), halves.end());
  }
  open_ = std::move(waiting);
  std::ranges::stable_sort(open_, std::ranges::greater(), growth_of);
  std::vector<ChangingSizes> wanted;
  for (const SizeBox& box : open_)
    for (const ChangingSizes& corner : {box.low, box.high})
      if (wanted.size() < most && !is_measured(corners, corner) && std::ranges::find(wanted, corner) == wanted.end())
        wanted.push_back(corner);
  return wanted;
}

}  // namespace tilesmith
