// The types of attention's tensors on Composable Kernel, by data type, and what generated units share.
#pragma once

#include <ck_tile/core.hpp>

#include "tilesmith_ck/attention.h"

namespace tilesmith_ck {

struct Fp32;
struct Fp16;
struct Bf16;
struct Fp8;
struct Bf8;
struct Fp8Bf16;
struct Fp8Fp32;

template <class Input, class BiasType, class Probability, class Output>
struct ForwardTypes {
  using Q = Input;
  using K = Input;
  using V = Input;
  using Bias = BiasType;
  using RandVal = std::uint8_t;
  using LSE = float;
  using Sacc = float;
  using SoftmaxCompute = float;
  using P = Probability;
  using Oacc = float;
  using O = Output;
};

template <class Tag>
struct AttentionTypes;
template <>
struct AttentionTypes<Fp32> : ForwardTypes<float, float, float, float> {};
template <>
struct AttentionTypes<Fp16> : ForwardTypes<ck_tile::half_t, ck_tile::half_t, ck_tile::half_t, ck_tile::half_t> {};
template <>
struct AttentionTypes<Bf16> : ForwardTypes<ck_tile::bf16_t, ck_tile::bf16_t, ck_tile::bf16_t, ck_tile::bf16_t> {};
template <>
struct AttentionTypes<Fp8> : ForwardTypes<ck_tile::fp8_t, float, ck_tile::fp8_t, ck_tile::fp8_t> {};
template <>
struct AttentionTypes<Bf8> : ForwardTypes<ck_tile::bf8_t, ck_tile::bf8_t, ck_tile::bf8_t, ck_tile::bf8_t> {};
template <>
struct AttentionTypes<Fp8Bf16> : ForwardTypes<ck_tile::fp8_t, float, ck_tile::fp8_t, ck_tile::bf16_t> {};
template <>
struct AttentionTypes<Fp8Fp32> : ForwardTypes<ck_tile::fp8_t, float, ck_tile::fp8_t, float> {};

template <class Input>
struct BackwardTypes {
  using Q = Input;
  using K = Input;
  using V = Input;
  using Gemm = Input;
  using Bias = Input;
  using RandVal = std::uint8_t;
  using LSE = float;
  using Acc = float;
  using D = float;
  using O = Input;
  using OGrad = Input;
  using QGrad = Input;
  using KGrad = Input;
  using VGrad = Input;
  using BiasGrad = Input;
};

template <class Tag>
struct GradientTypes;
template <>
struct GradientTypes<Fp32> : BackwardTypes<float> {};
template <>
struct GradientTypes<Fp16> : BackwardTypes<ck_tile::half_t> {};
template <>
struct GradientTypes<Bf16> : BackwardTypes<ck_tile::bf16_t> {};

/// The page table of batch_prefill, which has one of two forms.
template <class Kernel, KvLookup kLookup>
auto page_table(const AttentionArguments& a) {
  typename Kernel::PageBlockTableKargs table{};
  const auto figures = [](void* address) { return static_cast<const std::int32_t*>(address); };
  if constexpr (kLookup == KvLookup::vllm) {
    table.block_table_ptr = figures(a.block_table);
    table.batch_stride_block_table = a.batch_stride_block_table;
    table.seqlen_k_ptr = figures(a.seqlen_k_ptr);
  } else {
    table.kv_indptr = figures(a.kv_indptr);
    table.kv_page_indices = figures(a.kv_page_indices);
    table.kv_last_page_lens = figures(a.kv_last_page_lens);
  }
  return table;
}

}  // namespace tilesmith_ck
