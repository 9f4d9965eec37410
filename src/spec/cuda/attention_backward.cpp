#include "spec/cuda/attention_backward.hpp"

namespace tilesmith {
namespace {

Result<double> read_efficiency(const JsonReader& reader) {
  TS_ASSIGN(const double efficiency, reader.at("efficiency").number());
  if (!(efficiency > 0) || efficiency > 1)
    return reader.at("efficiency").refuse("a share of the peak, above 0 and at most 1");
  return efficiency;
}

Result<CudaBackwardTile> read_backward_tile(const JsonReader& reader) {
  TS_TRY(reader.only({"tile", "stages", "head_dim", "efficiency"}));
  CudaBackwardTile tile;
  TS_ASSIGN(const std::vector<int> sizes, reader.at("tile").integers(1, 4096));
  if (sizes.size() != 2) return reader.at("tile").refuse("[queries, keys]");
  tile.tile_m = sizes[0];
  tile.tile_n = sizes[1];
  if (reader.has("stages")) {
    TS_ASSIGN(tile.stages, reader.at("stages").integer<int>(1, 16));
  }
  TS_ASSIGN(tile.head_dim, read_cuda_range(reader.at("head_dim"), 1, 4096));
  TS_ASSIGN(tile.efficiency, read_efficiency(reader));
  return tile;
}

Result<CudaPassedGradients> read_passed_gradients(const JsonReader& reader) {
  TS_TRY(reader.only({"section_blocks", "most_bytes", "efficiency"}));
  CudaPassedGradients out;
  TS_ASSIGN(out.section_blocks, reader.at("section_blocks").integer<int>(1, 1 << 20));
  TS_ASSIGN(out.most_bytes, reader.at("most_bytes").integer<std::int64_t>(0, std::int64_t{1} << 40));
  TS_ASSIGN(out.efficiency, read_efficiency(reader));
  return out;
}

Result<CudaBackwardPipeline> read_backward_pipeline(const std::string& name, const JsonReader& reader) {
  TS_TRY(reader.only({"instruction", "data_types", "tiles", "passed_gradients"}));
  CudaBackwardPipeline out;
  auto parsed = parse_enum<Pipeline>(name);
  if (!parsed) return std::unexpected(parsed.error().in(reader.place()));
  out.pipeline = *parsed;
  TS_ASSIGN(out.instruction, reader.at("instruction").enumerator<Instruction>());
  TS_ASSIGN(const auto types, reader.at("data_types").elements());
  for (const JsonReader& item : types) {
    TS_ASSIGN(const DataType type, item.enumerator<DataType>());
    out.data_types.push_back(type);
  }
  TS_ASSIGN(const auto tiles, reader.at("tiles").elements());
  for (const JsonReader& item : tiles) {
    TS_ASSIGN(const CudaBackwardTile tile, read_backward_tile(item));
    out.tiles.push_back(tile);
  }
  if (reader.has("passed_gradients")) {
    TS_ASSIGN(out.passed_gradients, read_passed_gradients(reader.at("passed_gradients")));
  }
  return out;
}

}  // namespace

Result<std::vector<CudaBackwardPipeline>> read_cuda_backward(const JsonReader& reader) {
  TS_TRY(reader.only({"pipelines"}));
  TS_ASSIGN(const auto pipelines, reader.at("pipelines").members());
  std::vector<CudaBackwardPipeline> out;
  for (const auto& [name, one] : pipelines) {
    TS_ASSIGN(CudaBackwardPipeline pipeline, read_backward_pipeline(name, one));
    out.push_back(std::move(pipeline));
  }
  return out;
}

}  // namespace tilesmith
