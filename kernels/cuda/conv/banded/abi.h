// Through what banded products read their tensors (conv/banded).
#pragma once

#include "../../common/tensor_map.h"

/* Each {channels of all groups, width, height, depth, images}, zero fill, 64-byte swizzle. read: what taps meet, x or of
 * backward data y, box {32, kPitch, kTileRows, 1, kImages} of pixels a hop apart; y: of backward weight alone, box {32,
 * kColumns, kRows, 1, kImages} of pixels that are as far apart as a phase's. */
struct TsCudaConvBandedMaps {
  TsCudaTensorMap read, y;
};
