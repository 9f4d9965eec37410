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
TS_DEVICE constexpr int round_up(int a, int b) {
  return ceil_div(a, b) * b;
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
// The value of the lane in the same place of another part of the wave; a part has kLanes lanes, on RDNA half of them.
template <int kLanes>
TS_DEVICE u32 of_part(u32 value, int part) {
#if defined(__GFX9__)
  return static_cast<u32>(
      __builtin_amdgcn_ds_bpermute((thread_index() % kLanes + part * kLanes) * 4, static_cast<int>(value)));
#else
  const u32 other = __builtin_amdgcn_permlanex16(value, value, 0x76543210u, 0xfedcba98u, false, false);
  return thread_index() / kLanes % 2 == part ? value : other;
#endif
}
// All threads of the block are here, and see what the others wrote to local memory. The wait is written out: clang 22
// leaves out that of a fence at the head of a loop whose entry waited, though the loop's end writes.
TS_DEVICE void block_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
#if defined(__GFX12__)
  asm volatile("s_wait_dscnt 0x0");
#elif defined(__GFX11__)
  __builtin_amdgcn_s_waitcnt(0xfc07);  // lgkmcnt(0)
#else
  __builtin_amdgcn_s_waitcnt(0xc07f);
#endif
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}

// The compiler moves nothing across: else it loads operands far ahead, into registers that others need.
TS_DEVICE void schedule_apart() {
  __builtin_amdgcn_sched_barrier(0);
}

// The value is worked out before this place: else the compiler may do that later, where what it is made of has to wait.
template <class Value>
TS_DEVICE void pin(Value& value) {
  asm volatile("" : "+v"(value));
}

// The value, of which the compiler knows nothing: so it does not keep what follows from it in registers from one round
// of a loop to the next.
TS_DEVICE int recomputed(int value) {
  asm volatile("" : "+v"(value));
  return value;
}
TS_DEVICE int recomputed_uniform(int value) {
  value = uniform(value);
  asm volatile("" : "+s"(value));
  return value;
}

// *to becomes the larger of both, neither of which is negative: then floats are ordered as their bits.
TS_DEVICE void atomic_max(float* to, float value) {
  __scoped_atomic_fetch_max(reinterpret_cast<u32*>(to), __builtin_bit_cast(u32, value), __ATOMIC_RELAXED,
                            __MEMORY_SCOPE_DEVICE);
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
TS_DEVICE float copysignf(float x, float sign) {
  return __builtin_copysignf(x, sign);
}
// A product that is not fused with an addition: clang fuses within one expression alone.
TS_DEVICE float rounded_product(float a, float b) {
  return a * b;
}
// A minimum and a maximum that keep a NaN.
TS_DEVICE float min_nan(float a, float b) {
  return a < b || a != a ? a : b;
}
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
// Two floats to one packed pair of elements; `low` is the one at the lower address.
template <bool kBf16>
TS_DEVICE u32 pack(float low, float high) {
  typedef float Pair __attribute__((vector_size(8)));
  const Pair pair = {low, high};
  if constexpr (kBf16) {
    typedef __bf16 Packed __attribute__((ext_vector_type(2)));
    return __builtin_bit_cast(u32, __builtin_convertvector(pair, Packed));
  } else {
    typedef _Float16 Packed __attribute__((ext_vector_type(2)));
    return __builtin_bit_cast(u32, __builtin_convertvector(pair, Packed));
  }
}
TS_DEVICE float from_f16(u16 x) {
  return static_cast<float>(__builtin_bit_cast(_Float16, x));
}
TS_DEVICE float from_bf16(u16 x) {
  return __builtin_bit_cast(float, static_cast<u32>(x) << 16);
}

}  // namespace ts
