// A consumer warpgroup: 64 rows of each tile, from scores to output.
//
// The pipeline: while the tensor cores score block n - 1 (Q x K^T) and multiply block n's probabilities with its values
// (P x V), the previous scores are turned into probabilities. The pipeline runs on from tile to tile: the first block
// of the next tile is scored together with the last P x V of the current tile, and the current tile's output is stored
// while the next tile's second block is scored, so that the tensor cores do not idle between tiles.
//
// Blocks are walked from the last visible key to the first. Only blocks that the mask or the sequence's end cuts are
// masked.
#pragma once

#include "bias.cuh"
#include "dropout.cuh"
#include "epilogue.cuh"

namespace ts {

// Which way of taking maxima is the fastest was measured for each number of warpgroups
// (docs/log/2026-11-cuda-attention.md). A bias and dropout leave no registers for any but the plain one.
constexpr bool kRoomy = !cfg::kBias && !cfg::kDropout;
// With three warps on a scheduler the other warps hide the latency that the integers' test would save, and in fp8 that
// which staggering would save.
constexpr Maxima kMaxima = kRoomy && cfg::kWarpgroups == 2                   ? Maxima::integers
                           : kRoomy && cfg::kWarpgroups == 3 && !cfg::kFp8 ? Maxima::staggered
                                                                           : Maxima::floats;
// A tile's second block and the blocks that are cut share a copy of the code, which saves a tenth of the compile time.
constexpr bool kSharedStep = kRoomy && kBounded && cfg::kWarpgroups == 2 && !cfg::kFp8;
// Whether a tile's block takes the rows' maxima, or trusts in the base that they have.
enum class Base { maximum, trusted };

struct Consumer {
  const Shared& shared;
  const TsCudaAttentionArgs& args;
  const int warpgroup;
  float scale;  // from a dot product to a score
  float unit;   // what scores are multiplied by in the exponential
  SoftCap cap;

  TileRing ring;
  RingPlace<cfg::kStages> keys, values;
  RingPlace<cfg::kQStages> queries;
  RingPlace<kSharedBias ? kBiasStages : 1> bias;

  u32 q[kQueryRegisters ? kStepsQk : 1][4];
  float s[kScores];
  u32 p[kProbabilities];
  float o[kOutputs];
  float factor[2];  // what o is still to be multiplied by, before the next values are added
  RowState rows;

  // The tile before the current one, while its output waits in `o` to be stored.
  Tile done;
  u32 done_slot;
  RowState done_rows;
  float done_value_scale;
  bool waiting;

  // The current tile as this warpgroup sees it.
  Tile tile;
  u32 slot;                      // where the tile is described in shared memory, too
  int leading, trailing;         // blocks at its end and beginning that only other warpgroups' rows see
  int begin, end;                // its own key blocks: begin .. end - 1
  int whole_begin, whole_end;    // blocks that need no mask
  int row_begin[2], row_end[2];  // visible keys of the thread's rows, less the thread's first column
  Alibi alibi;
  float query_scale;             // fp8 with block scales
  float key_scale;               // those of a block that is being scored
  float next_value_scale;
  float value_scale;             // 8 bits: the unit of `o`, the scale of the values that were or will be added last
  int tail;                      // group mode, pages: rows of the oldest unread value block that belong to the sequence

  TS_DEVICE bool leader() const { return threadIdx.x % 128 == 0; }

  // The turns of the warpgroups at issuing wgmma, so that one warpgroup's softmax runs while another's wgmma do.
  TS_DEVICE void begin_turn() const {
    if constexpr (cfg::kPingPong) named_barrier_sync(1 + warpgroup, 256);
  }
  TS_DEVICE void end_turn() const {
    if constexpr (cfg::kPingPong) named_barrier_arrive(1 + (warpgroup + 1) % cfg::kWarpgroups, 256);
  }

  TS_DEVICE void enter(const Tile& next, u32 next_slot) {
    tile = next;
    slot = next_slot;
    const int first_row = tile.row + warpgroup * kWarpgroupRows;
    const int first_query = first_row / cfg::kPackGqa;
    const int last_query = (first_row + kWarpgroupRows - 1) / cfg::kPackGqa;
    const BlockRange own = own_blocks(args, tile, warpgroup);
    begin = own.begin;
    end = own.end;
    leading = tile.n_end - end;
    trailing = begin - tile.n_begin;
    whole_end = key_end(args, tile.length, first_query) / cfg::kTileN;
    whole_begin = ceil_div(key_begin(args, tile.length, last_query), cfg::kTileN);
    const int lane = threadIdx.x & 31;
    const int column = 2 * (lane & 3);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = (first_row + (threadIdx.x >> 5 & 3) * 16 + (lane >> 2) + 8 * r) / cfg::kPackGqa;
      row_end[r] = key_end(args, tile.length, query) - column;
      row_begin[r] = key_begin(args, tile.length, query) - column;
    }
    tail = imin(cfg::kTileN, seen_end(tile) - (end - 1) * cfg::kTileN);
    if constexpr (cfg::kFp8 || kWidens) {
      query_scale = scale_at(args.q_scale, tile.head, first_query);
      if constexpr (!cfg::kBlockScale) {
        key_scale = scale_at(args.k_scale, key_head(), 0);
        value_scale = scale_at(args.v_scale, key_head(), 0);
        set_scale(args.scale * query_scale * key_scale);
      }
    }
    if constexpr (cfg::kAlibi) alibi.start(args, place(tile), tile.length, unit);
  }

  TS_DEVICE void set_scale(float x) {
    scale = x;
    unit = logit_unit(args, scale);
    if constexpr (kMayGoUnshifted) {
      cap.start(scale, args.soft_cap);
      if (args.soft_cap > kBoundedCap) cap.bound = -1.0f;
    }
  }

  // The scales of fp8 tensors. With block scales those of a block are asked for before its scores are waited for; the
  // unit of `o` is that of the values that come next, which costs a rescaling where it changes.
  TS_DEVICE int key_head() const {
    return cfg::kPackGqa > 1 ? tile.head : tile.head / static_cast<int>(args.heads_q / args.heads_kv);
  }
  TS_DEVICE float scale_at(const TsScale& s, int head, int row) const {
    if (s.data == nullptr) return 1.0f;
    const i64 block = cfg::kBlockScale ? row / TS_SCALE_BLOCK : 0;
    return s.data[tile.batch * s.batch + head * s.head + block * s.block];
  }
  TS_DEVICE void ask_scales(int n) {
    if constexpr (cfg::kBlockScale) {
      key_scale = scale_at(args.k_scale, key_head(), n * cfg::kTileN);
      next_value_scale = scale_at(args.v_scale, key_head(), n * cfg::kTileN);
    }
  }
  TS_DEVICE void use_scales() {
    if constexpr (cfg::kBlockScale) set_scale(args.scale * query_scale * key_scale);
  }
  template <bool kFirst>
  TS_DEVICE void change_value_scale() {
    if constexpr (cfg::kBlockScale) {
      if constexpr (!kFirst) {
        const float change = value_scale * rcp_approx(next_value_scale);
        factor[0] *= change;
        factor[1] *= change;
      }
      value_scale = next_value_scale;
    }
  }

  // From scores to logits, and dropout. The rows' places are worked out only for the traits that need them.
  TS_DEVICE Rows place(const Tile& tile) const {
    Rows r;
    r.batch = tile.batch;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row =
          tile.row + warpgroup * kWarpgroupRows + (threadIdx.x >> 5 & 3) * 16 + (threadIdx.x >> 2 & 7) + 8 * i;
      r.query[i] = row / cfg::kPackGqa;
      r.head[i] = cfg::kPackGqa > 1 ? tile.head * cfg::kPackGqa + row % cfg::kPackGqa : tile.head;
    }
    return r;
  }

  // From scores to probabilities. `early`: a tile's second block, which gives rows their base like the first one and
  // those that are cut, of which a row may see a few keys only.
  template <bool kFirst, bool kGuard, Base kBase = Base::maximum>
  TS_DEVICE void softmax(int n, bool cut, bool early = false) {
    if constexpr (kBase == Base::trusted) {
      finish_block(n, cut);
      trust_base(s, rows, factor, unit);
    } else if constexpr (kMayGoUnshifted) {
      capped_softmax<kFirst, kGuard>(n, cut);
    } else {
      finish_block(n, cut);
      if (cut) mask(n);
      update_softmax<kFirst, kGuard, kGuard ? Maxima::floats : kMaxima>(
          s, rows, factor, unit, false, kTrusting && !early && !cut ? kFarRise : kRise);
    }
  }

  // The same with a soft cap that is small enough for rows to need no maximum, as far as all scores are near; else as
  // above, with rows that keep the maximum 0.
  template <bool kFirst, bool kGuard>
  TS_DEVICE void capped_softmax(int n, bool cut) {
    if (cap.is_near(s)) {
      const int first = n * cfg::kTileN;
      const int from[2] = {row_begin[0] - first, row_begin[1] - first};
      const int to[2] = {row_end[0] - first, row_end[1] - first};
      float sum[4] = {};
#pragma unroll
      for (int i = 0; i < kScores; ++i) {
        s[i] = exp2_approx(cap.near(s[i]));
        if (kGuard && cut && is_hidden(i, from, to)) s[i] = 0.0f;
        sum[i % 4] += s[i];
      }
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const float both = sum[2 * row] + sum[2 * row + 1];
        rows.sum[row] = kFirst ? both : rows.sum[row] + both;
        rows.peak[row] = 0.0f;
        factor[row] = 1.0f;
      }
    } else {
      if (cut) mask_again(n);
      SoftCap::far(scale, args.soft_cap, s);
      if (cut) mask(n);
      update_softmax<kFirst, kGuard>(s, rows, factor, 1.0f, args.soft_cap <= kBoundedCap);
    }
  }

  // From scores to logits. A hidden NaN must not reach its neighbours, which a soft cap mixes: with one a block that
  // is cut is masked before, too.
  TS_DEVICE void finish_block(int n, bool cut) {
    if (cfg::kSoftCap && cut) mask(n);
    const int column = n * cfg::kTileN + 2 * (threadIdx.x & 3);
    if constexpr (kSharedBias) {
      if (args.bias != nullptr) {
        mbarrier_wait(shared.bias_full(warpgroup, bias.index), bias.phase);
        finish_logits(args, scale, alibi, SharedBias{shared.bias(warpgroup, bias.index)}, column, s);
        fence_proxy_async();
        __syncwarp();
        if (threadIdx.x % 32 == 0) mbarrier_arrive(shared.bias_empty(warpgroup, bias.index));
        bias.advance();
      } else {
        finish_logits(args, scale, alibi, NoBias{}, column, s);
      }
    } else if constexpr (cfg::kBias) {
      const Tile tile = TileRing::read(shared, slot);
      finish_logits(args, scale, alibi, GlobalBias<>{args, tile.length, place(tile), column}, column, s);
    } else {
      finish_logits(args, scale, alibi, NoBias{}, column, s);
    }
  }

  TS_DEVICE void drop_block(int n) {
    if constexpr (cfg::kDropout) {
      const u32 words = shared.words(4 * warpgroup + static_cast<int>(threadIdx.x >> 5 & 3));
      drop_through(words, args, place(TileRing::read(shared, slot)), n * cfg::kTileN, s);
    }
  }

  TS_DEVICE void mask(int n) {
    const int first = n * cfg::kTileN;
    const int from[2] = {row_begin[0] - first, row_begin[1] - first};
    const int to[2] = {row_end[0] - first, row_end[1] - first};
    mask_scores(s, from, to);
  }
  // The same for the compiler as a mask of its own: comparisons that it shared would need registers in between.
  TS_DEVICE void mask_again(int n) {
    asm volatile("" : "+r"(n));
    mask(n);
  }

  // With kQueryRegisters: the tile's queries, as the A operand of each step, and their place in shared memory is free.
  TS_DEVICE void take_queries() {
    mbarrier_wait(shared.query_full(warpgroup, queries.index), queries.phase);
    if constexpr (kQueryRegisters) {
      const u32 lane = threadIdx.x & 31;
      const u32 row = (threadIdx.x >> 5 & 3) * 16 + (lane & 15);
      const u32 from = shared.query(warpgroup, queries.index) + row * kColumnBytes;
#pragma unroll
      for (int k = 0; k < kStepsQk; ++k) {
        const u32 chunk = (k % 4 * 2 + (lane >> 4)) ^ (row & 7);
        load_matrices(q[k], from + k / 4 * kWarpgroupRows * kColumnBytes + chunk * 16);
      }
      // The loads must have arrived before their place is given back: nothing else keeps the arrival behind them, and rows
      // that the next tile's copy overwrote were wrong.
      u32 all = 0;
#pragma unroll
      for (int k = 0; k < kStepsQk; ++k) all ^= q[k][0];
      hold_until(__uint_as_float(all));
      give_queries_back();
    }
  }

  TS_DEVICE void issue_scores() {
    const u64 a = descriptor_k_major(uniform(shared.query(warpgroup, queries.index)));
    const u64 b = descriptor_k_major(uniform(shared.key(keys.index)));
    pin(s);
    if constexpr (kQueryRegisters) {
#pragma unroll
      for (int k = 0; k < kStepsQk; ++k) pin(q[k]);
    }
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kStepsQk; ++k) {
      // A step is 32 bytes; a column of shared memory holds four. Offsets in units of 16 bytes.
      const int column = k / 4, step = k % 4 * 2;
      const u64 keys_of_step = b + (column * cfg::kTileN * 8 + step);
      if constexpr (kQueryRegisters) {
        Wgmma<cfg::kTileN, kElement>::template rs<false>(s, q[k][0], q[k][1], q[k][2], q[k][3], keys_of_step, k != 0);
      } else {
        Wgmma<cfg::kTileN, kElement>::ss(s, a + (column * kWarpgroupRows * 8 + step), keys_of_step, k != 0);
      }
    }
    wgmma_commit();
  }

  TS_DEVICE void issue_values(int accumulate) {
    const u32 value = uniform(shared.value(values.index));
    const u64 b = cfg::kFp8 ? descriptor_k_major(value) : descriptor_n_major(value, cfg::kTileN * kColumnBytes);
    pin(o);
    pin(p);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kStepsPv; ++k) {
      const int step = cfg::kFp8 ? k / 4 * kOutputColumns * 8 + k % 4 * 2 : k * 128;
      Wgmma<kOutputColumns, kElement>::rs(o, p[4 * k], p[4 * k + 1], p[4 * k + 2], p[4 * k + 3], b + step,
                                          k != 0 ? 1 : accumulate);
    }
    wgmma_commit();
  }

  TS_DEVICE void release_keys() {
    if (leader()) mbarrier_arrive(shared.key_empty(keys.index));
    keys.advance();
  }
  TS_DEVICE void release_values() {
    if (leader()) mbarrier_arrive(shared.value_empty(values.index));
    values.advance();
  }
  // After the tile's last scores; queries in registers have left their place long before.
  TS_DEVICE void release_queries() {
    if constexpr (!kQueryRegisters) give_queries_back();
  }
  TS_DEVICE void give_queries_back() {
    if constexpr (kQueryRegisters) {
      __syncwarp();
      if (threadIdx.x % 32 == 0) mbarrier_arrive(shared.query_empty(warpgroup, queries.index));
    } else {
      if (leader()) mbarrier_arrive(shared.query_empty(warpgroup, queries.index));
    }
    queries.advance();
  }

  TS_DEVICE bool is_careful() const { return kTrusting && TileRing::is_careful(shared, slot, warpgroup); }
  TS_DEVICE bool is_cut(int n) const { return n >= whole_end || n < whole_begin; }

  TS_DEVICE void sync_warpgroup() const {
    named_barrier_sync(8 + warpgroup, 128);
  }

  // Blocks that only other warpgroups' rows see: taken and given back unread. All four warps must have seen a stage
  // full before it is given back, or a late one would find the barrier a round further; elsewhere the wgmma
  // themselves keep the warps together.
  TS_DEVICE void pass_keys(int count) {
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      mbarrier_wait(shared.key_full(keys.index), keys.phase);
      sync_warpgroup();
      begin_turn();
      end_turn();
      release_keys();
    }
  }
  TS_DEVICE void pass_values(int count) {
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      mbarrier_wait(shared.value_full(values.index), values.phase);
      sync_warpgroup();
      release_values();
    }
  }

  // One past the last key that the sequence has; in pages, where other rows are not read, that its queries see.
  TS_DEVICE int seen_end(const Tile& t) const {
    return cfg::kPaged ? key_end(args, t.length, t.length.q - 1) : t.length.k;
  }
  // Rows of the tile's last value block before the first key that the sequence's queries see.
  TS_DEVICE int head_rows() const {
    if constexpr (cfg::kPaged && cfg::kMaskLeft)
      return imin(cfg::kTileN, key_begin(args, tile.length, 0) - begin * cfg::kTileN);
    return 0;
  }
  TS_DEVICE void clear_values(int first, int end) const {
    const int chunks = (end - first) * (kColumnBytes / 16);
    for (int c = 0; c < kColumnsV; ++c) {
      const u32 address = shared.value(values.index) + (c * cfg::kTileN + first) * kColumnBytes;
      for (int i = threadIdx.x % 128; i < chunks; i += 128) {
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(address + 16 * i), "r"(0) : "memory");
      }
    }
    fence_proxy_async();
    sync_warpgroup();
  }

  TS_DEVICE void wait_values(int head = 0) {
    mbarrier_wait(shared.value_full(values.index), values.phase);
    // In a packed tensor the rows after a sequence's end are another sequence's. Their probabilities are zero, but 0 *
    // NaN is not.
    if constexpr ((cfg::kGroupMode || cfg::kPaged) && !cfg::kFp8 && !kWidens) {
      if (tail < cfg::kTileN) {
        clear_values(imax(tail, 0), cfg::kTileN);
        tail = cfg::kTileN;
      }
    }
    if constexpr (cfg::kPaged && cfg::kMaskLeft && !kWidens) {
      if (head > 0) clear_values(0, head);
    }
  }

  // Runs while the tensor cores score the next block.
  TS_DEVICE void rescale() {
    if (__any_sync(0xffffffffu, factor[0] != 1.0f || factor[1] != 1.0f)) {
      pin(o);
#pragma unroll
      for (int i = 0; i < kOutputs; ++i) o[i] *= factor[(i >> 1) & 1];
    }
  }

  // ptxas moves a wait for wgmma up past arithmetic that does not depend on it, here to before the exponentials. A
  // store of a value that depends on them keeps it behind.
  TS_DEVICE void hold_until(float value) const {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(shared.base + kScratchOffset), "f"(value) : "memory");
  }

  // One turn of the pipeline inside a tile: block n is scored while the block before it is multiplied with its values.
  // `second` is a tile's second block, under whose scores the tile before is stored; the turn ends before that.
  template <bool kMasked, Base kBase = Base::maximum>
  TS_DEVICE void step(int n, int accumulate, bool second) {
    ask_scales(n);
    mbarrier_wait(shared.key_full(keys.index), keys.phase);
    begin_turn();
    issue_scores();
    if (second) {
      end_turn();
      if constexpr (cfg::kLateStore) store_done();
    } else {
      rescale();
    }
    wait_values();
    issue_values(accumulate);
    if (!second) end_turn();
    wgmma_wait<1>();
    pin(s);
    release_keys();
    if (n == begin) release_queries();
    use_scales();
    softmax<false, kMasked, kBase>(n, kMasked && is_cut(n), second);
    // All warps of the warpgroup go the same way from here on.
    if (kTrusting && kBase == Base::maximum && second && n > begin) {
      if (is_steep(rows)) TileRing::be_careful(shared, slot, warpgroup);
      sync_warpgroup();
    }
    change_value_scale<false>();
    drop_block(n);
    if constexpr (cfg::kLateWait) hold_until(rows.sum[0]);
    wgmma_wait<0>();
    pin(o);
    release_values();
    pack_probabilities(s, p);
  }

  // Scores of a tile's first block, up to its probabilities.
  TS_DEVICE void first_softmax() {
    const int n = end - 1;
    if (n == begin) release_queries();
    use_scales();
    softmax<true, true>(n, is_cut(n));
    change_value_scale<true>();
    drop_block(n);
  }

  // The first block of a tile that begins with nothing in flight.
  TS_DEVICE void start(const Tile& next, u32 next_slot) {
    enter(next, next_slot);
    ask_scales(end - 1);
    pass_keys(leading);
    take_queries();
    mbarrier_wait(shared.key_full(keys.index), keys.phase);
    begin_turn();
    issue_scores();
    end_turn();
    wgmma_wait<0>();
    pin(s);
    release_keys();
    first_softmax();
    pack_probabilities(s, p);
    pass_values(leading);
  }

  // The tile's other blocks. Returns 1 when values have been added up already, so that the next ones are added to them.
  TS_DEVICE int walk() {
    int accumulate = 0;
    int n = end - 2;
    bool second = cfg::kLateStore || kTrusting;
    if constexpr (!kSharedStep) {
      for (; n >= begin && (second || (!kBounded && is_careful())); --n) {
        step<kBounded>(n, accumulate, second);
        accumulate = 1;
        second = false;
      }
      second = false;
    }
    do {
      if constexpr (kBounded) {
        for (; n >= begin && (second || is_cut(n) || is_careful()); --n) {
          step<true>(n, accumulate, second);
          accumulate = 1;
          second = false;
        }
      }
      for (; n >= imax(begin, whole_begin); --n) {
        step<false, kTrusting ? Base::trusted : Base::maximum>(n, accumulate, false);
        accumulate = 1;
      }
      if constexpr (kTrusting && cfg::kMaskLeft) {
        if (!is_careful()) keep_wrong(rows);
      }
    } while (cfg::kMaskLeft && kRoomy && n >= begin);
    if constexpr (cfg::kMaskLeft && !kRoomy) {
      for (; n >= begin; --n) {
        step<true>(n, accumulate, false);
        accumulate = 1;
      }
    }
    return accumulate;
  }

  // Where registers are scarce what a tile is are read again at its end, instead of being kept beside the next tile's.
  TS_DEVICE void store(const Tile& t, u32 t_slot, RowState& t_rows, float t_value_scale) {
    constexpr bool kKept = kConsumerRegisters >= 200 && !kQueryRegisters;
    const bool right =
        store_tile(args, kKept ? t : TileRing::read(shared, t_slot), warpgroup, t_rows, o, t_value_scale);
    if constexpr (kTrusting) {
      if (__any_sync(0xffffffffu, !right) && threadIdx.x % 32 == 0) TileRing::ask_again(shared, t_slot, warpgroup);
    }
    TileRing::release(shared, t_slot);
  }
  // The tile whose output still waits in the registers, if there is one.
  TS_DEVICE void store_done() {
    if (waiting) {
      pin(o);
      store(done, done_slot, done_rows, done_value_scale);
      waiting = false;
    }
  }

  // The current tile's output is whole, but for what is in flight, and waits to be stored.
  TS_DEVICE void be_done() {
    done = tile;
    done_slot = slot;
    done_rows = rows;
    done_value_scale = value_scale;
    waiting = true;
  }

  // The tile's last values together with the next tile's first scores.
  TS_DEVICE void cross_over(const Tile& next, u32 next_slot, int accumulate) {
    be_done();
    const int done_tail = tail;
    const int done_trailing = trailing, done_head = head_rows();
    pass_keys(done_trailing);
    enter(next, next_slot);
    ask_scales(end - 1);
    pass_keys(leading);
    take_queries();
    mbarrier_wait(shared.key_full(keys.index), keys.phase);
    begin_turn();
    issue_scores();
    rescale();
    const int next_tail = tail;
    tail = done_tail;
    wait_values(done_head);
    tail = next_tail;
    issue_values(accumulate);
    end_turn();
    wgmma_wait<1>();
    pin(s);
    release_keys();
    first_softmax();
    wgmma_wait<0>();
    pin(o);
    release_values();
    pass_values(done_trailing + leading);
    pack_probabilities(s, p);
    if constexpr (!cfg::kLateStore) store_done();
  }

  // The tile's last values when no scores go with them. No turn: turns are counted in key blocks.
  TS_DEVICE void finish(int accumulate) {
    wait_values(head_rows());
    rescale();
    issue_values(accumulate);
    wgmma_wait<0>();
    pin(o);
    release_values();
    be_done();
#pragma unroll 1
    for (int i = 0; i < trailing; ++i) {
      pass_keys(1);
      pass_values(1);
    }
  }

  // A tile without rows for this warpgroup: everything is given back unread, the tensor cores are left to the others.
  TS_DEVICE void pass_tile(const Tile& t) {
    mbarrier_wait(shared.query_full(warpgroup, queries.index), queries.phase);
    sync_warpgroup();
    give_queries_back();
#pragma unroll 1
    for (int n = t.n_begin; n < t.n_end; ++n) {
      pass_keys(1);
      pass_values(1);
    }
  }

  TS_DEVICE void run() {
    set_scale(args.scale);
    value_scale = 1.0f;
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) o[i] = 0.0f;
    factor[0] = factor[1] = 1.0f;
    if constexpr (cfg::kPingPong) {
      if (warpgroup == cfg::kWarpgroups - 1) end_turn();
    }
    waiting = false;
    Tile next;
    u32 next_slot = ring.pop(shared, next);
    while (next.n_end != 0 || next.is_pause()) {
      if (next.is_pause() || !has_rows(next, warpgroup)) {
        if (!next.is_pause()) pass_tile(next);
        TileRing::release(shared, next_slot);
        next_slot = ring.pop(shared, next);
        continue;
      }
      start(next, next_slot);
      while (true) {
        const int accumulate = walk();
        next_slot = ring.pop(shared, next);
        const bool ending = next.n_end == 0 || !has_rows(next, warpgroup);
        // What waits here is the tile before one of a single block; at the end, then, the last tile. A copy of the code for
        // each would be more to fetch, which short calls wait for (docs/log/2026-11-cuda-attention.md).
        int stores = ending ? 2 : 1;
#pragma unroll 1
        while (true) {
          // The compiler would make a copy of the body for each number that it knows.
          asm volatile("" : "+r"(stores));
          store_done();
          if (stores == 1) break;
          finish(accumulate);
          stores = 1;
        }
        if (ending) break;
        cross_over(next, next_slot, accumulate);
      }
    }
  }
};

}  // namespace ts
