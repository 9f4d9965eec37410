// What the Hopper convolution kernels are called with. They are GEMM's warp-specialised kernels (gemm/hopper) but for
// the thread that brings the operands, and, of gradients, for the way to the result. TsCudaGemmArgs and TsCudaGemmMaps
// have GEMM's meaning, of the product whose
//   a  is the image: a row is a place of the window, its k the taps and channels; maps.a is an im2col map
//   b  is the filters
//   d  is the result, whose pixels are evenly apart: m of them, d_stride apart
// with batch = groups, and k = 64 * taps * blocks of 64 channels (of 8 bits 128), block by block and tap by tap in each.
// Kernels with 2 or 4 taps in a step have blocks of 32 or 16 channels, and the last step may be filled up. Backward data has
// a product for each phase (conv/phases.cuh). In backward weight
//   a  is y: a row is a channel, its k the pixels; maps.a is GEMM's of a column-major a
//   b  is the image: a column is a tap and a channel, whole blocks of them to a tap; maps.b is an im2col map
//   d  is the filters
#pragma once

#include "../../gemm/abi.h"

/* By coordinate, outer to inner; those that the kernel lacks are 1 place and 1 tap. */
struct TsCudaConvWindow {
  int places[3];             /* of the window in an image: pixels of the result; backward weight: of y */
  int first[3], step[3];     /* the pixel of the image at the first place; from one place to the next */
  int taps[3];
  int offset[3], tap_step[3]; /* pixels from a place's to that of its first tap, at least 0; from tap to tap */
  int group_channels;        /* of the image, from one group to the next; 0 with one group */
};

/* Backward weight. With stream-K there are 1 + TS_CONV_PART_GROUPS counters for each tile's warpgroup. */
#define TS_CONV_PART_GROUPS 8
struct TsCudaConvWeightArgs : TsCudaGemmArgs {
  TsCudaConvWindow window;
  int blocks; /* of channels of x in a group; what the last has beyond the group is not stored */
  /* With split k a call is two launches: without `join` parts of the sums are left in memory, with it they are added
   * up and stored. */
  int join;
  int channels;         /* of x in a group */
  long long tap_stride; /* elements of d from tap to tap */
};

/* Backward data. The launch's parameters stay within 4096 bytes. */
#define TS_CONV_PHASES 8
struct TsCudaConvPhase {
  int rows, steps;            /* pixels of the result in all images; steps of the sum, at least 1 */
  int places[3], first[3];    /* as of a window, whose steps are 1 */
  int taps[3];                /* that meet the phase's pixels; all 0 where none does: its steps read nothing but zeros */
  int offset[3], tap_step[3]; /* as of a window */
  int filter_tap[3], filter_step[3]; /* the first of the filter's taps, and from one to the next */
};
struct TsCudaConvPhaseArgs : TsCudaGemmArgs {
  int phases;
  int group_channels; /* of the image, from one group to the next */
  int filter[3];
  TsCudaConvPhase phase[TS_CONV_PHASES];
};
/* In place of d. */
struct TsCudaConvPhaseMaps : TsCudaGemmMaps {
  TsCudaTensorMap result[TS_CONV_PHASES];
};
/* The phases' maps of the image, in place of a: there and where GEMM has others that backward data lacks, of which b and c
 * lie between. */
static_assert(sizeof(TsCudaGemmMaps) == (TS_CONV_PHASES + 2) * sizeof(TsCudaTensorMap), "a map for each phase, b and c");
static_assert(sizeof(TsCudaConvPhaseMaps) + sizeof(TsCudaConvPhaseArgs) <= 4096, "what a launch's parameters may take");
inline int behind_map_a(int phase) {
  return phase + (phase > 0) + (phase > 3);
}
