// Results of products whose columns, channels of a pixel, are dealt out so that a thread has eight neighbours: of each 32
// columns an octet in either of its two rows, which it stores at once.
#pragma once

#include "../gemm/epilogue.cuh"
#include "abi.h"
#include "store_if.cuh"

namespace ts::conv {

using namespace ts::gemm;

// The column of the products that a channel of a block has. Of each 32 a thread's, two of each octet, are neighbours.
TS_DEVICE int dealt_column(int channel) {
  return (channel & ~31) + (channel >> 3 & 3) * 2 + (channel >> 1 & 3) * 8 + (channel & 1);
}

struct OctetResults {
  static constexpr int kBytes = bytes_of(cfg::kTypeD), kChunks = kBytes / 2;  // an octet is as many times 16 bytes
  u32 words[2][kChunks * 4];

  // Behind the epilogue. sums[p / 2][p % 2] are of eight columns of the products; `place` is that of the first pair.
  template <class Place>
  TS_DEVICE OctetResults(const TsCudaConvArgs& args, Place place, const float (*sums)[2][4]) {
#pragma unroll
    for (int p = 0; p < 4; ++p, place.column += 2) {
      float v[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) v[e] = sums[p / 2][p % 2][e];
      if constexpr (cfg::kEpilogueLength > 0) {
        Operands<0, 8> operands;
        operands.load(args, place);
        operands.apply(args, place, v, {});
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const auto pair = pack_pair<cfg::kTypeD>(v[2 * r], v[2 * r + 1]);
#pragma unroll
        for (int w = 0; w < kChunks; ++w) words[r][kChunks * p + w] = pair.words[w];
      }
    }
  }

  // That of row r, of whose channels `left` exist. `whole`: octets begin at multiples of 16 bytes, and exist as a whole or
  // not at all; else pairs do.
  TS_DEVICE void store(int r, char* to, int left, bool whole) const {
    if (whole) {
#pragma unroll
      for (int c = 0; c < kChunks; ++c)
        store_16_bytes_if(left > 0, to + 16 * c,
                          {words[r][4 * c], words[r][4 * c + 1], words[r][4 * c + 2], words[r][4 * c + 3]});
      return;
    }
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      Pair<cfg::kTypeD> pair;
#pragma unroll
      for (int w = 0; w < kChunks; ++w) pair.words[w] = words[r][kChunks * p + w];
      store_pair<cfg::kTypeD, true>(to + 2 * p * kBytes, pair, left - 2 * p);
    }
  }
};

}  // namespace ts::conv
