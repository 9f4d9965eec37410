#include "instances/attention/cpu.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "spec/head_dims.hpp"

namespace tilesmith {
namespace {

using Subject = CpuAttentionSubject;

// The largest tiles that the templates are tested with.
constexpr int kMostQueries = 768;
constexpr int kMostKeys = 1024;

constexpr DataType kGenericTypes[] = {DataType::fp32, DataType::bf16, DataType::fp16, DataType::fp8bf16,
                                      DataType::fp8fp16};
constexpr std::uint16_t kGenericTile[] = {16, 64};

const CpuAttentionInstruction* instruction_facts(const Subject& s) {
  for (const CpuAttentionInstruction& facts : s.spec.attention_fwd)
    if (facts.instruction == s.config.algorithm.instruction) return &facts;
  return nullptr;
}

bool forward_only(const Subject& s) {
  const AttentionSignature& sig = s.signature();
  AttentionSignature plain = sig;  // what is left after the carried fields are reset must be a default signature
  plain.data_type = AttentionSignature{}.data_type;
  plain.mode = SequenceMode::batch;
  plain.head_dim_qk = plain.head_dim_v = AttentionSignature{}.head_dim_qk;
  plain.mask = MaskKind::none;
  plain.bias = BiasKind::none;
  plain.lse = plain.dropout = plain.soft_cap = plain.sink = plain.paged_kv = false;
  plain.cache = KvElements::as_queries;
  return plain == AttentionSignature{};
}

bool head_dim_in_range(const Subject& s, int dim) {
  return dim >= s.spec.head_dim_min && dim <= s.spec.head_dim_max && dim % s.spec.head_dim_step == 0;
}

AttentionSignature generic_signature(DataType type) {
  AttentionSignature s;
  s.data_type = type;
  s.head_dim_qk = s.head_dim_v = 0;
  s.mask = MaskKind::generic;
  s.bias = BiasKind::elementwise;
  s.lse = s.dropout = s.soft_cap = s.sink = true;
  return s;
}

constexpr Rule<Subject> kRules[] = {
    {"family_is_carried",
     "the CPU templates compute attention forward, of pages of any size too, without rotary embedding or quantisation",
     forward_only,
     [](const Subject& s) {
       return fmt::format("family {}, page_size {}, rope {}, qscale {}", name_of(s.signature().family),
                          s.signature().page_size, name_of(s.signature().rope), name_of(s.signature().qscale));
     }},
    {"instruction_is_present", "the level has the instruction that multiplies fragments of these inputs",
     [](const Subject& s) {
       if (s.is_generic())
         return s.config.algorithm.instruction == Instruction::fma_f32 &&
                std::ranges::find(kGenericTypes, s.signature().data_type) != std::end(kGenericTypes);
       const CpuAttentionInstruction* facts = instruction_facts(s);
       return facts != nullptr &&
              std::ranges::find(facts->data_types, s.signature().data_type) != facts->data_types.end();
     },
     [](const Subject& s) {
       std::vector<std::string> offered;
       for (const CpuAttentionInstruction& facts : s.spec.attention_fwd)
         for (const DataType type : facts.data_types)
           offered.push_back(fmt::format("{} {}", name_of(facts.instruction), name_of(type)));
       return fmt::format("{} on {}; {} offers {}", name_of(s.config.algorithm.instruction),
                          name_of(s.signature().data_type), s.spec.arch.text(), fmt::join(offered, ", "));
     }},
    {"pipeline_is_offered", "the level lists the pipeline for the instruction",
     [](const Subject& s) {
       const CpuAttentionInstruction* facts = instruction_facts(s);
       return s.is_generic() || (facts != nullptr && std::ranges::any_of(facts->pipelines, [&](const CpuTiles& t) {
                                   return t.pipeline == s.config.algorithm.pipeline;
                                 }));
     },
     [](const Subject& s) { return fmt::format("pipeline {}", name_of(s.config.algorithm.pipeline)); }},
    {"traits_are_run_time", "a generic kernel has no head dim, and every trait",
     [](const Subject& s) { return !s.is_generic() || s.signature() == generic_signature(s.signature().data_type); },
     [](const Subject& s) {
       return fmt::format("pipeline {}, head_dim_qk {}, head_dim_v {}", name_of(s.config.algorithm.pipeline),
                          s.signature().head_dim_qk, s.signature().head_dim_v);
     }},
    {"cache_is_converted",
     "keys and values of 8 bits become floats in decode on vectors, which multiplies them as fma_f32, and the tiles' "
     "elements in decode on matrix tiles and in flash; a generic kernel finds them out at run time",
     [](const Subject& s) {
       return s.signature().cache == KvElements::as_queries || s.config.algorithm.pipeline == Pipeline::flash ||
              (s.config.algorithm.pipeline == Pipeline::decode &&
               s.config.algorithm.instruction != Instruction::dpbf16);
     },
     [](const Subject& s) {
       return fmt::format("cache {}, pipeline {}, instruction {}", name_of(s.signature().cache),
                          name_of(s.config.algorithm.pipeline), name_of(s.config.algorithm.instruction));
     }},
    {"head_dims_fit",
     "head dims are within the templates' range and multiples of a step that the templates' tails handle",
     [](const Subject& s) {
       if (s.is_generic()) return true;
       return head_dim_in_range(s, s.signature().head_dim_qk) && head_dim_in_range(s, s.signature().head_dim_v);
     },
     [](const Subject& s) {
       return fmt::format("head_dim_qk {}, head_dim_v {}; {} to {} in steps of {}", s.signature().head_dim_qk,
                          s.signature().head_dim_v, s.spec.head_dim_min, s.spec.head_dim_max, s.spec.head_dim_step);
     }},
    {"mask_is_no_or_generic",
     "the kernels receive every mask as a window at run time, so a kernel is either unmasked or masked "
     "(generic)",
     [](const Subject& s) { return s.signature().mask == MaskKind::none || s.signature().mask == MaskKind::generic; },
     [](const Subject& s) { return fmt::format("mask {}", name_of(s.signature().mask)); }},
    {"tile_m_fills_lanes",
     "query rows lie along vector lanes, so a tile is a whole number of vectors, up to 768 rows (one row group for "
     "decode)",
     [](const Subject& s) {
       const CpuAttentionInstruction* facts = instruction_facts(s);
       if (s.config.algorithm.pipeline == Pipeline::decode) return s.tile_m() == 1;
       if (s.is_generic()) return s.tile_m() == kGenericTile[0] && s.tile_n() == kGenericTile[1];
       return facts != nullptr && s.tile_m() > 0 && s.tile_m() <= kMostQueries && s.tile_m() % facts->lanes == 0;
     },
     [](const Subject& s) {
       const CpuAttentionInstruction* facts = instruction_facts(s);
       return fmt::format("tile_m {}, {} lanes, at most {}", s.tile_m(), facts == nullptr ? 0 : facts->lanes,
                          kMostQueries);
     }},
    {"tile_n_is_whole_blocks", "the widest inner loop takes 32 keys at a time, and a block has up to 1024",
     [](const Subject& s) { return s.tile_n() > 0 && s.tile_n() <= kMostKeys && s.tile_n() % 32 == 0; },
     [](const Subject& s) { return fmt::format("tile_n {}, a multiple of 32 up to {}", s.tile_n(), kMostKeys); }},
    {"fields_belong_to_pipeline", "the CPU templates read two figures of the tile and no other option",
     [](const Subject& s) {
       Algorithm rest = s.config.algorithm;
       rest.tile[0] = rest.tile[1] = 0;
       return s.config.origin == Origin::own &&
              rest == Algorithm{.pipeline = rest.pipeline, .instruction = rest.instruction};
     },
     [](const Subject& s) {
       return fmt::format("origin {}; fields besides pipeline, instruction and tile have their defaults",
                          name_of(s.config.origin));
     }},
    {"working_set_fits_l2", "a task's scores, accumulators and blocks of K and V stay in the core's L2",
     [](const Subject& s) { return s.is_generic() || working_set_bytes(s) <= s.spec.l2_bytes; },
     [](const Subject& s) {
       return fmt::format("working set {} KiB, L2 {} KiB", working_set_bytes(s) / 1024, s.spec.l2_bytes / 1024);
     }},
};

}  // namespace

std::span<const Rule<CpuAttentionSubject>> cpu_attention_rules() {
  return kRules;
}

long working_set_bytes(const CpuAttentionSubject& s) {
  const long m = s.tile_m(), n = s.tile_n(), qk = s.signature().head_dim_qk, v = s.signature().head_dim_v;
  // Products on fp32 lanes read K and V converted to fp32; the bf16 instructions read them as they are.
  const long product_bytes = s.config.algorithm.instruction == Instruction::fma_f32 ? 4 : 2;
  const long queries = m * qk * product_bytes;
  const long keys_values = n * (qk + v) * product_bytes;
  const long scores = m * n * (4 + product_bytes);
  const long accumulators = m * v * 4;
  return queries + keys_values + scores + accumulators;
}

void walk_cpu_attention(const CpuSpec& spec, const AttentionSignature& signature, CpuAttentionVisit visit) {
  KernelConfig config{.arch = spec.arch, .signature = signature, .algorithm = {}};
  for (const CpuAttentionInstruction& facts : spec.attention_fwd) {
    config.algorithm.instruction = facts.instruction;
    for (const CpuTiles& tiles : facts.pipelines) {
      config.algorithm.pipeline = tiles.pipeline;
      for (const int m : tiles.tile_m)
        for (const int n : tiles.tile_n) {
          config.algorithm.tile = {static_cast<std::uint16_t>(m), static_cast<std::uint16_t>(n)};
          if (!visit(config, first_refusal(cpu_attention_rules(), CpuAttentionSubject{config, spec}))) return;
        }
    }
  }
}

void enumerate_cpu_attention(const CpuSpec& spec, const AttentionSignature& signature, ConfigSink sink) {
  bool wanted = true;
  walk_cpu_attention(spec, signature, [&](const KernelConfig& config, const Rule<CpuAttentionSubject>* refused) {
    return wanted = refused != nullptr || sink(config);
  });
  for (const DataType type : kGenericTypes)
    if (wanted && signature == generic_signature(type)) wanted = sink(generic_cpu_attention(spec, type));
}

std::span<const DataType> generic_cpu_attention_types() {
  return kGenericTypes;
}

KernelConfig generic_cpu_attention(const CpuSpec& spec, DataType type) {
  return {.arch = spec.arch,
          .signature = generic_signature(type),
          .algorithm = {.pipeline = Pipeline::generic,
                        .instruction = Instruction::fma_f32,
                        .tile = {kGenericTile[0], kGenericTile[1]}}};
}

void enumerate_cpu_attention(const CpuSpec& spec, ConfigSink sink) {
  for (const DataType type : kGenericTypes)
    if (!sink(generic_cpu_attention(spec, type))) return;

  listed_attention_signatures(spec, [&](const AttentionSignature& signature) {
    bool wanted = true;
    enumerate_cpu_attention(spec, signature, [&](const KernelConfig& config) { return wanted = sink(config); });
    return wanted;
  });
}

void listed_attention_signatures(const CpuSpec& spec, AttentionSignatureSink sink) {
  const std::vector<std::pair<int, int>> head_dims = listed_head_dims(spec);
  AttentionSignature signature;
  for (const DataType type : {DataType::bf16, DataType::fp16, DataType::fp32})
    for (const auto& [qk, v] : head_dims)
      for (const SequenceMode mode : {SequenceMode::batch, SequenceMode::group})
        for (const MaskKind mask : {MaskKind::none, MaskKind::generic})
          for (const BiasKind bias : {BiasKind::none, BiasKind::elementwise, BiasKind::alibi})
            for (unsigned flags = 0; flags < 32; ++flags) {
              signature.data_type = type;
              signature.head_dim_qk = static_cast<std::uint16_t>(qk);
              signature.head_dim_v = static_cast<std::uint16_t>(v);
              signature.mode = mode;
              signature.mask = mask;
              signature.bias = bias;
              signature.lse = (flags & 1) != 0;
              signature.dropout = (flags & 2) != 0;
              signature.soft_cap = (flags & 4) != 0;
              signature.sink = (flags & 8) != 0;
              signature.paged_kv = (flags & 16) != 0;
              for (const KvElements cache : {KvElements::as_queries, KvElements::fp8, KvElements::int8}) {
                if (cache != KvElements::as_queries && !signature.paged_kv) continue;
                signature.cache = cache;
                if (!sink(signature)) return;
              }
            }
}

}  // namespace tilesmith
