// A logit is a score times a constant that is applied in the exponential (`logit_unit`). Until then scores keep the
// unit in which the traits have the least to do: without a trait and with ALiBi the dot product q k, with a soft cap
// logits in units of log2, with a bias logits. Needs kSoftCap, kBias and kDropout.
#pragma once

#include "../../contract/attention.h"

namespace ts {

// The factor from a dot product, or from what a soft cap makes of it, to a logit. Without a bias it is positive, so
// that the largest score is the largest logit: the sign of a negative scale goes to the scores (a trait, because a test
// at run time costs an instruction a score), and a scale of zero becomes the smallest positive number. `scale` is the
// scale of the call, times those of fp8 queries and keys.
TS_DEVICE float logit_factor(const TsAttentionCall& args, float scale) {
  if constexpr (cfg::kSoftCap) return kLn2;
  return cfg::kBias ? scale : fmaxf(fabsf(scale), 1e-30f);
}

// What a score is multiplied by in the exponential of 2.
TS_DEVICE float logit_unit(const TsAttentionCall& args, float scale) {
  if constexpr (cfg::kSoftCap && !cfg::kBias) return 1.0f;
  return cfg::kBias ? kLog2e : logit_factor(args, scale) * kLog2e;
}

// What the kept probabilities are multiplied by.
TS_DEVICE float keep_scale(const TsAttentionCall& args) {
  return cfg::kDropout ? 65536.0f / static_cast<float>(65536u - args.drop_threshold) : 1.0f;
}

}  // namespace ts
