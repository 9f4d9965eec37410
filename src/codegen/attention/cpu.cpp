#include "codegen/attention/cpu.hpp"

#include <fmt/format.h>

#include <span>
#include <string_view>

namespace tilesmith {
namespace {

Status check(const CpuAttentionParameters& p) {
  const auto refuse = [&](std::string what, std::string hint) {
    return fail(ErrorCode::unsupported, fmt::format("CPU attention kernel '{}': {}", p.name, what), std::move(hint));
  };
  for (const int dim : {p.head_dim_qk, p.head_dim_v}) {
    if (dim < 8 || dim > 256 || dim % 8 != 0) {
      return refuse(fmt::format("head dimension {}", dim), "a multiple of 8 from 8 to 256");
    }
  }
  if (p.element != ElementType::fp32 && p.element != ElementType::bf16 && p.element != ElementType::fp16) {
    return refuse(fmt::format("element type {}", to_string(p.element)), "fp32, bf16 or fp16");
  }
  if (p.pipeline != Pipeline::flash && p.pipeline != Pipeline::decode)
    return refuse("an unknown pipeline", "flash or decode");
  if (p.instruction != Instruction::fma_f32 && p.instruction != Instruction::dpbf16 &&
      p.instruction != Instruction::amx_bf16) {
    return refuse("an unknown instruction", "fma_f32, dpbf16 or amx_bf16");
  }
  if (p.bias && p.alibi) return refuse("elementwise bias together with ALiBi", "one kind of bias");
  if (p.instruction != Instruction::fma_f32 && p.element != ElementType::bf16) {
    return refuse(fmt::format("{} products of {} tensors", fragment_name(p.instruction), to_string(p.element)),
                  "fma_f32");
  }
  if (p.instruction == Instruction::dpbf16 && p.level < CpuLevel::x86_64_v4_bf16) {
    return refuse("dpbf16 below level x86_64_v4_bf16", "fma_f32, or a higher level");
  }
  if (p.instruction == Instruction::amx_bf16 && p.level < CpuLevel::x86_64_amx) {
    return refuse("amx_bf16 below level x86_64_amx", "fma_f32 or dpbf16, or a higher level");
  }
  const int key_step = p.instruction == Instruction::amx_bf16 ? 32 : 16;
  if (p.tile_n < key_step || p.tile_n > 1024 || p.tile_n % key_step != 0) {
    return refuse(fmt::format("tile_n {}", p.tile_n), fmt::format("a multiple of {} up to 1024", key_step));
  }
  if (p.pipeline == Pipeline::decode) {
    if (p.tile_m != 1)
      return refuse(fmt::format("tile_m {} of a decode kernel", p.tile_m), "1: row groups are chosen at run time");
    if (p.instruction == Instruction::amx_bf16) return refuse("amx_bf16 in a decode kernel", "dpbf16 or fma_f32");
  } else {
    const int lanes = p.level == CpuLevel::x86_64_v3 ? 8 : 16;
    const int query_step = p.instruction == Instruction::amx_bf16 ? 32 : lanes;
    if (p.tile_m < query_step || p.tile_m > 768 || p.tile_m % query_step != 0) {
      return refuse(fmt::format("tile_m {}", p.tile_m), fmt::format("a multiple of {} up to 768", query_step));
    }
  }
  return {};
}

/// The degree of exp2's polynomial: its error stays well under the element type's rounding. A log-sum-exp of a few keys
/// shows the error itself, and is promised to 1e-5.
int exp2_degree(const CpuAttentionParameters& p) {
  if (p.element == ElementType::fp32) return 5;
  return p.element == ElementType::fp16 || p.lse ? 4 : 3;
}

CpuConstants constants_of(const CpuAttentionParameters& p) {
  CpuConstants constants;
  add_cpu_basics(constants, p.level, p.element, p.instruction);
  constants.integer("kHeadDimQk", p.head_dim_qk);
  constants.integer("kHeadDimV", p.head_dim_v);
  constants.integer("kTileM", p.tile_m);
  constants.integer("kTileN", p.tile_n);
  constants.integer("kExp2Degree", exp2_degree(p));
  constants.flag("kMask", p.mask);
  constants.flag("kBias", p.bias);
  constants.flag("kAlibi", p.alibi);
  constants.flag("kSoftCap", p.soft_cap);
  constants.flag("kSink", p.sink);
  constants.flag("kDropout", p.dropout);
  constants.flag("kLse", p.lse);
  constants.flag("kGroupMode", p.group_mode);
  return constants;
}

std::vector<std::string_view> fragments(const CpuAttentionParameters& p) {
  const bool wide = p.level >= CpuLevel::x86_64_v4;
  std::vector<std::string_view> names = {wide ? "common/vector_avx512.h" : "common/vector_avx2.h",
                                         "common/vector.h",
                                         "common/math.h",
                                         wide ? "common/math_avx512.h" : "common/math_avx2.h",
                                         "common/functions.h",
                                         "attention/philox.h",
                                         "common/elements.h",
                                         "common/convert.h",
                                         "attention/sequence.h"};
  if (p.pipeline == Pipeline::decode) {
    names.push_back(p.instruction == Instruction::dpbf16 ? "common/product_bf16.h" : "common/product_f32.h");
    names.insert(names.end(), {"attention/decode.h"});
  } else if (p.instruction == Instruction::amx_bf16) {
    names.insert(names.end(), {"attention/query_block.h", "attention/softmax.h", "common/product_amx.h",
                               "attention/amx.h", "attention/fwd.h"});
  } else {
    names.push_back(p.instruction == Instruction::dpbf16 ? "common/product_bf16.h" : "common/product_f32.h");
    names.insert(names.end(), {"attention/query_block.h", "attention/softmax.h", "common/product_vector.h",
                               "attention/vector.h", "attention/fwd.h"});
  }
  return names;
}

CpuTable table_of(const CpuAttentionParameters& p) {
  if (p.pipeline == Pipeline::decode) {
    return {.workspace = "decode_workspace",
            .scratch = "scratch_size",
            .stages = {{"split_tasks", "run_split"}, {"combine_tasks", "run_combine"}}};
  }
  if (p.instruction == Instruction::amx_bf16) {
    return {.workspace = "packed_size",
            .scratch = "scratch_size",
            .thread_begin = "configure_tiles",
            .thread_end = "release_tiles",
            .stages = {{"pack_tasks", "run_pack"}, {"query_tasks", "run_query_block"}}};
  }
  return {.workspace = "no_workspace", .scratch = "scratch_size", .stages = {{"query_tasks", "run_query_block"}}};
}

}  // namespace

Result<Source> cpu_attention_source(const CpuAttentionParameters& parameters) {
  TS_TRY(check(parameters));
  constexpr std::string_view kContract[] = {"abi.h"};
  return cpu_source(parameters.name, parameters.key, parameters.level, constants_of(parameters), kContract,
                    fragments(parameters), table_of(parameters));
}

}  // namespace tilesmith
