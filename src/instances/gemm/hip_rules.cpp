// What the template of kernels/hip/gemm carries, and what a chip holds.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "instances/gemm/family.hpp"
#include "instances/gemm/hip.hpp"

namespace tilesmith {
namespace {

using HipSubject = HipGemmSubject;

constexpr int kMostThreads = 1024;
// Beside 256 sums clang 22 spills 64 registers of a 256 x 256 x 32 tile with four waves on gfx942, 153 on gfx950.
constexpr int kMostSums = 192;

bool is_result(DataType type) {
  return type == DataType::fp32 || type == DataType::fp16 || type == DataType::bf16;
}

bool hip_types_fit(const HipSubject& s) {
  const GemmSignature& g = s.signature();
  const bool integers = g.a == DataType::int8;
  if (g.a != g.b || g.accumulator != (integers ? DataType::int32 : DataType::fp32)) return false;
  if (g.c == DataType::int32) return integers && g.epilogue_ops.empty() && g.aux == DataType::int32;
  return is_result(g.c) && is_result(g.aux) && is_result(g.bias);
}

bool hip_epilogue_is_carried(const HipSubject& s) {
  const GemmEpilogue& epilogue = s.signature().epilogue_ops;
  int gates = 0;
  for (std::size_t i = 0; i < epilogue.size(); ++i) {
    if (epilogue[i] == EpilogueOp::amax && i + 1 < epilogue.size()) return false;
    gates += is_gate(epilogue[i]);
  }
  return gates <= 1;
}

bool instruction_is_there(const HipSubject& s) {
  const Algorithm& a = s.algorithm();
  const HipFragment* fragment = s.fragment();
  return a.pipeline == Pipeline::lds && a.instruction == s.spec.matrix_unit && fragment != nullptr &&
         fragment->accumulator == s.signature().accumulator && a.warp[1] == fragment->side && a.warp[2] == fragment->k;
}

bool hip_fields_belong(const HipSubject& s) {
  Algorithm rest = s.algorithm();
  const auto beyond = [](const auto& figures, std::size_t used) {
    return std::ranges::any_of(std::span(figures).subspan(used), [](int value) { return value != 0; });
  };
  if (beyond(rest.tile, 3) || beyond(rest.wave, 2) || beyond(rest.warp, 3)) return false;
  if (rest.stages < 1 || rest.stages > 2 || rest.block_per_cu < 1) return false;
  rest.tile = rest.wave = rest.warp = {};
  rest.stages = 0;
  rest.block_per_cu = -1;
  rest.vector = {};
  return rest == Algorithm{.pipeline = rest.pipeline, .instruction = rest.instruction};
}

/// A block's tile is dealt out in whole fragments to waves, and in chunks of 16 bytes to threads.
bool hip_tile_is_whole(const HipSubject& s) {
  const HipFragment* fragment = s.fragment();
  const auto& [m, n, k, t3, t4, t5, t6, t7, t8] = s.algorithm().tile;
  const int waves_m = s.algorithm().wave[0], waves_n = s.algorithm().wave[1];
  if (fragment == nullptr || m == 0 || n == 0 || k == 0 || waves_m == 0 || waves_n == 0) return false;
  const int threads = waves_m * waves_n * s.spec.lanes_per_wave;
  if (threads > kMostThreads || m % (waves_m * fragment->side) != 0 || n % (waves_n * fragment->side) != 0)
    return false;
  const int bytes = std::max(bits_of(s.signature().a) / 8, 1), chunk = 16 / bytes;
  // What a lane reads of a row at a time: 16 bytes, or an operand that is longer.
  const int step = fragment->groups_k * std::max(16, 4 * fragment->operand_words) / bytes;
  if (k % step != 0) return false;
  return m % chunk == 0 && n % chunk == 0;
}

bool hip_accesses_are_carried(const HipSubject& s) {
  const std::vector<HipGemmWidths> widths = hip_gemm_widths(s.signature());
  return std::ranges::find(widths, s.algorithm().vector) != widths.end();
}

HipGemmResources resources_of(const HipSubject& s) {
  return hip_tile_is_whole(s) ? hip_gemm_resources(s.config, s.spec, *s.fragment()) : HipGemmResources{};
}

constexpr Rule<HipSubject> kHipGemmRules[] = {
    {"family_is_carried", "the AMD template computes one dense product with a row-major result",
     [](const HipSubject& s) {
       const GemmSignature& g = s.signature();
       return is_plain_gemm(g) && g.grouping == GemmGrouping::none && !g.mm_plus_mm;
     },
     [](const HipSubject& s) {
       const GemmSignature& g = s.signature();
       return fmt::format("family {}, grouping {}, mm_plus_mm {}", name_of(g.family), name_of(g.grouping),
                          g.mm_plus_mm);
     }},
    {"types_fit",
     "A and B have one type, sums are fp32 (of int8 int32); results are floats of 16 or 32 bits, or int32 as they are",
     hip_types_fit,
     [](const HipSubject& s) {
       const GemmSignature& g = s.signature();
       return fmt::format("A {}, B {}, sums {}, D {}, aux {}, bias {}", name_of(g.a), name_of(g.b),
                          name_of(g.accumulator), name_of(g.c), name_of(g.aux), name_of(g.bias));
     }},
    {"scales_are_of_tensors", "the template scales whole matrices, not blocks of k or weights",
     [](const HipSubject& s) {
       return scales_fit(s.signature()) && !has_block_scales(s.signature()) && !has_weights(s.signature());
     },
     [](const HipSubject& s) { return fmt::format("qscale {}", name_of(s.signature().qscale)); }},
    {"epilogue_is_carried", "the template has one gate at most, and amax comes last", hip_epilogue_is_carried,
     [](const HipSubject& s) {
       std::vector<std::string_view> names;
       for (const EpilogueOp op : s.signature().epilogue_ops) names.push_back(name_of(op));
       return fmt::format("epilogue [{}]", fmt::join(names, ", "));
     }},
    {"instruction_is_there", "the chip's facts have a matrix instruction for the type with this fragment",
     instruction_is_there,
     [](const HipSubject& s) {
       const auto& warp = s.algorithm().warp;
       return fmt::format("{}, {} x {} x {} of {}, on a chip with {}", name_of(s.algorithm().instruction), warp[0],
                          warp[1], warp[2], name_of(s.signature().a), name_of(s.spec.matrix_unit));
     }},
    {"fields_belong", "no field of other templates is set; 1 or 2 stages, blocks from 1", hip_fields_belong,
     [](const HipSubject& s) {
       return fmt::format("stages {}, blocks {}", s.algorithm().stages, s.algorithm().block_per_cu);
     }},
    {"tile_is_whole",
     "waves have whole fragments, sides are whole chunks of 16 bytes, k is whole steps; at most 1024 threads",
     hip_tile_is_whole,
     [](const HipSubject& s) {
       const Algorithm& a = s.algorithm();
       return fmt::format("tile {} x {} x {}, waves {} x {}", a.tile[0], a.tile[1], a.tile[2], a.wave[0], a.wave[1]);
     }},
    {"accesses_are_carried", "A and B are read 16 bytes at a time or by elements, D by runs of four or by elements",
     hip_accesses_are_carried,
     [](const HipSubject& s) {
       const auto& vector = s.algorithm().vector;
       return fmt::format("vector {} {} {}", vector[0], vector[1], vector[2]);
     }},
    {"lds_fits", "the stages of the blocks that share a compute unit fit into its local memory",
     [](const HipSubject& s) {
       const HipGemmResources r = resources_of(s);
       return r.blocks_per_cu * r.lds_bytes <= s.spec.lds_bytes;
     },
     [](const HipSubject& s) {
       const HipGemmResources r = resources_of(s);
       return fmt::format("{} bytes for each of {} blocks, of {}", r.lds_bytes, r.blocks_per_cu, s.spec.lds_bytes);
     }},
    {"registers_fit", "sums, fragments and what is on its way fit into a lane's registers without a spill",
     [](const HipSubject& s) {
       const HipGemmResources r = resources_of(s);
       return r.registers <= r.registers_allowed && r.accumulators <= kMostSums;
     },
     [](const HipSubject& s) {
       const HipGemmResources r = resources_of(s);
       return fmt::format("{} of {} registers, {} of them sums", r.registers, r.registers_allowed, r.accumulators);
     }},
};

}  // namespace

std::span<const Rule<HipGemmSubject>> hip_gemm_rules() {
  return kHipGemmRules;
}

}  // namespace tilesmith
