// Online softmax over one block of scores, and the mask before it.
//
// Scores lie as mma and wgmma leave them (m16n8 tiles): registers 4j, 4j+1 are the
// thread's first row, columns 8j+2q and 8j+2q+1 with q = lane % 4; registers 4j+2, 4j+3 the same columns of its second
// row, eight rows below. They may keep any positive unit until the exponential: p = exp2(s * unit - peak * unit), one
// FMA and one exp2 per score.
#pragma once

#include "../common/common.cuh"

#include "../../gpu/attention/far_base.h"

namespace ts {

constexpr int kScores = cfg::kTileN / 2;  // score registers of a thread: half in its first row, half in its second

// The two rows of a thread: running maximum of the logits in units of log2 (or zero where logits are bounded), and the
// thread's own running sum (the lanes' sums are added at the end).
struct RowState {
  float peak[2];
  float sum[2];
};

// `end` and `begin` bound the visible keys of the thread's two rows, relative to the block's first key and the thread's
// first column.
TS_DEVICE bool is_hidden(int i, const int (&begin)[2], const int (&end)[2]) {
  const int row = (i >> 1) & 1;
  const int column = 8 * (i >> 2) + (i & 1);
  return column >= end[row] || (cfg::kMaskLeft && column < begin[row]);
}
TS_DEVICE void mask_scores(float (&s)[kScores], const int (&begin)[2], const int (&end)[2]) {
#pragma unroll
  for (int i = 0; i < kScores; ++i) {
    if (is_hidden(i, begin, end)) s[i] = -kInfinity;
  }
}

// How far, in powers of two, a row's maximum may rise before the row is brought to the new one. The base of the
// exponentials cancels in the end, so an old one costs nothing but range: probabilities up to 2^8 are as exact in bf16
// and fp16 as those up to 1, and most blocks leave the output unscaled. The decision is each row's own: a row's result
// does not depend on its neighbours'.
//
// e4m3 ends at 448 and is worth four bits less: there probabilities are multiplied by 2^kLift, up to 2^8 after a rise.
constexpr float kRise = cfg::kFp8 ? 2.0f : 8.0f;
// bf16 has float32's range: there a base may lie as far below the maximum as sums and products with values leave room
// for.
constexpr float kFarRise = 64.0f;
constexpr float kLift = cfg::kFp8 ? 6.0f : 0.0f;

// The largest of the thread's scores in one of its two rows, `least` if that is larger.
//
// kIntegers: floats that are not negative are in the order of their bits, and there is a maximum of three integers:
// half the instructions. A row without such a score in some lane takes the other way.
template <bool kIntegers>
TS_DEVICE float largest_score(const float (&s)[kScores], int row, float least) {
  if constexpr (kIntegers) {
    int even = __float_as_int(s[2 * row]), odd = __float_as_int(s[2 * row + 1]);
#pragma unroll
    for (int i = 4; i + 4 < kScores; i += 8) {
      even = imax(imax(even, __float_as_int(s[i + 2 * row])), __float_as_int(s[i + 2 * row + 4]));
      odd = imax(imax(odd, __float_as_int(s[i + 2 * row + 1])), __float_as_int(s[i + 2 * row + 5]));
    }
    constexpr int kLast = kScores - 4;
    const int last = imax(__float_as_int(s[kLast + 2 * row]), __float_as_int(s[kLast + 2 * row + 1]));
    const int largest = imax(imax(even, odd), last);
    if (!__any_sync(0xffffffffu, largest < 0)) return __int_as_float(largest);
  }
  // Two chains, because a chain of maxima is bound by latency.
  float even = s[2 * row], odd = s[2 * row + 1];
  if (row > 0) {
    even = fmaxf(even, least);
    odd = fmaxf(odd, least);
  }
#pragma unroll
  for (int i = 4; i < kScores; i += 4) {
    even = fmaxf(even, s[i + 2 * row]);
    odd = fmaxf(odd, s[i + 2 * row + 1]);
  }
  return fmaxf(even, odd);
}

// How a block's maxima are taken. The second row's best runs under the first row's exponentials, but the compiler takes
// both first, unless something keeps it from that: the test of the integers does, or (staggered) a number that it
// cannot know to be -infinity.
enum class Maxima { floats, staggered, integers };

// The probabilities of one of the thread's two rows, and their sum.
TS_DEVICE float exponentiate(float (&s)[kScores], int row, float unit, float shift) {
  float even_sum = 0.0f, odd_sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kScores; i += 4) {
    float& a = s[i + 2 * row];
    float& b = s[i + 2 * row + 1];
    a = exp2_approx(fmaf(a, unit, -shift));
    b = exp2_approx(fmaf(b, unit, -shift));
    even_sum += a;
    odd_sum += b;
  }
  return even_sum + odd_sum;
}

// Takes a base off one of the thread's two rows where it is `far` from 0; scores keep their unit, and `base` becomes 0. The
// vote makes this a branch of the warp: without it ordinary rows would pay for every instruction.
TS_DEVICE void take_off_far(float (&s)[kScores], int row, float unit, bool far, float& base) {
  if constexpr (cfg::kBias) {
    if (!__any_sync(0xffffffffu, far)) return;
    const float inverse = 1.0f / unit;
#pragma unroll
    for (int i = 2 * row; i < kScores; i += (i & 1) ? 3 : 1)
      s[i] = far ? far_exponent(s[i], unit, base) * inverse : s[i];
    base = far ? 0.0f : base;
  }
}

// Whether some row of the warp may have far scores of a far base, by each thread's largest: what is known before the rows'
// largest are, and is one vote for both of a thread's rows. Beside a far base scores that are not far have weights of 0.
TS_DEVICE bool has_far_scores(const float (&largest)[2], float unit) {
  if constexpr (!cfg::kBias) return false;
  return __any_sync(0xffffffffu, is_far(largest[0] * unit) || is_far(largest[1] * unit));
}

// Brings a row's base to the peak of a block where that has risen, and tells what the output so far must be multiplied by;
// kFirst starts a new row.
template <bool kFirst>
TS_DEVICE float update_peak(RowState& rows, int row, float peak, float most_rise, float (&factor)[2]) {
  factor[row] = 1.0f;
  if constexpr (!kFirst) {
    const float rise = peak - rows.peak[row];
    const bool risen = rise > most_rise;  // false for a NaN: nothing seen before, and nothing now
    factor[row] = risen ? exp2_approx(-rise) : 1.0f;
    peak = risen ? peak : rows.peak[row];
  }
  rows.peak[row] = peak;
  return peak;
}

template <bool kFirst>
TS_DEVICE void add_to_sum(RowState& rows, int row, float sum, const float (&factor)[2]) {
  rows.sum[row] = kFirst ? sum : fmaf(rows.sum[row], factor[row], sum);
}

// update_softmax beside a bias: both rows' bases are known before the first exponential, for one vote.
template <bool kFirst, Maxima kMaxima>
TS_DEVICE void update_biased_softmax(float (&s)[kScores], RowState& rows, float (&factor)[2], float unit,
                                     float most_rise) {
  float largest[2], bases[2];
  bool far[2];
#pragma unroll
  for (int row = 0; row < 2; ++row) largest[row] = largest_score<kMaxima == Maxima::integers>(s, row, -kInfinity);
  const bool may_be_far = has_far_scores(largest, unit);
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const float of_block = __fmul_rn(quad_max(largest[row]), unit);
    const float peak = update_peak<kFirst>(rows, row, of_block, most_rise, factor);
    bases[row] = peak == -kInfinity ? 0.0f : peak;
    far[row] = is_far(of_block) && is_far(peak);
  }
  if (may_be_far) {
#pragma unroll
    for (int row = 0; row < 2; ++row) take_off_far(s, row, unit, far[row], bases[row]);
  }
#pragma unroll
  for (int row = 0; row < 2; ++row)
    add_to_sum<kFirst>(rows, row, exponentiate(s, row, unit, bases[row] - kLift), factor);
}

// Turns scores into probabilities and brings the rows up to date. `factor` is what the output so far must be multiplied
// by; kFirst starts new rows. kGuard allows for rows that have seen nothing yet, whose maximum is -infinity; a bias may
// hide whole blocks in any place. Rows whose scores are `bounded` keep the base 0. Multiplications are rounded explicitly: the compiler would fuse them with
// additions in some copies of this code and not in others, and a row would depend on the schedule.
template <bool kFirst, bool kGuard, Maxima kMaxima = Maxima::floats>
TS_DEVICE void update_softmax(float (&s)[kScores], RowState& rows, float (&factor)[2], float unit,
                              bool bounded = false, float most_rise = kRise) {
  if constexpr (cfg::kBias) return update_biased_softmax<kFirst, kMaxima>(s, rows, factor, unit, most_rise);
  float least = -kInfinity;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const float largest = bounded ? 0.0f : quad_max(largest_score<kMaxima == Maxima::integers>(s, row, least));
    const float peak = update_peak<kFirst>(rows, row, __fmul_rn(largest, unit), most_rise, factor);
    const float base = kGuard && peak == -kInfinity ? 0.0f : peak;
    const float shift = base - kLift;
    // -infinity, or a NaN, which a maximum passes over.
    if constexpr (kMaxima == Maxima::staggered) least = fmaf(shift, 0.0f, -kInfinity);
    add_to_sum<kFirst>(rows, row, exponentiate(s, row, unit, shift), factor);
  }
}

// The same with the base that the rows have, without looking for a maximum: what update_softmax with kFarRise computes
// where no score lies more than 2^kFarRise above the base. Where one does, the row's sum says so (is_within).
TS_DEVICE void trust_base(float (&s)[kScores], RowState& rows, float (&factor)[2], float unit) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    factor[row] = 1.0f;
    rows.sum[row] += exponentiate(s, row, unit, rows.peak[row]);
  }
}
// Of a row's whole sum: whether its base may be trusted. Not for a NaN. Less than 2^kFarRise, for update_softmax compares
// rounded maxima, and must not find a rise where this finds none.
TS_DEVICE bool is_within(float sum) {
  return sum < 0x1p56f;
}
// Of rows after a tile's first two blocks: whether they are likely to lose that trust. Where logits reach so far above 0 they may
// rise as far again, as random ones do; where they only lie far from 0 maxima are taken for nothing.
TS_DEVICE bool is_steep(const RowState& rows) {
  return fmaxf(rows.peak[0], rows.peak[1]) > kFarRise;
}
// Before maxima are taken again, which may bring a sum back within: one that is not stays so.
TS_DEVICE void keep_wrong(RowState& rows) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    if (!is_within(rows.sum[row])) rows.sum[row] = kInfinity;
  }
}

// Probabilities in the order in which P x V reads them as its A operand: the accumulator's columns
// 16i..16i+15 are step i. In fp8 columns 32i..32i+31 are step i, and since the operand wants four neighbours of a
// thread where the accumulator has two pairs, it gets the keys in another order: with q = lane % 4, place 16h + 4q + 2j
// + e of a step is key 16h + 8j + 2q + e. The values are stored in the same order (hopper/transpose.cuh).
constexpr int kProbabilities = kScores / (cfg::kFp8 ? 4 : 2);

template <bool kBf16 = cfg::kBf16>
TS_DEVICE void pack_probabilities(const float (&s)[kScores], u32 (&p)[kProbabilities]) {
  if constexpr (cfg::kFp8) {
#pragma unroll
    for (int i = 0; i < kScores; i += 8) {
      p[i / 4] = pack_e4m3(s[i], s[i + 1], s[i + 4], s[i + 5]);
      p[i / 4 + 1] = pack_e4m3(s[i + 2], s[i + 3], s[i + 6], s[i + 7]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kScores / 2; ++i) p[i] = pack<kBf16>(s[2 * i], s[2 * i + 1]);
  }
}

}  // namespace ts
