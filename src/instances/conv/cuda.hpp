// Enumeration of NVIDIA convolution instances. A tile is a row of the chip's table (specs/cuda/*.json, "conv"); what an
// instance of it may be, each pipeline says in a file of its own (cuda_pipelines.hpp).
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "instances/rule.hpp"
#include "instances/sink.hpp"
#include "spec/cuda/spec.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

struct CudaConvSubject {
  const KernelConfig& config;
  const CudaSpec& spec;

  [[nodiscard]] const ConvSignature& signature() const { return std::get<ConvSignature>(config.signature); }
  [[nodiscard]] const Algorithm& algorithm() const { return config.algorithm; }
};
using CudaConvRule = Rule<CudaConvSubject>;

/// The first rule that refuses, or null: of all pipelines, then of the config's own.
[[nodiscard]] const CudaConvRule* cuda_conv_refusal(const CudaConvSubject& subject);
[[nodiscard]] std::vector<RuleVerdict> cuda_conv_verdicts(const CudaConvSubject& subject);

/// The row of the tile table that a config is made from; null where there is none.
[[nodiscard]] const CudaGemmTile* cuda_conv_row(const KernelConfig& config, const CudaSpec& spec);

/// What a walk shows: a config, its row, and the rule that refuses it or null. Returns whether to go on.
using CudaConvVisit =
    std::function<bool(const KernelConfig& config, const CudaGemmTile& row, const CudaConvRule* refused)>;

/// What a walk is to visit; without a condition all.
struct CudaConvWanted {
  std::function<bool(Pipeline pipeline)> pipeline;         ///< asked before its configs are made
  std::function<bool(const KernelConfig& config)> config;  ///< asked before its rules
};

/// Every config of a signature that is wanted, by the chip's table and the widths of access.
void walk_cuda_conv(const CudaSpec& spec, const ConvSignature& signature, const CudaConvVisit& visit,
                    const CudaConvWanted& wanted = {});

/// The signatures that lists hold, of all types and directions; their instances.
void listed_cuda_conv_signatures(const CudaSpec& spec, const std::function<bool(const ConvSignature&)>& sink);
void enumerate_cuda_conv(const CudaSpec& spec, ConfigSink sink);

}  // namespace tilesmith
