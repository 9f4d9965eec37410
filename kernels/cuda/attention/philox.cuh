// The dropout stream of the attention contract (kernels/contract/attention.h): Philox 4x32-10, a pure function of seed,
// offset, head, query and key.
#pragma once

#include "../common/common.cuh"

namespace ts {

// Word j of lane q becomes word q of lane j, within every four lanes.
TS_DEVICE void quad_transpose(u32 (&w)[4]) {
  const u32 lane = threadIdx.x & 3;
  const bool odd = lane & 1;
  const bool upper = lane & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const u32 received = __shfl_xor_sync(0xffffffffu, odd ? w[i] : w[i + 1], 1);
    w[i] = odd ? received : w[i];
    w[i + 1] = odd ? w[i + 1] : received;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const u32 received = __shfl_xor_sync(0xffffffffu, upper ? w[i] : w[i + 2], 2);
    w[i] = upper ? received : w[i];
    w[i + 2] = upper ? w[i + 2] : received;
  }
}

struct Philox {
  u32 key_low, key_high, head, offset;

  TS_DEVICE void start(const TsCudaAttentionArgs& args, u32 batch_head) {
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
      const u32 high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
      const u32 high2 = __umulhi(0xCD9E8D57u, c2), low2 = 0xCD9E8D57u * c2;
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
