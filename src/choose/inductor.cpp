#include "choose/inductor.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/lasting.hpp"
#include "problem/gemm/problem.hpp"
#include "spec/cuda/spec.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

// torch/_inductor/template_heuristics.py, PR 156628: the constants of data/inductor_tables.json.
constexpr int kLeastBlock = 16, kLeastBlockKOfInt8 = 32;
constexpr int kWarpTile = 256;   // elements of a tile for each warp at least: 16 x 16
constexpr int kRegisters = 255;  // of a thread
constexpr int kWarp = 32;

int scaled(int block, double scale, std::int64_t size, int least) {
  const auto most =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1))));
  return static_cast<int>(
      std::max<std::int64_t>(std::min<std::int64_t>(static_cast<std::int64_t>(block * scale), most), least));
}

/// What the CPU leaves out, on blocks that are scaled (triton.py at 00131b6bd4be).
bool is_excluded_on_cpu(const InductorConfig& c, bool is_mm) {
  if (is_mm) return c.block_m * c.block_n > 1 << 13;
  return std::max({c.block_m, c.block_n, c.block_k}) > 128 || c.block_m * c.block_n > 1 << 12;
}

bool is_pruned(const InductorConfig& c, const InductorFit& fit) {
  const long bits = static_cast<long>(fit.element_bits) * c.stages * (c.block_m * c.block_k + c.block_n * c.block_k);
  if (fit.device.shared_bytes > 0 && bits / 8 > fit.device.shared_bytes) return true;
  const int threads = kWarp * c.warps;
  return (c.block_m * c.block_n + threads - 1) / threads > kRegisters;
}

/// Joins lists, each config once.
void join(std::vector<InductorConfig>& to, const std::vector<InductorConfig>& more) {
  for (const InductorConfig& config : more)
    if (std::ranges::find(to, config) == to.end()) to.push_back(config);
}

double octaves(int ours, int theirs) {
  return std::abs(std::log2(static_cast<double>(std::max(ours, 1))) -
                  std::log2(static_cast<double>(std::max(theirs, 1))));
}

}  // namespace

InductorDevice inductor_device(const ArchName& arch) {
  static const Result<std::vector<CudaSpec>>& specs = lasting(load_cuda_specs());
  if (specs)
    for (const CudaSpec& spec : *specs)
      if (spec.arch == arch)
        return {.name = "cuda", .major = spec.major, .minor = spec.minor, .shared_bytes = spec.shared_bytes_per_block};
  return {};
}

std::vector<InductorConfig> fitted(std::vector<InductorConfig> rows, const InductorFit& fit) {
  const bool on_cpu = fit.device.name == "cpu";
  std::vector<InductorConfig> out;
  for (InductorConfig config : rows) {
    if (fit.scales) {
      const double scale = on_cpu ? 0.5 : 1;
      config.block_m = scaled(config.block_m, scale, fit.m, kLeastBlock);
      config.block_n = scaled(config.block_n, scale, fit.n, kLeastBlock);
      config.block_k = scaled(config.block_k, scale, fit.k, fit.has_int8 ? kLeastBlockKOfInt8 : kLeastBlock);
    } else if (config.block_k >= fit.k) {
      continue;  // mm + mm has a loop over k for each product
    }
    if (on_cpu && is_excluded_on_cpu(config, fit.is_mm)) continue;
    if (fit.prunes && is_pruned(config, fit)) continue;
    config.warps = std::min(config.warps, config.block_m * config.block_n / kWarpTile);
    if (fit.device.name == "rocm" && config.waves_per_eu != 0) config.waves_per_eu = 8 / config.warps;
    if (std::ranges::find(out, config) == out.end()) out.push_back(config);
  }
  return out;
}

std::vector<InductorConfig> inductor_configs(const InductorTables& tables, const InductorDevice& device,
                                             const GemmProblem& p, bool exhaustive) {
  const bool has_tma = device.name == "cuda" && device.major >= 9;
  InductorFit fit{.device = device,
                  .m = p.m,
                  .n = p.n,
                  .k = p.k,
                  .element_bits = bits_of(p.type_a),
                  .has_int8 = p.type_a == DataType::int8 || p.type_b == DataType::int8};
  std::vector<InductorConfig> out;
  const auto add = [&](std::string_view id) { join(out, fitted(tables.rows(id), fit)); };
  if (p.k2 > 0) {
    fit.is_mm = fit.scales = false;
    add("mm_plus_mm");
  } else if (p.type_a == DataType::int8) {
    add("int8_mm");
  } else if (p.type_a == DataType::fp8 || p.type_a == DataType::bf8) {
    fit.is_mm = false;
    add("scaled_mm");
    if (has_tma) add("scaled_persistent_tma_mm");
  } else if (exhaustive) {
    // The persistent template searches the same product without two warps.
    fit.prunes = true;
    add("mm_exhaustive");
    if (has_weights(p)) add("mixed_mm");
  } else {
    add("mm");
    if (has_tma && !has_weights(p)) add("persistent_tma_mm");
  }
  return out;
}

std::vector<InductorConfig> inductor_configs(const InductorTables& tables, const InductorDevice& device,
                                             const AttentionProblem& p, bool exhaustive) {
  // Templates of flex attention for fewer queries than this are those of decoding (flex_decoding.py,
  // _use_flex_decoding).
  constexpr std::int64_t kDecoding = 128;
  const bool decodes = p.seqlen_q < kDecoding;
  std::vector<InductorConfig> out =
      tables.rows(decodes ? (exhaustive ? "flex_decode_exhaustive" : "flex_decode_autotune")
                          : (exhaustive ? "flex_fwd_exhaustive" : "flex_fwd_autotune"));
  const DataType type = p.data_type == DataType::tf32 ? DataType::fp32 : p.data_type;
  const auto usual = tables.flex_default(decodes ? "flex_decoding" : "flex_attention_fwd",
                                         {.device = device.name == "cpu" ? "base" : device.name,
                                          .type = type,
                                          .head_dim = static_cast<int>(p.head_dim_qk),
                                          .major = device.major,
                                          .minor = device.minor});
  if (!exhaustive && usual) join(out, {*usual});
  if (decodes) {
    // The rows of a block are the queries of a group of heads.
    const auto rows = static_cast<std::uint64_t>(
        std::max<std::int64_t>(p.seqlen_q * p.heads_q / std::max<std::int64_t>(p.heads_kv, 1), 1));
    for (InductorConfig& config : out)
      config.block_m = std::max(kLeastBlock, static_cast<int>(std::min<std::uint64_t>(std::bit_ceil(rows), 128)));
  }
  return out;
}

namespace {

/// The candidate whose architecture and instruction stand for what Inductor's compiler would emit: the fastest, as
/// predicted, whose tile a template could have. Kernels of few rows are no template of its.
const KernelConfig* leader_of(const std::vector<Candidate>& candidates) {
  const Candidate* leader = nullptr;
  for (const Candidate& candidate : candidates)
    if (candidate.recipe.main().algorithm.tile[0] >= kLeastBlock &&
        (leader == nullptr || candidate.predicted_seconds < leader->predicted_seconds))
      leader = &candidate;
  return leader == nullptr ? nullptr : &leader->recipe.main();
}

}  // namespace

std::vector<std::size_t> nearest_candidates(const std::vector<Candidate>& candidates,
                                            const std::vector<InductorConfig>& configs) {
  std::vector<std::size_t> places;
  const KernelConfig* leader = leader_of(candidates);
  for (const InductorConfig& config : configs) {
    double least = std::numeric_limits<double>::infinity();
    std::size_t nearest = 0;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const Algorithm& ours = candidates[i].recipe.main().algorithm;
      if (leader != nullptr &&
          (candidates[i].recipe.main().arch != leader->arch || ours.instruction != leader->algorithm.instruction))
        continue;
      double distance = octaves(ours.tile[0], config.block_m) + octaves(ours.tile[1], config.block_n);
      if (config.block_k > 0) distance += octaves(ours.tile[2], config.block_k) / 4;
      if (ours.stages > 0) distance += octaves(ours.stages, config.stages) / 10;
      if (distance >= least) continue;
      least = distance;
      nearest = i;
    }
    if (std::isfinite(least) && std::ranges::find(places, nearest) == places.end()) places.push_back(nearest);
  }
  return places;
}

}  // namespace tilesmith
