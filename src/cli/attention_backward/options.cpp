#include "cli/attention_backward/options.hpp"

#include "cli/tensor_file.hpp"

namespace tilesmith::cli {

void AttentionBackwardOptions::add_to(CLI::App& verb) {
  problem.add_to(verb);
  const char* files = "Tensors: x.npy or x.safetensors:name; random when absent";
  verb.add_option("--q", q, "Queries")->group(files);
  verb.add_option("--k", k, "Keys")->group(files);
  verb.add_option("--v", v, "Values")->group(files);
  verb.add_option("--bias", bias, "A bias that broadcasts to (batch, heads, seqlen_q, seqlen_k)")->group(files);
  verb.add_option("--alibi", alibi, "ALiBi slopes, (heads) or (batch, heads)")->group(files);
  verb.add_option("--sink", sink, "Sink logits, (heads)")->group(files);
  verb.add_option("--dout", dout, "The gradient of the output")->group(files);
  verb.add_option("--cu-seqlens-q", cu_seqlens_q, "batch + 1 offsets: group mode")->group(files);
  verb.add_option("--cu-seqlens-k", cu_seqlens_k, "batch + 1 offsets: group mode")->group(files);
  verb.add_option("--dq-out", dq, "Where to write the gradient of q")->group(files);
  verb.add_option("--dk-out", dk, "Where to write the gradient of k")->group(files);
  verb.add_option("--dv-out", dv, "Where to write the gradient of v")->group(files);
  verb.add_option("--dbias-out", dbias, "Where to write the gradient of the bias")->group(files);
  verb.add_option("--dalibi-out", dalibi, "Where to write the gradient of the slopes")->group(files);
  verb.add_option("--dsink-out", dsink, "Where to write the gradient of the sink logits")->group(files);
}

Result<CallOnFiles<AttentionBwd>> read_call_on_files(const AttentionBackwardOptions& options) {
  std::vector<GivenOption> given = options.problem.given();
  AttentionBackwardInputs inputs;
  for (const auto& [file, array] : {std::pair{&options.q, &inputs.forward.q},
                                    {&options.k, &inputs.forward.k},
                                    {&options.v, &inputs.forward.v},
                                    {&options.bias, &inputs.forward.bias},
                                    {&options.alibi, &inputs.forward.alibi},
                                    {&options.sink, &inputs.forward.sink},
                                    {&options.dout, &inputs.dout}}) {
    if (file->empty()) continue;
    TS_ASSIGN(*array, read_tensor(*file));
  }
  if (options.cu_seqlens_q.empty() != options.cu_seqlens_k.empty())
    return fail(ErrorCode::invalid_argument, "only one of --cu-seqlens-q and --cu-seqlens-k is given",
                "both, in group mode");
  if (!options.cu_seqlens_q.empty()) {
    TS_ASSIGN(inputs.forward.cu_seqlens_q, read_offsets(options.cu_seqlens_q));
    TS_ASSIGN(inputs.forward.cu_seqlens_k, read_offsets(options.cu_seqlens_k));
    give_unless_given(given, "--mode", "group");
  }
  if (!options.bias.empty()) give_unless_given(given, "--random-bias");
  if (!options.alibi.empty()) give_unless_given(given, "--random-alibi");
  if (!options.sink.empty()) give_unless_given(given, "--random-sink");
  if (!options.dbias.empty()) give_unless_given(given, "--dbias");
  if (!options.dalibi.empty()) give_unless_given(given, "--dalibi");
  if (!options.dsink.empty()) give_unless_given(given, "--dsink");
  TS_ASSIGN(RandomCall<AttentionBwd> call, read_call<AttentionBwd>(given));
  return CallOnFiles<AttentionBwd>{std::move(call), std::move(inputs)};
}

}  // namespace tilesmith::cli
