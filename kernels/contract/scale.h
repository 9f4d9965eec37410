// What the stored values of a tensor of 8 bits are multiplied by, for kernels of every backend.
//
// The scale of row i of head h of sequence b is data[b * batch + h * head + i / TS_SCALE_BLOCK * block], strides in
// elements, 0 where scales are shared; `block` is read where a call has scales by block alone. Scales of pages:
// data[page * batch + h * head + row of the page * block]. Null data: 1. Scales are positive, finite and normal.
#pragma once

#define TS_SCALE_BLOCK 128
struct TsScale {
  const float* data;
  long long batch, head, block;
};
