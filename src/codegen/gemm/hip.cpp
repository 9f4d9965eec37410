#include "codegen/gemm/hip.hpp"

#include <fmt/format.h>

#include "codegen/gemm/gpu_words.hpp"
#include "codegen/hip_source.hpp"
#include "instances/gemm/hip_resources.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {

Result<Source> hip_gemm_source(const KernelConfig& config, const HipSpec& spec, std::span<const EmbeddedFile> files) {
  const auto& s = std::get<GemmSignature>(config.signature);
  const Algorithm& a = config.algorithm;
  const HipFragment* fragment = spec.fragment(s.a, a.warp[0]);
  if (fragment == nullptr)
    return fail(ErrorCode::internal, fmt::format("{} has no instruction on {}", native_name(config), spec.arch.text()));
  const HipGemmResources resources = hip_gemm_resources(config, spec, *fragment);

  ConstantsTable table;
  TS_ASSIGN(const int type, gemm_type_number(s.a));
  TS_ASSIGN(const int type_d, gemm_type_number(s.c));
  table.add("kTypeA", type);
  table.add("kTypeD", type_d);
  table.add("kRowMajorA", s.layout_a == MatrixOrder::row);
  table.add("kRowMajorB", s.layout_b == MatrixOrder::row);
  TS_TRY(add_gemm_epilogue(table, s.epilogue_ops, s.aux, s.bias));
  table.add("kTileM", a.tile[0]);
  table.add("kTileN", a.tile[1]);
  table.add("kTileK", a.tile[2]);
  table.add("kWavesM", a.wave[0]);
  table.add("kWavesN", a.wave[1]);
  table.add("kStages", a.stages);
  table.add("kWavesOfSimd", resources.waves_per_simd);
  table.add("kAligned", resources.aligned);
  table.add("kWide", resources.wide);
  add_hip_fragment(table, spec, *fragment);
  return hip_source(config, table, *fragment, files, "hip/gemm/gemm.h");
}

}  // namespace tilesmith
