// Partial results of rows, and how they are joined: a block's warps through shared memory, an item's pieces through
// memory, both in a fixed order.
//
// A partial is a row's unnormalised output beside its base (in units of log2) and its sum, which belong to probabilities
// exp2(logit - base). A row that saw nothing has the base -infinity and the sum 0.
#pragma once

#include "../../common/came_last.cuh"
#include "abi.h"

namespace ts {

struct State {
  float base;
  float sum;
};

// What some columns of a row are brought to while partials are added.
template <int kColumns = 4>
struct Joined {
  State state{-kInfinity, 0.0f};
  float o[kColumns] = {};

  TS_DEVICE void add(const State& other, const float (&values)[kColumns]) {
    // What saw nothing adds nothing, whatever its values are: they may be 0 * infinity. A NaN goes on.
    if (other.sum == 0.0f) return;
    const float base = max_nan(state.base, other.base);
    const float own = state.sum == 0.0f ? 0.0f : exp2_approx(state.base - base);
    const float weight = exp2_approx(other.base - base);
    state.base = base;
    state.sum = __fmaf_rn(state.sum, own, __fmul_rn(other.sum, weight));
#pragma unroll
    for (int i = 0; i < kColumns; ++i) o[i] = __fmaf_rn(o[i], own, __fmul_rn(values[i], weight));
  }

  // Adds the first `count` of some, in ascending order. All are brought to one base first, so that no weight waits for
  // the one before.
  template <int kParts>
  TS_DEVICE void add_all(const State (&others)[kParts], const float (&values)[kParts][kColumns], int count) {
    float base = state.base;
#pragma unroll
    for (int i = 0; i < kParts; ++i)
      if (i < count && others[i].sum != 0.0f) base = max_nan(base, others[i].base);
    const float own = state.sum == 0.0f ? 0.0f : exp2_approx(state.base - base);
    state.base = base;
    state.sum = __fmul_rn(state.sum, own);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) o[c] = __fmul_rn(o[c], own);
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
      if (i >= count || others[i].sum == 0.0f) continue;
      const float weight = exp2_approx(others[i].base - base);
      state.sum = __fmaf_rn(others[i].sum, weight, state.sum);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) o[c] = __fmaf_rn(values[i][c], weight, o[c]);
    }
  }
};

TS_DEVICE void load_floats(float (&r)[4], u32 shared) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3])
               : "r"(shared)
               : "memory");
}
TS_DEVICE State load_state(u32 shared) {
  State state;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(state.base), "=f"(state.sum) : "r"(shared) : "memory");
  return state;
}

TS_DEVICE void store_floats(u32 shared, const float* r) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "f"(r[0]), "f"(r[1]), "f"(r[2]), "f"(r[3])
               : "memory");
}
TS_DEVICE void store_state(u32 shared, const State& state) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(shared), "f"(state.base), "f"(state.sum) : "memory");
}

// From and to memory that other blocks write and read: not through this SM's cache.
TS_DEVICE void load_part(float* r, const float* p) {
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3])
               : "l"(p)
               : "memory");
}
TS_DEVICE State load_part_state(const float* p) {
  State state;
  asm volatile("ld.global.cg.v2.f32 {%0, %1}, [%2];" : "=f"(state.base), "=f"(state.sum) : "l"(p) : "memory");
  return state;
}
TS_DEVICE void store_part(float* p, const float* r) {
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p), "f"(r[0]), "f"(r[1]), "f"(r[2]), "f"(r[3])
               : "memory");
}
TS_DEVICE void store_part_state(float* p, const State& state) {
  asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(p), "f"(state.base), "f"(state.sum) : "memory");
}

}  // namespace ts
