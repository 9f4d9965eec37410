#include "codegen/conv/cpu.hpp"

#include <fmt/format.h>

#include <string_view>
#include <vector>

namespace tilesmith {
namespace {

bool multiplies(Instruction instruction, ElementType element, CpuLevel level) {
  switch (instruction) {
    case Instruction::fma_f32:
      return true;
    case Instruction::dpbf16:
      return element == ElementType::bf16 && level >= CpuLevel::x86_64_v4_bf16;
    case Instruction::dot_int16:
      return element == ElementType::int8;
    case Instruction::dot_int8:
      return element == ElementType::int8 && level >= CpuLevel::x86_64_v4_bf16;
    case Instruction::amx_bf16:
      return element == ElementType::bf16 && level >= CpuLevel::x86_64_amx;
    case Instruction::amx_int8:
      return element == ElementType::int8 && level >= CpuLevel::x86_64_amx;
    default:
      return false;
  }
}

bool has_tiles(const CpuConvParameters& p) {
  return p.instruction == Instruction::amx_bf16 || p.instruction == Instruction::amx_int8;
}

/// What the fragments are written for. The rules of instances/conv/cpu.cpp refuse the rest before an instance comes
/// here, so a failure is a defect of a rule.
Status check_conv(const CpuConvParameters& p) {
  const bool computed = multiplies(p.instruction, p.element, p.level), tiles = has_tiles(p);
  const bool of_groups = p.instruction == Instruction::fma_f32 || p.instruction == Instruction::dot_int8 ||
                         (p.direction != ConvDirection::backward_weight &&
                          (p.instruction == Instruction::dpbf16 || p.instruction == Instruction::amx_bf16));
  if (p.pipeline == Pipeline::depthwise && computed && of_groups) return {};
  if (p.pipeline == Pipeline::direct && computed && !tiles && p.instruction != Instruction::dot_int16 &&
      (p.direction != ConvDirection::backward_weight || p.instruction == Instruction::fma_f32))
    return {};
  if (p.pipeline == Pipeline::blocked && computed && p.tile_m > 0 && p.tile_m % (tiles ? 32 : 8) == 0 && p.tile_n > 0 &&
      p.tile_n % (tiles ? 32 : 48) == 0 && p.tile_k > 0 && p.tile_k % 16 == 0)
    return {};
  return fail(
      ErrorCode::internal,
      fmt::format("CPU convolution kernel '{}': fma, dpbf16 of bf16, int16dot or vnni of int8, amx of both, and "
                  "whole micro-tiles",
                  p.name));
}

std::string_view direction_name(ConvDirection direction) {
  constexpr std::string_view kNames[] = {"forward", "backward_data", "backward_weight"};
  return kNames[static_cast<std::size_t>(direction)];
}

}  // namespace

Result<Source> cpu_conv_source(const CpuConvParameters& p) {
  TS_TRY(check_conv(p));
  const bool depthwise = p.pipeline == Pipeline::depthwise, blocked = p.pipeline == Pipeline::blocked;
  CpuConstants constants;
  add_cpu_basics(constants, p.level, p.element, p.instruction);
  constants.line("enum class Activation { none, relu, gelu, gelu_tanh, silu, sigmoid, tanh };");
  constants.line("enum class Direction { forward, backward_data, backward_weight };");
  constants.choice("Direction", "kDirection", direction_name(p.direction));
  constants.flag("kDepthwise", depthwise);
  constants.integer("kTileM", p.tile_m);
  constants.integer("kTileN", p.tile_n);
  constants.integer("kTileK", p.tile_k);
  const bool wide = p.level >= CpuLevel::x86_64_v4;
  std::vector<std::string_view> fragments = {wide ? "common/vector_avx512.h" : "common/vector_avx2.h",
                                             "common/vector.h",
                                             "common/elements.h",
                                             product_fragment(p.instruction),
                                             "common/math.h",
                                             wide ? "common/math_avx512.h" : "common/math_avx2.h",
                                             "common/functions.h",
                                             "gemm/activations.h",
                                             "gemm/lines.h",
                                             "conv/words.h"};
  if (!has_tiles(p)) fragments.emplace_back("common/product_vector.h");
  if (blocked) fragments.emplace_back(has_tiles(p) ? "conv/tile_amx.h" : "conv/tile_vector.h");
  fragments.emplace_back("conv/epilogue.h");
  if (depthwise) fragments.emplace_back("conv/channels.h");
  CpuTable table{.workspace = "workspace_size", .scratch = "scratch_size"};
  if (has_tiles(p)) {
    table.thread_begin = "configure_tiles";
    table.thread_end = "release_tiles";
  }
  if (p.direction == ConvDirection::backward_weight) {
    if (p.pipeline == Pipeline::direct) {
      fragments.emplace_back("conv/phases.h");
      fragments.emplace_back("conv/task_digits.h");
      fragments.emplace_back("conv/direct_image.h");
    }
    fragments.emplace_back(blocked ? "conv/weight.h" : depthwise ? "conv/depthwise_weight.h" : "conv/direct_weight.h");
    table.stages = {{"weight_tasks", "run_weight"}, {"reduce_tasks", "run_reduce"}};
  } else {
    fragments.emplace_back("conv/phases.h");
    if (depthwise) {
      fragments.emplace_back("conv/channel_weights.h");
      fragments.emplace_back("conv/channel_results.h");
      if (has_tiles(p)) fragments.emplace_back("conv/task_digits.h");
      fragments.emplace_back(has_tiles(p) ? "conv/channel_tiles.h" : "conv/depthwise.h");
      if (p.instruction == Instruction::dot_int8)
        fragments.insert(fragments.end(), {"conv/byte_results.h", "conv/depthwise_fours.h"});
    } else if (p.pipeline == Pipeline::direct) {
      fragments.emplace_back("conv/direct_weights.h");
      fragments.emplace_back("conv/task_digits.h");
      fragments.emplace_back("conv/direct_image.h");
      fragments.emplace_back("conv/direct.h");
    } else {
      fragments.emplace_back("conv/pack_weights.h");
      fragments.emplace_back("conv/rows.h");
      fragments.emplace_back("conv/data.h");
      if (p.direction == ConvDirection::backward_data)
        fragments.emplace_back("conv/data_lines.h");
      else if (has_tiles(p))
        fragments.insert(fragments.end(), {"conv/byte_results.h", "conv/joined_taps.h"});
    }
    table.stages = {{"pack_tasks", "run_pack"}, {"data_tasks", "run_data"}};
    if (depthwise && p.instruction == Instruction::dot_int8) {
      table.stages.back() = {"data_tasks", "run_fours"};
      table.scratch = "fours_scratch_size";
    }
    if (blocked && p.direction == ConvDirection::forward && has_tiles(p)) {
      table.workspace = "joined_workspace_size";
      table.scratch = "joined_scratch_size";
      table.stages = {{"joined_pack_tasks", "run_joined_pack"}, {"joined_tasks", "run_joined"}};
    }
  }
  return cpu_source(p.name, p.key, p.level, constants, "conv/abi.h", fragments, table);
}

}  // namespace tilesmith
