#include "spec/cuda/conv.hpp"

#include <algorithm>

namespace tilesmith {
namespace {

Status figure(const JsonReader& reader, const char* field, double& into) {
  TS_ASSIGN(into, reader.at(field).number());
  return into > 0 ? Status{} : reader.at(field).refuse("a number above 0");
}

Status read_join(const JsonReader& reader, CudaConvJoin& join) {
  TS_TRY(reader.only({"cluster_us", "clusters_us", "strips_us", "runs_us", "runs_bytes_per_second", "split_us",
                      "split_bytes_per_second", "stream_k_us"}));
  TS_TRY(figure(reader, "runs_us", join.runs_us));
  TS_TRY(figure(reader, "runs_bytes_per_second", join.runs_bytes_per_second));
  if (!reader.has("cluster_us")) return {};
  TS_TRY(figure(reader, "cluster_us", join.cluster_us));
  TS_TRY(figure(reader, "clusters_us", join.clusters_us));
  TS_TRY(figure(reader, "strips_us", join.strips_us));
  TS_TRY(figure(reader, "split_us", join.split_us));
  TS_TRY(figure(reader, "split_bytes_per_second", join.split_bytes_per_second));
  return figure(reader, "stream_k_us", join.stream_k_us);
}

Status read_rows(const JsonReader& reader, CudaConvRows& rows) {
  TS_TRY(reader.only({"ns", "straddle_ns", "data_straddle_ns", "cut"}));
  TS_TRY(figure(reader, "ns", rows.ns));
  TS_TRY(figure(reader, "straddle_ns", rows.straddle_ns));
  TS_TRY(figure(reader, "data_straddle_ns", rows.data_straddle_ns));
  return figure(reader, "cut", rows.cut);
}

}  // namespace

const CudaGemmPipeline* CudaConvSpec::pipeline(Pipeline pipeline) const {
  const auto found = std::ranges::find(pipelines, pipeline, &CudaGemmPipeline::pipeline);
  return found == pipelines.end() ? nullptr : &*found;
}

Result<CudaConvSpec> read_cuda_conv(const JsonReader& reader) {
  TS_TRY(
      reader.only({"join", "rows", "box_us", "halo_filters_us", "cache_bytes_per_second", "epilogues", "pipelines"}));
  CudaConvSpec spec;
  TS_TRY(read_join(reader.at("join"), spec.join));
  if (reader.has("rows")) TS_TRY(read_rows(reader.at("rows"), spec.rows));
  if (reader.has("box_us")) TS_TRY(figure(reader, "box_us", spec.box_us));
  if (reader.has("halo_filters_us")) TS_TRY(figure(reader, "halo_filters_us", spec.halo_filters_us));
  if (reader.has("cache_bytes_per_second"))
    TS_TRY(figure(reader, "cache_bytes_per_second", spec.cache_bytes_per_second));
  TS_ASSIGN(spec.epilogues, read_cuda_epilogues(reader.at("epilogues")));
  TS_ASSIGN(spec.pipelines, read_cuda_pipelines(reader.at("pipelines")));
  return spec;
}

}  // namespace tilesmith
