// Serving's calls without a plan: merging partial results, writing into a cache.
#include <fmt/format.h>

#include <cstddef>

#include "capi/call_checks.hpp"
#include "capi/context.hpp"
#include "capi/device.hpp"
#include "capi/last_error.hpp"
#include "capi/sized_struct.hpp"
#include "tilesmith/serving.hpp"
#include "tilesmith/tree_mask.hpp"

using namespace tilesmith;

namespace {

AttentionStrides strides_in(const tilesmith_strides& s) {
  return {s.batch, s.head, s.row};
}

AttentionScale scale_in(const tilesmith_scale& s) {
  return {s.data, s.batch, s.head, s.block};
}

static_assert(TILESMITH_KV_FP8 == static_cast<int>(KvElements::fp8));
static_assert(TILESMITH_KV_INT8 == static_cast<int>(KvElements::int8));
static_assert(TILESMITH_ROTARY_HALF == static_cast<int>(RotaryStyle::half));
static_assert(TILESMITH_ROTARY_INTERLEAVED == static_cast<int>(RotaryStyle::interleaved));

}  // namespace

tilesmith_status tilesmith_merge_states(tilesmith_context* context, const tilesmith_states* given) {
  return capi::guarded([&]() -> Status {
    tilesmith_states room;
    TS_ASSIGN(const tilesmith_states* c,
              capi::read_struct("tilesmith_states", given, {offsetof(tilesmith_states, stream)}, room));
    TS_TRY(capi::check_enum("data_type", c->data_type, TILESMITH_BF16, "TILESMITH_FP32, _FP16 or _BF16"));
    TS_TRY(capi::check_unused("reserved", c->reserved != 0, "leave it 0"));
    tilesmith_context& in = capi::context_or_default(context);
    TS_ASSIGN(const Device device, capi::device_from_c(c->device, in.device()));
    return in.dispatcher(device).merge_states({.data_type = static_cast<DataType>(c->data_type),
                                               .states = c->states,
                                               .batch = c->batch,
                                               .heads = c->heads,
                                               .seqlen = c->seqlen,
                                               .head_dim = c->head_dim,
                                               .outputs = c->outputs,
                                               .lses = c->lses,
                                               .output_strides = strides_in(c->output_strides),
                                               .input_lse_strides = strides_in(c->input_lse_strides),
                                               .o = c->o,
                                               .lse = c->lse,
                                               .o_strides = strides_in(c->o_strides),
                                               .lse_strides = strides_in(c->lse_strides)},
                                              {.stream = c->stream});
  });
}

tilesmith_status tilesmith_append_kv(tilesmith_context* context, const tilesmith_kv_append* given) {
  return capi::guarded([&]() -> Status {
    tilesmith_kv_append room;
    TS_ASSIGN(const tilesmith_kv_append* c,
              capi::read_struct("tilesmith_kv_append", given,
                                {offsetof(tilesmith_kv_append, k_scale), offsetof(tilesmith_kv_append, traits)}, room));
    TS_TRY(capi::check_enum("data_type", c->data_type, TILESMITH_BF16, "TILESMITH_FP32, _FP16 or _BF16"));
    TS_TRY(capi::check_enum("mode", c->mode, TILESMITH_GROUP, "tilesmith_sequence_mode"));
    TS_TRY(capi::check_enum("rotary_style", c->rotary_style, TILESMITH_ROTARY_INTERLEAVED, "tilesmith_rotary_style"));
    TS_TRY(capi::check_enum("cache", static_cast<int>(c->cache), TILESMITH_KV_INT8, "tilesmith_kv_elements"));
    TS_TRY(
        capi::check_unused("cu_seqlens", c->mode == TILESMITH_BATCH && c->cu_seqlens != nullptr, "set mode to group"));
    tilesmith_context& in = capi::context_or_default(context);
    TS_ASSIGN(const Device device, capi::device_from_c(c->device, in.device()));
    AppendKv call;
    call.data_type = static_cast<DataType>(c->data_type);
    call.mode = static_cast<SequenceMode>(c->mode);
    call.cache = static_cast<KvElements>(c->cache);
    call.batch = c->batch;
    call.total = c->total;
    call.heads_q = c->heads_q;
    call.heads_kv = c->heads_kv;
    call.seqlen = c->seqlen;
    call.head_dim_qk = c->head_dim_qk;
    call.head_dim_v = c->head_dim_v;
    call.page_size = c->page_size;
    call.q = c->q;
    call.k = c->k;
    call.v = c->v;
    call.q_out = c->q_out;
    call.k_cache = c->k_cache;
    call.v_cache = c->v_cache;
    call.q_strides = strides_in(c->q_strides);
    call.k_strides = strides_in(c->k_strides);
    call.v_strides = strides_in(c->v_strides);
    call.q_out_strides = strides_in(c->q_out_strides);
    call.k_cache_strides = strides_in(c->k_cache_strides);
    call.v_cache_strides = strides_in(c->v_cache_strides);
    call.cu_seqlens = c->cu_seqlens;
    call.pages = {c->seqlens_k, c->page_numbers, c->page_offsets, c->page_stride, c->num_pages};
    call.slots = c->slots;
    call.positions = c->positions;
    call.rotary = {c->rotary_dim,        static_cast<RotaryStyle>(c->rotary_style),
                   c->rotary_cos,        c->rotary_sin,
                   c->rotary_row_stride, c->rotary_positions};
    constexpr std::uint32_t kKnown = TILESMITH_PAGE_SCALE | TILESMITH_VECTORIZED_PAGES | TILESMITH_LENGTHS_AFTER;
    if ((c->traits & ~kKnown) != 0)
      return fail(ErrorCode::invalid_argument, fmt::format("traits is {:#x}", c->traits),
                  "TILESMITH_PAGE_SCALE, TILESMITH_VECTORIZED_PAGES, TILESMITH_LENGTHS_AFTER, or 0");
    call.page_scale = (c->traits & TILESMITH_PAGE_SCALE) != 0;
    call.vectorized_pages = (c->traits & TILESMITH_VECTORIZED_PAGES) != 0;
    call.lengths_after = (c->traits & TILESMITH_LENGTHS_AFTER) != 0;
    call.k_scale = scale_in(c->k_scale);
    call.v_scale = scale_in(c->v_scale);
    call.k_row_scale = c->k_row_scale;
    call.v_row_scale = c->v_row_scale;
    call.k_row_scale_strides = strides_in(c->k_row_scale_strides);
    call.v_row_scale_strides = strides_in(c->v_row_scale_strides);
    return in.dispatcher(device).append_kv(call, {.stream = c->stream});
  });
}

tilesmith_status tilesmith_tree_bias(const tilesmith_tree* given, float* bias) {
  return capi::guarded([&]() -> Status {
    tilesmith_tree room;
    TS_ASSIGN(const tilesmith_tree* c, capi::read_struct("tilesmith_tree", given, {}, room));
    return tree_bias({.batch = c->batch,
                      .seqlen_q = c->seqlen_q,
                      .seqlen_k = c->seqlen_k,
                      .words = c->words,
                      .bits = c->bits,
                      .cu_seqlens_q = c->cu_seqlens_q,
                      .seqlens_k = c->seqlens_k},
                     bias);
  });
}
