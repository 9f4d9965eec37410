/* What a C program sees of the drop-in library: the structure as Composable Kernel's scripts lay it out, and calls on
 * the CPU. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drop_in/abi.h"

static int failures = 0;

#define EXPECT(condition)                                             \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                     \
    }                                                                 \
  } while (0)

struct Field {
  const char* name;
  size_t offset, bytes;
};

#define FIELD(name) \
  { #name, offsetof(ck_conv_problem, name), sizeof(((ck_conv_problem*)0)->name) }

static void the_structure_is_twenty_ints_in_order(void) {
  static const struct Field fields[] = {FIELD(N),          FIELD(G),          FIELD(C),          FIELD(K),
                                        FIELD(input_d),    FIELD(input_h),    FIELD(input_w),    FIELD(filter_z),
                                        FIELD(filter_y),   FIELD(filter_x),   FIELD(stride_d),   FIELD(stride_h),
                                        FIELD(stride_w),   FIELD(pad_d),      FIELD(pad_h),      FIELD(pad_w),
                                        FIELD(dilation_d), FIELD(dilation_h), FIELD(dilation_w), FIELD(direction)};
  size_t i;
  EXPECT(sizeof fields / sizeof *fields == 20);
  for (i = 0; i < sizeof fields / sizeof *fields; ++i) {
    if (fields[i].offset != 4 * i || fields[i].bytes != 4) {
      fprintf(stderr, "%s is at %zu and has %zu bytes\n", fields[i].name, fields[i].offset, fields[i].bytes);
      ++failures;
    }
  }
  EXPECT(sizeof(ck_conv_problem) == 80);
  EXPECT(sizeof(int) == 4 && sizeof(float) == 4);
}

static void products_are_right(void) {
  enum { M = 3, N = 5, K = 7 };
  float a[M * K], b[N * K], c[M * N], time = -5;
  int i, j, k;
  for (i = 0; i < M * K; ++i) a[i] = (float)(i % 5 - 2);
  for (i = 0; i < N * K; ++i) b[i] = (float)(i % 3 - 1);
  EXPECT(dispatcher_run_gemm(a, b, c, M, N, K, &time) == TILESMITH_CK_FAILED);
  EXPECT(dispatcher_initialize() == 0);
  EXPECT(dispatcher_run_gemm(a, b, c, M, N, K, &time) == 0);
  EXPECT(time > 0);
  for (i = 0; i < M; ++i)
    for (j = 0; j < N; ++j) {
      float sum = 0;
      for (k = 0; k < K; ++k) sum += a[i * K + k] * b[j * K + k];
      EXPECT(c[i * N + j] == sum);
    }
  EXPECT(dispatcher_run_gemm(a, b, c, -1, N, K, &time) == TILESMITH_CK_NO_KERNEL);
  EXPECT(time == -1);
  dispatcher_cleanup();
}

static void a_uniform_row_is_the_mean_of_the_values(void) {
  enum { KEYS = 8, DIM = 16 };
  float q[DIM], k[KEYS * DIM], v[KEYS * DIM], o[DIM];
  int i, j;
  memset(q, 0, sizeof q);
  for (i = 0; i < KEYS * DIM; ++i) {
    k[i] = (float)(i % 7);
    v[i] = (float)(i / DIM);
  }
  EXPECT(fmha_dispatcher_initialize("gfx942") == 0);
  EXPECT(fmha_dispatcher_run_fwd(q, k, v, o, 1, 1, 1, 1, KEYS, DIM, DIM, 0.25F, 0, 0, 0, 0, 0, 0, 1, 1, "fp32", 0, -1,
                                 -1, 0, 0, 0, NULL) == 0);
  for (j = 0; j < DIM; ++j) EXPECT(o[j] > 3.4999F && o[j] < 3.5001F);
  fmha_dispatcher_cleanup();
}

static void a_convolution_of_ones_counts(void) {
  enum { SIDE = 4 };
  const ck_conv_problem problem = {1, 1, 1, 1, 1, SIDE, SIDE, 1, 3, 3, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0};
  float x[SIDE * SIDE], w[9], y[SIDE * SIDE];
  int i;
  for (i = 0; i < SIDE * SIDE; ++i) x[i] = 1;
  for (i = 0; i < 9; ++i) w[i] = 1;
  EXPECT(conv_dispatcher_init() == 0);
  EXPECT(conv_dispatcher_run(x, w, y, &problem, NULL) > 0);
  EXPECT(y[0] == 4 && y[1] == 6 && y[SIDE + 1] == 9 && y[SIDE * SIDE - 1] == 4);
  EXPECT(conv_dispatcher_run(x, w, y, NULL, NULL) == TILESMITH_CK_FAILED);
  conv_dispatcher_cleanup();
}

int main(void) {
  setenv("TILESMITH_CK_DEVICE", "cpu", 1);
  setenv("TILESMITH_CK_GEMM", "fp32_rcr", 1);
  setenv("TILESMITH_CK_CONV", "fp32", 1);
  setenv("TILESMITH_BUILD", "never", 1);
  the_structure_is_twenty_ints_in_order();
  products_are_right();
  a_uniform_row_is_the_mean_of_the_values();
  a_convolution_of_ones_counts();
  return failures == 0 ? 0 : 1;
}
