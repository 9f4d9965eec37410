#include "choose/gemm/cpu_terms.hpp"

#include <algorithm>
#include <cmath>

#include "choose/rounding.hpp"
#include "instances/gemm/cpu.hpp"
#include "problem/gemm/problem.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

/// In the order of kCpuGemmTerms.
struct Counts {
  double products = 0, dots = 0, visits = 0, reads_a = 0, reads_b = 0, sums = 0, packed_a = 0, turned_a = 0,
         packed_b = 0, turned_b = 0, runs = 0, folds = 0, weights = 0, stored_b = 0, parts = 0, results = 0, tails = 0,
         far = 0, tasks = 0;
};

double round_up(double size, double step) {
  return ceil_div(size, step) * step;
}

/// Steps of `step` elements along k; a second GEMM begins with a step of its own.
double steps_of(const GemmProblem& p, double step) {
  return ceil_div(static_cast<double>(p.k), step) + ceil_div(static_cast<double>(p.k2), step);
}

bool is_amx(const Algorithm& algorithm) {
  return algorithm.instruction == Instruction::amx_bf16 || algorithm.instruction == Instruction::amx_int8;
}

/// What the kernels' grid can be cut into without splitting k: tiles shrink to two micro-tiles of rows, and to a panel
/// of columns (of AMX and of few rows two).
double most_tasks(const GemmProblem& p, const CpuGemmInstruction& facts, const Algorithm& algorithm) {
  const bool skinny = algorithm.pipeline == Pipeline::skinny;
  const double rows = skinny ? 1 : ceil_div(static_cast<double>(p.m), 2.0 * facts.rows);
  const double columns = (skinny || is_amx(algorithm) ? 2.0 : 1.0) * facts.columns;
  return static_cast<double>(p.batch) * rows * ceil_div(static_cast<double>(p.n), columns);
}

/// The kernel and the sizes that it meets, as numbers to count with.
struct Kernel {
  const CpuGemmInstruction& facts;
  bool skinny, tiles;  ///< few rows; AMX
  double lanes, pack, rows, columns, tile_m, tile_n, tile_k;
  double m, n, batch, words;  ///< words of 32 bits along k, those that fill up an AMX tile included
  double blocks;              ///< of k
  bool row_a, row_b;

  Kernel(const GemmProblem& p, const CpuGemmSubject& subject)
      : facts(*subject.facts()),
        skinny(subject.config.algorithm.pipeline == Pipeline::skinny),
        tiles(is_amx(subject.config.algorithm)),
        lanes(subject.spec.vector_bits / 32.0),
        pack(facts.elements_per_word),
        rows(facts.rows),
        columns(facts.columns),
        tile_m(subject.tile_m()),
        tile_n(subject.tile_n()),
        tile_k(subject.tile_k()),
        m(static_cast<double>(p.m)),
        n(static_cast<double>(p.n)),
        batch(static_cast<double>(p.batch)),
        words(tiles ? 16 * steps_of(p, 16 * pack) : steps_of(p, pack)),
        blocks(std::max(1.0, steps_of(p, tile_k))),
        row_a(p.order_a == MatrixOrder::row),
        row_b(p.order_b == MatrixOrder::row) {}

  /// Parts of vectors of words along k: at most the last one of k, and of k2.
  [[nodiscard]] double last_parts(const GemmProblem& p) const {
    return part(static_cast<double>(p.k), lanes * pack) + part(static_cast<double>(p.k2), lanes * pack);
  }
  /// What the last step of a size takes if it is not whole: one read or write under a mask, or without masks (AVX2) one
  /// for each element.
  [[nodiscard]] double part(double size, double step) const {
    const double rest = std::fmod(size, step);
    return lanes >= 16 ? std::min(rest, 1.0) : rest;
  }
};

/// Lines that are begun where `rows` are read whose elements take `bytes`: short rows share them.
double lines_begun(double rows, double bytes) {
  constexpr double kLine = 64;
  return rows * std::min(1.0, bytes / kLine);
}

/// The tasks of a blocked kernel. As Grid of kernels/cpu/gemm/shape.h.
struct Tasks {
  double row_blocks, column_blocks, count, rows, columns;

  Tasks(const Kernel& kernel, double splits, int threads) {
    const bool keeps_sums = kernel.blocks / splits > 1;
    rows = std::min(kernel.tile_m, round_up(std::max(kernel.m, 1.0), kernel.rows));
    columns = std::min((keeps_sums ? 1 : 2) * kernel.tile_n, round_up(std::max(kernel.n, 1.0), kernel.columns));
    const double parts = kernel.batch * splits;
    const auto tasks = [&] { return parts * ceil_div(kernel.m, rows) * ceil_div(kernel.n, columns); };
    const double wanted = threads <= 1 ? 1 : (splits > 1 && !kernel.tiles ? 2.0 : 4.0) * threads;
    while (tasks() < wanted && (rows > 2 * kernel.rows || columns > kernel.columns)) {
      const bool by_rows = columns <= kernel.columns ||
                           ceil_div(kernel.m, rows) * kernel.n <= 2 * ceil_div(kernel.n, columns) * kernel.m;
      if (by_rows && rows > 2 * kernel.rows)
        rows = round_up(rows / 2, kernel.rows);
      else
        columns = round_up(columns / 2, kernel.columns);
    }
    row_blocks = std::max(1.0, ceil_div(kernel.m, rows));
    column_blocks = std::max(1.0, ceil_div(kernel.n, columns));
    count = std::max(1.0, parts * row_blocks * column_blocks);
  }
};

/// Whether a task writes D row by row: goes_by_rows() in kernels/cpu/gemm/shape.h.
bool goes_by_rows(const GemmProblem& p, const Kernel& kernel, const Tasks& tasks, double splits) {
  constexpr double kMostWords = 64;
  return kernel.blocks == 1 && kernel.words <= kMostWords && (p.k == 0 || p.k2 == 0) && splits == 1 &&
         tasks.rows > 2 * kernel.rows && tasks.columns > kernel.columns &&
         kernel.words * tasks.columns <= kernel.tile_m * kernel.tile_k / kernel.pack;
}

/// lines_collide() there, of a matrix without gaps.
bool lines_collide(double size) {
  return std::fmod(size, 512) == 0;
}

/// Whether a task multiplies rows of B, and columns of A, where they lie: keeps_rows_of_b() and keeps_columns_of_a()
/// there.
bool keeps_rows_of_b(const GemmProblem& p, const Kernel& kernel, const Tasks& tasks, bool packed) {
  constexpr double kFewWords = 64, kFewPanels = 2, kSmallB = 1 << 18, kSmallByRow = 8192;
  if (packed || p.type_a != DataType::fp32 || !kernel.row_b) return false;
  if (std::min(kernel.words, kernel.tile_k) <= kFewWords) return true;
  const bool masks = kernel.lanes == 16, few_columns = kernel.n <= kFewPanels * kernel.columns;
  const double size = static_cast<double>(std::max(p.k, p.k2)) * kernel.n;
  if (tasks.rows <= (masks ? 8 : 4) * kernel.rows) return few_columns || size <= kSmallB;
  return masks && (few_columns || size <= std::max(kSmallB, kSmallByRow * tasks.rows)) && !lines_collide(kernel.n);
}
bool keeps_columns_of_a(const GemmProblem& p, const Kernel& kernel, const Tasks& tasks) {
  constexpr double kFewPanels = 2, kFewWords = 8192;
  if (p.type_a != DataType::fp32 || kernel.row_a) return false;
  const double size = tasks.rows * std::min(kernel.words, kernel.tile_k);
  if (tasks.columns <= kFewPanels * kernel.columns || size <= kFewWords) return true;
  return kernel.lanes == 16 && size <= 1 << 15 && !lines_collide(kernel.m);
}

/// Pages in which lie the rows of D that every panel of a task begins, and those of row-major B where the task packs
/// it. None where D is written past the caches (streams() in kernels/cpu/gemm/epilogue.h).
double pages_of_task(const GemmProblem& p, const Kernel& kernel, const Tasks& tasks, bool packed) {
  constexpr double kPage = 4096, kLine = 64, kStreamed = 1 << 20;
  const double bytes = bits_of(p.type_d) / 8.0, row = kernel.n * bytes;
  const auto pages = [](double rows, double bytes_of_row) { return rows * std::min(1.0, bytes_of_row / kPage) + 1; };
  const bool lines = std::fmod(row, kLine) == 0 && std::fmod(kernel.columns * bytes, kLine) == 0 &&
                     std::fmod(kernel.lanes * bytes, kLine / 2) == 0;
  if (lines && kernel.batch * kernel.m * row >= kStreamed) return 0;
  const bool packs = !packed && tasks.row_blocks == 1 && kernel.row_b;
  const double k = static_cast<double>(p.k + p.k2);
  return pages(std::min(kernel.m, ceil_div(kernel.m, tasks.row_blocks)), row) +
         (packs ? pages(std::min(k, kernel.tile_k), kernel.n * bits_of(p.type_b) / 8.0) : 0);
}

// kernels/cpu/gemm/gemm.h, of one member of the batch on one thread
Counts blocked(const GemmProblem& p, const Kernel& kernel, const CpuSpec& spec, bool packed, double splits) {
  constexpr double kPassWords = 256;  // of AMX, of a panel
  constexpr double kPanelShareOfL1 = 0.75;
  Counts counts;
  const Tasks tasks(kernel, splits, 1);
  const double columns = round_up(kernel.n, kernel.tiles ? kernel.columns : kernel.lanes),
               vectors = columns / kernel.lanes;
  const double strips = ceil_div(kernel.m, kernel.rows), panels = ceil_div(kernel.n, kernel.columns);
  // Floats have micro-tiles of every number of rows.
  const bool floats = p.type_a == DataType::fp32;
  const double rows = floats ? kernel.m : round_up(kernel.m, kernel.tiles ? kernel.rows : kernel.rows / 2);
  const double pass = std::min(kernel.tile_k / kernel.pack, kernel.tiles ? kPassWords : kernel.tile_k);
  const double passes = std::max(kernel.blocks, steps_of(p, pass * kernel.pack));
  counts.products = rows * columns * kernel.words * kernel.pack / kernel.facts.products_per_cycle;
  counts.visits = strips * panels * passes;
  counts.reads_a = rows * kernel.words / kernel.lanes * panels;
  const double panel_bytes = 4 * std::min(pass, kernel.words) * kernel.columns;
  if (panel_bytes > kPanelShareOfL1 * static_cast<double>(spec.l1d_bytes))
    counts.reads_b = strips * kernel.words * vectors;
  counts.sums = (std::max(0.0, passes - splits) + (splits > 1 ? 2 * splits : 0)) * rows * vectors;

  const bool keeps_a = floats && (kernel.row_a || keeps_columns_of_a(p, kernel, tasks));
  const double packed_rows = keeps_a ? 0 : kernel.m * tasks.column_blocks;
  (kernel.row_a ? counts.packed_a : counts.turned_a) = packed_rows * kernel.words / kernel.lanes;
  const double k = static_cast<double>(p.k + p.k2);
  if (!keeps_a)
    counts.parts += kernel.row_a ? packed_rows * kernel.last_parts(p)
                                 : kernel.part(kernel.m, kernel.lanes) * k * tasks.column_blocks;
  const bool keeps_b = keeps_rows_of_b(p, kernel, tasks, packed);
  if (!packed) {
    // Without masks the last panel is packed still, if it ends in a part of a vector.
    const double parts_of_b = kernel.row_b ? kernel.part(kernel.n, kernel.lanes) * k : kernel.n * kernel.last_parts(p);
    const bool part_alone = keeps_b && kernel.lanes < 16 && parts_of_b > 0;
    const double last_vectors = std::ceil(std::fmod(kernel.n, kernel.columns) / kernel.lanes);
    if (!keeps_b || part_alone) {
      (kernel.row_b ? counts.packed_b : counts.turned_b) = kernel.words * (part_alone ? last_vectors : vectors);
      counts.parts += parts_of_b;
    }
    if (bits_of(p.type_b) < bits_of(p.type_a)) counts.weights = kernel.words * vectors;
    const double bytes = bits_of(p.type_b) / 8.0;
    counts.runs = kernel.row_b ? lines_begun(k * tasks.column_blocks, kernel.n * bytes)
                               : lines_begun(kernel.n * kernel.blocks, k * bytes);
  }
  const bool by_rows = goes_by_rows(p, kernel, tasks, splits);
  if (!keeps_b && (packed || tasks.row_blocks > 1 || by_rows))
    counts.stored_b = tasks.row_blocks * kernel.words * vectors;
  counts.results = kernel.m * std::ceil(kernel.n / kernel.lanes);
  counts.tails = kernel.m * kernel.part(kernel.n, kernel.lanes);
  if (!by_rows && pages_of_task(p, kernel, tasks, packed) > spec.gemm_followed_pages)
    counts.far = kernel.m * panels * std::max(0.0, 1 - counts.products / (rows * panels) / spec.gemm_hidden_cycles);
  counts.tasks = tasks.count / kernel.batch;
  return counts;
}

// kernels/cpu/gemm/skinny.h, the same
Counts skinny(const GemmProblem& p, const Kernel& kernel) {
  constexpr double kGroup = 8, kDotGroup = 4;  // rows that share what is read of B
  Counts counts;
  // Columns along the lanes fill whole vectors of them; of dot products there are as many as columns.
  const double columns = kernel.row_b ? round_up(kernel.n, kernel.lanes) : kernel.n, vectors = columns / kernel.lanes;
  counts.products = kernel.m * columns * kernel.words * kernel.pack / kernel.facts.products_per_cycle;
  // Words that are elements are read as they lie.
  const bool in_place = (kernel.row_a || kernel.row_b) && p.type_a == DataType::fp32;
  if (!in_place) (kernel.row_a ? counts.packed_a : counts.turned_a) = kernel.m * kernel.words / kernel.lanes;
  const double groups = ceil_div(kernel.m, kernel.row_b ? kGroup : kDotGroup), k = static_cast<double>(p.k + p.k2);
  (kernel.row_b ? counts.packed_b : counts.turned_b) = kernel.words * vectors * groups;
  if (bits_of(p.type_b) < bits_of(p.type_a)) counts.weights = kernel.words * vectors * groups;
  counts.parts = in_place ? 0 : kernel.m * kernel.last_parts(p);
  const double bytes = bits_of(p.type_b) / 8.0;
  if (kernel.row_b) {
    counts.sums = kernel.m * vectors * kernel.words * kernel.pack / 16;  // kept for sixteen rows of B
    counts.runs = lines_begun(k * ceil_div(kernel.n, kernel.tile_n), kernel.n * bytes);
    counts.parts += kernel.part(kernel.n, kernel.lanes) * k * groups;
  } else {
    counts.dots = counts.products;
    counts.runs = lines_begun(kernel.n, k * bytes);
    counts.folds = kernel.m * kernel.n;
    counts.parts += kernel.n * kernel.last_parts(p) * groups;
  }
  counts.results = kernel.m * std::ceil(kernel.n / kernel.lanes);
  counts.tails = kernel.m * kernel.part(kernel.n, kernel.lanes);
  counts.tasks = ceil_div(kernel.n, kernel.tile_n);
  return counts;
}

}  // namespace

std::int64_t splits_for(const GemmProblem& p, const KernelConfig& config, const CpuSpec& spec, int threads) {
  const CpuGemmSubject subject{config, spec};
  const CpuGemmInstruction* facts = subject.facts();
  if (!config.algorithm.split_k || facts == nullptr || threads <= 1) return 1;
  const bool vectors = config.algorithm.pipeline == Pipeline::blocked && !is_amx(config.algorithm);
  // docs/log/2026-11-backward.md: of gradients of weights, whose k is long, it gains up to 1.8 times; of others it
  // loses.
  if (vectors && p.k + p.k2 < 2 * std::max(p.m, p.n)) return 1;
  // Tiles of 64 rows by four panels: smaller ones read A and B more often than they are worth.
  const double tasks = vectors ? static_cast<double>(p.batch) * ceil_div(static_cast<double>(p.m), 8.0 * facts->rows) *
                                     ceil_div(static_cast<double>(p.n), 4.0 * facts->columns)
                               : most_tasks(p, *facts, config.algorithm);
  const double blocks = std::max(1.0, steps_of(p, subject.tile_k()));
  return static_cast<std::int64_t>(std::clamp(ceil_div(2.0 * threads, std::max(1.0, tasks)), 1.0, blocks));
}

CpuGemmTerms cpu_gemm_terms(const GemmProblem& p, const KernelConfig& config, const CpuSpec& spec, int threads) {
  const CpuGemmSubject subject{config, spec};
  const Kernel kernel(p, subject);
  const auto splits = static_cast<double>(splits_for(p, config, spec, threads));
  Counts n = kernel.skinny ? skinny(p, kernel) : blocked(p, kernel, spec, config.algorithm.packed_b, splits);
  double stages = 0, shared = 0;
  const double tasks = std::max(1.0, most_tasks(p, kernel.facts, config.algorithm) * splits);
  double at_once = std::min<double>(threads, tasks), of_products = at_once;
  if (threads > 1) stages = config.algorithm.split_k ? 2 : 1;
  if (threads > 1 && !kernel.skinny && !kernel.tiles) {
    const Tasks cut(kernel, splits, threads);
    const double rounds = ceil_div(cut.count, threads), depth = steps_of(p, kernel.pack) / splits;
    of_products = cut.count / rounds;
    at_once = threads;
    shared = rounds * 4 * (std::min(cut.rows, kernel.m) + std::min(cut.columns, kernel.n)) * depth;
    if (config.algorithm.split_k) shared += kernel.batch * splits * kernel.m * kernel.n * 4 / threads;
  }
  const double each = kernel.batch / at_once;
  CpuGemmTerms terms = {n.products * kernel.batch / of_products,
                        n.dots * kernel.batch / of_products,
                        n.visits * each,
                        n.reads_a * each,
                        n.reads_b * each,
                        n.sums * each,
                        n.packed_a * each,
                        n.turned_a * each,
                        n.packed_b * each,
                        n.turned_b * each,
                        n.runs * each,
                        n.folds * each,
                        n.weights * each,
                        n.stored_b * each,
                        n.parts * each,
                        n.results * each,
                        n.tails * each,
                        n.far * each,
                        n.tasks * each,
                        1,
                        stages,
                        shared,
                        bytes_of(p) / spec.memory_bytes_per_cycle / at_once};
  for (double& term : terms) term /= spec.clock_hz;
  return terms;
}

}  // namespace tilesmith
