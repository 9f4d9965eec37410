#include "instances/gemm/cpu.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "instances/gemm/family.hpp"

namespace tilesmith {
namespace {

using Subject = CpuGemmSubject;

bool is_among(DataType type, std::initializer_list<DataType> types) {
  return std::ranges::find(types, type) != types.end();
}
bool is_wide_float(DataType type) {
  return is_among(type, {DataType::fp32, DataType::fp16, DataType::bf16});
}

const CpuGemmTiles* tiles_of(const Subject& s) {
  const CpuGemmInstruction* facts = s.facts();
  if (facts == nullptr) return nullptr;
  const auto found = std::ranges::find(facts->pipelines, s.config.algorithm.pipeline, &CpuGemmTiles::pipeline);
  return found == facts->pipelines.end() ? nullptr : &*found;
}

bool types_fit(const Subject& s) {
  const GemmSignature& g = s.signature();
  const bool integers = g.a == DataType::int8, whole = g.c == DataType::int32;
  if (g.a != g.b && !(is_fp8(g.a) && is_fp8(g.b)) && !has_weights(g)) return false;
  if (g.accumulator != (integers ? DataType::int32 : DataType::fp32)) return false;
  if (!is_wide_float(g.c) && !(integers && (whole || g.c == DataType::int8))) return false;
  if (whole) return g.aux == DataType::int32 && g.epilogue_ops.empty();
  return (is_wide_float(g.aux) || g.aux == DataType::int8) && is_wide_float(g.bias);
}

bool is_whole(int value, int step, int most) {
  return value >= step && value <= most && value % step == 0;
}

// 32 KiB of A and twice 64 KiB of B in fp32: what kernels/cpu/gemm/generic.h keeps in its scratch.
constexpr int kGenericTile[] = {32, 64, 256};

GemmSignature generic_signature() {
  GemmSignature s;
  s.a = s.b = s.c = s.aux = DataType::fp32;
  return s;
}

constexpr Rule<Subject> kRules[] = {
    {"family_is_carried", "the CPU templates compute dense products with a row-major result",
     [](const Subject& s) { return is_plain_gemm(s.signature()); },
     [](const Subject& s) {
       const GemmSignature& g = s.signature();
       return fmt::format("family {}, layouts of C and D {}{}, stream_k_reduction {}", name_of(g.family),
                          name_of(g.layout_c), name_of(g.layout_d), name_of(g.stream_k_reduction));
     }},
    {"scales_are_carried",
     "blocks of 8-bit floats have scales in fp32, integer weights in fp32 or A's type, both along k; groups are calls "
     "of "
     "their own",
     [](const Subject& s) { return scales_fit(s.signature()) && s.signature().grouping == GemmGrouping::none; },
     [](const Subject& s) {
       const GemmSignature& g = s.signature();
       return fmt::format("a {}, b {}, qscale {}, scale {}, layout {}{}, grouping {}", name_of(g.a), name_of(g.b),
                          name_of(g.qscale), name_of(g.scale), name_of(g.layout_a), name_of(g.layout_b),
                          name_of(g.grouping));
     }},
    {"second_product_is_carried", "a second product excludes groups, scales along k and integer weights",
     [](const Subject& s) { return second_fits(s.signature()); },
     [](const Subject& s) {
       const GemmSignature& g = s.signature();
       return fmt::format("a second product beside {} groups, qscale {}, a {} and b {}", name_of(g.grouping),
                          name_of(g.qscale), name_of(g.a), name_of(g.b));
     }},
    {"packed_b_is_carried",
     "blocked kernels read a packed B, whose panels are those of one canonical layout, beside neither scales, weights "
     "nor "
     "a second product",
     [](const Subject& s) {
       const GemmSignature& g = s.signature();
       return !s.config.algorithm.packed_b ||
              (s.config.algorithm.pipeline == Pipeline::blocked && g.layout_b == MatrixOrder::column && !g.mm_plus_mm &&
               !has_weights(g) && g.qscale == QuantScale::none);
     },
     [](const Subject& s) {
       const GemmSignature& g = s.signature();
       return fmt::format("pipeline {}, layout of B {}, a {}, b {}, qscale {}, second product {}",
                          name_of(s.config.algorithm.pipeline), name_of(g.layout_b), name_of(g.a), name_of(g.b),
                          name_of(g.qscale), g.mm_plus_mm);
     }},
    {"fields_belong_to_pipeline",
     "the CPU templates read three figures of the tile, split_k and packed_b, and no other option",
     [](const Subject& s) {
       Algorithm rest = s.config.algorithm;
       rest.tile[0] = rest.tile[1] = rest.tile[2] = 0;
       rest.split_k = rest.packed_b = false;
       return s.config.origin == Origin::own &&
              rest == Algorithm{.pipeline = rest.pipeline, .instruction = rest.instruction};
     },
     [](const Subject& s) {
       return fmt::format(
           "origin {}; fields besides pipeline, instruction, tile, split_k and packed_b have their defaults",
           name_of(s.config.origin));
     }},
    {"instruction_is_present", "the level has the instruction that multiplies fragments of these matrices",
     [](const Subject& s) {
       const CpuGemmInstruction* facts = s.facts();
       return facts != nullptr && std::ranges::find(facts->data_types, s.signature().a) != facts->data_types.end();
     },
     [](const Subject& s) {
       std::vector<std::string> offered;
       for (const CpuGemmInstruction& facts : s.spec.gemm)
         for (const DataType type : facts.data_types)
           offered.push_back(fmt::format("{} {}", name_of(facts.instruction), name_of(type)));
       return fmt::format("{} on {}; {} offers {}", name_of(s.config.algorithm.instruction), name_of(s.signature().a),
                          s.spec.arch.text(), fmt::join(offered, ", "));
     }},
    {"types_are_carried",
     "sums are fp32 (int32 for int8 matrices); results are fp32, fp16 or bf16; int8 matrices may also "
     "give int8, or int32 without an epilogue",
     types_fit,
     [](const Subject& s) {
       const GemmSignature& g = s.signature();
       return fmt::format("a {}, b {}, sums {}, result {}, C and tensors {}, bias {}", name_of(g.a), name_of(g.b),
                          name_of(g.accumulator), name_of(g.c), name_of(g.aux), name_of(g.bias));
     }},
    {"epilogue_is_carried", "the kernels apply the epilogue's terms in one fixed order, each at most once",
     [](const Subject& s) {
       const auto terms = cpu_gemm_kernel_terms(s.signature().epilogue_ops);
       return terms && terms->normal_form() == s.signature().epilogue_ops;
     },
     [](const Subject& s) {
       std::vector<std::string_view> names;
       for (const EpilogueOp op : s.signature().epilogue_ops) names.push_back(name_of(op));
       return fmt::format("[{}]; in order: scale_m, scale_n, bias, an activation or gate, tensors, clamp, amax",
                          fmt::join(names, ", "));
     }},
    {"pipeline_is_offered", "the level lists the pipeline for the instruction",
     [](const Subject& s) {
       return s.is_generic() ? s.config.algorithm.instruction == Instruction::fma_f32 : tiles_of(s) != nullptr;
     },
     [](const Subject& s) {
       return fmt::format("pipeline {}, instruction {}", name_of(s.config.algorithm.pipeline),
                          name_of(s.config.algorithm.instruction));
     }},
    {"traits_are_run_time", "a generic kernel has no types, orders and epilogue of its own",
     [](const Subject& s) {
       return !s.is_generic() || (s.signature() == generic_signature() && !s.config.algorithm.split_k);
     },
     [](const Subject& s) {
       return fmt::format("{} of {} and {}, split_k {}; generic ones are written as plain fp32 products",
                          name_of(s.config.algorithm.pipeline), name_of(s.signature().a), name_of(s.signature().b),
                          s.config.algorithm.split_k);
     }},
    {"tile_is_whole_micro_tiles",
     "a task is a whole number of the tiles that the registers hold, up to 1024 x 4096 x 8192",
     [](const Subject& s) {
       if (s.is_generic())
         return s.tile_m() == kGenericTile[0] && s.tile_n() == kGenericTile[1] && s.tile_k() == kGenericTile[2];
       const CpuGemmInstruction* facts = s.facts();
       return facts != nullptr && is_whole(s.tile_m(), facts->rows, 1024) &&
              is_whole(s.tile_n(), facts->columns, 4096) && is_whole(s.tile_k(), facts->depth, 8192);
     },
     [](const Subject& s) {
       const CpuGemmInstruction* facts = s.facts();
       return fmt::format("tile {} x {} x {}, registers {} x {} x {}", s.tile_m(), s.tile_n(), s.tile_k(),
                          facts == nullptr ? 0 : facts->rows, facts == nullptr ? 0 : facts->columns,
                          facts == nullptr ? 0 : facts->depth);
     }},
    {"skinny_has_few_rows", "a skinny kernel keeps the sums of all rows in registers while it reads B once",
     [](const Subject& s) { return s.config.algorithm.pipeline != Pipeline::skinny || s.tile_m() <= kCpuSkinnyRows; },
     [](const Subject& s) { return fmt::format("tile_m {}, at most {}", s.tile_m(), kCpuSkinnyRows); }},
    {"block_of_a_fits_l2", "the packed block of A stays in the core's L2 while every panel of B is multiplied by it",
     [](const Subject& s) {
       return s.config.algorithm.pipeline != Pipeline::blocked || 4 * packed_block_bytes(s) <= 3 * s.spec.l2_bytes;
     },
     [](const Subject& s) {
       return fmt::format("{} KiB of A; three quarters of L2 are {} KiB", packed_block_bytes(s) / 1024,
                          s.spec.l2_bytes * 3 / 4 / 1024);
     }},
};

/// The results worth listing for matrices of a type.
std::vector<DataType> results_of(DataType type) {
  if (type == DataType::int8) return {DataType::int32, DataType::bf16, DataType::fp32, DataType::int8};
  if (type == DataType::fp32) return {DataType::fp32};
  if (is_fp8(type)) return {DataType::bf16, DataType::fp32};
  return {type, DataType::fp32};
}

}  // namespace

const CpuGemmInstruction* CpuGemmSubject::facts() const {
  const auto found = std::ranges::find(spec.gemm, config.algorithm.instruction, &CpuGemmInstruction::instruction);
  return found == spec.gemm.end() ? nullptr : &*found;
}

std::span<const Rule<CpuGemmSubject>> cpu_gemm_rules() {
  return kRules;
}

long packed_block_bytes(const CpuGemmSubject& s) {
  // Elements travel in 32-bit words: fp32 (which fp16 and bf16 become for fused multiply-add), pairs or fours.
  const CpuGemmInstruction* facts = s.facts();
  const long pack = facts == nullptr ? 1 : facts->elements_per_word;
  return 4L * s.tile_m() * s.tile_k() / pack;
}

std::optional<KernelConfig> generic_cpu_gemm(const CpuSpec& spec) {
  const KernelConfig config{.arch = spec.arch,
                            .signature = generic_signature(),
                            .algorithm = {.pipeline = Pipeline::generic,
                                          .instruction = Instruction::fma_f32,
                                          .tile = {kGenericTile[0], kGenericTile[1], kGenericTile[2]}}};
  if (first_refusal(cpu_gemm_rules(), CpuGemmSubject{config, spec}) != nullptr) return {};
  return config;
}

void walk_cpu_gemm(const CpuSpec& spec, const GemmSignature& signature, CpuGemmVisit visit) {
  KernelConfig config{.arch = spec.arch, .signature = signature, .algorithm = {}};
  for (const CpuGemmInstruction& facts : spec.gemm) {
    config.algorithm.instruction = facts.instruction;
    for (const CpuGemmTiles& tiles : facts.pipelines) {
      config.algorithm.pipeline = tiles.pipeline;
      for (const bool splits : {false, true})
        for (const int m : tiles.tile_m)
          for (const int n : tiles.tile_n)
            for (const int k : tiles.tile_k) {
              config.algorithm.split_k = splits;
              config.algorithm.tile = {static_cast<std::uint16_t>(m), static_cast<std::uint16_t>(n),
                                       static_cast<std::uint16_t>(k)};
              if (!visit(config, first_refusal(cpu_gemm_rules(), CpuGemmSubject{config, spec}))) return;
            }
    }
  }
}

void enumerate_cpu_gemm(const CpuSpec& spec, const GemmSignature& signature, ConfigSink sink) {
  bool wanted = true;
  walk_cpu_gemm(spec, signature, [&](const KernelConfig& config, const Rule<CpuGemmSubject>* refused) {
    return wanted = refused != nullptr || sink(config);
  });
  if (!wanted || signature != generic_signature()) return;
  if (const auto generic = generic_cpu_gemm(spec)) sink(*generic);
}

void enumerate_cpu_gemm(const CpuSpec& spec, std::string_view layout, ConfigSink sink) {
  bool wanted = true;
  const auto forward = [&](const KernelConfig& config) { return wanted = sink(config); };
  listed_gemm_signatures(spec, layout, [&](const GemmSignature& signature) {
    enumerate_cpu_gemm(spec, signature, forward);
    return wanted;
  });
}

void listed_gemm_signatures(const CpuSpec& spec, std::string_view layout, GemmSignatureSink sink) {
  std::vector<DataType> types;
  for (const CpuGemmInstruction& facts : spec.gemm)
    for (const DataType type : facts.data_types)
      if (std::ranges::find(types, type) == types.end()) types.push_back(type);
  GemmSignature signature;
  for (const DataType type : types)
    for (const DataType result : results_of(type))
      for (const MatrixOrder order_a : {MatrixOrder::row, MatrixOrder::column})
        for (const MatrixOrder order_b : {MatrixOrder::column, MatrixOrder::row}) {
          signature.layout_a = order_a;
          signature.layout_b = order_b;
          const std::string letters = fmt::format("{}{}r", name_of(order_a), name_of(order_b));
          if (!layout.empty() && layout != letters) continue;
          for (const GemmEpilogue& epilogue : spec.gemm_epilogues) {
            if (result == DataType::int32 && !epilogue.empty()) continue;
            signature.a = signature.b = type;
            signature.c = signature.aux = result;
            signature.accumulator = type == DataType::int8 ? DataType::int32 : DataType::fp32;
            const bool has_bias = std::ranges::any_of(
                epilogue, [](EpilogueOp op) { return op == EpilogueOp::bias || op == EpilogueOp::bias_m; });
            signature.bias = !has_bias ? GemmSignature{}.bias : is_wide_float(result) ? result : DataType::fp32;
            signature.epilogue_ops = epilogue;
            if (!sink(signature)) return;
          }
        }
}

}  // namespace tilesmith
