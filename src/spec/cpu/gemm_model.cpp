#include "spec/cpu/gemm_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "spec/fitted_terms.hpp"
#include "spec/json_reader.hpp"
#include "vocabulary/enum_table.hpp"

namespace tilesmith {
namespace {

/// The kernels that a name is of: PIPELINE, or PIPELINE_TYPE.
Result<CpuGemmModel::Kernels> kernels_named(std::string_view name, const JsonReader& reader) {
  for (const Pipeline pipeline : {Pipeline::blocked, Pipeline::skinny}) {
    const std::string_view usual = name_of(pipeline);
    if (name == usual) return CpuGemmModel::Kernels{pipeline, std::nullopt};
    if (!name.starts_with(fmt::format("{}_", usual))) continue;
    const auto type = parse_enum<DataType>(name.substr(usual.size() + 1));
    if (!type) return std::unexpected(type.error().in(reader.place()));
    return CpuGemmModel::Kernels{pipeline, *type};
  }
  return reader.refuse("coefficients of PIPELINE or PIPELINE_TYPE, as skinny_bf16");
}

}  // namespace

const CpuGemmTerms& CpuGemmModel::coefficients(Pipeline pipeline, DataType type) const {
  const auto likeness = [&](const Kernels& each) {
    return std::tuple(each.pipeline == pipeline, each.data_type == type, !each.data_type);
  };
  return std::ranges::max_element(kernels, {}, likeness)->cycles;
}

Result<CpuGemmModel> read_cpu_gemm_model(const JsonReader& reader) {
  return read_fitted_kernels<CpuGemmModel>(reader, kCpuGemmTerms, kernels_named);
}

}  // namespace tilesmith
