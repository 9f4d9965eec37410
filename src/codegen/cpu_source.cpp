#include "codegen/cpu_source.hpp"

#include <fmt/format.h>

#include "codegen/flatten.hpp"

namespace tilesmith {
namespace {

Result<std::string> cpu_file(std::string_view name) {
  return flatten_includes(embedded_kernels(), fmt::format("cpu/{}", name));
}

std::string table_text(std::string_view name, const std::array<std::uint64_t, 2>& key, std::string_view entry,
                       const CpuTable& table) {
  std::string stages;
  for (const CpuStageNames& stage : table.stages)
    stages += fmt::format("{}{{{}, {}}}", stages.empty() ? "" : ", ", stage.tasks, stage.run);
  return fmt::format(
      "extern \"C\" __attribute__((visibility(\"default\"))) const TsCpuKernel {0};\n"
      "const TsCpuKernel {0} = {{TS_CPU_ABI_VERSION, {1}, \"{2}\", {{0x{3:016x}ull, 0x{4:016x}ull}}, {5}, {6}, {7}, "
      "{8}, {{{9}}}}};\n",
      entry, table.stages.size(), name, key[0], key[1], table.workspace, table.scratch, table.thread_begin,
      table.thread_end, stages);
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
  if (level >= CpuLevel::x86_64_v4_bf16) options.insert(options.end(), {"-mavx512bf16", "-mavx512vnni"});
  if (level >= CpuLevel::x86_64_amx) options.insert(options.end(), {"-mamx-tile", "-mamx-bf16", "-mamx-int8"});
  return options;
}

void CpuConstants::integer(std::string_view name, int value) {
  text_ += fmt::format("constexpr int {} = {};\n", name, value);
}

void CpuConstants::flag(std::string_view name, bool value) {
  text_ += fmt::format("constexpr bool {} = {};\n", name, value);
}

void CpuConstants::choice(std::string_view type, std::string_view name, std::string_view value) {
  text_ += fmt::format("constexpr {0} {1} = {0}::{2};\n", type, name, value);
}

void CpuConstants::line(std::string_view text) {
  text_ += text;
  text_ += '\n';
}

std::string_view fragment_name(Instruction instruction) {
  switch (instruction) {
    case Instruction::dpbf16:
      return "dpbf16";
    case Instruction::amx_bf16:
      return "amx_bf16";
    case Instruction::dot_int16:
      return "dot_int16";
    case Instruction::dot_int8:
      return "dot_int8";
    case Instruction::amx_int8:
      return "amx_int8";
    default:
      return "fma_f32";
  }
}

std::string_view product_fragment(Instruction instruction) {
  switch (instruction) {
    case Instruction::dpbf16:
      return "common/product_bf16.h";
    case Instruction::dot_int16:
      return "common/product_int16.h";
    case Instruction::dot_int8:
      return "common/product_int8.h";
    case Instruction::amx_bf16:
    case Instruction::amx_int8:
      return "common/product_amx.h";
    default:
      return "common/product_f32.h";
  }
}

void add_cpu_basics(CpuConstants& constants, CpuLevel level, ElementType element, Instruction instruction) {
  constants.line("enum class Element { fp32, bf16, fp16, int8, int32, fp8e4m3, fp8e5m2, int4 };");
  constants.line("enum class Instruction { fma_f32, dpbf16, amx_bf16, dot_int16, dot_int8, amx_int8 };");
  constants.choice("Element", "kElement", to_string(element));
  constants.choice("Instruction", "kInstruction", fragment_name(instruction));
  constants.flag("kConvertsBf16", level >= CpuLevel::x86_64_v4_bf16);
}

Result<Source> cpu_source(std::string_view name, const std::array<std::uint64_t, 2>& key, CpuLevel level,
                          const CpuConstants& constants, std::string_view arguments,
                          std::span<const std::string_view> fragments, const CpuTable& table) {
  Source source;
  source.name = name;
  source.arch = to_string(level);
  source.entry_symbol = fmt::format("ts_kernel_{:016x}{:016x}", key[0], key[1]);
  source.options = {"-std=c++20",         "-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math",
                    "-fvisibility=hidden"};
  for (std::string& option : cpu_level_options(level)) source.options.push_back(std::move(option));
  source.text = fmt::format("// {}\n{}", name, constants.text());
  for (const std::string_view file : {std::string_view("abi.h"), arguments}) {
    TS_ASSIGN(const std::string text, cpu_file(file));
    source.text += text;
  }
  source.text += "namespace {\n";
  for (const std::string_view file : fragments) {
    TS_ASSIGN(const std::string text, cpu_file(file));
    source.text += "\n" + text;
  }
  source.text += "}  // namespace\n\n";
  source.text += table_text(name, key, source.entry_symbol, table);
  return source;
}

}  // namespace tilesmith
