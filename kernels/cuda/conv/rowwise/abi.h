// What copies of rows of channels are called with (conv/rowwise/channels.cuh).
#pragma once

/* A tensor's rows, of `channels` elements that are neighbours: row (a, b, c) begins at element a * step[0] + b * step[1] +
 * c * step[2]; a is the fastest. Of b there are `there`, which is size[1] or less. Behind one another lie size[0] * size[1] *
 * size[2] rows of `padded` elements each, whole sixteens of bytes, less than 2^31 elements in all. */
struct TsCudaConvRowsArgs {
  void* tensor; /* what is written is the caller's to name: this or `rows` */
  void* rows;   /* begins at a multiple of 16 bytes */
  long long step[3];
  int size[3], there;
  int channels, padded;
  int bytes; /* of an element: 2, 4 or 8; neighbours that are always copied together may count as one */
  int back;  /* 0: rows are made of the tensor, and filled up with zeros; 1: the tensor is made of them */
};

/* One launch: the first `blocks` blocks copy the first tensor, the others the second. */
struct TsCudaConvRowsCall {
  TsCudaConvRowsArgs tensors[2];
  int blocks;
};
