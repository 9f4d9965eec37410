#include "codegen/essential.hpp"

#include "enumerate/cpu_attention.hpp"

namespace tilesmith {
namespace {

constexpr std::uint16_t kHeadDims[] = {64, 128};

/// The tile in the middle of what the level offers: no bad choice for any length.
const KernelConfig* middle(const std::vector<KernelConfig>& tiles) {
  return tiles.empty() ? nullptr : &tiles[tiles.size() / 2];
}

void add(std::vector<KernelConfig>& set, const CpuSpec& spec, const AttentionSignature& signature) {
  std::vector<KernelConfig> flash;
  enumerate_cpu_attention(spec, signature, [&](const KernelConfig& config) {
    if (config.algorithm.pipeline == Pipeline::flash) flash.push_back(config);
    return true;
  });
  if (const KernelConfig* chosen = middle(flash)) set.push_back(*chosen);
}

}  // namespace

std::vector<KernelConfig> essential_configs(const CpuSpec& spec) {
  std::vector<KernelConfig> set;
  AttentionSignature signature;
  signature.mask = MaskKind::generic;
  signature.lse = true;
  for (const DataType type : {DataType::fp32, DataType::bf16, DataType::fp16})
    for (const std::uint16_t dim : kHeadDims)
      for (const SequenceMode mode : {SequenceMode::batch, SequenceMode::group}) {
        signature.data_type = type;
        signature.head_dim_qk = signature.head_dim_v = dim;
        signature.mode = mode;
        signature.bias = BiasKind::none;
        signature.dropout = signature.logits_soft_cap = signature.sink = false;
        add(set, spec, signature);
        signature.logits_soft_cap = true;
        add(set, spec, signature);
        signature.logits_soft_cap = false;
        signature.bias = BiasKind::alibi;
        add(set, spec, signature);
        signature.bias = BiasKind::elementwise;
        signature.dropout = signature.sink = true;
        add(set, spec, signature);
      }
  return set;
}

}  // namespace tilesmith
