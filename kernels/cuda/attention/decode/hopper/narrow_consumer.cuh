// The two warpgroups that multiply latent rows of 8 bits. Keys, and columns of values, are the rows of products, queries
// their columns: so what is widened is an operand in registers. Each warpgroup scores one half of a step's keys, leaves its
// probabilities in shared memory, and sums up half of the values' columns over both.
//
// A query has one base for all its keys. Probabilities are computed with the base that there is, and left; then both
// warpgroups tell each other whether some logit lies too far above it. Only if so are maxima exchanged.
#pragma once

#include "narrow_layout.cuh"

#include "cluster_join.cuh"
#include "narrow_operands.cuh"
#include "row_results.cuh"

namespace ts {

struct NarrowConsumer : PieceWork<NarrowConsumer, Consumers> {
  static constexpr int kOfColumn = kTileM / 2;             // sums of a thread of 64 keys or values
  static constexpr int kLoadsAtOnce = kTileM < 64 ? 4 : 2;  // as many as registers have room for
  const int warpgroup;
  float s[kOfColumn];                   // [8 queries][key, 8 keys further][query, next query]
  float o[kColumnsOfHalf * kOfColumn];  // [column of values][8 queries][value, next value][query, next query]
  float sums[2];                // of the warp's keys, of queries query_of_sums() and the next
  u32 first_unit = 0;           // of the step, in the ring and as many places again: those of the odd rounds
  bool has_begun = false;

  TS_DEVICE NarrowConsumer(const TsCudaDecodeArgs& arguments, u32 memory, int which)
      : PieceWork<NarrowConsumer, Consumers>(arguments, memory), warpgroup(which) {}

  TS_DEVICE SharedMap map() const { return {shared}; }
  TS_DEVICE static int row_of_warp() { return threadIdx.x / 32 % 4 * 16; }

  // The thread's place in products. It is read anew where it is needed: the compiler would keep all that follows from it in
  // registers throughout.
  struct Place {
    int thread;
    TS_DEVICE Place() { asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread)); }
    TS_DEVICE int lane() const { return thread & 31; }
    TS_DEVICE int warp() const { return thread / 32 % 4; }  // of the warpgroup
    TS_DEVICE int row(int r) const { return warp() * 16 + lane() / 4 + 8 * r; }
    TS_DEVICE int first_query() const { return 2 * (lane() & 3); }  // of pairs, eight queries apart
    TS_DEVICE int query_of_sums() const { return first_query() + lane() / 4 % (kTileM / 8) * 8; }
    TS_DEVICE u32 of_warps(u32 shared) const { return shared + kOfWarpsOffset + 4 * (thread / 32 * kTileM + query_of_sums()); }
  };
  // The table at `offset`, of `bytes` a query: where that of the thread's j-th pair lies. Constants stand last, so that
  // they take no registers.
  TS_DEVICE u32 of_pair(const Place& at, u32 offset, int bytes, int j) const {
    return shared + bytes * at.first_query() + (offset + 8 * bytes * j);
  }

  TS_DEVICE u32 place_of_unit(int of_step) const {
    const u32 place = first_unit + of_step;
    return place >= 2 * kUnits ? place - 2 * kUnits : place;
  }
  TS_DEVICE UnitRing unit_of_step(int of_step) const {
    const u32 place = place_of_unit(of_step), phase = place >= kUnits ? 1 : 0;
    return {place - phase * kUnits, phase};
  }
  TS_DEVICE u32 come(const UnitRing& at) const {
    mbarrier_wait(map().full(at.index), at.phase);
    return map().row(at.index, 0);
  }

  TS_DEVICE static void load_two(float (&x)[2], u32 address) {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x[0]), "=f"(x[1]) : "r"(address) : "memory");
  }
  TS_DEVICE static void store_two(u32 address, float a, float b) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(a), "f"(b) : "memory");
  }
  TS_DEVICE static float load_one(u32 address) {
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(address) : "memory");
    return x;
  }
  TS_DEVICE static void store_one(u32 address, float x) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(x) : "memory");
  }

  // Queries in the order of narrow.cuh: a warp has whole rows, and loads all of them before it looks at one.
  TS_DEVICE void copy_queries() {
    constexpr int kChunks = 8 * kColumnsQk, kRows = kTileM / kConsumerWarps, kShare = ceil_div(kChunks, 32);
    if (has_begun) Consumers::sync();  // all have read the ones before
    u32 x[kRows][kShare][4];
#pragma unroll
    for (int i = 0; i < kRows; ++i) load_query(threadIdx.x / 32 + i * kConsumerWarps, x[i]);
    if (!has_begun) named_barrier_arrive(kQueriesUnderWay, kThreads);
    has_begun = true;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = threadIdx.x / 32 + i * kConsumerWarps;
      const auto store = [&](int chunk, const u32(&eight)[4]) {
        if (chunk >= kChunks) return;
        const u32 to = map().queries() + chunk / 8 * kQueryColumnBytes + row * kColumnBytes + chunk % 2 * 8 +
                       (chunk % 8 / 2 * 2 ^ (row & 7)) * 16;
        asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(eight[0]), "r"(eight[2]) : "memory");
        asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to ^ 16), "r"(eight[1]), "r"(eight[3]) : "memory");
      };
      if constexpr (kScaledQueries) {
        store_scaled_query(row, x[i], store);
      } else {
#pragma unroll
        for (int j = 0; j < kShare; ++j) store(32 * j + lane(), x[i][j]);
      }
    }
    fence_proxy_async();
  }

  // What differs from query to query, by a thread each.
  TS_DEVICE void start_queries() const {
    const int row = threadIdx.x, at = imin(row, item.rows(args) - 1);
    if (row >= kTileM) return;
    const int query = item.query(args, at), head = item.head(args, at);
    store_word(shared + kSeenOffset + 8 * row, key_begin(args, item.length, query));
    store_word(shared + kSeenOffset + 8 * row + 4, key_end(args, item.length, query));
    if constexpr (cfg::kAlibi) {
      Rows of_row{item.batch, {head, head}, {query, query}};
      Alibi of_query;
      of_query.start(args, of_row, item.length, unit);
      store_one(shared + kAlibiOffset + 8 * row, of_query.slope[0]);
      store_word(shared + kAlibiOffset + 8 * row + 4, of_query.diagonal[0]);
    }
    if constexpr (cfg::kBias) {
      const i64 first =
          item.batch * args.bias_strides.batch + head * args.bias_strides.head + query * args.bias_strides.row;
      asm volatile("st.shared.b64 [%0], %1;" ::"r"(shared + kBiasOffset + 8 * row), "l"(first) : "memory");
    }
    store_one(shared + kBasesOffset + 4 * row, -kInfinity);
  }

  TS_DEVICE void score() {
    const Place at;
    const u32 keys = come(unit_of_step(2 * warpgroup + at.warp() / 2)) + at.warp() % 2 * 16 * kRowPitch +
                     at.lane() % 16 * kRowPitch + at.lane() / 16 * 16;
    constexpr int kLoads = 2 * kColumnsQk, kOfRound = 2 * kLoadsAtOnce;
    const u64 b = descriptor_k_major(uniform(map().queries()));
    pin(s);
    multiply<kLoadsAtOnce, kOfRound, kLoads / kOfRound, kLoads % kOfRound, true>(
        [&](Raw& raw, int round, int load) { load_matrices(raw, keys + (round * kOfRound + load) * 32); },
        [&](const Raw& raw, Operands& a, int, int) { widen_keys(raw, a); },
        [&](const Operands& a, int round, int load) {
#pragma unroll
          for (int k = 0; k < 2; ++k)
            Wgmma<kTileM, kElement>::rs<false>(
                s, a[k][0], a[k][1], a[k][2], a[k][3],
                b + ((round * kOfRound + load) / 2 * (kQueryColumnBytes / 16) + load % 2 * 4 + 2 * k),
                round + load + k != 0);
        });
    pin(s);
  }

  // Products of `kRounds` times `kLoads` loads and of `kRest` more, `kBatch` of which follow one another: what the next of
  // them take is widened while these are multiplied. Where descriptors follow from the round, it is a constant: else each
  // product would wait for its own, which comes from a thread's registers.
  template <int kBatch, int kLoads, int kRounds, int kRest, bool kConstantRounds, class Load, class Widen, class Multiply>
  TS_DEVICE static void multiply(Load load, Widen widen, Multiply start) {
    constexpr int kBatches = kLoads / kBatch;
    static_assert(kLoads % kBatch == 0 && kBatches % 2 == 0, "rounds begin with the same operands");
    constexpr int kRests[2] = {kRest < kBatch ? kRest : kBatch, kRest < kBatch ? 0 : kRest - kBatch};
    Operands a[2][kBatch];
    const auto fill = [&](Operands(&to)[kBatch], int round, int first, int count) {
      Raw raw[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i)
        if (i < count) load(raw[i], round, first + i);
#pragma unroll
      for (int i = 0; i < kBatch; ++i)
        if (i < count) widen(raw[i], to[i], round, first + i);
    };
    const auto begin = [&](Operands(&now)[kBatch], int round, int first, int count) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        pin(now[i][0]);
        pin(now[i][1]);
      }
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < kBatch; ++i)
        if (i < count) start(now[i], round, first + i);
      wgmma_commit();
    };
    fill(a[0], 0, 0, kBatch);
#pragma unroll (kConstantRounds ? kRounds : 1)
    for (int round = 0; round < kRounds; ++round) {
#pragma unroll
      for (int batch = 0; batch < kBatches; ++batch) {
        begin(a[batch % 2], round, batch * kBatch, kBatch);
        if (batch + 1 < kBatches)
          fill(a[(batch + 1) % 2], round, (batch + 1) * kBatch, kBatch);
        else if (round + 1 < kRounds)
          fill(a[0], round + 1, 0, kBatch);
        else if (kRest > 0)
          fill(a[0], kRounds, 0, kRests[0]);
        wgmma_wait<0>();
      }
    }
    if constexpr (kRest > 0) {
      begin(a[0], kRounds, 0, kRests[0]);
      if constexpr (kRests[1] > 0) fill(a[1], kRounds, kBatch, kRests[1]);
      wgmma_wait<0>();
    }
    if constexpr (kRests[1] > 0) {
      begin(a[1], kRounds, kBatch, kRests[1]);
      wgmma_wait<0>();
    }
  }

  // Adds what the step's values contribute to the warpgroup's columns. A unit is given back when it has been read, for
  // its products take it from registers.
  TS_DEVICE void multiply_values() {
    constexpr int kUnitsOfHalf = kUnitsOfStep / kHalves, kLoads = kUnitsOfStep * kColumnsOfHalf;
    constexpr int kAtOnce = kLoads % (2 * kLoadsAtOnce) == 0 ? kLoadsAtOnce : 2;
    constexpr int kUnitsOfRound = kUnitsOfHalf * kColumnsOfHalf % (2 * kAtOnce) == 0 ? kUnitsOfHalf : kUnitsOfStep;
    const Place at;
    const u64 b = descriptor_k_major(uniform(map().probabilities(0)));
    const u32 of_thread = warpgroup * kOutputColumns + at.warp() * 16 + at.lane() * kRowPitch;
    u32 values = 0;
    pin(o);
    multiply<kAtOnce, kUnitsOfRound * kColumnsOfHalf, kUnitsOfStep / kUnitsOfRound, 0, false>(
        [&](Raw& raw, int round, int load) {
          if (load % kColumnsOfHalf == 0)
            values = come(unit_of_step(round * kUnitsOfRound + load / kColumnsOfHalf)) + of_thread;
          load_matrices_transposed(raw, values + load % kColumnsOfHalf * kColumn);
        },
        [&](const Raw& raw, Operands& a, int round, int load) {
          widen_values(raw, a);
          if (load % kColumnsOfHalf != kColumnsOfHalf - 1) return;
          __syncwarp();
          if (at.lane() == 0)
            mbarrier_arrive(map().empty(unit_of_step(round * kUnitsOfRound + load / kColumnsOfHalf).index));
        },
        [&](const Operands& a, int round, int load) {
          float(&of_column)[kOfColumn] = reinterpret_cast<float(&)[kOfColumn]>(o[kOfColumn * (load % kColumnsOfHalf)]);
          const int of_step = round * kUnitsOfRound + load / kColumnsOfHalf;
#pragma unroll
          for (int k = 0; k < 2; ++k)
            Wgmma<kTileM, kElement>::rs<false>(
                of_column, a[k][0], a[k][1], a[k][2], a[k][3],
                b + (of_step / kUnitsOfHalf * (kProbabilitiesBytes / 16) + of_step % kUnitsOfHalf * 4 + 2 * k), 1);
        });
    pin(o);
  }

  // `first` is the warpgroup's first key of the step.
  TS_DEVICE void finish_logits_of_keys(int first) {
    const Place at;
    // Of the last query its first key, of the first one past its last: between them every query sees every key.
    const int whole_begin = load_word(shared + kSeenOffset + 8 * (kTileM - 1)), whole_end = load_word(shared + kSeenOffset + 4);
    const bool cut = first + cfg::kTileN > whole_end || (cfg::kMaskLeft && first < whole_begin);
    const int key = first + at.row(0);
    if constexpr (kScaledQueries) {
#pragma unroll
      for (int j = 0; j < kTileM / 8; ++j) {
        float scales[2];
        load_two(scales, of_pair(at, kRowScalesOffset, 4, j));
#pragma unroll
        for (int i = 0; i < 4; ++i) s[4 * j + i] *= scales[i % 2];
      }
    }
    if (cfg::kSoftCap && cut) hide(at, key);  // a soft cap mixes neighbours: no hidden NaN may reach them
    if constexpr (cfg::kSoftCap) {
      if constexpr (cfg::kBias)
        SoftCap::far(scale(), args.soft_cap, s);
      else
        SoftCap::apply(scale(), args.soft_cap, s);
    } else if constexpr (!cfg::kBias && cfg::kNegativeScale) {
#pragma unroll
      for (int i = 0; i < kOfColumn; ++i) s[i] = -s[i];
    }
    if constexpr (cfg::kBias) add_bias(at, key);
    if constexpr (cfg::kAlibi) {
#pragma unroll
      for (int i = 0; i < kOfColumn; ++i) {
        const u32 of_query = of_pair(at, kAlibiOffset, 8, i / 4) + 8 * (i % 2);
        const int distance = load_word(of_query + 4) - (key + i / 2 % 2 * 8);
        s[i] = fmaf(load_one(of_query), fabsf(static_cast<float>(distance)), s[i]);
      }
    }
    if (cut) hide(at, key);
  }

  TS_DEVICE void hide(const Place& at, int key) {
#pragma unroll
    for (int j = 0; j < kTileM / 4; ++j) {
      const u32 of_query = of_pair(at, kSeenOffset, 8, j / 2) + 8 * (j % 2);
      const int begin = cfg::kMaskLeft ? load_word(of_query) : 0, end = load_word(of_query + 4);
#pragma unroll
      for (int r = 0; r < 2; ++r)
        if (key + 8 * r >= end || (cfg::kMaskLeft && key + 8 * r < begin)) s[j / 2 * 4 + 2 * r + j % 2] = -kInfinity;
    }
  }

  TS_DEVICE void add_bias(const Place& at, int key) {
    const float factor = logit_factor(args, scale());
#pragma unroll
    for (int j = 0; j < kTileM / 4; ++j) {
      i64 first;
      asm volatile("ld.shared.b64 %0, [%1];"
                   : "=l"(first)
                   : "r"(of_pair(at, kBiasOffset, 8, j / 2) + 8 * (j % 2))
                   : "memory");
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float bias = 0.0f;
        if (args.bias != nullptr && key + 8 * r < item.length.k)
          bias = args.bias[first + (key + 8 * r) * args.bias_strides.column];
        float& x = s[j / 2 * 4 + 2 * r + j % 2];
        x = fmaf(x, factor, bias);
      }
    }
  }

  // Of the values of a thread's pairs of queries, those of query_of_sums() of all the warp's keys.
  template <class Join>
  TS_DEVICE static void join_lanes(int lane, float (&x)[kTileM / 4], float (&joined)[2], Join join) {
    halve<8>(lane, x, join);
    halve<4>(lane, x, join);
    halve<2>(lane, x, join);
    joined[0] = x[0], joined[1] = x[1];
  }
  // Of the first 2 * kHalf a lane keeps half, and gets those of the lane that keeps the others. Of fewer, all of both.
  template <int kHalf, class Join>
  TS_DEVICE static void halve(int lane, float (&x)[kTileM / 4], Join join) {
    constexpr int kApart = 2 * kHalf;  // lanes
    if constexpr (kApart > kTileM / 4) {
#pragma unroll
      for (int i = 0; i < kTileM / 4; ++i) x[i] = join(x[i], __shfl_xor_sync(0xffffffffu, x[i], kApart));
      return;
    }
    const bool upper = lane & kApart;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const float given = upper ? x[i] : x[i + kHalf], kept = upper ? x[i + kHalf] : x[i];
      x[i] = join(kept, __shfl_xor_sync(0xffffffffu, given, kApart));
    }
  }

  // Leaves probabilities with the bases that there are. `sum` is what the thread's keys add; returns whether no logit lies
  // so far above its query's base that it must rise (softmax.cuh: kRise).
  TS_DEVICE bool exponentiate_keys(float (&sum)[kTileM / 4]) const {
    bool within = true;
    const Place at;
    const u32 to = map().probabilities(warpgroup) + at.lane() % 8 * kColumnBytes +
                   ((2 * at.warp() + at.lane() / 8 % 2) ^ (at.lane() & 7)) * 16 + at.lane() / 16 * 8 * kColumnBytes;
    u32 p[4];
#pragma unroll
    for (int j = 0; j < kTileM / 8; ++j) {
      float bases[2], x[4];
      load_two(bases, of_pair(at, kBasesOffset, 4, j));
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float largest = __fmul_rn(fmaxf(s[4 * j + e], s[4 * j + 2 + e]), unit);
        within &= !(__fsub_rn(largest, bases[e]) > kRise);  // a NaN: nothing seen before, and nothing now
        const float shift = bases[e] == -kInfinity ? 0.0f : bases[e];
        x[e] = exp2_approx(exponent(s[4 * j + e], unit, shift));
        x[2 + e] = exp2_approx(exponent(s[4 * j + 2 + e], unit, shift));
        sum[2 * j + e] = x[e] + x[2 + e];
      }
      p[j % 2 * 2] = pack<false>(x[0], x[1]);
      p[j % 2 * 2 + 1] = pack<false>(x[2], x[3]);
      if (j % 2 == 1) store_matrices_transposed(to + (j - 1) * 8 * kColumnBytes, p[0], p[1], p[2], p[3]);
    }
    return within;
  }

  // Brings all queries to the largest logit so far where the step's lies too far above it: each query's own decision, of
  // all keys of the step.
  TS_DEVICE void raise_bases() {
    const Place at;
    float largest[kTileM / 4], of_warp[2];
#pragma unroll
    for (int i = 0; i < kTileM / 4; ++i) largest[i] = fmaxf(s[i / 2 * 4 + i % 2], s[i / 2 * 4 + 2 + i % 2]);
    join_lanes(at.lane(), largest, of_warp, [](float a, float b) { return fmaxf(a, b); });
    store_two(at.of_warps(shared), of_warp[0], of_warp[1]);
    Consumers::sync();
    if (at.thread < kTileM) {
      const u32 of_query = shared + 4 * at.thread;
      float most = -kInfinity;
#pragma unroll
      for (int i = 0; i < kConsumerWarps; ++i) most = fmaxf(most, load_one(of_query + kOfWarpsOffset + 4 * kTileM * i));
      const float base = load_one(of_query + kBasesOffset), peak = __fmul_rn(most, unit), rise = __fsub_rn(peak, base);
      const bool risen = rise > kRise;
      if (risen) store_one(of_query + kBasesOffset, peak);
      store_one(of_query + kFactorsOffset, risen ? exp2_approx(-rise) : 1.0f);
    }
    Consumers::sync();
#pragma unroll
    for (int j = 0; j < kTileM / 8; ++j) {
      float factors[2];
      load_two(factors, of_pair(at, kFactorsOffset, 4, j));
#pragma unroll
      for (int column = 0; column < kColumnsOfHalf; ++column)
#pragma unroll
        for (int i = 0; i < 4; ++i) o[kOfColumn * column + 4 * j + i] *= factors[i % 2];
    }
    float factors[2];
    load_two(factors, shared + kFactorsOffset + 4 * at.query_of_sums());
    sums[0] = __fmul_rn(sums[0], factors[0]);
    sums[1] = __fmul_rn(sums[1], factors[1]);
  }

  TS_DEVICE void step_of(int step, int steps) {
    score();
    finish_logits_of_keys((piece.first_tile + step) * kTileKeys + warpgroup * cfg::kTileN);
    if (step > 0) named_barrier_sync(kFirstHasRead + (1 - warpgroup), kConsumerThreads);
    float sum[kTileM / 4], of_warp[2];
    const bool within = exponentiate_keys(sum);
    fence_proxy_async();
    if (!Consumers::all(within)) {
      raise_bases();
      exponentiate_keys(sum);
      fence_proxy_async();
      Consumers::sync();
    }
    join_lanes(Place().lane(), sum, of_warp, [](float a, float b) { return a + b; });
    sums[0] += of_warp[0];
    sums[1] += of_warp[1];
    multiply_values();
    if (step + 1 < steps) named_barrier_arrive(kFirstHasRead + warpgroup, kConsumerThreads);
    first_unit = place_of_unit(kUnitsOfStep);
  }

  TS_DEVICE void walk() {
    copy_queries();
    start_queries();
    Consumers::sync();
#pragma unroll
    for (int i = 0; i < kColumnsOfHalf * kOfColumn; ++i) o[i] = 0.0f;
    sums[0] = sums[1] = 0.0f;
    const int steps = piece.end_tile - piece.first_tile;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) step_of(step, steps);
    item = item_of(args, item.batch, item.head_kv, item.first_row / kTileM);  // read again: it takes no registers until here
    if (cfg::kPaged && has_lost_keys(args, item, piece)) sums[0] = sums[1] = lost_sum();
  }

  // Results are tiles of 16 queries and 64 values, as others leave them: a warp has some columns' of its queries.
  static constexpr int kQueryTiles = kTileM / 16, kShare = ceil_div(kColumnsOfHalf * kQueryTiles, 4);
  static constexpr int kTilesOfWarp = kColumnsOfHalf % kShare == 0 ? kShare : kColumnsOfHalf;
  TS_DEVICE static int result_row(const Place& at) { return at.warp() % kQueryTiles * 16 + at.lane() / 4; }
  TS_DEVICE static int result_column(const Place& at) { return kQueryTiles == 4 ? 0 : at.warp() / kQueryTiles * kTilesOfWarp; }

  // The rows' bases, and the sums of all keys.
  TS_DEVICE void join_sums(State (&states)[2]) const {
    const Place at;
    store_two(at.of_warps(shared), sums[0], sums[1]);
    Consumers::sync();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const u32 of_row = shared + 4 * (result_row(at) + 8 * r);
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < kConsumerWarps; ++i) sum += load_one(of_row + kOfWarpsOffset + 4 * kTileM * i);
      states[r] = {base_logit(load_one(of_row + kBasesOffset)), sum};
    }
  }

  // Turns outputs over, so that queries are rows: by a column of 64 values at a time, where queries were.
  TS_DEVICE void turn_outputs(float (&turned)[kTilesOfWarp * 32]) const {
    const Place at;
    constexpr u32 kPitch = 4 * kColumn + 16;  // eight bytes of sixteen lanes in all banks
    static_assert(kHalves * kTileM * kPitch <= kProbabilitiesOffset, "a column of each warpgroup");
    const u32 place = map().queries() + warpgroup * kTileM * kPitch;
    const u32 to = place + at.first_query() * kPitch + 4 * (at.warp() * 16 + column_of_row(at.lane() / 4));
    const u32 from = place + result_row(at) * kPitch + 4 * at.first_query();
#pragma unroll
    for (int column = 0; column < kColumnsOfHalf; ++column) {
      const float* const x = o + kOfColumn * column;
#pragma unroll
      for (int i = 0; i < kTileM / 4; ++i)
        store_two(to + (i / 2 * 8 + i % 2) * kPitch, x[i / 2 * 4 + i % 2], x[i / 2 * 4 + 2 + i % 2]);
      named_barrier_sync(kFirstTurns + warpgroup, 128);
      const int of_warp = column % kTilesOfWarp;
      if (column - of_warp == result_column(at)) {
#pragma unroll
        for (int i = 0; i < 16; ++i) {
          float two[2];
          load_two(two, from + (i % 2 * 8 * kPitch + i / 2 * 32));
          turned[32 * of_warp + i / 2 * 4 + i % 2 * 2] = two[0];
          turned[32 * of_warp + i / 2 * 4 + i % 2 * 2 + 1] = two[1];
        }
      }
      named_barrier_sync(kFirstTurns + warpgroup, 128);
    }
  }

  TS_DEVICE void finish(int item_number) {
    const Place at;
    State states[2];
    float turned[kTilesOfWarp * 32];
    join_sums(states);
    turn_outputs(turned);
    const int column = result_column(at);
    const int first_column = column < kColumnsOfHalf ? warpgroup * kOutputColumns + column * kColumn : cfg::kHeadDimV;  // none
    if (kClusters && args.cluster > 1) {
      Consumers::sync();  // both have turned theirs: pieces' outputs take the same place
      return ClusterJoin(*this, item_number).run(turned, states, result_row(at), first_column);
    }
    finish_rows(*this, item_number, turned, states, result_row(at), first_column);
  }
};

}  // namespace ts
