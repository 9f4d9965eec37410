#include "spec/cuda/gemm.hpp"

#include <algorithm>

#include "spec/cuda/figures.hpp"
#include "spec/epilogue_list.hpp"

namespace tilesmith {
namespace {

constexpr int kMaxLength = 1 << 30;  // in conditions; no problem is longer

Result<CudaGemmCondition> read_condition(const JsonReader& reader) {
  TS_TRY(reader.only({"element_bytes", "m", "n", "k"}));
  CudaGemmCondition condition;
  const auto most = [&](std::string_view field, std::optional<int>& into) -> Status {
    if (!reader.has(field)) return {};
    TS_ASSIGN(into, reader.at(field).integer<int>(1, kMaxLength));
    return {};
  };
  TS_TRY(most("element_bytes", condition.element_bytes));
  TS_TRY(most("m", condition.most_m));
  TS_TRY(most("n", condition.most_n));
  TS_TRY(most("k", condition.most_k));
  return condition;
}

Result<CudaGemmTile> read_tile(const JsonReader& reader) {
  TS_TRY(reader.only({"tile", "instruction", "wave", "stages", "tma_boxes", "blocks_per_sm", "cluster", "cluster_k",
                      "splits", "ping_pong", "split_k_atomic", "stream_k", "transpose_c", "groups", "step_us", "end_us",
                      "efficiency", "fp32_efficiency", "first_for"}));
  CudaGemmTile tile;
  TS_ASSIGN(const std::vector<int> sizes, reader.at("tile").integers(1, 4096));
  if (sizes.size() != 2) return reader.at("tile").refuse("[rows, columns]");
  tile.tile_m = sizes[0];
  tile.tile_n = sizes[1];
  if (reader.has("instruction")) {
    TS_ASSIGN(tile.instruction, reader.at("instruction").enumerator<Instruction>());
  }
  TS_ASSIGN(tile.wave, reader.at("wave").integers(1, 32));
  if (tile.wave.empty() || tile.wave.size() > 3) return reader.at("wave").refuse("one to three numbers: along m, n, k");
  const auto integer = [&](std::string_view field, int& into, int most) -> Status {
    if (!reader.has(field)) return {};
    TS_ASSIGN(into, reader.at(field).integer<int>(1, most));
    return {};
  };
  TS_TRY(integer("stages", tile.stages, 64));
  TS_TRY(integer("tma_boxes", tile.tma_boxes, 16));
  TS_TRY(integer("blocks_per_sm", tile.blocks_per_sm, 32));
  TS_TRY(integer("splits", tile.splits, 64));
  TS_TRY(integer("cluster_k", tile.cluster_k, 8));
  if (reader.has("cluster")) {
    TS_ASSIGN(const std::vector<int> cluster, reader.at("cluster").integers(1, 16));
    if (cluster.size() != 2) return reader.at("cluster").refuse("[blocks along m, blocks along n]");
    tile.cluster_m = cluster[0];
    tile.cluster_n = cluster[1];
  }
  if (reader.has("ping_pong")) {
    TS_ASSIGN(tile.ping_pong, reader.at("ping_pong").boolean());
  }
  if (reader.has("split_k_atomic")) {
    TS_ASSIGN(tile.split_k_atomic, reader.at("split_k_atomic").boolean());
    if (tile.splits == 1) return reader.refuse("split_k_atomic with splits");
  }
  if (reader.has("stream_k")) {
    TS_ASSIGN(tile.stream_k, reader.at("stream_k").boolean());
    if (tile.splits > 1) return reader.refuse("stream_k or splits");
  }
  if (reader.has("transpose_c")) {
    TS_ASSIGN(tile.transpose_c, reader.at("transpose_c").boolean());
  }
  if (reader.has("groups")) {
    TS_ASSIGN(tile.groups, reader.at("groups").boolean());
  }
  const auto figure = [&](std::string_view field, double& into) -> Status {
    if (!reader.has(field)) return {};
    TS_ASSIGN(into, reader.at(field).number());
    if (!(into > 0) || into > 1e6) return reader.at(field).refuse("a number above 0");
    return {};
  };
  TS_TRY(figure("step_us", tile.step_us));
  TS_TRY(figure("end_us", tile.end_us));
  TS_TRY(figure("efficiency", tile.efficiency));
  if (tile.efficiency > 1) return reader.at("efficiency").refuse("a share of the peak, at most 1");
  TS_TRY(figure("fp32_efficiency", tile.fp32_efficiency));
  if (tile.fp32_efficiency > 1 || (tile.fp32_efficiency > 0 && tile.efficiency == 0))
    return reader.at("fp32_efficiency").refuse("a share of the peak, at most 1, beside efficiency");
  if ((tile.step_us > 0) != (tile.end_us > 0) || (tile.step_us > 0 && tile.efficiency > 0))
    return reader.refuse("step_us with end_us, or an efficiency, or neither");
  if (reader.has("first_for")) {
    TS_ASSIGN(tile.first_for, read_condition(reader.at("first_for")));
  }
  return tile;
}

Result<CudaGemmStream> read_stream(const JsonReader& reader) {
  TS_TRY(reader.only({"launch_us", "box_ns", "converted_column_ns", "end_us", "sum_ns", "pair_bytes_per_second",
                      "between", "memory", "power", "fp8", "others"}));
  CudaGemmStream out;
  const auto figure = [&](std::string_view field, double& into) -> Status {
    TS_ASSIGN(into, reader.at(field).number());
    return into > 0 ? Status{} : reader.at(field).refuse("a number above 0");
  };
  TS_TRY(figure("launch_us", out.launch_us));
  TS_TRY(figure("box_ns", out.box_ns));
  if (reader.has("converted_column_ns")) TS_TRY(figure("converted_column_ns", out.converted_column_ns));
  TS_TRY(figure("end_us", out.end_us));
  if (reader.has("sum_ns")) TS_TRY(figure("sum_ns", out.sum_ns));
  TS_TRY(figure("pair_bytes_per_second", out.pair_bytes_per_second));
  TS_TRY(figure("between", out.between));
  TS_TRY(figure("memory", out.memory));
  TS_TRY(figure("power", out.power));
  TS_TRY(figure("fp8", out.fp8));
  TS_TRY(figure("others", out.others));
  return out;
}

Result<CudaGemmPair> read_pair(const JsonReader& reader) {
  CudaGemmPair out;
  TS_TRY(read_figures(reader, {{"bytes_per_second", &out.bytes_per_second},
                               {"alone", &out.alone},
                               {"soon_shared", &out.soon_shared},
                               {"shared", &out.shared},
                               {"copies_once", &out.copies_once}}));
  return out;
}

Result<CudaGemmPipeline> read_pipeline(const std::string& name, const JsonReader& reader) {
  TS_TRY(reader.only({"instruction", "data_types", "weights", "tiles"}));
  CudaGemmPipeline out;
  auto parsed = parse_enum<Pipeline>(name);
  if (!parsed) return std::unexpected(parsed.error().in(reader.place()));
  out.pipeline = *parsed;
  TS_ASSIGN(out.instruction, reader.at("instruction").enumerator<Instruction>());
  TS_ASSIGN(const auto types, reader.at("data_types").elements());
  for (const JsonReader& item : types) {
    TS_ASSIGN(const DataType type, item.enumerator<DataType>());
    out.data_types.push_back(type);
  }
  if (reader.has("weights")) {
    TS_ASSIGN(const auto weights, reader.at("weights").elements());
    for (const JsonReader& item : weights) {
      TS_ASSIGN(const DataType type, item.enumerator<DataType>());
      if (type != DataType::int8 && type != DataType::int4) return item.refuse("int8 or int4");
      out.weights.push_back(type);
    }
  }
  TS_ASSIGN(const auto tiles, reader.at("tiles").elements());
  for (const JsonReader& item : tiles) {
    TS_ASSIGN(CudaGemmTile tile, read_tile(item));
    out.tiles.push_back(std::move(tile));
  }
  if (out.tiles.empty()) return reader.at("tiles").refuse("one tile or more");
  return out;
}

Status read_at_least_0(const JsonReader& from, double& into) {
  TS_ASSIGN(into, from.number());
  return into >= 0 && into <= 1e6 ? Status{} : from.refuse("a number of at least 0");
}

Status read_above_0(const JsonReader& from, double& into) {
  TS_ASSIGN(into, from.number());
  return into > 0 ? Status{} : from.refuse("a number above 0");
}

Status read_share(const JsonReader& from, double& into) {
  TS_ASSIGN(into, from.number());
  return into > 0 && into <= 1 ? Status{} : from.refuse("a share above 0, at most 1");
}

/// Figures that a spec may leave out.
struct OptionalFigure {
  std::string_view name;
  double CudaGemmSpec::*into;
};
constexpr OptionalFigure kOptionalFigures[] = {{"lone_turn_us", &CudaGemmSpec::lone_turn_us},
                                               {"row_ns", &CudaGemmSpec::row_ns},
                                               {"apart_row_ns", &CudaGemmSpec::apart_row_ns},
                                               {"straddle_ns", &CudaGemmSpec::straddle_ns},
                                               {"cut_straddle_ns", &CudaGemmSpec::cut_straddle_ns},
                                               {"b_first_m", &CudaGemmSpec::b_first_m},
                                               {"transpose_us", &CudaGemmSpec::transpose_us},
                                               {"turned_us", &CudaGemmSpec::turned_us},
                                               {"pad_us", &CudaGemmSpec::pad_us},
                                               {"scale_us", &CudaGemmSpec::scale_us}};

Status read_optional_figures(const JsonReader& reader, CudaGemmSpec& spec) {
  for (const auto& [name, into] : kOptionalFigures)
    if (reader.has(name)) TS_TRY(read_at_least_0(reader.at(name), spec.*into));
  spec.apart_row_ns = std::max(spec.apart_row_ns, spec.row_ns);
  if (reader.has("list_gflop")) TS_TRY(read_at_least_0(reader.at("list_gflop"), spec.list_gflop.emplace()));
  if (reader.has("neighbours")) {
    TS_ASSIGN(spec.neighbours, reader.at("neighbours").integer<int>(1, 1024));
  }
  return {};
}

/// What parts of a tile add.
Status read_joins(const JsonReader& reader, CudaGemmSpec& spec) {
  const JsonReader join = reader.at("join");
  TS_TRY(join.only({"us", "bytes_per_second"}));
  TS_TRY(read_at_least_0(join.at("us"), spec.join_us));
  TS_TRY(read_above_0(join.at("bytes_per_second"), spec.join_bytes_per_second));
  if (!reader.has("cluster_join")) return {};
  const JsonReader cluster = reader.at("cluster_join");
  TS_TRY(cluster.only({"us", "bytes_per_second", "pairs_ns", "sms"}));
  TS_TRY(read_at_least_0(cluster.at("us"), spec.cluster_join_us));
  TS_TRY(read_above_0(cluster.at("bytes_per_second"), spec.cluster_join_bytes_per_second));
  if (cluster.has("pairs_ns")) TS_TRY(read_at_least_0(cluster.at("pairs_ns"), spec.cluster_pairs_ns));
  TS_ASSIGN(const auto shares, cluster.at("sms").elements());
  for (const JsonReader& share : shares) TS_TRY(read_share(share, spec.cluster_sms.emplace_back()));
  return {};
}

/// What steps and rounds take under conditions of their own.
Status read_conditions(const JsonReader& reader, CudaGemmSpec& spec) {
  if (reader.has("int8_ping_pong")) {
    const JsonReader share = reader.at("int8_ping_pong");
    TS_TRY(share.only({"step", "k"}));
    TS_TRY(read_share(share.at("step"), spec.int8_ping_pong_step));
    TS_TRY(read_at_least_0(share.at("k"), spec.int8_ping_pong_k));
  }
  if (reader.has("placed")) {
    const JsonReader placed = reader.at("placed");
    TS_TRY(placed.only({"blocks", "step"}));
    TS_ASSIGN(spec.placed_blocks, placed.at("blocks").integer<int>(2, 8));
    TS_TRY(read_share(placed.at("step"), spec.placed_step));
  }
  if (reader.has("long")) {
    CudaGemmLong& products = spec.long_products.emplace();
    TS_TRY(read_figures(reader.at("long"), {{"us", &products.us}, {"shared_more", &products.shared_more}}));
  }
  if (reader.has("one_round")) {
    CudaGemmOneRound& one = spec.one_round.emplace();
    TS_TRY(read_figures(reader.at("one_round"),
                        {{"power", &one.power}, {"step", &one.step}, {"large_step", &one.large_step}}));
  }
  if (reader.has("late_launch_dependents")) {
    const JsonReader limits = reader.at("late_launch_dependents");
    TS_TRY(limits.only({"rows_of_tiles", "steps"}));
    TS_TRY(read_at_least_0(limits.at("rows_of_tiles"), spec.next_at_end_rows));
    TS_TRY(read_at_least_0(limits.at("steps"), spec.next_at_end_steps));
  }
  return {};
}

/// What is known of kernels that stream B, and of those for any device.
Status read_streams(const JsonReader& reader, CudaGemmSpec& spec) {
  if (reader.has("pair")) {
    TS_ASSIGN(spec.pair, read_pair(reader.at("pair")));
  }
  if (reader.has("stream")) {
    const JsonReader stream = reader.at("stream");
    TS_TRY(stream.only({"mma", "wgmma"}));
    TS_ASSIGN(spec.mma_stream, read_stream(stream.at("mma")));
    TS_ASSIGN(spec.wgmma_stream, read_stream(stream.at("wgmma")));
  }
  if (!reader.has("portable")) return {};
  const JsonReader portable = reader.at("portable");
  TS_TRY(portable.only({"alone", "join_us", "part_us", "load_ns"}));
  TS_TRY(read_share(portable.at("alone"), spec.portable_alone));
  TS_TRY(read_at_least_0(portable.at("join_us"), spec.portable_join_us));
  TS_TRY(read_at_least_0(portable.at("part_us"), spec.portable_part_us));
  return read_at_least_0(portable.at("load_ns"), spec.portable_load_ns);
}

}  // namespace

const CudaGemmPipeline* CudaGemmSpec::pipeline(Pipeline pipeline) const {
  const auto found = std::ranges::find(pipelines, pipeline, &CudaGemmPipeline::pipeline);
  return found == pipelines.end() ? nullptr : &*found;
}

Result<std::vector<GemmEpilogue>> read_cuda_epilogues(const JsonReader& reader) {
  std::vector<GemmEpilogue> epilogues;
  TS_ASSIGN(const auto items, reader.elements());
  for (const JsonReader& item : items) {
    TS_ASSIGN(const GemmEpilogue epilogue, read_epilogue(item));
    epilogues.push_back(epilogue);
  }
  return epilogues;
}

Result<std::vector<CudaGemmPipeline>> read_cuda_pipelines(const JsonReader& reader) {
  std::vector<CudaGemmPipeline> pipelines;
  TS_ASSIGN(const auto members, reader.members());
  for (const auto& [name, item] : members) {
    TS_ASSIGN(CudaGemmPipeline pipeline, read_pipeline(name, item));
    pipelines.push_back(std::move(pipeline));
  }
  // A document's members come in alphabetical order.
  std::ranges::stable_sort(pipelines, {}, [](const CudaGemmPipeline& p) { return p.pipeline == Pipeline::mma_sm80; });
  return pipelines;
}

Result<CudaGemmSpec> read_cuda_gemm(const JsonReader& reader) {
  std::vector<std::string_view> known = {"join",     "cluster_join", "efficiency_without_row",
                                         "long",     "one_round",    "int8_ping_pong",
                                         "pair",     "stream",       "late_launch_dependents",
                                         "portable", "placed",       "neighbours",
                                         "overlap",  "list_gflop",   "epilogues",
                                         "pipelines"};
  for (const OptionalFigure& figure : kOptionalFigures) known.push_back(figure.name);
  TS_TRY(reader.only(known));
  CudaGemmSpec spec;
  TS_TRY(read_joins(reader, spec));
  TS_TRY(read_share(reader.at("efficiency_without_row"), spec.efficiency_without_row));
  TS_TRY(read_figures(
      reader.at("overlap"),
      {{"tiles", &spec.overlap.tiles}, {"parts", &spec.overlap.parts}, {"two_rows", &spec.overlap.two_rows}}));
  TS_TRY(read_optional_figures(reader, spec));
  TS_TRY(read_conditions(reader, spec));
  TS_TRY(read_streams(reader, spec));
  TS_ASSIGN(spec.epilogues, read_cuda_epilogues(reader.at("epilogues")));
  TS_ASSIGN(spec.pipelines, read_cuda_pipelines(reader.at("pipelines")));
  return spec;
}

}  // namespace tilesmith
