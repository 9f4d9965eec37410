// Attention backward: the gradients of q, k and v.
#include <algorithm>

#include "drop_in/answer.hpp"
#include "drop_in/attention/session.hpp"
#include "drop_in/attention/traits.hpp"
#include "problem/attention_backward/shared_fields.hpp"
#include "problem/derive.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith::drop_in {
namespace {

struct BackwardCall {
  const void *q, *k, *v, *o, *lse, *dout;
  void *dq, *dk, *dv;
  AttentionSizes sizes;
  float scale;
  AttentionFeatures features;
  bool dbias;
  Determinism determinism;
};

Result<double> seconds_of(const BackwardCall& call) {
  TS_ASSIGN(const auto session, attention_session());
  TS_ASSIGN(const AttentionProblem forward, problem_of(call.sizes, call.features));
  auto p = with_shared_fields<AttentionBackwardProblem>(forward);
  p.dbias = call.dbias;
  TS_TRY(validate(p));
  TS_ASSIGN(const std::unique_ptr<Memory> memory, open_memory(session->device()));

  const std::int64_t total_q = p.batch * p.seqlen_q, total_k = p.batch * p.seqlen_k;
  const std::size_t q_bytes = tensor_bytes(p.batch, p.heads_q, p.seqlen_q, p.head_dim_qk, p.data_type);
  const std::size_t k_bytes = tensor_bytes(p.batch, p.heads_kv, p.seqlen_k, p.head_dim_qk, p.data_type);
  const std::size_t v_bytes = tensor_bytes(p.batch, p.heads_kv, p.seqlen_k, p.head_dim_v, p.data_type);
  const std::size_t o_bytes = tensor_bytes(p.batch, p.heads_q, p.seqlen_q, p.head_dim_v, p.data_type);
  AttentionBackwardArguments arguments = dense_arguments(p, AttentionLayout::bhsd, total_q, total_k);
  AttentionArguments& inputs = arguments.forward;
  TS_ASSIGN(inputs.q, memory->input(call.q, q_bytes));
  TS_ASSIGN(inputs.k, memory->input(call.k, k_bytes));
  TS_ASSIGN(inputs.v, memory->input(call.v, v_bytes));
  // The forward's outputs, which backward only reads.
  TS_ASSIGN(const void* const o, memory->input(call.o, o_bytes));
  inputs.o = const_cast<void*>(o);
  TS_ASSIGN(const void* const lse,
            memory->input(call.lse, tensor_bytes(p.batch, p.heads_q, p.seqlen_q, 1, DataType::fp32)));
  inputs.lse = static_cast<float*>(const_cast<void*>(lse));
  TS_ASSIGN(arguments.dout, memory->input(call.dout, o_bytes));
  TS_ASSIGN(arguments.dq, memory->output(call.dq, q_bytes));
  TS_ASSIGN(arguments.dk, memory->output(call.dk, k_bytes));
  TS_ASSIGN(arguments.dv, memory->output(call.dv, v_bytes));
  TS_TRY(set_features(forward, call.scale, *memory, inputs));
  inputs.total_q = total_q;
  inputs.total_k = total_k;
  if (p.dbias) {
    TS_ASSIGN(void* dbias, memory->zeros(tensor_bytes(p.batch, p.heads_q, p.seqlen_q, p.seqlen_k, DataType::fp32)));
    arguments.dbias = static_cast<float*>(dbias);
  }

  Dispatcher& dispatcher = session->dispatcher();
  DispatcherOptions options = dispatcher.options();
  options.determinism = call.determinism;
  TS_ASSIGN(const AttentionBackwardPlan* plan, dispatcher.plan(derived(p, arguments), options));
  TS_ASSIGN(const double seconds,
            memory->run([&](const RunOptions& where) { return plan->run(arguments, where); }, kAttentionRepeats));
  TS_TRY(memory->finish());
  return seconds;
}

}  // namespace
}  // namespace tilesmith::drop_in

using namespace tilesmith;

int fmha_dispatcher_run_bwd(const void* q, const void* k, const void* v, const void* o, const void* lse,
                            const void* d_o, void* dq, void* dk, void* dv, int batch, int nhead_q, int nhead_k,
                            int seqlen_q, int seqlen_k, int hdim_q, int hdim_v, float scale, const char* data_type,
                            int mask_type, int bias_type, int has_dropout, int has_dbias, int is_deterministic,
                            int is_group_mode, int, int, float* time_ms_out) {
  constexpr std::string_view name = "fmha_dispatcher_run_bwd";
  if (drop_in::any_is_null(
          name,
          {{"q", q}, {"k", k}, {"v", v}, {"o", o}, {"lse", lse}, {"d_o", d_o}, {"dq", dq}, {"dk", dk}, {"dv", dv}}))
    return TILESMITH_CK_FAILED;
  return drop_in::answer(name, [&]() -> Status {
    TS_ASSIGN(const double seconds,
              drop_in::seconds_of(drop_in::BackwardCall{
                  .q = q,
                  .k = k,
                  .v = v,
                  .o = o,
                  .lse = lse,
                  .dout = d_o,
                  .dq = dq,
                  .dk = dk,
                  .dv = dv,
                  .sizes = {batch, nhead_q, nhead_k, seqlen_q, seqlen_k, hdim_q, hdim_v},
                  .scale = scale,
                  .features = {.data_type = data_type,
                               .mask = mask_type,
                               .bias = bias_type,
                               .group = is_group_mode,
                               .lse = 1,
                               .dropout = has_dropout},
                  .dbias = has_dbias != 0,
                  .determinism = is_deterministic != 0 ? Determinism::bitwise : Determinism::tolerant}));
    if (time_ms_out != nullptr) *time_ms_out = static_cast<float>(seconds * 1e3);
    return {};
  });
}
