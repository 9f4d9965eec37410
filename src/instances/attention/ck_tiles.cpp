#include "instances/attention/ck_tiles.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tilesmith {
namespace {

using Subject = AmdAttentionSubject;
using Spec = AmdAttentionSpec;

constexpr HeadDims k128{128, 128};

HeadDims dims_of(const Subject& s) {
  return {s.signature().head_dim_qk, s.signature().head_dim_v};
}
int warp_m(const Subject& s) {
  return std::max<int>(1, s.algorithm().warp[0]);
}
int warp_n(const Subject& s) {
  return std::max<int>(1, s.algorithm().warp[1]);
}
int warp_k(const Subject& s) {
  return std::max<int>(1, s.algorithm().warp[2]);
}
int bytes(const Subject& s) {
  return s.facts() == nullptr ? 1 : s.facts()->bytes;
}
bool is_cdna(const Subject& s) {
  return s.chip.isa == AmdIsa::cdna;
}

bool uses_splitkv_tiles(AttentionFamily family) {
  return family == AttentionFamily::fwd_splitkv || family == AttentionFamily::fwd_pagedkv ||
         family == AttentionFamily::batch_prefill;
}

/// The fragments the family's sweep offers for the data type.
std::vector<Shape3> offered_warps(const Spec::TypeProperties& facts, AttentionFamily family) {
  if (uses_splitkv_tiles(family)) return {facts.splitkv_warp};
  return facts.warps;
}

int k0max_of(const Spec& spec, int head_dim) {
  for (const auto& [dim, padded] : spec.k0max_of_head_dim_qk)
    if (dim == head_dim) return padded;
  return head_dim;
}

int k1_of(const Spec& spec, const Spec::TypeProperties& facts, AttentionFamily family, int m0, int n0, int k0,
          int head_dim) {
  const std::array<std::uint16_t, 4> key = {static_cast<std::uint16_t>(m0), static_cast<std::uint16_t>(n0),
                                            static_cast<std::uint16_t>(k0), static_cast<std::uint16_t>(head_dim)};
  const auto listed = [&key](const auto& list) { return std::ranges::find(list, key) != list.end(); };
  if (family == AttentionFamily::batch_prefill) return listed(spec.batch_prefill_k1_is_64) ? 64 : spec.k1;
  if (facts.k1_is_k0) return k0;
  return family == AttentionFamily::fwd && listed(spec.k1_is_16) ? 16 : spec.k1;
}

/// Where an asynchronous tile of K and V comes to lie. Composable Kernel pads each group of lanes by one vector against
/// bank conflicts.
struct AsyncLayout {
  long k_elements = 0;
  long v_elements = 0;
};
AsyncLayout async_layout(const Subject& s) {
  const Spec::Lds& lds = s.spec.lds;
  const int e = bytes(s);
  const int waves = s.m0() / warp_m(s);
  const int banks = s.chip.attention ? s.chip.attention->lds_banks : 32;
  const int row = banks * lds.bank_bytes / e;
  const int pack = lds.vector_bytes / e;
  const int rows = row / pack;
  AsyncLayout out;
  out.v_elements = static_cast<long>(lds.async_k1 / pack) * (s.signature().head_dim_v / rows) * (row + pack);
  const int vector = (s.chip.attention ? s.chip.attention->async_load_bytes : lds.bank_bytes) / e;
  const int lanes = vector == 0 ? 1 : s.k0() / vector;
  const int groups = lanes == 0 ? 1 : lds.lanes / lanes;
  const int issues = groups * waves == 0 ? 0 : s.n0() / (groups * waves);
  out.k_elements = static_cast<long>(issues) * waves * (lds.lanes * vector + pack);
  return out;
}

bool mfma_groups_of_8(const Subject& s, int n, int k) {
  return (s.n0() / n) * (s.k0() / k) % 8 == 0;
}
/// Composable Kernel schedules the matrix instructions of this pipeline in groups of eight at head dim 256 (CDNA only:
/// RDNA has no MFMA).
bool wants_groups_of_8(const Subject& s) {
  return is_cdna(s) && s.algorithm().pipeline == Pipeline::qr && s.signature().head_dim_qk == 256;
}
const Shape3& first_warp(const Subject& s) {
  static constexpr Shape3 kOnes{1, 1, 1};
  return s.facts() == nullptr ? kOnes : s.facts()->warps.front();
}

/// Tiles were tuned for these pipelines with 16-bit inputs and narrower; upstream asks it on every chip.
bool has_tuned_tiles(const Subject& s) {
  const Pipeline pipeline = s.algorithm().pipeline;
  return s.signature().data_type != DataType::fp32 &&
         (pipeline == Pipeline::qr || pipeline == Pipeline::qr_async || pipeline == Pipeline::qs);
}

long async_step(const Subject& s) {
  const int vector = (s.chip.attention ? s.chip.attention->async_load_bytes : 4) / bytes(s);
  return static_cast<long>(s.m0() / warp_m(s)) * s.spec.lds.lanes * vector;
}

constexpr Rule<Subject> kCandidateRules[] = {
    {"tile_is_on_the_axes", "m0, n0 and k0 are among the figures the sweep tries",
     [](const Subject& s) {
       for (std::size_t i = 0; i < 3; ++i) {
         const auto& axis = s.spec.tile_axes[i];
         if (std::ranges::find(axis, static_cast<int>(s.algorithm().tile[i])) == axis.end()) return false;
       }
       return true;
     },
     [](const Subject& s) {
       return fmt::format("m0 {} of {}, n0 {} of {}, k0 {} of {}", s.m0(), fmt::join(s.spec.tile_axes[0], " "), s.n0(),
                          fmt::join(s.spec.tile_axes[1], " "), s.k0(), fmt::join(s.spec.tile_axes[2], " "));
     }},
    {"k0_is_within_head_dim", "a slice of the first product is no wider than the head",
     [](const Subject& s) { return s.k0() <= s.signature().head_dim_qk; },
     [](const Subject& s) { return fmt::format("k0 {}, head_dim_qk {}", s.k0(), s.signature().head_dim_qk); }},
    {"warp_is_offered", "the matrix fragment is one the family sweeps for the data type",
     [](const Subject& s) {
       if (s.facts() == nullptr) return false;
       const auto offered = offered_warps(*s.facts(), s.signature().family);
       return std::ranges::find(offered, Shape3{s.algorithm().warp[0], s.algorithm().warp[1], s.algorithm().warp[2]}) !=
              offered.end();
     },
     [](const Subject& s) {
       std::vector<std::string> offered;
       if (s.facts() != nullptr)
         for (const Shape3& warp : offered_warps(*s.facts(), s.signature().family))
           offered.push_back(fmt::format("{}", fmt::join(warp, "x")));
       return fmt::format("warp {}x{}x{}, offered {}", s.algorithm().warp[0], s.algorithm().warp[1],
                          s.algorithm().warp[2], fmt::join(offered, " "));
     }},
    {"tile_is_whole_fragments", "m0, n0 and k0 are multiples of the fragment",
     [](const Subject& s) { return s.m0() % warp_m(s) == 0 && s.n0() % warp_n(s) == 0 && s.k0() % warp_k(s) == 0; },
     [](const Subject& s) {
       return fmt::format("{}x{}x{} over {}x{}x{}", s.m0(), s.n0(), s.k0(), s.algorithm().warp[0],
                          s.algorithm().warp[1], s.algorithm().warp[2]);
     }},
    {"derived_figures_agree", "n1, k1 and k0max follow from the head dims and the first three figures",
     [](const Subject& s) {
       if (s.facts() == nullptr) return false;
       const auto& tile = s.algorithm().tile;
       const int head_dim = s.signature().head_dim_qk;
       return tile[3] == s.signature().head_dim_v && tile[5] == k0max_of(s.spec, head_dim) &&
              tile[4] == k1_of(s.spec, *s.facts(), s.signature().family, s.m0(), s.n0(), s.k0(), head_dim);
     },
     [](const Subject& s) {
       const auto& tile = s.algorithm().tile;
       const int head_dim = s.signature().head_dim_qk;
       return fmt::format(
           "n1 {} k1 {} k0max {}; they follow as {} {} {}", tile[3], tile[4], tile[5], s.signature().head_dim_v,
           s.facts() == nullptr ? 0 : k1_of(s.spec, *s.facts(), s.signature().family, s.m0(), s.n0(), s.k0(), head_dim),
           k0max_of(s.spec, head_dim));
     }},
};

constexpr Rule<Subject> kForwardRules[] = {
    {"lds_fits",
     "the tiles of Q and K, or the buffers of an asynchronous pipeline, fit the local memory upstream counts on",
     [](const Subject& s) {
       if (is_async(s.spec, s.algorithm().pipeline)) return amd_async_lds_bytes(s) <= s.spec.lds.async_limit_bytes;
       return amd_sync_lds_bytes(s) <= s.spec.lds.sync_limit_bytes;
     },
     [](const Subject& s) {
       if (is_async(s.spec, s.algorithm().pipeline))
         return fmt::format("{} buffers of K or V {} bytes, limit {}", s.spec.lds.async_buffers, amd_async_lds_bytes(s),
                            s.spec.lds.async_limit_bytes);
       return fmt::format("(m0 {} + n0 {}) * k0 {} * {} = {} bytes, limit {}", s.m0(), s.n0(), s.k0(), bytes(s),
                          amd_sync_lds_bytes(s), s.spec.lds.sync_limit_bytes);
     }},
    {"k0_divides_head_dim", "the first product runs over whole slices of the head",
     [](const Subject& s) { return s.k0() > 0 && s.signature().head_dim_qk % s.k0() == 0; },
     [](const Subject& s) { return fmt::format("head_dim_qk {}, k0 {}", s.signature().head_dim_qk, s.k0()); }},
    {"mfma_in_groups_of_8", "at head dim 256 the pipeline qr schedules matrix instructions in groups of eight",
     [](const Subject& s) { return !wants_groups_of_8(s) || mfma_groups_of_8(s, warp_n(s), warp_k(s)); },
     [](const Subject& s) {
       return fmt::format("head_dim_qk {}: ({} / {}) * ({} / {}) = {}", s.signature().head_dim_qk, s.n0(), warp_n(s),
                          s.k0(), warp_k(s), (s.n0() / warp_n(s)) * (s.k0() / warp_k(s)));
     }},
    {"mfma_in_groups_of_8_first_fragment",
     "upstream repeats the check of mfma_in_groups_of_8 with the data type's first fragment",
     [](const Subject& s) { return !wants_groups_of_8(s) || mfma_groups_of_8(s, first_warp(s)[1], first_warp(s)[2]); },
     [](const Subject& s) {
       const Shape3& warp = first_warp(s);
       return fmt::format("head_dim_qk {}: ({} / {}) * ({} / {}) = {}", s.signature().head_dim_qk, s.n0(), warp[1],
                          s.k0(), warp[2], (s.n0() / warp[1]) * (s.k0() / warp[2]));
     }},
    {"async_loads_are_whole", "each lane loads a whole number of vectors of K (CDNA only)",
     [](const Subject& s) {
       if (s.algorithm().pipeline != Pipeline::qr_async || !is_cdna(s)) return true;
       const long step = async_step(s);
       return step > 0 && static_cast<long>(s.n0()) * s.k0() % step == 0;
     },
     [](const Subject& s) {
       return fmt::format("n0 * k0 = {}, one load of all lanes {}", s.n0() * s.k0(), async_step(s));
     }},
    {"tile_is_tuned",
     "at head dims 128x128, n0 is 128, and m0 is 128 for qr_async while k0 is not 64 for the other "
     "pipelines; at other head dims m0 is at least 64",
     [](const Subject& s) {
       if (!has_tuned_tiles(s)) return true;
       if (dims_of(s) == k128)
         return s.n0() == 128 && (s.algorithm().pipeline == Pipeline::qr_async ? s.m0() == 128 : s.k0() != 64);
       return s.m0() >= 64;
     },
     [](const Subject& s) {
       return fmt::format("head dims {}x{}, pipeline {}, tile {}x{}x{}", s.signature().head_dim_qk,
                          s.signature().head_dim_v, name_of(s.algorithm().pipeline), s.m0(), s.n0(), s.k0());
     }},
    {"trload_tile_is_tuned",
     "upstream does not build the pipelines of transposed loads with n0 128 at head dims 128x128",
     [](const Subject& s) {
       return s.algorithm().pipeline != Pipeline::qr_async_trload || dims_of(s) != k128 || s.n0() != 128;
     },
     [](const Subject& s) { return fmt::format("pipeline {}, n0 {}", name_of(s.algorithm().pipeline), s.n0()); }},
    {"v3_has_256_rows", "the pipeline with two wave groups computes 256 query rows",
     [](const Subject& s) { return s.algorithm().pipeline != Pipeline::qr_async_trload_v3 || s.m0() == 256; },
     [](const Subject& s) { return fmt::format("pipeline {}, m0 {}", name_of(s.algorithm().pipeline), s.m0()); }},
};

constexpr Rule<Subject> kSplitKvRules[] = {
    {"lds_fits", "the tiles of Q and K fit the local memory upstream counts on",
     [](const Subject& s) { return amd_sync_lds_bytes(s) <= s.spec.lds.sync_limit_bytes; },
     [](const Subject& s) {
       return fmt::format("(m0 {} + n0 {}) * k0 {} * {} = {} bytes, limit {}", s.m0(), s.n0(), s.k0(), bytes(s),
                          amd_sync_lds_bytes(s), s.spec.lds.sync_limit_bytes);
     }},
};

AttentionTile forward_tile(int m0, int n0, int k0, int n1, int k1, int k0max, const Shape3& warp) {
  const auto figure = [](int value) { return static_cast<std::uint16_t>(value); };
  AttentionTile out;
  out.tile = {figure(m0), figure(n0), figure(k0), figure(n1), figure(k1), figure(k0max)};
  const std::uint16_t waves = figure(m0 / warp[0]);
  out.wave = {waves, 1, 1, waves, 1, 1, 1, 1, 1};
  out.warp = {warp[0], warp[1], warp[2], warp[0], warp[1], warp[2], 16, 16, 16};
  return out;
}

KernelConfig config_for(const AmdAttentionQuery& query, AttentionFamily family, DataType type, HeadDims dims,
                        Pipeline pipeline) {
  KernelConfig config{.origin = Origin::ck,
                      .arch = query.chip.arch,
                      .signature = AttentionSignature{},
                      .algorithm = {.pipeline = pipeline}};
  config.attention().family = family;
  config.attention().data_type = type;
  config.attention().head_dim_qk = dims[0];
  config.attention().head_dim_v = dims[1];
  return config;
}

std::vector<AttentionTile> swept_tiles(const AmdAttentionQuery& query, AttentionFamily family, DataType type,
                                       HeadDims dims, Pipeline pipeline) {
  const Spec::TypeProperties* facts = query.spec.facts_of(type);
  std::vector<AttentionTile> tiles;
  if (facts == nullptr) return tiles;
  const bool raw = query.mode == EnumerationMode::exhaustive && family != AttentionFamily::batch_prefill;
  const auto rules = family == AttentionFamily::fwd ? amd_forward_tile_rules() : amd_splitkv_tile_rules();
  const std::vector<Shape3> warps = offered_warps(*facts, family);
  KernelConfig config = config_for(query, family, type, dims, pipeline);
  const int k0max = k0max_of(query.spec, dims[0]);
  for (const int m0 : query.spec.tile_axes[0])
    for (const int n0 : query.spec.tile_axes[1])
      for (const int k0 : query.spec.tile_axes[2])
        for (const Shape3& warp : warps) {
          const int k1 = k1_of(query.spec, *facts, family, m0, n0, k0, dims[0]);
          const AttentionTile tile = forward_tile(m0, n0, k0, dims[1], k1, k0max, warp);
          config.algorithm.tile = tile.tile;
          config.algorithm.wave = tile.wave;
          config.algorithm.warp = tile.warp;
          const Subject subject{config, query.chip, query.spec};
          if (first_refusal(amd_candidate_tile_rules(), subject) != nullptr) continue;
          if (!raw && first_refusal(rules, subject) != nullptr) continue;
          tiles.push_back(tile);
        }
  return tiles;
}

/// The earlier enumeration took its fragments from the tile: 32 rows for bytes; 16 rows for split keys and for 16 or 64
/// query rows.
Shape3 table_warp(const Spec::TypeProperties& facts, AttentionFamily family, int m0) {
  if (uses_splitkv_tiles(family)) return facts.splitkv_warp;
  const bool narrow = m0 <= 16 || m0 == 64;
  for (const Shape3& warp : facts.warps)
    if ((warp[0] == 16) == narrow) return warp;
  return facts.warps.front();
}

/// What the earlier enumeration asked of a forward tile: 128 query rows away from 128x128, 256 exactly for the pipeline
/// of two wave groups.
bool table_forward_tile_fits(const AmdAttentionQuery& query, DataType type, HeadDims dims, Pipeline pipeline,
                             const std::array<std::uint16_t, 6>& tile) {
  const int m0 = tile[0], n0 = tile[1], k0 = tile[2];
  if (query.chip.attention->v3 && (m0 == 256) != (pipeline == Pipeline::qr_async_trload_v3)) return false;
  if (pipeline == Pipeline::qr_async_trload) return dims != k128 || n0 != 128;
  if (pipeline == Pipeline::qr_async_trload_v3 || type == DataType::fp32) return true;
  if (dims != k128) return m0 == 128;
  return n0 == 128 && (pipeline == Pipeline::qr_async || k0 != 64);
}

std::vector<AttentionTile> table_tiles(const AmdAttentionQuery& query, AttentionFamily family, DataType type,
                                       HeadDims dims, Pipeline pipeline) {
  std::vector<AttentionTile> tiles;
  const Spec::TypeProperties* facts = query.spec.facts_of(type);
  if (facts == nullptr || (family == AttentionFamily::fwd && query.chip.isa != query.spec.tables.isa)) return tiles;
  for (const Spec::TypeTable& table : query.spec.tables.tiles[static_cast<std::size_t>(family)]) {
    if (std::ranges::find(table.data_types, type) == table.data_types.end() || !has_capability(query.chip, table.needs))
      continue;
    for (const Spec::TableTiles& row : table.rows) {
      if (row.head_dims != dims) continue;
      for (const auto& t : row.tiles) {
        if (family == AttentionFamily::fwd && !table_forward_tile_fits(query, type, dims, pipeline, t)) continue;
        tiles.push_back(forward_tile(t[0], t[1], t[2], t[3], t[4], t[5], table_warp(*facts, family, t[0])));
      }
    }
  }
  return tiles;
}

/// Kernels without a swept tile show the default figures where they set none.
AttentionTile fixed_tile(const Spec& spec) {
  AttentionTile out;
  std::ranges::copy(spec.default_tile, out.tile.begin());
  out.wave = spec.default_wave;
  out.warp = spec.default_warp;
  return out;
}

void set_backward_waves(const Spec& spec, AttentionTile& tile) {
  const Shape3 key{tile.tile[0], tile.tile[1], tile.tile[2]};
  const Spec::BackwardWaves* found = nullptr;
  for (const Spec::BackwardWaves& row : spec.backward_waves)
    if (row.tile == key && row.trload == tile.use_trload) found = &row;
  // Tiles of another tag share the row of an equal tile.
  for (const Spec::BackwardWaves& row : spec.backward_waves)
    if (found == nullptr && row.tile == key) found = &row;
  const auto waves_n = static_cast<std::uint16_t>(std::clamp(tile.tile[1] / 32, 1, 4));
  tile.wave = found != nullptr ? found->wave : std::array<std::uint16_t, 9>{1, waves_n, 1, 4, 1, 1, 1, waves_n, 1};
  const std::uint16_t mn = spec.backward_warp_mn;
  tile.warp = {mn, mn, spec.backward_warp_k0, mn, mn, found != nullptr ? found->warp_k1 : spec.backward_warp_k1,
               mn, mn, spec.backward_warp_k2};
}

std::vector<AttentionTile> exhaustive_backward_tiles(const AmdAttentionQuery& query, DataType type, HeadDims dims) {
  AmdAttentionQuery raw = query;
  raw.mode = EnumerationMode::exhaustive;
  std::vector<AttentionTile> tiles;
  for (AttentionTile tile : swept_tiles(raw, AttentionFamily::bwd_dq_dk_dv, type, dims, Pipeline::qr)) {
    set_backward_waves(query.spec, tile);
    // The swept fragment gave way to the table's, so a tile comes once per fragment that divides it.
    if (tiles.empty() || tiles.back().tile != tile.tile) tiles.push_back(tile);
  }
  return tiles;
}

}  // namespace

bool is_async(const AmdAttentionSpec& spec, Pipeline pipeline) {
  return std::ranges::find(spec.async_pipelines, pipeline) != spec.async_pipelines.end();
}

long amd_sync_lds_bytes(const Subject& s) {
  return static_cast<long>(s.m0() + s.n0()) * s.k0() * bytes(s);
}

long amd_async_lds_bytes(const Subject& s) {
  const AsyncLayout layout = async_layout(s);
  return s.spec.lds.async_buffers * static_cast<long>(bytes(s)) * std::max(layout.k_elements, layout.v_elements);
}

std::span<const Rule<AmdAttentionSubject>> amd_candidate_tile_rules() {
  return kCandidateRules;
}
std::span<const Rule<AmdAttentionSubject>> amd_forward_tile_rules() {
  return kForwardRules;
}
std::span<const Rule<AmdAttentionSubject>> amd_splitkv_tile_rules() {
  return kSplitKvRules;
}

std::vector<AttentionTile> amd_backward_tiles(const AmdAttentionSpec& spec, HeadDims dims, bool main) {
  std::vector<AttentionTile> out;
  for (const Spec::BackwardTile& row : spec.backward_tiles) {
    if (row.head_dims != dims || (row.tag == TileTag::none) != main) continue;
    AttentionTile& tile = out.emplace_back();
    tile.tile = row.tile;
    tile.tag = row.tag;
    tile.use_trload = row.tag == TileTag::trload;
    tile.batch_only = row.batch_only;
    set_backward_waves(spec, tile);
  }
  return out;
}

std::vector<AttentionTile> amd_attention_tiles(const AmdAttentionQuery& query, AttentionFamily family, DataType type,
                                               HeadDims dims, Pipeline pipeline) {
  switch (family) {
    case AttentionFamily::fwd:
    case AttentionFamily::fwd_splitkv:
    case AttentionFamily::fwd_pagedkv:
    case AttentionFamily::batch_prefill:
      return query.mode == EnumerationMode::tables ? table_tiles(query, family, type, dims, pipeline)
                                                   : swept_tiles(query, family, type, dims, pipeline);
    case AttentionFamily::bwd_dq_dk_dv:
      return exhaustive_backward_tiles(query, type, dims);
    default:
      break;
  }
  AttentionTile tile = fixed_tile(query.spec);
  if (family == AttentionFamily::fwd_splitkv_combine) {
    tile.tile[0] = query.spec.combine_m0;
    tile.tile[1] = dims[1];
    tile.tile[2] = query.spec.combine_k0;
    tile.tile[3] = query.spec.combine_n1;
  } else if (family == AttentionFamily::fwd_appendkv) {
    tile.tile[0] = query.spec.appendkv_m0;
    tile.tile[1] = query.spec.appendkv_n0;
    tile.tile[2] = dims[0];
    tile.tile[3] = dims[1];
  } else {
    tile.tile[0] = query.spec.backward_1d_m0;
  }
  return {tile};
}

void complete_amd_attention(const AmdAttentionSpec& spec, KernelConfig& config) {
  const AttentionSignature& signature = config.attention();
  Algorithm& algorithm = config.algorithm;
  if (signature.family == AttentionFamily::bwd_dq_dk_dv) {
    AttentionTile tile;
    tile.tile = algorithm.tile;
    tile.tag = algorithm.tag;
    tile.use_trload = algorithm.tag == TileTag::trload;
    for (const Spec::BackwardTile& row : spec.backward_tiles) {
      const bool same = row.head_dims == HeadDims{signature.head_dim_qk, signature.head_dim_v} && row.tag == tile.tag &&
                        std::equal(row.tile.begin(), row.tile.begin() + 6, tile.tile.begin());
      if (same) tile.tile = row.tile;
    }
    set_backward_waves(spec, tile);
    algorithm.tile = tile.tile;
    algorithm.wave = tile.wave;
    algorithm.warp = tile.warp;
    algorithm.use_trload = tile.use_trload;
  } else if (uses_splitkv_tiles(signature.family) || signature.family == AttentionFamily::fwd) {
    std::ranges::copy(std::array<std::uint16_t, 3>{16, 16, 16}, algorithm.warp.begin() + 6);
  } else {
    algorithm.wave = spec.default_wave;
    algorithm.warp = spec.default_warp;
  }
}

}  // namespace tilesmith
