/* A C99 program from the first line of the header to the last: its results are compared with a plain loop in double. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tilesmith.h"

/* The layout a compiled program relies on, seen by a C compiler. */
#define PIN(name, condition) typedef char pin_##name[(condition) ? 1 : -1]
PIN(error, sizeof(tilesmith_error) == 32);
PIN(scale, sizeof(tilesmith_scale) == 32);
PIN(attention, sizeof(tilesmith_attention) == 768);
PIN(attention_strides, offsetof(tilesmith_attention, q_strides) == 128);
PIN(attention_pointers, offsetof(tilesmith_attention, q) == 304);
PIN(attention_tail, offsetof(tilesmith_attention, offset) == 416);
PIN(attention_scales, offsetof(tilesmith_attention, q_scale) == 424);
PIN(attention_pages, offsetof(tilesmith_attention, page_size) == 536);
PIN(attention_append, offsetof(tilesmith_attention, k_new) == 600);
PIN(attention_gradients, sizeof(tilesmith_attention_gradients) == 288);
PIN(attention_gradients_pointers, offsetof(tilesmith_attention_gradients, dout) == 192);
PIN(states, sizeof(tilesmith_states) == 200);
PIN(kv_append, sizeof(tilesmith_kv_append) == 536);
PIN(gemm, sizeof(tilesmith_gemm) == 720);
PIN(gemm_groups, offsetof(tilesmith_gemm, grouping) == 536);
PIN(block_scale, sizeof(tilesmith_block_scale) == 32);
PIN(gemm_pointers, offsetof(tilesmith_gemm, a) == 88);
PIN(gemm_epilogue, offsetof(tilesmith_gemm, epilogue) == 216);
PIN(epilogue, sizeof(tilesmith_epilogue) == 40);
PIN(plan_info, sizeof(tilesmith_plan_info) == 136);
PIN(device_info, sizeof(tilesmith_device_info) == 48);

static int failures = 0;

static void expect(int condition, const char* what, int line) {
  if (condition) return;
  ++failures;
  printf("line %d: %s\n", line, what);
}
#define EXPECT(condition) expect((condition) != 0, #condition, __LINE__)

static void expect_success(tilesmith_status status, int line) {
  tilesmith_error error = TILESMITH_ERROR_INIT;
  if (status == TILESMITH_SUCCESS) return;
  tilesmith_last_error(&error);
  ++failures;
  printf("line %d: %s: %s (%s)\n", line, tilesmith_code_name(status), error.message, error.hint);
}
#define EXPECT_SUCCESS(status) expect_success(status, __LINE__)

/* The call fails with this code, and its words contain this one. */
static void expect_failure(tilesmith_status status, tilesmith_status code, const char* word, int line) {
  tilesmith_error error = TILESMITH_ERROR_INIT;
  tilesmith_last_error(&error);
  if (status == code && error.code == code && strstr(error.message, word) != NULL) return;
  ++failures;
  printf("line %d: status %d, error %d: %s (%s); expected %d with '%s'\n", line, status, error.code, error.message,
         error.hint, code, word);
}
#define EXPECT_FAILURE(status, code, word) expect_failure(status, code, word, __LINE__)

enum { BATCH = 2, HEADS_Q = 4, HEADS_KV = 2, ROWS_Q = 5, ROWS_K = 9, DIM = 64 };
static float q[BATCH * HEADS_Q * ROWS_Q * DIM], k[BATCH * HEADS_KV * ROWS_K * DIM], v[BATCH * HEADS_KV * ROWS_K * DIM];
static float o[BATCH * HEADS_Q * ROWS_Q * DIM], lse[BATCH * HEADS_Q * ROWS_Q];

static void fill(float* out, int count, unsigned seed) {
  int i;
  for (i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    out[i] = (float)(seed >> 8) / (float)(1 << 23) - 1.0f;
  }
}

/* Dense bhsd, causal bottom right. */
static void check_result(double scale) {
  int b, h, i, j, d;
  double worst = 0, worst_lse = 0;
  for (b = 0; b < BATCH; ++b)
    for (h = 0; h < HEADS_Q; ++h)
      for (i = 0; i < ROWS_Q; ++i) {
        const int kv = b * HEADS_KV + h / (HEADS_Q / HEADS_KV), row = (b * HEADS_Q + h) * ROWS_Q + i;
        const int visible = i + ROWS_K - ROWS_Q + 1;
        double weights[ROWS_K], sum = 0;
        for (j = 0; j < visible; ++j) {
          double dot = 0;
          for (d = 0; d < DIM; ++d) dot += (double)q[row * DIM + d] * k[(kv * ROWS_K + j) * DIM + d];
          weights[j] = exp(scale * dot);
          sum += weights[j];
        }
        for (d = 0; d < DIM; ++d) {
          double expected = 0;
          for (j = 0; j < visible; ++j) expected += weights[j] / sum * v[(kv * ROWS_K + j) * DIM + d];
          worst = fmax(worst, fabs(expected - o[row * DIM + d]));
        }
        worst_lse = fmax(worst_lse, fabs(log(sum) - lse[row]));
      }
  EXPECT(worst < 1e-5);
  EXPECT(worst_lse < 1e-5);
}

static tilesmith_attention sample_call(void) {
  tilesmith_attention call = TILESMITH_ATTENTION_INIT;
  call.data_type = TILESMITH_FP32;
  call.batch = BATCH;
  call.heads_q = HEADS_Q;
  call.heads_kv = HEADS_KV;
  call.seqlen_q = ROWS_Q;
  call.seqlen_k = ROWS_K;
  call.head_dim_qk = call.head_dim_v = DIM;
  call.mask = TILESMITH_MASK_BOTTOM_RIGHT;
  call.traits = TILESMITH_LSE;
  EXPECT_SUCCESS(tilesmith_attention_dense(&call, TILESMITH_BHSD));
  call.q = q;
  call.k = k;
  call.v = v;
  call.o = o;
  call.lse = lse;
  return call;
}

static void test_versions_and_devices(void) {
  tilesmith_device_info device = TILESMITH_DEVICE_INFO_INIT;
  tilesmith_backend_info cpu = TILESMITH_BACKEND_INFO_INIT, cuda = TILESMITH_BACKEND_INFO_INIT;
  int64_t count = 0, i;
  EXPECT(strlen(tilesmith_version()) > 0);
  EXPECT(tilesmith_abi_version() == TILESMITH_ABI_VERSION);
  EXPECT(strcmp(tilesmith_code_name(TILESMITH_UNSUPPORTED), "unsupported") == 0);
  EXPECT(strcmp(tilesmith_code_name(99), "unknown") == 0);
  EXPECT_SUCCESS(tilesmith_device_count(&count));
  EXPECT(count >= 1);
  EXPECT_SUCCESS(tilesmith_device_at(0, &device));
  EXPECT(device.device.kind == TILESMITH_CPU);
  EXPECT(strlen(device.name) > 0 && strncmp(device.arch, "x86_64", 6) == 0);
  for (i = 0; i < device.fact_count; ++i) EXPECT(device.facts[i].value >= 0 && strlen(device.facts[i].name) > 0);
  EXPECT(device.fact_count > 0);
  EXPECT_SUCCESS(tilesmith_backend(TILESMITH_CPU, &cpu));
  EXPECT(cpu.device_count == 1 && strlen(cpu.missing) == 0);
  EXPECT_SUCCESS(tilesmith_backend(TILESMITH_CUDA, &cuda));
  EXPECT(cuda.device_count > 0 || strlen(cuda.missing) > 0);
  EXPECT(count == cpu.device_count + cuda.device_count);
  EXPECT_FAILURE(tilesmith_device_at(count, &device), TILESMITH_INVALID_ARGUMENT, "no device");
  EXPECT_FAILURE(tilesmith_device_at(0, NULL), TILESMITH_INVALID_ARGUMENT, "null");
  EXPECT_FAILURE(tilesmith_device_count(NULL), TILESMITH_INVALID_ARGUMENT, "null");
  EXPECT_FAILURE(tilesmith_backend(7, &cpu), TILESMITH_INVALID_ARGUMENT, "kind");
}

static void test_one_call(void) {
  tilesmith_plan_info plan = TILESMITH_PLAN_INFO_INIT;
  tilesmith_attention call = sample_call();
  EXPECT_FAILURE(tilesmith_last_plan(&plan), TILESMITH_NOT_FOUND, "nothing");
  EXPECT_SUCCESS(tilesmith_attention_forward(NULL, &call));
  check_result((double)call.scale);
  EXPECT_SUCCESS(tilesmith_last_plan(&plan));
  EXPECT(strcmp(plan.operation, "attention_fwd") == 0);
  EXPECT(strlen(plan.kernel) > 0 && strlen(plan.reason) > 0 && plan.stage_count > 0);
  EXPECT(strcmp(plan.stages[0].kernel, plan.kernel) == 0);
  EXPECT(plan.step_count == plan.stage_count && strcmp(plan.steps[0].kernel, plan.kernel) == 0);
  EXPECT(strcmp(plan.steps[0].role, "compute") == 0 && strlen(plan.steps[0].what) > 0);
  EXPECT(plan.predicted_seconds > 0);
  EXPECT(strcmp(plan.source, "model") == 0 && plan.measured_seconds == 0 && plan.bound == 0);
  EXPECT(strncmp(plan.problem, "attention_fwd ", 14) == 0);
  {
    uint64_t end = 0;
    int64_t i;
    for (i = 0; i < plan.region_count; ++i) {
      EXPECT(strlen(plan.regions[i].name) > 0 && plan.regions[i].offset % 64 == 0 && !plan.regions[i].library_only);
      EXPECT(plan.regions[i].offset >= end);
      end = plan.regions[i].offset + plan.regions[i].bytes;
    }
    EXPECT(end == plan.workspace_bytes);
  }
  plan.struct_size = offsetof(tilesmith_plan_info, predicted_seconds); /* a program of before steps had roles */
  plan.steps = NULL;
  plan.stage_count = 0;
  EXPECT_SUCCESS(tilesmith_last_plan(&plan));
  EXPECT(plan.struct_size == offsetof(tilesmith_plan_info, predicted_seconds));
  EXPECT(plan.steps == NULL && plan.stage_count > 0);
  plan.struct_size = offsetof(tilesmith_plan_info, source); /* one of before choices had sources */
  plan.source = NULL;
  EXPECT_SUCCESS(tilesmith_last_plan(&plan));
  EXPECT(plan.steps != NULL && plan.source == NULL);
}

static void test_two_steps_in_a_context(void) {
  tilesmith_context_options options = TILESMITH_CONTEXT_OPTIONS_INIT;
  tilesmith_context* context = NULL;
  const tilesmith_attention_plan *plan = NULL, *again = NULL;
  tilesmith_plan_info info = TILESMITH_PLAN_INFO_INIT;
  tilesmith_attention call = sample_call();
  void* memory;
  options.threads = 1;
  options.build = TILESMITH_BUILD_NEVER;
  EXPECT_SUCCESS(tilesmith_context_create(&options, &context));
  EXPECT_SUCCESS(tilesmith_attention_plan_for(context, &call, &plan));
  EXPECT_SUCCESS(tilesmith_attention_plan_for(context, &call, &again));
  EXPECT(plan == again);
  EXPECT_SUCCESS(tilesmith_attention_plan_info(plan, &info));
  EXPECT(info.device.kind == TILESMITH_CPU && info.device.index == 0);

  memory = malloc(info.workspace_bytes + 64);
  call.workspace = (char*)memory + (64 - (size_t)memory % 64);
  call.workspace_bytes = info.workspace_bytes;
  memset(o, 0xff, sizeof o);
  memset(lse, 0xff, sizeof lse);
  EXPECT_SUCCESS(tilesmith_attention_run(plan, &call));
  check_result((double)call.scale);
  call.workspace = (char*)call.workspace + 1;
  EXPECT_FAILURE(tilesmith_attention_run(plan, &call), TILESMITH_INVALID_ARGUMENT, "aligned");
  call.workspace = NULL;
  free(memory);

  call.seqlen_q -= 1;
  EXPECT_FAILURE(tilesmith_attention_run(plan, &call), TILESMITH_INVALID_ARGUMENT, "not the plan's");
  call = sample_call();
  call.k = NULL;
  EXPECT_FAILURE(tilesmith_attention_run(plan, &call), TILESMITH_INVALID_ARGUMENT, "k is null");
  call = sample_call();
  call.stream = o;
  EXPECT_FAILURE(tilesmith_attention_run(plan, &call), TILESMITH_INVALID_ARGUMENT, "stream");
  EXPECT_FAILURE(tilesmith_attention_run(NULL, &call), TILESMITH_INVALID_ARGUMENT, "null");
  EXPECT_FAILURE(tilesmith_attention_plan_for(context, &call, NULL), TILESMITH_INVALID_ARGUMENT, "null");

  /* The last plan goes with its context, and its memory is not touched afterwards. */
  tilesmith_context_destroy(context);
  EXPECT_FAILURE(tilesmith_last_plan(&info), TILESMITH_NOT_FOUND, "destroyed");
  tilesmith_context_destroy(NULL);
}

/* A program compiled against a header with more fields than the library knows. */
static void test_struct_sizes(void) {
  struct {
    tilesmith_attention call;
    int64_t later_field;
  } newer;
  tilesmith_attention call = sample_call();
  char longer[40], shorter[40];
  sprintf(longer, "struct_size is %d", (int)sizeof newer);
  sprintf(shorter, "struct_size is %d", (int)sizeof call - 1);
  newer.call = call;
  newer.call.struct_size = sizeof newer;
  newer.later_field = 0;
  EXPECT_SUCCESS(tilesmith_attention_forward(NULL, &newer.call));
  newer.later_field = 1;
  EXPECT_FAILURE(tilesmith_attention_forward(NULL, &newer.call), TILESMITH_INVALID_ARGUMENT, longer);
  call.struct_size = 0;
  EXPECT_FAILURE(tilesmith_attention_forward(NULL, &call), TILESMITH_INVALID_ARGUMENT, "struct_size is 0");
  call.struct_size = offsetof(tilesmith_attention, q_scale) + 8;
  EXPECT_FAILURE(tilesmith_attention_forward(NULL, &call), TILESMITH_INVALID_ARGUMENT, "struct_size is 432");
  call.struct_size = sizeof call - 1;
  EXPECT_FAILURE(tilesmith_attention_forward(NULL, &call), TILESMITH_INVALID_ARGUMENT, shorter);
  call.struct_size = (uint64_t)-1;
  EXPECT_FAILURE(tilesmith_attention_forward(NULL, &call), TILESMITH_INVALID_ARGUMENT, "struct_size");
  EXPECT_FAILURE(tilesmith_attention_forward(NULL, NULL), TILESMITH_INVALID_ARGUMENT, "null");
}

/* A program compiled before the scales were added: its structure ends where they begin, and what lies behind it is its
 * own business. */
static void test_an_older_program(void) {
  const tilesmith_attention_plan* plan = NULL;
  tilesmith_attention older = sample_call();
  older.struct_size = offsetof(tilesmith_attention, q_scale);
  memset(&older.q_scale, 0xff, sizeof older - offsetof(tilesmith_attention, q_scale));
  memset(&older.q_strides, 0xff, sizeof older.q_strides);
  EXPECT_SUCCESS(tilesmith_attention_dense(&older, TILESMITH_BHSD));
  EXPECT(older.struct_size == offsetof(tilesmith_attention, q_scale) && older.q_strides.row == DIM);
  memset(o, 0xff, sizeof o);
  EXPECT_SUCCESS(tilesmith_attention_forward(NULL, &older));
  check_result((double)older.scale);
  memset(o, 0xff, sizeof o);
  EXPECT_SUCCESS(tilesmith_attention_plan_for(NULL, &older, &plan));
  EXPECT_SUCCESS(tilesmith_attention_run(plan, &older));
  check_result((double)older.scale);
}

/* ---------------------------------------------------------------------------------------------- attention backward */

static float dout[BATCH * HEADS_Q * ROWS_Q * DIM], dq[BATCH * HEADS_Q * ROWS_Q * DIM];
static float dk[BATCH * HEADS_KV * ROWS_K * DIM], dv[BATCH * HEADS_KV * ROWS_K * DIM];

/* Of the call of attention forward, which was made. */
static tilesmith_attention_gradients sample_gradients(const tilesmith_attention* forward) {
  tilesmith_attention_gradients call = TILESMITH_ATTENTION_GRADIENTS_INIT;
  call.forward = forward;
  EXPECT_SUCCESS(tilesmith_attention_backward_dense(&call, TILESMITH_BHSD));
  call.dout = dout;
  call.dq = dq;
  call.dk = dk;
  call.dv = dv;
  memset(dq, 0xff, sizeof dq);
  memset(dk, 0xff, sizeof dk);
  memset(dv, 0xff, sizeof dv);
  return call;
}

/* The loss, a product of the output with dout, of inputs moved by `step` along their gradients. */
static double moved_loss(float step) {
  static float moved_q[sizeof q / sizeof *q], moved_k[sizeof k / sizeof *k], moved_v[sizeof v / sizeof *v];
  static float moved_o[sizeof o / sizeof *o];
  tilesmith_attention call = sample_call();
  double loss = 0;
  size_t i;
  for (i = 0; i < sizeof q / sizeof *q; ++i) moved_q[i] = q[i] + step * dq[i];
  for (i = 0; i < sizeof k / sizeof *k; ++i) moved_k[i] = k[i] + step * dk[i];
  for (i = 0; i < sizeof v / sizeof *v; ++i) moved_v[i] = v[i] + step * dv[i];
  call.q = moved_q;
  call.k = moved_k;
  call.v = moved_v;
  call.o = moved_o;
  call.traits = 0;
  call.lse = NULL;
  EXPECT_SUCCESS(tilesmith_attention_forward(NULL, &call));
  for (i = 0; i < sizeof o / sizeof *o; ++i) loss += (double)moved_o[i] * dout[i];
  return loss;
}

/* Along its own gradient a loss grows by the gradient's square. */
static void check_gradients(void) {
  const float step = 1e-2f;
  double square = 0, slope;
  size_t i;
  for (i = 0; i < sizeof dq / sizeof *dq; ++i) square += (double)dq[i] * dq[i];
  for (i = 0; i < sizeof dk / sizeof *dk; ++i) square += (double)dk[i] * dk[i];
  for (i = 0; i < sizeof dv / sizeof *dv; ++i) square += (double)dv[i] * dv[i];
  slope = (moved_loss(step) - moved_loss(-step)) / (2 * step);
  EXPECT(square > 1 && fabs(slope - square) < 1e-3 * square);
}

static void test_attention_backward(void) {
  tilesmith_plan_info info = TILESMITH_PLAN_INFO_INIT;
  tilesmith_candidates found = TILESMITH_CANDIDATES_INIT;
  const tilesmith_attention_backward_plan *plan = NULL, *again = NULL;
  tilesmith_context_options options = TILESMITH_CONTEXT_OPTIONS_INIT;
  tilesmith_context* context = NULL;
  tilesmith_attention forward = sample_call();
  tilesmith_attention_gradients call;
  fill(dout, (int)(sizeof dout / sizeof *dout), 7);
  options.build = TILESMITH_BUILD_NEVER;
  EXPECT_SUCCESS(tilesmith_context_create(&options, &context));
  EXPECT_SUCCESS(tilesmith_attention_forward(context, &forward));
  call = sample_gradients(&forward);
  EXPECT_SUCCESS(tilesmith_attention_backward(context, &call));
  check_gradients();
  EXPECT_SUCCESS(tilesmith_attention_backward(context, &call));
  EXPECT_SUCCESS(tilesmith_last_plan(&info));
  EXPECT(strcmp(info.operation, "attention_bwd") == 0 && strncmp(info.problem, "attention_bwd ", 14) == 0);

  call = sample_gradients(&forward);
  EXPECT_SUCCESS(tilesmith_attention_backward_plan_for(context, &call, &plan));
  EXPECT_SUCCESS(tilesmith_attention_backward_plan_for(context, &call, &again));
  EXPECT(plan == again);
  EXPECT_SUCCESS(tilesmith_attention_backward_plan_info(plan, &info));
  EXPECT(strlen(info.kernel) > 0);
  EXPECT_SUCCESS(tilesmith_attention_backward_run(plan, &call));
  check_gradients();
  EXPECT_SUCCESS(tilesmith_attention_backward_candidates(context, &call, &found));
  EXPECT(found.candidate_count > 0 && strncmp(found.candidates[0].kernel, "attention_bwd", 13) == 0);

  EXPECT_FAILURE(tilesmith_attention_backward(context, NULL), TILESMITH_INVALID_ARGUMENT, "null");
  EXPECT_FAILURE(tilesmith_attention_backward_run(NULL, &call), TILESMITH_INVALID_ARGUMENT, "null");
  EXPECT_FAILURE(tilesmith_attention_backward_plan_info(NULL, &info), TILESMITH_INVALID_ARGUMENT, "null");
  call.forward = NULL;
  EXPECT_FAILURE(tilesmith_attention_backward(context, &call), TILESMITH_INVALID_ARGUMENT, "forward is null");
  tilesmith_context_destroy(context);
}

/* --------------------------------------------------------------------------------------------------------- GEMM */

enum { M = 6, N = 10, K = 33 };
static float a[M * K], b[N * K], d[M * N], bias[N];

static tilesmith_gemm sample_gemm(void) {
  tilesmith_gemm call = TILESMITH_GEMM_INIT;
  call.type_a = call.type_b = call.type_c = call.type_d = call.type_bias = TILESMITH_FP32;
  call.m = M;
  call.n = N;
  call.k = K;
  call.epilogue[0].op = TILESMITH_EPILOGUE_BIAS;
  call.epilogue[1].op = TILESMITH_EPILOGUE_RELU;
  EXPECT_SUCCESS(tilesmith_gemm_dense(&call));
  call.a.data = a;
  call.b.data = b;
  call.d = d;
  call.epilogue[0].data = bias;
  return call;
}

static void check_gemm(void) {
  int i, j, l;
  double worst = 0;
  for (i = 0; i < M; ++i)
    for (j = 0; j < N; ++j) {
      double sum = bias[j];
      for (l = 0; l < K; ++l) sum += (double)a[i * K + l] * b[j * K + l];
      worst = fmax(worst, fabs(fmax(sum, 0) - d[i * N + j]));
    }
  EXPECT(worst < 1e-5);
  memset(d, 0xff, sizeof d);
}

static void test_gemm(void) {
  tilesmith_plan_info info = TILESMITH_PLAN_INFO_INIT;
  tilesmith_context_options options = TILESMITH_CONTEXT_OPTIONS_INIT;
  tilesmith_context* context = NULL;
  const tilesmith_gemm_plan *plan = NULL, *again = NULL;
  tilesmith_gemm call = sample_gemm();
  fill(a, M * K, 4);
  fill(b, N * K, 5);
  fill(bias, N, 6);
  options.build = TILESMITH_BUILD_NEVER;
  EXPECT_SUCCESS(tilesmith_context_create(&options, &context));
  EXPECT_SUCCESS(tilesmith_gemm_compute(context, &call));
  check_gemm();
  EXPECT_SUCCESS(tilesmith_last_plan(&info));
  EXPECT(strcmp(info.operation, "gemm") == 0);

  EXPECT_SUCCESS(tilesmith_gemm_plan_for(context, &call, &plan));
  EXPECT_SUCCESS(tilesmith_gemm_plan_for(context, &call, &again));
  EXPECT(plan == again);
  EXPECT_SUCCESS(tilesmith_gemm_plan_info(plan, &info));
  EXPECT(info.device.kind == TILESMITH_CPU && strlen(info.kernel) > 0);
  EXPECT_SUCCESS(tilesmith_gemm_run(plan, &call));
  check_gemm();
  call.struct_size = offsetof(tilesmith_gemm, grouping); /* of before the groups were added */
  memset(&call.grouping, 0xff, sizeof call - offsetof(tilesmith_gemm, grouping));
  call.d_leading = 0;
  EXPECT_SUCCESS(tilesmith_gemm_dense(&call));
  EXPECT(call.d_leading == N && call.grouping == -1);
  EXPECT_SUCCESS(tilesmith_gemm_compute(context, &call));
  check_gemm();
  call = sample_gemm();
  call.beta = 1;
  EXPECT_FAILURE(tilesmith_gemm_run(plan, &call), TILESMITH_INVALID_ARGUMENT, "not the plan's");
  call = sample_gemm();
  call.struct_size = 0;
  EXPECT_FAILURE(tilesmith_gemm_run(plan, &call), TILESMITH_INVALID_ARGUMENT, "tilesmith_gemm.struct_size is 0");
  EXPECT_FAILURE(tilesmith_gemm_compute(context, NULL), TILESMITH_INVALID_ARGUMENT, "null");
  EXPECT_FAILURE(tilesmith_gemm_run(NULL, &call), TILESMITH_INVALID_ARGUMENT, "null");
  EXPECT_FAILURE(tilesmith_gemm_plan_for(context, &call, NULL), TILESMITH_INVALID_ARGUMENT, "null");
  EXPECT_FAILURE(tilesmith_gemm_plan_info(NULL, &info), TILESMITH_INVALID_ARGUMENT, "null");
  tilesmith_context_destroy(context);
}

int main(void) {
  fill(q, (int)(sizeof q / sizeof *q), 1);
  fill(k, (int)(sizeof k / sizeof *k), 2);
  fill(v, (int)(sizeof v / sizeof *v), 3);
  test_versions_and_devices();
  test_one_call();
  test_two_steps_in_a_context();
  test_struct_sizes();
  test_an_older_program();
  test_attention_backward();
  test_gemm();
  if (failures == 0) printf("all as expected\n");
  return failures == 0 ? 0 : 1;
}
