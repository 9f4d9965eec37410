// A consumer warpgroup of the five-product kernel: 64 keys of a block of 128.
//
// With keys as rows, P^T and dS^T come out of the scores' products as the A operands of dV += P^T dO and dK += dS^T Q; only
// dQ = dS K needs dS in shared memory, where both warpgroups' keys meet. What hides a warpgroup's exponentials are the
// other's products.
#pragma once

#include "../warpgroup.cuh"
#include "items.cuh"
#include "writer.cuh"

namespace ts {

constexpr int kPairs = kTileM / 2;  // registers of a thread
// Whether something of each pair is kept beside its score. Then no registers are left for scores beside the tile before.
constexpr bool kKeepsPairs = cfg::kSoftCap || cfg::kDropout || cfg::kBias || cfg::kDalibi;
// Whether the warpgroups take turns at the tensor cores. Of tiles of 64 queries the products take so much longer than the
// exponentials that it does not pay; but with pairs kept and a writer it takes fewer registers.
constexpr bool kTakesTurns = kTileM == 128 || (cfg::kDeterministic && kKeepsPairs);
using TilePairs = Pairs<true, kPairs>;
// Empty instructions between the products of scores where there are no turns and no writer, so that the other warpgroup's come
// between them. Found by measuring; why it helps is a guess.
constexpr int kPauses = kTakesTurns || cfg::kDeterministic ? 0 : 18;
// Whether a warpgroup passes tiles that see none of its keys, as beside a diagonal; a tile of 128 queries hardly has such.
constexpr bool kPassesTiles = (cfg::kMaskRight || cfg::kMaskLeft) && !kTakesTurns;
// Scores that become probabilities before the products of do and v are waited for; the rest do behind it, beside the
// gradients' arithmetic.
constexpr int kEarlyPairs = kKeepsPairs ? kPairs : kPairs / 2;

struct Consumer {
  const Shared& shared;
  const TsCudaAttentionBackwardArgs& args;
  const int warpgroup;
  RingPlace<cfg::kStages> stage;
  RingPlace<kResidents> resident;
  RingPlace<2> ds_buffer;
  RingPlace<cfg::kDeterministic ? kDqBuffers : 1> dq_buffer;

  // The tiles that see keys of each warpgroup. Together they are the item's.
  struct Seen {
    Range first, second;

    TS_DEVICE void find(const Item& t) {
      first = second = t.tiles;
      if constexpr (kPassesTiles) {
        const Range a = of_keys(t, t.key), b = of_keys(t, t.key + 64);
        const bool whole = imin(a.begin, b.begin) <= t.tiles.begin && imax(a.end, b.end) >= t.tiles.end &&
                           imax(a.begin, b.begin) <= imin(a.end, b.end);
        if (!whole) return;
        first = a;
        second = b;
      }
    }
    TS_DEVICE static Range of_keys(const Item& t, int key) {
      return key < t.sequence.length_k ? t.window.query_tiles<kTileM>(key, 64) : Range{t.tiles.end, t.tiles.end};
    }
    TS_DEVICE const Range& of(int warpgroup) const { return warpgroup == 0 ? first : second; }
  };

  // Statistics of a tile: those of columns 8j, 8j + 1 from the thread's first.
  struct Columns {
    u32 address;
    TS_DEVICE float2 operator()(int j) const { return load_pair(address + 32 * j); }
  };
  // The same, loaded at once; of 128 queries there are no registers for them.
  struct LoadedColumns {
    float2 of[kPairs / 4];
    TS_DEVICE explicit LoadedColumns(const Columns& columns) {
#pragma unroll
      for (int j = 0; j < kPairs / 4; ++j) of[j] = columns(j);
    }
    TS_DEVICE float2 operator()(int j) const { return of[j]; }
  };
  TS_DEVICE static auto statistics(u32 address) {
    const Columns columns = {address + 8 * (threadIdx.x & 3)};
    if constexpr (kTileM == 64)
      return LoadedColumns(columns);
    else
      return columns;
  }

  // Of warps that have not diverged the compiler makes a synchronisation an empty instruction.
  TS_DEVICE static void pause() {
#pragma unroll
    for (int i = 0; i < kPauses; ++i) __syncwarp();
  }

  TS_DEVICE bool leader() const { return threadIdx.x % 128 == 0; }
  // Rows from `begin` on become zeros: beyond a packed sequence's end lie its neighbour's, and 0 * NaN is NaN. Each
  // warpgroup does it for itself, and waits for nobody else.
  TS_DEVICE static void zero_rows(u32 address, int columns, int rows, int begin) {
    const int thread = threadIdx.x % 128;
    const int chunks = (rows - begin) * 8;  // of 16 bytes
    for (int c = 0; c < columns; ++c) {
      for (int i = thread; i < chunks; i += 128)
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(address + (c * rows + begin) * 128 + i * 16),
                     "r"(0)
                     : "memory");
    }
  }

  TS_DEVICE void end_zeros() const {
    fence_proxy_async();
    named_barrier_sync(4 + warpgroup, 128);
  }

  // dS^T of the warpgroup, packed as an A operand, to [query][key].
  TS_DEVICE void store_ds(const u32 (&packed)[kPairs / 2]) const {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
    const int row = 8 * (lane >> 4) + (lane & 7);
    const int chunk = (2 * warp + (lane >> 3 & 1)) ^ (row & 7);
    const u32 to = shared.ds(ds_buffer.index) + warpgroup * kTileM * 128 + row * 128 + chunk * 16;
#pragma unroll
    for (int i = 0; i < kTileM / 16; ++i)
      store_transposed(to + i * 2048, packed[4 * i], packed[4 * i + 1], packed[4 * i + 2], packed[4 * i + 3]);
  }

  TS_DEVICE static void arrive_by_warps(u32 barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(barrier);
  }

  // S^T = K Q^T of a tile, begun.
  TS_DEVICE void begin_scores(const Item& t, int tile, float (&s)[kPairs]) const {
    const u32 queries = shared.queries(stage.index);
    mbarrier_wait(shared.query_full(stage.index), stage.phase);
    if constexpr (cfg::kGroupMode) {
      const int rows = t.sequence.length_q - tile * kTileM;
      if (rows < kTileM) {
        mbarrier_wait(shared.dout_full(stage.index), stage.phase);
        zero_rows(queries, kColumnsQk, kTileM, rows);
        zero_rows(shared.dout(stage.index), kColumnsV, kTileM, rows);
        end_zeros();
      }
    }
    const u64 k_rows = descriptor_k_major(uniform(shared.keys(resident.index) + warpgroup * 64 * 128));
    const u64 q_rows = descriptor_k_major(uniform(queries));
    pin(s);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kStepsQk; ++i) {
      if (i > 0) pause();
      Wgmma<kTileM, kElement>::ss(s, k_rows + i / 4 * (kKeys * 8) + i % 4 * 2, q_rows + i / 4 * (kTileM * 8) + i % 4 * 2,
                                  i > 0);
    }
    wgmma_commit();
  }
  // dP^T = V dO^T.
  TS_DEVICE void begin_gradients(float (&dp)[kPairs]) const {
    const u64 v_rows = descriptor_k_major(uniform(shared.values(resident.index) + warpgroup * 64 * 128));
    const u64 dout_rows = descriptor_k_major(uniform(shared.dout(stage.index)));
    mbarrier_wait(shared.dout_full(stage.index), stage.phase);
    pin(dp);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kStepsV; ++i)
      Wgmma<kTileM, kElement>::ss(dp, v_rows + i / 4 * (kKeys * 8) + i % 4 * 2,
                                  dout_rows + i / 4 * (kTileM * 8) + i % 4 * 2, i > 0);
    wgmma_commit();
  }
  // sums (64 x kWidth) += weights (64 x kTileM) times the rows of a tile.
  template <int kWidth>
  TS_DEVICE static void add_product(float (&sums)[kWidth / 2], const u32 (&weights)[kPairs / 2], u64 columns) {
    pin(sums);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kTileM / 16; ++i)
      Wgmma<kWidth, kElement>::rs(sums, weights[4 * i], weights[4 * i + 1], weights[4 * i + 2], weights[4 * i + 3],
                                  columns + i * 128, 1);
    wgmma_commit();
  }
  // The warpgroup's share of dq, 64 x kShareColumns, from 16 * kSteps keys from first_step * 16 on.
  template <int kSteps>
  TS_DEVICE void begin_dq(float (&dq)[kShareRegisters], int first_step) const {
    const u64 ds_rows = descriptor_k_major(uniform(shared.ds(ds_buffer.index) + (kSharesRows ? warpgroup * 64 * 128 : 0) +
                                                   first_step / 4 * (kTileM * 128)));
    // A column of shared memory has 64 of the head dimension; half of it is 64 of its 128 bytes.
    constexpr int kShareBytes = kSharesRows ? 0 : kShareColumns == 64 ? kKeys * 128 : 64;
    const u32 keys = shared.keys(resident.index) + warpgroup * kShareBytes + first_step * (16 * 128);
    const u64 k_columns = descriptor_n_major(uniform(keys), kKeys * 128);
    pin(dq);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < kSteps; ++i)
      wgmma_n_major<kElement>(dq, ds_rows + i / 4 * (kTileM * 8) + i % 4 * 2, k_columns + i * 128, i > 0);
    wgmma_commit();
  }
  // The same of the keys that the tile sees: both warpgroups' or one's.
  TS_DEVICE void begin_dq(float (&dq)[kShareRegisters], const Seen& seen, int tile) const {
    if (kPassesTiles && !seen.of(0).has(tile)) {
      begin_dq<4>(dq, 4);
    } else if (kPassesTiles && !seen.of(1).has(tile)) {
      begin_dq<4>(dq, 0);
    } else {
      begin_dq<8>(dq, 0);
    }
  }
  // Heads of queries that are walked together, and where the warpgroup's share of the first one's dq goes.
  struct Heads {
    int first, count, direction;
    float* dq;
    unsigned* turns;
  };
  TS_DEVICE Heads heads_from(const Item& t, int first, int count) const {
    Heads h = {first, count, t.direction(count),
               args.dq_sum + workspace_row(args, t.sequence, t.batch, first) * i64{kSumColumns} +
                   warpgroup * (kTileM * kSumColumns / 2),
               nullptr};
    if constexpr (cfg::kDeterministic) h.turns = turns_of(args, t.sequence, t.batch, first, 0) + warpgroup;
    return h;
  }
  TS_DEVICE Destination destination(const Item& t, const Heads& heads, const Step& step) const {
    const i64 rows = i64{step.head} * args.padded_q + step.tile * kTileM;
    float* const to = heads.dq + rows * kSumColumns;
    if constexpr (!cfg::kDeterministic) return {to, nullptr, 0};
    return {to, heads.turns + rows / TS_CUDA_BACKWARD_TURN_ROWS * 2, t.turn(step.tile)};
  }
  // Of the only block of keys: the gradient itself.
  TS_DEVICE void store_dq(const float (&dq)[kShareRegisters], const Item& t, int head, int tile) const {
    const int column = kSharesRows ? 0 : warpgroup * kShareColumns;
    store_rows<kShareColumns>(dq, static_cast<unsigned short*>(args.grad.dq) + column, args.grad.dq_strides, t.batch, head,
                              tile * kTileM + (kSharesRows ? warpgroup * 64 : 0), t.sequence.length_q, t.sequence.offset_q,
                              args.scale, cfg::kHeadDimQk - column);
  }
  // Adds it to memory, or hands it to the writer.
  TS_DEVICE void send_dq(const float (&dq)[kShareRegisters], const Item& t, const Heads& heads, const Step& step) {
    if (kMayStoreDq && args.dq_sum == nullptr) return store_dq(dq, t, heads.first + step.head, step.tile);
    const Destination to = destination(t, heads, step);
    if constexpr (!cfg::kDeterministic) {
      float* const sum = to.sum + threadIdx.x % 128 * 4;
#pragma unroll
      for (int i = 0; i < kShareRegisters; i += 4) add_to_memory(sum + i * 128, dq[i], dq[i + 1], dq[i + 2], dq[i + 3]);
    } else {
      const u32 part = dq_buffer.index * kWarpgroups + warpgroup;
      mbarrier_wait(shared.dq_empty(part), dq_buffer.phase ^ 1);
      const u32 address = shared.dq(part) + threadIdx.x % 128 * 16;
#pragma unroll
      for (int i = 0; i < kShareRegisters; i += 4)
        asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address + i * 512), "f"(dq[i]), "f"(dq[i + 1]),
                     "f"(dq[i + 2]), "f"(dq[i + 3])
                     : "memory");
      if (leader()) to.put(shared.place(part));
      fence_proxy_async();
      arrive_by_warps(shared.dq_full(part));
      dq_buffer.advance();
    }
  }
  TS_DEVICE void end_writer() {
    if constexpr (cfg::kDeterministic) {
      const u32 part = dq_buffer.index * kWarpgroups + warpgroup;
      mbarrier_wait(shared.dq_empty(part), dq_buffer.phase ^ 1);
      if (leader()) Destination{}.put(shared.place(part));
      arrive_by_warps(shared.dq_full(part));
    }
  }

  // The warpgroups take turns at issuing products: one's run while the other has exponentials to compute. A turn is that
  // of dV, dK, dQ and of the next tile's scores.
  TS_DEVICE void begin_turn() const { named_barrier_sync(2 + warpgroup, 128 * kWarpgroups); }
  TS_DEVICE void give_turn() const { named_barrier_arrive(3 - warpgroup, 128 * kWarpgroups); }

  TS_DEVICE static void enter(Call& call, const Item& t, const Heads& heads, const Step& step) {
    if (heads.count > 1) call.enter(t.sequence, t.batch, heads.first + step.head);
  }

  // A tile whose scores and products of do and v are on their way, or known: then they are its probabilities and the
  // gradients of its scores.
  struct Tile {
    float s[kPairs], dp[kPairs];
    PairState<kPairs> state;
  };
  TS_DEVICE bool is_whole(const Item& t, int tile) const {
    return t.window.is_whole(tile * kTileM, kTileM, t.key + warpgroup * 64, 64);
  }
  // Waits for both. Hidden pairs are anything until the end, where `masked` ones become zeros.
  TS_DEVICE void end_scores(Call& call, const Item& t, int tile, bool masked, Tile& x) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
    const Place place = {t.key + warpgroup * 64 + 16 * warp + (lane >> 2), tile * kTileM + 2 * (lane & 3)};
    if constexpr (cfg::kDropout) TilePairs::draw(call, place, shared.words(threadIdx.x / 32 - 4), x.state);
    const auto lse = statistics(shared.lse(stage.index));
    wgmma_wait<1>();
    pin(x.s);
    TilePairs::template some_probabilities<0, kEarlyPairs>(call, t.window, place, lse, x.s, x.state);
    const auto delta = statistics(shared.delta(stage.index));
    wgmma_wait<0>();
    pin(x.dp);
    TilePairs::template some_probabilities<kEarlyPairs, kPairs>(call, t.window, place, lse, x.s, x.state);
    TilePairs::gradients(call, t.window, place, masked, delta, x.s, x.state, x.dp);
    if (masked) TilePairs::hide(t.window, place, x.s);
  }
  // Both as operands, the gradients also in shared memory.
  TS_DEVICE void pack_tile(const Tile& x, u32 (&p)[kPairs / 2], u32 (&ds)[kPairs / 2]) const {
    TilePairs::pack_kept(x.s, x.state, p);
    TilePairs::pack_all(x.dp, ds);
    store_ds(ds);
  }

  // Tiles of warpgroups that take turns. The next tile's scores are begun behind a tile's products, so that the tensor cores
  // have work while dq leaves; and a warpgroup waits for the other's dS only when it has begun dV and dK.
  template <bool kBeginsNext>
  TS_DEVICE void walk_tile(Call& call, const Item& t, const Heads& heads, const Step& step, Tile& x,
                           float (&dk)[kWidthQk / 2], float (&dv)[kWidthV / 2]) {
    Step next = step;
    next.advance(heads.count, heads.direction);
    u32 p[kPairs / 2], ds[kPairs / 2];
    pack_tile(x, p, ds);
    const u32 at = stage.index;
    const u64 dout_columns = descriptor_n_major(uniform(shared.dout(at)), kTileM * 128);
    const u64 q_columns = descriptor_n_major(uniform(shared.queries(at)), kTileM * 128);
    float dq[kShareRegisters];
    fence_proxy_async();
    arrive_by_warps(shared.ds_full(ds_buffer.index));
    begin_turn();
    add_product<kWidthV>(dv, p, dout_columns);
    add_product<kWidthQk>(dk, ds, q_columns);
    if constexpr (kKeepsPairs) {
      wgmma_wait<1>();
      pin(dv);
    }
    mbarrier_wait(shared.ds_full(ds_buffer.index), ds_buffer.phase);
    begin_dq<8>(dq, 0);
    ds_buffer.advance();
    wgmma_wait<2>();
    pin(dv);
    if (leader()) mbarrier_arrive(shared.dout_empty(at));
    stage.advance();
    if constexpr (kBeginsNext) {
      begin_scores(t, next.tile, x.s);
      give_turn();
      wgmma_wait<2>();
      pin(dk);
      if (leader()) mbarrier_arrive(shared.query_empty(at));
      wgmma_wait<1>();
      pin(dq);
    } else {
      wgmma_wait<0>();
      pin(dk);
      pin(dq);
      if (leader()) mbarrier_arrive(shared.query_empty(at));
      give_turn();
    }
    send_dq(dq, t, heads, step);
    if constexpr (kBeginsNext) {
      begin_gradients(x.dp);
      enter(call, t, heads, next);
      end_scores(call, t, next.tile, !is_whole(t, next.tile), x);
    }
  }
  TS_DEVICE void walk_in_turns(Call& call, const Item& t, const Heads& heads, float (&dk)[kWidthQk / 2],
                               float (&dv)[kWidthV / 2]) {
    Tile x;
    Step step = t.first_step(heads.count);
    int left = t.tile_count() * heads.count;
    if constexpr (kKeepsPairs) {
      for (; left > 0; --left, step.advance(heads.count, heads.direction)) {
        begin_scores(t, step.tile, x.s);
        begin_gradients(x.dp);
        enter(call, t, heads, step);
        end_scores(call, t, step.tile, !is_whole(t, step.tile), x);
        walk_tile<false>(call, t, heads, step, x, dk, dv);
      }
    } else {
      begin_scores(t, step.tile, x.s);
      begin_gradients(x.dp);
      end_scores(call, t, step.tile, !is_whole(t, step.tile), x);
      for (; left > 1; --left, step.advance(heads.count, heads.direction)) walk_tile<true>(call, t, heads, step, x, dk, dv);
      walk_tile<false>(call, t, heads, step, x, dk, dv);
    }
  }

  // Tiles of warpgroups that meet at each one's dS. A tile that is whole for the block is so for both, as one that a limit cuts
  // is: they meet in the same place of the code. One that is cut may see none of the warpgroup's keys: its share of dq is then
  // of the other's.
  template <bool kWhole>
  TS_DEVICE void walk_meeting(Call& call, const Item& t, const Seen& seen, const Heads& heads, const Step& step,
                              float (&dk)[kWidthQk / 2], float (&dv)[kWidthV / 2]) {
    const u32 at = stage.index;
    const bool sees = kWhole || !kPassesTiles || seen.of(warpgroup).has(step.tile);
    u32 p[kPairs / 2], ds[kPairs / 2];
    u64 q_columns = 0;  // made here, and not between dS and dK: 2 % at head dim 128 without a mask
    if (sees) {
      Tile x;
      begin_scores(t, step.tile, x.s);
      begin_gradients(x.dp);
      enter(call, t, heads, step);
      end_scores(call, t, step.tile, !kWhole, x);
      pack_tile(x, p, ds);
      q_columns = descriptor_n_major(uniform(shared.queries(at)), kTileM * 128);
      add_product<kWidthV>(dv, p, descriptor_n_major(uniform(shared.dout(at)), kTileM * 128));
    } else {
      mbarrier_wait(shared.query_full(at), stage.phase);
      mbarrier_wait(shared.dout_full(at), stage.phase);
    }
    meet();
    float dq[kShareRegisters];
    if constexpr (kWhole)
      begin_dq<8>(dq, 0);
    else
      begin_dq(dq, seen, step.tile);
    wgmma_wait<1>();
    pin(dv);
    if (leader()) mbarrier_arrive(shared.dout_empty(at));
    if (sees) {
      add_product<kWidthQk>(dk, ds, q_columns);
      wgmma_wait<1>();
    } else {
      wgmma_wait<0>();
    }
    pin(dq);
    send_dq(dq, t, heads, step);
    wgmma_wait<0>();
    pin(dk);
    if (leader()) mbarrier_arrive(shared.query_empty(at));
  }
  // Both warpgroups' dS is in shared memory.
  TS_DEVICE void meet() const {
    fence_proxy_async();
    named_barrier_sync(1, 128 * kWarpgroups);
  }

  // The tiles of heads.
  TS_DEVICE void walk_heads(Call& call, const Item& t, const Seen& seen, const Heads& heads, float (&dk)[kWidthQk / 2],
                            float (&dv)[kWidthV / 2]) {
    if constexpr (kTakesTurns) {
      walk_in_turns(call, t, heads, dk, dv);
    } else {
      Step step = t.first_step(heads.count);
      for (int left = t.tile_count() * heads.count; left > 0; --left, step.advance(heads.count, heads.direction)) {
        if (t.window.is_whole(step.tile * kTileM, kTileM, t.key, kKeys)) {
          walk_meeting<true>(call, t, seen, heads, step, dk, dv);
        } else {
          walk_meeting<false>(call, t, seen, heads, step, dk, dv);
        }
        stage.advance();
        ds_buffer.advance();
      }
    }
  }

  TS_DEVICE void store_parts(const Item& t, const float (&dk)[kWidthQk / 2], const float (&dv)[kWidthV / 2],
                             float keep_scale) const {
    float* const to = key_parts_of(args, t.batch, t.head_of_keys(args), t.key) + t.part_of_head(args) * part_stride(args);
    store_part(to, t.key + 64 * warpgroup, dk, args.scale);
    store_part(to + kSlicesQk * kPartSlice, t.key + 64 * warpgroup, dv, keep_scale);
  }

  TS_DEVICE void store(const Item& t, const float (&dk)[kWidthQk / 2], const float (&dv)[kWidthV / 2],
                       float keep_scale) const {
    if (args.key_parts != nullptr) return store_parts(t, dk, dv, keep_scale);
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
    const int group = Item::heads_of_part(args);
    ItemRing ring;
    Call call(args);
    if (kTakesTurns && warpgroup == 1) give_turn();  // the first is the first's
    for (int next = ring.take(shared); next >= 0; next = ring.take(shared)) {
      Item t;
      ring.find(shared, args, next, t);
      float dk[kWidthQk / 2], dv[kWidthV / 2];
#pragma unroll
      for (int i = 0; i < kWidthQk / 2; ++i) dk[i] = 0.0f;
#pragma unroll
      for (int i = 0; i < kWidthV / 2; ++i) dv[i] = 0.0f;
      if (t.tiles.begin < t.tiles.end) {
        mbarrier_wait(shared.keys_full(resident.index), resident.phase);
        mbarrier_wait(shared.values_full(resident.index), resident.phase);
        if constexpr (cfg::kGroupMode) {
          const int rows = t.sequence.length_k - t.key;
          if (rows < kKeys) {
            zero_rows(shared.keys(resident.index), kColumnsQk, kKeys, rows);
            end_zeros();
          }
        }
        Seen seen;
        seen.find(t);
        const int count = heads_at_once(group);
        for (int first = t.head * group; first < (t.head + 1) * group; first += count) {
          call.enter(t.sequence, t.batch, first);
          walk_heads(call, t, seen, heads_from(t, first, count), dk, dv);
          if constexpr (cfg::kDalibi) store_of_slope(call, t);
        }
        if (leader()) mbarrier_arrive(shared.keys_empty(resident.index));
        resident.advance();
      } else if constexpr (cfg::kDalibi) {
        for (int h = 0; h < group; ++h) {
          call.head = t.head * group + h;
          store_of_slope(call, t);
        }
      }
      if constexpr (kSendsItems) ring.find(shared, args, next, t);  // again, for what the tiles do not need
      store(t, dk, dv, call.keep_scale);
      ring.done(shared);
    }
    end_writer();
  }
};

}  // namespace ts
