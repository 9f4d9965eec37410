#include "spec/hip/spec.hpp"

#include <algorithm>

#include "spec/epilogue_list.hpp"
#include "spec/head_dims.hpp"
#include "spec/json_reader.hpp"
#include "spec/spec_files.hpp"

namespace tilesmith {
namespace {

Result<std::vector<DataType>> read_data_types(const JsonReader& reader) {
  TS_ASSIGN(const auto items, reader.elements());
  std::vector<DataType> types;
  for (const JsonReader& item : items) {
    TS_ASSIGN(const DataType type, item.enumerator<DataType>());
    types.push_back(type);
  }
  if (types.empty()) return reader.refuse("at least one data type");
  return types;
}

Result<HipFragment> read_fragment(const JsonReader& reader, int lanes) {
  TS_TRY(reader.only({"data_types", "accumulator", "shape", "builtin", "operand", "operand_words", "groups_k",
                      "run_of_results", "fnuz"}));
  HipFragment fragment;
  TS_ASSIGN(fragment.data_types, read_data_types(reader.at("data_types")));
  TS_ASSIGN(fragment.accumulator, reader.at("accumulator").enumerator<DataType>());
  TS_ASSIGN(const std::vector<int> shape, reader.at("shape").integers(1, 256));
  if (shape.size() != 3 || shape[0] != shape[1] || lanes % shape[0] != 0)
    return reader.at("shape").refuse("[side, side, k], where the side divides the lanes of a wave");
  fragment.side = shape[0];
  fragment.k = shape[2];
  TS_ASSIGN(fragment.builtin, reader.at("builtin").string());
  TS_ASSIGN(fragment.operand, reader.at("operand").enumerator<HipOperand>());
  TS_ASSIGN(fragment.operand_words, reader.at("operand_words").integer<int>(1, 8));
  TS_ASSIGN(fragment.groups_k, reader.at("groups_k").integer<int>(1, 4));
  TS_ASSIGN(fragment.run_of_results, reader.at("run_of_results").integer<int>(1, 16));
  if (reader.has("fnuz")) {
    TS_ASSIGN(fragment.fnuz, reader.at("fnuz").boolean());
    if (fragment.fnuz && fragment.data_types != std::vector{DataType::fp8})
      return reader.at("fnuz").refuse("data_types of fp8 alone: bf8 has infinities");
  }
  // The operands of a row hold its whole k.
  const int elements = fragment.groups_k * fragment.operand_words * 32;
  for (const DataType type : fragment.data_types)
    if (bits_of(type) * fragment.k != elements)
      return reader.at("operand_words").refuse("groups_k * operand_words words of k elements");
  if (fragment.side * fragment.side / lanes % fragment.run_of_results != 0)
    return reader.at("run_of_results").refuse("a divisor of the results of a lane");
  return fragment;
}

Result<HipGemmTile> read_gemm_tile(const JsonReader& reader) {
  TS_TRY(reader.only({"tile", "wave", "fragment", "stages", "blocks_per_cu"}));
  HipGemmTile tile;
  TS_ASSIGN(const std::vector<int> sizes, reader.at("tile").integers(1, 1024));
  if (sizes.size() != 3) return reader.at("tile").refuse("[rows, columns, elements of k]");
  tile.tile_m = sizes[0];
  tile.tile_n = sizes[1];
  tile.tile_k = sizes[2];
  TS_ASSIGN(const std::vector<int> waves, reader.at("wave").integers(1, 16));
  if (waves.size() != 2) return reader.at("wave").refuse("[waves along m, waves along n]");
  tile.waves_m = waves[0];
  tile.waves_n = waves[1];
  TS_ASSIGN(tile.fragment, reader.at("fragment").integer<int>(1, 64));
  TS_ASSIGN(tile.stages, reader.at("stages").integer<int>(1, 2));
  if (reader.has("blocks_per_cu")) {
    TS_ASSIGN(tile.blocks_per_cu, reader.at("blocks_per_cu").integer<int>(1, 16));
  }
  return tile;
}

Status read_hip_gemm(const JsonReader& reader, HipSpec& spec) {
  TS_TRY(reader.only({"epilogues", "tables"}));
  TS_ASSIGN(const auto epilogues, reader.at("epilogues").elements());
  for (const JsonReader& item : epilogues) {
    TS_ASSIGN(const GemmEpilogue epilogue, read_epilogue(item));
    spec.gemm_epilogues.push_back(epilogue);
  }
  TS_ASSIGN(const auto tables, reader.at("tables").elements());
  for (const JsonReader& item : tables) {
    TS_TRY(item.only({"data_types", "tiles"}));
    HipGemmTable& table = spec.gemm_tables.emplace_back();
    TS_ASSIGN(table.data_types, read_data_types(item.at("data_types")));
    TS_ASSIGN(const auto tiles, item.at("tiles").elements());
    for (const JsonReader& each : tiles) {
      TS_ASSIGN(const HipGemmTile tile, read_gemm_tile(each));
      for (const DataType type : table.data_types)
        if (spec.fragment(type, tile.fragment) == nullptr)
          return each.at("fragment").refuse("the side of an instruction for all data types of the table");
      table.tiles.push_back(tile);
    }
  }
  return {};
}

Result<HipAttentionTile> read_attention_tile(const JsonReader& reader, const HipSpec& spec) {
  TS_TRY(reader.only({"pipeline", "waves", "column_waves", "keys", "fragment", "blocks_per_cu", "head_dim"}));
  HipAttentionTile tile;
  TS_ASSIGN(tile.pipeline, reader.at("pipeline").enumerator<Pipeline>());
  if (tile.pipeline != Pipeline::flash && tile.pipeline != Pipeline::decode)
    return reader.at("pipeline").refuse("flash or decode");
  TS_ASSIGN(tile.waves, reader.at("waves").integer<int>(1, 16));
  if (reader.has("column_waves")) {
    TS_ASSIGN(tile.column_waves, reader.at("column_waves").integer<int>(2, 8));
  }
  TS_ASSIGN(tile.tile_n, reader.at("keys").integer<int>(1, 256));
  TS_ASSIGN(tile.fragment, reader.at("fragment").integer<int>(1, 64));
  for (const DataType type : spec.attention_types)
    if (spec.fragment(type, tile.fragment) == nullptr)
      return reader.at("fragment").refuse("the side of an instruction for all data types of attention");
  if (reader.has("blocks_per_cu")) {
    TS_ASSIGN(tile.blocks_per_cu, reader.at("blocks_per_cu").integer<int>(1, 16));
  }
  TS_ASSIGN(const std::vector<int> dims, reader.at("head_dim").integers(1, 4096));
  if (dims.size() != 2 || dims[0] > dims[1]) return reader.at("head_dim").refuse("[lowest, highest]");
  tile.head_dim_low = dims[0];
  tile.head_dim_high = dims[1];
  return tile;
}

Status read_hip_attention(const JsonReader& reader, HipSpec& spec) {
  TS_TRY(reader.only({"head_dim", "data_types", "tiles"}));
  TS_TRY(read_head_dims(reader.at("head_dim"), spec));
  TS_ASSIGN(spec.attention_types, read_data_types(reader.at("data_types")));
  TS_ASSIGN(const auto tiles, reader.at("tiles").elements());
  for (const JsonReader& item : tiles) {
    TS_ASSIGN(const HipAttentionTile tile, read_attention_tile(item, spec));
    spec.attention_tiles.push_back(tile);
  }
  return {};
}

Result<ReferenceChip> read_hip_reference(const JsonReader& reader) {
  TS_TRY(reader.only({"name", "compute_units", "clock_ghz", "tflops", "memory_gb_per_second"}));
  ReferenceChip chip;
  TS_ASSIGN(chip.chip, reader.at("name").string());
  TS_ASSIGN(chip.compute_units, reader.at("compute_units").integer<int>(1, 4096));
  TS_ASSIGN(const double clock, reader.at("clock_ghz").number());
  if (!(clock > 0)) return reader.at("clock_ghz").refuse("a number above 0");
  chip.clock_hz = clock * 1e9;
  TS_ASSIGN(const double bandwidth, reader.at("memory_gb_per_second").number());
  if (!(bandwidth > 0)) return reader.at("memory_gb_per_second").refuse("a number above 0");
  chip.bytes_per_second = bandwidth * 1e9;
  TS_ASSIGN(const auto rates, reader.at("tflops").members());
  for (const auto& [name, value] : rates) {
    auto type = parse_enum<DataType>(name);
    if (!type) return std::unexpected(type.error().in(value.place()));
    TS_ASSIGN(const double rate, value.number());
    if (!(rate > 0)) return value.refuse("a number above 0");
    chip.tflops.emplace_back(*type, rate);
  }
  return chip;
}

}  // namespace

const HipFragment* HipSpec::fragment(DataType type, int side) const {
  for (const HipFragment& each : fragments)
    if (each.side == side && std::ranges::find(each.data_types, type) != each.data_types.end()) return &each;
  return nullptr;
}

const HipGemmTable* HipSpec::gemm_table(DataType type) const {
  for (const HipGemmTable& table : gemm_tables)
    if (std::ranges::find(table.data_types, type) != table.data_types.end()) return &table;
  return nullptr;
}

Result<HipSpec> parse_hip_spec(std::string_view file, std::string_view text) {
  TS_ASSIGN(const auto document, JsonReader::parse(file, text));
  const JsonReader root(std::string(file), document);
  TS_TRY(root.only({"arch", "about", "tested", "source", "matrix_unit", "lanes_per_wave", "simds_per_compute_unit",
                    "registers_per_lane", "registers_of_simd", "lds_bytes", "reference_chip", "fragments", "gemm",
                    "attention_fwd"}));
  HipSpec spec;
  TS_ASSIGN(const std::string arch, root.at("arch").string());
  auto name = ArchName::parse(arch);
  if (!name) return std::unexpected(name.error().in(root.at("arch").place()));
  spec.arch = *name;
  TS_ASSIGN(spec.about, root.at("about").string());
  TS_ASSIGN(spec.source, root.at("source").string());
  TS_ASSIGN(spec.tested, root.at("tested").boolean());
  TS_ASSIGN(spec.matrix_unit, root.at("matrix_unit").enumerator<Instruction>());
  if (spec.matrix_unit != Instruction::mfma && spec.matrix_unit != Instruction::wmma)
    return root.at("matrix_unit").refuse("mfma or wmma");
  TS_ASSIGN(spec.lanes_per_wave, root.at("lanes_per_wave").integer<int>(32, 64));
  TS_ASSIGN(spec.simds_per_compute_unit, root.at("simds_per_compute_unit").integer<int>(1, 4));
  TS_ASSIGN(spec.registers_per_lane, root.at("registers_per_lane").integer<int>(128, 512));
  TS_ASSIGN(spec.registers_of_simd, root.at("registers_of_simd").integer<int>(128, 4096));
  TS_ASSIGN(spec.lds_bytes, root.at("lds_bytes").integer<long>(1, 1 << 24));
  TS_ASSIGN(spec.reference, read_hip_reference(root.at("reference_chip")));
  TS_ASSIGN(const auto fragments, root.at("fragments").elements());
  for (const JsonReader& item : fragments) {
    TS_ASSIGN(HipFragment fragment, read_fragment(item, spec.lanes_per_wave));
    spec.fragments.push_back(std::move(fragment));
  }
  TS_TRY(read_hip_gemm(root.at("gemm"), spec));
  TS_TRY(read_hip_attention(root.at("attention_fwd"), spec));
  return spec;
}

Result<std::vector<HipSpec>> load_hip_specs() {
  TS_ASSIGN(const std::vector<std::string> paths, spec_files("hip"));
  std::vector<HipSpec> specs;
  for (const std::string& path : paths) {
    TS_ASSIGN(const std::string text, spec_file_text(path));
    TS_ASSIGN(HipSpec spec, parse_hip_spec(path, text));
    specs.push_back(std::move(spec));
  }
  std::ranges::sort(specs, {}, &HipSpec::arch);
  return specs;
}

}  // namespace tilesmith
