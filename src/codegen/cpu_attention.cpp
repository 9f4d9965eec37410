#include "codegen/cpu_attention.hpp"

#include <fmt/format.h>

#include <span>
#include <string_view>

#include "base/embedded.hpp"

namespace tilesmith {

std::span<const EmbeddedFile> embedded_cpu_fragments();  // the files of kernels/cpu

namespace {

std::string_view cpu_fragment(std::string_view file_name) {
  for (const EmbeddedFile& file : embedded_cpu_fragments())
    if (file.path == file_name) return file.text;
  return {};
}

std::string_view instruction_name(Instruction instruction) {
  switch (instruction) {
    case Instruction::dpbf16:
      return "dpbf16";
    case Instruction::amx_bf16:
      return "amx_bf16";
    default:
      return "fma_f32";
  }
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
    return refuse(fmt::format("{} products of {} tensors", instruction_name(p.instruction), to_string(p.element)),
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

std::string prologue(const CpuAttentionParameters& p) {
  std::string text = fmt::format("// {}\n", p.name);
  text += "enum class Element { fp32, bf16, fp16 };\nenum class Instruction { fma_f32, dpbf16, amx_bf16 };\n";
  text += fmt::format("constexpr Element kElement = Element::{};\n", to_string(p.element));
  text += fmt::format("constexpr Instruction kInstruction = Instruction::{};\n", instruction_name(p.instruction));
  const auto integer = [&](std::string_view name, int value) {
    text += fmt::format("constexpr int {} = {};\n", name, value);
  };
  const auto flag = [&](std::string_view name, bool value) {
    text += fmt::format("constexpr bool {} = {};\n", name, value);
  };
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
  std::vector<std::string_view> names = {wide ? "vector_avx512.h" : "vector_avx2.h",
                                         "vector.h",
                                         "math.h",
                                         wide ? "math_avx512.h" : "math_avx2.h",
                                         "functions.h",
                                         "philox.h",
                                         "convert.h",
                                         "sequence.h"};
  if (p.pipeline == Pipeline::decode) {
    names.push_back(p.instruction == Instruction::dpbf16 ? "product_bf16.h" : "product_f32.h");
    names.insert(names.end(), {"attention_decode.h"});
  } else if (p.instruction == Instruction::amx_bf16) {
    names.insert(names.end(), {"query_block.h", "softmax.h", "product_amx.h", "attention_amx.h", "attention_fwd.h"});
  } else {
    names.push_back(p.instruction == Instruction::dpbf16 ? "product_bf16.h" : "product_f32.h");
    names.insert(names.end(),
                 {"query_block.h", "softmax.h", "product_vector.h", "attention_vector.h", "attention_fwd.h"});
  }
  return names;
}

std::string table(const CpuAttentionParameters& p, std::string_view entry) {
  std::string stages = "no_workspace, scratch_size, nullptr, nullptr, {{query_tasks, run_query_block}}";
  int stage_count = 1;
  if (p.pipeline == Pipeline::decode) {
    stages =
        "decode_workspace, scratch_size, nullptr, nullptr, {{split_tasks, run_split}, {combine_tasks, run_combine}}";
    stage_count = 2;
  } else if (p.instruction == Instruction::amx_bf16) {
    stages =
        "packed_size, scratch_size, configure_tiles, release_tiles, {{pack_tasks, run_pack}, {query_tasks, "
        "run_query_block}}";
    stage_count = 2;
  }
  return fmt::format(
      "extern \"C\" __attribute__((visibility(\"default\"))) const TsCpuKernel {};\n"
      "const TsCpuKernel {} = {{TS_CPU_ABI_VERSION, {}, \"{}\", {{0x{:016x}ull, 0x{:016x}ull}}, {}}};\n",
      entry, entry, stage_count, p.name, p.key[0], p.key[1], stages);
}

}  // namespace

std::string_view to_string(CpuLevel level) {
  switch (level) {
    case CpuLevel::x86_64_v3:
      return "x86_64_v3";
    case CpuLevel::x86_64_v4:
      return "x86_64_v4";
    case CpuLevel::x86_64_v4_bf16:
      return "x86_64_v4_bf16";
    case CpuLevel::x86_64_amx:
      return "x86_64_amx";
  }
  return {};
}

std::vector<std::string> cpu_level_options(CpuLevel level) {
  std::vector<std::string> options = {level == CpuLevel::x86_64_v3 ? "-march=x86-64-v3" : "-march=x86-64-v4"};
  if (level >= CpuLevel::x86_64_v4) options.emplace_back("-mprefer-vector-width=512");
  if (level >= CpuLevel::x86_64_v4_bf16) options.emplace_back("-mavx512bf16");
  if (level >= CpuLevel::x86_64_amx) options.insert(options.end(), {"-mamx-tile", "-mamx-bf16"});
  return options;
}

Result<Source> cpu_attention_source(const CpuAttentionParameters& parameters) {
  TS_TRY(check(parameters));
  Source source;
  source.name = parameters.name;
  source.arch = to_string(parameters.level);
  source.entry_symbol = fmt::format("ts_kernel_{:016x}{:016x}", parameters.key[0], parameters.key[1]);
  source.options = {"-std=c++20",         "-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math",
                    "-fvisibility=hidden"};
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
  source.text += table(parameters, source.entry_symbol);
  return source;
}

}  // namespace tilesmith
