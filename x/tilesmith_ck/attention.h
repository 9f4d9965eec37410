// Attention on Composable Kernel: the arguments of a call, the record of an instance, and which calls an instance
// serves. The types of the kernels are in attention_types.h, so that this file needs no header of Composable Kernel.
//
// Sizes and strides count elements: stride_x from token to token, nhead_stride_x from head to head, batch_stride_x from
// sequence to sequence. Arrays of sequence lengths are int32 on the device. A kernel reads the members of its family
// only; the others may be left as they are.
#pragma once

#include <cstdint>
#include <utility>
#include <variant>

#include "tilesmith_ck/registry.h"

namespace tilesmith_ck {

enum class Family {
  fwd, fwd_splitkv, fwd_splitkv_combine, fwd_pagedkv, fwd_appendkv, batch_prefill, bwd_dot_do_o, bwd_dq_dk_dv, bwd_convert_dq
};
enum class Type { fp32, fp16, bf16, fp8, bf8, fp8bf16, fp8fp32 };
enum class MaskKind { no, top_left, bottom_right, generic, causal };
enum class Bias { no, elementwise, alibi };
enum class QuantScale { no, pertensor, blockscale, kv_blockscale };
enum class Rope { none, interleaved, half_rotated };
enum class KvLayout { vectorized, linear };
enum class KvLookup { sglang, vllm };
enum class PipelineKind { plain, async, transposed, v3 };

/// What an instance computes, and the tile that decides which sizes it takes.
struct AttentionRecord {
  Family family = Family::fwd;
  Type type = Type::fp16;
  bool group = false;  ///< sequences of their own lengths, one after the other
  int hdim_q = 0, hdim_v = 0;
  int m0 = 0, n0 = 0, n1 = 0, k0max = 0;
  int pad_s = 0, pad_sk = 0, pad_d = 0, pad_dv = 0;  ///< 1: any size; 8: multiples of eight; 0: whole tiles
  MaskKind mask = MaskKind::no;
  Bias bias = Bias::no;
  bool lse = false, dropout = false, soft_cap = false, sink = false, skip_min_seqlen_q = false;
  bool paged_kv = false, deterministic = false, dbias = false, v_column_major = false, stores_rand_val = false;
  QuantScale qscale = QuantScale::no;
  Rope rope = Rope::none;
  int page_size = 0;  ///< batch_prefill; the other families take pages of any size
  KvLayout kv_layout = KvLayout::vectorized;
  KvLookup kv_lookup = KvLookup::sglang;
  int max_seqlen_q = 0;  ///< backward: most query rows; 0: any number
  PipelineKind pipeline = PipelineKind::plain;
};

/// The arguments of a call, of all nine families.
///
/// Set by the caller and easily forgotten: dq_acc is zero before dq_dk_dv adds to it. d_k and d_v have nhead_q heads
/// and not nhead_k: a caller with fewer key heads adds up the heads of each group afterwards.
struct AttentionArguments {
  // which kernel
  Type type = Type::fp16;
  MaskKind mask = MaskKind::no;
  Bias bias_kind = Bias::no;
  QuantScale qscale = QuantScale::no;
  Rope rope = Rope::none;
  KvLayout kv_layout = KvLayout::vectorized;
  KvLookup kv_lookup = KvLookup::sglang;
  Family family = Family::fwd;
  bool group = false;
  bool with_lse = false, with_dropout = false, with_soft_cap = false, with_sink = false, with_dbias = false;
  bool deterministic = false, v_column_major = false;

  // tensors
  void *q = nullptr, *k = nullptr, *v = nullptr, *bias = nullptr, *rand_val = nullptr, *lse = nullptr, *o = nullptr;
  void *lse_acc = nullptr, *o_acc = nullptr;  ///< float32, one for each split
  void *k_new = nullptr, *v_new = nullptr, *rotary_cos = nullptr, *rotary_sin = nullptr;
  void *q_descale = nullptr, *k_descale = nullptr, *v_descale = nullptr, *sink = nullptr, *d_sink = nullptr;
  void *d_o = nullptr, *d = nullptr, *d_q = nullptr, *d_k = nullptr, *d_v = nullptr, *d_bias = nullptr;
  void *dq_acc = nullptr;  ///< float32, one for each split of the keys when deterministic
  void *workspace = nullptr;

  // sizes
  int batch = 1, seqlen_q = 0, seqlen_k = 0, max_seqlen_q = 0, max_seqlen_k = 0, seqlen_k_new = 0;
  int hdim_q = 0, hdim_v = 0, nhead_q = 1, nhead_k = 1, head_ratio = 1;
  int nhead_q_total = 0, head_start = 0, rotary_dim = 0, num_splits = 1, min_seqlen_q = 0;
  bool has_mask = false, is_gappy = false;
  /// Starts of the sequences in memory: batch + 1 figures.
  void *seqstart_q = nullptr, *seqstart_k = nullptr;
  /// Lengths without padding: one figure a sequence, or cumulative. One of the two, never both.
  void *seqlen_q_ptr = nullptr, *seqlen_k_ptr = nullptr, *cu_seqlen_q = nullptr, *cu_seqlen_k = nullptr;
  void *block_scale_seqstart_q = nullptr, *block_scale_seqstart_k = nullptr, *seqstart_v_scale = nullptr;

  // pages of keys
  void *block_table = nullptr, *cache_batch_idx = nullptr;
  void *kv_indptr = nullptr, *kv_page_indices = nullptr, *kv_last_page_lens = nullptr;
  int batch_stride_block_table = 0, page_block_size = 0, num_total_pages = 0;

  // numbers
  float scale_s = 1.0f, scale_p = 1.0f, scale_o = 1.0f;
  float soft_cap = 30.0f;  ///< of kernels with one; 0 would divide by zero
  float p_drop = 0.0f, p_undrop = 1.0f;
  bool store_rand_val = false;
  /// Values, or addresses of values on the device.
  std::variant<std::pair<std::uint64_t, std::uint64_t>, std::pair<const void*, const void*>> seed_offset{};
  int window_left = -1, window_right = -1, sink_size = 0;
  int mask_type = 0;      ///< 0 none, 1 from the top left, 2 from the bottom right, 3 both bounds
  int remap_option = 2;   ///< v3: the order of blocks under a mask
  int block_scale_size_q = 0, block_scale_size_kv = 0;

  // strides
  int stride_q = 0, stride_k = 0, stride_v = 0, stride_bias = 0, stride_rand_val = 0, stride_o = 0;
  int stride_k_new = 0, stride_v_new = 0, stride_o_acc = 0, stride_d_o = 0, stride_d_q = 0, stride_d_k = 0,
      stride_d_v = 0, stride_d_bias = 0;
  int stride_q_descale = 0, stride_k_descale = 0, stride_v_descale = 0;
  int nhead_stride_q = 0, nhead_stride_k = 0, nhead_stride_v = 0, nhead_stride_bias = 0, nhead_stride_rand_val = 0,
      nhead_stride_lse = 0, nhead_stride_o = 0, nhead_stride_k_new = 0, nhead_stride_v_new = 0,
      nhead_stride_lse_acc = 0, nhead_stride_o_acc = 0, nhead_stride_d_o = 0, nhead_stride_d_q = 0,
      nhead_stride_d_k = 0, nhead_stride_d_v = 0, nhead_stride_d_bias = 0;
  int nhead_stride_q_descale = 0, nhead_stride_k_descale = 0, nhead_stride_v_descale = 0;
  int batch_stride_q = 0, batch_stride_k = 0, batch_stride_v = 0, batch_stride_bias = 0, batch_stride_rand_val = 0,
      batch_stride_lse = 0, batch_stride_o = 0, batch_stride_k_new = 0, batch_stride_v_new = 0,
      batch_stride_lse_acc = 0, batch_stride_o_acc = 0, batch_stride_d_o = 0, batch_stride_d_q = 0,
      batch_stride_d_k = 0, batch_stride_d_v = 0, batch_stride_d_bias = 0;
  int batch_stride_q_descale = 0, batch_stride_k_descale = 0, batch_stride_v_descale = 0;
  int split_stride_lse_acc = 0, split_stride_o_acc = 0;
  int nblock_stride_kv_block_descale = 0, nhead_stride_kv_block_descale = 0;
  /// Of dq_acc, which may be larger than 2^31 elements.
  std::int64_t stride_dq_acc = 0, nhead_stride_dq_acc = 0, batch_stride_dq_acc = 0, split_stride_dq_acc = 0;

  bool has_seqlen_k = false;  ///< whether seqlen_k_ptr or cu_seqlen_k is given
};

/// Whether a size fits an instance that pads as `pad` says and works on tiles of `tile`.
inline bool fits(int size, int tile, int pad) {
  return pad == 1 || (pad == 8 ? size % 8 == 0 : tile != 0 && size % tile == 0);
}

inline bool is_backward(Family family) {
  return family == Family::bwd_dot_do_o || family == Family::bwd_dq_dk_dv || family == Family::bwd_convert_dq;
}

/// The sizes of a call. Head dims are buckets: a kernel of 128 columns serves 96 of them where it pads.
inline bool serves_sizes(const AttentionRecord& r, const AttentionArguments& a) {
  const bool transposed = r.pipeline == PipelineKind::transposed || r.pipeline == PipelineKind::v3;
  if (a.nhead_k <= 0 || a.nhead_q % a.nhead_k != 0) return false;
  if (r.family != Family::fwd_splitkv_combine && r.family != Family::bwd_dot_do_o &&
      (a.hdim_q > r.hdim_q || !fits(a.hdim_q, r.hdim_q, r.pad_d)))
    return false;
  if (r.family != Family::bwd_convert_dq && (a.hdim_v > r.hdim_v || !fits(a.hdim_v, r.hdim_v, r.pad_dv))) return false;
  if (r.family == Family::fwd_splitkv_combine) return r.pad_s != 0 || (!a.group && a.seqlen_q % 8 == 0);
  if (r.family == Family::bwd_dot_do_o || r.family == Family::bwd_convert_dq)
    return r.pad_s != 0 || (!a.group && a.seqlen_q % 64 == 0);
  if (r.family == Family::bwd_dq_dk_dv) {
    if (r.max_seqlen_q == 0) return true;
    return !a.group && a.mask == MaskKind::no && a.seqlen_q <= r.max_seqlen_q;
  }
  const bool plain = r.pipeline == PipelineKind::plain && r.family != Family::batch_prefill;
  if (plain && r.pad_s == 0 && (a.group || a.seqlen_q % r.m0 != 0)) return false;
  if (r.family == Family::fwd_appendkv) return r.pad_sk != 0 || (r.n0 != 0 && a.seqlen_k_new % r.n0 == 0);
  const bool ragged_keys = a.cu_seqlen_k != nullptr || a.seqlen_k == 0 || a.seqlen_k % r.n0 != 0;
  return transposed || r.pad_sk != 0 || !ragged_keys;
}

/// Whether a kernel computes a call.
inline bool serves(const AttentionRecord& r, const AttentionArguments& a) {
  if (r.family != a.family || r.type != a.type) return false;
  if (r.family != Family::fwd_appendkv && r.group != a.group) return false;
  if (!serves_sizes(r, a)) return false;
  switch (r.family) {
    case Family::fwd_splitkv_combine:
      return r.lse == a.with_lse && a.num_splits <= 128;
    case Family::bwd_dot_do_o:
      return true;
    case Family::bwd_convert_dq:
      return r.deterministic == a.deterministic;
    case Family::fwd_appendkv:
      return r.rope == a.rope && r.paged_kv == (a.block_table != nullptr) && r.v_column_major == a.v_column_major;
    default:
      break;
  }
  if ((r.mask != MaskKind::no) != (a.mask != MaskKind::no) || r.bias != a.bias_kind) return false;
  if (r.dropout != a.with_dropout) return false;
  if (r.family == Family::bwd_dq_dk_dv)  // lse is an input here, and no trait
    return r.dbias == a.with_dbias && r.deterministic == a.deterministic &&
           (!a.store_rand_val || !r.dropout || r.stores_rand_val);
  if (r.soft_cap != a.with_soft_cap || r.sink != a.with_sink || r.qscale != a.qscale) return false;
  if (r.v_column_major != a.v_column_major || r.skip_min_seqlen_q != (a.min_seqlen_q > 0)) return false;
  // A split writes the log-sum-exp of its part always: whether the call wants it is the combine kernel's affair.
  if (r.family == Family::fwd_splitkv) return r.paged_kv == (a.block_table != nullptr);
  if (r.lse != a.with_lse) return false;
  if (r.family == Family::batch_prefill)
    return r.page_size == a.page_block_size && r.kv_layout == a.kv_layout && r.kv_lookup == a.kv_lookup;
  return r.family != Family::fwd_pagedkv || r.paged_kv == (a.block_table != nullptr);
}

inline bool comes_before(const AttentionRecord& a, const AttentionRecord& b) {
  if (a.hdim_q != b.hdim_q) return a.hdim_q < b.hdim_q;
  if (a.hdim_v != b.hdim_v) return a.hdim_v < b.hdim_v;
  // Kernels with a limit of query rows are the faster ones where they serve.
  const int limit_a = a.max_seqlen_q == 0 ? 1 << 30 : a.max_seqlen_q;
  const int limit_b = b.max_seqlen_q == 0 ? 1 << 30 : b.max_seqlen_q;
  return limit_a < limit_b;
}

using AttentionInstance = Instance<AttentionRecord, AttentionArguments>;

}  // namespace tilesmith_ck
