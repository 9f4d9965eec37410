// Copies of channels before and behind other kernels: kernels/cuda/conv/rowwise.
#include <fmt/format.h>

#include "instances/conv/cuda_pipelines.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

CudaConvResources rowwise_resources(const KernelConfig& config) {
  CudaConvResources r;
  r.threads = 32 * config.algorithm.wave[0];
  return r;
}

/// One serves all directions and results, and both types of 16 bits have their own, as a list of a type's kernels is
/// whole.
bool copies_channels(const ConvSignature& s) {
  return s.direction == ConvDirection::forward && bits_of(s.data_type) == 16 && s.type_out == s.data_type &&
         s.type_bias == s.data_type && s.epilogue_ops.empty() && s.spatial_dims == 3 && !s.depthwise;
}

std::vector<Algorithm> rowwise_algorithms(const ConvSignature& s, const CudaGemmTile& row) {
  if (!copies_channels(s)) return {};
  return {{.pipeline = Pipeline::rowwise,
           .instruction = Instruction::automatic,
           .wave = {static_cast<std::uint16_t>(row.wave.front())}}};
}

constexpr CudaConvRule kRowwiseRules[] = {
    {"channels_are_of_16_bits", "elements of 16 bits, of a forward convolution without an epilogue, whatever is copied",
     [](const CudaConvSubject& s) { return copies_channels(s.signature()); }, direction_and_type},
    {"fields_belong_to_pipeline", "one to 32 warps are its only option",
     [](const CudaConvSubject& s) {
       const Algorithm& a = s.algorithm();
       Algorithm rest{.pipeline = a.pipeline, .instruction = a.instruction};
       rest.wave[0] = a.wave[0];
       return a.wave[0] >= 1 && a.wave[0] <= 32 && rest == a;
     },
     [](const CudaConvSubject& s) { return fmt::format("{} warps", s.algorithm().wave[0]); }},
};

}  // namespace

const CudaConvPipeline& cuda_conv_rowwise() {
  static const CudaConvPipeline pipeline{kRowwiseRules, rowwise_resources, rowwise_algorithms};
  return pipeline;
}

}  // namespace tilesmith
