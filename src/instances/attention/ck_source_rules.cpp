// What the templates of Composable Kernel ask of an attention instance: conditions that its headers assert, or without
// which a source compiles to a kernel that computes nothing. An instance that is listed and breaks one has no source.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "instances/attention/ck_tiles.hpp"

namespace tilesmith {
namespace {

using F = AttentionFamily;
using Subject = AmdAttentionSubject;

F family(const Subject& s) {
  return s.signature().family;
}
bool has_two_products(const Subject& s) {
  return family(s) == F::fwd || family(s) == F::fwd_splitkv || family(s) == F::fwd_pagedkv ||
         family(s) == F::batch_prefill;
}
bool is_v3(const Subject& s) {
  return s.algorithm().pipeline == Pipeline::qr_async_trload_v3;
}
/// Pipelines that copy keys to local memory while they compute have loads of their own for the first slice.
bool loads_ahead(const Subject& s) {
  return (family(s) == F::fwd && is_async(s.spec, s.algorithm().pipeline)) || family(s) == F::batch_prefill;
}
int product_of_waves(const Subject& s, std::size_t product) {
  const auto& wave = s.algorithm().wave;
  return wave[3 * product] * wave[3 * product + 1] * wave[3 * product + 2];
}
/// Pipelines whose blocks load keys and values as QXKSVS's policy says; others have a policy of their own.
bool has_usual_loads(const Subject& s) {
  const Pipeline pipeline = s.algorithm().pipeline;
  return has_two_products(s) && !is_v3(s) && pipeline != Pipeline::qr_async_trload &&
         pipeline != Pipeline::qr_nwarp_sshuffle && !s.algorithm().use_trload;
}
int lanes_of_block(const Subject& s) {
  return product_of_waves(s, 0) * s.chip.lanes_per_wave;
}
/// Elements in 16 bytes: the widest access.
int widest(const Subject& s) {
  return 16 * 8 / bits_of(s.signature().data_type);
}

/// Whether the lanes of a block load a tile of keys, n0 x k0, in whole vectors and rows: MakeKDramTileDistribution of
/// block_fmha_pipeline_qx_ks_vs_custom_policy.hpp, the same in 2024-10, 2025-07 and 2026.
bool keys_are_covered(const Subject& s) {
  const int lanes = lanes_of_block(s), elements = s.n0() * s.k0();
  if (lanes == 0 || elements % lanes != 0) return false;
  const int vector = std::min(widest(s), elements / lanes);
  if (!std::has_single_bit(static_cast<unsigned>(vector)) || s.k0() % vector != 0) return false;
  const int lanes_of_row = s.k0() / vector;
  if (s.chip.lanes_per_wave % lanes_of_row != 0) return false;
  const int rows = s.chip.lanes_per_wave / lanes_of_row * product_of_waves(s, 0);
  return s.n0() % rows == 0;
}

/// The same of values, k1 x n1: MakeVDramTileDistribution. What is no whole pack of 16 bytes along k1 goes by another
/// distribution, which batch_prefill does not take.
bool values_are_covered(const Subject& s) {
  const auto& tile = s.algorithm().tile;
  const int n1 = tile[3], k1 = tile[4], lanes = lanes_of_block(s), pack = widest(s);
  const int wave = s.chip.lanes_per_wave, waves = product_of_waves(s, 0);
  if (lanes == 0 || n1 * k1 < lanes || n1 * k1 % lanes != 0) return false;
  const int each = n1 * k1 / lanes, least = std::max(1, pack / 4);
  const int most = std::min(each, pack);
  const int vector = each / most >= least ? most : each / least;
  if (vector == 0 || n1 % vector != 0) return false;
  const int deep = each / vector;
  if (each % vector != 0 || pack % deep != 0) {
    const int rows = n1 % 32 == 0 ? 32 : 16;
    return family(s) != F::batch_prefill && n1 % rows == 0 && k1 % (wave / (rows / 2) * waves) == 0;
  }
  const int across = pack / deep, columns = n1 / vector;
  if (wave % (across * columns) == 0) return k1 == waves * (wave / (across * columns)) * across * deep;
  const int of_pack = across * columns / wave;
  return of_pack > 0 && of_pack <= across && k1 == waves / of_pack * of_pack * (across / of_pack) * deep;
}

int page_vector(const Subject& s) {
  return 16 * 8 / bits_of(s.signature().data_type);
}

constexpr Rule<Subject> kRules[] = {
    {"type_has_members", "Composable Kernel names the type fp8fp16 and has no types for its tensors",
     [](const Subject& s) {
       const DataType type = s.signature().data_type;
       return type != DataType::fp8fp16 && type != DataType::mxfp8 && type != DataType::mxfp4;
     },
     [](const Subject& s) { return fmt::format("data_type {}", name_of(s.signature().data_type)); }},
    {"k0_divides_k0max", "TileFmhaShape asserts that slices of k0 fill the padded head dim",
     [](const Subject& s) { return !has_two_products(s) || (s.k0() != 0 && s.algorithm().tile[5] % s.k0() == 0); },
     [](const Subject& s) { return fmt::format("k0max {}, k0 {}", s.algorithm().tile[5], s.k0()); }},
    {"two_slices_of_k0", "the pipelines qr and qs assert two slices of the head dim or more",
     [](const Subject& s) {
       return !has_two_products(s) || loads_ahead(s) || (s.k0() != 0 && s.algorithm().tile[5] / s.k0() >= 2);
     },
     [](const Subject& s) { return fmt::format("k0max {}, k0 {}", s.algorithm().tile[5], s.k0()); }},
    {"k1_fits_n0", "the pipelines assert one slice of the keys or more",
     [](const Subject& s) {
       return !has_two_products(s) || (s.algorithm().tile[4] != 0 && s.n0() / s.algorithm().tile[4] >= 1);
     },
     [](const Subject& s) { return fmt::format("n0 {}, k1 {}", s.n0(), s.algorithm().tile[4]); }},
    {"block_loads_keys", "the lanes of a block load a slice of the keys in whole vectors and rows",
     [](const Subject& s) { return !has_usual_loads(s) || loads_ahead(s) || keys_are_covered(s); },
     [](const Subject& s) { return fmt::format("n0 {}, k0 {}, {} lanes", s.n0(), s.k0(), lanes_of_block(s)); }},
    {"block_loads_values", "the lanes of a block load a slice of the values in whole vectors, and fill it",
     [](const Subject& s) { return !has_usual_loads(s) || values_are_covered(s); },
     [](const Subject& s) {
       return fmt::format("n1 {}, k1 {}, {} lanes", s.algorithm().tile[3], s.algorithm().tile[4], lanes_of_block(s));
     }},
    {"waves_of_products_agree", "TileFmhaShape asserts that the second product's waves are a multiple of the first's",
     [](const Subject& s) {
       if (family(s) == F::bwd_dq_dk_dv)
         return product_of_waves(s, 0) == product_of_waves(s, 1) && product_of_waves(s, 1) == product_of_waves(s, 2);
       return !has_two_products(s) ||
              (product_of_waves(s, 0) != 0 && product_of_waves(s, 1) % product_of_waves(s, 0) == 0);
     },
     [](const Subject& s) {
       return fmt::format("{}, {} and {} waves", product_of_waves(s, 0), product_of_waves(s, 1),
                          product_of_waves(s, 2));
     }},
    {"copies_to_local_memory", "the asynchronous pipelines copy from global to local memory, which CDNA chips can",
     [](const Subject& s) {
       const bool asks = loads_ahead(s) || s.algorithm().pipeline == Pipeline::qr_nwarp_sshuffle;
       return !asks || s.chip.isa == AmdIsa::cdna;
     },
     [](const Subject& s) {
       return fmt::format("pipeline {} on {} ({})", name_of(s.algorithm().pipeline), s.chip.arch.text(),
                          name_of(s.chip.isa));
     }},
    {"transposed_kernel_has_a_body", "without transposed loads the kernel compiles to nothing",
     [](const Subject& s) {
       const bool asks = s.algorithm().use_trload || s.algorithm().pipeline == Pipeline::qr_async_trload || is_v3(s);
       return !asks || (s.chip.attention && s.chip.attention->transposed_load);
     },
     [](const Subject& s) {
       return fmt::format("pipeline {} on {}", name_of(s.algorithm().pipeline), s.chip.arch.text());
     }},
    {"v3_takes_the_plain_call", "the pipeline v3 is written for 16-bit types, 128 columns, and none of these traits",
     [](const Subject& s) {
       if (!is_v3(s)) return true;
       const AttentionSignature& f = s.signature();
       return (f.data_type == DataType::fp16 || f.data_type == DataType::bf16) && f.head_dim_qk == 128 &&
              f.head_dim_v == 128 && f.bias == BiasKind::none && !f.lse && !f.dropout && f.qscale == QuantScale::none &&
              !f.skip_min_seqlen_q && !f.sink;
     },
     [](const Subject& s) {
       const AttentionSignature& f = s.signature();
       return fmt::format("{} {}x{}, bias {}, lse {}, dropout {}, qscale {}, skip {}, sink {}", name_of(f.data_type),
                          f.head_dim_qk, f.head_dim_v, name_of(f.bias), f.lse, f.dropout, name_of(f.qscale),
                          f.skip_min_seqlen_q, f.sink);
     }},
    {"v3_has_two_groups_of_waves", "the pipeline v3 is two groups of four waves: 256 rows in fragments of 32",
     [](const Subject& s) {
       return !is_v3(s) || (s.m0() == 256 && s.algorithm().warp[0] == 32 && product_of_waves(s, 0) == 8);
     },
     [](const Subject& s) {
       return fmt::format("m0 {}, fragment of {} rows, {} waves", s.m0(), s.algorithm().warp[0],
                          product_of_waves(s, 0));
     }},
    {"transposed_head_dim", "the transposed pipelines hold at most 256 columns",
     [](const Subject& s) {
       return (s.algorithm().pipeline != Pipeline::qr_async_trload && !is_v3(s)) || s.algorithm().tile[5] <= 256;
     },
     [](const Subject& s) { return fmt::format("k0max {}", s.algorithm().tile[5]); }},
    {"page_holds_vectors", "batch_prefill asserts whole vectors of 16 bytes in a page and in a row",
     [](const Subject& s) {
       if (family(s) != F::batch_prefill) return true;
       const AttentionSignature& f = s.signature();
       if (f.head_dim_qk % page_vector(s) != 0) return false;
       return f.kv_layout == KvLayout::linear || (f.page_size > 1 && f.page_size % page_vector(s) == 0);
     },
     [](const Subject& s) {
       return fmt::format("page_size {}, kv_layout {}, head_dim_qk {}, vectors of {}", s.signature().page_size,
                          name_of(s.signature().kv_layout), s.signature().head_dim_qk, page_vector(s));
     }},
    {"appendkv_tile_is_square", "appendkv takes k0 and n1 of one size",
     [](const Subject& s) { return family(s) != F::fwd_appendkv || s.k0() == s.algorithm().tile[3]; },
     [](const Subject& s) { return fmt::format("k0 {}, n1 {}", s.k0(), s.algorithm().tile[3]); }},
    {"backward_rows_agree", "the backward shape asserts that the products over rows take m0 of them",
     [](const Subject& s) {
       const auto& t = s.algorithm().tile;
       return family(s) != F::bwd_dq_dk_dv || t[7] == 0 || (t[0] == t[3] && t[0] == t[5]);
     },
     [](const Subject& s) {
       const auto& t = s.algorithm().tile;
       return fmt::format("m0 {}, k1 {}, k3 {}", t[0], t[3], t[5]);
     }},
    {"backward_slices_fit", "the backward shape asserts slices of the head dims that are no larger than these",
     [](const Subject& s) {
       const auto& t = s.algorithm().tile;
       return family(s) != F::bwd_dq_dk_dv || (s.signature().head_dim_qk >= t[2] && s.signature().head_dim_v >= t[4]);
     },
     [](const Subject& s) {
       const auto& t = s.algorithm().tile;
       return fmt::format("head dims {}x{}, k0 {}, k2 {}", s.signature().head_dim_qk, s.signature().head_dim_v, t[2],
                          t[4]);
     }},
    {"short_queries_are_one_tile", "a limit of query rows is 0 or m0",
     [](const Subject& s) {
       return family(s) != F::bwd_dq_dk_dv || s.algorithm().max_seqlen_q == 0 ||
              s.algorithm().max_seqlen_q == s.algorithm().tile[0];
     },
     [](const Subject& s) {
       return fmt::format("max_seqlen_q {}, m0 {}", s.algorithm().max_seqlen_q, s.algorithm().tile[0]);
     }},
};

}  // namespace

std::span<const Rule<AmdAttentionSubject>> amd_attention_source_rules() {
  return kRules;
}

}  // namespace tilesmith
