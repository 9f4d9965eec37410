// What an AMD attention instance must meet to be worth building, besides being listed: the checks of upstream's own
// request validator, and the limits of the silicon that its enumeration does not look at.
#include <fmt/format.h>
#include <fmt/ranges.h>

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
bool is_1d(const Subject& s) {
  return family(s) == F::fwd_splitkv_combine || family(s) == F::fwd_appendkv || family(s) == F::bwd_dot_do_o ||
         family(s) == F::bwd_convert_dq;
}
bool is_transposed(Pipeline pipeline) {
  return pipeline == Pipeline::qr_async_trload || pipeline == Pipeline::qr_async_trload_v3;
}
int waves(const Subject& s) {
  const auto& wave = s.algorithm().wave;
  return wave[0] * wave[1] * wave[2];
}
long mfma_per_wave(const Subject& s) {
  const auto& a = s.algorithm();
  const auto ratio = [&](std::size_t i) { return a.warp[i] == 0 ? 0 : a.tile[i] / a.warp[i]; };
  const int spread = a.wave[0] * a.wave[1];
  return spread == 0 ? 0 : static_cast<long>(ratio(0)) * ratio(1) * ratio(2) / spread;
}

/// The fragments of a kernel's products: forward kernels have two, the backward one three.
std::vector<Shape3> fragments(const Subject& s) {
  const auto& warp = s.algorithm().warp;
  std::vector<Shape3> out;
  const std::size_t products = is_1d(s) ? 0 : family(s) == F::bwd_dq_dk_dv ? 3 : 2;
  for (std::size_t i = 0; i < products; ++i) {
    const Shape3 fragment{warp[3 * i], warp[3 * i + 1], warp[3 * i + 2]};
    if (std::ranges::find(out, fragment) == out.end()) out.push_back(fragment);
  }
  return out;
}
const AmdFragments* chip_fragments(const Subject& s) {
  const DataType input = input_type(s.signature().data_type);
  return s.chip.fragments_of(input, input, DataType::fp32);
}

long lds_bytes(const Subject& s) {
  if (is_1d(s) || family(s) == F::bwd_dq_dk_dv) return 0;
  return is_async(s.spec, s.algorithm().pipeline) && family(s) == F::fwd ? amd_async_lds_bytes(s)
                                                                         : amd_sync_lds_bytes(s);
}

bool uses_paged_keys(const Subject& s) {
  return family(s) == F::fwd_pagedkv || family(s) == F::batch_prefill;
}

constexpr Rule<Subject> kRules[] = {
    // upstream's validator
    {"data_type_is_supported", "validator: the chip lists the data type; the backward kernels take fp16, bf16 and fp32",
     [](const Subject& s) {
       const DataType type = s.signature().data_type;
       if (std::ranges::find(s.chip.attention->data_types, type) == s.chip.attention->data_types.end()) return false;
       return family(s) < F::bwd_dot_do_o || type == DataType::fp16 || type == DataType::bf16 || type == DataType::fp32;
     },
     [](const Subject& s) {
       return fmt::format("data_type {} on {}", name_of(s.signature().data_type), s.chip.arch.text());
     }},
    {"pipeline_is_supported", "validator: the chip has the pipeline (combine kernels have their own)",
     [](const Subject& s) {
       const auto& pipelines = s.chip.attention->pipelines;
       return family(s) == F::fwd_splitkv_combine ||
              std::ranges::find(pipelines, s.algorithm().pipeline) != pipelines.end();
     },
     [](const Subject& s) {
       std::vector<std::string_view> names;
       for (const Pipeline pipeline : s.chip.attention->pipelines) names.push_back(name_of(pipeline));
       return fmt::format("pipeline {}; {} has {}", name_of(s.algorithm().pipeline), s.chip.arch.text(),
                          fmt::join(names, " "));
     }},
    {"pipeline_fits_family", "validator: each family has pipelines of its own",
     [](const Subject& s) {
       const Pipeline pipeline = s.algorithm().pipeline;
       switch (family(s)) {
         case F::fwd_splitkv:
           return pipeline == Pipeline::qr || pipeline == Pipeline::qr_nwarp_sshuffle;
         case F::fwd_pagedkv:
           return pipeline == Pipeline::qr_pagedkv;
         case F::fwd_appendkv:
           return pipeline == Pipeline::appendkv;
         case F::batch_prefill:
           return pipeline == Pipeline::qr_async;
         default:
           return true;
       }
     },
     [](const Subject& s) {
       return fmt::format("family {}, pipeline {}", name_of(family(s)), name_of(s.algorithm().pipeline));
     }},
    {"transposed_load_is_present",
     "validator and silicon: tiles and pipelines of transposed loads need the instruction",
     [](const Subject& s) {
       return s.chip.attention->transposed_load ||
              (!is_transposed(s.algorithm().pipeline) && !s.algorithm().use_trload);
     },
     [](const Subject& s) {
       return fmt::format("pipeline {}, tile tag {}; {} {}", name_of(s.algorithm().pipeline),
                          name_of(s.algorithm().tag), s.chip.arch.text(),
                          s.chip.attention->transposed_load ? "has transposed loads" : "has none");
     }},
    {"head_dims_are_multiples_of_8", "validator: rows are loaded eight elements at a time",
     [](const Subject& s) { return s.signature().head_dim_qk % 8 == 0 && s.signature().head_dim_v % 8 == 0; },
     [](const Subject& s) { return fmt::format("{}x{}", s.signature().head_dim_qk, s.signature().head_dim_v); }},
    {"soft_cap_excludes_bias", "validator: the logits soft cap and a bias are not built together",
     [](const Subject& s) { return !s.signature().soft_cap || s.signature().bias == BiasKind::none; },
     [](const Subject& s) {
       return fmt::format("soft_cap {}, bias {}", s.signature().soft_cap, name_of(s.signature().bias));
     }},
    {"transposed_head_dims", "validator: the transposed pipelines exist for equal head dims of 64 or 128",
     [](const Subject& s) {
       const int qk = s.signature().head_dim_qk;
       return !is_transposed(s.algorithm().pipeline) || (qk == s.signature().head_dim_v && (qk == 64 || qk == 128));
     },
     [](const Subject& s) {
       return fmt::format("pipeline {}, {}x{}", name_of(s.algorithm().pipeline), s.signature().head_dim_qk,
                          s.signature().head_dim_v);
     }},
    {"mfma_per_wave_in_groups_of_8",
     "validator: at head dim 256 the pipeline qr schedules each wave's matrix instructions in groups of eight",
     [](const Subject& s) {
       const bool asked = s.chip.isa == AmdIsa::cdna && s.algorithm().pipeline == Pipeline::qr &&
                          s.signature().head_dim_qk == 256 && !is_1d(s);
       return !asked || mfma_per_wave(s) % 8 == 0;
     },
     [](const Subject& s) {
       return fmt::format("head_dim_qk {}, {} instructions a wave and slice", s.signature().head_dim_qk,
                          mfma_per_wave(s));
     }},
    {"paging_fits_family",
     "validator: paged families read K and V through pages, batch_prefill of a power of two; only fwd takes V in "
     "columns",
     [](const Subject& s) {
       if (s.signature().v_layout != MatrixOrder::row && family(s) != F::fwd) return false;
       if (!uses_paged_keys(s)) return true;
       return s.signature().paged_kv &&
              (family(s) != F::batch_prefill || std::has_single_bit(unsigned{s.signature().page_size}));
     },
     [](const Subject& s) {
       return fmt::format("paged_kv {}, page_size {}, v_layout {}", s.signature().paged_kv, s.signature().page_size,
                          name_of(s.signature().v_layout));
     }},
    {"mode_fits_family", "validator: appendkv works on batches, batch_prefill on groups",
     [](const Subject& s) {
       if (family(s) == F::fwd_appendkv) return s.signature().mode == SequenceMode::batch;
       return family(s) != F::batch_prefill || s.signature().mode == SequenceMode::group;
     },
     [](const Subject& s) {
       return fmt::format("family {}, mode {}", name_of(family(s)), name_of(s.signature().mode));
     }},
    {"combine_tile_divides_head_dim", "validator: a combine kernel writes whole tiles of 32 columns",
     [](const Subject& s) {
       const int n1 = s.algorithm().tile[3];
       return family(s) != F::fwd_splitkv_combine || (n1 == 32 && s.signature().head_dim_v % n1 == 0);
     },
     [](const Subject& s) {
       return fmt::format("n1 {}, head_dim_v {}", s.algorithm().tile[3], s.signature().head_dim_v);
     }},
    {"occupancy_is_positive",
     "validator: blocks per compute unit is -1 (left to the compiler) or above 0, wave groups above 0",
     [](const Subject& s) {
       return (s.algorithm().block_per_cu == -1 || s.algorithm().block_per_cu > 0) && s.algorithm().wave_groups > 0;
     },
     [](const Subject& s) {
       return fmt::format("block_per_cu {}, wave_groups {}", s.algorithm().block_per_cu, s.algorithm().wave_groups);
     }},
    // the silicon
    {"fragments_exist", "silicon: the matrix unit has every fragment of the kernel's products for the input type",
     [](const Subject& s) {
       const AmdFragments* offered = chip_fragments(s);
       for (const Shape3& fragment : fragments(s))
         if (offered == nullptr || std::ranges::find(offered->shapes, fragment) == offered->shapes.end()) return false;
       return true;
     },
     [](const Subject& s) {
       const AmdFragments* offered = chip_fragments(s);
       std::vector<std::string> wanted, has;
       for (const Shape3& fragment : fragments(s)) wanted.push_back(fmt::format("{}", fmt::join(fragment, "x")));
       if (offered != nullptr)
         for (const Shape3& fragment : offered->shapes) has.push_back(fmt::format("{}", fmt::join(fragment, "x")));
       return fmt::format("uses {}; {} has {} for {}", fmt::join(wanted, " "), s.chip.arch.text(), fmt::join(has, " "),
                          name_of(input_type(s.signature().data_type)));
     }},
    {"lds_fits_chip",
     "silicon: the tiles fit the chip's local memory (upstream lets asynchronous pipelines take 160 KiB everywhere)",
     [](const Subject& s) { return lds_bytes(s) <= s.chip.lds_bytes; },
     [](const Subject& s) {
       return fmt::format("{} bytes, {} has {}", lds_bytes(s), s.chip.arch.text(), s.chip.lds_bytes);
     }},
    {"block_fits_chip", "silicon: a block has at most 1024 lanes",
     [](const Subject& s) { return waves(s) * s.chip.lanes_per_wave <= 1024; },
     [](const Subject& s) { return fmt::format("{} waves of {} lanes", waves(s), s.chip.lanes_per_wave); }},
    {"second_product_is_whole_fragments", "silicon: n1 and k1 are whole fragments of the second product",
     [](const Subject& s) {
       if (is_1d(s) || family(s) == F::bwd_dq_dk_dv) return true;
       const auto& a = s.algorithm();
       return a.warp[4] != 0 && a.warp[5] != 0 && a.tile[3] % a.warp[4] == 0 && a.tile[4] % a.warp[5] == 0;
     },
     [](const Subject& s) {
       const auto& a = s.algorithm();
       return fmt::format("n1 {} over {}, k1 {} over {}", a.tile[3], a.warp[4], a.tile[4], a.warp[5]);
     }},
    {"k0_slices_cover_head_dim",
     "kernel: the first product computes k0max / k0 whole slices, and would leave out columns beyond them",
     [](const Subject& s) {
       if (is_1d(s) || family(s) == F::bwd_dq_dk_dv) return true;
       return s.k0() != 0 && s.algorithm().tile[5] / s.k0() * s.k0() >= s.signature().head_dim_qk;
     },
     [](const Subject& s) {
       const int slices = s.k0() == 0 ? 0 : s.algorithm().tile[5] / s.k0();
       return fmt::format("{} slices of {} over head_dim_qk {}", slices, s.k0(), s.signature().head_dim_qk);
     }},
};

}  // namespace

std::span<const Rule<AmdAttentionSubject>> amd_attention_sound_rules() {
  return kRules;
}

}  // namespace tilesmith
