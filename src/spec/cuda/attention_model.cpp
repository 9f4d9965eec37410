#include "spec/cuda/attention_model.hpp"

#include <algorithm>

#include "spec/fitted_terms.hpp"
#include "spec/json_reader.hpp"
#include "vocabulary/enum_table.hpp"

namespace tilesmith {

namespace {

template <typename T>
const T* of_pipeline(const std::vector<std::pair<Pipeline, T>>& figures, Pipeline pipeline) {
  const auto found = std::ranges::find(figures, pipeline, &std::pair<Pipeline, T>::first);
  return found == figures.end() ? nullptr : &found->second;
}

}  // namespace

const CudaAttentionTerms* CudaAttentionModel::coefficients(Pipeline pipeline) const {
  return of_pipeline(pipelines, pipeline);
}

const CudaScorePicoseconds* CudaAttentionModel::score_picoseconds(Pipeline pipeline) const {
  return of_pipeline(scores, pipeline);
}

double CudaAttentionModel::narrow_keys_times(int head_dim) const {
  if (narrow_keys.empty()) return 1;
  const auto found = std::ranges::lower_bound(narrow_keys, head_dim, {}, &NarrowKeys::head_dim);
  return (found == narrow_keys.end() ? narrow_keys.back() : *found).times;
}

Result<CudaAttentionModel> read_cuda_attention_model(const JsonReader& reader) {
  TS_TRY(reader.only({"command", "date", "data_types", "first_choice_share", "narrow_keys", "dealt_uneven_times",
                      "idle_rows", "uneven_end", "missing_block", "straddling_box_ns", "rest_box_ns", "cut_box_ns",
                      "element_ns", "element_wait_ns", "pipelines", "score_ps"}));
  CudaAttentionModel model;
  TS_ASSIGN(model.command, reader.at("command").string());
  TS_ASSIGN(model.date, reader.at("date").string());
  TS_ASSIGN(const auto types, reader.at("data_types").elements());
  for (const JsonReader& item : types) {
    TS_ASSIGN(const DataType type, item.enumerator<DataType>());
    model.data_types.push_back(type);
  }
  TS_ASSIGN(model.first_choice_share, reader.at("first_choice_share").number());
  if (!(model.first_choice_share > 0) || model.first_choice_share > 1)
    return reader.at("first_choice_share").refuse("a share above 0, at most 1");
  if (reader.has("narrow_keys")) {
    TS_ASSIGN(const auto figures, reader.at("narrow_keys").elements());
    for (const JsonReader& item : figures) {
      TS_TRY(item.only({"head_dim", "times"}));
      const int before = model.narrow_keys.empty() ? 0 : model.narrow_keys.back().head_dim;
      TS_ASSIGN(const int head_dim, item.at("head_dim").integer<int>(before + 1, 1024));
      TS_ASSIGN(const double times, item.at("times").number());
      if (!(times >= 1)) return item.at("times").refuse("1 or more times");
      model.narrow_keys.push_back({head_dim, times});
    }
  }
  if (reader.has("dealt_uneven_times")) {
    TS_ASSIGN(model.dealt_uneven_times, reader.at("dealt_uneven_times").number());
    if (!(model.dealt_uneven_times >= 1)) return reader.at("dealt_uneven_times").refuse("1 or more times");
  }
  for (const auto& [name, share] :
       {std::pair{"idle_rows", &model.idle_rows}, std::pair{"uneven_end", &model.uneven_end},
        std::pair{"missing_block", &model.missing_block}}) {
    if (!reader.has(name)) continue;
    TS_ASSIGN(*share, reader.at(name).number());
    if (!(*share >= 0) || *share > 1) return reader.at(name).refuse("a share, 0 to 1");
  }
  for (const auto& [name, figure] :
       {std::pair{"straddling_box_ns", &model.straddling_box_ns}, std::pair{"rest_box_ns", &model.rest_box_ns},
        std::pair{"cut_box_ns", &model.cut_box_ns}, std::pair{"element_ns", &model.element_ns},
        std::pair{"element_wait_ns", &model.element_wait_ns}}) {
    if (!reader.has(name)) continue;
    TS_ASSIGN(*figure, reader.at(name).number());
    if (!(*figure > 0)) return reader.at(name).refuse("nanoseconds, above 0");
  }
  TS_ASSIGN(const auto pipelines, reader.at("pipelines").members());
  for (const auto& [name, item] : pipelines) {
    auto pipeline = parse_enum<Pipeline>(name);
    if (!pipeline) return std::unexpected(pipeline.error().in(item.place()));
    TS_ASSIGN(const CudaAttentionTerms terms, read_fitted_terms(item, kCudaAttentionTerms));
    model.pipelines.emplace_back(*pipeline, terms);
  }
  if (reader.has("score_ps")) {
    TS_ASSIGN(const auto scores, reader.at("score_ps").members());
    for (const auto& [name, item] : scores) {
      auto pipeline = parse_enum<Pipeline>(name);
      if (!pipeline) return std::unexpected(pipeline.error().in(item.place()));
      TS_TRY(item.only({"dropout", "alibi", "copied_bias", "loaded_bias"}));
      CudaScorePicoseconds figures;
      for (const auto& [trait, figure] :
           {std::pair{"dropout", &figures.dropout}, std::pair{"alibi", &figures.alibi},
            std::pair{"copied_bias", &figures.copied_bias}, std::pair{"loaded_bias", &figures.loaded_bias}}) {
        if (!item.has(trait)) continue;
        TS_ASSIGN(*figure, item.at(trait).number());
        if (!(*figure > 0)) return item.at(trait).refuse("picoseconds, above 0");
      }
      model.scores.emplace_back(*pipeline, figures);
    }
  }
  return model;
}

}  // namespace tilesmith
