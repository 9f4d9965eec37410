// Random problems without tensors, and machines that are not at hand: choosing needs no more. Sizes are powers of two
// and odd ones, from empty to larger than any cache; traits that no kernel carries together occur.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <random>

#include "spec/cpu/facts.hpp"
#include "spec/cuda/spec.hpp"
#include "tilesmith/attention.hpp"
#include "tilesmith/gemm.hpp"

namespace tilesmith::testing {

/// A machine that runs every level there is, so that a test asks about all instructions wherever it runs.
inline CpuFacts every_level(int threads) {
  CpuFacts facts{.threads = threads, .levels = load_cpu_specs().value()};
  std::ranges::reverse(facts.levels);
  return facts;
}

inline const CudaSpec& cuda_arch(std::string_view name) {
  static const std::vector<CudaSpec> specs = load_cuda_specs().value();
  return *std::ranges::find_if(specs, [&](const CudaSpec& spec) { return spec.arch.text() == name; });
}

namespace detail {
template <class T>
T pick(std::mt19937& random, std::initializer_list<T> values) {
  return *(values.begin() + random() % values.size());
}
}  // namespace detail

inline AttentionProblem random_attention(unsigned seed) {
  std::mt19937 r(seed);
  AttentionProblem p;
  p.data_type = detail::pick(r, {DataType::bf16, DataType::bf16, DataType::fp16, DataType::fp32, DataType::fp8bf16});
  p.mode = r() % 4 == 0 ? SequenceMode::group : SequenceMode::batch;
  p.batch = detail::pick<std::int64_t>(r, {0, 1, 2, 4, 16, 33});
  p.heads_kv = detail::pick<std::int64_t>(r, {1, 2, 8});
  p.heads_q = p.heads_kv * detail::pick<std::int64_t>(r, {1, 1, 2, 4, 8, 12});
  p.seqlen_q = detail::pick<std::int64_t>(r, {0, 1, 3, 77, 128, 512, 1000, 4096, 16384});
  p.seqlen_k = detail::pick<std::int64_t>(r, {0, 1, 60, 128, 500, 512, 1024, 4096, 8191, 32768});
  p.head_dim_qk = p.head_dim_v = detail::pick<std::int64_t>(r, {32, 64, 96, 128, 192, 256, 40});
  if (p.head_dim_qk == 192 && r() % 2) p.head_dim_v = 128;
  p.mask = detail::pick(r, {MaskKind::none, MaskKind::none, MaskKind::top_left, MaskKind::bottom_right});
  if (r() % 4 == 0) p.window_left = 100;
  if (r() % 8 == 0) p.window_right = 10;
  p.bias = detail::pick(r, {BiasKind::none, BiasKind::none, BiasKind::none, BiasKind::elementwise, BiasKind::alibi});
  p.soft_cap = r() % 6 == 0;
  p.sink = r() % 6 == 0;
  p.dropout = r() % 6 == 0;
  p.lse = r() % 3 == 0;
  p.negative_scale = r() % 9 == 0;
  p.unaligned = r() % 7 == 0;
  p.unaligned_bias = r() % 3 == 0;
  if (p.data_type == DataType::fp8bf16) p.block_scale = r() % 3 == 0;
  return p;
}

inline GemmProblem random_gemm(unsigned seed) {
  std::mt19937 r(seed);
  GemmProblem p;
  const auto size = [&] {
    return detail::pick<std::int64_t>(r, {1, 2, 8, 16, 17, 64, 100, 128, 256, 500, 1024, 4096, 8192, 14336});
  };
  p.m = size();
  p.n = size();
  p.k = r() % 30 == 0 ? 0 : size();
  if (r() % 3 == 0) p.k = p.k * 8 + 3;
  p.batch = r() % 4 == 0 ? detail::pick<std::int64_t>(r, {2, 8, 64}) : 1;
  p.type_a = p.type_b = detail::pick(r, {DataType::bf16, DataType::bf16, DataType::fp16, DataType::fp32, DataType::fp8,
                                         DataType::int8, DataType::tf32});
  p.type_d = p.type_a == DataType::int8   ? detail::pick(r, {DataType::int32, DataType::bf16, DataType::fp32})
             : p.type_a == DataType::fp8  ? DataType::bf16
             : p.type_a == DataType::tf32 ? DataType::fp32
                                          : detail::pick(r, {p.type_a, DataType::fp32});
  p.type_c = p.type_bias = p.type_d == DataType::int32 ? DataType::fp32 : p.type_d;
  p.order_a = r() % 4 ? MatrixOrder::row : MatrixOrder::column;
  p.order_b = r() % 3 ? MatrixOrder::column : MatrixOrder::row;
  p.order_d = r() % 6 ? MatrixOrder::row : MatrixOrder::column;
  p.unaligned = r() % 6 == 0;
  if (p.type_d != DataType::int32) {
    p.beta = r() % 4 == 0;
    if (r() % 3 == 0) p.epilogue.push_back(EpilogueOp::bias);
    if (r() % 3 == 0) p.epilogue.push_back(detail::pick(r, {EpilogueOp::relu, EpilogueOp::gelu, EpilogueOp::silu}));
  }
  p.prefetch_weights = r() % 5 == 0;
  switch (r() % 8) {
    case 0:
      p.grouping = GemmGrouping::contiguous;
      p.batch = 8;
      p.beta = false;
      break;
    case 1:
      p.grouping = GemmGrouping::masked;
      p.batch = 8;
      p.beta = false;
      break;
    case 2:
      if (p.type_a == DataType::bf16) {
        p.type_b = detail::pick(r, {DataType::int8, DataType::int4});
        p.group_size = 128;
        p.type_scale = DataType::bf16;
        p.zero_points = r() % 2;
        p.k = (p.k + 127) / 128 * 128;
      }
      break;
    case 3:
      if (p.type_a == DataType::fp8) {
        p.group_size = 128;
      }
      break;
    case 4:
      p.k2 = size();
      break;
    case 5:
      p.packed_b = true;
      break;
    default:
      break;
  }
  return p;
}

}  // namespace tilesmith::testing
