// What a CUDA convolution kernel is called with. The meaning is that of contract/conv.h.
//
// A generated source is a table of constexpr values in namespace ts::cfg followed by one include of a template in
// cuda/conv. It defines one entry, extern "C" __global__, named by the macro TS_ENTRY. How the entry is launched
// (threads, shared memory, grid) stands at the top of the template's file. The kernels are freestanding and compile with
// NVRTC. Types and operations of the epilogue have the numbers of gemm/abi.h.
//
// No size is 0 but the batch of backward weight, and c * taps, images and the pixels of an image are below 2^30: the
// caller sees to that.
#pragma once

#include "../../contract/conv.h"
#include "../gemm/abi.h"

/* Which of the three results a kernel computes: the values of cfg::kDirection. */
enum { TS_CONV_FORWARD = 0, TS_CONV_BACKWARD_DATA = 1, TS_CONV_BACKWARD_WEIGHT = 2 };

/* What an epilogue operation reads. Of a vector, strides.group is the number of channels of a group. */
struct TsCudaConvOperand {
  const void* data;
  TsConvStrides strides;
  float value, limit; /* what add multiplies its tensor by; the ends of clamp */
};

/* Of templates that take boxes of results (conv/direct). By coordinate: results of a box, the most taps of a phase, the
 * pixels that these meet, pixels from a result to the next, and from a tap to the next. Neighbouring blocks have
 * `beside` groups and columns of the result's channels, each its own for good. Work of such blocks together is numbered
 * by phase, group and columns (of those that are not beside each other), image, and box by coordinate: how many there
 * are of each, and how far on their next one is, digit by digit. */
enum { TS_CONV_BOX_DIGITS = 7 };
struct TsCudaConvBoxes {
  int results[3], taps[3], pixels[3], apart[3], hop[3];
  int beside[2]; /* groups, columns; the grid is a multiple of their product */
  int size[TS_CONV_BOX_DIGITS], step[TS_CONV_BOX_DIGITS];
};

/* Passed by value as a __grid_constant__ parameter. */
struct TsCudaConvArgs : TsConvCall {
  TsCudaConvOperand epilogue[TS_GEMM_EPILOGUE_MAX];
  /* By coordinate, stride / gcd(stride, dilation) and dilation / gcd. Backward data: taps that meet the same pixel of x
   * are tap_step apart, and the pixels of y from which they meet it pixel_step. */
  int tap_step[3], pixel_step[3];
  /* Where the sum is cut: the parts, each at least one step of the tile; their float32 partials, `splits` whole tiles
   * for each tile; a counter for each tile, zero before the first launch and left zero by every launch. */
  int splits;
  float* partials;
  unsigned int* counters;
  /* Templates for depthwise and for small groups alone, for which `splits` counts runs of tiles (conv/depthwise/steps.cuh). lanes: threads along
   * the channels of a block, two channels each; a power of two, with at least 16 bytes of channels. phases, and tiles of
   * the largest phase, by coordinate; less than 2^31 tiles in all. depth_steps: the most taps along the outer coordinate
   * that a result meets, at least 1; backward weight 1. stage_bytes: of the largest tile of pixels that a step brings to
   * shared memory (backward weight: of x and y together). */
  int lanes, phases[3], tiles[3], depth_steps, stage_bytes;
  /* Backward weight that is cut into runs, whose call is two launches: 0: runs leave partials; 1: these are added up. */
  int join;
  TsCudaConvBoxes boxes;
};
