// What the templates of the pipeline mma_sm80 may ask of a block. The rules of their instances (src/instances) hold
// configs to the same figure.
#pragma once

// 99 KiB: the most shared memory that a block may have on compute capabilities 8.6, 8.9 and 12.0; on the others from
// 8.0 on it may have more (CUDA C++ Programming Guide, technical specifications per compute capability).
#define TS_MMA_SM80_SHARED_BYTES 101376
