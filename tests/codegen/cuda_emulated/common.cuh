// kernels/cuda/common/common.cuh for a CPU, as far as arithmetic on a row of scores goes: a warp is one thread, which has a
// quarter of a block's keys for itself. It takes the place of that file when a template is flattened for a test. Includes
// stand before the flattened text.
#pragma once

#define TS_DEVICE inline

namespace ts {

using u32 = unsigned int;

constexpr float kLog2e = 1.4426950408889634f;
constexpr float kInfinity = __builtin_inff();

inline int imax(int a, int b) { return std::max(a, b); }
inline float fmaf(float a, float b, float c) { return std::fma(a, b, c); }
inline float fabsf(float x) { return std::fabs(x); }
inline float fmaxf(float a, float b) { return std::fmax(a, b); }
inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
inline bool __any_sync(u32, bool condition) { return condition; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float rounded_product(float a, float b) { return a * b; }
inline float quad_max(float x) { return x; }

// Subnormal results are zeros, as ex2.approx.ftz has them.
inline float exp2_approx(float x) { return x < -126.0f ? 0.0f : std::exp2(x); }

// Of products that a test does itself.
template <bool kBf16>
u32 pack(float low, float high);
u32 pack_e4m3(float a, float b, float c, float d);

}  // namespace ts
