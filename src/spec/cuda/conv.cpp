#include "spec/cuda/conv.hpp"

#include <algorithm>

#include "spec/cuda/figures.hpp"

namespace tilesmith {
namespace {

Status read_join(const JsonReader& reader, CudaConvJoin& join, bool hopper) {
  const std::initializer_list<SpecFigure> everywhere = {
      {"runs_us", &join.runs_us},
      {"runs_bytes_per_second", &join.runs_bytes_per_second},
      {"depthwise_us", &join.depthwise_us},
      {"depthwise_bytes_per_second", &join.depthwise_bytes_per_second}};
  if (!hopper) return read_figures(reader, everywhere);
  TS_TRY(read_figures(reader,
                      {{"cluster_us", &join.cluster_us},
                       {"clusters_us", &join.clusters_us},
                       {"strips_us", &join.strips_us},
                       {"bands_us", &join.bands_us},
                       {"split_us", &join.split_us},
                       {"split_bytes_per_second", &join.split_bytes_per_second},
                       {"stream_k_us", &join.stream_k_us}},
                      {"runs_us", "runs_bytes_per_second", "depthwise_us", "depthwise_bytes_per_second"}));
  for (const SpecFigure& each : everywhere) TS_TRY(read_figure(reader, each));
  return {};
}

}  // namespace

const CudaGemmPipeline* CudaConvSpec::pipeline(Pipeline pipeline) const {
  const auto found = std::ranges::find(pipelines, pipeline, &CudaGemmPipeline::pipeline);
  return found == pipelines.end() ? nullptr : &*found;
}

Result<CudaConvSpec> read_cuda_conv(const JsonReader& reader) {
  CudaConvSpec spec;
  TS_ASSIGN(spec.pipelines, read_cuda_pipelines(reader.at("pipelines")));
  const bool hopper = spec.pipeline(Pipeline::warp_specialized) != nullptr;
  if (hopper) {
    TS_TRY(read_figures(reader,
                        {{"box_us", &spec.box_us},
                         {"halo_filters_us", &spec.halo_filters_us},
                         {"cache_bytes_per_second", &spec.cache_bytes_per_second}},
                        {"models", "join", "rows", "epilogues", "pipelines"}));
    TS_TRY(read_figures(reader.at("rows"), {{"ns", &spec.rows.ns},
                                            {"filter_ns", &spec.rows.filter_ns},
                                            {"straddle_ns", &spec.rows.straddle_ns},
                                            {"data_straddle_ns", &spec.rows.data_straddle_ns},
                                            {"filter_straddle_ns", &spec.rows.filter_straddle_ns},
                                            {"shared_ns", &spec.rows.shared_ns},
                                            {"enough_sms", &spec.rows.enough_sms},
                                            {"cut", &spec.rows.cut}}));
  } else {
    TS_TRY(reader.only({"models", "join", "epilogues", "pipelines"}));
  }
  TS_TRY(read_join(reader.at("join"), spec.join, hopper));
  TS_ASSIGN(spec.models, read_cuda_conv_models(reader.at("models"), hopper));
  TS_ASSIGN(spec.epilogues, read_cuda_epilogues(reader.at("epilogues")));
  return spec;
}

}  // namespace tilesmith
