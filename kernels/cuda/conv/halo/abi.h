// What backward weight by halo tiles is called with (conv/halo/weight.cuh).
#pragma once

#include "../../common/tensor_map.h"

struct TsCudaConvHaloArgs {
  void* out;        /* w: element (group, k, tap, c) at group * group_stride + k * filter_stride + tap * tap_stride + c */
  float* partials;  /* `splits` whole tiles for each tile */
  long long group_stride, filter_stride, tap_stride;
  int groups, c, k;             /* channels of a group */
  int images, boxes_h, boxes_w; /* boxes of kRows by 8 pixels of y in an image */
  int pad_h, pad_w;
  int splits; /* parts of the boxes */
  int join;   /* 0: partials are computed; 1: they are added up. A call is a launch of each. */
};

/* Of y and of x: {channels of all groups, width, height, images}. */
struct TsCudaConvHaloMaps {
  TsCudaTensorMap y, x;
};
