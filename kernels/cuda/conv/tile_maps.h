// Through what kernels read whole tiles of pixels (conv/banded, conv/grouped/mapped_data.cuh).
#pragma once

#include "../common/tensor_map.h"

/* Each {channels of all groups, width, height, depth, images}, zero fill, swizzled by the bytes of a block's channels. read:
 * what taps meet, x or of backward data y, a box of pixels a hop apart; y: of backward weight alone, a box of pixels that
 * are as far apart as a phase's. */
struct TsCudaConvTileMaps {
  TsCudaTensorMap read, y;
};
