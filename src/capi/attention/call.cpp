#include "capi/attention/call.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "capi/call_checks.hpp"
#include "capi/sized_struct.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith::capi {
namespace {

// The C enumerations are the C++ ones: a checked number is the value.
static_assert(TILESMITH_FP32 == static_cast<int>(DataType::fp32) && TILESMITH_FP16 == static_cast<int>(DataType::fp16));
static_assert(TILESMITH_BF16 == static_cast<int>(DataType::bf16) && TILESMITH_FP8 == static_cast<int>(DataType::fp8));
static_assert(TILESMITH_BF8 == static_cast<int>(DataType::bf8));
static_assert(TILESMITH_FP8FP16 == static_cast<int>(DataType::fp8fp16));
static_assert(TILESMITH_FP8BF16 == static_cast<int>(DataType::fp8bf16));
static_assert(TILESMITH_FP8FP32 == static_cast<int>(DataType::fp8fp32));
static_assert(TILESMITH_BATCH == static_cast<int>(SequenceMode::batch));
static_assert(TILESMITH_GROUP == static_cast<int>(SequenceMode::group));
static_assert(TILESMITH_MASK_NONE == static_cast<int>(MaskKind::none));
static_assert(TILESMITH_MASK_TOP_LEFT == static_cast<int>(MaskKind::top_left));
static_assert(TILESMITH_MASK_BOTTOM_RIGHT == static_cast<int>(MaskKind::bottom_right));
static_assert(TILESMITH_BIAS_NONE == static_cast<int>(BiasKind::none));
static_assert(TILESMITH_BIAS_ELEMENTWISE == static_cast<int>(BiasKind::elementwise));
static_assert(TILESMITH_BIAS_ALIBI == static_cast<int>(BiasKind::alibi));

constexpr std::uint32_t kTraits = TILESMITH_SOFT_CAP | TILESMITH_SINK | TILESMITH_DROPOUT | TILESMITH_LSE |
                                  TILESMITH_BLOCK_SCALE | TILESMITH_PAGE_SCALE | TILESMITH_LATENT |
                                  TILESMITH_BATCH_INVARIANT | TILESMITH_VECTORIZED_PAGES | TILESMITH_APPEND;

Status check_data_type(std::int32_t value) {
  for (const std::int32_t known : {TILESMITH_FP32, TILESMITH_FP16, TILESMITH_BF16, TILESMITH_FP8, TILESMITH_BF8,
                                   TILESMITH_TF32, TILESMITH_FP8FP16, TILESMITH_FP8BF16, TILESMITH_FP8FP32})
    if (value == known) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("data_type is {}", value), "a tilesmith_data_type");
}

struct NamedScale {
  const char* name;
  const tilesmith_scale& scale;
};

Status check_scales(const tilesmith_attention& call) {
  const bool fp8 = input_type(static_cast<DataType>(call.data_type)) == DataType::fp8;
  const bool cached = call.cache != TILESMITH_KV_AS_QUERIES;
  const bool strided = (call.traits & (TILESMITH_BLOCK_SCALE | TILESMITH_PAGE_SCALE)) != 0;
  if (!fp8) TS_TRY(check_unused("q_scale", call.q_scale.data != nullptr, "use an fp8 data_type"));
  for (const auto& [name, scale] : {NamedScale{"k_scale", call.k_scale}, {"v_scale", call.v_scale}})
    if (!fp8 && !cached)
      TS_TRY(check_unused(name, scale.data != nullptr, "use an fp8 data_type, or a cache of 8 bits"));
  for (const auto& [name, scale] :
       {NamedScale{"q_scale", call.q_scale}, {"k_scale", call.k_scale}, {"v_scale", call.v_scale}})
    if (!strided && scale.block != 0)
      TS_TRY(check_unused(fmt::format("{}.block", name), true, "set TILESMITH_BLOCK_SCALE or TILESMITH_PAGE_SCALE"));
  return {};
}

/// The C++ interface takes the rows of a packed tensor from the offsets; here the caller says how many there are.
Status check_total(const char* name, const std::int32_t* offsets, std::int64_t batch, std::int64_t total) {
  if (offsets != nullptr && offsets[batch] > total)
    return fail(ErrorCode::invalid_argument, fmt::format("{}[{}] is {}", name, batch, offsets[batch]),
                fmt::format("at most {}, the rows of the tensor", total));
  return {};
}

Status check_append(const tilesmith_attention& call) {
  if ((call.traits & TILESMITH_APPEND) == 0) {
    const bool used = call.k_new != nullptr || call.v_new != nullptr || call.q_out != nullptr ||
                      call.slots != nullptr || call.positions != nullptr || call.seqlens_before != nullptr ||
                      call.rotary_cos != nullptr || call.rotary_sin != nullptr || call.rotary_dim != 0 ||
                      call.chosen_scales != 0;
    return check_unused("a field of new keys (k_new to chosen_scales)", used, "set TILESMITH_APPEND");
  }
  TS_TRY(check_enum("rotary_style", call.rotary_style, TILESMITH_ROTARY_INTERLEAVED, "tilesmith_rotary_style"));
  constexpr std::uint32_t kKnown = TILESMITH_CHOOSE_K_SCALE | TILESMITH_CHOOSE_V_SCALE;
  if ((call.chosen_scales & ~kKnown) != 0)
    return fail(ErrorCode::invalid_argument, fmt::format("chosen_scales is {:#x}", call.chosen_scales),
                "TILESMITH_CHOOSE_K_SCALE, TILESMITH_CHOOSE_V_SCALE, or 0");
  return {};
}

AttentionAppend append_of(const tilesmith_attention& call) {
  return {.k = call.k_new,
          .v = call.v_new,
          .k_strides = strides_of(call.k_new_strides),
          .v_strides = strides_of(call.v_new_strides),
          .rotary = {call.rotary_dim, static_cast<RotaryStyle>(call.rotary_style), call.rotary_cos, call.rotary_sin,
                     call.rotary_row_stride, call.rotary_positions},
          .q_out = call.q_out,
          .q_out_strides = strides_of(call.q_out_strides),
          .slots = call.slots,
          .positions = call.positions,
          .lengths_before = call.seqlens_before,
          .chooses_k_scale = (call.chosen_scales & TILESMITH_CHOOSE_K_SCALE) != 0,
          .chooses_v_scale = (call.chosen_scales & TILESMITH_CHOOSE_V_SCALE) != 0};
}

AttentionScale scale_of(const tilesmith_scale& s) {
  return {s.data, s.batch, s.head, s.block};
}

}  // namespace

Result<const tilesmith_attention*> whole_call(const tilesmith_attention* call, tilesmith_attention& room) {
  return read_struct("tilesmith_attention", call,
                     {offsetof(tilesmith_attention, q_scale), offsetof(tilesmith_attention, diagonal),
                      offsetof(tilesmith_attention, options), offsetof(tilesmith_attention, page_size),
                      offsetof(tilesmith_attention, splits), offsetof(tilesmith_attention, cache),
                      offsetof(tilesmith_attention, k_new)},
                     room);
}

AttentionStrides strides_of(const tilesmith_strides& s) {
  return {s.batch, s.head, s.row};
}

BiasStrides strides_of(const tilesmith_bias_strides& s) {
  return {s.batch, s.head, s.row, s.column};
}

tilesmith_strides in_c(const AttentionStrides& s) {
  return {s.batch, s.head, s.row};
}

tilesmith_bias_strides in_c(const BiasStrides& s) {
  return {s.batch, s.head, s.row, s.column};
}

Result<AttentionLayout> layout_of(std::int32_t layout) {
  if (layout == TILESMITH_BHSD) return AttentionLayout::bhsd;
  if (layout == TILESMITH_BSHD) return AttentionLayout::bshd;
  return fail(ErrorCode::invalid_argument, fmt::format("layout is {}", layout), "a tilesmith_layout");
}

bool tensor_is_unaligned(const void* pointer, const tilesmith_strides& strides, int element_bits) {
  return is_unaligned(pointer) || is_unaligned(strides.batch, element_bits) ||
         is_unaligned(strides.head, element_bits) || is_unaligned(strides.row, element_bits);
}

Result<AttentionProblem> problem_of(const tilesmith_attention& call, Device device) {
  TS_TRY(check_data_type(call.data_type));
  TS_TRY(check_enum("mode", call.mode, TILESMITH_GROUP, "tilesmith_sequence_mode"));
  TS_TRY(check_enum("mask", call.mask, TILESMITH_MASK_BOTTOM_RIGHT, "tilesmith_mask"));
  TS_TRY(check_enum("bias_kind", call.bias_kind, TILESMITH_BIAS_ALIBI, "tilesmith_bias_kind"));
  if ((call.traits & ~kTraits) != 0)
    return fail(ErrorCode::invalid_argument, fmt::format("traits is {:#x}", call.traits),
                fmt::format("bits of tilesmith_attention_trait, {:#x}", kTraits));
  if (call.reserved != 0 || call.reserved_number != 0)
    return fail(ErrorCode::invalid_argument, "a reserved field is not 0", "0; TILESMITH_ATTENTION_INIT sets it");
  const auto has = [&](tilesmith_attention_trait trait) { return (call.traits & trait) != 0; };
  const bool elementwise = call.bias_kind == TILESMITH_BIAS_ELEMENTWISE;
  const bool alibi = call.bias_kind == TILESMITH_BIAS_ALIBI;
  const bool group = call.mode == TILESMITH_GROUP;
  TS_TRY(check_unused("softcap", !has(TILESMITH_SOFT_CAP) && call.soft_cap != 0, "set TILESMITH_SOFT_CAP"));
  TS_TRY(check_unused("dropout_probability", !has(TILESMITH_DROPOUT) && call.dropout_probability != 0,
                      "set TILESMITH_DROPOUT"));
  TS_TRY(check_unused("lse", !has(TILESMITH_LSE) && call.lse != nullptr, "set TILESMITH_LSE"));
  TS_TRY(check_unused("sink", !has(TILESMITH_SINK) && call.sink != nullptr, "set TILESMITH_SINK"));
  TS_TRY(check_unused("bias", !elementwise && call.bias != nullptr, "set bias_kind to elementwise"));
  TS_TRY(check_unused("alibi", !alibi && call.alibi != nullptr, "set bias_kind to alibi"));
  TS_TRY(check_unused("cu_seqlens_q", !group && call.cu_seqlens_q != nullptr, "set mode to group"));
  TS_TRY(check_unused("cu_seqlens_k", !group && call.cu_seqlens_k != nullptr, "set mode to group"));
  const bool paged = call.page_size != 0;
  TS_TRY(check_unused("cu_seqlens_k", paged && call.cu_seqlens_k != nullptr,
                      "seqlens_k has the lengths of pages' sequences"));
  TS_TRY(check_unused("seqlens_k", !paged && call.seqlens_k != nullptr, "set page_size"));
  TS_TRY(check_unused("page_numbers", !paged && call.page_numbers != nullptr, "set page_size"));
  TS_TRY(check_unused("page_offsets", !paged && call.page_offsets != nullptr, "set page_size"));
  TS_TRY(check_enum("cache", call.cache, TILESMITH_KV_INT8, "tilesmith_kv_elements"));
  TS_TRY(check_scales(call));
  TS_TRY(check_append(call));
  TS_TRY(check_unused("v_scale", has(TILESMITH_LATENT) && call.v_scale.data != nullptr, "k_scale holds for both"));

  AttentionProblem problem{.data_type = static_cast<DataType>(call.data_type),
                           .mode = static_cast<SequenceMode>(call.mode),
                           .batch = call.batch,
                           .heads_q = call.heads_q,
                           .heads_kv = call.heads_kv,
                           .seqlen_q = call.seqlen_q,
                           .seqlen_k = call.seqlen_k,
                           .head_dim_qk = call.head_dim_qk,
                           .head_dim_v = call.head_dim_v,
                           .mask = static_cast<MaskKind>(call.mask),
                           .window_left = call.window_left,
                           .window_right = call.window_right,
                           .diagonal = call.diagonal,
                           .bias = static_cast<BiasKind>(call.bias_kind),
                           .soft_cap = has(TILESMITH_SOFT_CAP),
                           .sink = has(TILESMITH_SINK),
                           .dropout = has(TILESMITH_DROPOUT),
                           .lse = has(TILESMITH_LSE),
                           .block_scale = has(TILESMITH_BLOCK_SCALE),
                           .cache = static_cast<KvElements>(call.cache),
                           .page_scale = has(TILESMITH_PAGE_SCALE),
                           .latent = has(TILESMITH_LATENT),
                           .page_size = call.page_size,
                           .vectorized_pages = has(TILESMITH_VECTORIZED_PAGES),
                           .append = has(TILESMITH_APPEND),
                           .splits = call.splits,
                           .batch_invariant = has(TILESMITH_BATCH_INVARIANT)};
  if (is_gpu(device.kind)) {  // the CPU does not ask: one plan serves either way
    const int in = bits_of(problem.data_type), out = bits_of(output_type(problem.data_type));
    const int cached = problem.cache == KvElements::as_queries ? in : 8;
    problem.negative_scale = call.scale < 0;
    const bool turned = problem.append && call.rotary_dim > 0;  // they are read where they go
    problem.unaligned =
        tensor_is_unaligned(turned ? call.q_out : call.q, turned ? call.q_out_strides : call.q_strides, in) ||
        tensor_is_unaligned(call.k, call.k_strides, cached) || tensor_is_unaligned(call.v, call.v_strides, cached) ||
        tensor_is_unaligned(call.o, call.o_strides, out);
    const tilesmith_bias_strides& b = call.bias_strides;
    problem.unaligned_bias =
        elementwise && (tensor_is_unaligned(call.bias, {b.batch, b.head, b.row}, bits_of(DataType::fp32)) ||
                        (b.column != 1 && call.seqlen_k > 1));
  }
  return problem;
}

Result<AttentionArguments> arguments_of(const tilesmith_attention& call, Device device) {
  if (call.mode == TILESMITH_GROUP && !is_gpu(device.kind)) {
    TS_TRY(check_total("cu_seqlens_q", call.cu_seqlens_q, call.batch, call.total_q));
    TS_TRY(check_total("cu_seqlens_k", call.cu_seqlens_k, call.batch, call.total_k));
  }
  AttentionArguments out;
  out.q = call.q;
  out.k = call.k;
  out.v = call.v;
  out.o = call.o;
  out.lse = call.lse;
  out.bias = call.bias;
  out.alibi = call.alibi;
  out.sink = call.sink;
  out.cu_seqlens_q = call.cu_seqlens_q;
  out.cu_seqlens_k = call.cu_seqlens_k;
  out.total_q = call.total_q;
  out.total_k = call.total_k;
  out.q_strides = strides_of(call.q_strides);
  out.k_strides = strides_of(call.k_strides);
  out.v_strides = strides_of(call.v_strides);
  out.o_strides = strides_of(call.o_strides);
  out.lse_strides = strides_of(call.lse_strides);
  out.bias_strides = strides_of(call.bias_strides);
  out.alibi_batch_stride = call.alibi_batch_stride;
  out.q_scale = scale_of(call.q_scale);
  out.k_scale = scale_of(call.k_scale);
  out.v_scale = scale_of(call.v_scale);
  out.scale = call.scale;
  out.soft_cap = call.soft_cap;
  out.pages = {call.seqlens_k, call.page_numbers, call.page_offsets, call.page_stride, call.num_pages};
  out.dropout_probability = call.dropout_probability;
  out.seed = call.seed;
  out.offset = call.offset;
  if ((call.traits & TILESMITH_APPEND) != 0) out.append = append_of(call);
  return out;
}

}  // namespace tilesmith::capi
