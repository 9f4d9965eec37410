// A C call says every field of its problem: a field that is added to a problem fails here until the C structure has it,
// or the call derives it.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>

#include "capi/attention/call.hpp"
#include "capi/attention_backward/call.hpp"
#include "capi/conv/call.hpp"
#include "capi/gemm/call.hpp"
#include "problem/operations.hpp"
#include "vocabulary/field_value.hpp"

namespace tilesmith::capi {
namespace {

template <class Problem>
std::map<std::string, std::string> fields_of(const Problem& problem) {
  std::map<std::string, std::string> out;
  Problem::fields(problem,
                  [&](std::string_view name, const auto& value) { append_value(out[std::string(name)], value); });
  return out;
}

/// What a call's problem is on a GPU, where calls derive alignment and signs.
template <class Call>
auto problem_of_call(const Call& call) {
  const auto problem = problem_of(call, Device{.kind = DeviceKind::cuda, .index = 0});
  EXPECT_TRUE(problem) << problem.error().text();
  return *problem;
}

/// Expects that the changes reach every field of the problem, and that each reaches the field it is named after.
template <class Call>
void expect_every_field(const Call& usual, const std::map<std::string, std::function<void(Call&)>>& changes) {
  const auto before = fields_of(problem_of_call(usual));
  std::set<std::string> reached;
  for (const auto& [name, change] : changes) {
    Call call = usual;
    change(call);
    for (const auto& [field, value] : fields_of(problem_of_call(call)))
      if (value != before.at(field)) reached.insert(field);
    EXPECT_TRUE(reached.contains(name)) << name << " stays as it is";
  }
  for (const auto& [field, value] : before) EXPECT_TRUE(reached.contains(field)) << field << " is set by no call";
}

TEST(CallFields, AnAttentionCallSaysEveryFieldOfItsProblem) {
  using Call = tilesmith_attention;
  const Call usual = TILESMITH_ATTENTION_INIT;
  expect_every_field<Call>(
      usual, {{"data_type", [](Call& c) { c.data_type = TILESMITH_FP16; }},
              {"mode", [](Call& c) { c.mode = TILESMITH_GROUP; }},
              {"batch", [](Call& c) { c.batch = 2; }},
              {"heads_q", [](Call& c) { c.heads_q = 2; }},
              {"heads_kv", [](Call& c) { c.heads_kv = 2; }},
              {"seqlen_q", [](Call& c) { c.seqlen_q = 2; }},
              {"seqlen_k", [](Call& c) { c.seqlen_k = 2; }},
              {"head_dim_qk", [](Call& c) { c.head_dim_qk = 64; }},
              {"head_dim_v", [](Call& c) { c.head_dim_v = 64; }},
              {"mask", [](Call& c) { c.mask = TILESMITH_MASK_TOP_LEFT; }},
              {"window_left", [](Call& c) { c.window_left = 3; }},
              {"window_right", [](Call& c) { c.window_right = 3; }},
              {"diagonal", [](Call& c) { c.diagonal = 3; }},
              {"bias", [](Call& c) { c.bias_kind = TILESMITH_BIAS_ALIBI; }},
              {"soft_cap", [](Call& c) { c.traits = TILESMITH_SOFT_CAP; }},
              {"sink", [](Call& c) { c.traits = TILESMITH_SINK; }},
              {"dropout", [](Call& c) { c.traits = TILESMITH_DROPOUT; }},
              {"lse", [](Call& c) { c.traits = TILESMITH_LSE; }},
              {"negative_scale", [](Call& c) { c.scale = -1; }},
              {"block_scale", [](Call& c) { c.data_type = TILESMITH_FP8, c.traits = TILESMITH_BLOCK_SCALE; }},
              {"page_size", [](Call& c) { c.page_size = 16; }},
              {"splits", [](Call& c) { c.splits = 4; }},
              {"batch_invariant", [](Call& c) { c.traits = TILESMITH_BATCH_INVARIANT; }},
              {"cache", [](Call& c) { c.cache = TILESMITH_KV_INT8; }},
              {"page_scale", [](Call& c) { c.cache = TILESMITH_KV_FP8, c.traits = TILESMITH_PAGE_SCALE; }},
              {"latent", [](Call& c) { c.traits = TILESMITH_LATENT; }},
              {"vectorized_pages",
               [](Call& c) { c.page_size = 16, c.traits = TILESMITH_VECTORIZED_PAGES, c.seqlens_k = c.cu_seqlens_q; }},
              {"append", [](Call& c) { c.page_size = 16, c.traits = TILESMITH_APPEND; }},
              {"unaligned", [](Call& c) { c.k_strides.row = 3; }},
              {"unaligned_bias", [](Call& c) { c.bias_kind = TILESMITH_BIAS_ELEMENTWISE, c.bias_strides.row = 3; }}});
}

/// A call of attention backward with the forward's call, to which it only points, so that a change reaches both.
struct GradientsCall {
  tilesmith_attention forward = TILESMITH_ATTENTION_INIT;
  tilesmith_attention_gradients own = TILESMITH_ATTENTION_GRADIENTS_INIT;
};
Result<AttentionBackwardProblem> problem_of(const GradientsCall& call, Device device) {
  tilesmith_attention_gradients own = call.own;
  own.forward = &call.forward;
  return capi::problem_of(own, device);
}

TEST(CallFields, ABackwardCallSaysEveryFieldOfItsProblem) {
  using Call = GradientsCall;
  Call usual;
  usual.forward.traits = TILESMITH_LSE;
  expect_every_field<Call>(usual, {{"data_type", [](Call& c) { c.forward.data_type = TILESMITH_FP16; }},
                                   {"mode", [](Call& c) { c.forward.mode = TILESMITH_GROUP; }},
                                   {"batch", [](Call& c) { c.forward.batch = 2; }},
                                   {"heads_q", [](Call& c) { c.forward.heads_q = 2; }},
                                   {"heads_kv", [](Call& c) { c.forward.heads_kv = 2; }},
                                   {"seqlen_q", [](Call& c) { c.forward.seqlen_q = 2; }},
                                   {"seqlen_k", [](Call& c) { c.forward.seqlen_k = 2; }},
                                   {"head_dim_qk", [](Call& c) { c.forward.head_dim_qk = 64; }},
                                   {"head_dim_v", [](Call& c) { c.forward.head_dim_v = 64; }},
                                   {"mask", [](Call& c) { c.forward.mask = TILESMITH_MASK_TOP_LEFT; }},
                                   {"window_left", [](Call& c) { c.forward.window_left = 3; }},
                                   {"window_right", [](Call& c) { c.forward.window_right = 3; }},
                                   {"diagonal", [](Call& c) { c.forward.diagonal = 3; }},
                                   {"bias", [](Call& c) { c.forward.bias_kind = TILESMITH_BIAS_ALIBI; }},
                                   {"soft_cap", [](Call& c) { c.forward.traits |= TILESMITH_SOFT_CAP; }},
                                   {"sink", [](Call& c) { c.forward.traits |= TILESMITH_SINK; }},
                                   {"dropout", [](Call& c) { c.forward.traits |= TILESMITH_DROPOUT; }},
                                   {"dlse", [](Call& c) { c.own.traits = TILESMITH_DLSE; }},
                                   {"dbias", [](Call& c) { c.own.traits = TILESMITH_DBIAS; }},
                                   {"dalibi", [](Call& c) { c.own.traits = TILESMITH_DALIBI; }},
                                   {"dsink", [](Call& c) { c.own.traits = TILESMITH_DSINK; }},
                                   {"negative_scale", [](Call& c) { c.forward.scale = -1; }},
                                   {"unaligned", [](Call& c) { c.own.dv_strides.row = 3; }},
                                   {"unaligned_bias", [](Call& c) {
                                      c.forward.bias_kind = TILESMITH_BIAS_ELEMENTWISE, c.forward.bias_strides.row = 3;
                                    }}});
}

TEST(CallFields, AConvCallSaysEveryFieldOfItsProblem) {
  using Call = tilesmith_conv;
  const Call usual = TILESMITH_CONV_INIT;
  expect_every_field<Call>(usual, {{"direction", [](Call& c) { c.direction = TILESMITH_CONV_BACKWARD_DATA; }},
                                   {"data_type", [](Call& c) { c.data_type = TILESMITH_FP16; }},
                                   {"type_out", [](Call& c) { c.type_out = TILESMITH_FP32; }},
                                   {"type_bias", [](Call& c) { c.type_bias = TILESMITH_FP32; }},
                                   {"batch", [](Call& c) { c.batch = 2; }},
                                   {"groups", [](Call& c) { c.groups = 2; }},
                                   {"c", [](Call& c) { c.c = 2; }},
                                   {"k", [](Call& c) { c.k = 2; }},
                                   {"in_d", [](Call& c) { c.image[0] = 3; }},
                                   {"in_h", [](Call& c) { c.image[1] = 3; }},
                                   {"in_w", [](Call& c) { c.image[2] = 3; }},
                                   {"filter_d", [](Call& c) { c.filter[0] = 3; }},
                                   {"filter_h", [](Call& c) { c.filter[1] = 3; }},
                                   {"filter_w", [](Call& c) { c.filter[2] = 3; }},
                                   {"stride_d", [](Call& c) { c.stride[0] = 3; }},
                                   {"stride_h", [](Call& c) { c.stride[1] = 3; }},
                                   {"stride_w", [](Call& c) { c.stride[2] = 3; }},
                                   {"dilation_d", [](Call& c) { c.dilation[0] = 3; }},
                                   {"dilation_h", [](Call& c) { c.dilation[1] = 3; }},
                                   {"dilation_w", [](Call& c) { c.dilation[2] = 3; }},
                                   {"pad_d", [](Call& c) { c.pad[0] = 3; }},
                                   {"pad_h", [](Call& c) { c.pad[1] = 3; }},
                                   {"pad_w", [](Call& c) { c.pad[2] = 3; }},
                                   {"pad_high_d", [](Call& c) { c.pad_high[0] = 3; }},
                                   {"pad_high_h", [](Call& c) { c.pad_high[1] = 3; }},
                                   {"pad_high_w", [](Call& c) { c.pad_high[2] = 3; }},
                                   {"packed_w", [](Call& c) { c.flags = TILESMITH_PACKED_W; }},
                                   {"epilogue", [](Call& c) { c.epilogue[0].op = TILESMITH_EPILOGUE_RELU; }}});
}

TEST(CallFields, AGemmCallSaysEveryFieldOfItsProblem) {
  using Call = tilesmith_gemm;
  const Call usual = TILESMITH_GEMM_INIT;
  expect_every_field<Call>(usual, {{"type_a", [](Call& c) { c.type_a = TILESMITH_FP16; }},
                                   {"type_b", [](Call& c) { c.type_b = TILESMITH_FP16; }},
                                   {"type_c", [](Call& c) { c.type_c = TILESMITH_FP16; }},
                                   {"type_d", [](Call& c) { c.type_d = TILESMITH_FP16; }},
                                   {"type_bias", [](Call& c) { c.type_bias = TILESMITH_FP16; }},
                                   {"order_a", [](Call& c) { c.order_a = TILESMITH_COLUMN; }},
                                   {"order_b", [](Call& c) { c.order_b = TILESMITH_ROW; }},
                                   {"order_d", [](Call& c) { c.flags = TILESMITH_COLUMN_D; }},
                                   {"m", [](Call& c) { c.m = 2; }},
                                   {"n", [](Call& c) { c.n = 2; }},
                                   {"k", [](Call& c) { c.k = 2; }},
                                   {"k2", [](Call& c) { c.k2 = 2; }},
                                   {"batch", [](Call& c) { c.batch = 2; }},
                                   {"beta", [](Call& c) { c.beta = 1; }},
                                   {"epilogue", [](Call& c) { c.epilogue[0].op = TILESMITH_EPILOGUE_RELU; }},
                                   {"grouping", [](Call& c) { c.grouping = TILESMITH_GROUPS_MASKED; }},
                                   {"group_size", [](Call& c) { c.group_size = 128; }},
                                   {"type_scale", [](Call& c) { c.group_size = 128, c.type_scale = TILESMITH_BF16; }},
                                   {"packed_b", [](Call& c) { c.flags = TILESMITH_PACKED_B; }},
                                   {"zero_points", [](Call& c) { c.flags = TILESMITH_ZERO_POINTS; }},
                                   {"prefetch_weights", [](Call& c) { c.flags = TILESMITH_CONSTANT_B; }},
                                   {"unaligned", [](Call& c) { c.a.leading = 3; }},
                                   {"aligned_d", [](Call& c) { c.b.leading = 3; }}});
}

}  // namespace
}  // namespace tilesmith::capi
