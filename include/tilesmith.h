/* Tilesmith's C interface: one header, C99, no dependency.
 *
 *   tilesmith_attention call = TILESMITH_ATTENTION_INIT;     // every field is described below
 *   call.data_type = TILESMITH_FP32;
 *   call.heads_q = 16;
 *   call.heads_kv = 4;
 *   call.seqlen_q = call.seqlen_k = 2048;
 *   call.head_dim_qk = call.head_dim_v = 64;
 *   tilesmith_attention_dense(&call, TILESMITH_BHSD);        // strides and scale of dense tensors
 *   call.q = q;                                              // your buffers; k, v and o likewise
 *   if (tilesmith_attention_forward(NULL, &call) != TILESMITH_SUCCESS) {
 *     tilesmith_error error = TILESMITH_ERROR_INIT;
 *     tilesmith_last_error(&error);
 *     fprintf(stderr, "%s (%s)\n", error.message, error.hint);
 *   }
 *
 * tilesmith_gemm is the same for matrix products: fill in, tilesmith_gemm_dense, tilesmith_gemm_compute.
 *
 * Rules of the whole interface:
 * - A function that can fail returns a status: TILESMITH_SUCCESS or one of tilesmith_code. What went wrong, in words,
 *   is kept for the calling thread until its next failure: tilesmith_last_error.
 * - Structures begin with their size, struct_size = sizeof the structure, which the _INIT macros set. A program built
 *   against a newer header works with an older library as long as it leaves the fields the library does not know at
 *   zero, and a program built against an older header works with a newer library. Reserved fields are 0.
 * - Text is UTF-8, ends with a zero byte, belongs to the library, is never NULL, and lives as long as is said there.
 * - Every function may be called from any number of threads at once. None prints, exits or throws.
 * - Field names and semantics are those of the C++ interface; tilesmith/attention.hpp and gemm.hpp have the formulas.
 */
#ifndef TILESMITH_H
#define TILESMITH_H

#include <stddef.h>
#include <stdint.h>

#ifndef TILESMITH_API
#define TILESMITH_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------ versions, errors */

/* Grows when the meaning of an existing field or function changes; additions leave it alone. */
#define TILESMITH_ABI_VERSION 1

/* Of the library, "0.1.0"; lives for ever. */
TILESMITH_API const char* tilesmith_version(void);
/* TILESMITH_ABI_VERSION of the library at hand. */
TILESMITH_API int32_t tilesmith_abi_version(void);

typedef int32_t tilesmith_status;

enum tilesmith_code {
  TILESMITH_SUCCESS = 0,
  TILESMITH_INVALID_ARGUMENT = 1, /* the caller asked for something that cannot be: fix the call */
  TILESMITH_UNSUPPORTED = 2,      /* meaningful, but no kernel or machine here can serve it */
  TILESMITH_NOT_FOUND = 3,        /* a named thing does not exist: a kernel, a device, a driver */
  TILESMITH_IO = 4,               /* the operating system refused a read, a write or a directory */
  TILESMITH_PARSE = 5,            /* a text is not what its format asks for */
  TILESMITH_COMPILE_FAILED = 6,   /* a compiler reported an error, crashed or produced nothing */
  TILESMITH_LOAD_FAILED = 7,      /* a binary could not be loaded */
  TILESMITH_LAUNCH_FAILED = 8,    /* a kernel did not run to its end */
  TILESMITH_WRONG_RESULT = 9,     /* a kernel ran and its result is outside the tolerance */
  TILESMITH_TIMEOUT = 10,         /* a bounded wait ran out */
  TILESMITH_CANCELLED = 11,       /* somebody asked to stop */
  TILESMITH_CORRUPT = 12,         /* stored bytes are not those that were written */
  TILESMITH_BUSY = 13,            /* another process holds what is needed */
  TILESMITH_OUT_OF_MEMORY = 14,   /* memory or disk space is exhausted */
  TILESMITH_INTERNAL = 15         /* a defect in Tilesmith itself */
};

/* "invalid_argument"; "unknown" for a number that is no code. Lives for ever. */
TILESMITH_API const char* tilesmith_code_name(tilesmith_status code);

typedef struct tilesmith_error {
  uint64_t struct_size;
  tilesmith_status code; /* TILESMITH_SUCCESS when nothing has failed on this thread yet */
  int32_t reserved;
  const char* message; /* what is wrong and where, with the offending value */
  const char* hint;    /* what would be right; may be "" */
} tilesmith_error;
#define TILESMITH_ERROR_INIT \
  { sizeof(tilesmith_error), 0, 0, NULL, NULL }

/* The calling thread's last failure. Its texts live until this thread's next failure. */
TILESMITH_API tilesmith_status tilesmith_last_error(tilesmith_error* out);

/* --------------------------------------------------------------------------------------------------------- devices */

/* The numbers are DLPack's. */
enum tilesmith_device_kind {
  TILESMITH_DEVICE_DEFAULT = 0, /* in a call: the context's device; in a context's options: the CPU */
  TILESMITH_CPU = 1,
  TILESMITH_CUDA = 2
};

typedef struct tilesmith_device {
  int32_t kind;
  int32_t index; /* 0 for the CPU */
} tilesmith_device;

/* A figure of a device; the name has the unit: "threads", "l2_bytes". */
typedef struct tilesmith_fact {
  const char* name;
  int64_t value;
} tilesmith_fact;

/* All texts and facts live for ever. */
typedef struct tilesmith_device_info {
  uint64_t struct_size;
  tilesmith_device device;
  const char* name; /* as the machine calls it */
  const char* arch; /* the architecture kernels are made for: "x86_64_v4", "sm_90a" */
  const tilesmith_fact* facts;
  int64_t fact_count;
} tilesmith_device_info;
#define TILESMITH_DEVICE_INFO_INIT \
  { sizeof(tilesmith_device_info), {0, 0}, NULL, NULL, NULL, 0 }

/* What a kind of device lacks here. Texts live for ever. */
typedef struct tilesmith_backend_info {
  uint64_t struct_size;
  int32_t kind;
  int32_t device_count;
  const char* missing; /* why no device of this kind can be used, or, where there is one, why no kernel can be compiled
                          for it; "" when nothing is missing */
  const char* hint;    /* what would help; may be "" */
} tilesmith_backend_info;
#define TILESMITH_BACKEND_INFO_INIT \
  { sizeof(tilesmith_backend_info), 0, 0, NULL, NULL }

/* Devices that kernels can run on, of every kind. They are looked for once. */
TILESMITH_API tilesmith_status tilesmith_device_count(int64_t* out);
/* The i-th of them, i from 0. */
TILESMITH_API tilesmith_status tilesmith_device_at(int64_t i, tilesmith_device_info* out);
TILESMITH_API tilesmith_status tilesmith_backend(int32_t kind, tilesmith_backend_info* out);

/* -------------------------------------------------------------------------------------------------------- contexts */

enum tilesmith_build_policy {
  TILESMITH_BUILD_ALLOWED = 0, /* compile when the best kernel is not there; without a compiler use what is there */
  TILESMITH_BUILD_NEVER = 1    /* only kernels that are linked in, loaded, or in the store */
};

/* What the same call on the same device may give from run to run. */
enum tilesmith_determinism {
  TILESMITH_DETERMINISM_BITWISE = 0, /* the same bits */
  TILESMITH_DETERMINISM_TOLERANT =
      1 /* sums may be added up in any order, and so rounded otherwise, where it is faster */
};

/* What plans, threads and loaded kernels belong to. Functions take NULL for the process's own, which has the default
 * options (but TILESMITH_DETERMINISM=tolerant in the environment sets that one) and lives for ever. */
typedef struct tilesmith_context tilesmith_context;

typedef struct tilesmith_context_options {
  uint64_t struct_size;
  tilesmith_device device; /* of calls that name none */
  int32_t threads;         /* of a CPU kernel, the caller's included; 0: every processor this process may use */
  int32_t build;           /* tilesmith_build_policy */
  const char* kernel;      /* the only kernel to use, by its name; NULL or "": the best */
  int32_t determinism;     /* tilesmith_determinism */
  int32_t reserved;
} tilesmith_context_options;
#define TILESMITH_CONTEXT_OPTIONS_INIT \
  { sizeof(tilesmith_context_options), {0, 0}, 0, 0, NULL, 0, 0 }

/* options may be NULL. Cheap: devices are opened by the first call that needs them. */
TILESMITH_API tilesmith_status tilesmith_context_create(const tilesmith_context_options* options,
                                                        tilesmith_context** out);
/* Its plans go with it; no call may be running on it. NULL is let be. */
TILESMITH_API void tilesmith_context_destroy(tilesmith_context* context);

/* ------------------------------------------------------------------------------------------------------ data types */

enum tilesmith_data_type {
  TILESMITH_FP32 = 0,
  TILESMITH_FP16 = 1,
  TILESMITH_BF16 = 2,
  TILESMITH_FP8 = 3, /* e4m3 */
  TILESMITH_BF8 = 4, /* e5m2 */
  TILESMITH_INT8 = 5,
  TILESMITH_INT4 = 6, /* two in a byte, the one of lower k in its low half, k even; strides count elements */
  TILESMITH_INT32 = 7,
  TILESMITH_TF32 = 8, /* fp32 in memory, 10 bits of mantissa in the products */
  /* Of attention: read the first type and write the second. */
  TILESMITH_FP8FP16 = 10,
  TILESMITH_FP8BF16 = 11,
  TILESMITH_FP8FP32 = 12
};

/* ------------------------------------------------------------------------------------------------------- attention */

enum tilesmith_sequence_mode {
  TILESMITH_BATCH = 0, /* every sequence of the batch has one length */
  TILESMITH_GROUP = 1  /* variable lengths, packed one after the other, by cumulative offsets */
};

enum tilesmith_mask {
  TILESMITH_MASK_NONE = 0,
  TILESMITH_MASK_TOP_LEFT = 1,    /* causal: query i sees keys j <= i */
  TILESMITH_MASK_BOTTOM_RIGHT = 2 /* causal: query i sees keys j <= i + seqlen_k - seqlen_q */
};

enum tilesmith_bias_kind {
  TILESMITH_BIAS_NONE = 0,
  TILESMITH_BIAS_ELEMENTWISE = 1, /* a tensor added to the logits */
  TILESMITH_BIAS_ALIBI = 2        /* a slope per head times the distance */
};

/* Bits of tilesmith_attention.traits. */
enum tilesmith_attention_trait {
  TILESMITH_SOFT_CAP = 1, /* s = soft_cap * tanh(s / soft_cap) */
  TILESMITH_SINK = 2,     /* one logit per query head joins the softmax's sum */
  TILESMITH_DROPOUT = 4,
  TILESMITH_LSE = 8,         /* the log-sum-exp is wanted */
  TILESMITH_BLOCK_SCALE = 16 /* fp8: scales differ along a sequence, by blocks of 128 rows from its beginning */
};

enum tilesmith_layout {
  TILESMITH_BHSD = 0, /* (batch, heads, rows, dim); group mode: (heads, rows of all sequences, dim) */
  TILESMITH_BSHD = 1  /* (batch, rows, heads, dim); group mode: (rows of all sequences, heads, dim) */
};

/* In elements; the head dimension is contiguous. 0 broadcasts an input. */
typedef struct tilesmith_strides {
  int64_t batch; /* ignored in group mode */
  int64_t head;
  int64_t row;
} tilesmith_strides;

typedef struct tilesmith_bias_strides {
  int64_t batch;
  int64_t head;
  int64_t row;
  int64_t column;
} tilesmith_bias_strides;

/* What the stored values of an fp8 tensor are multiplied by: data[b * batch + h * head + row / 128 * block], strides in
 * elements, 0 where the scale is shared. NULL data is a scale of 1. Scales are positive, finite and normal. */
typedef struct tilesmith_scale {
  const float* data; /* memory the device reads */
  int64_t batch;
  int64_t head;  /* k and v: of keys and values */
  int64_t block; /* with TILESMITH_BLOCK_SCALE; else 0 */
} tilesmith_scale;

/* One call of attention forward, whole. */
typedef struct tilesmith_attention {
  uint64_t struct_size;

  /* The problem: what a plan depends on. */
  tilesmith_device device;
  int32_t data_type; /* tilesmith_data_type: of q, k, v and o */
  int32_t mode;      /* tilesmith_sequence_mode */
  int32_t mask;      /* tilesmith_mask */
  int32_t bias_kind; /* tilesmith_bias_kind */
  uint32_t traits;   /* tilesmith_attention_trait, or-ed */
  uint32_t reserved;
  int64_t batch;
  int64_t heads_q; /* a multiple of heads_kv */
  int64_t heads_kv;
  int64_t seqlen_q; /* group mode: the longest of the batch */
  int64_t seqlen_k;
  int64_t head_dim_qk;
  int64_t head_dim_v;
  int64_t window_left; /* keys a query sees to its left; -1: all. FlashAttention's meaning */
  int64_t window_right;
  int64_t total_q; /* group mode: rows of q and o over all sequences */
  int64_t total_k;

  tilesmith_strides q_strides; /* of tensors seen as (batch, heads, rows, dim) */
  tilesmith_strides k_strides;
  tilesmith_strides v_strides;
  tilesmith_strides o_strides;
  tilesmith_strides lse_strides;       /* lse is (batch, heads_q, seqlen_q); group mode (heads_q, total_q) */
  tilesmith_bias_strides bias_strides; /* bias is (batch, heads_q, seqlen_q, seqlen_k), in group mode too */
  int64_t alibi_batch_stride;          /* 0: one slope per query head; else one per batch and query head */

  float scale;               /* of the logits, usually 1 / sqrt(head_dim_qk) */
  float soft_cap;            /* with TILESMITH_SOFT_CAP: positive; else 0 */
  float dropout_probability; /* with TILESMITH_DROPOUT: 0 to below 1, in steps of 1/65536; else 0 */
  float reserved_number;

  /* The data: memory the device reads. A pointer no trait asks for is NULL. */
  const void* q;
  const void* k;
  const void* v;
  void* o;
  float* lse;
  const float* bias;
  const float* alibi;
  const float* sink;           /* (heads_q) */
  const int32_t* cu_seqlens_q; /* group mode: (batch + 1), first 0, increasing, last at most total_q */
  const int32_t* cu_seqlens_k;

  void* stream;             /* CUDA: the stream to run on (cudaStream_t); NULL: the default stream. CPU: NULL */
  void* workspace;          /* 64-byte aligned, for this call alone; NULL: the library keeps one of its own */
  uint64_t workspace_bytes; /* of workspace: at least the plan's workspace_bytes */
  uint64_t seed;            /* dropout: same seed and offset, same mask, on every kernel and device */
  uint64_t offset;

  tilesmith_scale q_scale; /* fp8 types */
  tilesmith_scale k_scale;
  tilesmith_scale v_scale;
} tilesmith_attention;

/* A batch of one with one head, no mask, nothing optional: set what differs. */
#define TILESMITH_ATTENTION_INIT                                                                                    \
  {                                                                                                                 \
    sizeof(tilesmith_attention), {0, 0}, TILESMITH_BF16, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 128, 128, -1, -1, 0, 0,      \
        {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0, 0}, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, \
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, {NULL, 0, 0, 0}, {NULL, 0, 0, 0}, {                \
      NULL, 0, 0, 0                                                                                                 \
    }                                                                                                               \
  }

/* Fills in the strides of dense q, k, v, o, lse and bias in this layout (tilesmith_layout), and the usual scale, from
 * the problem's fields. */
TILESMITH_API tilesmith_status tilesmith_attention_dense(tilesmith_attention* call, int32_t layout);

/* Computes o (and lse). The first call of a problem plans it, which may take the time of a compilation; later ones
 * allocate nothing and take no lock. On the CPU the result is there on return; on a CUDA device it is queued on the
 * stream. */
TILESMITH_API tilesmith_status tilesmith_attention_forward(tilesmith_context* context, const tilesmith_attention* call);

/* The same in two steps. A plan belongs to its context and lives as long. */
typedef struct tilesmith_attention_plan tilesmith_attention_plan;

/* Reads the problem, the scale's sign, and, for their alignment, the strides and pointers of q, k, v and o; pointers
 * may be NULL. */
TILESMITH_API tilesmith_status tilesmith_attention_plan_for(tilesmith_context* context, const tilesmith_attention* call,
                                                            const tilesmith_attention_plan** out);
/* The call's problem must be the plan's. */
TILESMITH_API tilesmith_status tilesmith_attention_run(const tilesmith_attention_plan* plan,
                                                       const tilesmith_attention* call);

/* ------------------------------------------------------------------------------------------------------------ GEMM */

/* D = epilogue(alpha * A x B + beta * C), `batch` times: A is m x k, B is k x n, C is m x n. Sums are fp32, or int32
 * (modulo 2^32) of int8; the epilogue is computed in fp32 and rounded once, to D's type. */

enum tilesmith_matrix_order {
  TILESMITH_ROW = 0,   /* the elements of a row are neighbours in memory */
  TILESMITH_COLUMN = 1 /* those of a column */
};

/* What happens to v, the value at row i and column j, on its way to D. Vectors are shared by the batch, unless its
 * members are groups. */
enum tilesmith_epilogue_op {
  TILESMITH_EPILOGUE_NONE = 0,     /* the end of the list */
  TILESMITH_EPILOGUE_BIAS = 1,     /* v += bias[j]; n elements of type_bias */
  TILESMITH_EPILOGUE_BIAS_M = 2,   /* v += bias[i]; m elements of type_bias */
  TILESMITH_EPILOGUE_SCALE_N = 3,  /* v *= scale[j]; n elements of fp32 */
  TILESMITH_EPILOGUE_SCALE_M = 4,  /* v *= scale[i]; m elements of fp32 */
  TILESMITH_EPILOGUE_ADD = 5,      /* v += tensor[i][j]; a matrix of type_c and D's order */
  TILESMITH_EPILOGUE_MULTIPLY = 6, /* v *= tensor[i][j]; a matrix of type_c and D's order */
  TILESMITH_EPILOGUE_RELU = 7,
  TILESMITH_EPILOGUE_GELU = 8,      /* v (1 + erf(v / sqrt 2)) / 2 */
  TILESMITH_EPILOGUE_GELU_TANH = 9, /* v (1 + tanh(sqrt(2 / pi) (v + 0.044715 v^3))) / 2 */
  TILESMITH_EPILOGUE_SILU = 10,     /* v sigmoid(v) */
  TILESMITH_EPILOGUE_SIGMOID = 11,
  TILESMITH_EPILOGUE_TANH = 12,
  TILESMITH_EPILOGUE_CLAMP = 13, /* limited to low .. high; NaN stays NaN */
  /* Gates join columns 2 j and 2 j + 1 into column j: f(v[2 j]) v[2 j + 1]. What follows one sees n / 2 columns. */
  TILESMITH_EPILOGUE_GLU = 14,        /* f = sigmoid */
  TILESMITH_EPILOGUE_REGLU = 15,      /* f = relu */
  TILESMITH_EPILOGUE_GEGLU = 16,      /* f = gelu */
  TILESMITH_EPILOGUE_GEGLU_TANH = 17, /* f = gelu_tanh */
  TILESMITH_EPILOGUE_SWIGLU = 18,     /* f = silu */
  TILESMITH_EPILOGUE_AMAX = 19        /* *amax = max(*amax, |v|), of the values before they are rounded; last */
};

#define TILESMITH_EPILOGUE_LENGTH 8

/* One operation and what it reads. Fields it does not use are 0. */
typedef struct tilesmith_epilogue {
  int32_t op; /* tilesmith_epilogue_op */
  int32_t reserved;
  const void* data; /* of bias, scale, add, multiply: memory the device reads */
  int64_t leading;  /* add, multiply: elements from a row (of column-major ones: column) to the next */
  int64_t batch;    /* add, multiply: elements from a matrix of the batch to the next; 0 shares it. With groups also of
                       vectors; those over m of contiguous groups run on, and have 0 */
  float low;        /* clamp */
  float high;
} tilesmith_epilogue;

/* One matrix per member of the batch. Element (i, j) of member b is data[b * batch + i * leading + j] of a row-major
 * matrix, data[b * batch + j * leading + i] of a column-major one. A batch stride of 0 shares the matrix, and
 * that of an only member is not read. */
typedef struct tilesmith_matrix {
  const void* data; /* memory the device reads */
  int64_t leading;  /* at least a row's (column's) elements */
  int64_t batch;
} tilesmith_matrix;

/* The members of a batch may be groups with numbers of rows of their own (mixtures of experts). Group g has the rows
 * start(g) .. group_ends[g] - 1; rows of D that belong to none are left as they are. B, and vectors over n, step by
 * their batch strides from group to group. */
enum tilesmith_grouping {
  TILESMITH_GROUPS_NONE = 0,
  TILESMITH_GROUPS_CONTIGUOUS = 1, /* start(g) is group_ends[g - 1], 0 for the first: A, C, D and the epilogue's tensors
                                      are one matrix of m rows each, A row-major; their batch strides are not read */
  TILESMITH_GROUPS_MASKED = 2      /* start(g) is 0: every group has an A, C, D and tensors of its own, of m rows */
};

/* Scales that blocks of k have in common: that of row i of A, or of line i of B's scales, and block q of k in member b
 * is data[b * batch + i * row + q * block]. */
typedef struct tilesmith_block_scale {
  const void* data; /* memory the device reads */
  int64_t row;
  int64_t block;
  int64_t batch; /* of A with contiguous groups: not read */
} tilesmith_block_scale;

/* Of a call's problem. */
typedef enum tilesmith_gemm_flag {
  /* A promise for CUDA devices: B (and B2) holds weights, which no kernel writes that may still be running in the
   * stream when this one is launched. Kernels of few rows then begin to read B while the kernel before ends. */
  TILESMITH_CONSTANT_B = 1,
  /* B is a buffer of tilesmith_gemm_pack_b, aligned to 64 bytes, which the batch shares: b.leading is its bytes (0: not
   * known), b.batch is not read, and order_b is that of the matrix it was packed from. CPU; without grouping,
   * group_size, weights and k2. */
  TILESMITH_PACKED_B = 2,
  TILESMITH_ZERO_POINTS = 4, /* weights have zero points, in zero_b */
  /* C, D and the epilogue's tensors are column-major, and have their leading dimensions between columns; row-major
   * without. Computed as the transposed product, which costs the same. Without gates, grouping, group_size, weights
   * and TILESMITH_PACKED_B. */
  TILESMITH_COLUMN_D = 8
} tilesmith_gemm_flag;

/* One GEMM, whole. */
typedef struct tilesmith_gemm {
  uint64_t struct_size;

  /* The problem: what a plan depends on, with whether beta is 0 and the operations of the epilogue. */
  tilesmith_device device;
  int32_t type_a;    /* tilesmith_data_type: fp32, tf32, fp16, bf16, fp8, bf8 or int8 */
  int32_t type_b;    /* A's; fp8 and bf8 mix; int8 and int4 weights of fp16 and bf16, with group_size */
  int32_t type_c;    /* of C and of the tensors that add and multiply read; int32 exactly where D is */
  int32_t type_d;    /* fp32, fp16, bf16, CUDA also fp8, bf8; of int8 also int32 (without an epilogue) and int8 */
  int32_t type_bias; /* fp32, fp16 or bf16 */
  int32_t order_a;   /* tilesmith_matrix_order; those of D: flags */
  int32_t order_b;
  uint32_t flags; /* tilesmith_gemm_flag, or-ed */
  int64_t m;      /* m, n or batch of 0 computes nothing; k of 0 makes the products zeros */
  int64_t n;      /* columns of B; D has half of them when the epilogue has a gate */
  int64_t k;
  int64_t batch; /* with grouping: the number of groups */

  float alpha; /* 0 or 1 where D is int32; at 0, A and B are not read */
  float beta;  /* at 0, C is not read; a whole number where D is int32 */
  tilesmith_matrix a;
  tilesmith_matrix b;
  tilesmith_matrix c; /* may be D, element for element */
  void* d;            /* may be C or a tensor of the epilogue; overlaps nothing else */
  int64_t d_leading;
  int64_t d_batch;
  float* amax; /* with the operation: one number for the call, at least 0 and not NaN beforehand */

  void* stream;             /* CUDA: the stream to run on (cudaStream_t); NULL: the default stream. CPU: NULL */
  void* workspace;          /* 64-byte aligned, for this call alone; NULL: the library keeps one of its own */
  uint64_t workspace_bytes; /* of workspace: at least the plan's workspace_bytes */

  tilesmith_epilogue epilogue[TILESMITH_EPILOGUE_LENGTH]; /* in order, up to the first that is none */

  int32_t grouping;   /* tilesmith_grouping */
  int32_t type_scale; /* tilesmith_data_type: fp32; of weights also A's */
  /* Elements of k that share a scale; 0: there are none. Matrices with scales lie along k (A row-major, B
   * column-major). fp8 and bf8: 128; D = sum over blocks q of k of scale_a(i, q) scale_b(j / 128, q) (A x B over block
   * q). Weights: a power of two from 32 on, or k; B(l, j) stands for B(l, j) * scale_b(j, l / group_size), rounded to
   * A's type, with zero points for (B(l, j) - zero_b(j, l / group_size)) * scale_b(j, l / group_size). Weights
   * without a sign (AWQ, GPTQ) are these with their top bit turned, and so are their zero points. */
  int64_t group_size;
  tilesmith_block_scale scale_a; /* of fp8 and bf8 */
  tilesmith_block_scale scale_b;
  const int32_t* group_ends; /* with grouping, `batch` of them: at most m and, of contiguous groups, rising. The CPU
                                checks them; a CUDA device reads them itself, and limits what is beyond */

  /* A second product, whose sums go on from the first's: D = epilogue(alpha (A x B + A2 x B2) + beta C). A2 (m x k2)
   * and B2 (k2 x n) have A's and B's types and orders; 0: there is none. Without grouping, group_size and weights. */
  int64_t k2;
  tilesmith_matrix a2;
  tilesmith_matrix b2;

  tilesmith_block_scale zero_b; /* with TILESMITH_ZERO_POINTS: int8, beside int4 weights at most 119 */
} tilesmith_gemm;

/* A product of two bf16 numbers, B along k as torch.nn.Linear has it, nothing optional: set what differs. */
#define TILESMITH_GEMM_INIT                                                                                         \
  {                                                                                                                 \
    sizeof(tilesmith_gemm), {0, 0}, TILESMITH_BF16, TILESMITH_BF16, TILESMITH_BF16, TILESMITH_BF16, TILESMITH_BF16, \
        TILESMITH_ROW, TILESMITH_COLUMN, 0, 1, 1, 1, 1, 1, 0, {NULL, 0, 0}, {NULL, 0, 0}, {NULL, 0, 0}, NULL, 0, 0, \
        NULL, NULL, NULL, 0,                                                                                        \
        {{0, 0, NULL, 0, 0, 0, 0}, {0, 0, NULL, 0, 0, 0, 0}, {0, 0, NULL, 0, 0, 0, 0}, {0, 0, NULL, 0, 0, 0, 0},    \
         {0, 0, NULL, 0, 0, 0, 0}, {0, 0, NULL, 0, 0, 0, 0}, {0, 0, NULL, 0, 0, 0, 0}, {0, 0, NULL, 0, 0, 0, 0}},   \
        0, TILESMITH_FP32, 0, {NULL, 0, 0, 0}, {NULL, 0, 0, 0}, NULL, 0, {NULL, 0, 0}, {NULL, 0, 0}, {              \
      NULL, 0, 0, 0                                                                                                 \
    }                                                                                                               \
  }

/* Fills in the leading dimensions and batch strides of dense matrices, the epilogue's included, and the strides of
 * scales whose blocks of k lie behind one another, from the problem's fields. Of a packed b they are 0. */
TILESMITH_API tilesmith_status tilesmith_gemm_dense(tilesmith_gemm* call);

/* Computes D. The first call of a problem plans it, which may take the time of a compilation; later ones allocate
 * nothing and take no lock. On the CPU the result is there on return; on a CUDA device it is queued on the stream.
 * Errors: invalid_argument names the field; unsupported: no kernel computes this here, with the rule in the way. */
TILESMITH_API tilesmith_status tilesmith_gemm_compute(tilesmith_context* context, const tilesmith_gemm* call);

/* The same in two steps. A plan belongs to its context and lives as long. */
typedef struct tilesmith_gemm_plan tilesmith_gemm_plan;

/* Reads the problem, whether beta is 0, and, for their alignment, the strides and pointers; pointers may be NULL. */
TILESMITH_API tilesmith_status tilesmith_gemm_plan_for(tilesmith_context* context, const tilesmith_gemm* call,
                                                       const tilesmith_gemm_plan** out);
/* The call's problem must be the plan's. */
TILESMITH_API tilesmith_status tilesmith_gemm_run(const tilesmith_gemm_plan* plan, const tilesmith_gemm* call);

/* Packs B once, for calls with TILESMITH_PACKED_B: products of these types, n and k, of any m, batch and epilogue, on
 * machines of this kind. Of the call, the types and order_b, n, k and b are read; b is a plain matrix. The result is
 * bytes that may be copied, kept in a file and moved; they begin with what they were made for, and a call that they
 * were not made for fails with invalid_argument. CPU alone: CUDA kernels read plain matrices at full speed
 * (unsupported). packed: 64-byte aligned, at least as many bytes as tilesmith_gemm_packed_bytes says, and none of B's.
 */
TILESMITH_API tilesmith_status tilesmith_gemm_packed_bytes(tilesmith_context* context, const tilesmith_gemm* call,
                                                           uint64_t* out);
TILESMITH_API tilesmith_status tilesmith_gemm_pack_b(tilesmith_context* context, const tilesmith_gemm* call,
                                                     void* packed, uint64_t packed_bytes);

/* Several products, each a whole call with sizes, types and an epilogue of its own, as one. On the CPU all products'
 * tasks are one job for the threads; on a CUDA device products of one form share launches where there is a kernel for
 * it, and the others are queued one after another. All calls are for one device and one stream, and none brings a
 * workspace or groups; no d overlaps what another product reads or writes. The list of the thread's last call is kept,
 * with its plan: the same sizes again are not planned again. A list of none computes nothing.
 * Errors: those of tilesmith_gemm_compute, with the number of the product; nothing is computed then, unless a launch
 * fails. */
TILESMITH_API tilesmith_status tilesmith_gemm_compute_list(tilesmith_context* context,
                                                           const tilesmith_gemm* const* calls, int64_t count);

/* ----------------------------------------------------------------------------------------------------------- plans */

/* One step of a plan. */
typedef struct tilesmith_plan_stage {
  const char* kernel;
  const char* stage; /* what the step does */
} tilesmith_plan_stage;

/* Texts live as long as the plan's context; the array of stages until this thread asks for another plan's facts. */
typedef struct tilesmith_plan_info {
  uint64_t struct_size;
  tilesmith_device device;
  const char* operation; /* "attention_fwd", "gemm" */
  const char* kernel;    /* the kernel's name */
  const char* reason;    /* why it was chosen, in a sentence */
  const tilesmith_plan_stage* stages;
  int64_t stage_count;
  uint64_t workspace_bytes; /* a call needs; may be 0 */
} tilesmith_plan_info;
#define TILESMITH_PLAN_INFO_INIT \
  { sizeof(tilesmith_plan_info), {0, 0}, NULL, NULL, NULL, NULL, 0, 0 }

TILESMITH_API tilesmith_status tilesmith_attention_plan_info(const tilesmith_attention_plan* plan,
                                                             tilesmith_plan_info* out);
TILESMITH_API tilesmith_status tilesmith_gemm_plan_info(const tilesmith_gemm_plan* plan, tilesmith_plan_info* out);
/* The plan of the calling thread's last successful call or run, whatever its operation. not_found: there was none,
 * or its context was destroyed. */
TILESMITH_API tilesmith_status tilesmith_last_plan(tilesmith_plan_info* out);

#ifdef __cplusplus
}
#endif

#endif
