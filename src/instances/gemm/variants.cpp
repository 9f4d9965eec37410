#include "instances/gemm/variants.hpp"

#include "instances/gemm/family.hpp"

namespace tilesmith {
namespace {

constexpr GemmGrouping kGroupings[] = {GemmGrouping::contiguous, GemmGrouping::masked};

std::vector<GemmSignature> with_block_scales_of(GemmSignature s) {
  std::vector<GemmSignature> out;
  s.qscale = QuantScale::blockscale;
  out.push_back(s);
  for (const GemmGrouping grouping : kGroupings) {
    s.grouping = grouping;
    out.push_back(s);
  }
  return out;
}

std::vector<GemmSignature> with_weights_of(GemmSignature s) {
  std::vector<GemmSignature> out;
  const DataType type = s.a;
  for (const DataType weights : {DataType::int8, DataType::int4})
    for (const DataType scale : {type, DataType::fp32}) {
      s.b = weights;
      s.scale = scale;
      out.push_back(s);
    }
  return out;
}

}  // namespace

std::vector<GemmSignature> variants_of(const GemmSignature& plain, GemmVariant variant) {
  GemmSignature s = plain;
  std::vector<GemmSignature> out;
  switch (variant) {
    case GemmVariant::standard:
      return {s};
    case GemmVariant::fp8_bf8:
      if (!is_fp8(s.a)) return {};
      s.b = s.a == DataType::fp8 ? DataType::bf8 : DataType::fp8;
      return {s};
    case GemmVariant::m_grouped:
      for (const GemmGrouping grouping : kGroupings) {
        s.grouping = grouping;
        out.push_back(s);
      }
      return out;
    case GemmVariant::blockscale:
      return is_fp8(s.a) ? with_block_scales_of(s) : out;
    case GemmVariant::weights:
      return s.a == DataType::fp16 || s.a == DataType::bf16 ? with_weights_of(s) : out;
    case GemmVariant::mm_plus_mm:
      s.mm_plus_mm = true;
      return {s};
  }
  return out;
}

}  // namespace tilesmith
