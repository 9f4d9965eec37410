// The epilogue: the operations of cfg::kEpilogue on one slab of a tile, in registers.
//
// A slab is a row block of kColumns columns as mma and wgmma leave it (m16n8 tiles): v[4j]
// and v[4j + 1] are the thread's first row, columns 8j and 8j + 1 after its own first column; v[4j + 2] and v[4j + 3]
// the same columns of its second row, eight rows below. What the operations read is loaded ahead (`Operands`), so that
// one slab's memory latency hides behind the slab before it.
//
// Loading a tensor as the slab lies in registers takes 4 bytes of 8 rows at a time, which keeps the load unit busier
// than the tensor cores: a residual cost 8% at 4096^3. With cfg::kStagedTensors the copy engine brings the first tensor
// of 16 bits into shared memory, ahead of the end of the tile; of further ones a warp loads whole rows, 16 bytes a
// lane, and transposes them in the shared memory into which its share of the slab goes afterwards.
#pragma once

#include "../attention/mma_sm80/copy.cuh"
#include "types.cuh"

#include "../../gpu/gemm/activations.h"  // behind what it is made of

namespace ts::gemm {

// Where a thread's share of a slab lies in the problem. The limits are the first row and column that do not exist.
// Other operations on matrices (cuda/conv) have places and arguments of their own with these members, args.epilogue
// among them.
struct Place {
  int row, column;
  int row_limit, column_limit;
  i64 batch;    // entry of d and of tensors and vectors over m
  i64 batch_n;  // entry of vectors over n: b's

  // In elements: where the entry of a vector over n begins, or that of another operand; from there to column `at` of row
  // `r` of the thread's two; and from one column to the next.
  TS_DEVICE i64 entry_n(const TsCudaGemmOperand& o) const { return batch_n * o.batch_stride; }
  TS_DEVICE i64 entry(const TsCudaGemmOperand& o) const { return batch * o.batch_stride; }
  TS_DEVICE i64 in_entry(const TsCudaGemmOperand& o, int r, int at) const { return (row + 8 * r) * o.row_stride + at; }
  TS_DEVICE i64 column_step(const TsCudaGemmOperand&) const { return 1; }
};

constexpr bool is_gate(int operation) {
  return operation >= TS_GEMM_GATE_SILU && operation <= TS_GEMM_GATE_RELU;
}
constexpr bool is_tensor(int operation) {
  return operation == TS_GEMM_ADD || operation == TS_GEMM_MULTIPLY;
}
constexpr bool is_column_vector(int operation) {
  return operation == TS_GEMM_BIAS_N || operation == TS_GEMM_SCALE_N;
}
constexpr bool is_row_vector(int operation) {
  return operation == TS_GEMM_BIAS_M || operation == TS_GEMM_SCALE_M;
}
// Gates before operation `end`.
constexpr int gates_before(int end) {
  int gates = 0;
  for (int i = 0; i < end; ++i) gates += is_gate(cfg::kEpilogue[i]);
  return gates;
}
constexpr bool kGated = gates_before(cfg::kEpilogueLength) > 0;
// The tensor that the copy engine brings, or -1.
constexpr int copied_tensor() {
  for (int i = 0; cfg::kStagedTensors && i < cfg::kEpilogueLength; ++i) {
    if (is_tensor(cfg::kEpilogue[i]) && bytes_of(cfg::kEpilogueTypes[i]) == 2) return i;
  }
  return -1;
}
constexpr int kCopiedTensor = copied_tensor();
// Operations that keep something for every column in registers, ahead of time.
constexpr int column_readers() {
  int readers = 0;
  for (int i = 0; i < cfg::kEpilogueLength; ++i) {
    const int operation = cfg::kEpilogue[i];
    readers += i != kCopiedTensor && (is_tensor(operation) || is_column_vector(operation));
  }
  return readers;
}
constexpr bool amax_last() {
  for (int i = 0; i + 1 < cfg::kEpilogueLength; ++i) {
    if (cfg::kEpilogue[i] == TS_GEMM_AMAX) return false;
  }
  return true;
}
// int32 results: nothing but C, an int32 too.
constexpr bool integers_whole() {
  for (int i = 0; i < cfg::kEpilogueLength; ++i) {
    if (cfg::kEpilogue[i] != TS_GEMM_ADD || cfg::kEpilogueTypes[i] != TS_GEMM_S32) return false;
  }
  return cfg::kTypeA == TS_GEMM_S8;
}
static_assert(cfg::kEpilogueLength <= TS_GEMM_EPILOGUE_MAX, "the epilogue has at most 8 operations");
static_assert(gates_before(cfg::kEpilogueLength) <= 1, "one gate at most");
static_assert(amax_last(), "amax is the last operation");
static_assert(cfg::kTypeD != TS_GEMM_S32 || integers_whole(),
              "s32 output is the sum of s8 products and added s32 tensors");

// The place of 16-byte chunk 0 of a row of shared memory, exclusive-or'ed with the number of any other: the copy
// engine's swizzles, free of bank conflicts for the eight rows of a matrix.
template <int kRowBytes>
TS_DEVICE int swizzle(int row) {
  return (kRowBytes == 128 ? row : (kRowBytes == 64 ? row >> 1 : row >> 2)) & (kRowBytes / 16 - 1);
}

// The warp's 16 rows of shared memory; only with cfg::kStagedTensors.
struct Staging {
  u32 turn = 0;    // rows of the slab to come, where tensors are turned round
  u32 copied = 0;  // rows of the tensor that the copy engine brought
};

// An operation of d's transpose: what lies along n lies along m there.
constexpr int turned_operation(int operation) {
  return operation == TS_GEMM_BIAS_N    ? TS_GEMM_BIAS_M
         : operation == TS_GEMM_BIAS_M  ? TS_GEMM_BIAS_N
         : operation == TS_GEMM_SCALE_N ? TS_GEMM_SCALE_M
         : operation == TS_GEMM_SCALE_M ? TS_GEMM_SCALE_N
                                        : operation;
}

// What operation I reads for one slab. kTurned: the slab is one of d's transpose, and its place counts so; neither a
// tensor nor a gate is among the operations then.
template <int I, int kColumns, bool kTurned = false, bool kPresent = (I < cfg::kEpilogueLength)>
struct Operands {
  template <class Args, class Place>
  TS_DEVICE void load(const Args&, const Place&) {}
  template <class Args, class Place>
  TS_DEVICE void apply(const Args&, const Place&, float (&)[kColumns / 2], const Staging&) {}
};

// bf16 and fp8 outputs round away the error of the hardware's tanh (2^-11 of it), others get the exact one.
TS_DEVICE float tanh_of(float x) {
  if constexpr (cfg::kTypeD == TS_GEMM_BF16 || bytes_of(cfg::kTypeD) == 1) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  } else {
    return tanh_exact(x);
  }
}
template <int kOperation, class Operand>
TS_DEVICE float activate(float x, const Operand& operand) {
  if constexpr (kOperation == TS_GEMM_RELU || kOperation == TS_GEMM_GATE_RELU) return x < 0.0f ? 0.0f : x;
  if constexpr (kOperation == TS_GEMM_GELU || kOperation == TS_GEMM_GATE_GELU) return gelu(x);
  if constexpr (kOperation == TS_GEMM_GELU_TANH || kOperation == TS_GEMM_GATE_GELU_TANH) return gelu_tanh(x);
  if constexpr (kOperation == TS_GEMM_SILU || kOperation == TS_GEMM_GATE_SILU) return x * sigmoid(x);
  if constexpr (kOperation == TS_GEMM_SIGMOID || kOperation == TS_GEMM_GATE_SIGMOID) return sigmoid(x);
  if constexpr (kOperation == TS_GEMM_TANH) return tanh_of(x);
  if constexpr (kOperation == TS_GEMM_CLAMP)
    return x < operand.value ? operand.value : (x > operand.limit ? operand.limit : x);
}

template <int I, int kColumns, bool kTurned>
struct Operands<I, kColumns, kTurned, true> {
  static constexpr int kOperation = kTurned ? turned_operation(cfg::kEpilogue[I]) : cfg::kEpilogue[I];
  static constexpr int kType = cfg::kEpilogueTypes[I];
  static constexpr int kPairs = kColumns / 8;  // of a thread in a row
  static constexpr bool kStaged = cfg::kStagedTensors && is_tensor(kOperation) && bytes_of(kType) == 2;
  static constexpr bool kCopied = I == kCopiedTensor;
  // Behind a gate the even places hold the values of columns half as far to the right.
  static constexpr bool kHalf = gates_before(I) > 0;
  static constexpr int kShare = kHalf ? 2 : 1;
  static constexpr bool kInPairs = cfg::kPairs && !kHalf && !kTurned;  // rows may be odd in number
  static constexpr int kRowBytes = 2 * kColumns;  // staged
  static constexpr int kLanes = kRowBytes / 16;   // for a row
  static constexpr int kLoads = is_tensor(kOperation)          ? 2 * kPairs
                                : is_column_vector(kOperation) ? kPairs
                                : is_row_vector(kOperation)    ? 2
                                                               : 1;
  Pair<kType> loaded[kLoads];
  Operands<I + 1, kColumns, kTurned> rest;

  template <class Args, class Place>
  TS_DEVICE void load(const Args& args, const Place& place) {
    const auto& operand = args.epilogue[I];
    const char* const base =
        static_cast<const char*>(operand.data) +
        (is_column_vector(kOperation) ? place.entry_n(operand) : place.entry(operand)) * bytes_of(kType);
    const int first = place.column / kShare;
    int left = place.column_limit / kShare - first;
    // Elements there are from the thread's place in 8-column tile j on; behind a gate one at most is its own.
    const auto there = [&](int j) {
      const int count = left - 8 / kShare * j;
      return kHalf ? imin(count, 1) : count;
    };
    if constexpr (kCopied) {
      // The copy engine has loaded it.
    } else if constexpr (kStaged) {
      const bool wanted = kOperation != TS_GEMM_ADD || operand.value != 0.0f;
      const int lane = threadIdx.x & 31;
      const int column = place.column - 2 * (lane & 3) + lane % kLanes * 8;
#pragma unroll
      for (int i = 0; i < kPairs / 2; ++i) {
        const int row = place.row - lane / 4 + (i * 32 + lane) / kLanes;
        u32 words[4];
        load_chunk(words, base + (row * operand.row_stride + column) * 2,
                   wanted && row < place.row_limit && column < place.column_limit);
#pragma unroll
        for (int w = 0; w < 4; ++w) loaded[4 * i + w].words[0] = words[w];
      }
    } else if constexpr (is_tensor(kOperation)) {
      const bool wanted = kOperation != TS_GEMM_ADD || operand.value != 0.0f;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const bool inside = wanted && place.row + 8 * r < place.row_limit;
        const char* const at = base + place.in_entry(operand, r, first) * bytes_of(kType);
        const i64 step = (kInPairs ? 1 : place.column_step(operand)) * bytes_of(kType);
#pragma unroll
        for (int j = 0; j < kPairs; ++j)
          loaded[r * kPairs + j] = load_pair<kType, kInPairs>(at + 8 / kShare * j * step, inside ? there(j) : 0, step);
      }
    } else if constexpr (is_column_vector(kOperation)) {
      const char* at = base + first * bytes_of(kType);
      asm volatile("" : "+l"(at), "+r"(left));  // worked out once: the compiler would do it anew for each load
#pragma unroll
      for (int j = 0; j < kPairs; ++j)
        loaded[j] = load_pair<kType, kInPairs>(at + 8 / kShare * j * bytes_of(kType), there(j));
    } else if constexpr (is_row_vector(kOperation)) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = place.row + 8 * r;
        loaded[r] = load_pair<kType, false>(base + row * bytes_of(kType), row < place.row_limit ? 1 : 0);
      }
    }
    rest.load(args, place);
  }

  // From whole rows to the places of the slab, through the warp's 16 rows of shared memory at `stage`.
  TS_DEVICE void turn_round(u32 stage) {
    const int lane = threadIdx.x & 31;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kPairs / 2; ++i) {
      const int row = (i * 32 + lane) / kLanes;
      const u32 words[4] = {loaded[4 * i].words[0], loaded[4 * i + 1].words[0], loaded[4 * i + 2].words[0],
                            loaded[4 * i + 3].words[0]};
      store_shared(stage + row * kRowBytes + ((lane % kLanes ^ swizzle<kRowBytes>(row)) << 4), words);
    }
    __syncwarp();
    take(stage);
    __syncwarp();
  }

  // From 16 rows of shared memory, as the copy engine leaves them, to the places of the slab.
  TS_DEVICE void take(u32 rows) {
    const int lane = threadIdx.x & 31;
    const u32 line = rows + lane % 16 * kRowBytes;
    const int chunk = swizzle<kRowBytes>(lane % 16) ^ lane >> 4;
#pragma unroll
    for (int j = 0; j < kPairs; j += 2) {
      u32 words[4];
      load_matrices(words, line + ((chunk ^ j) << 4));
      loaded[j].words[0] = words[0];
      loaded[kPairs + j].words[0] = words[1];
      loaded[j + 1].words[0] = words[2];
      loaded[kPairs + j + 1].words[0] = words[3];
    }
  }

  // A gate leaves its result in the even places.
  template <class Args, class Place>
  TS_DEVICE void apply(const Args& args, const Place& place, float (&v)[kColumns / 2], const Staging& staging) {
    const auto& operand = args.epilogue[I];
    if constexpr (kCopied) {
      if (kOperation != TS_GEMM_ADD || operand.value != 0.0f) {
        take(staging.copied);
      } else {
#pragma unroll
        for (int i = 0; i < kLoads; ++i) loaded[i].words[0] = 0;
      }
    } else if constexpr (kStaged) {
      turn_round(staging.turn);
    }
    if constexpr (cfg::kTypeD == TS_GEMM_S32 && is_tensor(kOperation)) {
      // Sums wrap, in the bits of floats; `value` is a whole number.
      const int factor = static_cast<int>(operand.value);
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) {
        const u32 c = loaded[(i >> 1 & 1) * kPairs + (i >> 2)].words[i & 1];
        v[i] = as_float(bits_of(v[i]) + static_cast<u32>(factor) * c);
      }
    } else if constexpr (kOperation == TS_GEMM_AMAX) {
      float most = 0.0f;
#pragma unroll
      for (int i = 0; i < kColumns / 2; i += kGated ? 2 : 1) {
        const bool inside = place.row + 8 * (i >> 1 & 1) < place.row_limit &&
                            place.column + 8 * (i >> 2) + (i & 1) < place.column_limit;
        most = inside ? fmaxf(most, fabsf(v[i])) : most;
      }
#pragma unroll
      for (int lanes = 16; lanes > 0; lanes /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, lanes));
      // The order of floats that are not negative is that of their bits.
      if (threadIdx.x % 32 == 0) atomicMax(static_cast<unsigned int*>(operand.data), __float_as_uint(most));
    } else if constexpr (is_gate(kOperation)) {
#pragma unroll
      for (int i = 0; i < kColumns / 2; i += 2) v[i] = activate<kOperation>(v[i], operand) * v[i + 1];
    } else {
#pragma unroll
      for (int i = 0; i < kColumns / 2; i += 2) {
        const int r = i >> 1 & 1, j = i >> 2;
        if constexpr (is_tensor(kOperation) || is_column_vector(kOperation)) {
          float low, high;
          unpack<kType>(loaded[(is_tensor(kOperation) ? r * kPairs : 0) + j], low, high);
          if constexpr (kOperation == TS_GEMM_ADD) {
            v[i] = fmaf(operand.value, low, v[i]);
            if (!kHalf) v[i + 1] = fmaf(operand.value, high, v[i + 1]);
          } else if constexpr (kOperation == TS_GEMM_BIAS_N) {
            v[i] += low;
            if (!kHalf) v[i + 1] += high;
          } else {
            v[i] *= low;
            if (!kHalf) v[i + 1] *= high;
          }
        } else if constexpr (is_row_vector(kOperation)) {
          float value, unused;
          unpack<kType>(loaded[r], value, unused);
          v[i] = kOperation == TS_GEMM_BIAS_M ? v[i] + value : v[i] * value;
          if (!kHalf) v[i + 1] = kOperation == TS_GEMM_BIAS_M ? v[i + 1] + value : v[i + 1] * value;
        } else {
          v[i] = activate<kOperation>(v[i], operand);
          if (!kHalf) v[i + 1] = activate<kOperation>(v[i + 1], operand);
        }
      }
    }
    rest.apply(args, place, v, staging);
  }
};

// Writes a slab straight to memory, with any strides: what lies beyond the limits is left alone.
template <int kColumns>
TS_DEVICE void store_slab(const TsCudaGemmArgs& args, const Place& place, const float (&v)[kColumns / 2]) {
  constexpr int kBytes = bytes_of(cfg::kTypeD);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = place.row + 8 * r;
    char* const out =
        static_cast<char*>(args.d) +
        (place.batch * args.d_batch_stride + row * args.d_stride + (kGated ? place.column / 2 : place.column)) * kBytes;
    const int count = row < place.row_limit ? place.column_limit - place.column : 0;
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
      const Pair<cfg::kTypeD> pair = pack_pair<cfg::kTypeD>(v[4 * j + 2 * r], v[4 * j + 2 * r + 1]);
      if constexpr (kGated) {
        if (8 * j < count) store_bits<kBytes>(out + 4 * j * kBytes, pair.words[0]);
      } else {
        store_pair<cfg::kTypeD, cfg::kPairs>(out + 8 * j * kBytes, pair, count - 8 * j);
      }
    }
  }
}

}  // namespace ts::gemm
