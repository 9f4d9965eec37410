#include "choose/gemm/cpu_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "choose/rounding.hpp"
#include "instances/gemm/cpu.hpp"
#include "problem/gemm/group.hpp"
#include "problem/gemm/problem.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

constexpr double kGemmTaskCycles = 1000;
constexpr double kStageCycles = 8000;       // one more round of waking and waiting
constexpr double kPackACycles = 2;          // a vector of packed words; columns that become rows take twice that
constexpr double kSumCycles = 2;            // a vector of sums loaded and stored again
constexpr double kFinishCycles = 4;         // a vector of results
constexpr double kSharedBytesPerCycle = 6;  // that a core reads of what others have in their caches
// Few rows keep few products in flight for each load; dot products with columns of B are folded at their ends.
constexpr double kSkinnyRowShare = 1 / 1.1, kSkinnyColumnShare = 1 / 1.35;

/// Cycles for a vector of B's words.
struct WordCycles {
  double blocked_row, blocked_column, skinny;
};

/// By the elements' size and how many are in a word: 8-bit elements are widened to 16 bits, or put together by fours.
WordCycles word_cycles(DataType element, int elements_per_word) {
  const int bytes = bits_of(element) / 8;
  if (bytes <= 1) return elements_per_word == 4 ? WordCycles{23, 15, 14} : WordCycles{15, 10, 4};
  return {10.5, 7, bytes == 4 ? 1.0 : elements_per_word == 2 ? 4.0 : 2.5};
}

/// A generic kernel turns tiles of A and B into floats, without keeping any for its neighbours, and broadcasts A.
double generic_seconds(const GemmProblem& p, const CpuGemmSubject& subject, int threads) {
  constexpr double kShare = 0.25;         // of the lanes' products: a broadcast and a load for each two
  constexpr double kElementCycles = 0.5;  // read, perhaps scaled and turned, and stored
  const double m = static_cast<double>(p.m), n = static_cast<double>(p.n), batch = static_cast<double>(p.batch);
  const double k = static_cast<double>(p.k) + static_cast<double>(p.k2);
  const double row_tiles = ceil_div(m, subject.tile_m()), column_tiles = ceil_div(n, subject.tile_n());
  const double products = m * n * k / (kShare * subject.spec.vector_bits_per_cycle / 32.0);
  const double elements = k * (m * column_tiles + n * row_tiles) * kElementCycles;
  const double tasks = std::max(1.0, batch * row_tiles * column_tiles);
  const double cycles = batch * (products + elements) + bytes_of(p) / subject.spec.memory_bytes_per_cycle;
  return (cycles / std::min<double>(threads, tasks) + kGemmTaskCycles) / subject.spec.clock_hz;
}

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

/// The tasks of a blocked kernel on vectors that several threads share, and the bytes of A and B that each reads: they
/// come out of other processors' caches. As Grid of kernels/cpu/gemm/shape.h.
struct SharedTasks {
  double count = 1, read_bytes = 0;

  SharedTasks(const GemmProblem& p, const CpuGemmSubject& subject, const CpuGemmInstruction& facts, double splits,
              int threads) {
    const double m = static_cast<double>(p.m), n = static_cast<double>(p.n);
    const double parts = static_cast<double>(p.batch) * splits;
    double rows = std::min<double>(subject.tile_m(), round_up(m, facts.rows));
    double columns = std::min<double>(2 * subject.tile_n(), round_up(n, facts.columns));
    const auto tasks = [&] { return parts * ceil_div(m, rows) * ceil_div(n, columns); };
    const double wanted = (splits > 1 ? 2.0 : 4.0) * threads;
    while (tasks() < wanted && (rows > 2 * facts.rows || columns > facts.columns)) {
      const bool by_rows = columns <= facts.columns || ceil_div(m, rows) * n <= 2 * ceil_div(n, columns) * m;
      if (by_rows && rows > 2 * facts.rows)
        rows = round_up(rows / 2, facts.rows);
      else
        columns = round_up(columns / 2, facts.columns);
    }
    count = std::max(1.0, tasks());
    read_bytes = 4.0 * (std::min(rows, m) + std::min(columns, n)) * steps_of(p, facts.elements_per_word) / splits;
  }
};

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

double predicted_seconds(const GemmProblem& p, const KernelConfig& config, const CpuSpec& spec, int threads) {
  const CpuGemmSubject subject{config, spec};
  if (subject.is_generic()) return generic_seconds(p, subject, threads);
  const CpuGemmInstruction* facts = subject.facts();
  if (facts == nullptr) return std::numeric_limits<double>::infinity();
  const bool skinny = config.algorithm.pipeline == Pipeline::skinny;
  const bool tiles = is_amx(config.algorithm);
  const double lanes = spec.vector_bits / 32.0;
  const double m = static_cast<double>(p.m), n = static_cast<double>(p.n), batch = static_cast<double>(p.batch);
  const double words = steps_of(p, facts->elements_per_word);

  const double rows = skinny ? m : round_up(m, tiles ? facts->rows : facts->rows / 2.0);
  const double columns = round_up(n, tiles ? facts->columns : lanes);
  const bool columns_of_b = p.order_b == MatrixOrder::column;
  const double share = !skinny ? 1.0 : columns_of_b ? kSkinnyColumnShare : kSkinnyRowShare;
  const double products = rows * columns * words * facts->elements_per_word / (facts->products_per_cycle * share);
  const double turned_a = p.order_a == MatrixOrder::row && tiles ? 1 : 2;
  const double column_tasks = skinny ? 1 : std::max(1.0, ceil_div(n, subject.tile_n()));
  const double packing_a = m * words / lanes * kPackACycles * turned_a * column_tasks;
  const WordCycles word = word_cycles(p.type_b, facts->elements_per_word);
  const double words_of_b = n * words / lanes *
                            (config.algorithm.packed_b ? 0
                             : skinny                  ? word.skinny
                             : columns_of_b            ? word.blocked_column
                                                       : word.blocked_row);
  const double blocks = std::max(1.0, steps_of(p, subject.tile_k()));
  const auto splits = static_cast<double>(splits_for(p, config, spec, threads));
  const double sums = skinny ? 0 : std::max(0.0, blocks - splits) * rows * columns / lanes * kSumCycles;
  const double partials = config.algorithm.split_k ? 2 * splits * m * n / lanes * kSumCycles : 0;
  const double finish = m * n / lanes * kFinishCycles;

  const double cycles = batch * (products + packing_a + words_of_b + sums + partials + finish) +
                        bytes_of(p) / spec.memory_bytes_per_cycle;
  const double tasks = std::max(1.0, most_tasks(p, *facts, config.algorithm) * splits);
  const double at_once = std::min<double>(threads, tasks);
  const double stages = 1 + (config.algorithm.split_k ? 1 : 0);
  if (threads > 1 && !skinny && !tiles) {
    const SharedTasks shared(p, subject, *facts, splits, threads);
    const double rounds = ceil_div(shared.count, threads);
    const double of_tasks = rounds * ((batch * products) / shared.count + shared.read_bytes / kSharedBytesPerCycle);
    const double adding = config.algorithm.split_k ? batch * splits * m * n * 4 / kSharedBytesPerCycle : 0;
    return (of_tasks + (cycles - batch * products + adding) / threads + kGemmTaskCycles + stages * kStageCycles) /
           spec.clock_hz;
  }
  return (cycles / at_once + kGemmTaskCycles + stages * kStageCycles * (threads > 1)) / spec.clock_hz;
}

GemmProblem typical_call(const GemmProblem& p) {
  if (p.grouping == GemmGrouping::none) return p;
  const bool contiguous = p.grouping == GemmGrouping::contiguous && p.batch > 0;
  return problem_of_group(p, contiguous ? (p.m + p.batch - 1) / p.batch : p.m);
}

}  // namespace tilesmith
