// An encoded tensor map, as kernels take it. Included by the host and by generated sources.
#pragma once

// CUtensorMap of the driver: 128 bytes, 64-byte aligned.
struct alignas(64) TsCudaTensorMap {
  unsigned long long opaque[16];
};
