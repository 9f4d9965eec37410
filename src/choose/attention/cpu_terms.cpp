#include "choose/attention/cpu_terms.hpp"

#include <algorithm>
#include <cmath>

#include "choose/rounding.hpp"
#include "problem/attention/problem.hpp"

namespace tilesmith {
namespace {

constexpr std::size_t kTasks = 9, kCall = 10, kMemory = 11;  // among kCpuAttentionTerms
constexpr std::int64_t kDecodeGroup = 8, kDecodeTile = 16;   // rows that share the keys of a task
// Queries and keys of packed sequences, as shares of the longest's.
constexpr double kPackedLengths[][2] = {{0.125, 0.625}, {0.375, 0.125}, {0.625, 0.875}, {0.875, 0.375}};

/// What tasks consist of.
struct Counts {
  double products = 0, narrow = 0, far = 0, softmax = 0, masked = 0, staging = 0, rows = 0, rescale = 0, blocks = 0,
         tasks = 0;

  [[nodiscard]] CpuAttentionTerms terms() const {
    return {products, narrow, far, softmax, masked, staging, rows, rescale, blocks, tasks, 0, 0};
  }
};

double to_multiple(double size, double step) {
  return ceil_div(size, step) * step;
}

/// Vectors of queries that a kernel handles at a time (strip_vectors in kernels/cpu/attention/query_block.h).
int vectors_of_strip(const Algorithm& algorithm, int lanes) {
  if (algorithm.instruction == Instruction::amx_bf16) return 2;
  const int vectors = algorithm.tile[0] / lanes;
  if (vectors % 3 == 0) return 3;
  if (lanes == 16 && vectors % 4 == 0) return 4;
  return vectors % 2 == 0 ? 2 : 1;
}

/// Rows that the kernels of a group of `rows` are made for.
double padded_rows(std::int64_t rows) {
  return rows == 0 ? 0 : rows <= 2 ? static_cast<double>(rows) : rows <= 4 ? 4 : 8;
}

/// Keys that a query sees in the mean, and whether a mask hides some.
struct Visible {
  double keys = 0;
  bool masked = false;

  explicit Visible(const AttentionProblem& p) : masked(signature_of(p).mask == MaskKind::generic) {
    const double rows = static_cast<double>(p.batch * p.heads_q) * static_cast<double>(p.seqlen_q);
    if (rows > 0) keys = visible_pairs(p) / rows;
  }
};

/// Matrix tiles take as long for one row as for sixteen: their products are in what loads the keys.
Counts decode_counts(const AttentionProblem& p, bool tiles, double lanes, double splits) {
  const Visible visible(p);
  const auto dims = static_cast<double>(p.head_dim_qk + p.head_dim_v);
  const std::int64_t of_head = p.heads_kv > 0 ? p.heads_q / p.heads_kv * p.seqlen_q : 0;
  const std::int64_t group = tiles ? kDecodeTile : kDecodeGroup;
  const auto heads = static_cast<double>(p.batch * p.heads_kv);
  const double groups = heads * static_cast<double>((of_head + group - 1) / group);
  const double last = tiles ? static_cast<double>(of_head % group) : padded_rows(of_head % group);
  const double rows = heads * (static_cast<double>(of_head / group * group) + last);
  const double spread = visible.masked ? static_cast<double>(std::min(p.seqlen_q, group)) / 2 : 0;
  const double keys = to_multiple(std::min(static_cast<double>(p.seqlen_k), visible.keys + spread), 16);
  return {.products = tiles ? 0 : keys * rows * dims / lanes,
          .softmax = keys * rows / lanes,
          .staging = keys * groups * dims / lanes,
          .rows = splits * rows * dims / lanes,
          .tasks = groups * splits};
}

/// `together` heads share a tile.
Counts flash_counts(const AttentionProblem& p, const Algorithm& algorithm, const CpuSpec& spec, std::int64_t together) {
  const Visible visible(p);
  const bool amx = algorithm.instruction == Instruction::amx_bf16;
  const double lanes = spec.vector_bits_per_cycle / 32.0, m = algorithm.tile[0], n = algorithm.tile[1];
  const int vector = spec.vector_bits / 32, vectors = vectors_of_strip(algorithm, vector);
  const double strip = vectors * vector, step = amx ? 32 : 8;  // what head dims and keys are filled up to
  const double qk = to_multiple(static_cast<double>(p.head_dim_qk), step);
  const double v = to_multiple(static_cast<double>(p.head_dim_v), step), dims = qk + v;
  const double tiles =
      static_cast<double>(p.batch * (p.heads_q / together)) * ceil_div(static_cast<double>(together * p.seqlen_q), m);
  // Behind a mask a strip computes whole blocks as far as its last query sees, but none beyond the tile's last key.
  double seen = static_cast<double>(p.seqlen_k), staged = seen;
  if (visible.masked) {
    const double of_tile = std::min(m, static_cast<double>(p.seqlen_q)), of_strip = std::min(strip, of_tile);
    seen = std::min(staged, visible.keys + of_strip / 2 + std::min(n, of_tile - of_strip) / 2);
    staged = std::min(staged, visible.keys + of_tile / 2);
  }
  seen = to_multiple(seen, step);
  // Keys and values of a block stay in the first-level cache as far as it holds them.
  const double block_bytes = std::min(n, seen) * dims * (algorithm.instruction == Instruction::fma_f32 ? 4 : 2);
  const double far = std::max(0.0, 1 - static_cast<double>(spec.l1d_bytes) / block_bytes);
  const double straddling = visible.masked ? std::min(seen, strip + n) : 0;
  const double pairs = tiles * m * seen, blocks = tiles * m / strip * ceil_div(seen, n);
  // AMX packs keys once for all tiles of a call.
  const double keys = amx ? static_cast<double>(p.batch * p.heads_kv * p.seqlen_k) : tiles * to_multiple(staged, step);
  return {.products = pairs * dims / lanes,
          .narrow = vectors == 1 ? pairs * dims / lanes : 0,
          .far = far * tiles * m / strip * seen * dims / lanes,
          .softmax = pairs / lanes,
          .masked = tiles * m * straddling / lanes,
          .staging = keys * dims / lanes,
          .rows = tiles * m * dims / lanes,
          .rescale = blocks * strip * v / lanes,
          .blocks = blocks,
          .tasks = tiles};
}

/// Of a call whose sequences have these lengths.
CpuAttentionTerms terms_of(const AttentionProblem& p, const KernelConfig& config, const CpuSpec& spec, double splits,
                           std::int64_t together) {
  if (p.seqlen_q == 0 || p.seqlen_k == 0) return {};
  if (config.algorithm.pipeline == Pipeline::decode)
    return decode_counts(p, config.algorithm.instruction == Instruction::amx_bf16, spec.vector_bits_per_cycle / 32.0,
                         splits)
        .terms();
  return flash_counts(p, config.algorithm, spec, together).terms();
}

/// Of packed sequences: one is the longest.
CpuAttentionTerms packed_terms(const AttentionProblem& p, const KernelConfig& config, const CpuSpec& spec,
                               double splits, std::int64_t together) {
  AttentionProblem one = p;
  one.batch = std::min<std::int64_t>(p.batch, 1);
  CpuAttentionTerms sum = terms_of(one, config, spec, splits, together);
  const double others = static_cast<double>(p.batch - one.batch) / std::size(kPackedLengths);
  for (const auto& [queries, keys] : kPackedLengths) {
    one.seqlen_q = static_cast<std::int64_t>(std::ceil(queries * static_cast<double>(p.seqlen_q)));
    one.seqlen_k = static_cast<std::int64_t>(std::ceil(keys * static_cast<double>(p.seqlen_k)));
    const CpuAttentionTerms each = terms_of(one, config, spec, splits, together);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += others * each[i];
  }
  return sum;
}

}  // namespace

std::int64_t splits_for(const AttentionProblem& p, const KernelConfig& config, int threads) {
  if (config.algorithm.pipeline != Pipeline::decode || p.batch_invariant) return 1;
  // Enough pieces that the last one a thread takes is small beside its whole share, none shorter than a block.
  // Pages are of sequences whose lengths differ much: the longest is cut as if it were alone. So a sequence's splits,
  // and its result's last bits, do not depend on its batch either.
  const std::int64_t independent = std::max<std::int64_t>(1, (p.page_size > 0 ? 1 : p.batch) * p.heads_kv);
  const std::int64_t wanted = threads <= 1 ? 1 : (4 * threads + independent - 1) / independent;
  const std::int64_t blocks = std::max<std::int64_t>(1, p.seqlen_k / config.algorithm.tile[1]);
  if (p.splits > 0) return std::min(p.splits, blocks);
  return std::clamp<std::int64_t>(wanted, 1, blocks);
}

CpuAttentionTerms cpu_attention_terms(const AttentionProblem& p, const KernelConfig& config, const CpuSpec& spec,
                                      int threads) {
  const auto splits = static_cast<double>(splits_for(p, config, threads));
  // Heads that share keys share a tile while the longest sequence is shorter than that.
  const std::int64_t group = p.heads_kv > 0 ? std::max<std::int64_t>(1, p.heads_q / p.heads_kv) : 1;
  const std::int64_t together = p.seqlen_q < config.algorithm.tile[0] ? group : 1;
  CpuAttentionTerms terms =
      (p.mode == SequenceMode::group ? packed_terms : terms_of)(p, config, spec, splits, together);
  terms[kMemory] = bytes_of(p) / spec.memory_bytes_per_cycle;
  const double tasks = std::max(1.0, terms[kTasks]);
  const double of_thread = ceil_div(tasks, static_cast<double>(threads)) / tasks;
  for (double& term : terms) term *= of_thread / spec.clock_hz;
  terms[kCall] = 1 / spec.clock_hz;
  return terms;
}

}  // namespace tilesmith
