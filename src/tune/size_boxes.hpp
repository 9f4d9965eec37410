// Which sizes are raced where several change at once, so that those between them lie in boxes that are trusted
// (choose/nearby.hpp).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "choose/nearby.hpp"
#include "choose/tuning_file.hpp"

namespace tilesmith {

/// Every size from `low` to `high`, both included.
struct SizeBox {
  ChangingSizes low{1, 1, 1}, high{1, 1, 1};

  friend bool operator==(const SizeBox&, const SizeBox&) = default;
};

/// Two boxes that meet near the middle of the side whose ends differ most, as a ratio. Nothing where no side has a size
/// between its ends.
[[nodiscard]] std::vector<SizeBox> halves_of(const SizeBox& box);

/// The corners of one kind that the file has for a class of devices.
[[nodiscard]] std::vector<MeasuredCorner> corners_of(const TuningFile& file, std::string_view device_class,
                                                     std::string_view kind);

/// Halves a box until each part is trusted.
class BoxSearch {
 public:
  explicit BoxSearch(SizeBox whole) : open_{whole} {}

  /// Sizes to race next, at most so many, those of the largest boxes first: corners of boxes that are not settled, and
  /// that `corners`, all that was measured, do not have. None: every box is settled.
  [[nodiscard]] std::vector<ChangingSizes> next(std::span<const MeasuredCorner> corners, std::size_t most);

  struct Part {
    SizeBox box;
    MeasuredBox measured;  ///< around the box's middle
  };
  /// The settled boxes: trusted, or without a size between their ends.
  [[nodiscard]] const std::vector<Part>& settled() const { return settled_; }
  /// Boxes that were not settled: there the policy decides.
  [[nodiscard]] const std::vector<SizeBox>& open() const { return open_; }

 private:
  std::vector<SizeBox> open_;
  std::vector<Part> settled_;
};

}  // namespace tilesmith
