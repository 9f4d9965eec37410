#include "codegen/gemm/cpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace tilesmith {
namespace {

constexpr int kMaxExtras = 4;  // TS_GEMM_MAX_EXTRAS

bool uses_tiles(Instruction instruction) {
  return instruction == Instruction::amx_bf16 || instruction == Instruction::amx_int8;
}

/// Elements of k in a 32-bit word.
int pack_of(Instruction instruction) {
  switch (instruction) {
    case Instruction::dpbf16:
    case Instruction::amx_bf16:
    case Instruction::dot_int16:
      return 2;
    case Instruction::dot_int8:
    case Instruction::amx_int8:
      return 4;
    default:
      return 1;
  }
}

bool is_float(ElementType type) {
  return type == ElementType::fp32 || type == ElementType::bf16 || type == ElementType::fp16;
}

bool is_fp8(ElementType type) {
  return type == ElementType::fp8e4m3 || type == ElementType::fp8e5m2;
}

/// Whether an instruction multiplies elements of a type.
bool multiplies(Instruction instruction, ElementType element) {
  switch (instruction) {
    case Instruction::fma_f32:
      return is_float(element) || is_fp8(element);
    case Instruction::dpbf16:
    case Instruction::amx_bf16:
      return element == ElementType::bf16;
    case Instruction::dot_int16:
    case Instruction::dot_int8:
    case Instruction::amx_int8:
      return element == ElementType::int8;
    default:
      return false;
  }
}

CpuLevel lowest_level(Instruction instruction) {
  if (uses_tiles(instruction)) return CpuLevel::x86_64_amx;
  return instruction == Instruction::dpbf16 || instruction == Instruction::dot_int8 ? CpuLevel::x86_64_v4_bf16
                                                                                    : CpuLevel::x86_64_v3;
}

bool scales_fit(const CpuGemmParameters& p) {
  const bool weights = p.scales == CpuGemmScales::int8_weights || p.scales == CpuGemmScales::int4_weights;
  if (p.zero_points && !weights) return false;
  if (p.element_b && !(is_fp8(p.element) && is_fp8(*p.element_b))) return false;
  if (p.scales == CpuGemmScales::none) return true;
  if (p.order_a != MatrixOrder::row || p.order_b != MatrixOrder::column) return false;
  if (p.scales == CpuGemmScales::blocks) return is_fp8(p.element) && p.scale_type == ElementType::fp32;
  return (p.element == ElementType::bf16 || p.element == ElementType::fp16) && is_float(p.scale_type);
}

/// What the fragments are written for. The rules of instances/gemm/cpu.cpp refuse the rest before an instance comes
/// here, so a failure is a defect of a rule or of a level's facts.
Status check(const CpuGemmParameters& p) {
  const auto refuse = [&](std::string what, std::string hint) {
    return fail(ErrorCode::internal,
                fmt::format("CPU GEMM kernel '{}' breaks the templates' invariants: {}", p.name, what),
                std::move(hint));
  };
  if (p.form == CpuGemmForm::generic && p.instruction != Instruction::fma_f32)
    return refuse(fmt::format("{} in a generic kernel", name_of(p.instruction)), "fma");
  if (p.form == CpuGemmForm::generic) return {};  // the template asserts what it needs of the tile
  if (!multiplies(p.instruction, p.element)) {
    return refuse(
        fmt::format("{} products of {} matrices", name_of(p.instruction), to_string(p.element)),
        "fma for fp32, bf16, fp16 and 8-bit floats; dpbf16 or amxbf16 for bf16; int16dot, vnni or amxint8 for int8");
  }
  if (p.level < lowest_level(p.instruction)) {
    return refuse(fmt::format("{} at level {}", name_of(p.instruction), to_string(p.level)),
                  fmt::format("level {} or higher", to_string(lowest_level(p.instruction))));
  }
  if (!scales_fit(p))
    return refuse("scales or a type of B that do not go with A",
                  "along k: blocks of 8-bit floats, or integer weights of bf16 and fp16");
  const bool whole = p.output == ElementType::int32;
  if (!is_float(p.output) && (p.element != ElementType::int8 || (!whole && p.output != ElementType::int8))) {
    return refuse(fmt::format("{} output of {} matrices", to_string(p.output), to_string(p.element)),
                  "fp32, bf16 or fp16; of int8 matrices also int32 or int8");
  }
  if (whole != (p.aux == ElementType::int32)) {
    return refuse(fmt::format("C and extras of type {} with {} output", to_string(p.aux), to_string(p.output)),
                  "int32 exactly where the output is int32");
  }
  if (!whole && !is_float(p.aux) && p.aux != ElementType::int8)
    return refuse(fmt::format("C and extras of type {}", to_string(p.aux)), "fp32, bf16, fp16 or int8");
  if (!is_float(p.bias_type))
    return refuse(fmt::format("a bias of type {}", to_string(p.bias_type)), "fp32, bf16 or fp16");
  const bool epilogue = p.bias != GemmBias::none || p.activation != GemmActivation::none || p.gated || p.row_scale ||
                        p.column_scale || p.extras > 0 || p.clamp || p.amax;
  if (whole && epilogue) return refuse("an epilogue on int32 output", "a floating or int8 output");
  if (p.extras < 0 || p.extras > kMaxExtras)
    return refuse(fmt::format("{} extras", p.extras), fmt::format("0 to {}", kMaxExtras));
  if (p.mm_plus_mm && (p.packed_b || p.form == CpuGemmForm::pack_b || p.scales != CpuGemmScales::none))
    return refuse("mm_plus_mm beside packed B or scales", "either of them alone");
  if (p.form == CpuGemmForm::pack_b && (p.packed_b || p.split_k || epilogue))
    return refuse("a GEMM's trait on a kernel that packs B", "none of packed_b, split_k and the epilogue's terms");
  if (p.form == CpuGemmForm::skinny && (uses_tiles(p.instruction) || p.packed_b))
    return refuse("tiles or packed B in a skinny kernel", "a vector instruction and B as it lies");
  const CpuGemmTile tile = cpu_gemm_tile(p.level, p.instruction);
  const auto multiple = [&](std::string_view name, int value, int step, int most) -> Status {
    if (value >= step && value <= most && value % step == 0) return {};
    return refuse(fmt::format("{} {}", name, value), fmt::format("a multiple of {} up to {}", step, most));
  };
  TS_TRY(multiple("tile_m", p.tile_m, tile.rows, 1024));
  TS_TRY(multiple("tile_n", p.tile_n, tile.columns, 4096));
  return multiple("tile_k", p.tile_k, tile.depth, 8192);
}

std::string_view activation_name(GemmActivation activation) {
  constexpr std::string_view kNames[] = {"none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh"};
  return kNames[static_cast<std::size_t>(activation)];
}

std::string_view form_name(CpuGemmForm form) {
  constexpr std::string_view kNames[] = {"blocked", "skinny", "pack_b", "generic"};
  return kNames[static_cast<std::size_t>(form)];
}

std::string_view bias_name(GemmBias bias) {
  constexpr std::string_view kNames[] = {"none", "along_n", "along_m"};
  return kNames[static_cast<std::size_t>(bias)];
}

std::string_view scales_name(CpuGemmScales scales) {
  constexpr std::string_view kNames[] = {"none", "blocks", "int8_weights", "int4_weights"};
  return kNames[static_cast<std::size_t>(scales)];
}

std::string_view element_of_b(const CpuGemmParameters& p) {
  if (p.scales == CpuGemmScales::int8_weights) return "int8";
  if (p.scales == CpuGemmScales::int4_weights) return "int4";
  return to_string(p.element_b.value_or(p.element));
}

CpuConstants constants_of(const CpuGemmParameters& p) {
  CpuConstants constants;
  add_cpu_basics(constants, p.level, p.element, p.instruction);
  constexpr std::string_view kActivations =
      "enum class Activation { none, relu, gelu, gelu_tanh, silu, sigmoid, tanh };";
  if (p.form == CpuGemmForm::generic) {
    constants.line(kActivations);
    constants.integer("kTileM", p.tile_m);
    constants.integer("kTileN", p.tile_n);
    constants.integer("kTileK", p.tile_k);
    return constants;
  }
  constants.line("enum class Bias { none, along_n, along_m };");
  constants.line(kActivations);
  constants.line("enum class Form { blocked, skinny, pack_b };");
  constants.line("enum class Scales { none, blocks, int8_weights, int4_weights };");
  constants.choice("Form", "kForm", form_name(p.form));
  constants.choice("Element", "kElementB", element_of_b(p));
  constants.choice("Scales", "kScales", scales_name(p.scales));
  constants.choice("Element", "kScaleType", to_string(p.scale_type));
  constants.flag("kZeroPoints", p.zero_points);
  constants.choice("Element", "kOutput", to_string(p.output));
  constants.choice("Element", "kAuxType", to_string(p.aux));
  constants.choice("Element", "kBiasType", to_string(p.bias_type));
  constants.choice("Bias", "kBias", bias_name(p.bias));
  constants.choice("Activation", "kActivation", activation_name(p.activation));
  constants.flag("kRowA", p.order_a == MatrixOrder::row);
  constants.flag("kRowB", p.order_b == MatrixOrder::row);
  constants.integer("kTileM", p.tile_m);
  constants.integer("kTileN", p.tile_n);
  constants.integer("kTileK", p.tile_k);
  constants.integer("kExtras", p.extras);
  constants.flag("kExtrasMultiply", p.extras_multiply);
  constants.flag("kSplitK", p.split_k);
  constants.flag("kPackedB", p.packed_b);
  constants.flag("kMmPlusMm", p.mm_plus_mm);
  constants.flag("kGated", p.gated);
  constants.flag("kRowScale", p.row_scale);
  constants.flag("kColumnScale", p.column_scale);
  constants.flag("kClamp", p.clamp);
  constants.flag("kAmax", p.amax);
  return constants;
}

std::vector<std::string_view> fragments(const CpuGemmParameters& p) {
  const bool wide = p.level >= CpuLevel::x86_64_v4;
  if (p.form == CpuGemmForm::generic)
    return {wide ? "common/vector_avx512.h" : "common/vector_avx2.h",
            "common/vector.h",
            "common/elements.h",
            "common/math.h",
            wide ? "common/math_avx512.h" : "common/math_avx2.h",
            "common/functions.h",
            "gemm/activations.h",
            "gemm/lines.h",
            "gemm/generic.h"};
  std::vector<std::string_view> names = {wide ? "common/vector_avx512.h" : "common/vector_avx2.h",
                                         "common/vector.h",
                                         "common/elements.h",
                                         "gemm/words.h",
                                         "gemm/scales.h",
                                         "gemm/shape.h",
                                         product_fragment(p.instruction)};
  if (p.form == CpuGemmForm::pack_b) {
    names.insert(names.end(), {"gemm/pack_b.h", "gemm/pack_kernel.h"});
    return names;
  }
  if (p.form == CpuGemmForm::blocked) names.emplace_back("gemm/pack_b.h");
  names.emplace_back("gemm/pack_a.h");
  names.insert(names.end(), {"common/math.h", wide ? "common/math_avx512.h" : "common/math_avx2.h",
                             "common/functions.h", "gemm/activations.h", "gemm/epilogue.h"});
  names.emplace_back("gemm/split.h");
  if (p.form == CpuGemmForm::skinny) {
    names.insert(names.end(), {"common/product_vector.h", "gemm/skinny.h"});
  } else if (uses_tiles(p.instruction)) {
    names.insert(names.end(), {"gemm/tile_amx.h", "gemm/gemm.h"});
  } else {
    names.insert(names.end(), {"common/product_vector.h", "gemm/tile_vector.h", "gemm/gemm.h"});
  }
  return names;
}

CpuTable table_of(const CpuGemmParameters& p) {
  if (p.form == CpuGemmForm::generic)
    return {.workspace = "no_workspace", .scratch = "scratch_size", .stages = {{"tile_tasks", "run_tile"}}};
  CpuTable table = {.workspace = "workspace_size", .scratch = "scratch_size"};
  if (p.form == CpuGemmForm::pack_b) {
    table.stages = {{"pack_b_tasks", "run_pack_b"}};
    return table;
  }
  if (uses_tiles(p.instruction)) {
    table.thread_begin = "configure_tiles";
    table.thread_end = "release_tiles";
  }
  if (p.form == CpuGemmForm::skinny) {
    table.stages = {{"pack_a_tasks", "run_pack_a"}};
  } else if (!p.packed_b) {
    table.stages = {{"pack_b_tasks", "run_pack_b"}};
  }
  table.stages.push_back({"multiply_tasks", "run_multiply"});
  if (p.split_k) table.stages.push_back({"reduce_tasks", "run_reduce"});
  return table;
}

}  // namespace

CpuGemmTile cpu_gemm_tile(CpuLevel level, Instruction instruction) {
  const int pack = pack_of(instruction);
  if (uses_tiles(instruction)) return {32, 32, 16 * pack};
  const int lanes = cpu_lanes(level);
  return {lanes == 16 ? 8 : 4, 3 * lanes, lanes * pack};
}

CpuGemmBlocking cpu_gemm_blocking(CpuLevel level, CpuGemmForm form, Instruction instruction, long l1d_bytes,
                                  long l2_bytes) {
  const CpuGemmTile tile = cpu_gemm_tile(level, instruction);
  const auto down = [](long value, long step, long most) {
    return static_cast<int>(std::max(step, std::min(value, most) / step * step));
  };
  // Sums are visited once in a block of k, so it is deep. Pairs and fours use up A so fast that a register tile's rows
  // of it had better take no more than half of the first-level cache.
  const bool tiles = uses_tiles(instruction);
  const long words = tiles || pack_of(instruction) == 1 ? 1024 : down(l1d_bytes / 2 / (4 * tile.rows), 128, 512);
  CpuGemmBlocking blocking{};
  blocking.tile_k = static_cast<int>(words) * pack_of(instruction);
  // A task's rows of A take two fifths of the second-level cache and 384 KiB at most; of tiles half of it.
  const long rows_of_a = (tiles ? l2_bytes / 2 : std::min(l2_bytes * 2 / 5, 384l << 10)) / (4 * words);
  blocking.tile_m = down(rows_of_a, tile.rows, 256);
  if (form == CpuGemmForm::skinny) blocking.tile_m = down(16, tile.rows, 16);
  // Every column of tasks packs A again. The sums, which grow with the columns, are visited once in a block of k; when
  // there is only one block they are not kept and a task may be twice as wide.
  blocking.tile_n = (form == CpuGemmForm::skinny ? 10 : tiles ? 33 : 22) * tile.columns;
  return blocking;
}

Result<Source> cpu_gemm_source(const CpuGemmParameters& parameters) {
  TS_TRY(check(parameters));
  return cpu_source(parameters.name, parameters.key, parameters.level, constants_of(parameters),
                    parameters.form == CpuGemmForm::generic ? "gemm/generic_abi.h" : "gemm/abi.h",
                    fragments(parameters), table_of(parameters));
}

}  // namespace tilesmith
