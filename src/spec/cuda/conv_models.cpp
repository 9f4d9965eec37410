#include "spec/cuda/conv_models.hpp"

#include "spec/cuda/figures.hpp"

namespace tilesmith {
namespace {

Status read(const JsonReader& reader, CudaConvIssueModel& m) {
  return read_figures(reader, {{"issued_of_warp", &m.issued_of_warp},
                               {"issued", &m.issued},
                               {"step_cycles", &m.step_cycles},
                               {"run_cycles", &m.run_cycles}});
}

Status read(const JsonReader& reader, CudaConvDepthwiseModel& m) {
  TS_TRY(read_figures(reader, {{"clock_ghz", &m.clock_ghz}, {"cached", &m.cached}, {"overlap", &m.overlap}},
                      {"data", "weight"}));
  TS_TRY(read(reader.at("data"), m.data));
  return read(reader.at("weight"), m.weight);
}

Status read(const JsonReader& reader, CudaConvOfTaps& m) {
  return read_figures(reader, {{"base", &m.base}, {"tap", &m.tap}});
}

Status read(const JsonReader& reader, CudaConvBandsModel& m) {
  TS_TRY(read_figures(reader,
                      {{"clock_ghz", &m.clock_ghz},
                       {"overlap", &m.overlap},
                       {"data_run_cycles", &m.data_run_cycles},
                       {"weight_run_cycles", &m.weight_run_cycles}},
                      {"data_cycles", "small_data_cycles", "shared_data_cycles", "weight_cycles",
                       "staged_weight_cycles", "small_weight_cycles"}));
  TS_TRY(read(reader.at("data_cycles"), m.data));
  TS_TRY(read(reader.at("small_data_cycles"), m.small_data));
  TS_TRY(read(reader.at("shared_data_cycles"), m.shared_data));
  TS_TRY(read(reader.at("weight_cycles"), m.weight));
  TS_TRY(read(reader.at("staged_weight_cycles"), m.staged_weight));
  return read(reader.at("small_weight_cycles"), m.small_weight);
}

Status read(const JsonReader& reader, CudaConvWholeModel& m) {
  TS_TRY(read_figures(reader, {{"launch_us", &m.launch_us}}, {"step_us", "block_us"}));
  TS_TRY(read(reader.at("step_us"), m.step_us));
  return read(reader.at("block_us"), m.block_us);
}

Status read_hopper(const JsonReader& reader, CudaConvModels& m) {
  TS_TRY(read_figures(reader.at("strips"), {{"clock_ghz", &m.strips.clock_ghz},
                                            {"overlap", &m.strips.overlap},
                                            {"issued", &m.strips.issued},
                                            {"load", &m.strips.load},
                                            {"conflicting_load", &m.strips.conflicting_load},
                                            {"step_cycles", &m.strips.step_cycles},
                                            {"run_cycles", &m.strips.run_cycles}}));
  TS_TRY(read(reader.at("bands"), m.bands));
  TS_TRY(read(reader.at("whole"), m.whole));
  TS_TRY(read_figures(reader.at("maps"), {{"clock_ghz", &m.maps.clock_ghz},
                                          {"step_cycles", &m.maps.step_cycles},
                                          {"run_cycles", &m.maps.run_cycles},
                                          {"pixel_cycles", &m.maps.pixel_cycles},
                                          {"pixel_cycles_of_16", &m.maps.pixel_cycles_of_16},
                                          {"weight_pixel_cycles", &m.maps.weight_pixel_cycles},
                                          {"weight_pixel_cycles_of_16", &m.maps.weight_pixel_cycles_of_16}}));
  TS_TRY(read_figures(reader.at("halo"), {{"overlap", &m.halo.overlap},
                                          {"three_stages", &m.halo.three_stages},
                                          {"two_stages", &m.halo.two_stages},
                                          {"stride", &m.halo.stride},
                                          {"join_us", &m.halo.join_us}}));
  TS_TRY(read_figures(reader.at("window"), {{"begin_us", &m.window.begin_us},
                                            {"data_tile_us", &m.window.data_tile_us},
                                            {"weight_begin_us", &m.window.weight_begin_us}}));
  TS_TRY(read_figures(reader.at("weight"), {{"scattered", &m.weight.scattered},
                                            {"whole", &m.weight.whole},
                                            {"cut", &m.weight.cut},
                                            {"least_end", &m.weight.least_end},
                                            {"cache_overlap", &m.weight.cache_overlap},
                                            {"step_overlap", &m.weight.step_overlap}}));
  return read_figures(reader.at("clusters"), {{"parts", &m.clusters.parts}, {"missing_sms", &m.clusters.missing_sms}});
}

}  // namespace

Result<CudaConvModels> read_cuda_conv_models(const JsonReader& reader, bool hopper) {
  TS_TRY(reader.only({"gather", "depthwise", "groups", "stem", "direct", "pointwise", "matrix", "strips", "bands",
                      "whole", "maps", "halo", "window", "weight", "clusters"}));
  CudaConvModels m;
  TS_TRY(read_figures(reader.at("gather"), {{"begin_us", &m.gather.begin_us},
                                            {"data_begin_us", &m.gather.data_begin_us},
                                            {"weight_begin_us", &m.gather.weight_begin_us},
                                            {"tile_us", &m.gather.tile_us},
                                            {"result_ns", &m.gather.result_ns},
                                            {"weight_result_ns", &m.gather.weight_result_ns},
                                            {"copy_ns", &m.gather.copy_ns},
                                            {"data_column_copy_ns", &m.gather.data_column_copy_ns},
                                            {"weight_copy_ns", &m.gather.weight_copy_ns},
                                            {"sm_copy_ns", &m.gather.sm_copy_ns},
                                            {"cuts", &m.gather.cuts},
                                            {"kept_results", &m.gather.kept_results},
                                            {"beyond_times", &m.gather.beyond_times}}));
  TS_TRY(read(reader.at("depthwise"), m.depthwise));
  TS_TRY(read_figures(reader.at("groups"), {{"clock_ghz", &m.groups.clock_ghz},
                                            {"cached", &m.groups.cached},
                                            {"issued_of_warp", &m.groups.issued_of_warp},
                                            {"issued", &m.groups.issued},
                                            {"step_instructions", &m.groups.step_instructions},
                                            {"data_run_cycles", &m.groups.data_run_cycles}}));
  TS_TRY(read_figures(reader.at("stem"), {{"clock_ghz", &m.stem.clock_ghz},
                                          {"products", &m.stem.products},
                                          {"unit_cycles", &m.stem.unit_cycles},
                                          {"step_cycles", &m.stem.step_cycles},
                                          {"warps", &m.stem.warps},
                                          {"begin_us", &m.stem.begin_us}}));
  TS_TRY(read_figures(reader.at("direct"), {{"clock_ghz", &m.direct.clock_ghz},
                                            {"load_cycles", &m.direct.load_cycles},
                                            {"copy_cycles", &m.direct.copy_cycles},
                                            {"result_cycles", &m.direct.result_cycles},
                                            {"box_cycles", &m.direct.box_cycles},
                                            {"filter_cycles", &m.direct.filter_cycles},
                                            {"begin_us", &m.direct.begin_us}}));
  TS_TRY(read_figures(reader.at("pointwise"), {{"clock_ghz", &m.pointwise.clock_ghz},
                                               {"product_cycles", &m.pointwise.product_cycles},
                                               {"filter_cycles", &m.pointwise.filter_cycles},
                                               {"begin_us", &m.pointwise.begin_us},
                                               {"memory", &m.pointwise.memory},
                                               {"under_way_bytes", &m.pointwise.under_way_bytes},
                                               {"straddle", &m.pointwise.straddle}}));
  TS_TRY(read_figures(reader.at("matrix"), {{"nearly", &m.matrix.nearly},
                                            {"split", &m.matrix.split},
                                            {"crowd", &m.matrix.crowd},
                                            {"scattered", &m.matrix.scattered},
                                            {"within_lines", &m.matrix.within_lines},
                                            {"joined", &m.matrix.joined},
                                            {"cut_row_ns", &m.matrix.cut_row_ns},
                                            {"portable_begin_us", &m.matrix.portable_begin_us},
                                            {"begin_us", &m.matrix.begin_us}}));
  if (hopper) TS_TRY(read_hopper(reader, m));
  return m;
}

}  // namespace tilesmith
