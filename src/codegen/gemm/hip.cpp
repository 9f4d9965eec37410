#include "codegen/gemm/hip.hpp"

#include "codegen/constants_table.hpp"
#include "codegen/gemm/gpu_words.hpp"
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
  table.add("kLanes", spec.lanes_per_wave);
  table.add("kOperand", static_cast<int>(fragment->operand));
  table.add("kOperandWords", fragment->operand_words);
  table.add("kFragment", fragment->side);
  table.add("kGroupsK", fragment->groups_k);
  table.add("kRunOfResults", fragment->run_of_results);
  table.add("kIntegers", fragment->accumulator == DataType::int32);

  TS_ASSIGN(const std::string text, flatten_includes(files, "hip/gemm/gemm.h"));
  Source source;
  source.name = native_name(config);
  source.entry_symbol = source.name;
  source.language = Language::hip;
  source.arch = std::string(config.arch.text());
  source.options = {"-std=c++20", "-O3"};
  source.text = table.text() +
                fmt::format("#define TS_ENTRY {}\n#define TS_MATRIX_BUILTIN __builtin_amdgcn_{}\n\n",
                            source.entry_symbol, fragment->builtin) +
                text;
  return source;
}

}  // namespace tilesmith
