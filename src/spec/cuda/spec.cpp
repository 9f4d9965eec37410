#include "spec/cuda/spec.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "spec/head_dims.hpp"
#include "spec/json_reader.hpp"
#include "spec/spec_files.hpp"

namespace tilesmith {
namespace {

/// Lengths in conditions; no problem is longer.
constexpr int kMaxLength = 1 << 30;

Result<std::vector<DataType>> read_data_types(const JsonReader& reader) {
  TS_ASSIGN(const auto items, reader.elements());
  std::vector<DataType> types;
  for (const JsonReader& item : items) {
    TS_ASSIGN(const DataType type, item.enumerator<DataType>());
    types.push_back(type);
  }
  return types;
}

Result<double> positive(const JsonReader& reader) {
  TS_ASSIGN(const double number, reader.number());
  if (!(number > 0) || !std::isfinite(number)) return reader.refuse("a number above 0");
  return number;
}

Result<CudaTileCondition> read_condition(const JsonReader& reader) {
  TS_TRY(reader.only({"data_types", "masked", "uneven", "dropout", "bias", "seqlen_k"}));
  CudaTileCondition condition;
  if (reader.has("data_types")) {
    TS_ASSIGN(condition.data_types, read_data_types(reader.at("data_types")));
  }
  if (reader.has("masked")) {
    TS_ASSIGN(condition.masked, reader.at("masked").boolean());
  }
  if (reader.has("uneven")) {
    TS_ASSIGN(condition.uneven, reader.at("uneven").boolean());
  }
  if (reader.has("dropout")) {
    TS_ASSIGN(condition.dropout, reader.at("dropout").boolean());
  }
  if (reader.has("bias")) {
    TS_ASSIGN(condition.bias, reader.at("bias").enumerator<BiasKind>());
  }
  if (reader.has("seqlen_k")) {
    TS_ASSIGN(condition.seqlen_k, read_cuda_range(reader.at("seqlen_k"), 0, kMaxLength));
  }
  return condition;
}

Result<CudaTile> read_tile(const JsonReader& reader) {
  TS_TRY(
      reader.only({"tile", "stages", "q_stages", "bias_stages", "blocks_per_sm", "ping_pong", "dynamic_scheduler",
                   "late_wait", "late_store", "fp8", "head_dim", "head_dim_v", "efficiency", "round_us", "first_for"}));
  CudaTile tile;
  const JsonReader figures = reader.at("tile");
  TS_ASSIGN(const std::vector<int> sizes, figures.integers(1, 4096));
  if (sizes.size() != 2) return figures.refuse("[query rows, keys]");
  tile.tile_m = sizes[0];
  tile.tile_n = sizes[1];
  const auto integer = [&](std::string_view field, int& into, int most) -> Status {
    if (!reader.has(field)) return {};
    TS_ASSIGN(into, reader.at(field).integer<int>(1, most));
    return {};
  };
  TS_TRY(integer("stages", tile.stages, 16));
  TS_TRY(integer("q_stages", tile.q_stages, 2));
  TS_TRY(integer("bias_stages", tile.bias_stages, 16));
  TS_TRY(integer("blocks_per_sm", tile.blocks_per_sm, 64));
  const auto flag = [&](std::string_view field, bool& into) -> Status {
    if (!reader.has(field)) return {};
    TS_ASSIGN(into, reader.at(field).boolean());
    return {};
  };
  TS_TRY(flag("ping_pong", tile.ping_pong));
  TS_TRY(flag("dynamic_scheduler", tile.dynamic_scheduler));
  TS_TRY(flag("late_wait", tile.late_wait));
  TS_TRY(flag("late_store", tile.late_store));
  TS_TRY(flag("fp8", tile.fp8));
  TS_ASSIGN(tile.head_dim, read_cuda_range(reader.at("head_dim"), 1, 4096));
  if (reader.has("head_dim_v")) {
    TS_ASSIGN(tile.head_dim_v, read_cuda_range(reader.at("head_dim_v"), 1, 4096));
  }
  TS_ASSIGN(tile.efficiency, positive(reader.at("efficiency")));
  if (tile.efficiency > 1) return reader.at("efficiency").refuse("a share of the peak, at most 1");
  if (reader.has("round_us")) {
    TS_ASSIGN(tile.round_us, positive(reader.at("round_us")));
  }
  if (reader.has("first_for")) {
    TS_ASSIGN(tile.first_for, read_condition(reader.at("first_for")));
  }
  return tile;
}

Result<CudaDecodeClusterModel> read_decode_cluster_model(const JsonReader& reader) {
  TS_TRY(reader.only(
      {"join_us", "bytes_per_second", "step", "list_step", "list_start", "may_take", "share", "items_of_many_rows"}));
  CudaDecodeClusterModel model;
  TS_ASSIGN(model.join_us, positive(reader.at("join_us")));
  TS_ASSIGN(model.bytes_per_second, positive(reader.at("bytes_per_second")));
  TS_ASSIGN(model.step, positive(reader.at("step")));
  TS_ASSIGN(model.list_step, positive(reader.at("list_step")));
  TS_ASSIGN(model.list_start, positive(reader.at("list_start")));
  TS_ASSIGN(model.may_take, positive(reader.at("may_take")));
  TS_ASSIGN(model.share, positive(reader.at("share")));
  TS_ASSIGN(model.items_of_many_rows, reader.at("items_of_many_rows").integer<int>(1, 1 << 20));
  return model;
}

Result<CudaDecodeListModel> read_decode_list_model(const JsonReader& reader) {
  TS_TRY(reader.only({"piece_keys", "piece_steps", "busy", "grid_us"}));
  CudaDecodeListModel model;
  TS_ASSIGN(model.piece_keys, reader.at("piece_keys").integer<int>(1, kMaxLength));
  TS_ASSIGN(model.piece_steps, reader.at("piece_steps").integer<int>(1, kMaxLength));
  TS_ASSIGN(model.busy, positive(reader.at("busy")));
  if (model.busy > 1) return reader.at("busy").refuse("a share of at most 1");
  if (reader.has("grid_us")) {
    TS_ASSIGN(model.grid_us, positive(reader.at("grid_us")));
  }
  return model;
}

Result<CudaShortSteps> read_short_steps(const JsonReader& reader) {
  TS_TRY(reader.only({"bytes", "elements", "head_dim"}));
  CudaShortSteps steps;
  TS_ASSIGN(steps.bytes, reader.at("bytes").integer<int>(1, kMaxLength));
  TS_ASSIGN(steps.elements, reader.at("elements").integer<int>(1, kMaxLength));
  TS_ASSIGN(steps.head_dim, read_cuda_range(reader.at("head_dim"), 1, 4096));
  return steps;
}

Result<CudaDecodeModel> read_decode_model(const JsonReader& reader) {
  TS_TRY(reader.only({"start_us", "turn_us", "copy_us", "join_us", "part_us", "join_bytes_per_second", "join_launch_us",
                      "part_bytes_per_second", "sm_bytes_per_second", "bandwidth_share", "list_us", "narrow_step_us",
                      "narrow_key_us", "narrow_share", "list", "prefetch_bytes", "overlapped_us", "cluster"}));
  CudaDecodeModel model;
  if (reader.has("list_us")) {
    TS_ASSIGN(model.list_us, positive(reader.at("list_us")));
  }
  if (reader.has("narrow_step_us")) {
    TS_ASSIGN(model.narrow_step_us, positive(reader.at("narrow_step_us")));
    TS_ASSIGN(model.narrow_key_us, positive(reader.at("narrow_key_us")));
    TS_ASSIGN(model.narrow_share, positive(reader.at("narrow_share")));
  }
  TS_ASSIGN(model.list, read_decode_list_model(reader.at("list")));
  TS_ASSIGN(model.prefetch_bytes, reader.at("prefetch_bytes").integer<int>(1, kMaxLength));
  TS_ASSIGN(model.overlapped_us, positive(reader.at("overlapped_us")));
  if (reader.has("cluster")) {
    TS_ASSIGN(model.cluster, read_decode_cluster_model(reader.at("cluster")));
  }
  TS_ASSIGN(model.start_us, positive(reader.at("start_us")));
  TS_ASSIGN(model.turn_us, positive(reader.at("turn_us")));
  TS_ASSIGN(model.copy_us, positive(reader.at("copy_us")));
  TS_ASSIGN(model.join_us, positive(reader.at("join_us")));
  TS_ASSIGN(model.part_us, positive(reader.at("part_us")));
  TS_ASSIGN(model.join_bytes_per_second, positive(reader.at("join_bytes_per_second")));
  TS_ASSIGN(model.join_launch_us, positive(reader.at("join_launch_us")));
  TS_ASSIGN(model.part_bytes_per_second, positive(reader.at("part_bytes_per_second")));
  TS_ASSIGN(model.sm_bytes_per_second, positive(reader.at("sm_bytes_per_second")));
  TS_ASSIGN(model.bandwidth_share, positive(reader.at("bandwidth_share")));
  if (model.bandwidth_share > 1.1) return reader.at("bandwidth_share").refuse("a share of at most 1.1");
  return model;
}

Result<CudaFewQueriesModel> read_few_queries_model(const JsonReader& reader) {
  TS_TRY(reader.only({"start_us", "fill_us", "turn_us", "step_us", "short_copies", "sm_bytes_per_second",
                      "bandwidth_share", "shared_reads", "short_steps"}));
  CudaFewQueriesModel model;
  TS_ASSIGN(model.start_us, positive(reader.at("start_us")));
  TS_ASSIGN(model.fill_us, positive(reader.at("fill_us")));
  TS_ASSIGN(model.turn_us, positive(reader.at("turn_us")));
  TS_ASSIGN(model.short_copies, positive(reader.at("short_copies")));
  TS_ASSIGN(model.step_us, positive(reader.at("step_us")));
  TS_ASSIGN(model.sm_bytes_per_second, positive(reader.at("sm_bytes_per_second")));
  TS_ASSIGN(model.bandwidth_share, positive(reader.at("bandwidth_share")));
  TS_ASSIGN(model.shared_reads, positive(reader.at("shared_reads")));
  if (model.shared_reads < 1) return reader.at("shared_reads").refuse("1 or more tiles");
  TS_ASSIGN(model.short_steps, read_short_steps(reader.at("short_steps")));
  return model;
}

Result<CudaAttentionPipeline> read_pipeline(const std::string& name, const JsonReader& reader) {
  TS_TRY(reader.only({"instruction", "data_types", "pack_gqa", "pack_gqa_share", "tested", "model", "latent_model",
                      "few_queries", "tiles"}));
  CudaAttentionPipeline out;
  auto parsed = parse_enum<Pipeline>(name);
  if (!parsed) return std::unexpected(parsed.error().in(reader.place()));
  out.pipeline = *parsed;
  TS_ASSIGN(out.instruction, reader.at("instruction").enumerator<Instruction>());
  TS_ASSIGN(out.data_types, read_data_types(reader.at("data_types")));
  TS_ASSIGN(out.pack_gqa, reader.at("pack_gqa").integers(1, 64));
  if (out.pack_gqa.empty() || out.pack_gqa.front() != 1)
    return reader.at("pack_gqa").refuse("1 first: heads are not packed");
  if (out.pack_gqa.size() > 1) {
    TS_ASSIGN(out.pack_gqa_share, positive(reader.at("pack_gqa_share")));
    if (out.pack_gqa_share > 1) return reader.at("pack_gqa_share").refuse("a share of the tiles, at most 1");
  }
  if (reader.has("tested")) {
    TS_ASSIGN(out.tested, reader.at("tested").boolean());
  }
  if (is_decode(out.pipeline)) {
    TS_ASSIGN(out.decode, read_decode_model(reader.at("model")));
    if (reader.has("latent_model")) {
      TS_ASSIGN(out.decode_latent, read_decode_model(reader.at("latent_model")));
    }
  } else if (reader.has("model")) {
    return reader.at("model").refuse("none: this pipeline's figures are attention_fwd.model's");
  }
  if (reader.has("few_queries")) {
    TS_ASSIGN(out.few_queries, read_few_queries_model(reader.at("few_queries")));
  }
  TS_ASSIGN(const auto tiles, reader.at("tiles").elements());
  for (const JsonReader& item : tiles) {
    TS_ASSIGN(const CudaTile tile, read_tile(item));
    out.tiles.push_back(tile);
  }
  return out;
}

Status read_limits(const JsonReader& root, CudaSpec& spec) {
  TS_ASSIGN(spec.warp_size, root.at("warp_size").integer<int>(32, 32));
  TS_ASSIGN(spec.threads_per_block, root.at("threads_per_block").integer<int>(32, 4096));
  TS_ASSIGN(spec.threads_per_sm, root.at("threads_per_sm").integer<int>(spec.threads_per_block, 65536));
  TS_ASSIGN(spec.blocks_per_sm, root.at("blocks_per_sm").integer<int>(1, 1024));
  const JsonReader registers = root.at("registers");
  TS_TRY(registers.only({"per_sm", "per_thread", "allocated_per_warp"}));
  TS_ASSIGN(spec.registers_per_sm, registers.at("per_sm").integer<int>(1024, 1 << 24));
  TS_ASSIGN(spec.registers_per_thread, registers.at("per_thread").integer<int>(32, 4096));
  TS_ASSIGN(spec.registers_per_warp_step, registers.at("allocated_per_warp").integer<int>(1, 65536));
  const JsonReader shared = root.at("shared");
  TS_TRY(shared.only({"per_sm", "per_block", "reserved_per_block"}));
  TS_ASSIGN(spec.shared_bytes_per_sm, shared.at("per_sm").integer<long>(1024, 1L << 30));
  TS_ASSIGN(spec.shared_bytes_per_block, shared.at("per_block").integer<long>(1024, spec.shared_bytes_per_sm));
  TS_ASSIGN(spec.shared_bytes_reserved, shared.at("reserved_per_block").integer<long>(0, spec.shared_bytes_per_sm));
  return {};
}

Result<CudaReferenceChip> read_reference(const JsonReader& reader) {
  TS_TRY(reader.only({"chip", "sms", "l2_bytes", "bytes_per_second", "reached_bandwidth", "launch_us", "tflops"}));
  CudaReferenceChip out;
  TS_ASSIGN(out.chip, reader.at("chip").string());
  TS_ASSIGN(out.sms, reader.at("sms").integer<int>(1, 65536));
  TS_ASSIGN(out.l2_bytes, reader.at("l2_bytes").integer<long>(1024, 1L << 40));
  TS_ASSIGN(out.bytes_per_second, positive(reader.at("bytes_per_second")));
  TS_ASSIGN(out.reached_bandwidth, positive(reader.at("reached_bandwidth")));
  if (out.reached_bandwidth > 1) return reader.at("reached_bandwidth").refuse("a share of at most 1");
  TS_ASSIGN(out.launch_us, positive(reader.at("launch_us")));
  TS_ASSIGN(const auto rates, reader.at("tflops").members());
  for (const auto& [name, rate] : rates) {
    auto type = parse_enum<DataType>(name);
    if (!type) return std::unexpected(type.error().in(rate.place()));
    TS_ASSIGN(const double figure, positive(rate));
    out.tflops.emplace_back(*type, figure);
  }
  return out;
}

Status read_attention(const JsonReader& attention, CudaSpec& spec) {
  TS_TRY(attention.only({"head_dim", "append_us", "row_copies", "model", "pipelines"}));
  TS_TRY(read_head_dims(attention.at("head_dim"), spec));
  if (attention.has("append_us")) {
    TS_ASSIGN(spec.append_us, positive(attention.at("append_us")));
  }
  if (attention.has("row_copies")) {
    const JsonReader copies = attention.at("row_copies");
    TS_TRY(copies.only({"launch_us", "bytes_per_second"}));
    spec.row_copies.emplace();
    TS_ASSIGN(spec.row_copies->launch_us, positive(copies.at("launch_us")));
    TS_ASSIGN(spec.row_copies->bytes_per_second, positive(copies.at("bytes_per_second")));
  }
  if (attention.has("model")) {
    TS_ASSIGN(spec.attention_model, read_cuda_attention_model(attention.at("model")));
  }
  TS_ASSIGN(const auto pipelines, attention.at("pipelines").members());
  for (const auto& [name, reader] : pipelines) {
    TS_ASSIGN(CudaAttentionPipeline pipeline, read_pipeline(name, reader));
    spec.attention_fwd.push_back(std::move(pipeline));
  }
  // A document's members come in alphabetical order; the pipeline made for the chip comes before mma_sm80, and that
  // before the one for few queries.
  std::ranges::stable_sort(spec.attention_fwd, {}, [](const CudaAttentionPipeline& p) {
    return is_decode(p.pipeline) ? 2 : p.pipeline == Pipeline::mma_sm80 ? 1 : 0;
  });
  return {};
}

}  // namespace

double CudaReferenceChip::tflops_of(DataType type) const {
  if (type == DataType::fp32) return tflops_of(DataType::tf32) / 3;  // kernels of fp32 multiply three pairs in tf32
  if (type == DataType::bf8 || type == DataType::fp8bf16 || type == DataType::fp8fp16 || type == DataType::fp8fp32)
    type = DataType::fp8;
  for (const auto& [known, rate] : tflops)
    if (known == type) return rate;
  return 0;
}

bool CudaSpec::is_chip_specific() const {
  return arch.text().ends_with('a');
}

const CudaAttentionPipeline* CudaSpec::attention_pipeline(Pipeline pipeline) const {
  for (const CudaAttentionPipeline& offered : attention_fwd)
    if (offered.pipeline == pipeline) return &offered;
  return nullptr;
}

Result<CudaSpec> parse_cuda_spec(std::string_view file, std::string_view text) {
  TS_ASSIGN(const nlohmann::json document, JsonReader::parse(file, text));
  const JsonReader root(std::string(file), document);
  TS_TRY(root.only({"arch", "about", "source", "tested", "compute_capability", "warp_size", "threads_per_block",
                    "threads_per_sm", "blocks_per_sm", "registers", "shared", "reference", "instructions",
                    "attention_fwd", "attention_bwd", "gemm", "conv"}));
  CudaSpec spec;
  TS_ASSIGN(const std::string arch, root.at("arch").string());
  auto name = ArchName::parse(arch);
  if (!name) return std::unexpected(name.error().in(root.at("arch").place()));
  spec.arch = *name;
  TS_ASSIGN(spec.about, root.at("about").string());
  TS_ASSIGN(spec.source, root.at("source").string());
  TS_ASSIGN(spec.tested, root.at("tested").boolean());
  const JsonReader capability = root.at("compute_capability");
  TS_ASSIGN(const std::vector<int> numbers, capability.integers(0, 99));
  if (numbers.size() != 2) return capability.refuse("[major, minor]");
  spec.major = numbers[0];
  spec.minor = numbers[1];
  // The compiler is told the name, so the two must be one fact.
  if (arch != fmt::format("sm_{}{}", spec.major, spec.minor) && arch != fmt::format("sm_{}{}a", spec.major, spec.minor))
    return capability.refuse(fmt::format("the figures of {}", arch));
  TS_TRY(read_limits(root, spec));
  TS_ASSIGN(spec.reference, read_reference(root.at("reference")));
  TS_ASSIGN(const auto instructions, root.at("instructions").members());
  for (const auto& [instruction, types] : instructions) {
    auto parsed = parse_enum<Instruction>(instruction);
    if (!parsed) return std::unexpected(parsed.error().in(types.place()));
    TS_ASSIGN(auto data_types, read_data_types(types));
    spec.instructions.push_back({*parsed, std::move(data_types)});
  }
  TS_TRY(read_attention(root.at("attention_fwd"), spec));
  if (root.has("attention_bwd")) {
    TS_ASSIGN(spec.attention_bwd, read_cuda_backward(root.at("attention_bwd")));
  }
  TS_ASSIGN(spec.gemm, read_cuda_gemm(root.at("gemm")));
  if (root.has("conv")) {
    TS_ASSIGN(spec.conv, read_cuda_conv(root.at("conv")));
  }
  return spec;
}

Result<std::vector<CudaSpec>> load_cuda_specs() {
  TS_ASSIGN(const std::vector<std::string> files, spec_files("cuda"));
  std::vector<CudaSpec> specs;
  for (const std::string& file : files) {
    TS_ASSIGN(const std::string text, spec_file_text(file));
    TS_ASSIGN(CudaSpec spec, parse_cuda_spec(file, text));
    specs.push_back(std::move(spec));
  }
  std::ranges::stable_sort(specs, {}, [](const CudaSpec& spec) { return std::pair(spec.major, spec.minor); });
  return specs;
}

Result<const CudaSpec*> spec_for(const std::vector<CudaSpec>& specs, int major, int minor) {
  const CudaSpec* best = nullptr;
  for (const CudaSpec& spec : specs) {
    if (spec.major != major || spec.minor > minor) continue;
    if (spec.is_chip_specific()) {
      if (spec.minor == minor) return &spec;
    } else if (best == nullptr || spec.minor > best->minor) {
      best = &spec;
    }
  }
  if (best != nullptr) return best;
  std::vector<std::string_view> known;
  for (const CudaSpec& spec : specs) known.push_back(spec.arch.text());
  return fail(ErrorCode::unsupported,
              fmt::format("no architecture is known for compute capability {}.{}", major, minor),
              fmt::format("{}; TILESMITH_SPEC_DIR can add one", fmt::join(known, ", ")));
}

}  // namespace tilesmith
