#include "choose/conv/cpu_terms.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "choose/rounding.hpp"
#include "instances/conv/cpu.hpp"
#include "problem/conv/problem.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

/// In the order of kCpuConvTerms.
struct Counts {
  double products = 0, loads = 0, spread = 0, steps = 0, lines = 0, copied = 0, gathered = 0, scattered = 0,
         packing = 0, results = 0, tails = 0, zeros = 0, tasks = 0;
};

double to_multiple(double size, double step) {
  return ceil_div(size, step) * step;
}

double pixels(const ConvProblem& p, const ConvSpatial& size) {
  return static_cast<double>(p.batch) * static_cast<double>(size[0]) * static_cast<double>(size[1]) *
         static_cast<double>(size[2]);
}

/// Pairs of a pixel of y and a tap that meet a pixel of x, of one coordinate.
double met(const ConvProblem& p, std::size_t d) {
  constexpr std::int64_t kMost = 512;  // taps that are looked at; the others are taken to be like them
  const std::int64_t stride = p.stride()[d], taps = std::min(p.filter()[d], kMost);
  double pairs = 0;
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    const std::int64_t offset = tap * p.dilation()[d] - p.pad()[d], last = p.in()[d] - 1 - offset;
    const std::int64_t first = offset < 0 ? (-offset + stride - 1) / stride : 0;
    if (last >= 0)
      pairs += static_cast<double>(std::max<std::int64_t>(0, std::min(p.out()[d], last / stride + 1) - first));
  }
  return pairs * static_cast<double>(p.filter()[d]) / static_cast<double>(std::max<std::int64_t>(taps, 1));
}

/// The share of backward data's phases, of one coordinate, that taps reach: those a period apart leave one remainder.
double reached(const ConvProblem& p, std::size_t d) {
  const std::int64_t period = p.stride()[d] / std::gcd(p.stride()[d], p.dilation()[d]);
  const std::int64_t phases = std::min(p.stride()[d], p.in()[d]);
  return static_cast<double>(std::min({p.filter()[d], period, phases})) / static_cast<double>(phases);
}

/// The share of a line of y all of whose taps meet the image.
double all_inside(const ConvProblem& p) {
  const std::int64_t last = p.in_w - 1 - (p.filter_w - 1) * p.dilation_w + p.pad_w;
  if (last < 0) return 0;
  const std::int64_t first = (p.pad_w + p.stride_w - 1) / p.stride_w, end = std::min(p.out()[2], last / p.stride_w + 1);
  return static_cast<double>(std::max<std::int64_t>(0, end - first)) / static_cast<double>(p.out()[2]);
}

/// The kernel: what its instruction and its registers hold.
struct Kernel {
  const CpuGemmInstruction& facts;
  bool tiles, stored, wide;  ///< AMX; elements as they lie are the words; AVX-512
  double lanes, pack, rows, least_rows, panel, step, tile_m, tile_n, tile_k;
  double cycles;  ///< of a product of two vectors, or of as many products

  Kernel(const ConvProblem& p, const KernelConfig& config, const CpuSpec& spec)
      : facts(*CpuConvSubject{config, spec}.facts()),
        tiles(facts.instruction == Instruction::amx_bf16 || facts.instruction == Instruction::amx_int8),
        stored(facts.instruction != Instruction::dot_int16 && facts.elements_per_word * bits_of(p.data_type) == 32),
        wide(spec.vector_bits == 512),
        lanes(spec.vector_bits / 32.0),
        pack(facts.elements_per_word),
        rows(facts.rows),
        least_rows(tiles ? 16 : facts.rows / 2.0),
        panel(facts.columns),
        step(tiles ? 16 : 1),
        tile_m(config.algorithm.tile[0]),
        tile_n(config.algorithm.tile[1]),
        tile_k(config.algorithm.tile[2]),
        cycles(lanes * pack / facts.products_per_cycle) {}

  /// Rows in strips of micro-tiles, those that fill them up included.
  [[nodiscard]] double filled(double some, double strips) const {
    const double each = some / strips;
    return strips * (tiles ? std::max(least_rows, to_multiple(each, least_rows)) : std::max(least_rows, each));
  }
  /// Counts micro-tiles: strips of `some` rows by vectors of columns along `words` of the sum.
  void multiply(Counts& counts, double some, double strips, double vectors, double words) const {
    const double panels = ceil_div(vectors * lanes, panel), all = filled(some, strips);
    counts.products += all * vectors * words * cycles;
    counts.loads += words * (all * panels + strips * vectors) / step;
    counts.steps += strips * panels * words / step;
  }
};

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
  constexpr double kTaskRows = 256;
  Counts counts;
  const double taps = static_cast<double>(p.filter_d * p.filter_h), columns = static_cast<double>(p.k);
  const double elements = taps * static_cast<double>(p.c * p.filter_w), groups = static_cast<double>(p.groups);
  const double words = ceil_div(elements, kernel.step * kernel.pack) * kernel.step;
  const double vectors = ceil_div(columns, kernel.lanes), rows = groups * pixels(p, p.out());
  kernel.multiply(counts, rows, ceil_div(rows, kernel.rows), vectors, words);
  counts.lines = counts.copied = rows * taps;
  counts.results = rows * vectors;
  counts.tails = rows * std::fmod(columns, kernel.lanes);
  counts.tasks = ceil_div(rows, kTaskRows);
  if (!p.packed_w) counts.packing = groups * words * vectors;
  return counts;
}

// kernels/cpu/conv/data.h
Counts blocked_data(const ConvProblem& p, const Kernel& kernel) {
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
  // Of folded taps, lines that are not even, and those that end beyond the image.
  if (folded && !by_lines) counts.scattered = counts.lines * depth * (line_is_even ? 1 - all_inside(p) : 1);
  // Sums that are the result are added up where it lies, but in phases that no tap reaches, where they are zeros.
  double share = 1;
  bool even = true;
  for (std::size_t d = 0; d < 3 && !forward; ++d) {
    share *= reached(p, d);
    even = even && std::min(p.stride()[d], p.in()[d]) == 1;
  }
  const bool direct = even && p.data_type == DataType::fp32 && std::fmod(columns, kernel.lanes) == 0;
  counts.results = direct ? 0 : rows * vectors;
  // A last vector overlaps the one before, where its block has one and nothing follows the sums.
  const double last_columns = columns - (column_blocks - 1) * block_panels * kernel.panel;
  const bool overlaps = last_columns >= kernel.lanes && p.epilogue.empty();
  counts.tails = overlaps ? 0 : rows * std::fmod(columns, kernel.lanes);
  counts.tasks = row_blocks * column_blocks;
  counts.zeros = (1 - share) * counts.tasks * kernel.tile_m * kernel.tile_n / kernel.lanes;
  const double groups = static_cast<double>(p.groups) * phases;
  for (double* count : {&counts.products, &counts.loads, &counts.steps, &counts.lines, &counts.copied,
                        &counts.scattered, &counts.results, &counts.tails, &counts.zeros, &counts.tasks})
    *count *= groups;
  if (!p.packed_w) counts.packing = static_cast<double>(p.groups) * all_taps * words * vectors;
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

// kernels/cpu/conv/direct.h
Counts direct(const ConvProblem& p, const Kernel& kernel) {
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
  const double met_lines = static_cast<double>(p.filter_d) * remainders(1) * (lines + reach(1));
  counts.copied = met_blocks * groups * words * column_blocks * met_lines *
                  ceil_div(remainders(2) * (pixels_of_task + reach(2)), kernel.lanes);
  const double channels = static_cast<double>(forward ? p.c : p.k);
  if (channels < kernel.pack)  // words are put together one by one
    counts.scattered =
        met_blocks * groups * channels * column_blocks * met_lines * remainders(2) * (pixels_of_task + reach(2));
  counts.lines = met_blocks * column_blocks * met_lines * remainders(2) * ceil_div(groups * words, kernel.lanes);
  if (!p.packed_w) {
    counts.packing = groups * words * static_cast<double>(taps_of(p)) * ceil_div(columns, kernel.lanes);
    counts.scattered += groups * static_cast<double>(taps_of(p) * p.c * p.k);
  }
  const double rows = groups_of_task * columns;
  counts.results = blocks * lines * to_multiple(pixels_of_task, kernel.lanes) * (groups / groups_of_task) *
                   ceil_div(rows, kernel.lanes);
  if (rows < kernel.lanes && (groups > groups_of_task || !p.epilogue.empty()))
    counts.tails = pixels(p, size) * groups * columns;
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

Counts counts_of(const ConvProblem& p, const KernelConfig& config, const Kernel& kernel) {
  const bool weight = p.direction == ConvDirection::backward_weight;
  if (std::get<ConvSignature>(config.signature).depthwise) {
    if (kernel.tiles) return channel_tiles(p, kernel);
    if (kernel.facts.instruction == Instruction::dot_int8 && p.c == 1) return depthwise_fours(p, kernel);
    return weight ? depthwise_weight(p, kernel) : depthwise_data(p, kernel);
  }
  if (config.algorithm.pipeline == Pipeline::direct) return weight ? direct_weight(p, kernel) : direct(p, kernel);
  if (overlaps(p, kernel)) return overlapping_lines(p, kernel);
  if (joins(p, kernel)) return joined_taps(p, kernel);
  return weight ? blocked_weight(p, kernel) : blocked_data(p, kernel);
}

}  // namespace

CpuConvTerms cpu_conv_terms(const ConvProblem& p, const KernelConfig& config, const CpuSpec& spec) {
  Counts n;
  if (!is_empty(p) && p.batch > 0) n = counts_of(p, config, Kernel(p, config, spec));
  CpuConvTerms terms = {n.products, n.loads,    n.spread,    n.steps,   n.lines,
                        n.copied,   n.gathered, n.scattered, n.packing, n.results,
                        n.tails,    n.zeros,    n.tasks,     1,         bytes_of(p) / spec.memory_bytes_per_cycle};
  for (double& term : terms) term /= spec.clock_hz;
  return terms;
}

}  // namespace tilesmith
