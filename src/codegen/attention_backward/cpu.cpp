#include "codegen/attention_backward/cpu.hpp"

#include <fmt/format.h>

#include <string_view>
#include <vector>

namespace tilesmith {
namespace {

/// What the fragments are written for. The rules of instances/attention_backward/cpu.cpp refuse the rest before an
/// instance comes here, so a failure is a defect of a rule.
Status check_backward(const CpuAttentionBackwardParameters& p) {
  const auto holds = [&](bool condition, std::string_view invariant) -> Status {
    if (condition) return {};
    return fail(
        ErrorCode::internal,
        fmt::format("CPU attention-backward kernel '{}' breaks the templates' invariant: {}", p.name, invariant));
  };
  if (p.pipeline == Pipeline::generic)
    return holds(p.tile_m > 0 && p.tile_m % 4 == 0 && p.tile_n > 0 && p.tile_n % 32 == 0,
                 "tile_m is whole strips and tile_n whole pairs of vectors");
  for (const int dim : {p.head_dim_qk, p.head_dim_v})
    TS_TRY(holds(dim >= 8 && dim <= 256 && dim % 8 == 0, "head dims are multiples of 8 from 8 to 256"));
  const bool tiles = p.instruction == Instruction::amx_bf16;
  const CpuLevel needed = tiles ? CpuLevel::x86_64_amx : CpuLevel::x86_64_v4_bf16;
  TS_TRY(holds(p.instruction == Instruction::fma_f32 || ((tiles || p.instruction == Instruction::dpbf16) &&
                                                         p.element == ElementType::bf16 && p.level >= needed),
               "the instruction is fma_f32, or for bf16 dpbf16 or amx_bf16 on a level that has it"));
  TS_TRY(holds(!(p.bias && p.alibi), "there is one kind of bias"));
  if (tiles)
    return holds(p.head_dim_qk % 32 == 0 && p.head_dim_v % 32 == 0 && p.tile_m > 0 && p.tile_m % 32 == 0 &&
                     p.tile_n > 0 && p.tile_n % 32 == 0,
                 "head dims, tile_m and tile_n are whole squares of matrix tiles");
  TS_TRY(holds(p.tile_m > 0 && p.tile_m % 24 == 0, "tile_m is whole strips of any height"));
  return holds(p.tile_n > 0 && p.tile_n % (3 * cpu_lanes(p.level)) == 0, "tile_n is whole panels of three vectors");
}

CpuConstants backward_constants(const CpuAttentionBackwardParameters& p) {
  CpuConstants constants;
  add_cpu_basics(constants, p.level, p.element, p.instruction);
  constants.choice("Element", "kOutput", to_string(p.element));
  constants.integer("kTileM", p.tile_m);
  constants.integer("kTileN", p.tile_n);
  if (p.pipeline == Pipeline::generic) return constants;
  constants.choice("Element", "kCache", to_string(p.element));  // k and v are of q's type
  constants.integer("kHeadDimQk", p.head_dim_qk);
  constants.integer("kHeadDimV", p.head_dim_v);
  // exp2's error stays well under the rounding of what is multiplied.
  constants.integer("kExp2Degree", p.element == ElementType::bf16 ? 4 : 5);
  constants.flag("kBias", p.bias);
  constants.flag("kAlibi", p.alibi);
  constants.flag("kSoftCap", p.soft_cap);
  constants.flag("kDropout", p.dropout);
  return constants;
}

std::vector<std::string_view> backward_fragments(const CpuAttentionBackwardParameters& p) {
  const bool wide = p.level >= CpuLevel::x86_64_v4;
  std::vector<std::string_view> names = {wide ? "common/vector_avx512.h" : "common/vector_avx2.h",
                                         "common/vector.h",
                                         "common/math.h",
                                         wide ? "common/math_avx512.h" : "common/math_avx2.h",
                                         "common/functions.h",
                                         "attention/philox.h",
                                         "common/elements.h",
                                         "attention/rows.h",
                                         "attention_backward/span.h",
                                         "attention_backward/delta.h",
                                         "attention_backward/keep.h"};
  if (p.pipeline == Pipeline::generic) {
    names.push_back("attention_backward/generic.h");
    return names;
  }
  names.insert(names.end(), {"common/convert.h", "attention_backward/tile.h"});
  if (p.instruction == Instruction::amx_bf16) {
    names.insert(names.end(), {"common/product_amx.h", "attention_backward/products_amx.h"});
  } else {
    names.push_back(p.instruction == Instruction::dpbf16 ? "common/product_bf16.h" : "common/product_f32.h");
    names.insert(names.end(), {"common/product_vector.h", "attention_backward/products.h"});
  }
  names.insert(names.end(), {"attention_backward/weights.h", "attention_backward/flash.h"});
  return names;
}

}  // namespace

Result<Source> cpu_attention_backward_source(const CpuAttentionBackwardParameters& p) {
  TS_TRY(check_backward(p));
  CpuTable table{
      .workspace = "workspace_size",
      .scratch = "scratch_size",
      .stages = {{"delta_tasks", "run_delta"}, {"gradient_tasks", "run_gradients"}, {"sum_tasks", "run_sums"}}};
  if (p.instruction == Instruction::amx_bf16) {
    table.thread_begin = "configure_tiles";
    table.thread_end = "release_tiles";
  }
  return cpu_source(p.name, p.key, p.level, backward_constants(p), "attention_backward/abi.h", backward_fragments(p),
                    table);
}

}  // namespace tilesmith
