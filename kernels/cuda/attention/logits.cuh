// From scores to logits, and dropout: the traits of the attention contract that touch single scores, on the register
// layout of softmax.cuh.
#pragma once

#include "philox.cuh"
#include "soft_cap.cuh"

#include "../../gpu/attention/finish_row.h"
#include "../../gpu/attention/logits.h"
#include "../../gpu/attention/visible.h"

namespace ts {

// The thread's two rows in the problem.
struct Rows {
  int batch;
  int head[2];
  int query[2];
};

// The logit of which a row's probabilities are fractions, in units of log2, from the row's `peak`.
TS_DEVICE float base_logit(float peak) {
  return peak - kLift;
}

// What ALiBi needs of the thread's two rows.
struct Alibi {
  float slope[2];   // negative, in the scores' unit
  int diagonal[2];  // the key at distance zero

  TS_DEVICE void start(const TsCudaAttentionArgs& args, const Rows& rows, const Lengths& lengths, float unit) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      slope[r] = args.alibi == nullptr
                     ? 0.0f
                     : args.alibi[rows.batch * args.alibi_batch_stride + rows.head[r]] * (-kLog2e / unit);
      diagonal[r] = rows.query[r] + lengths.diagonal(args);
    }
  }
};

// Where there is no bias to add.
struct NoBias {
  TS_DEVICE void add(float factor, float (&s)[kScores]) const {
#pragma unroll
    for (int i = 0; i < kScores; ++i) s[i] *= factor;
  }
};

// A bias that is read by threads, with any strides; `column` is the key of the thread's first score, an even number. The forms
// of kMayBeAdjacent take registers that decode does not have.
template <bool kMayBeAdjacent = true>
struct GlobalBias {
  enum class Form { any, adjacent, pairs };

  const TsCudaAttentionArgs& args;
  const Lengths lengths;
  const Rows rows;
  const int column;

  // Whether two keys of even number and its successor are eight bytes at a multiple of eight, both in the sequence or none.
  TS_DEVICE bool has_pairs() const {
    const TsStrides& s = args.bias_strides;
    const i64 any = static_cast<i64>(reinterpret_cast<unsigned long long>(args.bias) / sizeof(float)) | s.batch | s.head | s.row;
    return ((any | lengths.k) & 1) == 0;
  }

  // Scores times `factor` plus the bias. Where keys follow one another their distances are known when this is compiled:
  // otherwise a score costs a multiplication of 64 bits.
  TS_DEVICE void add(float factor, float (&s)[kScores]) const {
    if (!kMayBeAdjacent || args.bias_strides.column != 1) {
      add_as<Form::any>(factor, s);
    } else if (has_pairs()) {
      add_as<Form::pairs>(factor, s);
    } else {
      add_as<Form::adjacent>(factor, s);
    }
  }

  template <Form kForm>
  TS_DEVICE void add_as(float factor, float (&s)[kScores]) const {
    const long long step = kForm == Form::any ? args.bias_strides.column : 1;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int query = rows.query[row];
      const float* const bias = args.bias + rows.batch * args.bias_strides.batch +
                                rows.head[row] * args.bias_strides.head + query * args.bias_strides.row + column * step;
      const int keys = args.bias != nullptr && query < lengths.q ? lengths.k - column : 0;
#pragma unroll
      for (int i = 2 * row; i < kScores; i += 4) {
        const int key = 8 * (i >> 2);
        float first = 0.0f, second = 0.0f;
        if constexpr (kForm == Form::pairs) {
          if (key < keys) {
            const float2 pair = *reinterpret_cast<const float2*>(bias + key);
            first = pair.x;
            second = pair.y;
          }
        } else {
          if (key < keys) first = bias[key * step];
          if (key + 1 < keys) second = bias[(key + 1) * step];
        }
        s[i] = fmaf(s[i], factor, first);
        s[i + 1] = fmaf(s[i + 1], factor, second);
      }
    }
  }
};

// `column` is the key of the thread's first score; `bias` adds a block of the bias, if the kernel has that trait.
template <class Bias>
TS_DEVICE void finish_logits(const TsCudaAttentionArgs& args, float scale, const Alibi& alibi, const Bias& bias,
                             int column, float (&s)[kScores]) {
  if constexpr (cfg::kSoftCap) {
    // A bias or dropout leaves no registers for a choice.
    if constexpr (cfg::kFp32) {
      SoftCap::exact(scale, args.soft_cap, s);
    } else if constexpr (cfg::kBias || cfg::kDropout) {
      SoftCap::far(scale, args.soft_cap, s);
    } else {
      SoftCap::apply(scale, args.soft_cap, s);
    }
  } else if constexpr (!cfg::kBias && cfg::kNegativeScale) {
#pragma unroll
    for (int i = 0; i < kScores; ++i) s[i] = -s[i];
  }
  if constexpr (cfg::kBias) bias.add(logit_factor(args, scale), s);
  if constexpr (cfg::kAlibi) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float distance = static_cast<float>(alibi.diagonal[row] - column);
#pragma unroll
      for (int i = 2 * row; i < kScores; i += (i & 1) ? 3 : 1)
        s[i] = fmaf(alibi.slope[row], fabsf(distance - static_cast<float>(8 * (i >> 2) + (i & 1))), s[i]);
    }
  }
}

// Zeroes the probabilities of two neighbouring keys that a word of the dropout stream drops. `bound` is the threshold
// shifted to the upper half.
TS_DEVICE void drop_pair(u32 word, u32 bound, float& first, float& second) {
  if (word << 16 < bound) first = 0.0f;
  if (word < bound) second = 0.0f;
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
        drop_pair(words[w], args.drop_threshold << 16, s[i], s[i + 1]);
      }
    }
  }
}

}  // namespace ts
