#include "spec/cpu/spec.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "spec/head_dims.hpp"
#include "spec/json_reader.hpp"
#include "spec/spec_files.hpp"

namespace tilesmith {
namespace {

Result<ArchName> arch_name(const JsonReader& reader) {
  TS_ASSIGN(const std::string text, reader.string());
  auto name = ArchName::parse(text);
  if (!name) return std::unexpected(name.error().in(reader.place()));
  return name;
}

Result<std::vector<DataType>> read_types(const JsonReader& reader) {
  TS_ASSIGN(const auto names, reader.elements());
  std::vector<DataType> types;
  for (const JsonReader& name : names) {
    TS_ASSIGN(const DataType type, name.enumerator<DataType>());
    types.push_back(type);
  }
  return types;
}

Result<double> positive(const JsonReader& reader) {
  TS_ASSIGN(const double value, reader.number());
  if (!(value > 0)) return reader.refuse("a number above 0");
  return value;
}

Result<CpuTiles> read_tiles(const std::string& pipeline, const JsonReader& reader) {
  TS_TRY(reader.only({"tile_m", "tile_n"}));
  CpuTiles tiles;
  auto parsed = parse_enum<Pipeline>(pipeline);
  if (!parsed) return std::unexpected(parsed.error().in(reader.place()));
  tiles.pipeline = *parsed;
  TS_ASSIGN(tiles.tile_m, reader.at("tile_m").integers(1, 4096));
  TS_ASSIGN(tiles.tile_n, reader.at("tile_n").integers(1, 65535));
  return tiles;
}

Result<ProductsOnChips> read_products_on(const JsonReader& reader) {
  ProductsOnChips out;
  if (!reader.has("products_per_cycle_on")) return out;
  TS_ASSIGN(const auto chips, reader.at("products_per_cycle_on").members());
  for (const auto& [family, each] : chips) {
    TS_ASSIGN(const double products, positive(each));
    out.emplace_back(family, products);
  }
  return out;
}

/// Without rates where a model of its own predicts the operation.
enum class Rates : bool { absent, present };

Result<CpuAttentionInstruction> read_instruction(const std::string& name, const JsonReader& reader, Rates rates) {
  if (rates == Rates::present)
    TS_TRY(reader.only({"data_types", "lanes", "products_per_cycle", "products_per_cycle_on", "pipelines"}));
  else
    TS_TRY(reader.only({"data_types", "lanes", "pipelines"}));
  CpuAttentionInstruction out;
  auto parsed = parse_enum<Instruction>(name);
  if (!parsed) return std::unexpected(parsed.error().in(reader.place()));
  out.instruction = *parsed;
  TS_ASSIGN(out.data_types, read_types(reader.at("data_types")));
  TS_ASSIGN(out.lanes, reader.at("lanes").integer<int>(1, 64));
  if (rates == Rates::present) {
    TS_ASSIGN(out.products_per_cycle, positive(reader.at("products_per_cycle")));
    TS_ASSIGN(out.products_on, read_products_on(reader));
  }
  TS_ASSIGN(const auto pipelines, reader.at("pipelines").members());
  for (const auto& [pipeline, tiles_reader] : pipelines) {
    TS_ASSIGN(CpuTiles tiles, read_tiles(pipeline, tiles_reader));
    out.pipelines.push_back(std::move(tiles));
  }
  return out;
}

Result<std::vector<CpuAttentionInstruction>> read_instructions(const JsonReader& reader, Rates rates) {
  TS_ASSIGN(const auto members, reader.members());
  std::vector<CpuAttentionInstruction> out;
  for (const auto& [name, each] : members) {
    TS_ASSIGN(CpuAttentionInstruction instruction, read_instruction(name, each, rates));
    out.push_back(std::move(instruction));
  }
  return out;
}

Result<CpuAttentionModel> read_model(const JsonReader& reader, const CpuSpec& spec) {
  TS_ASSIGN(CpuAttentionModel model, read_cpu_attention_model(reader));
  for (const CpuAttentionInstruction& instruction : spec.attention_fwd)
    for (const CpuTiles& tiles : instruction.pipelines)
      for (const DataType type : instruction.data_types)
        if (model.coefficients(tiles.pipeline, type) == nullptr)
          return reader.at("pipelines")
              .refuse(fmt::format("coefficients of {}_{} too", name_of(tiles.pipeline), name_of(type)));
  return model;
}

Status read_models(const JsonReader& attention, CpuSpec& spec) {
  TS_ASSIGN(spec.attention_model, read_model(attention.at("model"), spec));
  if (!attention.has("model_on")) return {};
  TS_ASSIGN(const auto chips, attention.at("model_on").members());
  for (const auto& [family, each] : chips) {
    TS_ASSIGN(CpuAttentionModel model, read_model(each, spec));
    spec.attention_models_on.emplace_back(family, std::move(model));
  }
  return {};
}

Result<CpuGemmTiles> read_gemm_tiles(const std::string& pipeline, const JsonReader& reader) {
  TS_TRY(reader.only({"tile_m", "tile_n", "tile_k"}));
  CpuGemmTiles tiles;
  auto parsed = parse_enum<Pipeline>(pipeline);
  if (!parsed) return std::unexpected(parsed.error().in(reader.place()));
  tiles.pipeline = *parsed;
  TS_ASSIGN(tiles.tile_m, reader.at("tile_m").integers(1, 1024));
  TS_ASSIGN(tiles.tile_n, reader.at("tile_n").integers(1, 4096));
  TS_ASSIGN(tiles.tile_k, reader.at("tile_k").integers(1, 8192));
  return tiles;
}

Result<CpuGemmInstruction> read_gemm_instruction(const std::string& name, const JsonReader& reader) {
  TS_TRY(reader.only(
      {"data_types", "registers", "elements_per_word", "products_per_cycle", "products_per_cycle_on", "pipelines"}));
  CpuGemmInstruction out;
  auto parsed = parse_enum<Instruction>(name);
  if (!parsed) return std::unexpected(parsed.error().in(reader.place()));
  out.instruction = *parsed;
  TS_ASSIGN(out.data_types, read_types(reader.at("data_types")));
  TS_ASSIGN(const std::vector<int> registers, reader.at("registers").integers(1, 4096));
  if (registers.size() != 3) return reader.at("registers").refuse("[rows of A, columns of B, elements of k]");
  out.rows = registers[0];
  out.columns = registers[1];
  out.depth = registers[2];
  TS_ASSIGN(out.elements_per_word, reader.at("elements_per_word").integer<int>(1, 4));
  TS_ASSIGN(out.products_per_cycle, positive(reader.at("products_per_cycle")));
  TS_ASSIGN(out.products_on, read_products_on(reader));
  TS_ASSIGN(const auto pipelines, reader.at("pipelines").members());
  for (const auto& [pipeline, tiles_reader] : pipelines) {
    TS_ASSIGN(CpuGemmTiles tiles, read_gemm_tiles(pipeline, tiles_reader));
    out.pipelines.push_back(std::move(tiles));
  }
  return out;
}

Result<GemmEpilogue> read_epilogue(const JsonReader& reader) {
  TS_ASSIGN(const auto names, reader.elements());
  GemmEpilogue list;
  for (const JsonReader& name : names) {
    TS_ASSIGN(const EpilogueOp op, name.enumerator<EpilogueOp>());
    if (!list.push_back(op)) return reader.refuse(fmt::format("at most {} operations", GemmEpilogue::kMax));
  }
  return list;
}

Status read_gemm(const JsonReader& reader, CpuSpec& spec) {
  TS_TRY(reader.only({"epilogues", "instructions", "model", "warm_model", "warm_on", "far"}));
  TS_ASSIGN(spec.gemm_model, read_cpu_gemm_model(reader.at("model")));
  TS_ASSIGN(spec.gemm_warm_model, read_cpu_gemm_model(reader.at("warm_model")));
  TS_ASSIGN(spec.gemm_warm_on, reader.at("warm_on").strings());
  const JsonReader far = reader.at("far");
  TS_TRY(far.only({"followed_pages", "hidden_cycles"}));
  TS_ASSIGN(spec.gemm_followed_pages, positive(far.at("followed_pages")));
  TS_ASSIGN(spec.gemm_hidden_cycles, positive(far.at("hidden_cycles")));
  TS_ASSIGN(const auto epilogues, reader.at("epilogues").elements());
  for (const JsonReader& each : epilogues) {
    TS_ASSIGN(const GemmEpilogue epilogue, read_epilogue(each));
    spec.gemm_epilogues.push_back(epilogue);
  }
  TS_ASSIGN(const auto instructions, reader.at("instructions").members());
  for (const auto& [name, each] : instructions) {
    TS_ASSIGN(CpuGemmInstruction instruction, read_gemm_instruction(name, each));
    spec.gemm.push_back(std::move(instruction));
  }
  return {};
}

}  // namespace

Result<CpuSpec> parse_cpu_spec(std::string_view file, std::string_view text) {
  TS_ASSIGN(const nlohmann::json document, JsonReader::parse(file, text));
  const JsonReader root(std::string(file), document);
  TS_TRY(root.only({"arch", "about", "includes", "features", "compile_flags", "vector_bits", "vector_registers",
                    "half_width_units", "core", "caches", "attention_fwd", "attention_bwd", "gemm", "conv"}));

  CpuSpec spec;
  TS_ASSIGN(spec.arch, arch_name(root.at("arch")));
  TS_ASSIGN(spec.about, root.at("about").string());
  TS_ASSIGN(const auto includes, root.at("includes").elements());
  for (const JsonReader& included : includes) {
    TS_ASSIGN(const ArchName name, arch_name(included));
    spec.includes.push_back(name);
  }
  TS_ASSIGN(spec.features, root.at("features").strings());
  TS_ASSIGN(spec.compile_flags, root.at("compile_flags").strings());
  for (const std::string& flag : spec.compile_flags)
    if (!flag.starts_with("-m")) return root.at("compile_flags").refuse("machine flags, each beginning with -m");
  TS_ASSIGN(spec.vector_bits, root.at("vector_bits").integer<int>(128, 4096));
  TS_ASSIGN(spec.vector_registers, root.at("vector_registers").integer<int>(8, 1024));

  if (root.has("half_width_units")) {
    TS_ASSIGN(spec.half_width_units, root.at("half_width_units").strings());
  }

  spec.vector_bits_per_cycle = spec.vector_bits;
  const JsonReader core = root.at("core");
  TS_TRY(core.only({"clock_hz", "memory_bytes_per_cycle"}));
  TS_ASSIGN(spec.clock_hz, positive(core.at("clock_hz")));
  TS_ASSIGN(spec.memory_bytes_per_cycle, positive(core.at("memory_bytes_per_cycle")));

  const JsonReader caches = root.at("caches");
  TS_TRY(caches.only({"l1d_bytes", "l2_bytes"}));
  TS_ASSIGN(spec.l1d_bytes, caches.at("l1d_bytes").integer(1024, 1L << 30));
  TS_ASSIGN(spec.l2_bytes, caches.at("l2_bytes").integer(1024, 1L << 34));

  const JsonReader attention = root.at("attention_fwd");
  TS_TRY(attention.only({"head_dim", "instructions", "model", "model_on"}));
  TS_TRY(read_head_dims(attention.at("head_dim"), spec));
  TS_ASSIGN(spec.attention_fwd, read_instructions(attention.at("instructions"), Rates::absent));
  TS_TRY(read_models(attention, spec));
  if (root.has("attention_bwd")) {
    const JsonReader backward = root.at("attention_bwd");
    TS_TRY(backward.only({"instructions"}));
    TS_ASSIGN(spec.attention_bwd, read_instructions(backward.at("instructions"), Rates::present));
  }
  TS_TRY(read_gemm(root.at("gemm"), spec));
  const JsonReader conv = root.at("conv");
  TS_TRY(conv.only({"model"}));
  TS_ASSIGN(spec.conv_model, read_cpu_conv_model(conv.at("model")));
  return spec;
}

CpuSpec on_chip(CpuSpec spec, std::string_view family) {
  const bool half = std::ranges::find(spec.half_width_units, family) != spec.half_width_units.end();
  if (half) spec.vector_bits_per_cycle /= 2;
  const auto settle = [&](auto& instructions) {
    for (auto& instruction : instructions) {
      for (const auto& [chip, products] : instruction.products_on)
        if (family.starts_with(chip)) instruction.products_per_cycle = products;
      if (half) instruction.products_per_cycle /= 2;
    }
  };
  for (const auto& [chips, model] : spec.attention_models_on)
    if (family.starts_with(chips)) spec.attention_model = model;
  for (const std::string& chips : spec.gemm_warm_on)
    if (family.starts_with(chips)) spec.gemm_model = spec.gemm_warm_model;
  settle(spec.attention_bwd);
  settle(spec.gemm);
  return spec;
}

Result<std::vector<CpuSpec>> load_cpu_specs() {
  TS_ASSIGN(const std::vector<std::string> files, spec_files("cpu"));
  std::vector<CpuSpec> specs;
  for (const std::string& file : files) {
    TS_ASSIGN(const std::string text, spec_file_text(file));
    TS_ASSIGN(CpuSpec spec, parse_cpu_spec(file, text));
    specs.push_back(std::move(spec));
  }
  // A level includes only lower ones, so the number it includes orders them.
  std::ranges::stable_sort(specs, {}, [](const CpuSpec& spec) { return spec.includes.size(); });
  for (const CpuSpec& spec : specs)
    for (const ArchName& included : spec.includes)
      if (std::ranges::none_of(specs, [&](const CpuSpec& other) { return other.arch == included; }))
        return fail(ErrorCode::parse,
                    fmt::format("specs/cpu: {} includes {}, which is no CPU level", spec.arch.text(), included.text()));
  return specs;
}

}  // namespace tilesmith
