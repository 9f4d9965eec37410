// GEMM on Composable Kernel: the arguments of a call, the record of an instance, and which calls an instance serves.
// Sizes and strides count elements; a stride is the distance between rows of a row-major matrix, or between columns.
#pragma once

#include "tilesmith_ck/registry.h"

namespace tilesmith_ck {

enum class GemmType { fp64, fp32, tf32, fp16, bf16, fp8, bf8, int8, int4, int32, pk_fp4 };
enum class Elementwise {
  pass_through, add, multiply, multi_d_add, multi_d_multiply, relu, gelu, fast_gelu, clamp, sigmoid, tanh, swish,
  hard_swish, add_scale
};
constexpr int kMostD = 4;  ///< tensors that an element-wise operation reads

struct GemmRecord {
  GemmType a = GemmType::fp16, b = GemmType::fp16, c = GemmType::fp16;
  bool a_by_rows = true, b_by_rows = false, c_by_rows = true, d_by_rows = true;
  int c_bytes = 2;  ///< of an element of c
  int tile_m = 0, tile_n = 0, tile_k = 0;
  bool pad_m = false, pad_n = false, pad_k = false;
  bool persistent = false, preshuffle = false;  ///< preshuffle: B comes in the order of the kernel's fragments
  int num_d = 0;
  Elementwise elementwise = Elementwise::pass_through;
};

struct GemmArguments {
  // which kernel
  GemmType type_a = GemmType::fp16, type_b = GemmType::fp16, type_c = GemmType::fp16;
  bool a_by_rows = true, b_by_rows = false, c_by_rows = true, d_by_rows = true, preshuffled_b = false;
  Elementwise elementwise = Elementwise::pass_through;
  int num_d = 0;
  // matrices on the device: c = elementwise(a x b, d...)
  const void *a = nullptr, *b = nullptr;
  const void* d[kMostD] = {};
  void* c = nullptr;
  int m = 0, n = 0, k = 0;
  int stride_a = 0, stride_b = 0, stride_c = 0;
  int stride_d[kMostD] = {};
  int k_batch = 1;  ///< parts of k whose sums are added into c, which is set to zero before; 1 with d
};

/// Whether a kernel may compute a call. The kernel's own test, before each launch, knows more: alignment, vectors.
inline bool serves(const GemmRecord& r, const GemmArguments& a) {
  return r.a == a.type_a && r.b == a.type_b && r.c == a.type_c && r.a_by_rows == a.a_by_rows &&
         r.b_by_rows == a.b_by_rows && r.c_by_rows == a.c_by_rows && r.num_d == a.num_d &&
         (r.num_d == 0 || r.d_by_rows == a.d_by_rows) && r.elementwise == a.elementwise &&
         r.preshuffle == a.preshuffled_b && (r.pad_m || a.m % r.tile_m == 0) && (r.pad_n || a.n % r.tile_n == 0) &&
         (r.pad_k || a.k % (r.tile_k * a.k_batch) == 0) && (r.num_d == 0 || a.k_batch == 1);
}

inline bool comes_before(const GemmRecord& a, const GemmRecord& b) {
  return a.tile_m * a.tile_n > b.tile_m * b.tile_n;
}

using GemmInstance = Instance<GemmRecord, GemmArguments>;

}  // namespace tilesmith_ck
