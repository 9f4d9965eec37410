#include "cli/attention/options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/dimension.hpp"
#include "cli/tensor_file.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith::cli {

void AttentionOptions::add_to(CLI::App& verb) {
  const char* sizes = "Problem";
  verb.add_option("--batch", batch, "Sequences (default 1)")->group(sizes);
  verb.add_option("--heads-q", heads_q, "Query heads (default 1)")->group(sizes);
  verb.add_option("--heads-kv", heads_kv, "Key and value heads (default: heads-q)")->group(sizes);
  verb.add_option("--seqlen-q", seqlen_q, "Queries of a sequence; group mode: of the longest")->group(sizes);
  verb.add_option("--seqlen-k", seqlen_k, "Keys of a sequence (default: seqlen-q)")->group(sizes);
  verb.add_option("--head-dim-qk", head_dim_qk, "Head dimension of q and k (default 128)")->group(sizes);
  verb.add_option("--head-dim-v", head_dim_v, "Head dimension of v and o (default: head-dim-qk)")->group(sizes);
  verb.add_option("--dtype", dtype, "fp32, fp16, bf16 or fp8e4m3 (which writes bf16)")
      ->capture_default_str()
      ->group(sizes);
  verb.add_option("--layout", layout, "Order of the tensors' dimensions: bhsd or bshd")
      ->capture_default_str()
      ->group(sizes);
  verb.add_option("--mode", mode,
                  "batch, or group for sequences of different lengths (default: group when offsets are given)")
      ->group(sizes);

  const char* traits = "Traits";
  verb.add_option("--mask", mask, "none, top_left or bottom_right (causal)")->capture_default_str()->group(traits);
  verb.add_option("--window", window, "LEFT,RIGHT: keys a query sees on each side; -1 is unbounded")
      ->delimiter(',')
      ->expected(2)
      ->group(traits);
  verb.add_option("--scale", scale, "Factor of the logits (default 1/sqrt(head-dim-qk))")->group(traits);
  verb.add_option("--softcap", softcap, "Soft cap of the logits (0: none)")->group(traits);
  verb.add_option("--bias", bias, "File of a bias that broadcasts to (batch, heads, seqlen_q, seqlen_k)")
      ->group(traits);
  verb.add_option("--alibi", alibi, "File of ALiBi slopes, (heads) or (batch, heads)")->group(traits);
  verb.add_option("--sink", sink, "File of sink logits, (heads)")->group(traits);
  verb.add_flag("--random-bias", random_bias, "A random bias")->group(traits);
  verb.add_flag("--random-alibi", random_alibi, "The usual ALiBi slopes")->group(traits);
  verb.add_flag("--random-sink", random_sink, "Random sink logits")->group(traits);
  verb.add_flag("--with-lse", with_lse, "Compute the log-sum-exp even when --lse names no file")->group(traits);
  verb.add_option("--dropout", dropout, "Probability of dropping a weight")->group(traits);
  verb.add_option("--seed", seed, "Seed of dropout and of random inputs")->capture_default_str()->group(traits);
  verb.add_option("--cu-seqlens-q", cu_seqlens_q, "File of batch + 1 offsets: group mode")->group(traits);
  verb.add_option("--cu-seqlens-k", cu_seqlens_k, "File of batch + 1 offsets: group mode")->group(traits);

  const char* files = "Tensors: x.npy or x.safetensors:name; random when absent";
  verb.add_option("--q", q, "Queries")->group(files);
  verb.add_option("--k", k, "Keys")->group(files);
  verb.add_option("--v", v, "Values")->group(files);
  verb.add_option("--out", out, "Where to write the output")->group(files);
  verb.add_option("--lse", lse, "Where to write the log-sum-exp")->group(files);
}

namespace {

struct Dimensions {
  Dimension batch{"batch"}, heads_q{"heads_q"}, heads_kv{"heads_kv"}, seqlen_q{"seqlen_q"}, seqlen_k{"seqlen_k"},
      head_dim_qk{"head_dim_qk"}, head_dim_v{"head_dim_v"};
};

Status tell_shape(const char* name, const HostArray& array, bool group, bool bhsd, Dimension& batch, Dimension& heads,
                  Dimension& length, Dimension& dim) {
  if (array.shape.empty() && array.data.empty()) return {};
  const std::size_t rank = group ? 3 : 4;
  if (array.shape.size() != rank)
    return fail(ErrorCode::invalid_argument, fmt::format("{} has shape {}", name, shape_text(array.shape)),
                group ? fmt::format("({})", bhsd ? "heads, total, dim" : "total, heads, dim")
                      : fmt::format("({})", bhsd ? "batch, heads, length, dim" : "batch, length, heads, dim"));
  const std::string by = fmt::format("the shape {} of {}", shape_text(array.shape), name);
  const std::size_t first = rank - 3;
  if (!group) TS_TRY(batch.tell(array.shape[0], by));
  TS_TRY(heads.tell(array.shape[first + (bhsd ? 0 : 1)], by));
  if (!group) TS_TRY(length.tell(array.shape[first + (bhsd ? 1 : 0)], by));
  return dim.tell(array.shape[rank - 1], by);
}

std::int64_t longest(const std::vector<std::int32_t>& offsets) {
  std::int64_t most = 0;
  for (std::size_t i = 1; i < offsets.size(); ++i) most = std::max(most, std::int64_t{offsets[i]} - offsets[i - 1]);
  return most;
}

}  // namespace

Result<AttentionCase> make_case(const AttentionOptions& options) {
  AttentionProblem problem;
  AttentionInputs inputs;
  TS_ASSIGN(problem.data_type, parse_enum<DataType>(options.dtype));
  if (problem.data_type == DataType::fp8) problem.data_type = DataType::fp8bf16;  // of the inputs
  TS_ASSIGN(problem.mask, parse_enum<MaskKind>(options.mask));
  if (options.layout != "bhsd" && options.layout != "bshd")
    return fail(ErrorCode::invalid_argument, fmt::format("--layout {}", options.layout), "bhsd or bshd");
  const bool bhsd = options.layout == "bhsd";
  inputs.layout = bhsd ? AttentionLayout::bhsd : AttentionLayout::bshd;
  if (!options.window.empty()) {
    problem.window_left = options.window[0];
    problem.window_right = options.window[1];
  }

  const auto read = [](const std::string& file, HostArray& into) -> Status {
    if (file.empty()) return {};
    TS_ASSIGN(into, read_tensor(file));
    return {};
  };
  TS_TRY(read(options.q, inputs.q));
  TS_TRY(read(options.k, inputs.k));
  TS_TRY(read(options.v, inputs.v));
  TS_TRY(read(options.bias, inputs.bias));
  TS_TRY(read(options.alibi, inputs.alibi));
  TS_TRY(read(options.sink, inputs.sink));
  if (!options.cu_seqlens_q.empty()) {
    TS_ASSIGN(inputs.cu_seqlens_q, read_offsets(options.cu_seqlens_q));
  }
  if (!options.cu_seqlens_k.empty()) {
    TS_ASSIGN(inputs.cu_seqlens_k, read_offsets(options.cu_seqlens_k));
  }
  const bool offsets = !inputs.cu_seqlens_q.empty() || !inputs.cu_seqlens_k.empty();
  if (offsets && (inputs.cu_seqlens_q.empty() || inputs.cu_seqlens_k.empty()))
    return fail(ErrorCode::invalid_argument, "only one of --cu-seqlens-q and --cu-seqlens-k is given",
                "both, in group mode");
  problem.mode = offsets ? SequenceMode::group : SequenceMode::batch;
  if (!options.mode.empty()) {
    TS_ASSIGN(const SequenceMode mode, parse_enum<SequenceMode>(options.mode));
    if (offsets && mode == SequenceMode::batch)
      return fail(ErrorCode::invalid_argument, "--mode batch with --cu-seqlens-q", "offsets belong to group mode");
    problem.mode = mode;
  }
  const bool group = problem.mode == SequenceMode::group;
  if (group && !offsets && (!inputs.q.shape.empty() || !inputs.k.shape.empty() || !inputs.v.shape.empty()))
    return fail(ErrorCode::invalid_argument, "group mode with tensors from files but no offsets",
                "--cu-seqlens-q F.npy --cu-seqlens-k F.npy");

  Dimensions d;
  TS_TRY(d.batch.tell(options.batch, "--batch"));
  TS_TRY(d.heads_q.tell(options.heads_q, "--heads-q"));
  TS_TRY(d.heads_kv.tell(options.heads_kv, "--heads-kv"));
  TS_TRY(d.seqlen_q.tell(options.seqlen_q, "--seqlen-q"));
  TS_TRY(d.seqlen_k.tell(options.seqlen_k, "--seqlen-k"));
  TS_TRY(d.head_dim_qk.tell(options.head_dim_qk, "--head-dim-qk"));
  TS_TRY(d.head_dim_v.tell(options.head_dim_v, "--head-dim-v"));
  TS_TRY(tell_shape("q", inputs.q, group, bhsd, d.batch, d.heads_q, d.seqlen_q, d.head_dim_qk));
  TS_TRY(tell_shape("k", inputs.k, group, bhsd, d.batch, d.heads_kv, d.seqlen_k, d.head_dim_qk));
  TS_TRY(tell_shape("v", inputs.v, group, bhsd, d.batch, d.heads_kv, d.seqlen_k, d.head_dim_v));
  if (offsets) {
    TS_TRY(d.batch.tell(static_cast<std::int64_t>(inputs.cu_seqlens_q.size()) - 1, "--cu-seqlens-q"));
    TS_TRY(d.batch.tell(static_cast<std::int64_t>(inputs.cu_seqlens_k.size()) - 1, "--cu-seqlens-k"));
  }
  problem.batch = d.batch.or_else(1);
  problem.heads_q = d.heads_q.or_else(1);
  problem.heads_kv = d.heads_kv.or_else(problem.heads_q);
  problem.seqlen_q = d.seqlen_q.or_else(offsets ? longest(inputs.cu_seqlens_q) : 512);
  problem.seqlen_k = d.seqlen_k.or_else(offsets ? longest(inputs.cu_seqlens_k) : problem.seqlen_q);
  problem.head_dim_qk = d.head_dim_qk.or_else(128);
  problem.head_dim_v = d.head_dim_v.or_else(problem.head_dim_qk);

  const bool bias = !options.bias.empty() || options.random_bias;
  const bool alibi = !options.alibi.empty() || options.random_alibi;
  if (bias && alibi) return fail(ErrorCode::invalid_argument, "both a bias and ALiBi slopes", "one of them");
  problem.bias = bias ? BiasKind::elementwise : alibi ? BiasKind::alibi : BiasKind::none;
  problem.sink = !options.sink.empty() || options.random_sink;
  problem.soft_cap = options.softcap != 0;
  problem.dropout = options.dropout != 0;
  problem.lse = !options.lse.empty() || options.with_lse;
  inputs.scale = options.scale;
  inputs.soft_cap = options.softcap;
  inputs.dropout_probability = options.dropout;
  inputs.seed = options.seed;
  return AttentionCase::create(problem, std::move(inputs));
}

}  // namespace tilesmith::cli
