// What the Hopper convolution kernels are called with. They are GEMM's warp-specialised kernels (gemm/hopper) but for
// the thread that brings the operands: TsCudaGemmArgs and TsCudaGemmMaps have GEMM's meaning, of the product whose
//   a  is the image: a row is a place of the window, its k the taps and channels; maps.a is an im2col map
//   b  is the filters
//   d  is the result, whose pixels are evenly apart: m of them, d_stride apart
// with batch = groups, and k = 64 * taps * blocks of 64 channels, block by block and tap by tap in each.
#pragma once

#include "../../gemm/abi.h"

/* By coordinate, outer to inner; those that the kernel lacks are 1 place and 1 tap. */
struct TsCudaConvWindow {
  int places[3];             /* of the window in an image: pixels of the result */
  int first[3], step[3];     /* the pixel of the image at the first place; from one place to the next */
  int taps[3];
  int offset[3], tap_step[3]; /* pixels from a place's to that of its first tap, at least 0; from tap to tap */
  int group_channels;        /* of the image, from one group to the next; 0 with one group */
};
