// A consumer warpgroup of the five-product kernel: 64 keys of a block of 128.
//
// With keys as rows, P^T and dS^T come out of the scores' products as the A operands of dV += P^T dO and dK += dS^T Q; only
// dQ = dS K needs dS in shared memory, where both warpgroups' keys meet. What hides a warpgroup's exponentials are the
// other's products.
#pragma once

#include "../scores.cuh"
#include "items.cuh"

namespace ts {

constexpr int kPairs = kTileM / 2;  // registers of a thread
using TilePairs = Pairs<true, kPairs>;

struct Consumer {
  const Shared& shared;
  const TsCudaAttentionBackwardArgs& args;
  const int warpgroup;
  RingPlace<cfg::kStages> stage;
  RingPlace<1> resident;
  u32 buffer = 0;  // of ds
  unsigned* ending = nullptr;  // the turn of a tile that has been added to

  // Statistics of a tile: those of columns 8j, 8j + 1 from the thread's first.
  struct Columns {
    u32 address;
    TS_DEVICE float2 operator()(int j) const { return load_pair(address + 32 * j); }
  };

  TS_DEVICE bool leader() const { return threadIdx.x % 128 == 0; }
  // All consumers.
  TS_DEVICE static void meet() { named_barrier_sync(1, 128 * kWarpgroups); }

  // Rows from `begin` on become zeros: beyond a packed sequence's end lie its neighbour's, and 0 * NaN is NaN.
  TS_DEVICE static void zero_rows(u32 address, int columns, int rows, int begin) {
    const int thread = threadIdx.x - 128;
    const int chunks = (rows - begin) * 8;  // of 16 bytes
    for (int c = 0; c < columns; ++c) {
      for (int i = thread; i < chunks; i += 128 * kWarpgroups)
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(address + (c * rows + begin) * 128 + i * 16),
                     "r"(0)
                     : "memory");
    }
  }

  // dS^T of the warpgroup, packed as an A operand, to [query][key].
  TS_DEVICE void store_ds(const u32 (&packed)[kPairs / 2]) const {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
    const int row = 8 * (lane >> 4) + (lane & 7);
    const int chunk = (2 * warp + (lane >> 3 & 1)) ^ (row & 7);
    const u32 to = shared.ds(buffer) + warpgroup * kTileM * 128 + row * 128 + chunk * 16;
#pragma unroll
    for (int i = 0; i < kTileM / 16; ++i)
      store_transposed(to + i * 2048, packed[4 * i], packed[4 * i + 1], packed[4 * i + 2], packed[4 * i + 3]);
  }

  // Ordered additions: says that the tile before has been added. By the time it is asked the additions have arrived, so
  // that the fence does not wait for them.
  TS_DEVICE void end_turn() {
    if constexpr (cfg::kDeterministic) {
      if (ending == nullptr) return;
      __threadfence();
      named_barrier_sync(2 + warpgroup, 128);
      if (leader()) count_up(ending);
      ending = nullptr;
    }
  }

  TS_DEVICE void walk_tile(Call& call, const Item& t, int tile, float* dq_sum, unsigned* turns,
                           float (&dk)[kWidthQk / 2], float (&dv)[kWidthV / 2]) {
    float s[kPairs], dp[kPairs];
    const u32 queries = shared.queries(stage.index), dout = shared.dout(stage.index);
    const u64 k_rows = descriptor_k_major(uniform(shared.keys() + warpgroup * 64 * 128));
    const u64 v_rows = descriptor_k_major(uniform(shared.values() + warpgroup * 64 * 128));
    const u64 q_rows = descriptor_k_major(uniform(queries)), dout_rows = descriptor_k_major(uniform(dout));
    mbarrier_wait(shared.query_full(stage.index), stage.phase);
    if constexpr (cfg::kGroupMode) {
      const int rows = t.sequence.length_q - tile * kTileM;
      if (rows < kTileM) {
        mbarrier_wait(shared.dout_full(stage.index), stage.phase);
        zero_rows(queries, kColumnsQk, kTileM, rows);
        zero_rows(dout, kColumnsV, kTileM, rows);
        fence_proxy_async();
        meet();
      }
    }
    pin(s);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kStepsQk; ++i)
      Wgmma<kTileM, kElement>::ss(s, k_rows + i / 4 * (kKeys * 8) + i % 4 * 2, q_rows + i / 4 * (kTileM * 8) + i % 4 * 2,
                                  i > 0);
    wgmma_commit();
    mbarrier_wait(shared.dout_full(stage.index), stage.phase);
    pin(dp);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kStepsV; ++i)
      Wgmma<kTileM, kElement>::ss(dp, v_rows + i / 4 * (kKeys * 8) + i % 4 * 2,
                                  dout_rows + i / 4 * (kTileM * 8) + i % 4 * 2, i > 0);
    wgmma_commit();

    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
    const int key = t.key + warpgroup * 64;
    const Place place = {key + 16 * warp + (lane >> 2), tile * kTileM + 2 * (lane & 3)};
    const bool masked = !t.window.is_whole(tile * kTileM, kTileM, key, 64);
    PairState<kPairs> state;
    if constexpr (cfg::kDropout) TilePairs::draw(call, place, shared.words(threadIdx.x / 32 - 4), state);
    wgmma_wait<1>();
    pin(s);
    TilePairs::probabilities(call, t.window, place, masked, Columns{shared.lse(stage.index) + 8 * (lane & 3)}, s,
                             state);
    u32 p[kPairs / 2];
    TilePairs::pack_kept(s, state, p);
    end_turn();
    wgmma_wait<0>();
    pin(dp);
    TilePairs::gradients(call, t.window, place, masked, Columns{shared.delta(stage.index) + 8 * (lane & 3)}, s, state,
                         dp);
    u32 ds[kPairs / 2];
    TilePairs::pack_all(dp, ds);
    store_ds(ds);

    const u64 dout_columns = descriptor_n_major(uniform(dout), kTileM * 128);
    const u64 q_columns = descriptor_n_major(uniform(queries), kTileM * 128);
    pin(dv);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kTileM / 16; ++i)
      Wgmma<kWidthV, kElement>::rs(dv, p[4 * i], p[4 * i + 1], p[4 * i + 2], p[4 * i + 3], dout_columns + i * 128, 1);
    wgmma_commit();
    fence_proxy_async();
    meet();

    // The warpgroup's share of dq: 64 x kShareColumns.
    float dq[kShareRegisters];
    const u64 ds_rows = descriptor_k_major(uniform(shared.ds(buffer) + (kSharesRows ? warpgroup * 64 * 128 : 0)));
    // A column of shared memory has 64 of the head dimension; half of it is 64 of its 128 bytes.
    constexpr int kShareBytes = kSharesRows ? 0 : kShareColumns == 64 ? kKeys * 128 : 64;
    const u64 k_columns = descriptor_n_major(uniform(shared.keys() + warpgroup * kShareBytes), kKeys * 128);
    pin(dq);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i)
      wgmma_n_major<kElement>(dq, ds_rows + i / 4 * (kTileM * 8) + i % 4 * 2, k_columns + i * 128, i > 0);
    wgmma_commit();
    wgmma_wait<1>();
    pin(dv);
    if (leader()) mbarrier_arrive(shared.dout_empty(stage.index));
    pin(dk);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kTileM / 16; ++i)
      Wgmma<kWidthQk, kElement>::rs(dk, ds[4 * i], ds[4 * i + 1], ds[4 * i + 2], ds[4 * i + 3], q_columns + i * 128, 1);
    wgmma_commit();
    unsigned* const turn = turns + tile * (kTileM / TS_CUDA_BACKWARD_TURN_ROWS * 2);
    if constexpr (cfg::kDeterministic) {
      if (leader()) wait_for_value(turn, t.turn(tile));
    }
    wgmma_wait<1>();
    pin(dq);
    if constexpr (cfg::kDeterministic) {
      named_barrier_sync(2 + warpgroup, 128);
      ending = turn;
    }
    float* const to = dq_sum + tile * (kTileM * kSumColumns);
#pragma unroll
    for (int i = 0; i < kShareRegisters; i += 4) add_to_memory(to + i * 128, dq[i], dq[i + 1], dq[i + 2], dq[i + 3]);
    wgmma_wait<0>();
    pin(dk);
    if (leader()) mbarrier_arrive(shared.query_empty(stage.index));
    stage.advance();
    buffer ^= 1;
  }

  TS_DEVICE void store(const Item& t, const float (&dk)[kWidthQk / 2], const float (&dv)[kWidthV / 2],
                       float keep_scale) const {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int key = t.key + warpgroup * 64 + 16 * warp + (lane >> 2) + 8 * r;
      char *to_k = nullptr, *to_v = nullptr;
      if (key < t.sequence.length_k) {
        to_k = reinterpret_cast<char*>(row_of(static_cast<unsigned short*>(args.grad.dk), args.grad.dk_strides, t.batch,
                                              t.head, key, t.sequence.offset_k));
        to_v = reinterpret_cast<char*>(row_of(static_cast<unsigned short*>(args.grad.dv), args.grad.dv_strides, t.batch,
                                              t.head, key, t.sequence.offset_k));
      }
      store_row<cfg::kBf16>(to_k, dk, r, args.scale, cfg::kHeadDimQk);
      store_row<cfg::kBf16>(to_v, dv, r, keep_scale, cfg::kHeadDimV);
    }
  }

  // The warp's part of the gradient by the head's slope.
  TS_DEVICE void store_of_slope(Call& call, const Item& t) const {
    float sum = call.of_slope;
    call.of_slope = 0.0f;
#pragma unroll
    for (int i = 16; i > 0; i /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, i);
    if (threadIdx.x % 32 == 0)
      dalibi_parts_of(args, t.batch, call.head)[t.key / kKeys * 8 + threadIdx.x / 32 - 4] = sum;
  }

  TS_DEVICE void run() {
    const int group = static_cast<int>(args.heads_q / args.heads_kv);
    ItemRing ring;
    Call call(args);
    for (int index = ring.pop(shared); index >= 0; index = ring.pop(shared)) {
      Item t;
      t.find(args, index);
      float dk[kWidthQk / 2], dv[kWidthV / 2];
#pragma unroll
      for (int i = 0; i < kWidthQk / 2; ++i) dk[i] = 0.0f;
#pragma unroll
      for (int i = 0; i < kWidthV / 2; ++i) dv[i] = 0.0f;
      if (t.tiles.begin < t.tiles.end) {
        mbarrier_wait(shared.keys_full(), resident.phase);
        mbarrier_wait(shared.values_full(), resident.phase);
        resident.advance();
        if constexpr (cfg::kGroupMode) {
          const int rows = t.sequence.length_k - t.key;
          if (rows < kKeys) {
            zero_rows(shared.keys(), kColumnsQk, kKeys, rows);
            fence_proxy_async();
            meet();
          }
        }
        for (int h = 0; h < group; ++h) {
          const int head = t.head * group + h;
          call.enter(t.sequence, t.batch, head);
          float* const dq_sum = args.dq_sum + workspace_row(args, t.sequence, t.batch, head) * i64{kSumColumns} +
                                warpgroup * (kTileM * kSumColumns / 2) + threadIdx.x % 128 * 4;
          unsigned* const turns =
              cfg::kDeterministic ? turns_of(args, t.sequence, t.batch, head, 0) + warpgroup : nullptr;
          for (int tile = t.tiles.begin; tile < t.tiles.end; ++tile) walk_tile(call, t, tile, dq_sum, turns, dk, dv);
          if constexpr (cfg::kDalibi) store_of_slope(call, t);
        }
        end_turn();
        if (leader()) mbarrier_arrive(shared.keys_empty());
      } else if constexpr (cfg::kDalibi) {
        for (int h = 0; h < group; ++h) {
          call.head = t.head * group + h;
          store_of_slope(call, t);
        }
      }
      store(t, dk, dv, call.keep_scale);
    }
  }
};

}  // namespace ts
