// Attention forward: the problem (what decides which kernel runs) and the arguments of one call (pointers, strides,
// run-time numbers).
//
// Dimension names: batch, heads_q, heads_kv, seqlen_q, seqlen_k, head_dim_qk, head_dim_v. heads_q is a multiple of
// heads_kv; query head h reads key head h / (heads_q / heads_kv).
//
// With i the query row, j the key position and o = seqlen_k - seqlen_q for bottom_right (and for a window without a
// causal mask), 0 for top_left:
//   s = scale * dot(q_i, k_j);  s = soft_cap * tanh(s / soft_cap)
//   s += bias[b][h][i][j];  s += -alibi[b][h] * |i + o - j|
//   visible: i + o + d - window_left <= j <= i + o + d + window_right, a bound of -1 being none, d the diagonal
//   a causal mask also asks j <= i + o + d
//   output row = sum over visible j of softmax(s)_j v_j; a sink logit joins the softmax's sum and no output
//   lse = natural logarithm of the softmax's sum, the sink included; -inf for a row that sees nothing
// A NaN or infinity in v may reach rows that do not see its key: a hidden key's weight is 0, and 0 times NaN is NaN.
// Masks and windows mean what FlashAttention means by them. The diagonal moves them, as it does in torch.tril: a causal
// mask with diagonal -1 leaves the keys strictly before a query, and a mask with diagonal r and window_left l + r is
// the window from l keys to the left to r keys to the right of the mask's own diagonal.
#pragma once

#include <cstdint>

#include "tilesmith/error.hpp"
#include "tilesmith/rotary.hpp"
#include "tilesmith/types.hpp"

namespace tilesmith {

/// Rows of a sequence that share a scale, counted from its beginning.
inline constexpr std::int64_t kScaleBlock = 128;

/// Everything a plan depends on. Two equal problems have one plan.
struct AttentionProblem {
  /// Of q, k, v and o (a `cache` may differ): fp32, tf32, fp16 or bf16; fp8bf16 and fp8fp16 read e4m3 and write bf16 or
  /// fp16. Sums are fp32. tf32 is fp32 in memory, rounded to 10 bits of mantissa where it is multiplied, on devices
  /// that have such instructions; the others compute it as fp32.
  DataType data_type = DataType::bf16;
  SequenceMode mode = SequenceMode::batch;
  std::int64_t batch = 1;
  std::int64_t heads_q = 1;
  std::int64_t heads_kv = 1;
  std::int64_t seqlen_q = 1;  ///< group mode: the longest of the batch
  std::int64_t seqlen_k = 1;  ///< group mode: the longest of the batch
  std::int64_t head_dim_qk = 128;
  std::int64_t head_dim_v = 128;
  MaskKind mask = MaskKind::none;
  std::int64_t window_left = -1;
  std::int64_t window_right = -1;
  std::int64_t diagonal = 0;  ///< what the mask and the window are moved by, to the right; ALiBi is not
  BiasKind bias = BiasKind::none;
  bool soft_cap = false;
  bool sink = false;
  bool dropout = false;
  bool lse = false;             ///< the call wants the log-sum-exp
  bool negative_scale = false;  ///< the call's scale is below 0; the CPU does not ask
  bool block_scale = false;     ///< fp8: scales differ along a sequence, by blocks of kScaleBlock rows
  /// Elements of k and v, where they are not those of q: 8 bits, which k_scale and v_scale are multiplied with. q is
  /// fp32, tf32, fp16 or bf16 then.
  KvElements cache = KvElements::as_queries;
  bool page_scale = false;  ///< 8-bit caches of pages: scales belong to pages or their rows, not to sequences
  /// Values are the first head_dim_v elements of the keys (the latent cache of multi-head latent attention): v, its
  /// strides and its scale are not read, k's hold.
  bool latent = false;
  /// Keys of a page of k and v; 0: they are not paged. Paged sequences have lengths of their own up to seqlen_k, in
  /// either mode: group mode packs q and o alone. AttentionPages says where their keys lie.
  std::int64_t page_size = 0;
  /// Pages hold vectors of 16 bytes instead of rows, as AttentionPages says. Not beside `latent`.
  bool vectorized_pages = false;
  /// The call brings a key and a value for each of its queries, and writes them into the cache before it attends:
  /// AttentionAppend says which and where. Of keys in pages, not beside `latent`, nor with fp8 queries. It changes
  /// neither which kernels attend nor their bits.
  bool append = false;
  /// Pieces that the keys of the longest sequence are cut into, by kernels that share keys out among threads or blocks;
  /// 0: chosen by a model of the device. A sequence has no more pieces than blocks of keys.
  std::int64_t splits = 0;
  /// A sequence has the same bits whatever stands beside it, however its keys are paged and on any number of threads:
  /// one kernel takes all problems that differ in these alone, and where keys are cut follows from the sequence's own
  /// length. `splits` is not asked then. Not with measured choices, nor on AMD GPUs.
  bool batch_invariant = false;
  // What a CUDA kernel may expect of the memory; the CPU does not ask.
  bool unaligned = false;       ///< a pointer or row of q, k, v or o is no multiple of 16 bytes
  bool unaligned_bias = false;  ///< the same holds for the bias, or its columns are not contiguous

  friend bool operator==(const AttentionProblem&, const AttentionProblem&) = default;

  /// Calls visit(name, field) for every field in order: hashes, identities, JSON, CSV and command lines come from here.
  template <class Self, class Visitor>
  static constexpr void fields(Self& self, Visitor&& visit) {
    visit("data_type", self.data_type);
    visit("mode", self.mode);
    visit("batch", self.batch);
    visit("heads_q", self.heads_q);
    visit("heads_kv", self.heads_kv);
    visit("seqlen_q", self.seqlen_q);
    visit("seqlen_k", self.seqlen_k);
    visit("head_dim_qk", self.head_dim_qk);
    visit("head_dim_v", self.head_dim_v);
    visit("mask", self.mask);
    visit("window_left", self.window_left);
    visit("window_right", self.window_right);
    visit("diagonal", self.diagonal);
    visit("bias", self.bias);
    visit("soft_cap", self.soft_cap);
    visit("sink", self.sink);
    visit("dropout", self.dropout);
    visit("lse", self.lse);
    visit("negative_scale", self.negative_scale);
    visit("block_scale", self.block_scale);
    visit("cache", self.cache);
    visit("page_scale", self.page_scale);
    visit("latent", self.latent);
    visit("page_size", self.page_size);
    visit("vectorized_pages", self.vectorized_pages);
    visit("append", self.append);
    visit("splits", self.splits);
    visit("batch_invariant", self.batch_invariant);
    visit("unaligned", self.unaligned);
    visit("unaligned_bias", self.unaligned_bias);
  }
};

/// What is wrong with the problem, or success. The message has the offending figures, the hint what would be right.
[[nodiscard]] TILESMITH_API Status validate(const AttentionProblem& problem);

/// Order of the dimensions of q, k, v and o in memory. Group mode: heads_seqs is (heads, total, dim), seqs_heads is
/// (total, heads, dim).
enum class AttentionLayout : std::uint8_t { bhsd, bshd };

/// Strides in elements; the head dimension is contiguous. 0 broadcasts an input.
struct AttentionStrides {
  std::int64_t batch = 0;  ///< ignored in group mode
  std::int64_t head = 0;
  std::int64_t row = 0;
};

/// Strides of a bias seen as (batch, heads_q, seqlen_q, seqlen_k), in elements; 0 broadcasts. Group mode indexes it the
/// same way, by sequence.
struct BiasStrides {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t row = 0;
  std::int64_t column = 1;
};

/// What the stored values of an 8-bit tensor are multiplied by: data[b * batch + h * head + i * block], strides in
/// elements, 0 where the scale is shared; `block` is read with block scales alone, i being the row / kScaleBlock. With
/// page scales b is the number of the key's page, and i its row of that page: a `block` of 0 is a scale for each page.
/// Null data is a scale of 1. Scales are positive, finite and normal; those of keys that no query sees are not read.
struct AttentionScale {
  const float* data = nullptr;
  std::int64_t batch = 0, head = 0, block = 0;
};

/// Where the keys of sequences lie in a cache of pages, when the problem has a page_size. k is (num_pages, heads_kv,
/// page_size, head_dim_qk) and v (num_pages, heads_kv, page_size, head_dim_v) in any order that their strides describe;
/// their batch strides lead from page to page. Key j of sequence b is row j % page_size of page n[j / page_size], with
/// n
///   numbers + b * stride          a table with a row for each sequence
///   numbers + offsets[b]          one list of all sequences' pages, when there are offsets
/// and of page b when there are no numbers: a dense cache whose sequences differ in length.
/// With vectorized_pages (Composable Kernel's vectorized caches) a head's share of a page is contiguous, and in units
/// of x elements, which have 16 bytes: of k (head_dim_qk / x, page_size, x), of v (page_size / x, head_dim_v, x). Row
/// strides are not read then; page_size and head_dim_qk are multiples of x.
/// Nothing is read of pages that no query sees, nor of their entries: neither behind a sequence's last key, nor before
/// the window of its first query. So they may hold anything. Sequences may share pages.
struct AttentionPages {
  const std::int32_t* lengths = nullptr;  ///< keys of each sequence: batch of 0 to seqlen_k
  const std::int32_t* numbers = nullptr;  ///< each 0 to num_pages - 1
  const std::int32_t* offsets = nullptr;  ///< batch of them; what else the list has is not read
  std::int64_t stride = 0;                ///< of the table's rows, in entries
  std::int64_t num_pages = 0;
};

/// The new keys and values of a problem with `append`: of every query's token one of each, in q's type. With n the
/// tokens of sequence b, token t becomes its key lengths[b] - n + t, for the pages' lengths count the new keys too; or
/// it goes to row slots[token] % page_size of page slots[token] / page_size, nowhere when that is negative. Its
/// position is that key's number, or positions[token]; keys and queries are turned by it, the arithmetic is fp32,
/// rounded once, and a cache of 8 bits gets the value over its scale, as AppendKv (serving.hpp) says. `token` counts
/// the rows of q: b * seqlen_q + t, or in group mode cu_seqlens_q[b] + t. A sequence of length 0 is padding: its tokens
/// go nowhere. No sequence may see a key that another one brings. k and v of the arguments are written then, as are
/// k_scale and v_scale where the call chooses them: they are const for the calls that do not append.
struct AttentionAppend {
  const void* k = nullptr;  ///< (batch, heads_kv, seqlen_q, head_dim_qk); group mode (heads_kv, total_q, head_dim_qk)
  const void* v = nullptr;  ///< the same with head_dim_v
  AttentionStrides k_strides, v_strides;
  Rotary rotary;          ///< of the new keys and of q
  void* q_out = nullptr;  ///< with a rotary table: where q goes, turned, to be read from there; may be q
  AttentionStrides q_out_strides;
  const std::int64_t* slots = nullptr;
  const std::int64_t* positions = nullptr;
  /// Keys of each sequence without the call's; null: they follow from the lengths. On the CPU both must agree, on a
  /// CUDA device these are read.
  const std::int32_t* lengths_before = nullptr;
  /// The call chooses the scale of each new row, as AppendKv's row scales, and writes it to its place in k_scale,
  /// v_scale: page scales with a number for each row.
  bool chooses_k_scale = false, chooses_v_scale = false;
};

/// On a CUDA device every pointer is to memory the device can read, the offsets included.
struct AttentionArguments {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* o = nullptr;
  float* lse = nullptr;  ///< (batch, heads_q, seqlen_q); group mode (heads_q, total_q)
  const float* bias = nullptr;
  const float* alibi = nullptr;  ///< one slope per query head, or per (batch, query head) with alibi_batch_stride
  const float* sink = nullptr;   ///< one logit per query head
  const std::int32_t* cu_seqlens_q = nullptr;  ///< group mode: batch + 1 offsets, first 0, increasing
  const std::int32_t* cu_seqlens_k = nullptr;  ///< not with pages
  std::int64_t total_q = 0;  ///< group mode: rows of q and o, and of k and v; the CPU reads them off the offsets
  std::int64_t total_k = 0;
  AttentionStrides q_strides, k_strides, v_strides, o_strides, lse_strides;  ///< lse_strides.row is usually 1
  BiasStrides bias_strides;
  std::int64_t alibi_batch_stride = 0;
  AttentionScale q_scale, k_scale, v_scale;  ///< fp8, 8-bit caches; k and v by the head of keys and values
  AttentionPages pages;                      ///< read when the problem has a page_size
  AttentionAppend append;                    ///< read when the problem has append
  float scale = 0;                           ///< usually 1 / sqrt(head_dim_qk)
  float soft_cap = 0;                        ///< read when the problem has soft_cap; positive
  float dropout_probability = 0;             ///< in [0, 1); acts in steps of 1/65536
  std::uint64_t seed = 0;                    ///< same seed and offset, same dropout mask, on every kernel and device
  std::uint64_t offset = 0;
};

/// Strides of dense q, k, v, o, lse and bias in this layout, and the usual scale. Group mode packs the sequences:
/// total_q and total_k are the last of the offsets; batch mode ignores them. Pages are dense in the same way, each with
/// the layout of a sequence.
[[nodiscard]] TILESMITH_API AttentionArguments dense_arguments(const AttentionProblem& problem, AttentionLayout layout,
                                                               std::int64_t total_q = 0, std::int64_t total_k = 0);

}  // namespace tilesmith
