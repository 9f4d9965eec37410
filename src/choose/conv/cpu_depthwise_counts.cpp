#include "choose/conv/cpu_counts.hpp"

#include <algorithm>
#include <cmath>

#include "choose/rounding.hpp"
#include "problem/conv/problem.hpp"

namespace tilesmith::cpu_conv {
namespace {

/// Vectors of the channels of all groups, and the channels of a last one that is not whole.
struct LaneVectors {
  double channels, vectors, rest;

  LaneVectors(const ConvProblem& p, double lanes, double block)
      : channels(static_cast<double>(p.groups * p.c)),
        vectors(ceil_div(channels, lanes)),
        rest(std::fmod(channels, block)) {
    if (rest >= lanes) rest = 0;  // the last vector begins earlier
  }
};

}  // namespace

// kernels/cpu/conv/depthwise.h
Counts depthwise_data(const ConvProblem& p, const Kernel& kernel) {
  constexpr double kBlockVectors = 32, kTogether = 8, kTaskPixels = 512;
  constexpr double kSharedLoads = 0.6;  // where the next line meets the same rows of the image
  Counts counts;
  const bool forward = p.direction == ConvDirection::forward, wide = kernel.wide;
  const bool narrow = p.c > 1 && (static_cast<double>(p.c) < kernel.lanes || p.data_type != DataType::fp32);
  const LaneVectors channels(p, kernel.lanes, kBlockVectors * kernel.lanes);
  const double words = ceil_div(static_cast<double>(p.c), kernel.pack), vectors = channels.vectors;
  const double phases = static_cast<double>(forward ? 1 : std::min(p.stride_w, p.in_w));
  const double taps = static_cast<double>(p.filter_w) / phases, pace = static_cast<double>(forward ? p.stride_w : 1);
  const double line = static_cast<double>(forward ? p.out()[2] : p.in_w) / phases;
  const double all_pixels = pixels(p, forward ? p.out() : p.in());
  const double rows = static_cast<double>(p.batch) * met(p, 0) * met(p, 1) * phases;  // of taps, for each line
  const double products = static_cast<double>(p.batch) * met(p, 0) * met(p, 1) * met(p, 2) * words;
  counts.products = products * vectors * kernel.cycles;
  counts.scattered = products * channels.rest;
  // What slides brings each pixel of the image once for neighbouring taps.
  const bool slides =
      p.dilation_w == 1 &&
      (forward ? pace <= 2 && (taps == 3 || (kernel.pack == 1 && (taps == 2 || taps == 4 || taps == 5 || taps == 7)))
               : taps <= 7) &&
      (p.c == 1 || taps <= 3);
  if (channels.channels < kernel.lanes) {
    counts.steps = rows * line;
  } else if (slides) {
    counts.steps = rows * std::ceil(line / kTogether) * vectors;
    counts.loads = counts.steps * words * ((std::min(line, kTogether) - 1) * pace + taps);
    if (wide && p.c == 1 && pace == 1 && p.filter_h > 1 && p.stride_h == 1) counts.loads *= kSharedLoads;
  } else {
    // Pixels that all taps meet go together, the others one by one.
    const double reach = static_cast<double>((p.filter_w - 1) * p.dilation_w);
    const double inside = std::max(0.0, std::floor((static_cast<double>(p.in_w) - reach - 1) / pace) + 1);
    const double whole = std::floor(std::min(line, forward ? inside : line - taps) / kTogether);
    counts.steps = rows * vectors * (std::max(whole, 0.0) + line - std::max(whole, 0.0) * kTogether);
    counts.loads = products * vectors;
  }
  if (narrow) counts.spread = counts.loads;
  counts.packing = vectors * static_cast<double>(taps_of(p)) * words;
  counts.results = all_pixels * vectors;
  counts.lines = rows;
  counts.tasks = ceil_div(all_pixels / line, std::max(1.0, std::floor(kTaskPixels / line))) *
                 ceil_div(channels.channels, kBlockVectors * kernel.lanes);
  return counts;
}

// kernels/cpu/conv/depthwise_fours.h
Counts depthwise_fours(const ConvProblem& p, const Kernel& kernel) {
  constexpr double kBlockVectors = 32, kTogether = 8, kTaskPixels = 512;
  Counts counts;
  const LaneVectors channels(p, kernel.lanes, kBlockVectors * kernel.lanes);
  const double vectors = channels.vectors, taps = static_cast<double>(p.filter_w);
  const double rows_of_taps = static_cast<double>(p.filter_d * p.filter_h), words = ceil_div(rows_of_taps, kernel.pack);
  const double line = static_cast<double>(p.out()[2]), all_pixels = pixels(p, p.out());
  const bool slides =
      p.dilation_w == 1 && p.stride_w <= 2 && (taps == 2 || taps == 3 || taps == 4 || taps == 5 || taps == 7);
  // Runs have all their pixels, or half of them, where neighbouring taps share words.
  const double last = std::fmod(line, kTogether), half = kTogether / 2;
  const double met = std::floor(line / kTogether) * kTogether + (last == 0                ? 0
                                                                 : slides && last <= half ? half
                                                                                          : kTogether);
  const bool pairs = p.filter_d == 1 && std::fmod(rows_of_taps, kernel.pack) > 0 && p.stride_h == 1 &&
                     (p.dilation_h == 1 || p.filter_h == 1);
  const double lines = all_pixels / line, runs = std::ceil(line / kTogether);
  // Lines whose words are brought.
  const double together =
      pairs ? lines * ceil_div(static_cast<double>(p.out()[1]), 2) / static_cast<double>(p.out()[1]) : lines;
  counts.products = lines * met * words * taps * vectors * kernel.cycles;
  counts.steps = together * runs * words * vectors * (slides ? 1 : taps);
  counts.loads =
      together * words * vectors * (slides ? (met - runs) * static_cast<double>(p.stride_w) + runs * taps : met * taps);
  counts.packing = vectors * words * taps;
  counts.results = all_pixels * vectors;
  counts.lines = lines;
  counts.tasks = ceil_div(all_pixels / line, std::max(1.0, std::floor(kTaskPixels / line))) *
                 ceil_div(channels.channels, kBlockVectors * kernel.lanes);
  return counts;
}

// kernels/cpu/conv/channel_tiles.h
Counts channel_tiles(const ConvProblem& p, const Kernel& kernel) {
  constexpr double kMostPositions = 512, kTile = 16, kBlockVectors = 4;
  Counts counts;
  const bool forward = p.direction == ConvDirection::forward, flat = !forward || (p.stride_h == 1 && p.stride_w == 1);
  const auto phases = [&](std::size_t d) {
    return static_cast<double>(forward ? 1 : std::min(p.stride()[d], p.in()[d]));
  };
  const auto pace = [&](std::size_t d) { return static_cast<double>(forward ? p.stride()[d] : 1); };
  const auto taps = [&](std::size_t d) { return static_cast<double>(p.filter()[d]) / phases(d); };
  const auto reach = [&](std::size_t d) {
    return static_cast<double>((p.filter()[d] - 1) * p.dilation()[d]) /
           static_cast<double>(forward ? 1 : p.stride()[d]);
  };
  const ConvSpatial size = forward ? p.out() : p.in();
  const double all_lines = static_cast<double>(size[1]) / phases(1), line = static_cast<double>(size[2]) / phases(2);
  const double pixels_of_task = line / ceil_div(line, kMostPositions), pitch = pixels_of_task + reach(2);
  const double most = flat ? std::floor((kMostPositions - pixels_of_task) / pitch) + 1
                           : std::max(1.0, std::floor(kMostPositions / to_multiple(pixels_of_task, kTile)));
  const double runs = ceil_div(all_lines, most), lines = all_lines / runs;
  const double outer = static_cast<double>(p.batch * size[0]) * phases(1) * phases(2);  // of all phases
  const double tasks_of_block = outer * runs * ceil_div(line, kMostPositions);
  const double channels = static_cast<double>(p.groups * p.c), vectors = ceil_div(channels, kernel.lanes);
  const double tiles =
      flat ? std::ceil(((lines - 1) * pitch + pixels_of_task) / kTile) : lines * std::ceil(pixels_of_task / kTile);
  const double together = p.dilation_w == 1 ? kernel.pack : 1;
  const double steps = taps(0) * taps(1) * std::ceil(taps(2) / together);
  const double blocks = ceil_div(channels, kBlockVectors * kernel.lanes);
  counts.products = tasks_of_block * tiles * steps * vectors * kTile * kTile * kernel.cycles;
  counts.copied = tasks_of_block * taps(0) * ((lines - 1) * pace(1) + reach(1) + 1) *
                  ((pixels_of_task - 1) * pace(2) + reach(2) + 1) * ceil_div(channels, kernel.lanes * kernel.pack);
  counts.packing = vectors * (static_cast<double>(taps_of(p)) * ceil_div(static_cast<double>(p.c), kernel.pack) +
                              tasks_of_block * steps * kTile);
  counts.steps = tasks_of_block * vectors * ceil_div(tiles, 4) * steps;
  counts.results = pixels(p, size) * vectors;
  counts.lines = outer * all_lines * blocks;
  counts.tasks = tasks_of_block * blocks;
  return counts;
}

// kernels/cpu/conv/depthwise_weight.h
Counts depthwise_weight(const ConvProblem& p, const Kernel& kernel) {
  constexpr double kTasksWanted = 64, kLeastPixels = 512, kBlockVectors = 2, kRun = 64;
  Counts counts;
  const double most = kernel.wide ? 8 : 4;  // taps, or channels of a group, whose sums are in registers
  const LaneVectors channels(p, kernel.lanes, kBlockVectors * kernel.lanes);
  const double width = static_cast<double>(p.c), vectors = channels.vectors, taps = static_cast<double>(taps_of(p));
  const double blocks = ceil_div(channels.channels, kBlockVectors * kernel.lanes);
  const double lines = static_cast<double>(p.batch * p.out()[0] * p.out()[1]), line = static_cast<double>(p.out()[2]);
  double splits = std::max(1.0, std::min(ceil_div(kTasksWanted, blocks), std::floor(lines * line / kLeastPixels)));
  splits = std::max(1.0, ceil_div(lines, std::max(1.0, ceil_div(lines, splits))));
  const double rows = static_cast<double>(p.batch) * met(p, 0) * met(p, 1), pairs = rows * met(p, 2);
  counts.products = pairs * width * vectors * kernel.cycles;
  if (p.c == 1) {
    const double parts = ceil_div(static_cast<double>(p.filter_w), most);
    counts.loads = (pairs + rows * line * parts) * vectors;
    counts.steps = rows * parts * vectors;
    counts.lines = rows * blocks;
    if (channels.channels < kernel.lanes) counts.scattered = 2 * pairs * channels.channels;
  } else {
    counts.copied = (pairs + lines * line) * vectors;
    if (width < kernel.lanes) counts.spread = pairs * width * vectors;
    counts.steps = rows * static_cast<double>(p.filter_w) * ceil_div(line, kRun) * blocks * ceil_div(width, most);
    counts.lines = pairs * blocks;
    if (channels.channels < kBlockVectors * kernel.lanes) counts.scattered = (pairs + lines * line) * channels.channels;
  }
  counts.results = 2 * splits * taps * width * vectors;
  counts.tails = channels.channels * taps * width;
  counts.tasks = splits * blocks;
  return counts;
}

}  // namespace tilesmith::cpu_conv
