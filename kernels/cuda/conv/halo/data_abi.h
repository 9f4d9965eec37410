// What forward and backward data by halo tiles are called with (conv/halo/data.cuh, volume.cuh).
#pragma once

#include "../../common/tensor_map.h"
#include "../abi.h"

struct TsCudaConvHaloDataArgs {
  TsCudaConvOperand epilogue[TS_GEMM_EPILOGUE_MAX];
  int groups;
  int channels, channel_blocks; /* of the result in a group; blocks of 64 of them */
  int read_channels;            /* in a group */
  int images, boxes_h, boxes_w; /* boxes of kRows by 8 pixels of the result in an image */
  int first_h, first_w;         /* the first pixel that the first result meets; outside of the image as a rule */
  /* Of three dimensions, along the outer coordinate: slices of the result and of what is read, and the first that is met. */
  int slices, read_slices, first_d;
};

/* Of the tensor that is read and of the result: {channels of all groups, width, height, images}; of three dimensions with
 * slices before images. */
struct TsCudaConvHaloDataMaps {
  TsCudaTensorMap read, filters, result;
};
