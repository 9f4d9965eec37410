// From scores to probabilities, and from the products of do and v to the gradients of scores: the traits of the contract
// that touch single pairs, on the accumulators of m64nN and m16nN products (registers 4j, 4j + 1: the thread's first row,
// columns 8j and 8j + 1 from its first one; 4j + 2, 4j + 3: its second row, eight rows below).
//
// kKeyRows: rows are keys and columns are queries, else the other way round.
#pragma once

#include "../philox.cuh"
#include "window.cuh"

namespace ts {

// What a tile's pairs need of the call; the same for all of a thread's tiles of one head.
struct Call {
  const TsCudaAttentionBackwardArgs& args;
  float unit;       // from a dot product to a logit in units of log2; with a soft cap to the cap's exponent
  float cap;        // the cap, in units of log2
  float slope;      // of ALiBi, negative, in units of log2
  float keep_scale; // of kept probabilities
  const float* bias;
  float* dbias;
  int batch, head, diagonal;
  float of_slope = 0.0f;  // the thread's share of the gradient by the slope, negated

  TS_DEVICE explicit Call(const TsCudaAttentionBackwardArgs& a) : args(a) {
    unit = args.scale * kLog2e;
    cap = 0.0f;
    if constexpr (cfg::kSoftCap) {
      unit = args.scale * (2.0f * kLog2e) / args.soft_cap;
      cap = args.soft_cap * kLog2e;
    }
    keep_scale =
        cfg::kDropout ? 65536.0f / static_cast<float>(65536u - args.drop_threshold) : 1.0f;
    slope = 0.0f;
    bias = nullptr;
    dbias = nullptr;
    batch = head = diagonal = 0;
  }
  TS_DEVICE void enter(const Sequence& s, int b, int h) {
    batch = b;
    head = h;
    diagonal = s.diagonal(args);
    if constexpr (cfg::kAlibi)
      slope = args.alibi == nullptr ? 0.0f : -kLog2e * args.alibi[b * args.alibi_batch_stride + h];
    if constexpr (cfg::kBias) {
      if (args.bias != nullptr) bias = args.bias + b * args.bias_strides.batch + h * args.bias_strides.head;
    }
    if constexpr (cfg::kDbias) {
      if (args.grad.dbias != nullptr)
        dbias = args.grad.dbias + b * args.grad.dbias_strides.batch + h * args.grad.dbias_strides.head;
    }
  }
};

// The thread's place in the problem: its first row and first column.
struct Place {
  int row, column;
};

// What the second half needs of the first.
template <int N>
struct PairState {
  float slope[cfg::kSoftCap ? N : 1];       // of the soft cap
  u32 kept[cfg::kDropout ? (N + 31) / 32 : 1];  // a bit for each pair
};

template <bool kKeyRows, int N>
struct Pairs {
  using Floats = float[N];
  static TS_DEVICE int row(int i) { return 8 * (i >> 1 & 1); }
  static TS_DEVICE int column(int i) { return 8 * (i >> 2) + (i & 1); }
  static TS_DEVICE int query(const Place& p, int i) { return kKeyRows ? p.column + column(i) : p.row + row(i); }
  static TS_DEVICE int key(const Place& p, int i) { return kKeyRows ? p.row + row(i) : p.column + column(i); }

  // Which bits of `kept` belong to pairs that dropout keeps. `scratch`: 512 bytes of shared memory of the warp. A call
  // of Philox serves eight keys of a query; two tiles of eight columns take one call a lane.
  static TS_DEVICE void draw(const Call& call, const Place& place, u32 scratch, PairState<N>& state) {
    Philox philox;
    philox.start(call.args, static_cast<u32>(call.batch * call.args.heads_q + call.head));
    const int lane = threadIdx.x & 31, quad = lane & 3, group = lane >> 2;
    const u32 bound = call.args.drop_threshold;
    const int first_row = place.row - group, first_column = place.column - 2 * quad;
#pragma unroll
    for (int w = 0; w < (N + 31) / 32; ++w) state.kept[w] = 0;
#pragma unroll
    for (int i = 0; i < N; i += 8) {
      // With key rows lane l draws for query l / 2 of 16 and group of keys l % 2 of 2. Else for query l / 2 of 16 and for
      // group l % 2 of the columns' two.
      const int pair_query = (kKeyRows ? first_column + 2 * i : first_row) + (lane >> 1);
      const int pair_group = ((kKeyRows ? first_row : first_column + 2 * i) >> 3) + (lane & 1);
      u32 words[4];
      philox.draw(pair_group, pair_query, words);
      __syncwarp();
      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(scratch + 16 * lane), "r"(words[0]), "r"(words[1]),
                   "r"(words[2]), "r"(words[3])
                   : "memory");
      __syncwarp();
#pragma unroll
      for (int j = i; j < i + 8; ++j) {
        // The pair's row and column among 16 x 16.
        const int r = group + row(j), c = 2 * quad + column(j) - 2 * i;
        const int q = kKeyRows ? c : r, k = kKeyRows ? r : c;
        u32 value;
        asm volatile("{ .reg .b16 h; ld.shared.b16 h, [%1]; cvt.u32.u16 %0, h; }"
                     : "=r"(value)
                     : "r"(scratch + 16 * (2 * q + (k >> 3)) + 2 * (k & 7))
                     : "memory");
        if (value >= bound) state.kept[j / 32] |= 1u << j % 32;
      }
    }
  }
  static TS_DEVICE bool is_kept(const PairState<N>& state, int i) {
    return !cfg::kDropout || (state.kept[i / 32] >> i % 32 & 1);
  }

  // A bias along the thread's rows and columns. Columns are at distances that are known when this is compiled, so that a
  // pair takes no multiplication of numbers of 64 bits but by a constant.
  struct Bias {
    const float* rows[2];
    long long step;  // from a column to the next
    int columns[2];  // of the thread's rows, those that there are, from its first one

    TS_DEVICE Bias(const Call& call, const Window& window, const Place& place) {
      const TsStrides& strides = call.args.bias_strides;
      const int length_rows = kKeyRows ? window.length_k : window.length_q;
      const int length_columns = kKeyRows ? window.length_q : window.length_k;
      step = kKeyRows ? strides.row : strides.column;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = place.row + 8 * r;
        rows[r] = call.bias + row * (kKeyRows ? strides.column : strides.row) + place.column * step;
        columns[r] = call.bias != nullptr && row < length_rows ? length_columns - place.column : 0;
      }
    }
    TS_DEVICE float operator()(int i) const {
      const int r = i >> 1 & 1;
      return column(i) < columns[r] ? rows[r][column(i) * step] : 0.0f;
    }
  };

  // Scores become probabilities before dropout, those of registers kBegin .. kEnd - 1. `lse(j)` gives the base of registers
  // 4j .. 4j + 3: with key rows of columns 8j and 8j + 1, else of the two rows. Hidden pairs become anything.
  template <int kBegin, int kEnd, class Lse>
  static TS_DEVICE void some_probabilities(const Call& call, const Window& window, const Place& place, const Lse& lse,
                                           Floats& s, PairState<N>& state) {
    const Bias bias(call, window, place);
#pragma unroll
    for (int j = kBegin; j < kEnd; j += 4) {
      const float2 base = lse(j / 4);
#pragma unroll
      for (int i = j; i < j + 4; ++i) {
        const float l = (kKeyRows ? i & 1 : i >> 1 & 1) ? base.y : base.x;
        if constexpr (!cfg::kSoftCap && !cfg::kBias && !cfg::kAlibi) {
          s[i] = exp2_approx(fmaf(s[i], call.unit, -l));
        } else {
          // From the base on: each term takes one instruction, and a large bias meets the base that has it, too.
          float t = -l;
          const int q = query(place, i), k = key(place, i);
          if constexpr (cfg::kBias) t = fmaf(bias(i), kLog2e, t);
          if constexpr (cfg::kAlibi) t = fmaf(call.slope, fabsf(static_cast<float>(q + call.diagonal - k)), t);
          if constexpr (cfg::kSoftCap) {
            const float e = exp2_approx(fminf(s[i] * call.unit, 60.0f));
            const float inverse = rcp_approx(e + 1.0f);
            t += fmaf(-2.0f * inverse, call.cap, call.cap);
            state.slope[i] = 4.0f * (e * inverse) * inverse;
          } else {
            t = fmaf(s[i], call.unit, t);
          }
          s[i] = exp2_approx(t);
        }
      }
    }
  }
  // All of them; hidden pairs get 0 where the tile is `masked`.
  template <class Lse>
  static TS_DEVICE void probabilities(const Call& call, const Window& window, const Place& place, bool masked,
                                      const Lse& lse, Floats& s, PairState<N>& state) {
    some_probabilities<0, N>(call, window, place, lse, s, state);
    if (masked) hide(window, place, s);
  }

  // Zeroes hidden pairs.
  static TS_DEVICE void hide(const Window& window, const Place& place, Floats& s) {
    Range visible[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      visible[r] = kKeyRows ? window.queries_of(place.row + 8 * r) : window.keys_of(place.row + 8 * r);
      visible[r].begin -= place.column;
      visible[r].end -= place.column;
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const int r = i >> 1 & 1;
      const bool before = (kKeyRows ? cfg::kMaskRight : cfg::kMaskLeft) && column(i) < visible[r].begin;
      if (before || column(i) >= visible[r].end) s[i] = 0.0f;
    }
  }

  // Probabilities as an operand of 16 bits: after dropout, before its scale.
  static TS_DEVICE void pack_kept(const Floats& s, const PairState<N>& state, u32 (&packed)[N / 2]) {
#pragma unroll
    for (int i = 0; i < N; i += 2)
      packed[i / 2] =
          pack<cfg::kBf16>(is_kept(state, i) ? s[i] : 0.0f, is_kept(state, i + 1) ? s[i + 1] : 0.0f);
  }

  // From probabilities `p` and products `dp` of do and v to the gradients of logits (the contract's dt), in dp.
  // `delta(j)` as `lse`.
  template <class Delta>
  static TS_DEVICE void gradients_of_logits(const Call& call, const Window& window, const Place& place, bool masked,
                                            const Delta& delta, const Floats& p, const PairState<N>& state,
                                            Floats& dp) {
#pragma unroll
    for (int j = 0; j < N; j += 4) {
      const float2 both = delta(j / 4);
#pragma unroll
      for (int i = j; i < j + 4; ++i) {
        const float d = (kKeyRows ? i & 1 : i >> 1 & 1) ? both.y : both.x;
        if constexpr (cfg::kDropout) {
          dp[i] = p[i] * fmaf(is_kept(state, i) ? call.keep_scale : 0.0f, dp[i], -d);
        } else {
          dp[i] = p[i] * (dp[i] - d);
        }
      }
    }
    // What is hidden may be anything, also NaN.
    if (masked) hide(window, place, dp);
  }
  // The same to the gradients of scores, and what the logits' are wanted for.
  template <class Delta>
  static TS_DEVICE void gradients(Call& call, const Window& window, const Place& place, bool masked,
                                  const Delta& delta, const Floats& p, const PairState<N>& state, Floats& dp) {
    gradients_of_logits(call, window, place, masked, delta, p, state, dp);
    if constexpr (cfg::kDbias) add_dbias(call, window, place, dp);
    if constexpr (cfg::kDalibi) {
#pragma unroll
      for (int i = 0; i < N; ++i)
        call.of_slope = fmaf(dp[i], fabsf(static_cast<float>(query(place, i) + call.diagonal - key(place, i))),
                             call.of_slope);
    }
    if constexpr (cfg::kSoftCap) {
#pragma unroll
      for (int i = 0; i < N; ++i) dp[i] *= state.slope[i];
    }
  }

  // With ordered additions the call has no dbias whose elements are sums: those have a kernel of their own.
  static TS_DEVICE void add_dbias(const Call& call, const Window& window, const Place& place, const Floats& dt) {
    if (call.dbias == nullptr) return;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const int q = query(place, i), k = key(place, i);
      if (q >= window.length_q || k >= window.length_k) continue;
      float* const to = call.dbias + q * call.args.grad.dbias_strides.row + k * call.args.grad.dbias_strides.column;
      if constexpr (cfg::kDeterministic) {
        *to = dt[i];
      } else {
        asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(to), "f"(dt[i]) : "memory");
      }
    }
  }

  static TS_DEVICE void pack_all(const Floats& s, u32 (&packed)[N / 2]) {
#pragma unroll
    for (int i = 0; i < N; i += 2) packed[i / 2] = pack<cfg::kBf16>(s[i], s[i + 1]);
  }
};

}  // namespace ts
