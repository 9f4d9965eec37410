// The epilogue: the operations of cfg::kEpilogue on values of one row that lie beside one another, in registers.
#pragma once

#include "types.h"

#include "../../gpu/gemm/activations.h"

namespace ts::gemm {

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
constexpr int gates_before(int end) {
  int gates = 0;
  for (int i = 0; i < end; ++i) gates += is_gate(cfg::kEpilogue[i]);
  return gates;
}
constexpr bool kAmax = cfg::kEpilogueLength > 0 && cfg::kEpilogue[imax(cfg::kEpilogueLength - 1, 0)] == TS_GEMM_AMAX;
static_assert(cfg::kEpilogueLength <= TS_GEMM_EPILOGUE_MAX, "the epilogue has at most 8 operations");
static_assert(gates_before(cfg::kEpilogueLength) <= 1, "one gate at most");
static_assert(cfg::kTypeD != TS_GEMM_S32 || cfg::kEpilogueLength == 0, "integer sums are stored as they are");

// Where values lie in D: `column` is that of the first, before a gate of twice as many columns.
struct Place {
  int row, column, columns, batch;
};

template <int kOperation>
TS_DEVICE float activate(float x, const TsHipGemmOperand& operand) {
  if constexpr (kOperation == TS_GEMM_RELU || kOperation == TS_GEMM_GATE_RELU) return x < 0.0f ? 0.0f : x;
  if constexpr (kOperation == TS_GEMM_GELU || kOperation == TS_GEMM_GATE_GELU) return gelu(x);
  if constexpr (kOperation == TS_GEMM_GELU_TANH || kOperation == TS_GEMM_GATE_GELU_TANH) return gelu_tanh(x);
  if constexpr (kOperation == TS_GEMM_SILU || kOperation == TS_GEMM_GATE_SILU) return x * sigmoid(x);
  if constexpr (kOperation == TS_GEMM_SIGMOID || kOperation == TS_GEMM_GATE_SIGMOID) return sigmoid(x);
  if constexpr (kOperation == TS_GEMM_TANH) return tanh_exact(x);
  if constexpr (kOperation == TS_GEMM_CLAMP)
    return x < operand.value ? operand.value : (x > operand.limit ? operand.limit : x);
}

// One operation on kCount values, of which those at columns from place.columns on mean nothing.
template <int I, int kCount>
TS_DEVICE void apply(const TsHipGemmArgs& args, const Place& place, float (&v)[kCount]) {
  constexpr int kOperation = cfg::kEpilogue[I], kType = cfg::kEpilogueTypes[I];
  const TsHipGemmOperand& operand = args.epilogue[I];
  const u8* const base = static_cast<const u8*>(operand.data) + place.batch * operand.batch_stride * bytes_of(kType);
  const int count = place.columns - place.column;
  if constexpr (is_tensor(kOperation)) {
    if (kOperation == TS_GEMM_ADD && operand.value == 0.0f) return;
    float other[kCount];
    load_elements<kType, kCount, cfg::kWide>(base + (place.row * operand.row_stride + place.column) * bytes_of(kType),
                                             count, other);
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      v[i] = kOperation == TS_GEMM_ADD ? fmaf(operand.value, other[i], v[i]) : v[i] * other[i];
  } else if constexpr (is_column_vector(kOperation)) {
    float other[kCount];
    load_elements<kType, kCount, cfg::kWide>(base + place.column * bytes_of(kType), count, other);
#pragma unroll
    for (int i = 0; i < kCount; ++i) v[i] = kOperation == TS_GEMM_BIAS_N ? v[i] + other[i] : v[i] * other[i];
  } else if constexpr (is_row_vector(kOperation)) {
    float other[1];
    load_elements<kType, 1, false>(base + place.row * bytes_of(kType), 1, other);
#pragma unroll
    for (int i = 0; i < kCount; ++i) v[i] = kOperation == TS_GEMM_BIAS_M ? v[i] + other[0] : v[i] * other[0];
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) v[i] = activate<kOperation>(v[i], operand);
  }
}

// The operations from I on, and the result to D; `most` becomes the largest size of these, where that is asked for.
template <int I, int kCount>
TS_DEVICE void finish(const TsHipGemmArgs& args, Place place, float (&v)[kCount], float& most) {
  if constexpr (I == cfg::kEpilogueLength) {
    constexpr int kBytes = bytes_of(cfg::kTypeD);
    u8* const to =
        static_cast<u8*>(args.d) + (place.batch * args.d_batch + place.row * args.d_leading + place.column) * kBytes;
    store_elements<cfg::kTypeD, kCount, cfg::kWide>(to, place.columns - place.column, v);
  } else if constexpr (cfg::kEpilogue[I] == TS_GEMM_AMAX) {
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (place.column + i < place.columns) most = fmaxf(most, fabsf(v[i]));
    finish<I + 1, kCount>(args, place, v, most);
  } else if constexpr (is_gate(cfg::kEpilogue[I])) {
    float joined[kCount / 2];
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i)
      joined[i] = activate<cfg::kEpilogue[I]>(v[2 * i], args.epilogue[I]) * v[2 * i + 1];
    place.column /= 2;
    place.columns /= 2;
    finish<I + 1, kCount / 2>(args, place, joined, most);
  } else {
    apply<I, kCount>(args, place, v);
    finish<I + 1, kCount>(args, place, v, most);
  }
}

}  // namespace ts::gemm
