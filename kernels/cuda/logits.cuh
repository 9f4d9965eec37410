// From products to logits, and dropout: the traits of the attention contract that touch single scores, on the register
// layout of softmax.cuh.
//
// A plain logit is the product times a constant, and the constant waits for the exponential (`logit_unit`); so does a
// soft cap's. With an addend (bias, alibi) the logit is worked out here, in units of log2.
#pragma once

#include "philox.cuh"
#include "softmax.cuh"
#include "visible.cuh"

namespace ts {

constexpr bool kAddends = cfg::kBias || cfg::kAlibi;

// The thread's two rows in the problem.
struct Rows {
  int batch;
  int head[2];
  int query[2];
};

// What a score is multiplied by in the exponential. It is positive, so that the largest score is the largest logit: a
// negative scale's sign goes to the scores (a trait: a test at run time costs an instruction a score), and a scale of
// zero becomes one that no float can tell from it.
TS_DEVICE float logit_unit(const TsCudaAttentionArgs& args) {
  if constexpr (kAddends) return 1.0f;
  return (cfg::kSoftcap ? args.softcap : fmaxf(fabsf(args.scale), 1e-30f)) * kLog2e;
}

// `column` is the key of the thread's first score.
TS_DEVICE void finish_logits(const TsCudaAttentionArgs& args, const Lengths& lengths, const Rows& rows, int column,
                             float (&s)[kScores]) {
  if constexpr (cfg::kSoftcap) {
#pragma unroll
    for (int i = 0; i < kScores; ++i) s[i] = tanh_exact(s[i] * (args.scale / args.softcap));
  } else if constexpr (!kAddends && cfg::kNegativeScale) {
#pragma unroll
    for (int i = 0; i < kScores; ++i) s[i] = -s[i];
  }
  if constexpr (kAddends) {
    const float factor = cfg::kSoftcap ? args.softcap : args.scale;
    const int diagonal = lengths.diagonal(args);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int query = rows.query[row];
      const float slope = cfg::kAlibi && args.alibi != nullptr
                              ? args.alibi[rows.batch * args.alibi_batch_stride + rows.head[row]]
                              : 0.0f;
      const float* bias = nullptr;
      if constexpr (cfg::kBias) {
        bias = args.bias + rows.batch * args.bias_strides.batch + rows.head[row] * args.bias_strides.head +
               query * args.bias_strides.row;
      }
#pragma unroll
      for (int i = 2 * row; i < kScores; i += (i & 1) ? 3 : 1) {
        const int key = column + 8 * (i >> 2) + (i & 1);
        float x = s[i] * factor;
        if constexpr (cfg::kBias) {
          if (args.bias != nullptr && query < lengths.q && key < lengths.k) x += bias[key * args.bias_strides.column];
        }
        if constexpr (cfg::kAlibi) x -= slope * fabsf(static_cast<float>(query + diagonal - key));
        s[i] = x * kLog2e;
      }
    }
  }
}

// Zeroes dropped probabilities, after the row sums. `key` is the block's first key. Each lane of four draws for another
// group of eight keys; the transpose hands every lane the word that holds its own two keys.
TS_DEVICE void drop(const TsCudaAttentionArgs& args, const Rows& rows, int key, float (&s)[kScores]) {
  static_assert(cfg::kTileN % 32 == 0 || !cfg::kDropout, "the dropout stream is drawn for 32 keys at a time");
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    Philox philox;
    philox.start(args, static_cast<u32>(rows.batch * args.heads_q + rows.head[row]));
#pragma unroll
    for (int tile = 0; tile < cfg::kTileN / 8; tile += 4) {
      u32 words[4];
      philox.draw(key / 8 + tile + (threadIdx.x & 3), rows.query[row], words);
      quad_transpose(words);
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const int i = 4 * (tile + w) + 2 * row;
        if ((words[w] & 0xffff) < args.drop_threshold) s[i] = 0.0f;
        if ((words[w] >> 16) < args.drop_threshold) s[i + 1] = 0.0f;
      }
    }
  }
}

// What the kept probabilities are multiplied by.
TS_DEVICE float keep_scale(const TsCudaAttentionArgs& args) {
  return cfg::kDropout ? 65536.0f / static_cast<float>(65536u - args.drop_threshold) : 1.0f;
}

}  // namespace ts
