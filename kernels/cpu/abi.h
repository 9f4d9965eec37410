/* The table of functions of a compiled CPU kernel. What a call means is in kernels/contract, what it is made with in
 * attention/abi.h and gemm/abi.h.
 *
 * The host includes this header; the code generator copies its text into every generated source, so both sides agree by
 * construction. It includes nothing, because a kernel's compile time is mostly headers.
 *
 * A kernel is one table of function pointers under one exported symbol. It runs as one to three stages; a stage is a
 * number of independent tasks, and all tasks of a stage end before the next stage begins. Whoever runs the kernel hands
 * the tasks to threads in increasing order (a kernel numbers its longest tasks first). A kernel allocates nothing,
 * keeps no state and starts no thread.
 */
#pragma once

#define TS_CPU_ABI_VERSION 1
#define TS_CPU_MAX_STAGES 3

typedef struct TsCpuStage {
  /* How many tasks the stage has for this call. */
  long long (*tasks)(const void* args);
  /* Runs task `index`. `scratch` is scratch_bytes of this thread's own memory, 64-byte aligned, contents undefined. */
  void (*run)(const void* args, long long index, void* scratch);
} TsCpuStage;

typedef struct TsCpuKernel {
  unsigned int abi_version; /* TS_CPU_ABI_VERSION */
  unsigned int stage_count;
  const char* name;          /* the instance's name, for a check at load time */
  unsigned long long key[2]; /* the instance's 128-bit key: high, low */
  long long (*workspace_bytes)(const void* args);
  long long (*scratch_bytes)(const void* args);
  /* Called by every thread before its first task and after its last (tile registers); null when there is nothing to do.
   */
  void (*thread_begin)(void);
  void (*thread_end)(void);
  TsCpuStage stages[TS_CPU_MAX_STAGES];
} TsCpuKernel;
