// Where a tile's results belong: GEMM's epilogue on the pixels and channels of an image, and the store.
#pragma once

#include "../gemm/epilogue.cuh"
#include "axis.cuh"

namespace ts::conv {

using namespace ts::gemm;

// The pixels of a tile's rows, in shared memory: image and coordinates.
struct RowPixels {
  u32 address;

  TS_DEVICE void set(int row, const int (&pixel)[4]) const {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address + 16 * row), "r"(pixel[0]), "r"(pixel[1]),
                 "r"(pixel[2]), "r"(pixel[3])
                 : "memory");
  }
  // Elements from the first of a tensor to the pixel.
  TS_DEVICE i64 offset(int row, const TsConvStrides& s) const {
    int n, d, h, w;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(n), "=r"(d), "=r"(h), "=r"(w)
                 : "r"(address + 16 * row)
                 : "memory");
    return n * s.batch + d * s.spatial[0] + h * s.spatial[1] + w * s.spatial[2];
  }
};

// A slab's place among pixels and channels, as GEMM's epilogue asks for it (gemm/epilogue.cuh). Rows are the tile's.
struct ImagePlace {
  int row, column;
  int row_limit, column_limit;
  i64 group;
  RowPixels pixels;

  TS_DEVICE i64 entry_n(const TsCudaConvOperand& o) const { return group * o.strides.group; }
  TS_DEVICE i64 entry(const TsCudaConvOperand& o) const { return group * o.strides.group; }
  TS_DEVICE i64 in_entry(const TsCudaConvOperand& o, int r, int at) const { return in_group(o.strides, r, at); }
  TS_DEVICE i64 column_step(const TsCudaConvOperand& o) const { return o.strides.channel; }

  TS_DEVICE i64 in_group(const TsConvStrides& s, int r, int at) const {
    return pixels.offset(row + 8 * r, s) + at * s.channel;
  }
};

// Forward and backward data: a row is a pixel, a column a channel.
template <int kColumns>
TS_DEVICE void store_channels(const TsCudaConvArgs& args, const TsConvStrides& strides, const ImagePlace& place,
                              const float (&v)[kColumns / 2]) {
  constexpr int kBytes = bytes_of(cfg::kTypeD);
  const i64 step = (cfg::kPairs ? 1 : strides.channel) * kBytes;
  char* const base = static_cast<char*>(args.out) + place.group * strides.group * kBytes;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int count = place.row + 8 * r < place.row_limit ? place.column_limit - place.column : 0;
    char* const out = base + place.in_group(strides, r, place.column) * kBytes;
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j)
      store_pair<cfg::kTypeD, cfg::kPairs>(out + 8 * j * step,
                                           pack_pair<cfg::kTypeD>(v[4 * j + 2 * r], v[4 * j + 2 * r + 1]),
                                           count - 8 * j, step);
  }
}

}  // namespace ts::conv
