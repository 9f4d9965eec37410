#include "codegen/attention/cpu.hpp"

#include <fmt/format.h>

#include <span>
#include <string_view>

namespace tilesmith {
namespace {

/// What the fragments are written for. The rules of instances/attention/cpu.cpp refuse the rest before an instance
/// comes here, so a failure is a defect of a rule or of a level's facts.
Status check(const CpuAttentionParameters& p) {
  const auto holds = [&](bool condition, std::string_view invariant) -> Status {
    if (condition) return {};
    return fail(ErrorCode::internal,
                fmt::format("CPU attention kernel '{}' breaks the templates' invariant: {}", p.name, invariant));
  };
  const bool tiles = p.instruction == Instruction::amx_bf16;
  const bool decode = p.pipeline == Pipeline::decode;
  if (p.pipeline == Pipeline::generic)
    return holds(p.instruction == Instruction::fma_f32 && p.tile_m > 0 && p.tile_n > 0 && p.tile_n % 32 == 0,
                 "the instruction is fma_f32 and tile_n whole pairs of vectors");
  for (const int dim : {p.head_dim_qk, p.head_dim_v})
    TS_TRY(holds(dim >= 8 && dim <= 576 && dim % 8 == 0, "head dims are multiples of 8 from 8 to 576"));
  TS_TRY(holds(p.element == ElementType::fp32 || p.element == ElementType::bf16 || p.element == ElementType::fp16,
               "elements are fp32, bf16 or fp16"));
  const bool scaled = p.cache != p.element;
  TS_TRY(holds(!scaled || p.cache == ElementType::fp8e4m3 || p.cache == ElementType::int8,
               "keys and values have the queries' elements, fp8e4m3 or int8"));
  TS_TRY(holds(decode || p.pipeline == Pipeline::flash, "the pipeline is flash or decode"));
  TS_TRY(holds(p.instruction == Instruction::fma_f32 ||
                   (p.element == ElementType::bf16 && (p.instruction == Instruction::dpbf16 || tiles)),
               "the instruction is fma_f32, or for bf16 dpbf16 or amx_bf16"));
  TS_TRY(holds(p.instruction != Instruction::dpbf16 || p.level >= CpuLevel::x86_64_v4_bf16,
               "dpbf16 asks for x86_64_v4_bf16"));
  TS_TRY(holds(!tiles || p.level >= CpuLevel::x86_64_amx, "amx_bf16 asks for x86_64_amx"));
  TS_TRY(holds(!(p.bias && p.alibi), "there is one kind of bias"));
  const int key_step = tiles ? 32 : 16;
  TS_TRY(holds(p.tile_n >= key_step && p.tile_n % key_step == 0, "tile_n is whole groups of keys"));
  if (decode)
    return holds(p.tile_m == 1 && (!scaled || p.instruction != Instruction::dpbf16),
                 "decode has tile_m 1, and elements of 8 bits become floats or the tiles' elements");
  const int query_step = tiles ? 32 : cpu_lanes(p.level);
  return holds(p.tile_m >= query_step && p.tile_m % query_step == 0, "tile_m is whole vectors of queries");
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
  if (p.pipeline == Pipeline::generic) {
    constants.choice("Element", "kOutput", to_string(p.output));
    constants.integer("kTileM", p.tile_m);
    constants.integer("kTileN", p.tile_n);
    return constants;
  }
  constants.choice("Element", "kCache", to_string(p.cache));
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
  constants.flag("kPaged", p.paged);
  return constants;
}

std::vector<std::string_view> fragments(const CpuAttentionParameters& p) {
  const bool tiles = p.instruction == Instruction::amx_bf16;
  const bool wide = p.level >= CpuLevel::x86_64_v4;
  std::vector<std::string_view> names = {wide ? "common/vector_avx512.h" : "common/vector_avx2.h",
                                         "common/vector.h",
                                         "common/math.h",
                                         wide ? "common/math_avx512.h" : "common/math_avx2.h",
                                         "common/functions.h",
                                         "attention/philox.h",
                                         "common/elements.h"};
  if (p.pipeline == Pipeline::generic) {
    names.insert(names.end(), {"attention/rows.h", "attention/generic.h"});
    return names;
  }
  names.insert(names.end(), {"common/convert.h", "attention/page_vectors.h", "attention/sequence.h"});
  if (p.pipeline == Pipeline::decode) {
    names.push_back(product_fragment(p.instruction));
    names.insert(names.end(), {"attention/decode_rows.h",
                               tiles ? "attention/decode_amx.h" : "attention/decode_vector.h", "attention/decode.h"});
  } else if (tiles) {
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
  CpuTable table{.workspace = "no_workspace", .scratch = "scratch_size"};
  const bool tiles = p.instruction == Instruction::amx_bf16;
  if (tiles) {
    table.thread_begin = "configure_tiles";
    table.thread_end = "release_tiles";
  }
  if (p.pipeline == Pipeline::decode) {
    table.workspace = "decode_workspace";
    table.stages = {{"split_tasks", "run_split"}, {"combine_tasks", "run_combine"}};
  } else if (tiles) {
    table.workspace = "packed_size";
    table.stages = {{"pack_tasks", "run_pack"}, {"query_tasks", "run_query_block"}};
  } else {
    table.stages = {{"query_tasks", "run_query_block"}};
  }
  return table;
}

}  // namespace

Result<Source> cpu_attention_source(const CpuAttentionParameters& parameters) {
  TS_TRY(check(parameters));
  return cpu_source(parameters.name, parameters.key, parameters.level, constants_of(parameters), "attention/abi.h",
                    fragments(parameters), table_of(parameters));
}

}  // namespace tilesmith
