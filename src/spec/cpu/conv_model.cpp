#include "spec/cpu/conv_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "spec/fitted_terms.hpp"
#include "spec/json_reader.hpp"
#include "vocabulary/enum_table.hpp"

namespace tilesmith {
namespace {

/// The kernels that a name is of: PIPELINE_DIRECTION, or PIPELINE_DIRECTION_TYPE.
Result<CpuConvModel::Kernels> kernels_named(std::string_view name, const JsonReader& reader) {
  for (const Pipeline pipeline : {Pipeline::blocked, Pipeline::depthwise, Pipeline::direct})
    for (const ConvDirection direction :
         {ConvDirection::forward, ConvDirection::backward_data, ConvDirection::backward_weight}) {
      const std::string usual = fmt::format("{}_{}", name_of(pipeline), name_of(direction));
      if (name == usual) return CpuConvModel::Kernels{pipeline, direction, std::nullopt};
      if (!name.starts_with(usual + "_")) continue;
      const auto type = parse_enum<DataType>(name.substr(usual.size() + 1));
      if (!type) return std::unexpected(type.error().in(reader.place()));
      return CpuConvModel::Kernels{pipeline, direction, *type};
    }
  return reader.refuse("coefficients of PIPELINE_DIRECTION or PIPELINE_DIRECTION_TYPE, as blocked_fwd_bf16");
}

}  // namespace

const CpuConvTerms& CpuConvModel::coefficients(Pipeline pipeline, ConvDirection direction, DataType type) const {
  const auto likeness = [&](const Kernels& each) {
    return std::tuple(each.direction == direction, each.pipeline == pipeline, each.data_type == type, !each.data_type);
  };
  return std::ranges::max_element(kernels, {}, likeness)->cycles;
}

Result<CpuConvModel> read_cpu_conv_model(const JsonReader& reader) {
  return read_fitted_kernels<CpuConvModel>(reader, kCpuConvTerms, kernels_named);
}

}  // namespace tilesmith
