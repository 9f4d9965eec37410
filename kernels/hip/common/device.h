// What the kernels for AMD GPUs have of their device: names for clang's builtins. Kernels are plain C++ for the target
// amdgcn, without HIP's headers or language; local memory (LDS) is an address space.
#pragma once

#define TS_DEVICE inline __attribute__((always_inline))
#define TS_LDS __attribute__((address_space(3)))
// A block's local memory: nothing writes it beforehand.
#define TS_LDS_ARRAY [[clang::loader_uninitialized]] static TS_LDS
// `waves`: of one SIMD at least, which bounds a lane's registers.
#define TS_KERNEL(threads, waves)                                                                                  \
  extern "C" __attribute__((amdgpu_kernel, visibility("protected"), amdgpu_flat_work_group_size(threads, threads), \
                            amdgpu_waves_per_eu(waves))) void

namespace ts {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;
typedef u32 Words4 __attribute__((vector_size(16)));

constexpr float kLog2e = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;
constexpr float kInfinity = __builtin_inff();

TS_DEVICE constexpr int imin(int a, int b) {
  return a < b ? a : b;
}
TS_DEVICE constexpr int imax(int a, int b) {
  return a > b ? a : b;
}
TS_DEVICE constexpr int ceil_div(int a, int b) {
  return (a + b - 1) / b;
}

// The upper half of the product.
TS_DEVICE u32 multiply_high(u32 a, u32 b) {
  return static_cast<u32>(static_cast<u64>(a) * b >> 32);
}

TS_DEVICE int thread_index() {
  return static_cast<int>(__builtin_amdgcn_workitem_id_x());
}
TS_DEVICE int block_index() {
  return static_cast<int>(__builtin_amdgcn_workgroup_id_x());
}
// A value that all lanes of a wave have alike, in a scalar register.
TS_DEVICE int uniform(int value) {
  return __builtin_amdgcn_readfirstlane(value);
}
// Whether it holds in any lane of the wave.
TS_DEVICE bool any_lane(bool condition) {
#if defined(__GFX9__)
  return __builtin_amdgcn_ballot_w64(condition) != 0;
#else
  return __builtin_amdgcn_ballot_w32(condition) != 0;
#endif
}
// The value of the lane in the same place of the wave's other half.
TS_DEVICE u32 of_other_half(u32 value) {
#if defined(__GFX9__)
  const int lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
  return static_cast<u32>(__builtin_amdgcn_ds_bpermute((lane ^ 32) * 4, static_cast<int>(value)));
#else
  return __builtin_amdgcn_permlanex16(value, value, 0x76543210u, 0xfedcba98u, false, false);
#endif
}
// All threads of the block are here, and see what the others wrote to local memory.
TS_DEVICE void block_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}

TS_DEVICE float fmaf(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
TS_DEVICE float fabsf(float x) {
  return __builtin_fabsf(x);
}
TS_DEVICE float fminf(float a, float b) {
  return __builtin_fminf(a, b);
}
TS_DEVICE float fmaxf(float a, float b) {
  return __builtin_fmaxf(a, b);
}
TS_DEVICE float log2_approx(float x) {
  return __builtin_amdgcn_logf(x);
}
TS_DEVICE float exp2_approx(float x) {
  return __builtin_amdgcn_exp2f(x);
}
TS_DEVICE float rcp_approx(float x) {
  return __builtin_amdgcn_rcpf(x);
}
// A maximum that keeps a NaN.
TS_DEVICE float max_nan(float a, float b) {
  return a > b || a != a ? a : b;
}

// Rounding to nearest even; NaN stays NaN.
TS_DEVICE u16 to_bf16(float x) {
  return __builtin_bit_cast(u16, static_cast<__bf16>(x));
}
TS_DEVICE u16 to_f16(float x) {
  return __builtin_bit_cast(u16, static_cast<_Float16>(x));
}
TS_DEVICE float from_f16(u16 x) {
  return static_cast<float>(__builtin_bit_cast(_Float16, x));
}
TS_DEVICE float from_bf16(u16 x) {
  return __builtin_bit_cast(float, static_cast<u32>(x) << 16);
}

}  // namespace ts
