// What the template of kernels/hip/attention carries, and what a chip holds.
#include "instances/attention/hip.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "instances/attention/gpu_rules.hpp"
#include "spec/head_dims.hpp"

namespace tilesmith {
namespace {

using Subject = HipAttentionSubject;

constexpr int kMostThreads = 1024;
/// Elements of a latent row, and those of them that are values: the others have positions (DeepSeek-V3).
constexpr int kMostLatent = 576, kLatentValues = 512;

bool is_forward(const Subject& s) {
  AttentionSignature plain = s.signature();  // what is left after the carried fields are reset must be the default
  plain.data_type = AttentionSignature{}.data_type;
  plain.mode = SequenceMode::batch;
  plain.head_dim_qk = plain.head_dim_v = AttentionSignature{}.head_dim_qk;
  plain.mask = MaskKind::none;
  plain.bias = BiasKind::none;
  plain.lse = plain.dropout = plain.soft_cap = plain.sink = plain.negative_scale = plain.unaligned = false;
  plain.qscale = QuantScale::none;  // asked by a rule of its own
  if (s.is_split()) {
    plain.paged_kv = plain.latent = false;
    plain.cache = KvElements::as_queries;
  }
  if (s.algorithm().pipeline == Pipeline::rowwise) {
    if (plain.family != AttentionFamily::fwd_splitkv_combine) return false;
    plain.family = AttentionFamily::fwd;
  }
  return plain == AttentionSignature{};
}

int head_dim_max(const Subject& s) {
  return s.signature().latent ? std::max(s.spec.head_dim_max, kMostLatent) : s.spec.head_dim_max;
}

/// Rows are whole 16 bytes, unless they are read by elements.
int head_dim_step(const Subject& s) {
  return s.signature().unaligned ? 1 : has_narrow_cache(s.signature()) ? 2 * kHipAttentionChunk : kHipAttentionChunk;
}

bool head_dim_fits(const Subject& s, int dim) {
  return dim >= s.spec.head_dim_min && dim <= head_dim_max(s) && dim % head_dim_step(s) == 0;
}

bool has_instruction(const Subject& s) {
  const Algorithm& a = s.algorithm();
  const HipFragment* fragment = s.fragment();
  return a.instruction == s.spec.matrix_unit && fragment != nullptr && fragment->accumulator == DataType::fp32 &&
         a.warp[1] == fragment->side && a.warp[2] == fragment->k;
}

bool fields_belong(const Subject& s) {
  Algorithm rest = s.algorithm();
  const auto beyond = [](const auto& figures, std::size_t used) {
    return std::ranges::any_of(std::span(figures).subspan(used), [](int value) { return value != 0; });
  };
  if ((rest.pipeline != Pipeline::flash && !s.is_split()) || rest.block_per_cu < 1) return false;
  if (beyond(rest.tile, 2) || beyond(rest.wave, 2) || rest.wave[1] == 1 || beyond(rest.warp, 3)) return false;
  rest.tile = rest.wave = rest.warp = {};
  rest.block_per_cu = -1;
  return rest == Algorithm{.pipeline = rest.pipeline, .instruction = rest.instruction};
}

/// A step of keys is whole fragments, as many as a lane's chunk of 16 bytes has probabilities of, and what all parts of
/// a wave draw dropout's words for.
int keys_step(const HipFragment& fragment, int lanes) {
  const int results = fragment.side * fragment.side / lanes;
  return std::max(
      {fragment.side * std::max(1, kHipAttentionChunk / results), 8 * lanes / fragment.side, 2 * kHipAttentionChunk});
}

bool tile_is_whole(const Subject& s) {
  const HipFragment* fragment = s.fragment();
  const Algorithm& a = s.algorithm();
  const int waves = a.wave[0], all_waves = waves * std::max<int>(a.wave[1], 1), keys = a.tile[1];
  if (fragment == nullptr || waves == 0 || keys == 0) return false;
  return a.tile[0] == waves * fragment->side && all_waves * s.spec.lanes_per_wave <= kMostThreads && keys <= 256 &&
         keys % keys_step(*fragment, s.spec.lanes_per_wave) == 0;
}

HipAttentionResources resources_of(const Subject& s) {
  return tile_is_whole(s) ? hip_attention_resources(s.config, s.spec, *s.fragment()) : HipAttentionResources{};
}

constexpr Rule<Subject> kRules[] = {
    {"family_is_carried",
     "the AMD template computes attention forward without rotary embedding; keys in pages, of 8 bits and in latent "
     "rows "
     "are decode's, and partial results are joined row by row",
     is_forward,
     [](const Subject& s) {
       return fmt::format("family {}, paged_kv {}, cache {}, latent {}, rope {}, qscale {}",
                          name_of(s.signature().family), s.signature().paged_kv, name_of(s.signature().cache),
                          s.signature().latent, name_of(s.signature().rope), name_of(s.signature().qscale));
     }},
    {"type_is_carried", "the chip's facts list the type for attention",
     [](const Subject& s) {
       return std::ranges::find(s.spec.attention_types, s.signature().data_type) != s.spec.attention_types.end();
     },
     [](const Subject& s) { return fmt::format("{} on {}", name_of(s.signature().data_type), s.spec.arch.text()); }},
    {"head_dims_fit",
     "head dims are within the template's range, in steps of 16 bytes unless rows are read by elements",
     [](const Subject& s) {
       return head_dim_fits(s, s.signature().head_dim_qk) && head_dim_fits(s, s.signature().head_dim_v);
     },
     [](const Subject& s) {
       return fmt::format("head_dim_qk {}, head_dim_v {}; {} to {} in steps of {}", s.signature().head_dim_qk,
                          s.signature().head_dim_v, s.spec.head_dim_min, head_dim_max(s), head_dim_step(s));
     }},
    {"scales_belong_to_narrow_pages", "keys and values of 8 bits in pages may have scales of pages; others have none",
     [](const Subject& s) {
       const AttentionSignature& sig = s.signature();
       return sig.qscale == QuantScale::none ||
              (sig.qscale == QuantScale::kv_blockscale && has_narrow_cache(sig) && sig.paged_kv);
     },
     [](const Subject& s) {
       return fmt::format("cache {}, paged_kv {}, qscale {}", name_of(s.signature().cache), s.signature().paged_kv,
                          name_of(s.signature().qscale));
     }},
    kMaskIsAWindow<Subject>,
    kNegativeScaleMatters<Subject>,
    {"instruction_is_there", "the chip's facts have a matrix instruction for the type with this fragment",
     has_instruction,
     [](const Subject& s) {
       const auto& warp = s.algorithm().warp;
       return fmt::format("{}, {} x {} x {} of {}, on a chip with {}", name_of(s.algorithm().instruction), warp[0],
                          warp[1], warp[2], name_of(s.signature().data_type), name_of(s.spec.matrix_unit));
     }},
    {"fields_belong", "no field of other templates is set; the pipeline is flash, decode or rowwise, blocks from 1",
     fields_belong,
     [](const Subject& s) {
       return fmt::format("pipeline {}, blocks {}", name_of(s.algorithm().pipeline), s.algorithm().block_per_cu);
     }},
    {"tile_is_whole",
     "each wave has a fragment of rows; keys are whole fragments, as many as a lane's 16 bytes of probabilities and "
     "the "
     "draws of dropout ask for; at most 1024 threads",
     tile_is_whole,
     [](const Subject& s) {
       const Algorithm& a = s.algorithm();
       return fmt::format("tile {} x {}, waves {} x {}, fragments of {}", a.tile[0], a.tile[1], a.wave[0],
                          std::max<int>(a.wave[1], 1), a.warp[0]);
     }},
    {"lds_fits", "keys, values and perhaps queries of the blocks that share a compute unit fit into its local memory",
     [](const Subject& s) {
       const HipAttentionResources r = resources_of(s);
       return r.blocks_per_cu * r.lds_bytes <= s.spec.lds_bytes;
     },
     [](const Subject& s) {
       const HipAttentionResources r = resources_of(s);
       return fmt::format("{} bytes for each of {} blocks, of {}", r.lds_bytes, r.blocks_per_cu, s.spec.lds_bytes);
     }},
    {"registers_fit", "outputs, scores, operands and what is on its way fit into a lane's registers without a spill",
     [](const Subject& s) {
       const HipAttentionResources r = resources_of(s);
       return r.registers <= r.registers_allowed;
     },
     [](const Subject& s) {
       const HipAttentionResources r = resources_of(s);
       return fmt::format("{} of {} registers", r.registers, r.registers_allowed);
     }},
};

}  // namespace

std::span<const Rule<HipAttentionSubject>> hip_attention_rules() {
  return kRules;
}

Algorithm hip_attention_algorithm(const HipSpec& spec, const AttentionSignature& signature,
                                  const HipAttentionTile& tile) {
  Algorithm algorithm{.pipeline = tile.pipeline, .instruction = spec.matrix_unit};
  const auto size = [](int value) { return static_cast<std::uint16_t>(value); };
  algorithm.tile = {size(tile.waves * tile.fragment), size(tile.tile_n)};
  algorithm.wave = {size(tile.waves), size(tile.column_waves > 1 ? tile.column_waves : 0)};
  if (const HipFragment* fragment = spec.fragment(signature.data_type, tile.fragment); fragment != nullptr)
    algorithm.warp = {size(fragment->side), size(fragment->side), size(fragment->k)};
  algorithm.block_per_cu = static_cast<std::int16_t>(tile.blocks_per_cu);
  return algorithm;
}

void walk_hip_attention(const HipSpec& spec, const AttentionSignature& wanted, HipAttentionVisit visit) {
  KernelConfig config{.arch = spec.arch, .signature = gpu_attention_signature(wanted), .algorithm = {}};
  const AttentionSignature& signature = config.attention();
  for (const HipAttentionTile& tile : spec.attention_tiles) {
    if (!tile.is_for(std::max(signature.head_dim_qk, signature.head_dim_v))) continue;
    config.algorithm = hip_attention_algorithm(spec, signature, tile);
    if (!visit(config, first_refusal(hip_attention_rules(), Subject{config, spec}))) return;
  }
}

KernelConfig hip_attention_join(KernelConfig decode) {
  decode.attention().family = AttentionFamily::fwd_splitkv_combine;
  decode.algorithm.pipeline = Pipeline::rowwise;
  return decode;
}

void enumerate_hip_attention(const HipSpec& spec, const AttentionSignature& signature, ConfigSink sink) {
  const bool joins_alone = signature.family == AttentionFamily::fwd_splitkv_combine;
  AttentionSignature forward = signature;
  if (joins_alone) forward.family = AttentionFamily::fwd;
  walk_hip_attention(spec, forward, [&](const KernelConfig& config, const Rule<Subject>* refused) {
    if (refused != nullptr) return true;
    if (!joins_alone && !sink(config)) return false;
    return config.algorithm.pipeline != Pipeline::decode || sink(hip_attention_join(config));
  });
}

void listed_attention_signatures(const HipSpec& spec, AttentionSignatureSink sink) {
  AttentionSignature signature;
  for (const DataType type : spec.attention_types)
    for (const bool unaligned : {false, true})
      for (const auto& [qk, v] : listed_head_dims(spec)) {
        signature.data_type = type;
        signature.unaligned = unaligned;
        signature.head_dim_qk = static_cast<std::uint16_t>(qk);
        signature.head_dim_v = static_cast<std::uint16_t>(v);
        if (!walk_gpu_attention_traits(signature, true, sink)) return;
      }
  for (const DataType type : spec.attention_types)
    if (!walk_gpu_attention_traits(
            {.data_type = type, .head_dim_qk = kMostLatent, .head_dim_v = kLatentValues, .latent = true}, true, sink))
      return;
}

void enumerate_hip_attention(const HipSpec& spec, ConfigSink sink) {
  listed_attention_signatures(spec, [&](const AttentionSignature& signature) {
    bool wanted = true;
    enumerate_hip_attention(spec, signature, [&](const KernelConfig& config) { return wanted = sink(config); });
    return wanted;
  });
}

}  // namespace tilesmith
