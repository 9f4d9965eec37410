// From scores to probabilities, in the registers of the product: a lane has scores of one row, value r of fragment j
// for key first_key + j * kFragment + row_of_result(r, part).
#pragma once

#include "item.h"

#include "../../gpu/attention/far_base.h"
#include "../../gpu/attention/finish_row.h"
#include "../../gpu/attention/logits.h"
#include "../../gpu/attention/philox.h"
#include "../../gpu/attention/soft_cap.h"

namespace ts {

using Scores = Sums[kKeyFragments];

// What the lane's row sees and what its traits need.
struct Row {
  int batch, head, query, part;
  int begin, end;     // of the keys that it sees
  float slope;        // of ALiBi: negative, in the scores' unit
  int diagonal;       // the key at distance zero
  const float* bias;  // of the row; null: none
  float scale;        // of the call, times that of the keys

  TS_DEVICE Row(const TsHipAttentionArgs& args, const Item& item, int row, int of_part)
      : batch(item.batch), head(head_of(args, item, row)), query(query_of(args, row)), part(of_part) {
    scale = args.scale * item_scale(args, item, args.k_scale);
    begin = key_begin(args, item.length, query);
    end = key_end(args, item.length, query);
    diagonal = query + item.length.diagonal(args);
    slope = 0.0f;
    if constexpr (cfg::kAlibi)
      if (args.alibi != nullptr)
        slope = args.alibi[batch * args.alibi_batch_stride + head] * (-kLog2e / logit_unit(args, scale));
    bias = nullptr;
    if constexpr (cfg::kBias)
      if (args.bias != nullptr)
        bias =
            args.bias + batch * args.bias_strides.batch + head * args.bias_strides.head + query * args.bias_strides.row;
  }
};

// Scores times the scale of the call become what the exponential multiplies by logit_unit. What the row does not see is
// -infinity; `cut`: some row of the block does not see some key.
TS_DEVICE void finish_scores(const TsHipAttentionArgs& args, const Row& row, int first_key, bool cut, Scores& s) {
  const float factor = logit_factor(args, row.scale);
  float inner = 0.0f;
  if constexpr (cfg::kSoftCap) inner = inner_scale(row.scale, args.soft_cap);
#pragma unroll
  for (int j = 0; j < kKeyFragments; ++j) {
#pragma unroll
    for (int r = 0; r < kResults; ++r) {
      const int key = first_key + j * kFragment + row_of_result(r, 0) + (row_of_result(0, 1) * row.part);
      const bool visible = key >= row.begin && key < row.end;
      float x = s[j][r];
      if constexpr (cfg::kSoftCap)
        x = args.soft_cap * kLog2e * soft_cap_tanh(x * inner);
      else if constexpr (!cfg::kBias && cfg::kNegativeScale)
        x = -x;
      if constexpr (cfg::kBias) {
        const bool there = row.bias != nullptr && visible;
        x = fmaf(x, factor, there ? row.bias[key * args.bias_strides.column] : 0.0f);
      }
      if constexpr (cfg::kAlibi) x = fmaf(row.slope, fabsf(static_cast<float>(row.diagonal - key)), x);
      s[j][r] = cut && !visible ? -kInfinity : x;
    }
  }
}

TS_DEVICE float max_of_row(float x, int part) {
#pragma unroll
  for (int bit = 1; bit < kParts; bit *= 2)
    x = fmaxf(x, __builtin_bit_cast(float, of_part<kFragment>(__builtin_bit_cast(u32, x), part ^ bit)));
  return x;
}
TS_DEVICE float sum_of_row(float x, int part) {
#pragma unroll
  for (int bit = 1; bit < kParts; bit *= 2)
    x += __builtin_bit_cast(float, of_part<kFragment>(__builtin_bit_cast(u32, x), part ^ bit));
  return x;
}

// The base of the row's exponentials in units of log2, and the lane's own running sum. The base cancels in the end.
struct RowState {
  float base = -kInfinity;
  float sum = 0.0f;
};

// A new base lies so far, in powers of two, below the row's maximum that fp16 has probabilities down to 2^-24 of the
// largest as normal numbers: MFMA of gfx90a takes subnormal ones for zeros. Scales of values up to 2^8 must fit above.
constexpr float kLift = cfg::kBf16 ? 0.0f : kScaledRows ? 4.0f : 10.0f;
// How far the maximum may rise before the row is brought to a new base: probabilities are as exact in 16 bits, and fp16
// ends at 2^16. The decision is each row's own: a row's result does not depend on its neighbours'.
constexpr float kRise = cfg::kBf16 ? 8.0f : 4.0f;

// Takes a base that is far from 0 off the scores, which keep their unit; `base` becomes 0.
TS_DEVICE void take_off_far(Scores& s, float unit, float& base) {
  if (!is_far(base)) return;
  const float inverse = 1.0f / unit;
#pragma unroll
  for (int j = 0; j < kKeyFragments; ++j) {
#pragma unroll
    for (int r = 0; r < kResults; ++r) s[j][r] = far_exponent(s[j][r], unit, base) * inverse;
  }
  base = 0.0f;
}

// Turns scores into probabilities and brings the row up to date. Returns what its output so far must be multiplied by.
TS_DEVICE float update_softmax(Scores& s, RowState& row, float unit, int part) {
  float largest = -kInfinity;
#pragma unroll
  for (int j = 0; j < kKeyFragments; ++j) {
#pragma unroll
    for (int r = 0; r < kResults; ++r) largest = fmaxf(largest, s[j][r]);
  }
  const float peak = rounded_product(max_of_row(largest, part), unit);
  const float lowered = is_far(peak) ? peak : peak - kLift;  // the difference could round to 2^4, and fp16 end
  const float rise = lowered - row.base;
  const bool risen = rise > kRise;  // false for a NaN: nothing seen before, and nothing now
  const float factor = risen ? exp2_approx(-rise) : 1.0f;
  row.base = risen ? lowered : row.base;
  float base = row.base == -kInfinity ? 0.0f : row.base;
  take_off_far(s, unit, base);
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < kKeyFragments; ++j) {
#pragma unroll
    for (int r = 0; r < kResults; ++r) {
      const float p = exp2_approx(fmaf(s[j][r], unit, -base));
      s[j][r] = p;
      sum += p;
    }
  }
  row.sum = fmaf(row.sum, factor, sum);
  return factor;
}

// Scores of keys, or probabilities, times what is stored of them.
TS_DEVICE void scale_rows(const TS_LDS float* scales, int part, Scores& s) {
#pragma unroll
  for (int j = 0; j < kKeyFragments; ++j) {
#pragma unroll
    for (int r = 0; r < kResults; ++r) s[j][r] *= scales[j * kFragment + row_of_result(r, part)];
  }
}

// Zeroes dropped probabilities, after the row sums. Each part of a row draws for another group of eight keys, and takes
// the others' words: the lane has four keys of a group, or all eight.
TS_DEVICE void drop(const TsHipAttentionArgs& args, const Row& row, int first_key, Scores& s) {
  constexpr int kRun = cfg::kRunOfResults, kOfGroup = kRun == 8 ? 8 : 4;
  static_assert(kRun == 1 || kRun == 4 || kRun == 8, "a lane's keys of a group");
  static_assert(cfg::kTileN % (8 * kParts) == 0 || !cfg::kDropout, "every part draws as often");
  const u32 bound = args.drop_threshold << 16;
  const int group_of_part = row_of_result(0, 1) * row.part / 8;
  Philox philox;
  philox.start(args, static_cast<u32>(row.batch * args.heads_q + row.head));
  u32 drawn[4];
  int draws = 0;
#pragma unroll
  for (int j = 0; j < kKeyFragments; ++j) {
#pragma unroll
    for (int first = 0; first < kResults; first += kOfGroup) {
      const int group = (j * kFragment + row_of_result(first, 0)) / 8;
      if (group / kParts == draws)
        philox.draw(static_cast<u32>(first_key / 8 + draws++ * kParts + row.part), row.query, drawn);
      u32 words[4];
#pragma unroll
      for (int w = 0; w < 4; ++w)
        words[w] = kRun == 8 ? drawn[w] : of_part<kFragment>(drawn[w], (group + group_of_part) % kParts);
#pragma unroll
      for (int i = 0; i < kOfGroup; ++i) {
        u32 word = words[kRun == 1 ? i : i / 2];
        if constexpr (kRun == 4) {
          const u32 of_odd_part = words[2 + i / 2];
          word = row.part % 2 == 0 ? word : of_odd_part;
        }
        const bool upper = kRun == 1 ? row.part != 0 : i % 2 != 0;
        if ((upper ? word : word << 16) < bound) s[j][first + i] = 0.0f;
      }
    }
  }
}

// Probabilities as the second product's operand, kJoin fragments of keys from `first` on.
TS_DEVICE void pack_probabilities(const Scores& s, int first, int part, u32 (&words)[kProductWords]) {
  u32 own[kShare / 2];
#pragma unroll
  for (int w = 0; w < kShare / 2; ++w) {
    const int j = first + 2 * w / kResults, r = 2 * w % kResults;
    own[w] = pack<cfg::kBf16>(s[j][r], s[j][r + 1]);
  }
#pragma unroll
  for (int w = 0; w < kShare / 2; ++w) {
    if constexpr (kOperandShares == 1) {
      words[w] = own[w];
    } else {
      const u32 other = of_part<kFragment>(own[w], part ^ 1);
      words[w] = part == 0 ? own[w] : other;
      words[kShare / 2 + w] = part == 0 ? other : own[w];
    }
  }
}

}  // namespace ts
