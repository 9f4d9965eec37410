#include "choose/conv/cpu_counts.hpp"

#include <algorithm>
#include <cmath>

#include "choose/rounding.hpp"
#include "problem/conv/problem.hpp"

namespace tilesmith::cpu_conv {

// kernels/cpu/conv/direct.h
Counts direct_data(const ConvProblem& p, const Kernel& kernel) {
  constexpr double kMostPositions = 1024, kMostColumns = 48, kMostRows = 32, kMostFilters = 4, kMostVectors = 8;
  Counts counts;
  const bool forward = p.direction == ConvDirection::forward;
  const ConvSpatial size = forward ? p.out() : p.in();
  const auto phases = [&](std::size_t d) {
    return static_cast<double>(forward ? 1 : std::min(p.stride()[d], p.in()[d]));
  };
  const auto reach = [&](std::size_t d) {  // in pixels of one remainder
    return static_cast<double>((p.filter()[d] - 1) * p.dilation()[d]) / static_cast<double>(p.stride()[d]);
  };
  const auto remainders = [&](std::size_t d) {
    return static_cast<double>(forward ? std::min(p.stride()[d], (p.filter()[d] - 1) * p.dilation()[d] + 1) : 1);
  };
  double taps = static_cast<double>(taps_of(p));
  for (std::size_t d = 0; d < 3; ++d) taps /= phases(d);
  const double words = ceil_div(static_cast<double>(forward ? p.c : p.k), kernel.pack);
  const double columns = static_cast<double>(forward ? p.k : p.c), groups = static_cast<double>(p.groups);
  const double all_lines = std::ceil(static_cast<double>(size[1]) / phases(1));
  const double line = std::ceil(static_cast<double>(size[2]) / phases(2));
  const double pixels_of_task = std::ceil(line / ceil_div(line, kMostPositions)), pitch = pixels_of_task + reach(2);
  const double lines = all_lines / ceil_div(all_lines, std::floor((kMostPositions - pixels_of_task) / pitch) + 1);
  const double groups_of_task =
      std::max(1.0, std::min(groups, std::floor(std::min(kMostRows / words, kMostColumns / columns))));
  const double column_blocks = ceil_div(columns, kMostColumns);
  const double blocks = static_cast<double>(p.batch * size[0]) * phases(1) * phases(2) * (all_lines / lines) *
                        ceil_div(line, kMostPositions);  // of positions
  double met_blocks = blocks;                            // of phases that taps reach: the others copy nothing
  for (std::size_t axis = 0; axis < 3 && !forward; ++axis) met_blocks *= reached(p, axis);
  const double vectors = std::ceil(((lines - 1) * pitch + pixels_of_task) / kernel.lanes);
  const double filters = std::min(columns, kMostFilters);
  const double registers = (kernel.wide ? 32 : 16) - 1 - filters;
  const double together = std::min(kMostVectors, std::floor(registers / filters));
  const double each = words * taps * groups * blocks;
  counts.products = each * vectors * columns * kernel.cycles;
  counts.loads = each * (vectors * std::ceil(columns / kMostFilters) + ceil_div(vectors, together) * columns);
  counts.steps = each * ceil_div(vectors, together) * std::ceil(columns / kMostFilters);
  const double met_lines =
      met_blocks * column_blocks * static_cast<double>(p.filter_d) * remainders(1) * (lines + reach(1)) * remainders(2);
  const double met_pixels = pixels_of_task + reach(2), channels = static_cast<double>(forward ? p.c : p.k);
  // Pixels of several words are turned, a vector of them at a time. Those of one word are copied as they lie where
  // nothing lies between them; else the word is put together by elements.
  const double pace = static_cast<double>(forward ? p.stride_w : 1), elements = channels * groups_of_task;
  const bool turned = words > 1 || (groups_of_task > 1 && std::fmod(channels, kernel.pack) == 0);
  counts.copied = met_lines * groups * words * ceil_div(met_pixels, kernel.lanes);
  counts.lines =
      met_lines * groups / groups_of_task * (turned ? ceil_div(elements, kernel.lanes * kernel.pack) : groups_of_task);
  if (turned)
    counts.gathered = met_lines * groups / groups_of_task * met_pixels * ceil_div(elements, kernel.lanes * kernel.pack);
  else if (channels * groups * pace != kernel.pack)
    counts.scattered = met_lines * groups * channels * met_pixels;
  if (!p.packed_w) {
    counts.packing = groups * words * static_cast<double>(taps_of(p)) * ceil_div(columns, kernel.lanes);
    counts.scattered += groups * static_cast<double>(taps_of(p) * p.c * p.k);
  }
  const double rows = groups_of_task * columns;
  counts.results = blocks * lines * to_multiple(pixels_of_task, kernel.lanes) * (groups / groups_of_task) *
                   ceil_div(rows, kernel.lanes);
  if (rows < kernel.lanes && (groups > groups_of_task || !p.epilogue.empty()))
    counts.tails = pixels(p, size) * groups * columns;
  else if (rows >= kernel.lanes)
    counts.straddling = counts.results * straddling_share(p, kernel);
  counts.tasks = blocks * ceil_div(groups, groups_of_task) * column_blocks;
  return counts;
}

// kernels/cpu/conv/direct_weight.h
Counts direct_weight(const ConvProblem& p, const Kernel& kernel) {
  constexpr double kTasksWanted = 64, kLeastPixels = 1024, kMostPositions = 1024, kMostRows = 32, kMostColumns = 48,
                   kMostTogether = 12, kMostSums = 1 << 16;
  Counts counts;
  const double c = static_cast<double>(p.c), k = static_cast<double>(p.k), groups = static_cast<double>(p.groups);
  const double taps = static_cast<double>(taps_of(p)), most_filters = kernel.wide ? 4 : 2;
  const double line = static_cast<double>(p.out()[2]), lines = static_cast<double>(p.out()[1]);
  const auto reach = [&](std::size_t d) {  // in pixels of one remainder
    return static_cast<double>((p.filter()[d] - 1) * p.dilation()[d]) / static_cast<double>(p.stride()[d]);
  };
  const auto remainders = [&](std::size_t d) {
    return static_cast<double>(std::min(p.stride()[d], (p.filter()[d] - 1) * p.dilation()[d] + 1));
  };
  const double pixels_of_chunk = std::ceil(line / ceil_div(line, kMostPositions)), pitch = pixels_of_chunk + reach(2);
  const double of_chunk = lines / ceil_div(lines, std::floor((kMostPositions - pixels_of_chunk) / pitch) + 1);
  const double columns = k / ceil_div(k, kMostColumns);
  const double most = std::max(1.0, std::min(kMostRows, std::floor(kMostSums / (taps * columns))));
  const double channels = c / ceil_div(c, most), blocks = ceil_div(c, most) * ceil_div(k, kMostColumns);
  const double groups_of_task =
      blocks > 1 ? 1 : std::max(1.0, std::min(groups, std::floor(std::min(most / c, kMostColumns / k))));
  const double tasks = ceil_div(groups, groups_of_task) * blocks;
  const double all_lines = static_cast<double>(p.batch) * static_cast<double>(p.out()[0]) * lines;
  double splits = std::max(1.0, std::min(ceil_div(kTasksWanted, tasks), std::floor(all_lines * line / kLeastPixels)));
  splits = std::max(1.0, ceil_div(all_lines, ceil_div(all_lines, splits)));
  const double filters = std::min(k, most_filters);
  const double together = std::min(kMostTogether, std::floor(((kernel.wide ? 32 : 16) - 1 - filters) / filters));
  const bool joined = pitch == line && p.stride_w == 1;  // nothing lies between lines
  const double vectors = joined ? ceil_div(all_lines * line, kernel.lanes)
                                : all_lines * ceil_div(line, pixels_of_chunk) * ceil_div(pixels_of_chunk, kernel.lanes);
  const double filter_blocks = ceil_div(k, most_filters), weight_blocks = ceil_div(c * taps, together);
  counts.products = groups * k * c * taps * vectors * kernel.cycles;
  counts.loads = groups * vectors * (filter_blocks * c * taps + weight_blocks * k);
  counts.steps = groups * vectors * filter_blocks * weight_blocks;
  const double chunks = std::max(splits, all_lines / of_chunk) * ceil_div(line, pixels_of_chunk);
  const double met_lines = static_cast<double>(p.filter_d) * remainders(1) * (of_chunk + reach(1));
  const double line_vectors = ceil_div(remainders(2) * (pixels_of_chunk + reach(2)), kernel.lanes);
  const double of_x = ceil_div(k, kMostColumns) * met_lines, of_y = c / channels * of_chunk;  // lines of a chunk
  counts.copied = groups * chunks * (c * of_x * line_vectors + k * of_y * ceil_div(pixels_of_chunk, kernel.lanes));
  counts.lines = ceil_div(groups, groups_of_task) * chunks * (of_x * remainders(2) + of_y);
  counts.results = groups * k * c * taps * (chunks + splits / kernel.lanes);
  counts.tails = groups * k * c * taps;
  counts.tasks = splits * tasks;
  return counts;
}

}  // namespace tilesmith::cpu_conv
