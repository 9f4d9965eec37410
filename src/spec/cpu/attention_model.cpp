#include "spec/cpu/attention_model.hpp"

#include "spec/fitted_terms.hpp"
#include "spec/json_reader.hpp"
#include "vocabulary/enum_table.hpp"

namespace tilesmith {

const CpuAttentionTerms* CpuAttentionModel::coefficients(Pipeline pipeline, DataType type) const {
  for (const Kernels& each : kernels)
    if (each.pipeline == pipeline && each.data_type == type) return &each.cycles;
  return nullptr;
}

Result<CpuAttentionModel> read_cpu_attention_model(const JsonReader& reader) {
  TS_TRY(reader.only({"command", "date", "pipelines"}));
  CpuAttentionModel model;
  TS_ASSIGN(model.command, reader.at("command").string());
  TS_ASSIGN(model.date, reader.at("date").string());
  TS_ASSIGN(const auto pipelines, reader.at("pipelines").members());
  for (const auto& [name, item] : pipelines) {
    const std::size_t end = name.rfind('_');
    if (end == std::string::npos) return item.refuse("coefficients of PIPELINE_TYPE, as flash_bf16");
    const auto pipeline = parse_enum<Pipeline>(name.substr(0, end));
    if (!pipeline) return std::unexpected(pipeline.error().in(item.place()));
    const auto type = parse_enum<DataType>(name.substr(end + 1));
    if (!type) return std::unexpected(type.error().in(item.place()));
    TS_ASSIGN(const CpuAttentionTerms cycles, read_fitted_terms(item, kCpuAttentionTerms));
    model.kernels.push_back({*pipeline, *type, cycles});
  }
  return model;
}

}  // namespace tilesmith
