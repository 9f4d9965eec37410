#include "capi/attention_backward/call.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "capi/attention/call.hpp"
#include "capi/call_checks.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith::capi {
namespace {

constexpr std::uint32_t kGradientTraits = TILESMITH_DLSE | TILESMITH_DBIAS | TILESMITH_DALIBI | TILESMITH_DSINK;

/// The call of attention forward, in `room` where it is of an older program.
Result<const tilesmith_attention*> forward_call(const tilesmith_attention_gradients& call, tilesmith_attention& room) {
  if (call.forward == nullptr)
    return fail(ErrorCode::invalid_argument, "forward is null", "the call of attention forward");
  TS_ASSIGN(const tilesmith_attention* forward, whole_call(call.forward, room));
  if (forward->page_size != 0)
    return fail(ErrorCode::unsupported,
                fmt::format("page_size is {}, and keys in pages have no gradient", forward->page_size),
                "keys and values that are dense tensors");
  if (forward->cache != TILESMITH_KV_AS_QUERIES || (forward->traits & TILESMITH_LATENT) != 0)
    return fail(ErrorCode::unsupported,
                fmt::format("cache is {}, traits is {:#x}: keys of 8 bits and latent keys have no gradient",
                            forward->cache, forward->traits),
                "keys and values of q's type, in tensors of their own");
  if ((forward->traits & TILESMITH_APPEND) != 0)
    return fail(ErrorCode::invalid_argument, "the forward's call appends new keys, which has no gradient",
                "attention on plain tensors");
  if ((forward->traits & TILESMITH_BATCH_INVARIANT) != 0)
    return fail(ErrorCode::unsupported, "forward is batch-invariant, which no gradient is",
                "forward's call without TILESMITH_BATCH_INVARIANT");
  return forward;
}

}  // namespace

Result<AttentionBackwardProblem> problem_of(const tilesmith_attention_gradients& call, Device device) {
  tilesmith_attention room;
  TS_ASSIGN(const tilesmith_attention* forward_given, forward_call(call, room));
  TS_ASSIGN(const AttentionProblem forward, problem_of(*forward_given, device));
  if ((call.traits & ~kGradientTraits) != 0)
    return fail(ErrorCode::invalid_argument, fmt::format("traits is {:#x}", call.traits),
                fmt::format("bits of tilesmith_gradient_trait, {:#x}", kGradientTraits));
  if (call.reserved != 0)
    return fail(ErrorCode::invalid_argument, "a reserved field is not 0",
                "0; TILESMITH_ATTENTION_GRADIENTS_INIT sets it");
  const auto has = [&](tilesmith_gradient_trait trait) { return (call.traits & trait) != 0; };
  TS_TRY(check_unused("dlse", !has(TILESMITH_DLSE) && call.dlse != nullptr, "set TILESMITH_DLSE"));
  TS_TRY(check_unused("dbias", !has(TILESMITH_DBIAS) && call.dbias != nullptr, "set TILESMITH_DBIAS"));
  TS_TRY(check_unused("dalibi", !has(TILESMITH_DALIBI) && call.dalibi != nullptr, "set TILESMITH_DALIBI"));
  TS_TRY(check_unused("dsink", !has(TILESMITH_DSINK) && call.dsink != nullptr, "set TILESMITH_DSINK"));

  AttentionBackwardProblem problem{.data_type = forward.data_type,
                                   .mode = forward.mode,
                                   .batch = forward.batch,
                                   .heads_q = forward.heads_q,
                                   .heads_kv = forward.heads_kv,
                                   .seqlen_q = forward.seqlen_q,
                                   .seqlen_k = forward.seqlen_k,
                                   .head_dim_qk = forward.head_dim_qk,
                                   .head_dim_v = forward.head_dim_v,
                                   .mask = forward.mask,
                                   .window_left = forward.window_left,
                                   .window_right = forward.window_right,
                                   .diagonal = forward.diagonal,
                                   .bias = forward.bias,
                                   .soft_cap = forward.soft_cap,
                                   .sink = forward.sink,
                                   .dropout = forward.dropout,
                                   .dlse = has(TILESMITH_DLSE),
                                   .dbias = has(TILESMITH_DBIAS),
                                   .dalibi = has(TILESMITH_DALIBI),
                                   .dsink = has(TILESMITH_DSINK),
                                   .negative_scale = forward.negative_scale,
                                   .unaligned = forward.unaligned,
                                   .unaligned_bias = forward.unaligned_bias};
  if (is_gpu(device.kind)) {
    const int bits = bits_of(problem.data_type);
    problem.unaligned |= tensor_is_unaligned(call.dout, call.dout_strides, bits) ||
                         tensor_is_unaligned(call.dq, call.dq_strides, bits) ||
                         tensor_is_unaligned(call.dk, call.dk_strides, bits) ||
                         tensor_is_unaligned(call.dv, call.dv_strides, bits);
  }
  return problem;
}

Result<AttentionBackwardArguments> arguments_of(const tilesmith_attention_gradients& call, Device device) {
  tilesmith_attention room;
  TS_ASSIGN(const tilesmith_attention* forward, forward_call(call, room));
  AttentionBackwardArguments out;
  TS_ASSIGN(out.forward, arguments_of(*forward, device));
  out.dout = call.dout;
  out.dlse = call.dlse;
  out.dq = call.dq;
  out.dk = call.dk;
  out.dv = call.dv;
  out.dbias = call.dbias;
  out.dalibi = call.dalibi;
  out.dsink = call.dsink;
  out.dout_strides = strides_of(call.dout_strides);
  out.dlse_strides = strides_of(call.dlse_strides);
  out.dq_strides = strides_of(call.dq_strides);
  out.dk_strides = strides_of(call.dk_strides);
  out.dv_strides = strides_of(call.dv_strides);
  out.dbias_strides = strides_of(call.dbias_strides);
  out.dalibi_batch_stride = call.dalibi_batch_stride;
  return out;
}

}  // namespace tilesmith::capi
