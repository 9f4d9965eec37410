#include "drop_in/attention/forward.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "drop_in/answer.hpp"
#include "drop_in/attention/pages.hpp"
#include "drop_in/attention/session.hpp"
#include "problem/derive.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith::drop_in {
namespace {

/// Keys or values of a cache, as our kernels read them.
Result<const void*> page_rows(const void* given, std::int64_t heads, std::int64_t tokens, std::int64_t dim,
                              DataType type, bool along_dim, PageLayout layout, Memory& memory) {
  const std::size_t bytes = tensor_bytes(1, heads, tokens, dim, type);
  if (layout == PageLayout::rows) return memory.input(given, bytes);
  std::vector<std::byte> vectorized(bytes);
  TS_TRY(memory.read(vectorized.data(), given, bytes));
  TS_ASSIGN(std::vector<std::byte> rows,
            as_rows(vectorized, heads, tokens, dim, static_cast<std::size_t>(bits_of(type)) / 8, along_dim));
  return memory.keep(std::move(rows));
}

Result<double> seconds_of(const ForwardCall& call) {
  TS_ASSIGN(const auto session, attention_session());
  TS_TRY(check_v_is_rows(call.v_is_rows));
  TS_ASSIGN(AttentionProblem problem, problem_of(call.sizes, call.features));
  problem.page_size = call.page_size;
  problem.splits = call.splits;
  TS_TRY(validate(problem));
  TS_ASSIGN(const std::unique_ptr<Memory> memory, open_memory(session->device()));

  const DataType in = input_type(problem.data_type), out = output_type(problem.data_type);
  const std::int64_t b = problem.batch;
  AttentionArguments arguments = dense_arguments(problem, call.layout, b * problem.seqlen_q, b * problem.seqlen_k);
  TS_ASSIGN(arguments.q,
            memory->input(call.q, tensor_bytes(b, problem.heads_q, problem.seqlen_q, problem.head_dim_qk, in)));
  TS_ASSIGN(arguments.o,
            memory->output(call.o, tensor_bytes(b, problem.heads_q, problem.seqlen_q, problem.head_dim_v, out)));
  if (call.page_size == 0) {
    TS_ASSIGN(arguments.k,
              memory->input(call.k, tensor_bytes(b, problem.heads_kv, problem.seqlen_k, problem.head_dim_qk, in)));
    TS_ASSIGN(arguments.v,
              memory->input(call.v, tensor_bytes(b, problem.heads_kv, problem.seqlen_k, problem.head_dim_v, in)));
  } else {
    TS_ASSIGN(arguments.pages,
              pages_in_order(b, problem.seqlen_k, problem.seqlen_k, problem.page_size, call.page_list, *memory));
    const std::int64_t heads = arguments.pages.num_pages * problem.heads_kv;
    TS_ASSIGN(arguments.k,
              page_rows(call.k, heads, problem.page_size, problem.head_dim_qk, in, true, call.page_layout, *memory));
    TS_ASSIGN(arguments.v,
              page_rows(call.v, heads, problem.page_size, problem.head_dim_v, in, false, call.page_layout, *memory));
    const AttentionArguments by_head = dense_arguments(problem, AttentionLayout::bhsd, b * problem.seqlen_q);
    arguments.k_strides = by_head.k_strides;
    arguments.v_strides = by_head.v_strides;
  }
  TS_TRY(set_features(problem, call.scale, *memory, arguments));
  arguments.total_q = b * problem.seqlen_q;
  arguments.total_k = b * problem.seqlen_k;
  if (problem.lse) {
    TS_ASSIGN(void* lse, memory->zeros(tensor_bytes(b, problem.heads_q, problem.seqlen_q, 1, DataType::fp32)));
    arguments.lse = static_cast<float*>(lse);
  }

  TS_ASSIGN(const AttentionPlan* plan, session->dispatcher().plan(derived(problem, arguments)));
  TS_ASSIGN(const double seconds,
            memory->run([&](const RunOptions& options) { return plan->run(arguments, options); }, kAttentionRepeats));
  TS_TRY(memory->finish());
  return seconds;
}

}  // namespace

int run_forward(std::string_view name, const ForwardCall& call, float* milliseconds) {
  if (any_is_null(name, {{"q", call.q}, {"k", call.k}, {"v", call.v}, {"o", call.o}})) return TILESMITH_CK_FAILED;
  return answer(name, [&]() -> Status {
    TS_ASSIGN(const double seconds, seconds_of(call));
    if (milliseconds != nullptr) *milliseconds = static_cast<float>(seconds * 1e3);
    return {};
  });
}

}  // namespace tilesmith::drop_in

using namespace tilesmith;
using drop_in::ForwardCall;

namespace {

/// No system maps anything below.
constexpr std::uintptr_t kLeastAddress = 4096;

}  // namespace

int fmha_dispatcher_run_fwd(const void* q, const void* k, const void* v, void* o, int batch, int nhead_q, int nhead_k,
                            int seqlen_q, int seqlen_k, int hdim_q, int hdim_v, float scale, int mask_type,
                            int bias_type, int has_lse, int has_dropout, int traits_hdim_q, int traits_hdim_v,
                            int is_v_rowmajor, int perm, const char* data_type, int is_group_mode, int window_left,
                            int window_right, int has_logits, int has_sink, int, float* time_ms_out) {
  constexpr std::string_view name = "fmha_dispatcher_run_fwd";
  if ((traits_hdim_q > 0 && traits_hdim_q < hdim_q) || (traits_hdim_v > 0 && traits_hdim_v < hdim_v)) {
    log_error("{}: kernels of head dims {} and {} do not serve {} and {}", name, traits_hdim_q, traits_hdim_v, hdim_q,
              hdim_v);
    return TILESMITH_CK_NO_KERNEL;
  }
  ForwardCall call{q, k, v, o, {batch, nhead_q, nhead_k, seqlen_q, seqlen_k, hdim_q, hdim_v}, scale};
  call.features = {data_type,     mask_type, window_left, window_right, bias_type,
                   is_group_mode, has_lse,   has_dropout, has_logits,   has_sink};
  call.v_is_rows = is_v_rowmajor;
  call.layout = drop_in::layout_of(perm);
  return run_forward(name, call, time_ms_out);
}

int fmha_dispatcher_run_splitkv(const void* q, const void* k, const void* v, void* o, int batch, int nhead_q,
                                int nhead_k, int seqlen_q, int seqlen_k, int hdim_q, int hdim_v, float scale,
                                int mask_type, int num_splits, int is_v_rowmajor, const char* data_type, int has_lse,
                                int is_group_mode, int perm, int has_logits, int bias_type, int has_sink, int paged_kv,
                                int page_block_size, int window_left, int window_right, float* time_ms_out) {
  ForwardCall call{q, k, v, o, {batch, nhead_q, nhead_k, seqlen_q, seqlen_k, hdim_q, hdim_v}, scale};
  call.features = {data_type,     mask_type, window_left, window_right, bias_type,
                   is_group_mode, has_lse,   0,           has_logits,   has_sink};
  call.v_is_rows = is_v_rowmajor;
  call.layout = drop_in::layout_of(perm);
  call.splits = num_splits;
  if (paged_kv != 0) call.page_size = drop_in::page_size_of(page_block_size);
  return run_forward("fmha_dispatcher_run_splitkv", call, time_ms_out);
}

int fmha_dispatcher_run_pagedkv(const void* q, const void* k, const void* v, void* o, int batch, int nhead_q,
                                int nhead_k, int seqlen_q, int seqlen_k, int hdim_q, int hdim_v, float scale,
                                int mask_type, int page_block_size, int is_v_rowmajor, const char* data_type,
                                int has_lse, int has_logits, int has_sink, int, int bias_type, float* time_ms_out) {
  ForwardCall call{q, k, v, o, {batch, nhead_q, nhead_k, seqlen_q, seqlen_k, hdim_q, hdim_v}, scale};
  call.features = {data_type, mask_type, -1, -1, bias_type, 1, has_lse, 0, has_logits, has_sink};
  call.v_is_rows = is_v_rowmajor;
  call.layout = AttentionLayout::bshd;
  call.page_size = drop_in::page_size_of(page_block_size);
  return run_forward("fmha_dispatcher_run_pagedkv", call, time_ms_out);
}

int fmha_dispatcher_run_batch_prefill(const void* q, const void* k, const void* v, void* o, int batch, int nhead_q,
                                      int nhead_k, int seqlen_q, int seqlen_k, int hdim_q, int hdim_v, float scale,
                                      int mask_type, int bias_type, int page_block_size, int kv_layout, int kv_lookup,
                                      int is_v_rowmajor, const char* data_type, int has_lse, int has_dropout,
                                      int has_logits, int has_sink, int, float* time_ms_out) {
  constexpr std::string_view name = "fmha_dispatcher_run_batch_prefill";
  if (time_ms_out != nullptr && reinterpret_cast<std::uintptr_t>(time_ms_out) < kLeastAddress) {
    log_error("{}: time_ms_out is {}, no address: the later form of this function, with scales, is not served", name,
              reinterpret_cast<std::uintptr_t>(time_ms_out));
    return TILESMITH_CK_NO_KERNEL;
  }
  if (kv_layout < 0 || kv_layout > 1 || kv_lookup < 0 || kv_lookup > 1) {
    log_error("{}: kv_layout is {} and kv_lookup {}, of which each is 0 or 1", name, kv_layout, kv_lookup);
    return TILESMITH_CK_NO_KERNEL;
  }
  ForwardCall call{q, k, v, o, {batch, nhead_q, nhead_k, seqlen_q, seqlen_k, hdim_q, hdim_v}, scale};
  call.features = {data_type, mask_type, -1, -1, bias_type, 1, has_lse, has_dropout, has_logits, has_sink};
  call.v_is_rows = is_v_rowmajor;
  call.layout = AttentionLayout::bshd;
  call.page_size = drop_in::page_size_of(page_block_size);
  if (kv_layout == 0) call.page_layout = drop_in::PageLayout::vectorized;
  call.page_list = kv_lookup == 1;
  return run_forward(name, call, time_ms_out);
}
