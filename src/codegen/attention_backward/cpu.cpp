#include "codegen/attention_backward/cpu.hpp"

#include <fmt/format.h>

#include <string_view>

namespace tilesmith {
namespace {

/// What the fragments are written for. The rules of instances/attention_backward/cpu.cpp refuse the rest before an
/// instance comes here, so a failure is a defect of a rule.
Status check_backward(const CpuAttentionBackwardParameters& p) {
  if (p.tile_m > 0 && p.tile_m % 4 == 0 && p.tile_n > 0 && p.tile_n % 32 == 0) return {};
  return fail(
      ErrorCode::internal,
      fmt::format("CPU attention-backward kernel '{}': tile_m is whole strips and tile_n whole pairs of vectors",
                  p.name));
}

}  // namespace

Result<Source> cpu_attention_backward_source(const CpuAttentionBackwardParameters& p) {
  TS_TRY(check_backward(p));
  CpuConstants constants;
  add_cpu_basics(constants, p.level, p.element, Instruction::fma_f32);
  constants.choice("Element", "kOutput", to_string(p.element));
  constants.integer("kTileM", p.tile_m);
  constants.integer("kTileN", p.tile_n);
  const bool wide = p.level >= CpuLevel::x86_64_v4;
  const std::string_view fragments[] = {wide ? "common/vector_avx512.h" : "common/vector_avx2.h",
                                        "common/vector.h",
                                        "common/math.h",
                                        wide ? "common/math_avx512.h" : "common/math_avx2.h",
                                        "common/functions.h",
                                        "attention/philox.h",
                                        "common/elements.h",
                                        "attention/rows.h",
                                        "attention_backward/generic.h"};
  const CpuTable table{
      .workspace = "workspace_size",
      .scratch = "scratch_size",
      .stages = {{"delta_tasks", "run_delta"}, {"gradient_tasks", "run_gradients"}, {"sum_tasks", "run_sums"}}};
  return cpu_source(p.name, p.key, p.level, constants, "attention_backward/abi.h", fragments, table);
}

}  // namespace tilesmith
