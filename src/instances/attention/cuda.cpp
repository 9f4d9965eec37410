#include "instances/attention/cuda.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "instances/attention/gpu_rules.hpp"
#include "kernels/cuda/common/mma_sm80.h"
#include "spec/head_dims.hpp"
#include "tilesmith/attention.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

using Subject = CudaAttentionSubject;

bool contains(const std::vector<DataType>& types, DataType type) {
  return std::ranges::find(types, type) != types.end();
}

bool forward_only(const Subject& s) {
  const AttentionSignature& sig = s.signature();
  AttentionSignature plain = sig;  // what is left after the carried fields are reset must be a default signature
  plain.data_type = AttentionSignature{}.data_type;
  plain.mode = SequenceMode::batch;
  plain.head_dim_qk = plain.head_dim_v = AttentionSignature{}.head_dim_qk;
  plain.mask = MaskKind::none;
  plain.bias = BiasKind::none;
  plain.lse = plain.dropout = plain.soft_cap = plain.sink = plain.negative_scale = plain.unaligned = false;
  plain.qscale = QuantScale::none;  // asked by a rule of its own
  if (s.is_decode() || s.is_warp_specialized()) plain.paged_kv = false;
  if (s.is_warp_specialized() && sig.paged_kv) plain.cache = KvElements::as_queries;
  if (s.is_decode()) {
    plain.cache = KvElements::as_queries;
    plain.latent = false;
  }
  return plain == AttentionSignature{};
}

bool is_fp8(const Subject& s) {
  return input_type(s.signature().data_type) == DataType::fp8;
}

/// Rows are copied 16 bytes at a time, unless the kernel reads them by elements.
int head_dim_step(const Subject& s) {
  const int bits = has_narrow_cache(s.signature()) ? 8 : bits_of(s.signature().data_type);
  return s.signature().unaligned ? 1 : s.spec.head_dim_step * 16 / bits;
}

/// Of the warp-specialised template: the columns of one instruction. Of decode: those that a warp's registers hold.
constexpr int kMostColumns = 256;
/// Of a latent row.
constexpr int kMostLatent = 576;

int head_dim_max(const Subject& s) {
  if (s.is_decode() && s.signature().latent) return kMostLatent;
  return s.is_warp_specialized() || s.is_decode() ? std::min(s.spec.head_dim_max, kMostColumns) : s.spec.head_dim_max;
}

bool head_dim_in_range(const Subject& s, int dim) {
  return dim >= s.spec.head_dim_min && dim <= head_dim_max(s) && dim % head_dim_step(s) == 0;
}

const CudaInstruction* instruction_facts(const Subject& s) {
  for (const CudaInstruction& facts : s.spec.instructions)
    if (facts.instruction == s.algorithm().instruction) return &facts;
  return nullptr;
}

/// Rules that size something are asked only of tiles that are made of whole parts.
bool tile_m_is_whole(const Subject& s) {
  if (s.is_warp_specialized()) return s.tile_m() >= 64 && s.tile_m() <= 192 && s.tile_m() % 64 == 0;
  if (s.is_decode_wgmma()) {
    const bool are_columns = s.signature().latent && has_narrow_cache(s.signature());
    const int slabs = (s.signature().head_dim_v + 127) / 128;  // columns of values come 128 at a time
    const bool is_window_with_lse = s.signature().mask == MaskKind::generic && s.signature().lse;
    const bool fits_32 = slabs != 3 && !is_window_with_lse;
    return s.tile_m() == 64 || (are_columns && (s.tile_m() == 16 || (s.tile_m() == 32 && fits_32)));
  }
  if (s.is_decode()) return s.tile_m() >= 16 && s.tile_m() % 16 == 0 && 16 * kDecodeWarps % s.tile_m() == 0;
  return s.tile_m() >= 16 && s.tile_m() <= 256 && s.tile_m() % 16 == 0;
}

int tile_n_step(const Subject& s) {
  if (s.is_decode_wgmma()) return s.signature().latent ? 64 : 32;
  if (s.is_decode()) return s.tile_m() > 0 ? std::max(1, 16 * kDecodeWarps * 16 / s.tile_m()) : 16;
  return s.is_warp_specialized() && !s.signature().dropout && s.algorithm().bias_stages == 0 && !is_fp8(s) ? 16 : 32;
}

int tile_n_max(const Subject& s) {
  return s.is_decode_wgmma() ? 128 : 256;
}

/// Columns of a latent row that warps or warpgroups share out, and those that the row has in shared memory.
bool holds_values(const Subject& s) {
  const AttentionSignature& sig = s.signature();
  const int warps = std::max(1, s.facts().column_warps);
  const int of_product = has_narrow_cache(sig) ? 32 : 16;
  const int of_values = s.is_decode_wgmma() ? 128 : of_product * warps, of_rows = s.is_decode_wgmma() ? 64 : of_product;
  return (sig.head_dim_v + of_values - 1) / of_values * of_values <=
         (sig.head_dim_qk + of_rows - 1) / of_rows * of_rows;
}

long shared_bytes_limit(const Subject& s, const CudaAttentionResources& facts) {
  const long share = s.spec.shared_bytes_per_sm / std::max(facts.blocks_per_sm, 1) - s.spec.shared_bytes_reserved;
  const long limit = std::min(s.spec.shared_bytes_per_block, share);
  const bool portable = !s.is_warp_specialized() && !s.is_decode();
  return portable ? std::min<long>(limit, TS_MMA_SM80_SHARED_BYTES) : limit;
}

constexpr Rule<Subject> kRules[] = {
    {"family_is_carried",
     "the CUDA templates compute attention forward without rotary embedding, decode alone on latent rows and on 8-bit "
     "caches without pages, decode and warpspec alone on pages",
     forward_only,
     [](const Subject& s) {
       return fmt::format("family {}, paged_kv {}, cache {}, latent {}, rope {}, qscale {}",
                          name_of(s.signature().family), s.signature().paged_kv, name_of(s.signature().cache),
                          s.signature().latent, name_of(s.signature().rope), name_of(s.signature().qscale));
     }},
    {"cache_is_converted", "e4m3 is converted by an instruction of sm_89 and newer, for queries of 16 bits",
     [](const Subject& s) {
       if (!has_narrow_cache(s.signature())) return true;
       const bool has_e4m3 = s.spec.major * 10 + s.spec.minor >= 89;
       return bits_of(s.signature().data_type) == 16 && (has_e4m3 || s.signature().cache != KvElements::fp8);
     },
     [](const Subject& s) {
       return fmt::format("cache {} beside {} on sm_{}{}", name_of(s.signature().cache),
                          name_of(s.signature().data_type), s.spec.major, s.spec.minor);
     }},
    {"instruction_is_present", "the chip has the matrix instruction, for these inputs",
     [](const Subject& s) {
       const CudaInstruction* facts = instruction_facts(s);
       return facts != nullptr && contains(facts->data_types, s.signature().data_type);
     },
     [](const Subject& s) {
       std::vector<std::string> offered;
       for (const CudaInstruction& facts : s.spec.instructions)
         for (const DataType type : facts.data_types)
           offered.push_back(fmt::format("{} {}", name_of(facts.instruction), name_of(type)));
       return fmt::format("{} on {}; {} offers {}", name_of(s.algorithm().instruction),
                          name_of(s.signature().data_type), s.spec.arch.text(), fmt::join(offered, ", "));
     }},
    {"pipeline_is_offered", "the chip lists the pipeline with this instruction, for these inputs",
     [](const Subject& s) {
       const CudaAttentionPipeline* offered = s.spec.attention_pipeline(s.algorithm().pipeline);
       return offered != nullptr && offered->instruction == s.algorithm().instruction &&
              contains(offered->data_types, s.signature().data_type);
     },
     [](const Subject& s) {
       std::vector<std::string> offered;
       for (const CudaAttentionPipeline& p : s.spec.attention_fwd)
         offered.push_back(fmt::format("{} with {}", name_of(p.pipeline), name_of(p.instruction)));
       return fmt::format("{} with {}; {} offers {}", name_of(s.algorithm().pipeline),
                          name_of(s.algorithm().instruction), s.spec.arch.text(), fmt::join(offered, ", "));
     }},
    {"head_dims_fit", "head dims are within the templates' range, in steps of 16 bytes",
     [](const Subject& s) {
       return head_dim_in_range(s, s.signature().head_dim_qk) && head_dim_in_range(s, s.signature().head_dim_v);
     },
     [](const Subject& s) {
       return fmt::format("head_dim_qk {}, head_dim_v {}; {} to {} in steps of {}", s.signature().head_dim_qk,
                          s.signature().head_dim_v, s.spec.head_dim_min, head_dim_max(s), head_dim_step(s));
     }},
    {"latent_rows_are_wide",
     "latent rows have more elements than decode's other rows, and in them the columns of values that its warps share "
     "out; decode_wgmma takes no narrow rows that each have a scale, for there is no place for it, and narrow latent "
     "rows 64 for each warpgroup, in units of its own and not in stages",
     [](const Subject& s) {
       const AttentionSignature& sig = s.signature();
       if (s.is_decode_wgmma() && has_narrow_cache(sig)) {
         if (sig.qscale == QuantScale::kv_blockscale) return false;
         if (sig.latent && (s.tile_n() != 128 || s.algorithm().stages != 1 || s.algorithm().late_wait)) return false;
       }
       if (!sig.latent) return true;
       return sig.head_dim_qk > kMostColumns && holds_values(s);
     },
     [](const Subject& s) {
       return fmt::format(
           "latent {}, head_dim_qk {}, head_dim_v {}, cache {}, qscale {}, pipeline {}, tile_n {}, stages {}",
           s.signature().latent, s.signature().head_dim_qk, s.signature().head_dim_v, name_of(s.signature().cache),
           name_of(s.signature().qscale), name_of(s.algorithm().pipeline), s.tile_n(), s.algorithm().stages);
     }},
    {"pages_are_beside_16_bits", "warpspec reads pages beside queries of 16 bits, without scales of pages",
     [](const Subject& s) {
       return !(s.is_warp_specialized() && s.signature().paged_kv &&
                (is_fp8(s) || s.signature().qscale == QuantScale::kv_blockscale));
     },
     [](const Subject& s) {
       return fmt::format("paged_kv {}, {}, qscale {}", s.signature().paged_kv, name_of(s.signature().data_type),
                          name_of(s.signature().qscale));
     }},
    {"pages_have_warps",
     "beside pages the values have a warp, which a copied bias of three warpgroups leaves none; narrow ones have all "
     "warps, and registers beside two warpgroups",
     [](const Subject& s) {
       if (!s.is_warp_specialized() || !s.signature().paged_kv) return true;
       const bool few = s.tile_m() <= 128, no_bias = s.algorithm().bias_stages == 0;
       return has_narrow_cache(s.signature()) ? few && no_bias : few || no_bias;
     },
     [](const Subject& s) {
       return fmt::format("paged_kv {}, cache {}, bias_stages {}, tile_m {}", s.signature().paged_kv,
                          name_of(s.signature().cache), s.algorithm().bias_stages, s.tile_m());
     }},
    {"scales_belong_to_fp8",
     "fp8 tensors have scales, by tensor or by blocks of rows, 8-bit caches of pages by pages; others have none that a "
     "kernel is made for",
     [](const Subject& s) {
       const QuantScale scale = s.signature().qscale;
       if (scale == QuantScale::kv_blockscale) return has_narrow_cache(s.signature()) && s.signature().paged_kv;
       return is_fp8(s) ? scale == QuantScale::pertensor || scale == QuantScale::blockscale : scale == QuantScale::none;
     },
     [](const Subject& s) {
       return fmt::format("{} with qscale {}", name_of(s.signature().data_type), name_of(s.signature().qscale));
     }},
    {"fp8_goes_without",
     "fp8 kernels do not pack heads or copy a bias; with scales by block a step of keys divides a block, and ALiBi, "
     "which "
     "works in the scores' unit, is not carried",
     [](const Subject& s) {
       if (!is_fp8(s)) return true;
       if (s.algorithm().pack_gqa != 1 || s.algorithm().bias_stages != 0) return false;
       if (s.signature().qscale != QuantScale::blockscale) return true;
       return s.signature().bias != BiasKind::alibi && s.tile_n() > 0 && kScaleBlock % s.tile_n() == 0;
     },
     [](const Subject& s) {
       return fmt::format("{}, qscale {}, pack_gqa {}, bias_stages {}, bias {}, tile_n {}",
                          name_of(s.signature().data_type), name_of(s.signature().qscale), s.algorithm().pack_gqa,
                          s.algorithm().bias_stages, name_of(s.signature().bias), s.tile_n());
     }},
    {"rows_can_be_copied",
     "the copy engine takes rows that are multiples of 16 bytes, and so does decode; others are the portable "
     "pipeline's, or are copied to such rows first, by plans of the copies' signature",
     [](const Subject& s) { return !s.signature().unaligned || !(s.is_warp_specialized() || s.is_decode()); },
     [](const Subject& s) {
       return fmt::format("unaligned {}, pipeline {}", s.signature().unaligned, name_of(s.algorithm().pipeline));
     }},
    {"decode_goes_without", "a dropout's random numbers are drawn for more keys than a warp of the decode pipeline has",
     [](const Subject& s) { return !s.is_decode() || !s.signature().dropout; },
     [](const Subject& s) {
       return fmt::format("dropout {}, pipeline {}", s.signature().dropout, name_of(s.algorithm().pipeline));
     }},
    kMaskIsAWindow<Subject>,
    kNegativeScaleMatters<Subject>,
    {"tile_m_is_whole_groups",
     "query rows come in warpgroups of 64, up to 3, for decode_wgmma one, or beside latent rows of 8 bits, where they "
     "are a product's columns, 16, 32 or 64, but not 32 beside 257 to 384 columns of values, which spilled 80 to 96 "
     "bytes (ptxas 13.0), or with a generic mask and the log-sum-exp, 32 to 40 bytes; or portably in warps of 16, up "
     "to 16, for decode 1, 2 or 4",
     tile_m_is_whole,
     [](const Subject& s) {
       return fmt::format("tile_m {}, groups of {}, head_dim_v {}, mask {}, lse {}", s.tile_m(),
                          s.is_warp_specialized() || s.is_decode_wgmma() ? 64 : 16, s.signature().head_dim_v,
                          name_of(s.signature().mask), s.signature().lse);
     }},
    {"tile_n_is_whole_steps",
     "keys come in products of depth 16, for decode one for each team of warps, for dropout, a copied bias and "
     "portably 32 at a time, up to 256, for decode_wgmma 32 at a time up to 128, of latent rows 32 or 64 for each "
     "warpgroup",
     [](const Subject& s) { return s.tile_n() > 0 && s.tile_n() <= tile_n_max(s) && s.tile_n() % tile_n_step(s) == 0; },
     [](const Subject& s) { return fmt::format("tile_n {}, steps of {}", s.tile_n(), tile_n_step(s)); }},
    {"fields_belong_to_pipeline",
     "the persistent pipeline has 1 to 4 stages, 1 or 2 query buffers, up to 4 stages of an elementwise bias and a "
     "number of blocks an SM; decode has 2 to 8 stages and a number of blocks, decode_wgmma 1 to 8 and of latent rows "
     "one block; the portable one has none of its options",
     [](const Subject& s) {
       Algorithm rest = s.algorithm();
       rest.tile = {};
       if (s.is_decode()) {
         const bool latent_wgmma = s.is_decode_wgmma() && s.signature().latent;
         if (rest.stages < (s.is_decode_wgmma() ? 1 : 2) || rest.stages > 8) return false;
         if (rest.block_per_cu < 1 || (latent_wgmma && rest.block_per_cu > 1)) return false;
         if (latent_wgmma) rest.late_wait = false;
         rest.stages = 0;
         rest.block_per_cu = -1;
       }
       if (s.is_warp_specialized()) {
         if (rest.stages < 1 || rest.stages > 4 || rest.q_stages < 1 || rest.q_stages > 2) return false;
         if (rest.bias_stages > (s.signature().bias == BiasKind::elementwise ? 4 : 0)) return false;
         if (rest.block_per_cu < 1) return false;
         rest.stages = rest.bias_stages = 0;
         rest.q_stages = rest.pack_gqa = 1;
         rest.block_per_cu = -1;
         rest.ping_pong = rest.dynamic_scheduler = rest.late_wait = rest.late_store = false;
       }
       return rest == Algorithm{.pipeline = rest.pipeline, .instruction = rest.instruction};
     },
     [](const Subject& s) {
       const Algorithm& a = s.algorithm();
       return fmt::format("stages {}, q_stages {}, bias_stages {}, pack_gqa {}, block_per_cu {}", a.stages, a.q_stages,
                          a.bias_stages, a.pack_gqa, a.block_per_cu);
     }},
    {"packed_heads_divide_rows", "a warpgroup's 64 rows hold every head of a group the same number of times",
     [](const Subject& s) { return s.algorithm().pack_gqa > 0 && 64 % s.algorithm().pack_gqa == 0; },
     [](const Subject& s) { return fmt::format("pack_gqa {}, 64 rows", s.algorithm().pack_gqa); }},
    {"turns_need_two_groups", "warpgroups can take turns only when there are several",
     [](const Subject& s) { return !s.algorithm().ping_pong || s.tile_m() > 64; },
     [](const Subject& s) {
       return fmt::format("ping_pong {}, {} warpgroups", s.algorithm().ping_pong, s.tile_m() / 64);
     }},
    {"threads_fit_sm", "the blocks that share an SM have no more threads than it",
     [](const Subject& s) {
       const CudaAttentionResources& facts = s.facts();
       return facts.threads <= s.spec.threads_per_block && facts.blocks_per_sm <= s.spec.blocks_per_sm &&
              facts.threads * facts.blocks_per_sm <= s.spec.threads_per_sm;
     },
     [](const Subject& s) {
       const CudaAttentionResources& facts = s.facts();
       return fmt::format("{} blocks of {} threads, {} an SM", facts.blocks_per_sm, facts.threads,
                          s.spec.threads_per_sm);
     }},
    {"shared_memory_fits", "queries, the ring of keys and values and the barriers fit the block's share of an SM",
     [](const Subject& s) {
       const CudaAttentionResources& facts = s.facts();
       return facts.shared_bytes <= shared_bytes_limit(s, facts);
     },
     [](const Subject& s) {
       const CudaAttentionResources& facts = s.facts();
       return fmt::format("{} bytes, {} for each of {} blocks", facts.shared_bytes, shared_bytes_limit(s, facts),
                          facts.blocks_per_sm);
     }},
    {"operands_fit_launch", "the accumulator of one instruction fits the registers that the block is launched with",
     [](const Subject& s) {
       const CudaAttentionResources& facts = s.facts();
       return facts.operand_registers + 32 <= facts.launch_registers;
     },
     [](const Subject& s) {
       const CudaAttentionResources& facts = s.facts();
       return fmt::format("{} registers and 32 beside them, {} at launch", facts.operand_registers,
                          facts.launch_registers);
     }},
    {"registers_hold_tile",
     "scores, probabilities, output and what the traits need stay in registers; else the compiler spills, and runs the "
     "products one by one",
     [](const Subject& s) {
       const CudaAttentionResources& facts = s.facts();
       return facts.needed_registers <= facts.consumer_registers;
     },
     [](const Subject& s) {
       const CudaAttentionResources& facts = s.facts();
       return fmt::format("about {} of {} registers", facts.needed_registers, facts.consumer_registers);
     }},
};

bool tile_is_for(const CudaTile& tile, const AttentionSignature& signature) {
  return tile.fp8 == (input_type(signature.data_type) == DataType::fp8) &&
         tile.head_dim.holds(std::max(signature.head_dim_qk, signature.head_dim_v)) &&
         (!tile.head_dim_v || tile.head_dim_v->holds(signature.head_dim_v));
}

KernelConfig config_of(const CudaSpec& spec, const AttentionSignature& signature, const CudaAttentionPipeline& pipeline,
                       const CudaTile& tile) {
  KernelConfig config{.arch = spec.arch, .signature = signature, .algorithm = {}};
  Algorithm& a = config.algorithm;
  a.pipeline = pipeline.pipeline;
  a.instruction = pipeline.instruction;
  a.tile = {static_cast<std::uint16_t>(tile.tile_m), static_cast<std::uint16_t>(tile.tile_n)};
  a.stages = static_cast<std::uint8_t>(tile.stages);
  a.q_stages = static_cast<std::uint8_t>(tile.q_stages);
  a.bias_stages = static_cast<std::uint8_t>(tile.bias_stages);
  a.block_per_cu = static_cast<std::int16_t>(tile.blocks_per_sm);
  a.ping_pong = tile.ping_pong;
  a.dynamic_scheduler = tile.dynamic_scheduler;
  a.late_wait = tile.late_wait;
  a.late_store = tile.late_store;
  return config;
}

}  // namespace

std::span<const Rule<CudaAttentionSubject>> cuda_attention_rules() {
  return kRules;
}

void walk_cuda_attention(const CudaSpec& spec, const AttentionSignature& wanted, std::span<const int> pack_gqa,
                         CudaAttentionVisit visit) {
  const AttentionSignature signature = gpu_attention_signature(wanted);
  for (const CudaAttentionPipeline& pipeline : spec.attention_fwd)
    for (const CudaTile& row : pipeline.tiles) {
      if (!tile_is_for(row, signature)) continue;
      KernelConfig config = config_of(spec, signature, pipeline, row);
      for (const int packed : pack_gqa) {
        config.algorithm.pack_gqa = static_cast<std::uint8_t>(packed);
        if (!visit(config, row, first_refusal(cuda_attention_rules(), CudaAttentionSubject{config, spec}))) return;
      }
    }
}

void enumerate_cuda_attention(const CudaSpec& spec, const AttentionSignature& signature, std::span<const int> pack_gqa,
                              ConfigSink sink) {
  walk_cuda_attention(spec, signature, pack_gqa,
                      [&](const KernelConfig& config, const CudaTile&, const Rule<CudaAttentionSubject>* refused) {
                        return refused != nullptr || sink(config);
                      });
}

void enumerate_cuda_attention(const CudaSpec& spec, ConfigSink sink) {
  std::vector<int> pack_gqa;
  for (const CudaAttentionPipeline& pipeline : spec.attention_fwd)
    for (const int packed : pipeline.pack_gqa)
      if (std::ranges::find(pack_gqa, packed) == pack_gqa.end()) pack_gqa.push_back(packed);
  listed_attention_signatures(spec, [&](const AttentionSignature& signature) {
    bool wanted = true;
    enumerate_cuda_attention(spec, signature, pack_gqa,
                             [&](const KernelConfig& config) { return wanted = sink(config); });
    return wanted;
  });
}

void listed_attention_signatures(const CudaSpec& spec, AttentionSignatureSink sink) {
  const std::vector<std::pair<int, int>> head_dims = listed_head_dims(spec);
  AttentionSignature signature;
  struct Kind {
    DataType type;
    QuantScale scale;
    bool unaligned;
  };
  constexpr Kind kKinds[] = {
      {DataType::bf16, QuantScale::none, false},         {DataType::fp16, QuantScale::none, false},
      {DataType::bf16, QuantScale::none, true},          {DataType::fp16, QuantScale::none, true},
      {DataType::fp32, QuantScale::none, false},         {DataType::tf32, QuantScale::none, false},
      {DataType::fp32, QuantScale::none, true},          {DataType::tf32, QuantScale::none, true},
      {DataType::fp8bf16, QuantScale::pertensor, false}, {DataType::fp8bf16, QuantScale::blockscale, false},
      {DataType::fp8fp16, QuantScale::pertensor, false}, {DataType::fp8fp16, QuantScale::blockscale, false}};
  const bool pages = spec.attention_pipeline(Pipeline::decode) != nullptr;
  for (const Kind& kind : kKinds)
    for (const auto& [qk, v] : head_dims) {
      signature.data_type = kind.type;
      signature.qscale = kind.scale;
      signature.unaligned = kind.unaligned;
      signature.head_dim_qk = static_cast<std::uint16_t>(qk);
      signature.head_dim_v = static_cast<std::uint16_t>(v);
      if (!walk_gpu_attention_traits(signature, pages, sink)) return;
    }
}

}  // namespace tilesmith
