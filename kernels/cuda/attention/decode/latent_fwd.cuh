// Attention forward on latent rows, sm_80 and newer: each row of the cache is a key, and its first elements the value of
// that key. The scheme is that of decode (attention_fwd.cuh); but a row is read once for both, and a value is too wide
// for one warp's registers. So all warps of a block work on the same rows: each scores some keys of a block, tells the
// others its maxima and probabilities, and sums up some columns over all keys.
//
// Configuration, beside what attention_fwd.cuh defines but for kKeyWarps:
//   kColumnWarps            warps that share keys out for scores, and columns for values
//   kHeadDimQk, kHeadDimV   multiples of 8 up to 576 and 512, of columns that the warps' shares of keys have
// Launch: as there.
#pragma once

namespace ts::cfg {
constexpr bool kFp8 = false, kFp32 = false, kTf32x3 = false;
}

#include "../../common/launch.cuh"
#include "latent_layout.cuh"
#include "parts_join.cuh"
#include "products.cuh"

namespace ts {

struct LatentDecode : PieceWork<LatentDecode> {
  float s[kScores];
  float o[kWarpColumns / 2];
  RowState rows;
  float row_scale[2];    // kScaledQueries
  ScaleBase scale_base;  // kBasedScales

  using PieceWork<LatentDecode>::PieceWork;

  TS_DEVICE static int warp() { return threadIdx.x / 32; }
  TS_DEVICE static int row_of_warp() { return warp() / cfg::kColumnWarps * kWarpRows; }
  TS_DEVICE static int share() { return warp() % cfg::kColumnWarps; }

  TS_DEVICE u32 stage(int step) const { return shared + kRingOffset + step % cfg::kStages * kStageBytes; }
  TS_DEVICE int first_key(int step) const { return (piece.first_tile + step) * kTileKeys; }

  // A warp copies whole rows, so that it looks each up once; rows that no query sees become zeros.
  TS_DEVICE void copy_rows(u32 destination, const KeyRows& from, int step) const {
    constexpr int kChunks = (kPitchK - 16) / 16;
    constexpr bool kWhole = kDepthQk == cfg::kHeadDimQk;
    // Beside 128 sums a thread's registers do not hold the addresses of more.
    constexpr int kRowsAtOnce = kWarpColumns > 128 ? 1 : 4;
#pragma unroll kRowsAtOnce
    for (int row = warp(); row < kTileKeys; row += kWarps) {
      const int key = first_key(step) + row;
      const bool seen = key >= piece.begin && key < piece.end;
      const char* const source = seen ? from.at(args, item, key) : from.base;
#pragma unroll
      for (int chunk = lane(); chunk < kChunks; chunk += 32) {
        const bool valid = seen && (kWhole || chunk * 16 < cfg::kHeadDimQk * kKeyBytes);
        copy_async(destination + row * kPitchK + chunk * 16, valid ? source + chunk * 16 : from.base, valid);
      }
    }
  }

  // The scales of a block's rows, which lie in pages.
  TS_DEVICE void copy_scales(u32 destination, const KeyRows& from, int step) const {
    for (int row = threadIdx.x; row < kTileKeys; row += kThreads) {
      const int key = first_key(step) + row;
      const bool seen = key >= piece.begin && key < piece.end;
      copy_async_word(destination + 4 * row, seen ? from.at(args, item, key) : from.base, seen);
    }
  }

  // Scores of the warp's keys of a block.
  TS_DEVICE void score(u32 keys) {
    multiply_keys(s, shared + row_of_warp() * kPitchQ, keys);
    if constexpr (kScaledQueries) scale_rows(s, row_scale);
  }

  TS_DEVICE u32 peaks(int row) const { return shared + kPeaksOffset + 4 * cfg::kColumnWarps * row; }

  // Leaves the maxima of the warp's keys for the others.
  TS_DEVICE void tell_peaks() const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float peak = __fmul_rn(quad_max(largest_score<false>(s, r, -kInfinity)), unit);
      if ((lane() & 3) == 0)
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(peaks(row_of_warp() + lane() / 4 + 8 * r) + 4 * share()), "f"(peak)
                     : "memory");
    }
  }

  // Scores to probabilities, by the maxima of all warps' keys: the rule of update_softmax, so that all warps of a row
  // come to the same base. The sums are those of the warp's own keys. `scales`: of the values of the step's keys.
  TS_DEVICE void exponentiate(u32 scales) {
    float factor[2], based = 1.0f;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = row_of_warp() + lane() / 4 + 8 * r;
      float peak = -kInfinity;
#pragma unroll
      for (int i = 0; i < cfg::kColumnWarps; ++i) {
        float other;
        asm volatile("ld.shared.f32 %0, [%1];" : "=f"(other) : "r"(peaks(row) + 4 * i) : "memory");
        peak = fmaxf(peak, other);
      }
      const float rise = peak - rows.peak[r];
      const bool risen = rise > kRise;  // false for a NaN: nothing seen before, and nothing now
      factor[r] = risen ? exp2_approx(-rise) : 1.0f;
      rows.peak[r] = risen ? peak : rows.peak[r];
      float base = rows.peak[r] == -kInfinity ? 0.0f : rows.peak[r];
      take_off_far(s, r, unit, is_far(base), base);
      float sum = 0.0f;
#pragma unroll
      for (int i = 2 * r; i < kScores; i += 4) {
        s[i] = exp2_approx(fmaf(s[i], unit, -base));
        s[i + 1] = exp2_approx(fmaf(s[i + 1], unit, -base));
        sum += s[i] + s[i + 1];
      }
      rows.sum[r] = fmaf(rows.sum[r], factor[r], sum);
    }
    if constexpr (kBasedScales) based = scale_base.follow<kTileKeys>(scales);
    if constexpr (kScaledRows)
      apply_scales(s, scales + 4 * share() * cfg::kTileN, kBasedScales ? scale_base.factor() : 1.0f);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = row_of_warp() + lane() / 4 + 8 * r;
      const u32 to = shared + kProbabilitiesOffset + row * kPitchP + 2 * (share() * cfg::kTileN + 2 * (lane() & 3));
#pragma unroll
      for (int i = 2 * r; i < kScores; i += 4)
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + 4 * (i - 2 * r)), "r"(pack<kValuesBf16>(s[i], s[i + 1]))
                     : "memory");
    }
    if (__any_sync(0xffffffffu, factor[0] != 1.0f || factor[1] != 1.0f || based != 1.0f)) {
#pragma unroll
      for (int i = 0; i < kWarpColumns / 2; ++i) o[i] *= factor[(i >> 1) & 1] * based;
    }
  }

  // Adds the warp's columns of all keys of a block.
  TS_DEVICE void multiply_values(u32 keys) {
    const u32 a_address = shared + kProbabilitiesOffset + (row_of_warp() + lane() % 16) * kPitchP + lane() / 16 * 16;
    const u32 values = keys + kKeyBytes * share() * kWarpColumns;
#pragma unroll
    for (int k = 0; k < kTileKeys / 16; ++k) {
      u32 a[4];
      load_matrices(a, a_address + 32 * k);
      add_values<kPitchK, kWarpColumns>(o, a, values + 16 * k * kPitchK);
    }
  }

  TS_DEVICE void walk() {
#pragma unroll
    for (int i = 0; i < kWarpColumns / 2; ++i) o[i] = 0.0f;
    rows = {{-kInfinity, -kInfinity}, {0.0f, 0.0f}};
    scale_base = {};
    const KeyRows keys(args, item, args.k, args.k_strides), scales(item, args.k_scale);
    const int steps = piece.end_tile - piece.first_tile;
    const int whole_end = key_end(args, item.length, item.query(args, 0));
    const int whole_begin = key_begin(args, item.length, item.query(args, item.rows(args) - 1));
    const auto copy = [&](int step) {
      if (step < steps) {
        copy_rows(stage(step), keys, step);
        if constexpr (kScaledRows) copy_scales(stage(step) + kScalesOfStage, scales, step);
      }
      copy_commit();
    };
    copy_queries();
#pragma unroll 1
    for (int step = 0; step < cfg::kStages; ++step) copy(step);

#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      const int first = first_key(step) + share() * cfg::kTileN;
      const u32 scales_of_step = stage(step) + kScalesOfStage;
      copy_wait_for<cfg::kStages - 1>();
      __syncthreads();
      if (kScaledQueries && step == 0) load_row_scales(row_scale);
      score(stage(step) + share() * cfg::kTileN * kPitchK);
      if constexpr (kScaledRows) apply_scales(s, scales_of_step + 4 * share() * cfg::kTileN);
      finish_logits_of(s, first, first + cfg::kTileN > whole_end || first < whole_begin);
      tell_peaks();
      __syncthreads();
      exponentiate(scales_of_step);
      __syncthreads();
      multiply_values(stage(step));
      __syncthreads();
      copy(step + cfg::kStages);
    }
    copy_wait();
    if constexpr (kBasedScales) {
#pragma unroll
      for (int i = 0; i < kWarpColumns / 2; ++i) o[i] *= scale_base.inverse();
    }
    if (cfg::kPaged && has_lost_keys(args, item, piece)) rows.sum[0] = rows.sum[1] = lost_sum();
  }

  // Leaves what the warps have where all threads find it.
  TS_DEVICE void spread() const {
    __syncthreads();  // queries and ring are free
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = row_of_warp() + lane() / 4 + 8 * r;
      spread_row<kWarpColumns>(shared + 4 * (row * kPitchO + share() * kWarpColumns), o, r);
      const float sum = quad_sum(rows.sum[r]);
      const u32 state = shared + kStatesOffset + row * kStatePitch;
      if ((lane() & 3) == 0) {
        if (share() == 0) asm volatile("st.shared.f32 [%0], %1;" ::"r"(state), "f"(base_logit(rows.peak[r])) : "memory");
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(state + 4 + 4 * share()), "f"(sum) : "memory");
      }
    }
    __syncthreads();
  }

  TS_DEVICE static float load_float(u32 address) {
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(address) : "memory");
    return x;
  }

  TS_DEVICE Joined<> join_warps(int row, int column) const {
    const u32 from = shared + kStatesOffset + row * kStatePitch;
    State state{load_float(from), 0.0f};
#pragma unroll
    for (int i = 0; i < cfg::kColumnWarps; ++i) state.sum += load_float(from + 4 + 4 * i);
    float values[4];
    load_floats(values, shared + 4 * (row * kPitchO + column));
    Joined<> joined;
    joined.add(state, values);
    return joined;
  }
};

}  // namespace ts

// The entry's name: a generated source sets the instance's own, which profilers then show.
#ifndef TS_ENTRY
#define TS_ENTRY ts_attention_fwd
#endif

extern "C" __global__ void __launch_bounds__(ts::kThreads, ts::cfg::kBlocksPerSm)
    TS_ENTRY(const __grid_constant__ TsCudaDecodeArgs args) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  const ts::u32 shared = ts::smem_address(dynamic_shared);
  if (args.join == TS_DECODE_JOINS) return ts::PartsJoin(args, shared).run();
  ts::wait_for_previous_kernel();
  ts::let_next_kernel_start();
  ts::LatentDecode decode(args, shared);
  decode.run();
}
