#include "drop_in/attention/traits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include "vocabulary/data_type.hpp"

namespace tilesmith::drop_in {
namespace {

Result<DataType> data_type_of(const char* text) {
  const std::string_view name = text == nullptr ? "fp16" : text;
  for (const DataType type : {DataType::fp16, DataType::bf16, DataType::fp32, DataType::fp8bf16})
    if (name == name_of(type)) return type;
  return fail(ErrorCode::unsupported, fmt::format("no kernel takes data_type '{}'", name.substr(0, 32)),
              "fp16, bf16, fp32 or fp8bf16");
}

/// Composable Kernel aligns windows of kind 1 to the first key, ours are aligned to the last one.
Status set_mask(AttentionProblem& problem, int kind, int left, int right) {
  problem.window_left = std::max(left, -1);
  problem.window_right = std::max(right, -1);
  if (kind < 0 || kind > 3)
    return fail(ErrorCode::unsupported, fmt::format("mask_type is {}", kind),
                "0 none, 1 top left, 2 bottom right, 3 window");
  if (kind == 0) problem.window_left = problem.window_right = -1;
  if ((kind == 1 || kind == 2) && problem.window_right <= 0) {
    problem.mask = kind == 1 ? MaskKind::top_left : MaskKind::bottom_right;
    problem.window_right = -1;
  } else if (kind == 1) {
    problem.diagonal = problem.seqlen_q - problem.seqlen_k;
  }
  return {};
}

}  // namespace

Result<AttentionProblem> problem_of(const AttentionSizes& sizes, const AttentionFeatures& features) {
  AttentionProblem problem{.mode = features.group != 0 ? SequenceMode::group : SequenceMode::batch,
                           .batch = sizes.batch,
                           .heads_q = sizes.heads_q,
                           .heads_kv = sizes.heads_kv,
                           .seqlen_q = sizes.seqlen_q,
                           .seqlen_k = sizes.seqlen_k,
                           .head_dim_qk = sizes.head_dim_qk,
                           .head_dim_v = sizes.head_dim_v,
                           .soft_cap = features.soft_cap != 0,
                           .sink = features.sink != 0,
                           .dropout = features.dropout != 0,
                           .lse = features.lse != 0};
  TS_ASSIGN(problem.data_type, data_type_of(features.data_type));
  TS_TRY(set_mask(problem, features.mask, features.window_left, features.window_right));
  if (features.bias < 0 || features.bias > 2)
    return fail(ErrorCode::unsupported, fmt::format("bias_type is {}", features.bias),
                "0 none, 1 elementwise, 2 ALiBi");
  problem.bias = static_cast<BiasKind>(features.bias);
  TS_TRY(validate(problem));
  // Sizes of tensors in bytes are below 2^63.
  const double rows =
      static_cast<double>(problem.batch) * static_cast<double>(std::max(problem.heads_q, problem.heads_kv));
  const double tokens = static_cast<double>(std::max(problem.seqlen_q, problem.seqlen_k));
  if (rows * tokens * static_cast<double>(std::max(problem.head_dim_qk, problem.head_dim_v)) > 1e17)
    return fail(ErrorCode::unsupported, "tensors of more than 10^17 elements");
  return problem;
}

std::size_t tensor_bytes(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t dim, DataType type) {
  return static_cast<std::size_t>(batch * heads * rows * dim) * static_cast<std::size_t>(bits_of(type)) / 8;
}

Status set_features(const AttentionProblem& problem, float scale, Memory& memory, AttentionArguments& arguments) {
  arguments.scale = scale;
  const auto zeros = [&](std::int64_t count) -> Result<const float*> {
    TS_ASSIGN(const void* made, memory.zeros(static_cast<std::size_t>(count) * sizeof(float)));
    return static_cast<const float*>(made);
  };
  switch (problem.bias) {
    case BiasKind::none:
      break;
    case BiasKind::elementwise: {
      TS_ASSIGN(arguments.bias, zeros(problem.seqlen_k));
      arguments.bias_strides = {0, 0, 0, 1};  // one row for all
      break;
    }
    case BiasKind::alibi: {
      TS_ASSIGN(arguments.alibi, zeros(problem.heads_q));
      break;
    }
  }
  if (problem.sink) {
    TS_ASSIGN(arguments.sink, zeros(problem.heads_q));
  }
  if (problem.soft_cap) arguments.soft_cap = kSoftCap;
  if (problem.dropout) {
    arguments.dropout_probability = kDropoutProbability;
    arguments.seed = kSeed;
  }
  if (problem.mode == SequenceMode::group) {
    const auto offsets = [&](std::int64_t rows) -> Result<const std::int32_t*> {
      if (problem.batch * rows > std::numeric_limits<std::int32_t>::max())
        return fail(ErrorCode::unsupported, fmt::format("{} sequences of {} tokens", problem.batch, rows),
                    "fewer than 2^31 tokens in group mode");
      std::vector<std::int32_t> at(static_cast<std::size_t>(problem.batch) + 1);
      for (std::size_t b = 0; b < at.size(); ++b)
        at[b] = static_cast<std::int32_t>(static_cast<std::int64_t>(b) * rows);
      return memory.keep(std::move(at));
    };
    TS_ASSIGN(arguments.cu_seqlens_q, offsets(problem.seqlen_q));
    if (problem.page_size == 0) {
      TS_ASSIGN(arguments.cu_seqlens_k, offsets(problem.seqlen_k));
    }
  }
  return {};
}

Status check_v_is_rows(int is_v_rowmajor) {
  if (is_v_rowmajor != 0) return {};
  return fail(ErrorCode::unsupported, "no kernel reads values whose tokens are neighbours", "is_v_rowmajor 1");
}

}  // namespace tilesmith::drop_in
