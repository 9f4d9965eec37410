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
 * A GEMM works the same way: fill in tilesmith_gemm, call tilesmith_gemm_dense, then tilesmith_gemm_compute.
 *
 * Rules of the whole interface:
 * - A function that can fail returns a status: TILESMITH_SUCCESS or one of tilesmith_code. tilesmith_last_error has
 *   the words; they are kept for the calling thread until its next failure.
 * - A structure begins with its size: struct_size is its sizeof, which the _INIT macros set. A program built against a
 *   newer header works with an older library as long as it leaves the fields that the library does not know at zero.
 *   A program built against an older header works with a newer library. Reserved fields are 0.
 * - Text is UTF-8, ends with a zero byte, belongs to the library and is never NULL. Comments say how long it lives.
 * - Any number of threads may call any function at once, also while the program ends by exit(). No function prints,
 *   exits or throws. A thread that is to be cancelled (pthread_cancel) ends behind its call.
 * - A forked child may call any function, also when threads of its parent were in calls: the CPU is served by new
 *   threads. CUDA does not survive a fork: a child of a process that used it gets TILESMITH_UNSUPPORTED.
 * - Fields have the names and the meaning of the C++ interface; tilesmith/attention.hpp and gemm.hpp have the formulas.
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

/* The version of the library, such as "0.1.0". The text lives for ever. */
TILESMITH_API const char* tilesmith_version(void);
/* The TILESMITH_ABI_VERSION that the library was built with. */
TILESMITH_API int32_t tilesmith_abi_version(void);

/* For bindings of Python: what the tensors of a call look like and where they lie, asked of the library that made them
 * in one step. `exchange` is that library's DLPackExchangeAPI of DLPack 1 (`__dlpack_c_exchange_api__` of the tensors'
 * type), `objects` are `count` objects of that type or `none`. Writes the address of each object's data, 0 for none,
 * and behind these of each object its type, device, sizes and strides: words that are equal exactly where all of these
 * are. Returns the number of words, or -1 where they are not to be had so: too many for `capacity`, another version, an
 * object that DLPack cannot describe (Python then has its error). The caller holds the interpreter's lock. */
TILESMITH_API int64_t tilesmith_describe_tensors(const void* exchange, void* const* objects, int64_t count,
                                                 const void* none, int64_t* words, int64_t capacity);

/* For CPython with its global lock, held by the caller: a new tuple of two functions of Python that repeat calls
 * without the package's Python, as python/tilesmith/_repeated.py sets them up; null where the process has no such
 * Python, or no memory. */
TILESMITH_API void* tilesmith_python_repeated_calls(void* setup);

typedef int32_t tilesmith_status;

enum tilesmith_code {
  TILESMITH_SUCCESS = 0,
  TILESMITH_INVALID_ARGUMENT = 1, /* the call asks for something impossible: fix the call */
  TILESMITH_UNSUPPORTED = 2,      /* meaningful, but no kernel or machine here can serve it */
  TILESMITH_NOT_FOUND = 3,        /* a named thing does not exist: a kernel, a device, a driver */
  TILESMITH_IO = 4,               /* the operating system refused a read, a write or a directory */
  TILESMITH_PARSE = 5,            /* a text does not follow its format */
  TILESMITH_COMPILE_FAILED = 6,   /* a compiler reported an error, crashed or produced nothing */
  TILESMITH_LOAD_FAILED = 7,      /* a binary could not be loaded */
  TILESMITH_LAUNCH_FAILED = 8,    /* a kernel did not start or did not finish */
  TILESMITH_WRONG_RESULT = 9,     /* a kernel ran and its result is outside the tolerance */
  TILESMITH_TIMEOUT = 10,         /* a time limit was reached */
  TILESMITH_CANCELLED = 11,       /* the caller asked to stop */
  TILESMITH_CORRUPT = 12,         /* stored bytes differ from the bytes that were written */
  TILESMITH_BUSY = 13,            /* another process holds a resource that is needed */
  TILESMITH_OUT_OF_MEMORY = 14,   /* memory or disk space is exhausted */
  TILESMITH_INTERNAL = 15         /* a defect in Tilesmith itself */
};

/* The name of a code, such as "invalid_argument"; "unknown" for a number that is no code. The text lives for ever. */
TILESMITH_API const char* tilesmith_code_name(tilesmith_status code);

typedef struct tilesmith_error {
  uint64_t struct_size;
  tilesmith_status code; /* TILESMITH_SUCCESS when nothing has failed on this thread yet */
  int32_t reserved;
  const char* message; /* what is wrong and where, with the offending value */
  const char* hint;    /* what would be right; may be empty */
} tilesmith_error;
#define TILESMITH_ERROR_INIT \
  { sizeof(tilesmith_error), 0, 0, NULL, NULL }

/* The calling thread's last failure. Its texts live until this thread's next failure. */
TILESMITH_API tilesmith_status tilesmith_last_error(tilesmith_error* out);

/* Ends the wait for a compiler of calls that are under way: of the thread with this id (gettid), or of all threads when
 * it is 0. The compiler is killed within a tenth of a second, and the call fails with TILESMITH_CANCELLED, except that
 * a CUDA kernel's compile notices only between its phases. A later call compiles anew. Calls that wait for nothing do
 * not notice. May be called from any thread, but not from a signal handler. */
TILESMITH_API void tilesmith_cancel_waits(int64_t thread);

/* --------------------------------------------------------------------------------------------------------- devices */

/* The numbers are those of DLPack. */
enum tilesmith_device_kind {
  TILESMITH_DEVICE_DEFAULT = 0, /* in a call: the context's device; in the options of a context: the CPU */
  TILESMITH_CPU = 1,
  TILESMITH_CUDA = 2,
  TILESMITH_HIP = 10 /* kDLROCM: AMD GPUs */
};

typedef struct tilesmith_device {
  int32_t kind;
  int32_t index; /* 0 for the CPU */
} tilesmith_device;

/* One figure of a device. Its name contains the unit: "threads", "l2_bytes". */
typedef struct tilesmith_fact {
  const char* name;
  int64_t value;
} tilesmith_fact;

/* The texts and facts live for ever. */
typedef struct tilesmith_device_info {
  uint64_t struct_size;
  tilesmith_device device;
  const char* name; /* the machine's name of the device */
  const char* arch; /* the architecture that its kernels are made for: "x86_64_v4", "sm_90a" */
  const tilesmith_fact* facts;
  int64_t fact_count;
} tilesmith_device_info;
#define TILESMITH_DEVICE_INFO_INIT \
  { sizeof(tilesmith_device_info), {0, 0}, NULL, NULL, NULL, 0 }

/* What this machine lacks for a kind of device. The texts live for ever. */
typedef struct tilesmith_backend_info {
  uint64_t struct_size;
  int32_t kind;
  int32_t device_count;
  const char* missing; /* why no device of this kind can be used, or why no kernel can be compiled for the devices; ""
                          when nothing is missing */
  const char* hint;    /* what would help; may be empty */
} tilesmith_backend_info;
#define TILESMITH_BACKEND_INFO_INIT \
  { sizeof(tilesmith_backend_info), 0, 0, NULL, NULL }

/* The number of devices that kernels can run on, of all kinds. The library looks for devices once. */
TILESMITH_API tilesmith_status tilesmith_device_count(int64_t* out);
/* The i-th device, i from 0. */
TILESMITH_API tilesmith_status tilesmith_device_at(int64_t i, tilesmith_device_info* out);
TILESMITH_API tilesmith_status tilesmith_backend(int32_t kind, tilesmith_backend_info* out);

/* -------------------------------------------------------------------------------------------------------- contexts */

enum tilesmith_build_policy {
  TILESMITH_BUILD_ALLOWED = 0, /* compile when the best kernel is missing; without a compiler use what exists */
  TILESMITH_BUILD_NEVER = 1    /* use only kernels that are linked in, loaded or in the store */
};

/* How results of the same call on the same device may differ from run to run. */
enum tilesmith_determinism {
  TILESMITH_DETERMINISM_BITWISE = 0, /* not at all: the bits are the same */
  TILESMITH_DETERMINISM_TOLERANT =
      1 /* sums may be added in any order, and so round differently, where that is faster */
};

/* A context owns plans, threads and loaded kernels. NULL stands for the context of the process, which lives for ever
 * and has the default options, except that TILESMITH_DETERMINISM=tolerant in the environment sets its determinism. */
typedef struct tilesmith_context tilesmith_context;

typedef struct tilesmith_context_options {
  uint64_t struct_size;
  tilesmith_device device; /* for calls that name no device */
  int32_t threads;         /* of a CPU kernel, the caller's included, at most 4096; 0: every processor that this process
                              may use */
  int32_t build;           /* tilesmith_build_policy */
  const char* kernel;      /* the name of the only kernel to use; NULL or "": the best kernel */
  int32_t determinism;     /* tilesmith_determinism */
  int32_t reserved;
  const char* tuning; /* a file that `tilesmith db publish` wrote; NULL or "": that of TILESMITH_TUNING, if it is set */
} tilesmith_context_options;
#define TILESMITH_CONTEXT_OPTIONS_INIT \
  { sizeof(tilesmith_context_options), {0, 0}, 0, 0, NULL, 0, 0, NULL }

/* The options of a context's calls; NULL: of the context of the process. The texts live as long as the context. */
TILESMITH_API tilesmith_status tilesmith_context_get_options(tilesmith_context* context,
                                                             tilesmith_context_options* out);

/* options may be NULL. Cheap: devices are opened by the first call that needs them. */
TILESMITH_API tilesmith_status tilesmith_context_create(const tilesmith_context_options* options,
                                                        tilesmith_context** out);
/* Destroys the context and its plans. No call may be running on it. NULL does nothing. */
TILESMITH_API void tilesmith_context_destroy(tilesmith_context* context);

/* ------------------------------------------------------------------------------------------------------ data types */

enum tilesmith_data_type {
  TILESMITH_FP32 = 0,
  TILESMITH_FP16 = 1,
  TILESMITH_BF16 = 2,
  TILESMITH_FP8 = 3, /* e4m3 */
  TILESMITH_BF8 = 4, /* e5m2 */
  TILESMITH_INT8 = 5,
  TILESMITH_INT4 = 6, /* two in a byte, the element of lower k in the low half; k is even; strides count elements */
  TILESMITH_INT32 = 7,
  TILESMITH_TF32 = 8, /* fp32 in memory, 10 bits of mantissa in the multiplications */
  /* Attention only: the inputs have the first type, the output has the second. */
  TILESMITH_FP8FP16 = 10,
  TILESMITH_FP8BF16 = 11,
  TILESMITH_FP8FP32 = 12
};

/* ------------------------------------------------------------------------------------------------------- attention */

enum tilesmith_sequence_mode {
  TILESMITH_BATCH = 0, /* all sequences of the batch have the same length */
  TILESMITH_GROUP = 1  /* different lengths, packed one after the other; cumulative offsets tell where each begins */
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

/* Elements of keys and values, where they are not those of the queries. */
enum tilesmith_kv_elements {
  TILESMITH_KV_AS_QUERIES = 0,
  TILESMITH_KV_FP8 = 1, /* e4m3, with a scale */
  TILESMITH_KV_INT8 = 2 /* with a scale */
};

/* Bits of tilesmith_attention.traits. */
enum tilesmith_attention_trait {
  TILESMITH_SOFT_CAP = 1, /* s = soft_cap * tanh(s / soft_cap) */
  TILESMITH_SINK = 2,     /* one logit per query head joins the softmax's sum */
  TILESMITH_DROPOUT = 4,
  TILESMITH_LSE = 8,                /* the call computes the log-sum-exp */
  TILESMITH_BLOCK_SCALE = 16,       /* fp8: scales differ along a sequence, by blocks of 128 rows from its beginning */
  TILESMITH_PAGE_SCALE = 32,        /* 8-bit caches of pages: k_scale and v_scale are those of pages or their rows */
  TILESMITH_LATENT = 64,            /* values are the first head_dim_v elements of the keys: v is not read */
  TILESMITH_BATCH_INVARIANT = 128,  /* a sequence's bits follow from itself, whatever stands beside it; not backward */
  TILESMITH_VECTORIZED_PAGES = 256, /* pages hold vectors of 16 bytes: see page_size */
  TILESMITH_APPEND = 512,           /* the call writes new keys into its cache first: see k_new; not backward */
  TILESMITH_LENGTHS_AFTER = 1024    /* of tilesmith_kv_append alone: see seqlens_k there */
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

/* The scale of an 8-bit tensor. Stored values are multiplied by data[b * batch + h * head + row / 128 * block], with
 * TILESMITH_PAGE_SCALE by data[page * batch + h * head + row of the page * block]. Strides count elements and are 0
 * where the scale is shared. NULL data is a scale of 1. Scales are positive, finite and normal. */
typedef struct tilesmith_scale {
  const float* data; /* memory that the device reads */
  int64_t batch;
  int64_t head;  /* of k and v: from one key head to the next */
  int64_t block; /* with TILESMITH_BLOCK_SCALE or TILESMITH_PAGE_SCALE; else 0 */
} tilesmith_scale;

/* One complete call of attention forward. */
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
  int64_t seqlen_q; /* group mode: of the longest sequence of the batch */
  int64_t seqlen_k;
  int64_t head_dim_qk;
  int64_t head_dim_v;
  int64_t window_left; /* how many keys to its left a query sees; -1: all. As in FlashAttention */
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

  /* The data: memory that the device reads. A pointer that no trait asks for is NULL. A NaN or infinity in v may reach
   * rows that do not see its key, because a hidden key's weight is 0 and 0 times NaN is NaN: padding is finite. */
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
  void* workspace;          /* 64-byte aligned, for this call only; NULL: the library uses its own */
  uint64_t workspace_bytes; /* of workspace: at least the plan's workspace_bytes */
  uint64_t seed;            /* dropout: the same seed and offset give the same mask on every kernel and device */
  uint64_t offset;

  tilesmith_scale q_scale; /* fp8 types */
  tilesmith_scale k_scale; /* fp8 types, and a `cache` of 8 bits */
  tilesmith_scale v_scale;

  int64_t diagonal; /* what the mask and the window are moved by, to the right: -1 leaves the keys before a query */

  /* Options for this call alone, in place of the context's: ask tilesmith_context_get_options and change what differs.
   * Their device is not read. NULL: the context's. Plans are kept for each distinct options, as long as the context
   * lives; threads and loaded kernels are shared. */
  const tilesmith_context_options* options;

  /* Pages. With a page_size, k is (num_pages, heads_kv, page_size, head_dim_qk) and v (num_pages, heads_kv, page_size,
   * head_dim_v) by their strides, whose batch leads from page to page; sequences have lengths of their own, and
   * cu_seqlens_k is NULL (group mode packs q and o alone). Key j of sequence b is row j % page_size of page
   * page_numbers[b * page_stride + j / page_size], or with page_offsets page_numbers[page_offsets[b] + j / page_size];
   * without page_numbers, of page b. Nothing is read of entries and pages that no query sees.
   * With TILESMITH_VECTORIZED_PAGES a head's share of a page is contiguous, and of k (head_dim_qk / x, page_size, x),
   * of v (page_size / x, head_dim_v, x), where x elements have 16 bytes; row strides are not read. */
  int64_t page_size; /* keys; 0: k and v are not paged. Part of the problem, as seqlen_k is: the longest length */
  int64_t num_pages;
  int64_t page_stride;
  const int32_t* seqlens_k; /* (batch): keys of each sequence */
  const int32_t* page_numbers;
  const int32_t* page_offsets; /* (batch) or longer */

  int64_t splits; /* pieces that kernels for few queries cut the keys into; 0: chosen by a model. Part of the problem */
  int64_t cache;  /* tilesmith_kv_elements of k and v: 8 bits beside q's 16 or 32, times k_scale and v_scale */

  /* With TILESMITH_APPEND: a key and a value for each query, in q's type, written to k and v before they are read. With
   * n the tokens of sequence b, token t becomes its key seqlens_k[b] - n + t, for seqlens_k counts them too; or it goes
   * to row slots[token] % page_size of page slots[token] / page_size, nowhere when that is negative. A sequence of no
   * keys is padding: its tokens go nowhere. No sequence may see a key that another one brings. Keys and queries are
   * turned by the position, which is the key's number, or positions[token]. token counts the rows of q. */
  const void* k_new; /* (batch, heads_kv, seqlen_q, dim); group mode (heads_kv, total_q, dim) */
  const void* v_new;
  void* q_out; /* with rotary_dim: where the turned queries go, and are read; may be q */
  tilesmith_strides k_new_strides;
  tilesmith_strides v_new_strides;
  tilesmith_strides q_out_strides;
  const int64_t* slots;          /* (rows of q), or NULL */
  const int64_t* positions;      /* (rows of q), or NULL */
  const int32_t* seqlens_before; /* (batch): seqlens_k without the call's keys, or NULL: they follow from seqlens_k */
  const float* rotary_cos;       /* (rotary_positions, rotary_dim / 2) */
  const float* rotary_sin;
  int64_t rotary_dim; /* elements of a head that turn, even; 0: none */
  int64_t rotary_positions;
  int64_t rotary_row_stride; /* in elements */
  int32_t rotary_style;      /* tilesmith_rotary_style */
  uint32_t chosen_scales;    /* tilesmith_chosen_scale, or-ed */
} tilesmith_attention;

/* Scales that a call with TILESMITH_APPEND chooses for its new rows, as tilesmith_kv_append's row scales, and writes to
 * their places in k_scale and v_scale: with TILESMITH_PAGE_SCALE, a number for each row. */
enum tilesmith_chosen_scale { TILESMITH_CHOOSE_K_SCALE = 1, TILESMITH_CHOOSE_V_SCALE = 2 };

enum tilesmith_rotary_style {
  TILESMITH_ROTARY_HALF = 0,       /* elements i and i + rotary_dim / 2 turn together */
  TILESMITH_ROTARY_INTERLEAVED = 1 /* elements 2 i and 2 i + 1 */
};

/* A batch of one with one head, without mask and traits: set what differs. */
#define TILESMITH_ATTENTION_INIT                                                                                       \
  {                                                                                                                    \
    sizeof(tilesmith_attention), {0, 0}, TILESMITH_BF16, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 128, 128, -1, -1, 0, 0,         \
        {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0, 0}, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL,    \
        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, {NULL, 0, 0, 0}, {NULL, 0, 0, 0}, {NULL, 0, 0, 0}, 0, \
        NULL, 0, 0, 0, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, NULL, NULL, NULL,    \
        NULL, NULL, 0, 0, 0, 0, 0                                                                                      \
  }

/* Fills in the strides of dense q, k, v, o, lse and bias in this layout (tilesmith_layout), and the usual scale, from
 * the problem's fields. */
TILESMITH_API tilesmith_status tilesmith_attention_dense(tilesmith_attention* call, int32_t layout);

/* Computes o (and lse). The first call of a problem plans it, which may take the time of a compilation; later ones
 * allocate nothing and take no lock. On the CPU the result is ready on return; on a CUDA device the call is queued on
 * the stream. */
TILESMITH_API tilesmith_status tilesmith_attention_forward(tilesmith_context* context, const tilesmith_attention* call);

/* The same in two steps. A plan belongs to its context and lives as long as that. */
typedef struct tilesmith_attention_plan tilesmith_attention_plan;

/* Reads the problem, the scale's sign, and, for their alignment, the strides and pointers of q, k, v and o; pointers
 * may be NULL. */
TILESMITH_API tilesmith_status tilesmith_attention_plan_for(tilesmith_context* context, const tilesmith_attention* call,
                                                            const tilesmith_attention_plan** out);
/* The problem of the call must be the problem of the plan. */
TILESMITH_API tilesmith_status tilesmith_attention_run(const tilesmith_attention_plan* plan,
                                                       const tilesmith_attention* call);

/* ---------------------------------------------------------------------------------------------- attention backward */

/* Bits of tilesmith_attention_gradients.traits. */
enum tilesmith_gradient_trait {
  TILESMITH_DLSE = 1,   /* the loss depends on the log-sum-exp too: its gradient is given */
  TILESMITH_DBIAS = 2,  /* wanted: the gradient of the elementwise bias */
  TILESMITH_DALIBI = 4, /* wanted: that of the ALiBi slopes */
  TILESMITH_DSINK = 8   /* wanted: that of the sink logits */
};

/* One complete call of attention backward: the gradients of a loss by the inputs of attention, from the gradient of its
 * output. tilesmith/attention_backward.hpp has the formulas.
 *
 *   tilesmith_attention_gradients call = TILESMITH_ATTENTION_GRADIENTS_INIT;
 *   call.forward = &forward;                                 // with TILESMITH_LSE: its o and lse are read
 *   tilesmith_attention_backward_dense(&call, TILESMITH_BHSD);
 *   call.dout = dout;                                        // your buffers; dq, dk and dv likewise
 *   tilesmith_attention_backward(NULL, &call);
 */
typedef struct tilesmith_attention_gradients {
  uint64_t struct_size;
  tilesmith_device device;
  uint32_t traits; /* tilesmith_gradient_trait, or-ed */
  uint32_t reserved;

  /* The call of attention forward, of the same seed and offset where it drops out. All of it is read but its device,
   * stream, workspace, options and splits. Its data_type is fp32, tf32, fp16 or bf16, and it has no pages. */
  const tilesmith_attention* forward;

  tilesmith_strides dout_strides; /* of o's sizes; dq of q's, and so on */
  tilesmith_strides dlse_strides;
  tilesmith_strides dq_strides;
  tilesmith_strides dk_strides;
  tilesmith_strides dv_strides;
  /* Of dbias seen as (batch, heads_q, seqlen_q, seqlen_k). 0 sums over the dimension: it is that of every dimension
   * that the bias broadcasts. */
  tilesmith_bias_strides dbias_strides;
  int64_t dalibi_batch_stride; /* 0: one slope per query head; else one per batch and query head */

  /* Memory that the device reads and writes. A pointer that no trait asks for is NULL. */
  const void* dout;
  const float* dlse;
  void* dq;
  void* dk;
  void* dv;
  float* dbias;
  float* dalibi;
  float* dsink; /* (heads_q) */

  void* stream; /* these four as in tilesmith_attention */
  void* workspace;
  uint64_t workspace_bytes;
  const tilesmith_context_options* options;
} tilesmith_attention_gradients;

#define TILESMITH_ATTENTION_GRADIENTS_INIT                                                                            \
  {                                                                                                                   \
    sizeof(tilesmith_attention_gradients), {0, 0}, 0, 0, NULL, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, \
        {0, 0, 0, 0}, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL                          \
  }

/* Fills in the strides of dense gradients in this layout (tilesmith_layout), dbias that of a bias which broadcasts
 * nothing, from the problem's fields. */
TILESMITH_API tilesmith_status tilesmith_attention_backward_dense(tilesmith_attention_gradients* call, int32_t layout);

/* Computes dq, dk, dv and what is wanted beside them; every element of the sequences' rows is written. As
 * tilesmith_attention_forward: the first call of a problem plans it. */
TILESMITH_API tilesmith_status tilesmith_attention_backward(tilesmith_context* context,
                                                            const tilesmith_attention_gradients* call);

/* The same in two steps, as those of attention forward. */
typedef struct tilesmith_attention_backward_plan tilesmith_attention_backward_plan;

TILESMITH_API tilesmith_status tilesmith_attention_backward_plan_for(tilesmith_context* context,
                                                                     const tilesmith_attention_gradients* call,
                                                                     const tilesmith_attention_backward_plan** out);
TILESMITH_API tilesmith_status tilesmith_attention_backward_run(const tilesmith_attention_backward_plan* plan,
                                                                const tilesmith_attention_gradients* call);

/* --------------------------------------------------------------------------------------------------------- serving */

/* What serving needs beside attention, on the CPU and on CUDA devices. tilesmith/serving.hpp has the formulas. These
 * calls have no plan; on the CPU their results are ready on return, on a CUDA device they are queued on the stream. */

/* Attention over several parts of the keys, merged into attention over all of them. */
typedef struct tilesmith_states {
  uint64_t struct_size;
  tilesmith_device device;
  int32_t data_type; /* of the outputs: TILESMITH_FP32, _FP16 or _BF16 */
  uint32_t reserved;
  int64_t states; /* how many parts */
  int64_t batch;
  int64_t heads;
  int64_t seqlen;
  int64_t head_dim;
  tilesmith_strides output_strides;    /* of each part's output */
  tilesmith_strides input_lse_strides; /* of each part's log-sum-exp */
  tilesmith_strides o_strides;
  tilesmith_strides lse_strides;
  /* (states) tensors (batch, heads, seqlen, head_dim). The list is the host's; on a CUDA device it has at most 64, or
   * any number that lie equally far apart, as do the lses. */
  const void* const* outputs;
  const float* const*
      lses;     /* (states) tensors (batch, heads, seqlen), natural logarithms; -inf: the part saw nothing */
  void* o;      /* may be one of the outputs, in its place */
  float* lse;   /* NULL: not wanted */
  void* stream; /* as in tilesmith_attention */
} tilesmith_states;
#define TILESMITH_STATES_INIT                                                                                         \
  {                                                                                                                   \
    sizeof(tilesmith_states), {0, 0}, TILESMITH_BF16, 0, 0, 1, 1, 1, 128, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, \
        NULL, NULL, NULL, NULL, NULL                                                                                  \
  }

TILESMITH_API tilesmith_status tilesmith_merge_states(tilesmith_context* context, const tilesmith_states* call);

/* New keys and values, written into a cache of pages as tilesmith_attention reads it, and queries and keys turned by
 * their positions on the way. */
typedef struct tilesmith_kv_append {
  uint64_t struct_size;
  tilesmith_device device;
  int32_t data_type; /* of q, k and v: TILESMITH_FP32, _FP16 or _BF16 */
  int32_t mode;      /* tilesmith_sequence_mode, of q, k and v */
  int32_t rotary_style;
  uint32_t cache; /* tilesmith_kv_elements */
  int64_t batch;
  int64_t heads_q; /* queries to turn; 0: none */
  int64_t heads_kv;
  int64_t seqlen; /* new tokens of a sequence; group mode: of the longest */
  int64_t head_dim_qk;
  int64_t head_dim_v;
  int64_t page_size; /* rows of a page; of a dense cache, which has no page_numbers: of a sequence */
  int64_t num_pages;
  int64_t page_stride;
  int64_t rotary_dim;        /* elements of a head that turn, even; 0: none */
  int64_t rotary_positions;  /* rows of the tables */
  int64_t rotary_row_stride; /* in elements */
  tilesmith_strides q_strides;
  tilesmith_strides k_strides;
  tilesmith_strides v_strides;
  tilesmith_strides q_out_strides;
  tilesmith_strides k_cache_strides; /* batch: from page to page */
  tilesmith_strides v_cache_strides;
  const void* q; /* (batch, heads, seqlen, dim); group mode (heads, rows of all sequences, dim) */
  const void* k;
  const void* v;
  void* q_out; /* may be q */
  void* k_cache;
  void* v_cache;
  const int32_t* cu_seqlens; /* group mode: (batch + 1) */
  /* (batch): keys of each sequence before the call; may be NULL with slots and positions. With TILESMITH_LENGTHS_AFTER
   * they count the call's tokens too, as tilesmith_attention's do, and a sequence of no keys is padding: its tokens go
   * nowhere. */
  const int32_t* seqlens_k;
  const int32_t* page_numbers; /* as in tilesmith_attention */
  const int32_t* page_offsets;
  const int64_t* slots;     /* (rows of q): page * page_size + row for each new token, negative: nowhere; or NULL */
  const int64_t* positions; /* (rows of q): of each new token; NULL: they follow the sequence's keys */
  const float* rotary_cos;  /* (rotary_positions, rotary_dim / 2) */
  const float* rotary_sin;

  tilesmith_scale k_scale; /* of a cache of 8 bits: what is stored is a value divided by it; block is 0 by sequence */
  tilesmith_scale v_scale;
  int64_t total; /* group mode: rows of q, k and v; the CPU reads it off cu_seqlens where it is 0 */
  void* stream;  /* as in tilesmith_attention */

  uint32_t traits; /* of tilesmith_attention_trait: TILESMITH_PAGE_SCALE, TILESMITH_VECTORIZED_PAGES (row strides are
                      not read), TILESMITH_LENGTHS_AFTER */
  uint32_t reserved;
  /* Scales that the call chooses in place of k_scale and v_scale, and writes: of row r of page p and head h at
   * p * batch + h * head + r * row. The largest magnitude of the row over the type's largest (448, 127), neither
   * subnormal nor infinite; 1 of a row of zeros. tilesmith_attention reads them with TILESMITH_PAGE_SCALE. */
  float* k_row_scale;
  float* v_row_scale;
  tilesmith_strides k_row_scale_strides;
  tilesmith_strides v_row_scale_strides;
} tilesmith_kv_append;
#define TILESMITH_KV_APPEND_INIT                                                                                     \
  {                                                                                                                  \
    sizeof(tilesmith_kv_append), {0, 0}, TILESMITH_BF16, 0, 0, 0, 1, 0, 1, 1, 128, 128, 1, 0, 0, 0, 0, 0, {0, 0, 0}, \
        {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
        NULL, NULL, NULL, NULL, NULL, {NULL, 0, 0, 0}, {NULL, 0, 0, 0}, 0, NULL, 0, 0, NULL, NULL, {0, 0, 0}, {      \
      0, 0, 0                                                                                                        \
    }                                                                                                                \
  }

TILESMITH_API tilesmith_status tilesmith_append_kv(tilesmith_context* context, const tilesmith_kv_append* call);

/* A tree of drafted tokens: which of a sequence's last keys, as many as it has queries, each query sees. With n the
 * queries and L the keys of a sequence, bit t % 32 of word t / 32 of query i says whether it sees key L - n + t. The
 * keys before are visible. All pointers are the host's. */
typedef struct tilesmith_tree {
  uint64_t struct_size;
  int64_t batch;
  int64_t seqlen_q;            /* n; with cu_seqlens_q the longest */
  int64_t seqlen_k;            /* the longest L */
  int64_t words;               /* of 32 bits for each query: room for n */
  const uint32_t* bits;        /* (batch, seqlen_q, words); with cu_seqlens_q (rows of q, words) */
  const int32_t* cu_seqlens_q; /* packed queries: (batch + 1); NULL: every n is seqlen_q */
  const int32_t* seqlens_k;    /* (batch): each L; NULL: seqlen_k */
} tilesmith_tree;
#define TILESMITH_TREE_INIT \
  { sizeof(tilesmith_tree), 1, 1, 1, 1, NULL, NULL, NULL }

/* Writes the mask as attention's elementwise bias, (batch, seqlen_q, seqlen_k), to be shared by the heads (its strides
 * are {seqlen_q * seqlen_k, 0, seqlen_k, 1}): 0 where a query sees a key, -inf where the tree hides it. Masks and
 * windows hide keys beside that. Errors: TILESMITH_INVALID_ARGUMENT. */
TILESMITH_API tilesmith_status tilesmith_tree_bias(const tilesmith_tree* tree, float* bias);

/* ------------------------------------------------------------------------------------------------------------ GEMM */

/* D = epilogue(alpha * A x B + beta * C), `batch` times: A is m x k, B is k x n, C is m x n. Sums are fp32; sums of
 * int8 are int32 (modulo 2^32); the epilogue is computed in fp32 and rounded once, to D's type. */

enum tilesmith_matrix_order {
  TILESMITH_ROW = 0,   /* the elements of a row are neighbours in memory */
  TILESMITH_COLUMN = 1 /* the elements of a column are neighbours in memory */
};

/* What an operation of the epilogue does to v, the value at row i and column j. The members of the batch share vectors,
 * unless they are groups. */
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
  TILESMITH_EPILOGUE_CLAMP = 13, /* v is limited to low .. high; NaN stays NaN */
  /* Gates join columns 2 j and 2 j + 1 into column j: f(v[2 j]) v[2 j + 1]. Later operations see n / 2 columns. */
  TILESMITH_EPILOGUE_GLU = 14,        /* f = sigmoid */
  TILESMITH_EPILOGUE_REGLU = 15,      /* f = relu */
  TILESMITH_EPILOGUE_GEGLU = 16,      /* f = gelu */
  TILESMITH_EPILOGUE_GEGLU_TANH = 17, /* f = gelu_tanh */
  TILESMITH_EPILOGUE_SWIGLU = 18,     /* f = silu */
  TILESMITH_EPILOGUE_AMAX = 19        /* *amax = max(*amax, |v|), before rounding; the last operation */
};

#define TILESMITH_EPILOGUE_LENGTH 8

/* One operation and the data that it reads. Fields that it does not use are 0. */
typedef struct tilesmith_epilogue {
  int32_t op; /* tilesmith_epilogue_op */
  int32_t reserved;
  const void* data; /* bias, scale, add, multiply: memory that the device reads */
  int64_t leading;  /* add, multiply: elements from a row (column-major: a column) to the next */
  int64_t batch;    /* add, multiply: elements from a matrix of the batch to the next; 0 shares it. With groups also for
                       vectors; vectors over m of contiguous groups run on from group to group and have 0 */
  float low;        /* clamp */
  float high;
} tilesmith_epilogue;

/* One matrix per member of the batch. Element (i, j) of member b is data[b * batch + i * leading + j] of a row-major
 * matrix, data[b * batch + j * leading + i] of a column-major one. A batch stride of 0 shares the matrix. The
 * batch stride of a single matrix is not read. */
typedef struct tilesmith_matrix {
  const void* data; /* memory that the device reads */
  int64_t leading;  /* at least the elements of a row (column) */
  int64_t batch;
} tilesmith_matrix;

/* The members of a batch may be groups, each with its own number of rows (mixtures of experts). Group g has the rows
 * start(g) .. group_ends[g] - 1. Rows of D that belong to no group are left as they are. B, and vectors over n, advance
 * by their batch strides from group to group. */
enum tilesmith_grouping {
  TILESMITH_GROUPS_NONE = 0,
  TILESMITH_GROUPS_CONTIGUOUS = 1, /* start(g) is group_ends[g - 1], or 0 for g = 0: A (row-major), C, D and the tensors
                                      of the epilogue are one matrix of m rows each; their batch strides are not read */
  TILESMITH_GROUPS_MASKED = 2      /* start(g) is 0: each group has its own A, C, D and tensors of m rows */
};

/* Scales shared by the elements of a block of k. The scale of row i of A (or of line i of B's scales), block q of k, in
 * member b of the batch is data[b * batch + i * row + q * block]. */
typedef struct tilesmith_block_scale {
  const void* data; /* memory that the device reads */
  int64_t row;
  int64_t block;
  int64_t batch; /* A with contiguous groups: not read */
} tilesmith_block_scale;

/* Parts of a call's problem. */
typedef enum tilesmith_gemm_flag {
  /* A promise for CUDA devices: B (and B2) holds weights. No kernel that may still be running in the stream when this
   * one is launched writes them. Kernels of few rows then begin to read B while the preceding kernel ends. */
  TILESMITH_CONSTANT_B = 1,
  /* B is a buffer that tilesmith_gemm_pack_b wrote, aligned to 64 bytes, shared by the batch. b.leading is its size in
   * bytes (0: not known), b.batch is not read, and order_b is the order of the matrix that was packed. Only on the CPU;
   * not with grouping, group_size, weights and k2. */
  TILESMITH_PACKED_B = 2,
  TILESMITH_ZERO_POINTS = 4, /* weights have zero points, in zero_b */
  /* C, D and the tensors of the epilogue are column-major: their leading dimensions are between columns. Without this
   * flag they are row-major. Computed as the transposed GEMM, at the same cost. Not with gates, grouping, group_size,
   * weights and TILESMITH_PACKED_B. */
  TILESMITH_COLUMN_D = 8
} tilesmith_gemm_flag;

/* One complete GEMM call. */
typedef struct tilesmith_gemm {
  uint64_t struct_size;

  /* The problem: what a plan depends on. Whether beta is 0, and the operations of the epilogue, belong to it too. */
  tilesmith_device device;
  int32_t type_a;    /* tilesmith_data_type: fp32, tf32, fp16, bf16, fp8, bf8 or int8 */
  int32_t type_b;    /* as A, or bf8 beside fp8 and the reverse, or int8 or int4 weights beside fp16 and bf16, with
                        group_size */
  int32_t type_c;    /* of C and of the tensors that add and multiply read; int32 if and only if D is int32 */
  int32_t type_d;    /* fp32, fp16, bf16, on CUDA also fp8, bf8; from int8 also int32 (without an epilogue) and int8 */
  int32_t type_bias; /* fp32, fp16 or bf16 */
  int32_t order_a;   /* tilesmith_matrix_order; the order of D stands in flags */
  int32_t order_b;
  uint32_t flags; /* tilesmith_gemm_flag, or-ed */
  int64_t m;      /* m, n or batch = 0 computes nothing; k = 0 makes A x B zero */
  int64_t n;      /* columns of B; D has half of them when the epilogue has a gate */
  int64_t k;
  int64_t batch; /* with grouping: the number of groups */

  float alpha; /* 0 or 1 if D is int32; at 0, A and B are not read */
  float beta;  /* at 0, C is not read; a whole number if D is int32 */
  tilesmith_matrix a;
  tilesmith_matrix b;
  tilesmith_matrix c; /* may be D: each element at the same address */
  void* d;            /* may be C or a tensor of the epilogue; overlaps no other operand */
  int64_t d_leading;
  int64_t d_batch;
  float* amax; /* with the operation amax: one number for the call; before the call at least 0 and not NaN */

  void* stream;             /* CUDA: the stream to run on (cudaStream_t); NULL: the default stream. CPU: NULL */
  void* workspace;          /* 64-byte aligned, for this call only; NULL: the library uses its own */
  uint64_t workspace_bytes; /* of workspace: at least the plan's workspace_bytes */

  tilesmith_epilogue epilogue[TILESMITH_EPILOGUE_LENGTH]; /* in order; TILESMITH_EPILOGUE_NONE ends the list */

  int32_t grouping;   /* tilesmith_grouping */
  int32_t type_scale; /* tilesmith_data_type: fp32; for weights also A's type */
  /* Elements of k that share a scale; 0: there are no such scales. Matrices with scales lie along k (A row-major, B
   * column-major).
   * fp8 and bf8: 128. D = sum over blocks q of k of scale_a(i, q) scale_b(j / 128, q) (A x B over block q).
   * Weights: a power of two from 32 on, or k. B(l, j) stands for B(l, j) * scale_b(j, l / group_size), rounded to A's
   * type; with zero points for (B(l, j) - zero_b(j, l / group_size)) * scale_b(j, l / group_size). Unsigned weights and
   * zero points (AWQ, GPTQ) become signed ones when their top bit is flipped. */
  int64_t group_size;
  tilesmith_block_scale scale_a; /* fp8 and bf8. With group_size 0, of all types: data is NULL or one fp32 number that
                                    the products are multiplied by; its strides are 0. Not if D is int32 */
  tilesmith_block_scale scale_b; /* the same */
  const int32_t* group_ends; /* with grouping: `batch` numbers, each at most m; rising if the groups are contiguous. The
                                CPU checks them; a CUDA device reads them itself and limits them to m */

  /* A second GEMM in the same sums: D = epilogue(alpha * (A x B + A2 x B2) + beta * C). A2 (m x k2) and B2 (k2 x n)
   * have the types and orders of A and B. k2 = 0: there is none. Not with grouping, group_size and weights. */
  int64_t k2;
  tilesmith_matrix a2;
  tilesmith_matrix b2;

  tilesmith_block_scale zero_b; /* with TILESMITH_ZERO_POINTS: int8; beside int4 weights at most 119 */

  const tilesmith_context_options* options; /* as in tilesmith_attention. Packing b does not read them */
} tilesmith_gemm;

/* bf16, m = n = k = 1, B along k as in torch.nn.Linear, without optional parts: set what differs. */
#define TILESMITH_GEMM_INIT                                                                                           \
  {                                                                                                                   \
    sizeof(tilesmith_gemm), {0, 0}, TILESMITH_BF16, TILESMITH_BF16, TILESMITH_BF16, TILESMITH_BF16, TILESMITH_BF16,   \
        TILESMITH_ROW, TILESMITH_COLUMN, 0, 1, 1, 1, 1, 1, 0, {NULL, 0, 0}, {NULL, 0, 0}, {NULL, 0, 0}, NULL, 0, 0,   \
        NULL, NULL, NULL, 0,                                                                                          \
        {{0, 0, NULL, 0, 0, 0, 0}, {0, 0, NULL, 0, 0, 0, 0}, {0, 0, NULL, 0, 0, 0, 0}, {0, 0, NULL, 0, 0, 0, 0},      \
         {0, 0, NULL, 0, 0, 0, 0}, {0, 0, NULL, 0, 0, 0, 0}, {0, 0, NULL, 0, 0, 0, 0}, {0, 0, NULL, 0, 0, 0, 0}},     \
        0, TILESMITH_FP32, 0, {NULL, 0, 0, 0}, {NULL, 0, 0, 0}, NULL, 0, {NULL, 0, 0}, {NULL, 0, 0}, {NULL, 0, 0, 0}, \
        NULL                                                                                                          \
  }

/* Fills in, from the problem's fields, the leading dimensions and batch strides of dense matrices (the epilogue's
 * included) and the strides of scales whose blocks of k are contiguous. For a packed b it fills in zeros. */
TILESMITH_API tilesmith_status tilesmith_gemm_dense(tilesmith_gemm* call);

/* Computes D. The first call of a problem plans it, which may take the time of a compilation; later ones allocate
 * nothing and take no lock. On the CPU the result is ready on return; on a CUDA device the call is queued on the
 * stream.
 * Errors: invalid_argument names the field; unsupported names the rule that refuses the kernels. */
TILESMITH_API tilesmith_status tilesmith_gemm_compute(tilesmith_context* context, const tilesmith_gemm* call);

/* The same in two steps. A plan belongs to its context and lives as long as that. */
typedef struct tilesmith_gemm_plan tilesmith_gemm_plan;

/* Reads the problem, whether beta is 0, and, for their alignment, the strides and pointers; pointers may be NULL. */
TILESMITH_API tilesmith_status tilesmith_gemm_plan_for(tilesmith_context* context, const tilesmith_gemm* call,
                                                       const tilesmith_gemm_plan** out);
/* The problem of the call must be the problem of the plan. */
TILESMITH_API tilesmith_status tilesmith_gemm_run(const tilesmith_gemm_plan* plan, const tilesmith_gemm* call);

/* Packs B once, for calls with TILESMITH_PACKED_B that have these types, n and k, any m, batch and epilogue, and run on
 * a machine of this kind. Reads from the call the types, order_b, n, k and b; b is a plain matrix. The result is bytes
 * that may be copied, moved and kept in a file. They begin with a description of what they were made for; any other
 * call fails with invalid_argument. CPU only: CUDA kernels read plain matrices at full speed (unsupported). packed:
 * 64-byte aligned, at least the size that tilesmith_gemm_packed_bytes tells, and apart from B.
 */
TILESMITH_API tilesmith_status tilesmith_gemm_packed_bytes(tilesmith_context* context, const tilesmith_gemm* call,
                                                           uint64_t* out);
TILESMITH_API tilesmith_status tilesmith_gemm_pack_b(tilesmith_context* context, const tilesmith_gemm* call,
                                                     void* packed, uint64_t packed_bytes);

/* A list: several GEMMs as one call, each with sizes, types and an epilogue of its own. On the CPU the tasks of all
 * GEMMs are one job for the threads. On a CUDA device GEMMs that differ only in their sizes share launches where a
 * kernel for that exists, and the others are queued one after another. All calls name the same device, stream and
 * options; no call brings a workspace or groups; no d overlaps an operand of another GEMM. The thread's last list is
 * kept with its plan, so the same sizes are not planned again. An empty list computes nothing. Errors: those of
 * tilesmith_gemm_compute, with the number of the GEMM; then nothing is computed, unless a launch fails.
 */
TILESMITH_API tilesmith_status tilesmith_gemm_compute_list(tilesmith_context* context,
                                                           const tilesmith_gemm* const* calls, int64_t count);

/* ------------------------------------------------------------------------------------------------------ convolution */

/* Which of a convolution's tensors x, w and y is computed from the other two. */
enum tilesmith_conv_direction {
  TILESMITH_CONV_FORWARD = 0,        /* y of x and w */
  TILESMITH_CONV_BACKWARD_DATA = 1,  /* x (its gradient) of y and w: also the transposed convolution */
  TILESMITH_CONV_BACKWARD_WEIGHT = 2 /* w (its gradient) of x and y */
};

/* The order of dimensions: (n, d, h, w, channels) and filters (k, d, h, w, c), or (n, channels, d, h, w) and (k, c, d,
 * h, w). */
enum tilesmith_conv_layout { TILESMITH_CHANNELS_LAST = 0, TILESMITH_CHANNELS_FIRST = 1 };

/* Element (n, g, c, pixel) is at n * batch + g * group + c * channel + the sum of pixel[i] * spatial[i]; of w, batch is
 * the step between the k filters of a group. Coordinates are depth, height, width. */
typedef struct tilesmith_conv_strides {
  int64_t batch;
  int64_t group;
  int64_t channel;
  int64_t spatial[3];
} tilesmith_conv_strides;

/* One operation of the epilogue and what it reads. Fields that it does not use are 0. */
typedef struct tilesmith_conv_operand {
  int32_t op; /* tilesmith_epilogue_op: bias, scale_n, add, multiply, an activation or clamp */
  int32_t reserved;
  const void* data; /* bias, scale_n: one element for each channel of the result; add, multiply: a tensor */
  tilesmith_conv_strides strides; /* add, multiply */
  float low;                      /* clamp */
  float high;
} tilesmith_conv_operand;

/* Parts of a call's problem. */
typedef enum tilesmith_conv_flag {
  /* w is a buffer that tilesmith_conv_pack_w wrote, aligned to 64 bytes. w_strides.batch is its size in bytes (0: not
   * known), its other strides are not read. Only on the CPU, forward and backward data. */
  TILESMITH_PACKED_W = 1
} tilesmith_conv_flag;

/* One complete call of a grouped convolution in one to three dimensions. tilesmith/conv.hpp has the formulas.
 * Coordinates that it lacks have sizes, strides and dilations of 1, and no padding.
 *
 *   tilesmith_conv call = TILESMITH_CONV_INIT;
 *   call.c = call.k = 64;
 *   call.image[1] = call.image[2] = 56;
 *   call.filter[1] = call.filter[2] = 3;
 *   tilesmith_conv_dense(&call, TILESMITH_CHANNELS_LAST);
 *   call.x = x;                                              // and w; out is y
 *   tilesmith_conv_compute(NULL, &call);
 */
typedef struct tilesmith_conv {
  uint64_t struct_size;
  tilesmith_device device;
  int32_t direction; /* tilesmith_conv_direction */
  int32_t data_type; /* tilesmith_data_type of what is read: fp32, fp16 or bf16; forward also fp8 and int8 */
  int32_t type_out;  /* of the result and of the epilogue's tensors: data_type or fp32; of 8 bits fp32, fp16 or bf16, of
                        int8 also int8. Scales of 8-bit tensors are an epilogue's scale_n */
  int32_t type_bias; /* fp32, fp16 or bf16 */
  int64_t batch;
  int64_t groups;
  int64_t c;        /* channels of x in a group */
  int64_t k;        /* channels of y in a group */
  int64_t image[3]; /* pixels of x: depth, height, width */
  int64_t filter[3];
  int64_t stride[3];
  int64_t dilation[3];
  int64_t pad[3];      /* pixels of zeros before x */
  int64_t pad_high[3]; /* and behind it */

  const void* x; /* the result's is NULL: it is `out`, with its tensor's strides */
  const void* w;
  const void* y;
  void* out; /* overlaps nothing that is read but a tensor of the epilogue, element for element */
  tilesmith_conv_strides x_strides;
  tilesmith_conv_strides w_strides;
  tilesmith_conv_strides y_strides;

  void* stream; /* these three as in tilesmith_attention */
  void* workspace;
  uint64_t workspace_bytes;

  /* In order; TILESMITH_EPILOGUE_NONE ends the list. Not of backward weight. */
  tilesmith_conv_operand epilogue[TILESMITH_EPILOGUE_LENGTH];

  const tilesmith_context_options* options; /* as in tilesmith_attention. Packing w does not read them */

  uint64_t flags; /* tilesmith_conv_flag, or-ed */
} tilesmith_conv;

/* bf16, forward, everything of size 1, without optional parts: set what differs. */
#define TILESMITH_CONV_INIT                                                                                            \
  {                                                                                                                    \
    sizeof(tilesmith_conv), {0, 0}, TILESMITH_CONV_FORWARD, TILESMITH_BF16, TILESMITH_BF16, TILESMITH_BF16, 1, 1, 1,   \
        1, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, NULL, NULL, NULL, NULL,                   \
        {0, 0, 0, {0, 0, 0}}, {0, 0, 0, {0, 0, 0}}, {0, 0, 0, {0, 0, 0}}, NULL, NULL, 0, {TILESMITH_NO_CONV_OPERANDS}, \
        NULL, 0                                                                                                        \
  }
#define TILESMITH_NO_CONV_OPERAND \
  { 0, 0, NULL, {0, 0, 0, {0, 0, 0}}, 0, 0 }
#define TILESMITH_NO_CONV_OPERANDS                                                                            \
  TILESMITH_NO_CONV_OPERAND, TILESMITH_NO_CONV_OPERAND, TILESMITH_NO_CONV_OPERAND, TILESMITH_NO_CONV_OPERAND, \
      TILESMITH_NO_CONV_OPERAND, TILESMITH_NO_CONV_OPERAND, TILESMITH_NO_CONV_OPERAND, TILESMITH_NO_CONV_OPERAND

/* Fills in the strides of dense tensors in this layout (tilesmith_conv_layout), from the problem's fields. For a packed
 * w it fills in zeros. */
TILESMITH_API tilesmith_status tilesmith_conv_dense(tilesmith_conv* call, int32_t layout);

/* Computes the result, all of it. As tilesmith_attention_forward: the first call of a problem plans it. */
TILESMITH_API tilesmith_status tilesmith_conv_compute(tilesmith_context* context, const tilesmith_conv* call);

/* Packs w once, for calls with TILESMITH_PACKED_W that have this direction, data_type, groups, c, k, filter and
 * dilation of the last coordinate, any batch, image, stride, padding, epilogue and layout of the other tensors, and run
 * on the same kind of machine. Of the call these fields, w and w_strides are read. The bytes may be copied, kept in a
 * file and moved; they name what they were made for, and another call fails with invalid_argument. CPU only: CUDA
 * kernels read plain filters at full speed (unsupported). packed: 64-byte aligned, at least the size that
 * tilesmith_conv_packed_bytes tells, and apart from w. */
TILESMITH_API tilesmith_status tilesmith_conv_packed_bytes(tilesmith_context* context, const tilesmith_conv* call,
                                                           uint64_t* out);
TILESMITH_API tilesmith_status tilesmith_conv_pack_w(tilesmith_context* context, const tilesmith_conv* call,
                                                     void* packed, uint64_t packed_bytes);

/* The same in two steps, as those of attention forward. */
typedef struct tilesmith_conv_plan tilesmith_conv_plan;

TILESMITH_API tilesmith_status tilesmith_conv_plan_for(tilesmith_context* context, const tilesmith_conv* call,
                                                       const tilesmith_conv_plan** out);
TILESMITH_API tilesmith_status tilesmith_conv_run(const tilesmith_conv_plan* plan, const tilesmith_conv* call);

/* ----------------------------------------------------------------------------------------------------------- plans */

/* A step of a plan, for programs that were built before steps had roles. */
typedef struct tilesmith_plan_stage {
  const char* kernel;
  const char* stage; /* what the step does */
} tilesmith_plan_stage;

/* One step of a plan: a kernel, and what it is there for. */
typedef struct tilesmith_plan_step {
  const char* kernel;
  const char* role; /* "compute", "pack_b", "pack_w", "append" */
  const char* what; /* what the step does, in words */
} tilesmith_plan_step;

/* A part of the memory that a call works in. */
typedef struct tilesmith_workspace_region {
  const char* name; /* what it holds: "partials", "counters" */
  uint64_t offset;  /* in bytes, from the beginning of the workspace */
  uint64_t bytes;
  uint64_t library_only; /* 1: not in the caller's workspace; the library keeps this memory for each stream */
} tilesmith_workspace_region;

/* The texts live as long as the plan's context; the arrays live until this thread asks for the info of another plan. */
typedef struct tilesmith_plan_info {
  uint64_t struct_size;
  tilesmith_device device;
  const char* operation; /* "attention_fwd", "attention_bwd", "gemm", "conv" */
  const char* kernel;    /* the recipe's name: the kernel's name, or the names of several steps joined by "+" */
  const char* reason;    /* why it was chosen, in a sentence */
  const tilesmith_plan_stage* stages; /* the steps without their roles */
  int64_t stage_count;
  uint64_t workspace_bytes; /* what a call needs; may be 0 */
  double predicted_seconds; /* the predicted time of a call; 0: no prediction was made */
  const tilesmith_plan_step* steps;
  int64_t step_count;
  const tilesmith_workspace_region* regions; /* of the workspace */
  int64_t region_count;
  /* What the choice rests on: "measurement" of this problem, an "interval" between two sizes that were measured,
   * "nearby" measurements of which several sizes differ, the "model" of the device, the "table" of its tiles; "name":
   * it was asked for; "fallback": what goes first could not be had. Of a list "mixed", where its products differ. */
  const char* source;
  double measured_seconds; /* what a call took when it was tuned; 0: it was not */
  double bound; /* a call takes at most so many times the best kernel's time, as far as times were measured exactly; 0:
                 * not known */
  const char* problem; /* the problem's line, as the program takes it: "gemm -m 8 -n 64 -k 64"; of a list NULL */
} tilesmith_plan_info;
#define TILESMITH_PLAN_INFO_INIT \
  { sizeof(tilesmith_plan_info), {0, 0}, NULL, NULL, NULL, NULL, 0, 0, 0, NULL, 0, NULL, 0, NULL, 0, 0, NULL }

TILESMITH_API tilesmith_status tilesmith_attention_plan_info(const tilesmith_attention_plan* plan,
                                                             tilesmith_plan_info* out);
TILESMITH_API tilesmith_status tilesmith_attention_backward_plan_info(const tilesmith_attention_backward_plan* plan,
                                                                      tilesmith_plan_info* out);
TILESMITH_API tilesmith_status tilesmith_gemm_plan_info(const tilesmith_gemm_plan* plan, tilesmith_plan_info* out);
TILESMITH_API tilesmith_status tilesmith_conv_plan_info(const tilesmith_conv_plan* plan, tilesmith_plan_info* out);
/* The plan of the calling thread's last successful call or run, of any operation. not_found: there was none, or its
 * context was destroyed. */
TILESMITH_API tilesmith_status tilesmith_last_plan(tilesmith_plan_info* out);

/* ------------------------------------------------------------------------------------------------------ candidates */

/* A recipe that computes a problem. */
typedef struct tilesmith_candidate {
  const char* kernel; /* the recipe's name, as in a plan's info; the options' kernel takes it */
  double predicted_seconds;
} tilesmith_candidate;

/* A kernel that dispatch passed over for a problem. */
typedef struct tilesmith_refusal {
  const char* kernel;
  const char* rule;    /* the first rule, or other reason, that refused it */
  const char* figures; /* what the rule compared */
} tilesmith_refusal;

/* What dispatch has to choose from for a problem. The texts and arrays live until this thread asks again. */
typedef struct tilesmith_candidates {
  uint64_t struct_size;
  const char* policy;                    /* what ordered the candidates: "cost model" */
  const tilesmith_candidate* candidates; /* in dispatch's order; the first that can be had is taken */
  int64_t candidate_count;
  const tilesmith_refusal* refusals; /* every other kernel of the problem's space */
  int64_t refusal_count;
} tilesmith_candidates;
#define TILESMITH_CANDIDATES_INIT \
  { sizeof(tilesmith_candidates), NULL, NULL, 0, NULL, 0 }

/* Reads of the call what tilesmith_..._plan_for reads; of the options all but the kernel and build. Compiles nothing.
 * Errors: unsupported, when no kernel computes the problem. */
TILESMITH_API tilesmith_status tilesmith_attention_candidates(tilesmith_context* context,
                                                              const tilesmith_attention* call,
                                                              tilesmith_candidates* out);
TILESMITH_API tilesmith_status tilesmith_attention_backward_candidates(tilesmith_context* context,
                                                                       const tilesmith_attention_gradients* call,
                                                                       tilesmith_candidates* out);
TILESMITH_API tilesmith_status tilesmith_conv_candidates(tilesmith_context* context, const tilesmith_conv* call,
                                                         tilesmith_candidates* out);
TILESMITH_API tilesmith_status tilesmith_gemm_candidates(tilesmith_context* context, const tilesmith_gemm* call,
                                                         tilesmith_candidates* out);

/* --------------------------------------------------------------------------------------------------------- kernels */

/* What the process did so far to have its kernels. A call with a plan looks for none, so that it counts nothing. */
typedef struct tilesmith_store_stats {
  uint64_t struct_size;
  uint64_t hits;          /* kernels found in the store */
  uint64_t misses;        /* kernels that the store did not have */
  uint64_t builds;        /* kernels compiled */
  uint64_t failed_builds; /* kernels that did not compile */
  uint64_t fallbacks;     /* plans made of another recipe than the best, which could not be had */
  double build_seconds;   /* that compilers ran, summed over those that ran at once */
} tilesmith_store_stats;
#define TILESMITH_STORE_STATS_INIT \
  { sizeof(tilesmith_store_stats), 0, 0, 0, 0, 0, 0 }

TILESMITH_API tilesmith_status tilesmith_get_store_stats(tilesmith_store_stats* out);

/* ---------------------------------------------------------------------------------------------------------- tuning */

/* Problems whose kernels are to be measured; tilesmith/tune.hpp has the meaning of every field. */
typedef struct tilesmith_tune_request {
  uint64_t struct_size;
  const char* const*
      problems; /* a line each, as a plan's info has it: "gemm -m 8 -n 64 -k 64"; a size may be a range */
  int64_t problem_count;
  tilesmith_device device;
  int32_t threads;       /* of a call on the CPU; 0: every processor */
  int32_t candidates;    /* recipes that race; 0: all */
  int32_t again;         /* other than 0: race problems too that the database has */
  int32_t reserved;      /* 0 */
  double budget_seconds; /* of timing for one problem */
  const char* database;  /* the performance database; NULL: tuning.db in the cache directory */
  const char* file;      /* where to write the choices of the whole database; NULL: nowhere */
} tilesmith_tune_request;
#define TILESMITH_TUNE_REQUEST_INIT \
  { sizeof(tilesmith_tune_request), NULL, 0, {0, 0}, 0, 32, 0, 0, 10, NULL, NULL }

/* What came of one problem's race. */
typedef struct tilesmith_tuned_problem {
  const char* problem;
  const char* before;    /* the recipe that was chosen before the race */
  const char* chosen;    /* the recipe that is chosen now */
  double before_seconds; /* of a call; 0: what was chosen before failed */
  double chosen_seconds;
  double gain; /* before over now, measured in turns; 1: nothing was confirmed better */
} tilesmith_tuned_problem;

typedef struct tilesmith_skipped_problem {
  const char* problem;
  const char* reason; /* no kernel computes it, or none ran */
} tilesmith_skipped_problem;

/* The texts and arrays live until this thread tunes again. */
typedef struct tilesmith_tune_report {
  uint64_t struct_size;
  const tilesmith_tuned_problem* problems; /* that were raced */
  int64_t problem_count;
  const tilesmith_skipped_problem* skipped; /* that were not */
  int64_t skipped_count;
  int64_t known;        /* problems that the database had, and that were not raced again */
  const char* database; /* where the measurements are */
} tilesmith_tune_report;
#define TILESMITH_TUNE_REPORT_INIT \
  { sizeof(tilesmith_tune_report), NULL, 0, NULL, 0, 0, NULL }

/* Races the kernels of problems in the program `tilesmith`, a process of its own, and keeps what was measured.
 * tilesmith_cancel_waits ends it; what was raced is kept, and a later call goes on. Errors: invalid_argument;
 * not_found, without the program (TILESMITH_PROGRAM has its path); unsupported, when no problem could be tuned;
 * cancelled; io. */
TILESMITH_API tilesmith_status tilesmith_tune(const tilesmith_tune_request* request, tilesmith_tune_report* out);

#ifdef __cplusplus
}
#endif

#endif
