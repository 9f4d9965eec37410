#include "choose/attention/cpu_model.hpp"

#include <algorithm>
#include <cmath>

#include "choose/rounding.hpp"
#include "problem/attention/problem.hpp"

namespace tilesmith {
namespace {

// Cycles of one thread's kernels, read off their times on Zen 4 (docs/log/2026-11-cpu-attention-model.md); "a vector"
// is what the level handles in a cycle.
struct FlashCycles {
  double products;    // for what takes one at the rate that specs give, half of the best
  double one_vector;  // more, where a strip of queries is a single vector: each load of a key serves few products
  double softmax;     // a vector of scores
  double staging;     // a vector of keys or values that a tile stages
  double rows;        // a vector of queries, or outputs, of a tile
  double rescale;     // a vector of a strip's sums, each block of keys
  double launch;      // of the call
};
constexpr FlashCycles kWords{0.5, 0.25, 5.6, 3.5, 4.3, 9.5, 6000};      // instructions that take pairs or fours
constexpr FlashCycles kWidened{0.62, 0.06, 0.0, 4.8, 4.3, 0.0, 4600};   // fma, of 16-bit elements
constexpr FlashCycles kFloats{0.47, 0.15, 8.2, 3.1, 4.3, 0.0, 11'000};  // fma, of fp32

// Cycles of AMX, whose first stage packs keys and values once for all tiles. Of a Xeon, over the factor by which the
// figures of other kernels are too small there (docs/log/2026-11-cpu-attention-model.md).
struct AmxCycles {
  double products;  // for what takes one at the rate that specs give
  double softmax;   // a vector of scores
  double packing;   // a vector of keys or values
  double rows;      // a vector of queries, or outputs, of a tile
  double block;     // of a strip
  double tile;
};
constexpr AmxCycles kAmx{0.79, 9.9, 12.8, 9.8, 327, 59};

struct DecodeCycles {
  double products, loads;  // a vector of keys and values: for each row, and once for all rows
  double softmax;          // a vector of scores
  double rows;             // a vector of queries and outputs
  double task;
};
constexpr DecodeCycles kDecodeWords{0.25, 2.4, 28, 10, 1000};
constexpr DecodeCycles kDecodeFloats{0.22, 4.5, 0, 0, 1300};  // of fp32; the softmax hides behind the loads
constexpr double kDecodeWidened = 1.2;     // fma, of 16-bit elements, over the instructions that take words
constexpr std::int64_t kDecodeGroup = 8;   // rows that share the keys of a task
constexpr double kMemoryShare = 0.2;       // of the time that the tensors' bytes take: the rest is hidden
constexpr double kMeanOfLongest = 0.6;     // length of a packed sequence, of which the longest alone is known
constexpr double kLeastTaskCycles = 2000;  // a call without work; a task of a generic kernel

double to_multiple(double size, double step) {
  return ceil_div(size, step) * step;
}

/// Vectors of queries that a kernel handles at a time (strip_vectors in kernels/cpu/attention/query_block.h).
double vectors_of_strip(int vectors, int lanes) {
  if (vectors % 3 == 0) return 3;
  if (lanes == 16 && vectors % 4 == 0) return 4;
  return vectors % 2 == 0 ? 2 : 1;
}

/// Rows that the kernels of a group of `rows` are made for.
double padded_rows(std::int64_t rows) {
  return rows == 0 ? 0 : rows <= 2 ? static_cast<double>(rows) : rows <= 4 ? 4 : 8;
}

/// Of 16 bits: what pairs of are words.
bool is_of_words(DataType type) {
  return type == DataType::bf16 || type == DataType::fp16;
}

/// The problem whose sequences have their expected lengths.
AttentionProblem expected(AttentionProblem p) {
  if (p.mode != SequenceMode::group) return p;
  const auto mean = [](std::int64_t longest) {
    return static_cast<std::int64_t>(std::ceil(kMeanOfLongest * static_cast<double>(longest)));
  };
  p.seqlen_q = mean(p.seqlen_q);
  p.seqlen_k = mean(p.seqlen_k);
  return p;
}

/// Multiplications and additions a cycle that the level's attention kernels reach with an instruction.
double products_per_cycle(const CpuSpec& spec, const Algorithm& algorithm) {
  constexpr double kGenericShare = 0.25;  // of the lanes' products: a broadcast and a load for each two
  if (algorithm.pipeline == Pipeline::generic) return kGenericShare * spec.vector_bits_per_cycle / 32.0;
  const Instruction instruction = algorithm.instruction;
  for (const CpuAttentionInstruction& facts : spec.attention_fwd)
    if (facts.instruction == instruction) return facts.products_per_cycle;
  return spec.vector_bits_per_cycle / 32.0;
}

/// What a kernel's call consists of.
struct CpuAttentionWork {
  double cycles = 0;  ///< of all tasks
  double tasks = 0;
  double launch = 0;  ///< cycles beside the tasks
};

CpuAttentionWork decode_work(const AttentionProblem& p, const KernelConfig& config, const CpuSpec& spec, double splits,
                             double keys_per_row, bool masked) {
  const double lanes = spec.vector_bits_per_cycle / 32.0, dims = static_cast<double>(p.head_dim_qk + p.head_dim_v);
  const std::int64_t of_head = p.heads_kv > 0 ? p.heads_q / p.heads_kv * p.seqlen_q : 0;
  const auto heads = static_cast<double>(p.batch * p.heads_kv);
  const double groups = heads * static_cast<double>((of_head + kDecodeGroup - 1) / kDecodeGroup);
  const double rows =
      heads * (static_cast<double>(of_head / kDecodeGroup * kDecodeGroup) + padded_rows(of_head % kDecodeGroup));
  const double spread = masked ? static_cast<double>(std::min(p.seqlen_q, kDecodeGroup)) / 2 : 0;
  const double keys = to_multiple(std::min(static_cast<double>(p.seqlen_k), keys_per_row + spread), 16);
  const DecodeCycles& cost = is_of_words(p.data_type) ? kDecodeWords : kDecodeFloats;
  const bool widens = config.algorithm.instruction == Instruction::fma_f32 && is_of_words(p.data_type);
  const double of_keys = keys * (rows * (cost.products * dims + cost.softmax) + groups * cost.loads * dims) / lanes;
  const double of_rows = splits * rows * dims * cost.rows / lanes;
  const double tasks = groups * splits;
  return {(of_keys + of_rows) * (widens ? kDecodeWidened : 1) + tasks * cost.task, tasks, 0};
}

/// What the tiles of a flash kernel compute.
struct FlashShape {
  double tiles;
  double seen, staged;  ///< keys: that a strip of queries computes, and that a tile stages
};

/// `strip` queries are handled at a time, and `step` keys at least.
FlashShape shape_of(const AttentionProblem& p, const KernelConfig& config, double strip, double step,
                    double keys_per_row, bool masked) {
  const double m = config.algorithm.tile[0], n = config.algorithm.tile[1];
  // Heads that share keys share a tile while a sequence is shorter than that.
  const std::int64_t group = p.heads_kv > 0 ? p.heads_q / p.heads_kv : 1;
  const std::int64_t together = p.seqlen_q < config.algorithm.tile[0] ? group : 1;
  FlashShape shape{.tiles = static_cast<double>(p.batch * (p.heads_q / std::max<std::int64_t>(together, 1))) *
                            ceil_div(static_cast<double>(together * p.seqlen_q), m),
                   .seen = static_cast<double>(p.seqlen_k),
                   .staged = static_cast<double>(p.seqlen_k)};
  // Behind a mask a strip computes whole blocks as far as its last query sees, but none beyond the tile's last key.
  if (masked) {
    const double of_tile = std::min(m, static_cast<double>(p.seqlen_q)), of_strip = std::min(strip, of_tile);
    shape.seen = std::min(shape.staged, keys_per_row + of_strip / 2 + std::min(n, of_tile - of_strip) / 2);
    shape.staged = std::min(shape.staged, keys_per_row + of_tile / 2);
  }
  shape.seen = to_multiple(shape.seen, step);
  shape.staged = to_multiple(shape.staged, step);
  return shape;
}

CpuAttentionWork flash_work(const AttentionProblem& p, const KernelConfig& config, const CpuSpec& spec,
                            double keys_per_row, bool masked) {
  const double lanes = spec.vector_bits_per_cycle / 32.0, dims = static_cast<double>(p.head_dim_qk + p.head_dim_v);
  const int vector = spec.vector_bits / 32;
  const double m = config.algorithm.tile[0], n = config.algorithm.tile[1];
  const FlashCycles& cost = config.algorithm.instruction != Instruction::fma_f32 ? kWords
                            : is_of_words(p.data_type)                           ? kWidened
                                                                                 : kFloats;
  const double vectors = vectors_of_strip(config.algorithm.tile[0] / vector, vector), strip = vectors * vector;
  const FlashShape shape = shape_of(p, config, strip, 8, keys_per_row, masked);
  const double products = cost.products + (vectors == 1 ? cost.one_vector : 0);
  const double of_pairs =
      m * shape.seen * (dims / products_per_cycle(spec, config.algorithm) * products + cost.softmax / lanes);
  const double of_blocks = m / vector * ceil_div(shape.seen, n) * dims / 2 * cost.rescale / lanes;
  const double of_tile = of_pairs + of_blocks + (shape.staged * cost.staging + m * cost.rows) * dims / lanes;
  return {shape.tiles * of_tile, shape.tiles, cost.launch};
}

CpuAttentionWork amx_work(const AttentionProblem& p, const KernelConfig& config, const CpuSpec& spec,
                          double keys_per_row, bool masked) {
  constexpr double kSquare = 32;  // queries of a strip, keys of a group, and what head dims are filled up to
  const double lanes = spec.vector_bits / 32.0, m = config.algorithm.tile[0], n = config.algorithm.tile[1];
  const double dims = to_multiple(static_cast<double>(p.head_dim_qk), kSquare) +
                      to_multiple(static_cast<double>(p.head_dim_v), kSquare);
  const FlashShape shape = shape_of(p, config, kSquare, kSquare, keys_per_row, masked);
  const double of_pairs =
      m * shape.seen * (dims / products_per_cycle(spec, config.algorithm) * kAmx.products + kAmx.softmax / lanes);
  const double of_blocks = m / kSquare * ceil_div(shape.seen, n) * kAmx.block;
  const double of_tile = of_pairs + of_blocks + m * dims / lanes * kAmx.rows + kAmx.tile;
  const double packing = static_cast<double>(p.batch * p.heads_kv * p.seqlen_k) * dims / lanes * kAmx.packing;
  return {shape.tiles * of_tile + packing, shape.tiles, 0};
}

/// Generic kernels, of which the figures above are not.
CpuAttentionWork generic_work(const AttentionProblem& p, const KernelConfig& config, const CpuSpec& spec,
                              double keys_per_row, bool masked) {
  constexpr double kSoftmaxCycles = 24, kConvertCycles = 2, kRescaleCycles = 3;
  const double lanes = spec.vector_bits_per_cycle / 32.0, dims = static_cast<double>(p.head_dim_qk + p.head_dim_v);
  const double m = config.algorithm.tile[0], n = config.algorithm.tile[1];
  const double tiles = static_cast<double>(p.batch * p.heads_q) * ceil_div(static_cast<double>(p.seqlen_q), m);
  // A masked tile sees a ragged edge on each bounded side: half a tile and half a block more than its rows' average.
  const double keys = std::min(static_cast<double>(p.seqlen_k), keys_per_row + (masked ? (m + n) / 2 : 0));
  const double pairs = tiles * m * ceil_div(keys, n) * n;
  const double per_pair = dims / products_per_cycle(spec, config.algorithm) + kSoftmaxCycles / lanes +
                          dims * kConvertCycles / (lanes * m) +
                          static_cast<double>(p.head_dim_v) * kRescaleCycles / (lanes * n);
  return {pairs * per_pair + tiles * kLeastTaskCycles, tiles, 0};
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

double predicted_seconds(const AttentionProblem& given, const KernelConfig& config, const CpuSpec& spec, int threads) {
  const AttentionProblem p = expected(given);
  const double rows = static_cast<double>(p.batch * p.heads_q) * static_cast<double>(p.seqlen_q);
  if (rows == 0 || p.seqlen_k == 0) return kLeastTaskCycles / spec.clock_hz;
  const double keys_per_row = visible_pairs(p) / rows;
  const bool masked = signature_of(p).mask == MaskKind::generic;
  const Algorithm& a = config.algorithm;
  CpuAttentionWork work;
  if (a.pipeline == Pipeline::decode) {
    const auto splits = static_cast<double>(splits_for(given, config, threads));
    work = decode_work(p, config, spec, splits, keys_per_row, masked);
  } else if (a.pipeline == Pipeline::flash && a.instruction == Instruction::amx_bf16) {
    work = amx_work(p, config, spec, keys_per_row, masked);
  } else if (a.pipeline == Pipeline::flash) {
    work = flash_work(p, config, spec, keys_per_row, masked);
  } else {
    work = generic_work(p, config, spec, keys_per_row, masked);
  }
  const double memory = bytes_of(p) / spec.memory_bytes_per_cycle;
  const double cycles = std::max(work.cycles + kMemoryShare * memory, memory);
  const double rounds = ceil_div(work.tasks, static_cast<double>(threads));
  return (cycles / work.tasks * rounds + work.launch) / spec.clock_hz;
}

}  // namespace tilesmith
