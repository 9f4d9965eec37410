// Enumeration of NVIDIA attention-backward instances. A recipe has three steps, whose kernels agree about a workspace
// (kernels/cuda/attention/backward/abi.h):
//   prepare  bwd_dot_do_o    the statistics of rows, and zeros where the products add
//   compute  bwd_dq_dk_dv    the products; the spec's tile table has its tiles
//   convert  bwd_convert_dq  dq, scaled and rounded, where it was added in memory; sums of partials
//   sum_bias bwd_dbias       dbias of a broadcast bias, in a fixed order; only of deterministic products with dbias
// The others follow from the products. Pipelines of these: warpspec, five of them, dq added in memory; flash and
// mma_sm80, eight of them, each gradient by blocks of its own rows. With `deterministic` the same call gives
// the same bits: what is added in memory is added in a fixed order, or nothing is.
#pragma once

#include "instances/attention_backward/cuda_resources.hpp"
#include "instances/rule.hpp"
#include "instances/sink.hpp"
#include "spec/cuda/spec.hpp"
#include "vocabulary/recipe.hpp"

namespace tilesmith {

/// What the rules look at.
struct CudaBackwardSubject {
  const KernelConfig& config;
  const CudaSpec& spec;

  [[nodiscard]] const AttentionSignature& signature() const { return config.attention(); }
  [[nodiscard]] const Algorithm& algorithm() const { return config.algorithm; }
  [[nodiscard]] bool is_products() const { return signature().family == AttentionFamily::bwd_dq_dk_dv; }
  [[nodiscard]] bool is_flash() const { return config.algorithm.pipeline == Pipeline::flash; }
  /// Whether the kernel multiplies by mma.sync: products on mma_sm80, and every bwd_dbias.
  [[nodiscard]] bool is_mma() const { return config.algorithm.pipeline == Pipeline::mma_sm80; }
  [[nodiscard]] bool is_bias_gradient() const { return signature().family == AttentionFamily::bwd_dbias; }
  [[nodiscard]] int tile_m() const { return config.algorithm.tile[0]; }
  [[nodiscard]] int tile_n() const { return config.algorithm.tile[1]; }
};

[[nodiscard]] std::span<const Rule<CudaBackwardSubject>> cuda_backward_rules();

/// The kernels of a problem whose products this config computes, in launch order.
[[nodiscard]] Recipe cuda_backward_recipe(const KernelConfig& products);

/// A config of the tile table, the row it was made from, and the first rule that refuses it; null: it is an instance.
/// Returns false to stop the walk.
using CudaBackwardVisit =
    FunctionRef<bool(const KernelConfig&, const CudaBackwardTile& row, const Rule<CudaBackwardSubject>* refused)>;

/// The space of one signature of bwd_dq_dk_dv: every row of the tile table that is meant for its head dims.
void walk_cuda_backward(const CudaSpec& spec, const AttentionSignature& signature, CudaBackwardVisit visit);

/// The signatures of bwd_dq_dk_dv that listings hold: every data type, head dim of the facts and trait, each once.
void listed_backward_signatures(const CudaSpec& spec, AttentionSignatureSink sink);

/// All instances of one architecture: the kernels of the recipes of every listed signature, each once.
void enumerate_cuda_backward(const CudaSpec& spec, ConfigSink sink);

}  // namespace tilesmith
