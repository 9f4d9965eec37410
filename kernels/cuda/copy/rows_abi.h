// What the kernel that copies rows of heads is called with (copy/copy_rows.cuh). Passed by value as a __grid_constant__
// parameter.
#pragma once

// Rows of batch * heads * rows, both sides of which begin at any byte; zeros behind what is copied. Strides in bytes.
struct TsRowsOfHeads {
  const void* from;
  void* to;
  long long from_batch, from_head, from_row;
  long long to_batch, to_head, to_row;
  int heads, rows;
  int from_bytes, to_bytes;  // of a row; the latter are written, of the former no more are read
  int lines;                 // batch * heads * rows; 0: there is no such tensor
};

#define TS_COPY_TENSORS 5
#define TS_COPY_THREADS 256
#define TS_COPY_LINES 2 /* that a warp has under way */
struct TsCopyRowsArgs {
  TsRowsOfHeads tensors[TS_COPY_TENSORS];
};
