/* The C functions by which Composable Kernel's dispatcher is called from Python, as its scripts declare them for ctypes
 * (the form of spring 2026): docs/drop_in.md says what differs here.
 *
 * fmha_dispatcher_* and dispatcher_* return 0, TILESMITH_CK_FAILED or TILESMITH_CK_NO_KERNEL; conv_dispatcher_run
 * returns milliseconds, or one of these as a number. What was wrong goes to the log (TILESMITH_LOG), by default
 * standard error. Functions may be called from any number of threads; initialising and cleaning up is one thread's. */
#ifndef TILESMITH_DROP_IN_ABI_H
#define TILESMITH_DROP_IN_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TILESMITH_CK_API __attribute__((visibility("default")))
#else
#define TILESMITH_CK_API
#endif

enum {
  TILESMITH_CK_FAILED = -1,    /* not initialised, a null pointer, or the device failed */
  TILESMITH_CK_NO_KERNEL = -2, /* no kernel serves the call */
  TILESMITH_CK_REFUSED = -3    /* conv_dispatcher_run alone: the problem is wrong */
};

/* ---- attention ---------------------------------------------------------------------------------------------------
 * Sizes in elements. q, o and their gradients have nhead_q heads, k, v and theirs nhead_k; query head h reads key head
 * h / (nhead_q / nhead_k). Tensors are dense: with perm 1 (batch, head, token, dim), with 0 (batch, token, head, dim);
 * in group mode, where the batch's sequences lie behind one another, (head, token, dim) or (token, head, dim).
 * data_type: "fp16" (null too), "bf16", "fp32"; forward also "fp8bf16", which reads e4m3.
 * mask_type: 0 none, 1 causal from the top left, 2 causal from the bottom right, 3 a window aligned to the bottom
 * right; window_left and window_right bound it, -1 is no bound, of 1 and 2 on the right the diagonal. bias_type: 0
 * none, 1 elementwise, 2 ALiBi: of zeros, as has_sink adds a logit of 0 for each head. has_dropout drops a fifth, of
 * seed 1. has_logits caps logits at 30. has_lse computes the log-sum-exp, which no argument returns. time_ms_out, which
 * may be null, gets the milliseconds of a call: the mean of 3 after one that is not counted. */

TILESMITH_CK_API int fmha_dispatcher_initialize(const char* arch);
TILESMITH_CK_API int fmha_dispatcher_kernel_count(void);
TILESMITH_CK_API void fmha_dispatcher_cleanup(void);

TILESMITH_CK_API int fmha_dispatcher_run_fwd(const void* q, const void* k, const void* v, void* o, int batch,
                                             int nhead_q, int nhead_k, int seqlen_q, int seqlen_k, int hdim_q,
                                             int hdim_v, float scale, int mask_type, int bias_type, int has_lse,
                                             int has_dropout, int traits_hdim_q, int traits_hdim_v, int is_v_rowmajor,
                                             int perm, const char* data_type, int is_group_mode, int window_left,
                                             int window_right, int has_logits, int has_sink, int has_skip,
                                             float* time_ms_out);

/* Tensors are (batch, head, token, dim), in group mode (head, token, dim); lse, of natural logarithms, is the same
 * without dim. Every element of dq, dk and dv is written. */
TILESMITH_CK_API int fmha_dispatcher_run_bwd(const void* q, const void* k, const void* v, const void* o,
                                             const void* lse, const void* d_o, void* dq, void* dk, void* dv, int batch,
                                             int nhead_q, int nhead_k, int seqlen_q, int seqlen_k, int hdim_q,
                                             int hdim_v, float scale, const char* data_type, int mask_type,
                                             int bias_type, int has_dropout, int has_dbias, int is_deterministic,
                                             int is_group_mode, int is_store_randval, int tile_n0, float* time_ms_out);

/* With paged_kv, k and v are (batch * ceil(seqlen_k / page), nhead_k, page, dim), the pages of a sequence behind one
 * another. */
TILESMITH_CK_API int fmha_dispatcher_run_splitkv(const void* q, const void* k, const void* v, void* o, int batch,
                                                 int nhead_q, int nhead_k, int seqlen_q, int seqlen_k, int hdim_q,
                                                 int hdim_v, float scale, int mask_type, int num_splits,
                                                 int is_v_rowmajor, const char* data_type, int has_lse,
                                                 int is_group_mode, int perm, int has_logits, int bias_type,
                                                 int has_sink, int paged_kv, int page_block_size, int window_left,
                                                 int window_right, float* time_ms_out);

/* q and o are (token, head, dim), k and v pages as above. */
TILESMITH_CK_API int fmha_dispatcher_run_pagedkv(const void* q, const void* k, const void* v, void* o, int batch,
                                                 int nhead_q, int nhead_k, int seqlen_q, int seqlen_k, int hdim_q,
                                                 int hdim_v, float scale, int mask_type, int page_block_size,
                                                 int is_v_rowmajor, const char* data_type, int has_lse, int has_logits,
                                                 int has_sink, int skip_min_seqlen_q, int bias_type,
                                                 float* time_ms_out);

/* The same, of which kv_layout says how a head of a page lies: 0 vectorized, with vec = 16 bytes of elements k as
 * (dim / vec, page, vec) and v as (page / vec, dim, vec); 1 (page, dim). kv_lookup, 0 a table with a row for each
 * sequence, 1 one list of pages, changes no result. */
TILESMITH_CK_API int fmha_dispatcher_run_batch_prefill(const void* q, const void* k, const void* v, void* o, int batch,
                                                       int nhead_q, int nhead_k, int seqlen_q, int seqlen_k, int hdim_q,
                                                       int hdim_v, float scale, int mask_type, int bias_type,
                                                       int page_block_size, int kv_layout, int kv_lookup,
                                                       int is_v_rowmajor, const char* data_type, int has_lse,
                                                       int has_dropout, int has_logits, int has_sink,
                                                       int skip_min_seqlen_q, float* time_ms_out);

/* Appends knew and vnew, (batch, head, token, dim), to caches that hold seqlen_q tokens of zeros for each sequence, and
 * turns q and the new keys by rotary embeddings of the whole head, to the base 10000, where rope_type is 1 (neighbours)
 * or 2 (halves). No argument returns the caches: fmha_dispatcher_appended does. */
TILESMITH_CK_API int fmha_dispatcher_run_appendkv(const void* q, const void* knew, const void* vnew, int batch,
                                                  int nhead_q, int nhead_k, int seqlen_q, int seqlen_knew, int hdim_q,
                                                  int hdim_v, int is_v_rowmajor, int rope_type, int paged_kv,
                                                  int page_block_size, const char* data_type, float* time_ms_out);

/* Tilesmith's own: copies what the last fmha_dispatcher_run_appendkv left, q turned, k and v as caches of seqlen_q +
 * seqlen_knew tokens, (batch, head, token, dim) or pages as above; each may be null. The bytes are those of its call.
 */
TILESMITH_CK_API int fmha_dispatcher_appended(void* q, void* k, void* v);

/* Registers kernels with Composable Kernel's own C++ registry, of which there are none here: 0. */
TILESMITH_CK_API int ck_fmha_register_kernels(void* registry, const char* arch);

/* ---- GEMM --------------------------------------------------------------------------------------------------------
 * C = A x B, of one kind of matrices: TILESMITH_CK_GEMM, "fp16_rcr" where it is not set. The letters say whether A (M x
 * K), B (K x N) and C (M x N) are row- or column-major. Of fp8 and bf8 C is fp16, of int8 int32, otherwise A's type. */

TILESMITH_CK_API int dispatcher_initialize(void);
TILESMITH_CK_API int dispatcher_init(void);
TILESMITH_CK_API void dispatcher_cleanup(void);
/* Of the first kernel: the tile of a block, of an instruction, and how many warps a block has, along M, N and K. Each
 * may be null. */
TILESMITH_CK_API int dispatcher_get_kernel_config(int* tile_m, int* tile_n, int* tile_k, int* warp_tile_m,
                                                  int* warp_tile_n, int* warp_tile_k, int* warp_m, int* warp_n,
                                                  int* warp_k);
/* The name of the kernel that serves these sizes, cut to the buffer. May compile it. */
TILESMITH_CK_API int dispatcher_select_kernel(int64_t M, int64_t N, int64_t K, char* name_buffer, int buffer_size);
TILESMITH_CK_API int dispatcher_is_supported(int64_t M, int64_t N, int64_t K); /* 1 or 0 */
TILESMITH_CK_API int dispatcher_run_gemm(const void* A, const void* B, void* C, int64_t M, int64_t N, int64_t K,
                                         float* time_ms);
TILESMITH_CK_API int dispatcher_run_grouped_gemm(int group_count, const int64_t* Ms, const int64_t* Ns,
                                                 const int64_t* Ks, const void** A_ptrs, const void** B_ptrs,
                                                 void** C_ptrs, float* time_ms);
TILESMITH_CK_API const char* dispatcher_get_kernel_name(void); /* of the first; "" before dispatcher_initialize */
TILESMITH_CK_API int dispatcher_get_kernel_name_at(int index, char* buffer, int buffer_size);
TILESMITH_CK_API int dispatcher_get_kernel_count(void);
/* The kernels with their tiles, as JSON; valid until the next call of this function. */
TILESMITH_CK_API const char* dispatcher_export_registry_json(void);

/* ---- grouped convolution -----------------------------------------------------------------------------------------
 * X is (N, d, h, w, G, C / G), W (G, K / G, z, y, x, C / G), Y (N, d, h, w, G, K / G), of the type that
 * TILESMITH_CK_CONV names, "fp16" where it is not set. The depth counts where input_d or filter_z is above 1. */

typedef struct ck_conv_problem {
  int N, G, C, K; /* images, groups, channels of X and of Y over all groups */
  int input_d, input_h, input_w;
  int filter_z, filter_y, filter_x;
  int stride_d, stride_h, stride_w;
  int pad_d, pad_h, pad_w; /* on both sides */
  int dilation_d, dilation_h, dilation_w;
  int direction; /* 0 forward, 1 backward data, 2 backward weight */
} ck_conv_problem;

TILESMITH_CK_API int conv_dispatcher_init(void);
TILESMITH_CK_API int conv_dispatcher_cleanup(void);
TILESMITH_CK_API const char* conv_dispatcher_version(void);
TILESMITH_CK_API int conv_dispatcher_has_kernels(void); /* 1 or 0, and so the next two */
TILESMITH_CK_API int conv_dispatcher_has_bwd_data(void);
TILESMITH_CK_API int conv_dispatcher_has_bwd_weight(void);
TILESMITH_CK_API int conv_dispatcher_get_kernel_count(void);
TILESMITH_CK_API int conv_dispatcher_get_kernel_name(int index, char* buffer, int buffer_size);
TILESMITH_CK_API int conv_dispatcher_is_supported(const ck_conv_problem* problem); /* 1 or 0 */
TILESMITH_CK_API int conv_dispatcher_select_kernel(const ck_conv_problem* problem, char* kernel_name, int buffer_size);
/* Forward: X, W, Y. Backward data: dY, W, dX. Backward weight: X, dY, dW. Device pointers; the stream is the device's.
 * Milliseconds, the mean of 10 calls after 3 that are not counted. */
TILESMITH_CK_API float conv_dispatcher_run(const void* slot0, const void* slot1, void* slot2,
                                           const ck_conv_problem* problem, void* stream);

#ifdef __cplusplus
}
#endif

#endif
