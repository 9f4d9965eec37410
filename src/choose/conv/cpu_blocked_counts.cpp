#include "choose/conv/cpu_counts.hpp"

#include <algorithm>
#include <cmath>

#include "choose/rounding.hpp"
#include "problem/conv/problem.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith::cpu_conv {
namespace {

/// The share of a line of y all of whose taps meet the image.
double all_inside(const ConvProblem& p) {
  const std::int64_t last = p.in_w - 1 - (p.filter_w - 1) * p.dilation_w + p.pad_w;
  if (last < 0) return 0;
  const std::int64_t first = (p.pad_w + p.stride_w - 1) / p.stride_w, end = std::min(p.out()[2], last / p.stride_w + 1);
  return static_cast<double>(std::max<std::int64_t>(0, end - first)) / static_cast<double>(p.out()[2]);
}

/// Whether taps of a row are folded into the channels (Call in kernels/cpu/conv/words.h).
bool folds(const ConvProblem& p, const Kernel& kernel) {
  return static_cast<double>(p.c) < kernel.lanes && p.filter_w > 1 && p.dilation_w == 1 &&
         (p.direction == ConvDirection::forward || (p.direction == ConvDirection::backward_weight && p.groups == 1));
}

/// Whether they are columns of backward data, whose lines of sums overlap (the same).
bool overlaps(const ConvProblem& p, const Kernel& kernel) {
  constexpr std::int64_t kMostOverlapped = 160;
  return p.direction == ConvDirection::backward_data && 2 * static_cast<double>(p.c) <= kernel.lanes &&
         p.filter_w > 1 && p.dilation_w == 1 && p.c * p.filter_w <= kMostOverlapped;
}

// kernels/cpu/conv/data_lines.h
Counts overlapping_lines(const ConvProblem& p, const Kernel& kernel) {
  constexpr double kFewTiles = 3, kMostPixels = 2048;
  Counts counts;
  const double columns = static_cast<double>(p.c * p.filter_w), vectors = ceil_div(columns, kernel.lanes);
  const double whole_words = kernel.step * kernel.pack, depth = static_cast<double>(p.k);
  const double words = ceil_div(depth, whole_words) * kernel.step, stride = static_cast<double>(p.stride_w);
  const double width = ceil_div(vectors * kernel.lanes, kernel.panel) * kernel.panel;
  const double most_rows = std::min(kFewTiles * kernel.tile_m, kernel.tile_m * kernel.tile_n / width);
  const double most =
      std::clamp((most_rows - ceil_div(static_cast<double>(p.filter_w), stride) - 1) * stride, 1.0, kMostPixels);
  const double parts = ceil_div(static_cast<double>(p.in_w), most);
  const double tasks = static_cast<double>(p.groups * p.batch * p.in()[0] * p.in()[1]) * parts;
  const double rows = std::min(static_cast<double>(p.out()[2]),
                               (static_cast<double>(p.in_w) / parts + static_cast<double>(p.filter_w)) / stride);
  const double all_taps = static_cast<double>(taps_of(p)) / static_cast<double>(p.filter_w);
  double taps = all_taps;
  for (std::size_t d = 0; d < 2; ++d) taps /= static_cast<double>(std::min(p.stride()[d], p.in()[d]));
  kernel.multiply(counts, tasks * rows, tasks * ceil_div(rows, kernel.rows), vectors, taps * words);
  counts.lines = tasks * rows * taps;
  if (!(kernel.stored && std::fmod(depth, whole_words) == 0))
    counts.copied = counts.lines * ceil_div(depth, kernel.lanes * kernel.pack);
  const double elements = static_cast<double>(p.groups * p.c) * pixels(p, p.in());
  counts.results = tasks * rows * vectors + 2 * elements / kernel.lanes;
  if (!p.epilogue.empty()) counts.tails = elements;
  counts.tasks = tasks;
  if (!p.packed_w) counts.packing = static_cast<double>(p.groups) * all_taps * words * vectors;
  return counts;
}

/// Whether all taps of a pixel are one row of words (JoinedTaps in kernels/cpu/conv/joined_taps.h).
bool joins(const ConvProblem& p, const Kernel& kernel) {
  constexpr double kMostJoined = 8;
  if (!kernel.tiles || p.direction != ConvDirection::forward || p.groups > 1 || !folds(p, kernel)) return false;
  const double rows = static_cast<double>(p.filter_d * p.filter_h), elements = static_cast<double>(p.c * p.filter_w);
  const double step = kernel.step * kernel.pack, steps = ceil_div(rows * elements, step);
  return steps < rows * ceil_div(elements, step) && steps <= kMostJoined;
}

// kernels/cpu/conv/joined_taps.h
Counts joined_taps(const ConvProblem& p, const Kernel& kernel) {
  constexpr double kTaskRows = 256, kMostBytes = 64;
  Counts counts;
  const double taps = static_cast<double>(p.filter_d * p.filter_h), columns = static_cast<double>(p.k);
  const double elements = static_cast<double>(p.c * p.filter_w);  // of a row of the filter
  const double words = ceil_div(taps * elements, kernel.step * kernel.pack) * kernel.step;
  const double vectors = ceil_div(columns, kernel.lanes), rows = pixels(p, p.out());
  const double strips = ceil_div(rows, kernel.rows), lines = rows / static_cast<double>(p.out()[2]);
  kernel.multiply(counts, rows, strips, vectors, words);
  // Lines that one load holds are copied whole, others element by element.
  const bool dense = elements * bits_of(p.data_type) / 8 <= kMostBytes;
  counts.lines = (lines + strips) * taps;
  (dense ? counts.copied : counts.scattered) = rows * taps * (dense ? 1 : elements);
  counts.results = rows * vectors;
  counts.straddling = counts.results * straddling_share(p, kernel);
  // A last vector overlaps the one before in its panel.
  const double last_columns = columns - (ceil_div(columns, kernel.panel) - 1) * kernel.panel;
  if (last_columns < kernel.lanes) counts.tails = rows * last_columns;
  counts.tasks = ceil_div(rows, kTaskRows);
  if (!p.packed_w) {
    counts.packing = words * vectors;
    (dense ? counts.gathered : counts.scattered) += columns * taps * (dense ? 1 : elements);
  }
  return counts;
}

}  // namespace

// kernels/cpu/conv/data.h
Counts blocked_data(const ConvProblem& p, const Kernel& kernel) {
  if (overlaps(p, kernel)) return overlapping_lines(p, kernel);
  if (joins(p, kernel)) return joined_taps(p, kernel);
  constexpr double kFewTiles = 3,
                   kMostSegments = 17;  // of rows of a task that packs w; of a block that is read in place
  Counts counts;
  const bool forward = p.direction == ConvDirection::forward;
  double phases = 1, taps = static_cast<double>(taps_of(p));
  for (std::size_t d = 0; d < 3 && !forward; ++d) phases *= static_cast<double>(std::min(p.stride()[d], p.in()[d]));
  const double columns = static_cast<double>(forward ? p.k : p.c);
  double depth = static_cast<double>(forward ? p.c : p.k);
  if (folds(p, kernel)) {
    depth *= static_cast<double>(p.filter_w);
    taps /= static_cast<double>(p.filter_w);
  }
  const double all_taps = taps, whole_words = kernel.step * kernel.pack;
  taps /= phases;
  const double rows = std::max(1.0, std::ceil(pixels(p, forward ? p.out() : p.in()) / phases));
  const double words = ceil_div(depth, whole_words) * kernel.step, vectors = ceil_div(columns, kernel.lanes);
  const double panels = ceil_div(vectors * kernel.lanes, kernel.panel);
  const bool tasks_pack = !p.packed_w && rows <= kFewTiles * kernel.tile_m;
  const double most_rows = (tasks_pack ? kFewTiles : 1) * kernel.tile_m;
  const double row_blocks = ceil_div(rows, most_rows);
  const double most_columns =
      std::min(kernel.tile_n, kernel.tile_m * kernel.tile_n / to_multiple(std::min(rows, most_rows), kernel.rows));
  const double block_panels = std::max(1.0, std::floor(most_columns / kernel.panel));
  const double column_blocks = ceil_div(panels, block_panels);
  const double strips = row_blocks * ceil_div(std::ceil(rows / row_blocks), kernel.rows);
  kernel.multiply(counts, rows, strips, vectors, taps * words);

  counts.lines = rows * taps * column_blocks;
  const double segments =
      taps * words <= kernel.tile_k ? taps : std::floor((kernel.tile_k - 2) / std::max(words, 1.0)) + 2;
  const bool integers = p.data_type == DataType::int8, whole = std::fmod(depth, whole_words) == 0;
  const bool raised = kernel.facts.instruction == Instruction::dot_int8;
  const bool folded = folds(p, kernel), line_is_even = !folded || p.groups == 1;
  const bool few_segments = segments <= kMostSegments;
  const bool in_place = kernel.stored && few_segments &&
                        (folded ? kernel.pack == 1 && line_is_even : (integers || whole) && (!raised || p.groups == 1));
  // Lines of folded taps are copied once for all pixels of a line of the result, and looked up so. Those of groups are
  // counted as copies of each pixel's, which they were when the cycles were fitted.
  constexpr double kLeastLine = 8;
  const double apart = static_cast<double>(p.stride_w * p.c), line = static_cast<double>(p.out()[2]);
  const bool by_lines = folded && line_is_even && !in_place && few_segments && line >= kLeastLine &&
                        segments * apart <= kernel.tile_k * kernel.pack;
  if (by_lines) {
    counts.copied = counts.lines * apart / (kernel.lanes * kernel.pack);
    counts.lines /= std::min(line, most_rows);
  } else if (!in_place) {
    counts.copied = counts.lines * ceil_div(depth, kernel.lanes * kernel.pack);
    // AVX-512 copies parts of words as they lie one by one too, but a fit is better without them (the log).
    if (!(kernel.stored && kernel.wide)) counts.scattered = counts.lines * std::fmod(depth, kernel.lanes * kernel.pack);
  } else if (raised) {  // the image once for all taps, and what its neighbours meet of it
    counts.copied = rows * taps / std::clamp(taps, 1.0, 3.0) * ceil_div(depth, kernel.lanes * kernel.pack) / 2;
  }
  // Of folded taps, lines that are not even go element by element, and so do those that end beyond the image where no
  // mask reads their words.
  const double cut = folded && !by_lines ? (line_is_even ? 1 - all_inside(p) : 1) : 0;
  if (line_is_even && kernel.stored && kernel.wide)
    counts.copied += in_place ? counts.lines * cut * ceil_div(depth, kernel.lanes * kernel.pack) : 0;
  else if (cut > 0)
    counts.scattered = counts.lines * depth * cut;
  // Sums that are the result are added up where it lies, but in phases that no tap reaches, where they are zeros.
  double share = 1;
  bool even = true;
  for (std::size_t d = 0; d < 3 && !forward; ++d) {
    share *= reached(p, d);
    even = even && std::min(p.stride()[d], p.in()[d]) == 1;
  }
  const bool direct = even && p.data_type == DataType::fp32 && std::fmod(columns, kernel.lanes) == 0;
  counts.results = direct ? 0 : rows * vectors;
  counts.straddling = counts.results * straddling_share(p, kernel);
  // A last vector overlaps the one before, where its block has one and nothing follows the sums.
  const double last_columns = columns - (column_blocks - 1) * block_panels * kernel.panel;
  const bool overlaps = last_columns >= kernel.lanes && p.epilogue.empty();
  counts.tails = overlaps ? 0 : rows * std::fmod(columns, kernel.lanes);
  counts.tasks = row_blocks * column_blocks;
  counts.zeros = (1 - share) * counts.tasks * kernel.tile_m * kernel.tile_n / kernel.lanes;
  const double groups = static_cast<double>(p.groups) * phases;
  for (double* count :
       {&counts.products, &counts.loads, &counts.steps, &counts.lines, &counts.copied, &counts.scattered,
        &counts.results, &counts.straddling, &counts.tails, &counts.zeros, &counts.tasks})
    *count *= groups;
  // Forward the lines of as many filters as a vector has lanes are turned, a vector of words of each at a time.
  if (!p.packed_w)
    counts.packing =
        static_cast<double>(p.groups) * all_taps * vectors * (forward ? to_multiple(words, kernel.lanes) : words);
  return counts;
}

// kernels/cpu/conv/weight.h
Counts blocked_weight(const ConvProblem& p, const Kernel& kernel) {
  constexpr double kTasksWanted = 64, kLeastPixels = 512;
  Counts counts;
  const bool folded = folds(p, kernel);
  const double c = static_cast<double>(p.c * (folded ? p.filter_w : 1)), k = static_cast<double>(p.k);
  const double taps = static_cast<double>(taps_of(p)) / static_cast<double>(folded ? p.filter_w : 1);
  const double rows = taps * c, vectors = ceil_div(k, kernel.lanes), all_pixels = pixels(p, p.out());
  const double row_blocks = ceil_div(rows, kernel.tile_m), column_blocks = ceil_div(k, kernel.tile_n);
  const double groups = static_cast<double>(p.groups), tasks = groups * row_blocks * column_blocks;
  double splits = std::max(1.0, std::min(ceil_div(kTasksWanted, tasks), std::floor(all_pixels / kLeastPixels)));
  splits = std::max(1.0, ceil_div(all_pixels, to_multiple(ceil_div(all_pixels, splits), kernel.tile_k * kernel.pack)));
  const double words = to_multiple(ceil_div(all_pixels, kernel.pack), kernel.step);
  const bool in_place = kernel.stored && kernel.pack == 1 && c >= kernel.rows &&
                        (folded ? c <= kernel.tile_m : std::fmod(c, kernel.least_rows) == 0);
  const bool turned = kernel.tiles && !folded && std::fmod(c, kernel.lanes) == 0 && std::fmod(k, kernel.lanes) == 0;
  const double strips =
      in_place ? taps * ceil_div(c, kernel.rows) : row_blocks * ceil_div(std::ceil(rows / row_blocks), kernel.rows);
  kernel.multiply(counts, groups * rows, groups * strips, vectors, words);

  const double lines = groups * column_blocks * all_pixels * taps;
  if (in_place || kernel.tiles) counts.lines = lines;
  if (!in_place) counts.copied = lines * ceil_div(c, kernel.lanes);
  if (!in_place && !turned) counts.gathered = lines;
  if (!(kernel.stored && kernel.pack == 1 && kernel.wide))
    counts.scattered = (in_place ? 0 : lines * std::fmod(c, kernel.lanes)) +
                       groups * row_blocks * all_pixels * std::fmod(k, kernel.lanes);
  counts.packing = groups * row_blocks * all_pixels * vectors;
  counts.results = groups * rows * vectors * (splits > 1 ? splits + 1 : 1);
  counts.tails = groups * taps * k * (ceil_div(c, kernel.lanes) + std::fmod(c, kernel.lanes));
  counts.tasks = tasks * splits;
  return counts;
}

}  // namespace tilesmith::cpu_conv
