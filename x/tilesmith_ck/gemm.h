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

enum class StreamK { no, atomic, linear, tree };  ///< how blocks that share a tile of c add their parts

struct GemmRecord {
  GemmType a = GemmType::fp16, b = GemmType::fp16, c = GemmType::fp16;
  bool a_by_rows = true, b_by_rows = false, c_by_rows = true, d_by_rows = true;
  int c_bytes = 2;  ///< of an element of c
  int tile_m = 0, tile_n = 0, tile_k = 0;
  bool pad_m = false, pad_n = false, pad_k = false;
  bool persistent = false, preshuffle = false;  ///< preshuffle: B comes in the order of the kernel's fragments
  int num_d = 0;
  Elementwise elementwise = Elementwise::pass_through;
  StreamK stream_k = StreamK::no;
  bool grouped = false;  ///< one launch for a list of GEMMs
};

/// One GEMM of a list; what it leaves out is the same for the whole list.
struct GemmGroup {
  const void *a = nullptr, *b = nullptr;
  void* c = nullptr;
  int m = 0, n = 0, k = 0;
  int stride_a = 0, stride_b = 0, stride_c = 0;
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
  const GemmGroup* groups = nullptr;  ///< on the host: a list of GEMMs in place of a, b, c and their sizes
  int num_groups = 0;
  StreamK stream_k = StreamK::no;  ///< asked for by name: its sums depend on the number of compute units
  void* workspace = nullptr;       ///< on the device: as many bytes as the instance's workspace() says
};

/// Whether sizes that are not padded are whole tiles.
inline bool fits(const GemmRecord& r, int m, int n, int k, int k_batch) {
  return (r.pad_m || m % r.tile_m == 0) && (r.pad_n || n % r.tile_n == 0) && (r.pad_k || k % (r.tile_k * k_batch) == 0);
}

/// Whether a kernel may compute a call. The kernel's own test, before each launch, knows more: alignment, vectors.
inline bool serves(const GemmRecord& r, const GemmArguments& a) {
  if (r.grouped != (a.num_groups > 0) || r.stream_k != a.stream_k) return false;
  for (int i = 0; i < a.num_groups; ++i)
    if (!fits(r, a.groups[i].m, a.groups[i].n, a.groups[i].k, a.k_batch)) return false;
  return r.a == a.type_a && r.b == a.type_b && r.c == a.type_c && r.a_by_rows == a.a_by_rows &&
         r.b_by_rows == a.b_by_rows && r.c_by_rows == a.c_by_rows && r.num_d == a.num_d &&
         (r.num_d == 0 || r.d_by_rows == a.d_by_rows) && r.elementwise == a.elementwise &&
         r.preshuffle == a.preshuffled_b && (r.grouped || fits(r, a.m, a.n, a.k, a.k_batch)) &&
         ((r.num_d == 0 && r.stream_k == StreamK::no) || a.k_batch == 1);
}

inline bool comes_before(const GemmRecord& a, const GemmRecord& b) {
  return a.tile_m * a.tile_n > b.tile_m * b.tile_n;
}

using GemmInstance = Instance<GemmRecord, GemmArguments>;

}  // namespace tilesmith_ck
