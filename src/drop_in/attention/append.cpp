// Appending to caches that live no longer than the call, as a benchmark has them; fmha_dispatcher_appended returns
// them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "drop_in/answer.hpp"
#include "drop_in/attention/pages.hpp"
#include "drop_in/attention/session.hpp"
#include "drop_in/attention/traits.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith::drop_in {
namespace {

struct AppendCall {
  const void *q, *k, *v;
  AttentionSizes sizes;  ///< seqlen_k: the new tokens
  const char* data_type;
  int v_is_rows;
  int rope;
  int page_size;  ///< 0: a cache without pages
};

constexpr double kRotaryBase = 10000;

/// Cosines and sines of positions, a row for each.
struct RotaryTable {
  std::vector<float> cos, sin;
};

RotaryTable rotary_table(std::int64_t positions, std::int64_t dim) {
  RotaryTable table;
  for (std::int64_t position = 0; position < positions; ++position)
    for (std::int64_t pair = 0; pair < dim / 2; ++pair) {
      const double angle = static_cast<double>(position) *
                           std::pow(kRotaryBase, -2.0 * static_cast<double>(pair) / static_cast<double>(dim));
      table.cos.push_back(static_cast<float>(std::cos(angle)));
      table.sin.push_back(static_cast<float>(std::sin(angle)));
    }
  return table;
}

Result<Rotary> rotary_of(int rope, std::int64_t positions, std::int64_t dim, Memory& memory) {
  if (rope == 0) return Rotary{};
  if (rope != 1 && rope != 2)
    return fail(ErrorCode::unsupported, fmt::format("rope_type is {}", rope), "0 none, 1 interleaved, 2 half");
  if (dim % 2 != 0) return fail(ErrorCode::unsupported, fmt::format("a head dim of {} is turned", dim), "an even one");
  RotaryTable table = rotary_table(positions, dim);
  Rotary rotary{.dim = dim,
                .style = rope == 1 ? RotaryStyle::interleaved : RotaryStyle::half,
                .row_stride = dim / 2,
                .positions = positions};
  TS_ASSIGN(rotary.cos, memory.keep(std::move(table.cos)));
  TS_ASSIGN(rotary.sin, memory.keep(std::move(table.sin)));
  return rotary;
}

AttentionStrides dense(std::int64_t heads, std::int64_t rows, std::int64_t dim) {
  return {heads * rows * dim, rows * dim, dim};
}

/// Turns q as if it were new keys for a cache of its own, because all queries of a sequence have the position of its
/// first new key (Composable Kernel's kernel without a mask), and their number may differ from that of the keys.
Result<AppendKv> turned_queries(const AppendKv& keys, const void* q, void* q_out, std::int64_t heads, std::int64_t rows,
                                Memory& memory) {
  AppendKv call = keys;
  call.heads_kv = heads;
  call.head_dim_v = keys.head_dim_qk;
  call.seqlen = rows;
  call.page_size = rows;
  call.k = call.v = q;
  call.k_strides = call.v_strides = call.k_cache_strides = call.v_cache_strides = dense(heads, rows, keys.head_dim_qk);
  call.k_cache = q_out;
  TS_ASSIGN(call.v_cache, memory.zeros(tensor_bytes(keys.batch, heads, rows, keys.head_dim_qk, keys.data_type)));
  std::vector<std::int64_t> slots(static_cast<std::size_t>(keys.batch * rows));
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<std::int64_t>(i);
  const std::vector<std::int64_t> positions(slots.size(), rows);  // behind the seqlen_q tokens that the cache has
  call.pages = {.num_pages = keys.batch};
  TS_ASSIGN(call.slots, memory.keep(std::move(slots)));
  TS_ASSIGN(call.positions, memory.keep(positions));
  return call;
}

Result<double> seconds_of(const AppendCall& given) {
  TS_ASSIGN(const auto session, attention_session());
  TS_TRY(check_v_is_rows(given.v_is_rows));
  TS_ASSIGN(const AttentionProblem p, problem_of(given.sizes, {.data_type = given.data_type}));
  TS_ASSIGN(const std::unique_ptr<Memory> memory, open_memory(session->device()));

  const std::int64_t before = p.seqlen_q, capacity = before + p.seqlen_k;
  AppendKv call;
  call.data_type = p.data_type;
  call.batch = p.batch;
  call.heads_kv = p.heads_kv;
  call.head_dim_qk = p.head_dim_qk;
  call.head_dim_v = p.head_dim_v;
  call.seqlen = p.seqlen_k;
  call.page_size = given.page_size == 0 ? capacity : given.page_size;
  TS_ASSIGN(call.pages, pages_in_order(p.batch, capacity, before, call.page_size, false, *memory));
  const std::size_t q_bytes = tensor_bytes(p.batch, p.heads_q, p.seqlen_q, p.head_dim_qk, p.data_type);
  TS_ASSIGN(call.k, memory->input(given.k, tensor_bytes(p.batch, p.heads_kv, call.seqlen, p.head_dim_qk, p.data_type)));
  TS_ASSIGN(call.v, memory->input(given.v, tensor_bytes(p.batch, p.heads_kv, call.seqlen, p.head_dim_v, p.data_type)));
  call.k_strides = dense(p.heads_kv, call.seqlen, p.head_dim_qk);
  call.v_strides = dense(p.heads_kv, call.seqlen, p.head_dim_v);
  const std::size_t k_bytes =
      tensor_bytes(call.pages.num_pages, p.heads_kv, call.page_size, p.head_dim_qk, p.data_type);
  const std::size_t v_bytes = tensor_bytes(call.pages.num_pages, p.heads_kv, call.page_size, p.head_dim_v, p.data_type);
  TS_ASSIGN(call.k_cache, memory->zeros(k_bytes));
  TS_ASSIGN(call.v_cache, memory->zeros(v_bytes));
  call.k_cache_strides = dense(p.heads_kv, call.page_size, p.head_dim_qk);
  call.v_cache_strides = dense(p.heads_kv, call.page_size, p.head_dim_v);
  TS_ASSIGN(call.rotary, rotary_of(given.rope, capacity, p.head_dim_qk, *memory));

  TS_ASSIGN(const void* const q, memory->input(given.q, q_bytes));
  const void* q_after = q;
  AppendKv queries;
  if (given.rope != 0) {
    TS_ASSIGN(void* const turned, memory->zeros(q_bytes));
    TS_ASSIGN(queries, turned_queries(call, q, turned, p.heads_q, p.seqlen_q, *memory));
    q_after = turned;
  }
  Dispatcher& dispatcher = session->dispatcher();
  TS_ASSIGN(const double seconds, memory->run(
                                      [&](const RunOptions& options) -> Status {
                                        TS_TRY(dispatcher.append_kv(call, options));
                                        if (given.rope == 0) return {};
                                        return dispatcher.append_kv(queries, options);
                                      },
                                      kAttentionRepeats));

  Appended appended{std::vector<std::byte>(q_bytes), std::vector<std::byte>(k_bytes), std::vector<std::byte>(v_bytes)};
  TS_TRY(memory->read(appended.q.data(), q_after, q_bytes));
  TS_TRY(memory->read(appended.k.data(), call.k_cache, k_bytes));
  TS_TRY(memory->read(appended.v.data(), call.v_cache, v_bytes));
  session->keep(std::move(appended));
  return seconds;
}

Status copy_appended(void* q, void* k, void* v) {
  TS_ASSIGN(const auto session, attention_session());
  const auto appended = session->appended();
  if (!appended) return fail(ErrorCode::not_found, "nothing was appended", "call fmha_dispatcher_run_appendkv first");
  TS_ASSIGN(const std::unique_ptr<Memory> memory, open_memory(session->device()));
  const auto copy = [&](void* to, const std::vector<std::byte>& from) -> Status {
    return to == nullptr ? Status{} : memory->read(to, from.data(), from.size());
  };
  TS_TRY(copy(q, appended->q));
  TS_TRY(copy(k, appended->k));
  return copy(v, appended->v);
}

}  // namespace
}  // namespace tilesmith::drop_in

using namespace tilesmith;

int fmha_dispatcher_run_appendkv(const void* q, const void* knew, const void* vnew, int batch, int nhead_q, int nhead_k,
                                 int seqlen_q, int seqlen_knew, int hdim_q, int hdim_v, int is_v_rowmajor,
                                 int rope_type, int paged_kv, int page_block_size, const char* data_type,
                                 float* time_ms_out) {
  constexpr std::string_view name = "fmha_dispatcher_run_appendkv";
  if (drop_in::any_is_null(name, {{"q", q}, {"knew", knew}, {"vnew", vnew}})) return TILESMITH_CK_FAILED;
  return drop_in::answer(name, [&]() -> Status {
    TS_ASSIGN(const double seconds, drop_in::seconds_of(drop_in::AppendCall{
                                        .q = q,
                                        .k = knew,
                                        .v = vnew,
                                        .sizes = {batch, nhead_q, nhead_k, seqlen_q, seqlen_knew, hdim_q, hdim_v},
                                        .data_type = data_type,
                                        .v_is_rows = is_v_rowmajor,
                                        .rope = rope_type,
                                        .page_size = paged_kv != 0 ? drop_in::page_size_of(page_block_size) : 0}));
    if (time_ms_out != nullptr) *time_ms_out = static_cast<float>(seconds * 1e3);
    return {};
  });
}

int fmha_dispatcher_appended(void* q, void* k, void* v) {
  return drop_in::answer("fmha_dispatcher_appended", [&] { return drop_in::copy_appended(q, k, v); });
}
