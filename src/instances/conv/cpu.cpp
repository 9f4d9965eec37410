#include "instances/conv/cpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tilesmith {
namespace {

using ConvSubject = CpuConvSubject;

constexpr DataType kConvTypes[] = {DataType::fp32, DataType::bf16, DataType::fp16, DataType::fp8, DataType::int8};
constexpr ConvDirection kConvDirections[] = {ConvDirection::forward, ConvDirection::backward_data,
                                             ConvDirection::backward_weight};
constexpr Instruction kConvInstructions[] = {Instruction::fma_f32,  Instruction::dpbf16,   Instruction::dot_int16,
                                             Instruction::dot_int8, Instruction::amx_bf16, Instruction::amx_int8};

bool has_tiles(Instruction instruction) {
  return instruction == Instruction::amx_bf16 || instruction == Instruction::amx_int8;
}

/// Rows and columns of a task, and words of a block of the sum. A task's sums (180 KiB) and its block of the image take
/// half of a second-level cache of 512 KiB; backward weight packs a block of y as well, so its blocks are shorter.
/// Every task of it packs y anew, which beside AMX takes so long that tasks have more rows; those caches have 2 MiB.
std::array<std::uint16_t, 9> conv_tile(ConvDirection direction, Instruction instruction) {
  if (direction == ConvDirection::backward_weight) {
    if (has_tiles(instruction)) return {288, 480, 128};
    return {96, 480, 128};
  }
  return {96, 480, 256};
}

ConvSignature conv_signature(ConvDirection direction, DataType type, bool depthwise) {
  ConvSignature s;
  s.depthwise = depthwise;
  s.direction = direction;
  s.data_type = type;
  if (type == DataType::int8) s.accumulator = DataType::int32;
  s.spatial_dims = 3;
  return s;
}

Algorithm conv_algorithm(const ConvSignature& signature, Pipeline pipeline, Instruction instruction) {
  if (pipeline != Pipeline::blocked) return {.pipeline = pipeline, .instruction = instruction};
  return {
      .pipeline = Pipeline::blocked, .instruction = instruction, .tile = conv_tile(signature.direction, instruction)};
}

constexpr Rule<ConvSubject> kConvRules[] = {
    {"type_is_computed",
     "tensors are fp32, bf16, fp16, fp8 or int8, the last two forward alone; sums are fp32, of int8 int32",
     [](const ConvSubject& s) {
       const ConvSignature& g = s.signature();
       return std::ranges::find(kConvTypes, g.data_type) != std::end(kConvTypes) &&
              (g.direction == ConvDirection::forward || bits_of(g.data_type) > 8) &&
              g.accumulator == (g.data_type == DataType::int8 ? DataType::int32 : DataType::fp32);
     },
     [](const ConvSubject& s) {
       return fmt::format("{} of {}, sums {}", name_of(s.signature().direction), name_of(s.signature().data_type),
                          name_of(s.signature().accumulator));
     }},
    {"sizes_are_run_time", "a kernel takes up to three dimensions, and filters, strides and groups of any size",
     [](const ConvSubject& s) {
       return s.signature() ==
              conv_signature(s.signature().direction, s.signature().data_type, s.signature().depthwise);
     },
     [](const ConvSubject& s) {
       return fmt::format("{} spatial dimensions, depthwise {}", s.signature().spatial_dims, s.signature().depthwise);
     }},
    {"instruction_of_level",
     "the level has the instruction, for this type; depthwise and direct make floats of any, which hold sums of int8 "
     "whole",
     [](const ConvSubject& s) {
       const CpuGemmInstruction* facts = s.facts();
       return facts != nullptr &&
              (std::ranges::find(facts->data_types, s.signature().data_type) != facts->data_types.end() ||
               (s.config.algorithm.pipeline != Pipeline::blocked &&
                s.config.algorithm.instruction == Instruction::fma_f32));
     },
     [](const ConvSubject& s) {
       return fmt::format("{} on {}, type {}", name_of(s.config.algorithm.instruction), s.spec.arch.text(),
                          name_of(s.signature().data_type));
     }},
    {"instruction_suits_template",
     "the templates multiply with fma, dpbf16, int16dot, vnni or amx; depthwise with fma, and groups of several "
     "channels of int8 with vnni too, and of bf16 with dpbf16 and amx, but not backward weight; direct with fma, and "
     "with dpbf16 and vnni, but not backward weight",
     [](const ConvSubject& s) {
       const Instruction instruction = s.config.algorithm.instruction;
       const bool of_bf16 = instruction == Instruction::dpbf16 || instruction == Instruction::amx_bf16;
       if (s.config.algorithm.pipeline == Pipeline::direct)
         return instruction == Instruction::fma_f32 ||
                (s.signature().direction != ConvDirection::backward_weight &&
                 (instruction == Instruction::dot_int8 || instruction == Instruction::dpbf16));
       return instruction == Instruction::fma_f32 || instruction == Instruction::dot_int8 ||
              (of_bf16 && s.signature().direction != ConvDirection::backward_weight) ||
              (!s.signature().depthwise && std::ranges::count(kConvInstructions, instruction) > 0);
     },
     [](const ConvSubject& s) {
       return fmt::format("{} with {}, depthwise {}", name_of(s.signature().direction),
                          name_of(s.config.algorithm.instruction), s.signature().depthwise);
     }},
    {"fields_belong_to_pipeline",
     "the pipeline is blocked, with one tile for each direction and kind of registers, or without one depthwise or "
     "direct",
     [](const ConvSubject& s) {
       const Algorithm& a = s.config.algorithm;
       const bool suits = s.signature().depthwise ? a.pipeline == Pipeline::depthwise
                                                  : a.pipeline == Pipeline::blocked || a.pipeline == Pipeline::direct;
       return s.config.origin == Origin::own && suits && a == conv_algorithm(s.signature(), a.pipeline, a.instruction);
     },
     [](const ConvSubject& s) {
       const auto& tile = s.config.algorithm.tile;
       return fmt::format("origin {}, pipeline {}, tile {}x{}x{}", name_of(s.config.origin),
                          name_of(s.config.algorithm.pipeline), tile[0], tile[1], tile[2]);
     }},
};

}  // namespace

const CpuGemmInstruction* CpuConvSubject::facts() const {
  const auto found = std::ranges::find(spec.gemm, config.algorithm.instruction, &CpuGemmInstruction::instruction);
  return found == spec.gemm.end() ? nullptr : &*found;
}

std::span<const Rule<CpuConvSubject>> cpu_conv_rules() {
  return kConvRules;
}

void enumerate_cpu_conv(const CpuSpec& spec, ConvDirection direction, DataType type, ConfigSink sink) {
  for (const Pipeline pipeline : {Pipeline::blocked, Pipeline::depthwise, Pipeline::direct})
    for (const Instruction instruction : kConvInstructions) {
      const ConvSignature signature = conv_signature(direction, type, pipeline == Pipeline::depthwise);
      const KernelConfig config{
          .arch = spec.arch, .signature = signature, .algorithm = conv_algorithm(signature, pipeline, instruction)};
      if (first_refusal(cpu_conv_rules(), CpuConvSubject{config, spec}) == nullptr && !sink(config)) return;
    }
}

void enumerate_cpu_conv(const CpuSpec& spec, ConfigSink sink) {
  bool wanted = true;
  const auto forward = [&](const KernelConfig& config) { return wanted = sink(config); };
  for (const ConvDirection direction : kConvDirections)
    for (const DataType type : kConvTypes)
      if (wanted) enumerate_cpu_conv(spec, direction, type, forward);
}

}  // namespace tilesmith
