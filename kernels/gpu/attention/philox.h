// The dropout stream of the attention contract: Philox 4x32-10, a pure function of seed, offset, head, query and key.
// Of the backend's own header it needs u32 and multiply_high, the upper half of a product.
#pragma once

#include "../../contract/attention.h"

namespace ts {

struct Philox {
  u32 key_low, key_high, head, offset;

  TS_DEVICE void start(const TsAttentionCall& args, u32 batch_head) {
    key_low = static_cast<u32>(args.seed);
    key_high = static_cast<u32>(args.seed >> 32) ^ static_cast<u32>(args.offset >> 32);
    head = batch_head;
    offset = static_cast<u32>(args.offset);
  }

  // Eight 16-bit values for keys 8 * group .. 8 * group + 7 of a query, low half first.
  TS_DEVICE void draw(u32 group, u32 query, u32 (&words)[4]) const {
    u32 c0 = group, c1 = query, c2 = head, c3 = offset, k0 = key_low, k1 = key_high;
#pragma unroll
    for (int round = 0; round < 10; ++round) {
      const u32 high0 = multiply_high(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
      const u32 high2 = multiply_high(0xCD9E8D57u, c2), low2 = 0xCD9E8D57u * c2;
      c0 = high2 ^ c1 ^ k0;
      c1 = low2;
      c2 = high0 ^ c3 ^ k1;
      c3 = low0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
  }
};

}  // namespace ts
