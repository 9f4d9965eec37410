#include "cli/attention/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/attention/tree_mask.hpp"
#include "cli/tensor_file.hpp"

namespace tilesmith::cli {

void AttentionOptions::add_to(CLI::App& verb) {
  problem.add_to(verb);
  const char* files = "Tensors: x.npy or x.safetensors:name; random when absent";
  verb.add_option("--q", q, "Queries")->group(files);
  verb.add_option("--k", k, "Keys")->group(files);
  verb.add_option("--v", v, "Values")->group(files);
  verb.add_option("--bias", bias, "A bias that broadcasts to (batch, heads, seqlen_q, seqlen_k)")->group(files);
  verb.add_option("--tree-mask", tree_mask,
                  "Which of its sequence's last keys a query sees, (batch, seqlen_q, seqlen_q), not 0: it sees; with "
                  "offsets (rows of q, longest seqlen_q). It becomes the bias")
      ->group(files);
  verb.add_option("--alibi", alibi, "ALiBi slopes, (heads) or (batch, heads)")->group(files);
  verb.add_option("--sink", sink, "Sink logits, (heads)")->group(files);
  verb.add_option("--cu-seqlens-q", cu_seqlens_q, "batch + 1 offsets: group mode")->group(files);
  verb.add_option("--cu-seqlens-k", cu_seqlens_k, "batch + 1 offsets: group mode")->group(files);
  verb.add_option("--out", out, "Where to write the output")->group(files);
  verb.add_option("--lse", lse, "Where to write the log-sum-exp")->group(files);
}

namespace {

struct Sizes {
  SizeOption batch{"batch", "--batch"}, heads_q{"heads_q", "--heads-q"}, heads_kv{"heads_kv", "--heads-kv"},
      seqlen_q{"seqlen_q", "--seqlen-q"}, seqlen_k{"seqlen_k", "--seqlen-k"},
      head_dim_qk{"head_dim_qk", "--head-dim-qk"}, head_dim_v{"head_dim_v", "--head-dim-v"};

  [[nodiscard]] std::array<SizeOption*, 7> all() {
    return {&batch, &heads_q, &heads_kv, &seqlen_q, &seqlen_k, &head_dim_qk, &head_dim_v};
  }
};

Status tell_shape(const char* name, const HostArray& array, bool group, bool bhsd, SizeOption& batch, SizeOption& heads,
                  SizeOption& length, SizeOption& dim) {
  if (array.shape.empty() && array.data.empty()) return {};
  const std::size_t rank = group ? 3 : 4;
  if (array.shape.size() != rank)
    return fail(ErrorCode::invalid_argument, fmt::format("{} has shape {}", name, shape_text(array.shape)),
                group ? fmt::format("({})", bhsd ? "heads, total, dim" : "total, heads, dim")
                      : fmt::format("({})", bhsd ? "batch, heads, length, dim" : "batch, length, heads, dim"));
  const std::string by = fmt::format("the shape {} of {}", shape_text(array.shape), name);
  const std::size_t first = rank - 3;
  if (!group) TS_TRY(batch.dimension.tell(array.shape[0], by));
  TS_TRY(heads.dimension.tell(array.shape[first + (bhsd ? 0 : 1)], by));
  if (!group) TS_TRY(length.dimension.tell(array.shape[first + (bhsd ? 1 : 0)], by));
  return dim.dimension.tell(array.shape[rank - 1], by);
}

std::int64_t longest(const std::vector<std::int32_t>& offsets) {
  std::int64_t most = 0;
  for (std::size_t i = 1; i < offsets.size(); ++i) most = std::max(most, std::int64_t{offsets[i]} - offsets[i - 1]);
  return most;
}

}  // namespace

Result<CallOnFiles<AttentionFwd>> read_call_on_files(const AttentionOptions& options) {
  std::vector<GivenOption> given = options.problem.given();
  AttentionInputs inputs;
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
  SequenceMode mode = offsets ? SequenceMode::group : SequenceMode::batch;
  if (const std::string* text = find_given(given, "--mode")) {
    TS_TRY(read_value_text("--mode", *text, mode));
    if (offsets && mode == SequenceMode::batch)
      return fail(ErrorCode::invalid_argument, "--mode batch with --cu-seqlens-q", "offsets belong to group mode");
  }
  const bool group = mode == SequenceMode::group;
  if (group && !offsets && (!inputs.q.shape.empty() || !inputs.k.shape.empty() || !inputs.v.shape.empty()))
    return fail(ErrorCode::invalid_argument, "group mode with tensors from files but no offsets",
                "--cu-seqlens-q F.npy --cu-seqlens-k F.npy");
  AttentionLayout layout = AttentionNumbers{}.layout;
  if (const std::string* text = find_given(given, "--layout")) TS_TRY(read_value_text("--layout", *text, layout));

  Sizes sizes;
  for (SizeOption* size : sizes.all()) TS_TRY(size->read(given));
  const bool bhsd = layout == AttentionLayout::bhsd;
  const auto tell = [&](const char* name, const HostArray& array, SizeOption& heads, SizeOption& length,
                        SizeOption& dim) {
    return tell_shape(name, array, group, bhsd, sizes.batch, heads, length, dim);
  };
  TS_TRY(tell("q", inputs.q, sizes.heads_q, sizes.seqlen_q, sizes.head_dim_qk));
  TS_TRY(tell("k", inputs.k, sizes.heads_kv, sizes.seqlen_k, sizes.head_dim_qk));
  TS_TRY(tell("v", inputs.v, sizes.heads_kv, sizes.seqlen_k, sizes.head_dim_v));
  if (offsets) {
    const auto count = [](const std::vector<std::int32_t>& list) { return static_cast<std::int64_t>(list.size()) - 1; };
    TS_TRY(sizes.batch.dimension.tell(count(inputs.cu_seqlens_q), "--cu-seqlens-q"));
    TS_TRY(sizes.batch.dimension.tell(count(inputs.cu_seqlens_k), "--cu-seqlens-k"));
    give_unless_given(given, "--seqlen-q", std::to_string(longest(inputs.cu_seqlens_q)));
    give_unless_given(given, "--seqlen-k", std::to_string(longest(inputs.cu_seqlens_k)));
    give_unless_given(given, "--mode", "group");
  }
  for (const SizeOption* size : sizes.all()) size->give(given);
  if (!options.bias.empty() && !options.tree_mask.empty())
    return fail(ErrorCode::invalid_argument, "--bias and --tree-mask are given",
                "one of the two; a bias of -inf hides a key too");
  if (!options.bias.empty() || !options.tree_mask.empty()) give_unless_given(given, "--random-bias");
  if (!options.alibi.empty()) give_unless_given(given, "--random-alibi");
  if (!options.sink.empty()) give_unless_given(given, "--random-sink");
  if (!options.lse.empty()) give_unless_given(given, "--with-lse");

  TS_ASSIGN(RandomCall<AttentionFwd> call, read_call<AttentionFwd>(given));
  if (!options.tree_mask.empty()) {
    TS_ASSIGN(inputs.bias, read_tree_mask(options.tree_mask, call.problem, inputs));
  }
  return CallOnFiles<AttentionFwd>{std::move(call), std::move(inputs)};
}

}  // namespace tilesmith::cli
