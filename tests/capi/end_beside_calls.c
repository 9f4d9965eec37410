/* exit() while other threads plan and run: end_beside_calls LIBRARY. What was loaded before the library may take its
 * time to end, as a GPU's driver does; calls go on meanwhile. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tilesmith.h"

enum { THREADS = 4, SIDE = 48 };

static tilesmith_status (*compute)(tilesmith_context*, const tilesmith_gemm*);
static float operands[2 * SIDE * SIDE];
static volatile int ending = 0;
static long before = 0, meanwhile = 0;

static void sleep_ms(long ms) {
  const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

static void* call(void* number) {
  unsigned seed = (unsigned)(size_t)number;
  float results[SIDE * SIDE];
  for (;;) {
    tilesmith_gemm gemm = TILESMITH_GEMM_INIT; /* nearly each is a problem to plan */
    gemm.type_a = gemm.type_b = gemm.type_c = gemm.type_d = gemm.type_bias = TILESMITH_FP32;
    gemm.order_a = rand_r(&seed) % 2;
    gemm.order_b = rand_r(&seed) % 2;
    gemm.m = 1 + rand_r(&seed) % SIDE;
    gemm.n = 1 + rand_r(&seed) % SIDE;
    gemm.k = 1 + rand_r(&seed) % SIDE;
    gemm.a.data = operands;
    gemm.b.data = operands + SIDE * SIDE;
    gemm.d = results;
    gemm.a.leading = gemm.b.leading = gemm.d_leading = SIDE;
    if (compute(NULL, &gemm) != TILESMITH_SUCCESS) {
      puts("a call failed");
      abort();
    }
    __atomic_add_fetch(ending ? &meanwhile : &before, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

/* Registered before the library is there, so it runs behind whatever the library does at exit. */
static void take_time(void) {
  ending = 1;
  sleep_ms(300);
  printf("%ld calls, %ld more while the process ended\n", before, meanwhile);
  if (before == 0 || meanwhile == 0) _Exit(2);
}

int main(int count, char** arguments) {
  void* library;
  pthread_t thread;
  size_t i;
  atexit(take_time);
  library = count == 2 ? dlopen(arguments[1], RTLD_NOW) : NULL;
  if (library == NULL) return 3;
  *(void**)&compute = dlsym(library, "tilesmith_gemm_compute");
  for (i = 0; i < THREADS; ++i)
    if (pthread_create(&thread, NULL, call, (void*)i) != 0) return 4;
  sleep_ms(300);
  return 0;
}
