// The layout of every structure of the C interface, pinned: a change here breaks programs that are already compiled.
#include <cstddef>

#include "tilesmith.h"

static_assert(sizeof(tilesmith_device) == 8 && sizeof(tilesmith_fact) == 16 && sizeof(tilesmith_plan_stage) == 16);
static_assert(sizeof(tilesmith_strides) == 24 && sizeof(tilesmith_bias_strides) == 32);
static_assert(sizeof(tilesmith_error) == 32 && offsetof(tilesmith_error, message) == 16);
static_assert(sizeof(tilesmith_device_info) == 48 && offsetof(tilesmith_device_info, facts) == 32);
static_assert(sizeof(tilesmith_backend_info) == 32 && offsetof(tilesmith_backend_info, missing) == 16);
static_assert(sizeof(tilesmith_context_options) == 48 && offsetof(tilesmith_context_options, kernel) == 24);
static_assert(offsetof(tilesmith_context_options, determinism) == 32);  // the structure's first version ends here
static_assert(offsetof(tilesmith_context_options, tuning) == 40);       // and its second
static_assert(sizeof(tilesmith_plan_step) == 24 && sizeof(tilesmith_workspace_region) == 32);
static_assert(sizeof(tilesmith_plan_info) == 136 && offsetof(tilesmith_plan_info, workspace_bytes) == 56);
static_assert(offsetof(tilesmith_plan_info, predicted_seconds) == 64);  // the structure's first version ends here
static_assert(offsetof(tilesmith_plan_info, region_count) == 96);
static_assert(offsetof(tilesmith_plan_info, source) == 104);  // and its second

static_assert(sizeof(tilesmith_scale) == 32 && offsetof(tilesmith_scale, block) == 24);

static_assert(sizeof(tilesmith_attention) == 768);
static_assert(offsetof(tilesmith_attention, data_type) == 16);
static_assert(offsetof(tilesmith_attention, batch) == 40);
static_assert(offsetof(tilesmith_attention, q_strides) == 128);
static_assert(offsetof(tilesmith_attention, bias_strides) == 248);
static_assert(offsetof(tilesmith_attention, scale) == 288);
static_assert(offsetof(tilesmith_attention, q) == 304);
static_assert(offsetof(tilesmith_attention, stream) == 384);
static_assert(offsetof(tilesmith_attention, offset) == 416);
static_assert(offsetof(tilesmith_attention, q_scale) == 424);    // the structure's first version ends here
static_assert(offsetof(tilesmith_attention, diagonal) == 520);   // its second
static_assert(offsetof(tilesmith_attention, options) == 528);    // its third
static_assert(offsetof(tilesmith_attention, page_size) == 536);  // its fourth
static_assert(offsetof(tilesmith_attention, splits) == 584);     // its fifth
static_assert(offsetof(tilesmith_attention, cache) == 592);      // its sixth
static_assert(offsetof(tilesmith_attention, k_new) == 600);      // and its seventh
static_assert(offsetof(tilesmith_attention, slots) == 696);

static_assert(sizeof(tilesmith_attention_gradients) == 288);
static_assert(offsetof(tilesmith_attention_gradients, traits) == 16);
static_assert(offsetof(tilesmith_attention_gradients, forward) == 24);
static_assert(offsetof(tilesmith_attention_gradients, dout_strides) == 32);
static_assert(offsetof(tilesmith_attention_gradients, dbias_strides) == 152);
static_assert(offsetof(tilesmith_attention_gradients, dout) == 192);
static_assert(offsetof(tilesmith_attention_gradients, stream) == 256);
static_assert(offsetof(tilesmith_attention_gradients, options) == 280);

static_assert(sizeof(tilesmith_conv) == 1000 && sizeof(tilesmith_conv_operand) == 72);
static_assert(offsetof(tilesmith_conv, batch) == 32 && offsetof(tilesmith_conv, x) == 208);
static_assert(offsetof(tilesmith_conv, stream) == 384 && offsetof(tilesmith_conv, options) == 984);
static_assert(offsetof(tilesmith_conv, flags) == 992);  // the structure's first version ends here

static_assert(sizeof(tilesmith_states) == 200 && offsetof(tilesmith_states, states) == 24);
static_assert(offsetof(tilesmith_states, output_strides) == 64 && offsetof(tilesmith_states, outputs) == 160);
static_assert(sizeof(tilesmith_kv_append) == 536 && offsetof(tilesmith_kv_append, batch) == 32);
static_assert(offsetof(tilesmith_kv_append, q_strides) == 128 && offsetof(tilesmith_kv_append, q) == 272);
static_assert(offsetof(tilesmith_states, stream) == 192);  // the structure's first version ends here
static_assert(offsetof(tilesmith_kv_append, cu_seqlens) == 320);
static_assert(offsetof(tilesmith_kv_append, k_scale) == 384);  // the structure's first version ends here
static_assert(offsetof(tilesmith_kv_append, traits) == 464);   // the second

static_assert(sizeof(tilesmith_matrix) == 24 && sizeof(tilesmith_epilogue) == 40);
static_assert(offsetof(tilesmith_epilogue, data) == 8 && offsetof(tilesmith_epilogue, low) == 32);
static_assert(sizeof(tilesmith_block_scale) == 32 && offsetof(tilesmith_block_scale, batch) == 24);
static_assert(sizeof(tilesmith_gemm) == 720);
static_assert(offsetof(tilesmith_gemm, type_a) == 16);
static_assert(offsetof(tilesmith_gemm, m) == 48);
static_assert(offsetof(tilesmith_gemm, alpha) == 80);
static_assert(offsetof(tilesmith_gemm, a) == 88);
static_assert(offsetof(tilesmith_gemm, d) == 160);
static_assert(offsetof(tilesmith_gemm, stream) == 192);
static_assert(offsetof(tilesmith_gemm, epilogue) == 216);
static_assert(offsetof(tilesmith_gemm, grouping) == 536);  // the structure's first version ends here
static_assert(offsetof(tilesmith_gemm, group_ends) == 616 && offsetof(tilesmith_gemm, zero_b) == 680);
static_assert(offsetof(tilesmith_gemm, options) == 712);  // its second

static_assert(sizeof(tilesmith_candidate) == 16 && sizeof(tilesmith_refusal) == 24);
static_assert(sizeof(tilesmith_candidates) == 48 && offsetof(tilesmith_candidates, refusals) == 32);
