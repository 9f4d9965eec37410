#include "codegen/cpu_attention.hpp"

#include <fmt/format.h>

#include <string_view>

namespace tilesmith {

std::string_view cpu_fragment(std::string_view file_name);  // generated from kernels/cpu

namespace {

constexpr std::string_view kEntry = "tilesmith_kernel";

std::string_view element_name(CpuElement element) {
  switch (element) {
    case CpuElement::fp32:
      return "fp32";
    case CpuElement::bf16:
      return "bf16";
    case CpuElement::fp16:
      return "fp16";
  }
  return {};
}

std::string_view instruction_name(CpuInstruction instruction) {
  switch (instruction) {
    case CpuInstruction::fma_f32:
      return "fma_f32";
    case CpuInstruction::dpbf16:
      return "dpbf16";
    case CpuInstruction::amx_bf16:
      return "amx_bf16";
  }
  return {};
}

Status check(const CpuAttentionParameters& p) {
  const auto refuse = [&](std::string what, std::string hint) {
    return fail(ErrorCode::unsupported, fmt::format("CPU attention kernel '{}': {}", p.name, what), std::move(hint));
  };
  for (const int dim : {p.head_dim_qk, p.head_dim_v}) {
    if (dim < 8 || dim > 256 || dim % 8 != 0) {
      return refuse(fmt::format("head dimension {}", dim), "a multiple of 8 from 8 to 256");
    }
  }
  if (p.bias && p.alibi) return refuse("elementwise bias together with ALiBi", "one kind of bias");
  if (p.instruction != CpuInstruction::fma_f32 && p.element != CpuElement::bf16) {
    return refuse(fmt::format("{} products of {} tensors", instruction_name(p.instruction), element_name(p.element)), "fma_f32");
  }
  if (p.instruction == CpuInstruction::dpbf16 && p.level < CpuLevel::x86_64_v4_bf16) {
    return refuse("dpbf16 below level x86_64_v4_bf16", "fma_f32, or a higher level");
  }
  if (p.instruction == CpuInstruction::amx_bf16 && p.level < CpuLevel::x86_64_amx) {
    return refuse("amx_bf16 below level x86_64_amx", "fma_f32 or dpbf16, or a higher level");
  }
  const int key_step = p.instruction == CpuInstruction::amx_bf16 ? 32 : 16;
  if (p.tile_n < key_step || p.tile_n > 1024 || p.tile_n % key_step != 0) {
    return refuse(fmt::format("tile_n {}", p.tile_n), fmt::format("a multiple of {} up to 1024", key_step));
  }
  if (p.pipeline == CpuAttentionPipeline::decode) {
    if (p.tile_m < 1 || p.tile_m > 16) return refuse(fmt::format("tile_m {} of a decode kernel", p.tile_m), "1 to 16");
    if (p.instruction == CpuInstruction::amx_bf16) return refuse("amx_bf16 in a decode kernel", "dpbf16 or fma_f32");
  } else {
    const int lanes = p.level == CpuLevel::x86_64_v3 ? 8 : 16;
    const int query_step = p.instruction == CpuInstruction::amx_bf16 ? 32 : lanes;
    if (p.tile_m < query_step || p.tile_m > 768 || p.tile_m % query_step != 0) {
      return refuse(fmt::format("tile_m {}", p.tile_m), fmt::format("a multiple of {} up to 768", query_step));
    }
  }
  return {};
}

/// The degree of exp2's polynomial: its error stays well under the element type's rounding. A log-sum-exp of a few keys shows the
/// error itself, and is promised to 1e-5.
int exp2_degree(const CpuAttentionParameters& p) {
  if (p.element == CpuElement::fp32) return 5;
  return p.element == CpuElement::fp16 || p.lse ? 4 : 3;
}

std::string prologue(const CpuAttentionParameters& p) {
  std::string text = fmt::format("// {}\n", p.name);
  text += "enum class Element { fp32, bf16, fp16 };\nenum class Instruction { fma_f32, dpbf16, amx_bf16 };\n";
  text += fmt::format("constexpr Element kElement = Element::{};\n", element_name(p.element));
  text += fmt::format("constexpr Instruction kInstruction = Instruction::{};\n", instruction_name(p.instruction));
  const auto integer = [&](std::string_view name, int value) { text += fmt::format("constexpr int {} = {};\n", name, value); };
  const auto flag = [&](std::string_view name, bool value) { text += fmt::format("constexpr bool {} = {};\n", name, value); };
  integer("kHeadDimQk", p.head_dim_qk);
  integer("kHeadDimV", p.head_dim_v);
  integer("kTileM", p.tile_m);
  integer("kTileN", p.tile_n);
  integer("kExp2Degree", exp2_degree(p));
  flag("kMask", p.mask);
  flag("kBias", p.bias);
  flag("kAlibi", p.alibi);
  flag("kSoftcap", p.soft_cap);
  flag("kSink", p.sink);
  flag("kDropout", p.dropout);
  flag("kLse", p.lse);
  flag("kGroupMode", p.group_mode);
  return text;
}

std::vector<std::string_view> fragments(const CpuAttentionParameters& p) {
  const bool wide = p.level >= CpuLevel::x86_64_v4;
  std::vector<std::string_view> names = {wide ? "vector_avx512.h" : "vector_avx2.h", "vector.h", "math.h",
                                         wide ? "math_avx512.h" : "math_avx2.h", "functions.h"};
  if (p.dropout) names.push_back("philox.h");
  names.insert(names.end(), {"convert.h", "sequence.h"});
  if (p.pipeline == CpuAttentionPipeline::decode) {
    names.insert(names.end(), {"attention_decode.h"});
  } else if (p.instruction == CpuInstruction::amx_bf16) {
    names.insert(names.end(), {"query_block.h", "softmax.h", "product_amx.h", "attention_amx.h", "attention_fwd.h"});
  } else {
    names.insert(names.end(), {"query_block.h", "softmax.h", "product_vector.h", "attention_vector.h", "attention_fwd.h"});
  }
  return names;
}

std::string table(const CpuAttentionParameters& p) {
  std::string stages = "no_workspace, scratch_size, nullptr, nullptr, {{query_tasks, run_query_block}}";
  int stage_count = 1;
  if (p.pipeline == CpuAttentionPipeline::decode) {
    stages = "decode_workspace, scratch_size, nullptr, nullptr, {{split_tasks, run_split}, {combine_tasks, run_combine}}";
    stage_count = 2;
  } else if (p.instruction == CpuInstruction::amx_bf16) {
    stages = "packed_size, scratch_size, configure_tiles, release_tiles, {{pack_tasks, run_pack}, {query_tasks, run_query_block}}";
    stage_count = 2;
  }
  return fmt::format(
      "extern \"C\" __attribute__((visibility(\"default\"))) const TsCpuKernel {};\n"
      "const TsCpuKernel {} = {{TS_CPU_ABI_VERSION, {}, \"{}\", {{0x{:016x}ull, 0x{:016x}ull}}, {}}};\n",
      kEntry, kEntry, stage_count, p.name, p.key[0], p.key[1], stages);
}

}  // namespace

std::vector<std::string> cpu_level_options(CpuLevel level) {
  std::vector<std::string> options = {level == CpuLevel::x86_64_v3 ? "-march=x86-64-v3" : "-march=x86-64-v4"};
  if (level >= CpuLevel::x86_64_v4) options.emplace_back("-mprefer-vector-width=512");
  if (level >= CpuLevel::x86_64_v4_bf16) options.emplace_back("-mavx512bf16");
  if (level >= CpuLevel::x86_64_amx) options.insert(options.end(), {"-mamx-tile", "-mamx-bf16"});
  return options;
}

Result<CpuSource> cpu_attention_source(const CpuAttentionParameters& parameters) {
  TS_TRY(check(parameters));
  CpuSource source;
  source.entry = kEntry;
  source.options = {"-std=c++20", "-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fvisibility=hidden"};
  for (std::string& option : cpu_level_options(parameters.level)) source.options.push_back(std::move(option));
  source.text = prologue(parameters);
  source.text += cpu_fragment("abi.h");
  source.text += "namespace {\n";
  for (const std::string_view name : fragments(parameters)) {
    const std::string_view text = cpu_fragment(name);
    if (text.empty()) return fail(ErrorCode::internal, fmt::format("kernel fragment '{}' is not embedded", name));
    source.text += fmt::format("\n// ---- {}\n", name);
    source.text += text;
  }
  source.text += "}  // namespace\n\n";
  source.text += table(parameters);
  return source;
}

}  // namespace tilesmith
