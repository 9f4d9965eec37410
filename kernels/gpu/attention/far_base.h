// Rows whose base, the number that is taken off their logits before the exponential, lies far from 0. A base is a
// product that has been rounded, and the product with the unit inside of a fused multiply-add is not: beside one
// another they give exponents that are wrong by up to half a unit of the base's last place, which is 2^6 at -1e9. fp16
// has no probability 2^6 times as large, and the sum of a row would be infinite (the same in PyTorch:
// pytorch/pytorch#121558). A bias brings logits there: a row whose keys are all padding has -1e9 of each. Needs kBias,
// and rounded_product of the backend's own header.
#pragma once

namespace ts {

// Where half a unit of the last place is 2^-4: below, exponents keep the fused product, and rows their speed.
constexpr float kFarBase = 0x1p20f;

TS_DEVICE bool is_far(float base) {
  return cfg::kBias && fabsf(base) > kFarBase;
}

// The exponent of a score beside a base that is far: its product is rounded as the base was, so that no score has a
// larger exponent than the largest.
TS_DEVICE float far_exponent(float score, float unit, float base) {
  return rounded_product(score, unit) - base;
}

// The exponent of a score beside any base.
TS_DEVICE float exponent(float score, float unit, float base) {
  return is_far(base) ? far_exponent(score, unit, base) : fmaf(score, unit, -base);
}

}  // namespace ts
