// What the kernel that copies rows is called with (copy/pad_rows.cuh). Passed by value as a __grid_constant__ parameter.
#pragma once

// Rows that begin at any byte, `batch` times as many as `rows`, and rows that begin at multiples of 16 bytes, which have
// `chunks` times 16 of them: as many as hold a row, or more. Strides in bytes.
struct TsPadMatrix {
  const void* from;
  void* to;
  long long from_stride, from_batch_stride;
  long long to_stride, to_batch_stride;
  int rows, row_bytes, chunks;
  int items;  // batch * rows * chunks; 0: there is no such matrix
};

#define TS_PAD_MATRICES 2
#define TS_PAD_THREADS 256
struct TsPadArgs {
  TsPadMatrix matrices[TS_PAD_MATRICES];
};
