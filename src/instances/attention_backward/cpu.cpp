#include "instances/attention_backward/cpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "spec/head_dims.hpp"

namespace tilesmith {
namespace {

using BackwardSubject = CpuAttentionBackwardSubject;

constexpr DataType kBackwardTypes[] = {DataType::fp32, DataType::bf16, DataType::fp16};
constexpr std::uint16_t kBackwardTile[] = {16, 64};
constexpr int kTallestStrip = 24;
constexpr int kSquareOfTiles = 32;
constexpr int kMostBackward = 384;  // the largest tile that the template is tested with

AttentionSignature generic_backward_signature(DataType type) {
  AttentionSignature s;
  s.family = AttentionFamily::bwd_dq_dk_dv;
  s.data_type = type;
  s.head_dim_qk = s.head_dim_v = 0;
  s.mask = MaskKind::generic;
  s.bias = BiasKind::elementwise;
  s.dropout = s.soft_cap = s.sink = s.dbias = s.deterministic = true;
  return s;
}

const CpuAttentionInstruction* backward_facts(const BackwardSubject& s) {
  for (const CpuAttentionInstruction& facts : s.spec.attention_bwd)
    if (facts.instruction == s.config.algorithm.instruction) return &facts;
  return nullptr;
}

/// The tiles that the level's facts list, or null.
const CpuTiles* backward_tiles(const BackwardSubject& s) {
  const CpuAttentionInstruction* facts = backward_facts(s);
  if (facts == nullptr) return nullptr;
  for (const CpuTiles& tiles : facts->pipelines)
    if (tiles.pipeline == s.config.algorithm.pipeline) return &tiles;
  return nullptr;
}

bool has_matrix_tiles(const BackwardSubject& s) {
  return s.config.algorithm.instruction == Instruction::amx_bf16;
}

/// Rows are copied in chunks of the spec's step; matrix tiles are multiplied four at a time.
int backward_head_dim_step(const BackwardSubject& s) {
  return has_matrix_tiles(s) ? kSquareOfTiles : s.spec.head_dim_step;
}

bool head_dim_fits(const BackwardSubject& s, int dim) {
  return dim >= s.spec.head_dim_min && dim <= s.spec.head_dim_max && dim % backward_head_dim_step(s) == 0;
}

/// What a flash kernel carries: its type, head dims and compiled traits; the rest is run-time, or not there.
bool is_flash_signature(const AttentionSignature& s) {
  AttentionSignature plain;
  plain.data_type = s.data_type;
  plain.head_dim_qk = s.head_dim_qk;
  plain.head_dim_v = s.head_dim_v;
  plain.bias = s.bias;
  plain.soft_cap = s.soft_cap;
  plain.dropout = s.dropout;
  return s == flash_backward_signature(plain);
}

constexpr Rule<BackwardSubject> kBackwardRules[] = {
    {"traits_are_carried",
     "a generic kernel takes every head dim and trait at run time; a flash kernel is compiled for head dims, a bias, a "
     "soft cap and dropout, takes masks, sequences of different lengths and sinks at run time, and writes no gradient "
     "of a bias",
     [](const BackwardSubject& s) {
       return s.is_generic() ? s.signature() == generic_backward_signature(s.signature().data_type)
                             : is_flash_signature(s.signature());
     },
     [](const BackwardSubject& s) {
       return fmt::format("pipeline {}, family {}, mask {}, mode {}, dbias {}, head_dim_qk {}, head_dim_v {}",
                          name_of(s.config.algorithm.pipeline), name_of(s.signature().family),
                          name_of(s.signature().mask), name_of(s.signature().mode), s.signature().dbias,
                          s.signature().head_dim_qk, s.signature().head_dim_v);
     }},
    {"instruction_is_present", "the level has the instruction that multiplies fragments of these inputs",
     [](const BackwardSubject& s) {
       const DataType type = s.signature().data_type;
       if (s.is_generic())
         return s.config.algorithm.instruction == Instruction::fma_f32 &&
                std::ranges::find(kBackwardTypes, type) != std::end(kBackwardTypes);
       const CpuAttentionInstruction* facts = backward_facts(s);
       return facts != nullptr && std::ranges::find(facts->data_types, type) != facts->data_types.end();
     },
     [](const BackwardSubject& s) {
       return fmt::format("{} on {} of {}", name_of(s.config.algorithm.instruction), name_of(s.signature().data_type),
                          s.spec.arch.text());
     }},
    {"pipeline_is_offered", "the level lists the pipeline for the instruction",
     [](const BackwardSubject& s) { return s.is_generic() || backward_tiles(s) != nullptr; },
     [](const BackwardSubject& s) { return fmt::format("pipeline {}", name_of(s.config.algorithm.pipeline)); }},
    {"head_dims_fit",
     "head dims are within the templates' range and multiples of the chunks that rows are copied in, or of four matrix "
     "tiles",
     [](const BackwardSubject& s) {
       return s.is_generic() ||
              (head_dim_fits(s, s.signature().head_dim_qk) && head_dim_fits(s, s.signature().head_dim_v));
     },
     [](const BackwardSubject& s) {
       return fmt::format("head_dim_qk {}, head_dim_v {}; {} to {} in steps of {}", s.signature().head_dim_qk,
                          s.signature().head_dim_v, s.spec.head_dim_min, s.spec.head_dim_max,
                          backward_head_dim_step(s));
     }},
    {"tile_is_whole_strips",
     "a strip of sums has up to 24 rows, of queries or of keys, and a panel of keys is three vectors; with matrix "
     "tiles "
     "both are 32; generic kernels have one tile",
     [](const BackwardSubject& s) {
       if (s.is_generic()) return s.tile_m() == kBackwardTile[0] && s.tile_n() == kBackwardTile[1];
       const CpuAttentionInstruction* facts = backward_facts(s);
       if (facts == nullptr) return false;
       const int strip = has_matrix_tiles(s) ? kSquareOfTiles : kTallestStrip;
       const int panel = has_matrix_tiles(s) ? kSquareOfTiles : 3 * facts->lanes;
       return s.tile_m() > 0 && s.tile_m() <= kMostBackward && s.tile_m() % strip == 0 && s.tile_n() > 0 &&
              s.tile_n() <= kMostBackward && s.tile_n() % strip == 0 && s.tile_n() % panel == 0;
     },
     [](const BackwardSubject& s) {
       return fmt::format("tile_m {}, tile_n {}, at most {}", s.tile_m(), s.tile_n(), kMostBackward);
     }},
    {"fields_belong_to_pipeline", "the templates read two figures of the tile and no other option",
     [](const BackwardSubject& s) {
       Algorithm rest = s.config.algorithm;
       rest.tile[0] = rest.tile[1] = 0;
       return s.config.origin == Origin::own &&
              rest == Algorithm{.pipeline = rest.pipeline, .instruction = rest.instruction};
     },
     [](const BackwardSubject& s) {
       return fmt::format("origin {}; fields besides pipeline, instruction and tile have their defaults",
                          name_of(s.config.origin));
     }},
    {"working_set_fits_l2", "a tile's operands, weights and sums stay in the core's L2",
     [](const BackwardSubject& s) { return s.is_generic() || backward_working_set_bytes(s) <= s.spec.l2_bytes; },
     [](const BackwardSubject& s) {
       return fmt::format("working set {} KiB, L2 {} KiB", backward_working_set_bytes(s) / 1024,
                          s.spec.l2_bytes / 1024);
     }},
};

}  // namespace

std::span<const Rule<CpuAttentionBackwardSubject>> cpu_attention_backward_rules() {
  return kBackwardRules;
}

KernelConfig generic_cpu_attention_backward(const CpuSpec& spec, DataType type) {
  return {.arch = spec.arch,
          .signature = generic_backward_signature(type),
          .algorithm = {.pipeline = Pipeline::generic,
                        .instruction = Instruction::fma_f32,
                        .tile = {kBackwardTile[0], kBackwardTile[1]}}};
}

std::span<const DataType> generic_cpu_attention_backward_types() {
  return kBackwardTypes;
}

AttentionSignature flash_backward_signature(AttentionSignature wanted) {
  wanted.family = AttentionFamily::bwd_dq_dk_dv;
  wanted.mode = SequenceMode::batch;
  wanted.mask = MaskKind::generic;
  wanted.sink = wanted.deterministic = true;
  return wanted;
}

long backward_working_set_bytes(const CpuAttentionBackwardSubject& s) {
  const long m = s.tile_m(), n = s.tile_n(), dims = s.signature().head_dim_qk + s.signature().head_dim_v;
  // bf16's products read most operands in two orders, of half the size; its dot products are floats beside them.
  const bool pairs = s.config.algorithm.instruction != Instruction::fma_f32;
  const long keys = n * dims * 4 * 2 + (pairs ? 0 : n * s.signature().head_dim_qk * 4);  // in their orders, and sums
  return m * dims * 4 + keys + m * n * (pairs ? 14 : 8);
}

void walk_cpu_attention_backward(const CpuSpec& spec, const AttentionSignature& wanted,
                                 CpuAttentionBackwardVisit visit) {
  KernelConfig config{.arch = spec.arch, .signature = flash_backward_signature(wanted), .algorithm = {}};
  for (const CpuAttentionInstruction& facts : spec.attention_bwd) {
    config.algorithm.instruction = facts.instruction;
    for (const CpuTiles& tiles : facts.pipelines) {
      config.algorithm.pipeline = tiles.pipeline;
      for (const int m : tiles.tile_m)
        for (const int n : tiles.tile_n) {
          config.algorithm.tile = {static_cast<std::uint16_t>(m), static_cast<std::uint16_t>(n)};
          const CpuAttentionBackwardSubject subject{config, spec};
          if (!visit(config, first_refusal(cpu_attention_backward_rules(), subject))) return;
        }
    }
  }
}

void enumerate_cpu_attention_backward(const CpuSpec& spec, const AttentionSignature& signature, ConfigSink sink) {
  if (signature == generic_backward_signature(signature.data_type)) {
    sink(generic_cpu_attention_backward(spec, signature.data_type));
    return;
  }
  walk_cpu_attention_backward(spec, signature,
                              [&](const KernelConfig& config, const Rule<CpuAttentionBackwardSubject>* refused) {
                                return refused != nullptr || sink(config);
                              });
}

void enumerate_cpu_attention_backward(const CpuSpec& spec, ConfigSink sink) {
  for (const DataType type : kBackwardTypes)
    if (!sink(generic_cpu_attention_backward(spec, type))) return;
  listed_backward_signatures(spec, [&](const AttentionSignature& signature) {
    bool wanted = true;
    enumerate_cpu_attention_backward(spec, signature,
                                     [&](const KernelConfig& config) { return wanted = sink(config); });
    return wanted;
  });
}

void listed_backward_signatures(const CpuSpec& spec, AttentionSignatureSink sink) {
  const std::vector<std::pair<int, int>> head_dims = listed_head_dims(spec);
  AttentionSignature signature;
  for (const DataType type : kBackwardTypes)
    for (const auto& [qk, v] : head_dims)
      for (const BiasKind bias : {BiasKind::none, BiasKind::elementwise, BiasKind::alibi})
        for (const bool soft_cap : {false, true})
          for (const bool dropout : {false, true}) {
            signature.data_type = type;
            signature.head_dim_qk = static_cast<std::uint16_t>(qk);
            signature.head_dim_v = static_cast<std::uint16_t>(v);
            signature.bias = bias;
            signature.soft_cap = soft_cap;
            signature.dropout = dropout;
            if (!sink(flash_backward_signature(signature))) return;
          }
}

}  // namespace tilesmith
