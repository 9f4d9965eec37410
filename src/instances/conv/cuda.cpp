#include "instances/conv/cuda.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "instances/conv/cuda_asked.hpp"
#include "instances/conv/cuda_pipelines.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {
namespace {

using OfConv = CudaConvSubject;

constexpr std::array kCudaConvTypes{DataType::fp32, DataType::bf16, DataType::fp16};
constexpr std::array kNarrowConvTypes{DataType::fp8, DataType::int8};  // forward alone
constexpr std::array kCudaConvDirections{ConvDirection::forward, ConvDirection::backward_data,
                                         ConvDirection::backward_weight};

bool is_conv_type(DataType type) {
  return std::ranges::find(kCudaConvTypes, type) != kCudaConvTypes.end();
}

bool is_narrow(const ConvSignature& s) {
  return s.direction == ConvDirection::forward && std::ranges::count(kNarrowConvTypes, s.data_type) > 0;
}

bool result_is_carried(const ConvSignature& s) {
  if (s.data_type == DataType::int8 && s.type_out == DataType::int8) return true;
  if (is_narrow(s)) return is_conv_type(s.type_out);
  return s.type_out == s.data_type || s.type_out == DataType::fp32;
}

/// The first operation that no epilogue of a convolution has; `none` if there is none.
EpilogueOp uncarried_of_conv(const ConvSignature& s) {
  for (const EpilogueOp op : s.epilogue_ops)
    if (s.direction == ConvDirection::backward_weight || op == EpilogueOp::bias_m || op == EpilogueOp::scale_m ||
        is_gate(op) || op == EpilogueOp::amax)
      return op;
  return EpilogueOp::none;
}

/// What is left of a signature when the fields that CUDA kernels carry are reset.
bool nothing_else(const ConvSignature& s) {
  ConvSignature rest = s;
  rest.direction = ConvSignature{}.direction;
  rest.data_type = rest.type_out = rest.type_bias = ConvSignature{}.data_type;
  rest.epilogue_ops = {};
  rest.accumulator = ConvSignature{}.accumulator;
  rest.depthwise = false;
  rest.spatial_dims = ConvSignature{}.spatial_dims;
  return rest == ConvSignature{};
}

/// They look at signature, pipeline and instruction alone.
constexpr CudaConvRule kCommonRules[] = {
    {"signature_is_carried",
     "tensors are fp32, bf16 or fp16, forward also fp8 and int8; sums fp32, of int8 int32; results of the tensors' "
     "type "
     "or fp32, of 8 bits fp32, bf16 or fp16, of int8 also int8; up to three dimensions",
     [](const OfConv& s) {
       const ConvSignature& g = s.signature();
       return s.config.origin == Origin::own && nothing_else(g) && (is_conv_type(g.data_type) || is_narrow(g)) &&
              g.accumulator == (g.data_type == DataType::int8 ? DataType::int32 : DataType::fp32) &&
              result_is_carried(g) && is_conv_type(g.type_bias) && g.spatial_dims >= 1 && g.spatial_dims <= 3;
     },
     [](const OfConv& s) {
       return fmt::format("{} to {}, bias {}, {} dimensions", name_of(s.signature().data_type),
                          name_of(s.signature().type_out), name_of(s.signature().type_bias),
                          s.signature().spatial_dims);
     }},
    {"epilogue_is_carried", "no gates, amax or vectors along pixels; backward weight has no epilogue",
     [](const OfConv& s) { return uncarried_of_conv(s.signature()) == EpilogueOp::none; },
     [](const OfConv& s) {
       return fmt::format("{} of {}", name_of(uncarried_of_conv(s.signature())), name_of(s.signature().direction));
     }},
    {"chip_offers_pipeline", "the chip's spec lists the pipeline with this instruction, for this type",
     [](const OfConv& s) {
       const CudaGemmPipeline* listed = s.spec.conv.pipeline(s.algorithm().pipeline);
       return listed != nullptr && cuda_conv_pipeline(s.algorithm().pipeline) != nullptr &&
              listed->instruction == s.algorithm().instruction &&
              std::ranges::find(listed->data_types, s.signature().data_type) != listed->data_types.end();
     },
     [](const OfConv& s) {
       return fmt::format("{} with {} of {} on {}", name_of(s.algorithm().pipeline), name_of(s.algorithm().instruction),
                          name_of(s.signature().data_type), s.spec.arch.text());
     }},
};

std::span<const CudaConvRule> own_rules(Pipeline pipeline) {
  const CudaConvPipeline* own = cuda_conv_pipeline(pipeline);
  return own == nullptr ? std::span<const CudaConvRule>{} : own->rules;
}

}  // namespace

bool has_sizes_of_16_bits(const CudaConvSubject& subject) {
  const ConvSignature& s = subject.signature();
  return bits_of(s.data_type) == 16 && s.spatial_dims == 3 && !s.depthwise;
}

std::string direction_and_type(const CudaConvSubject& subject) {
  const ConvSignature& s = subject.signature();
  return fmt::format("{} of {}, {} dimensions, depthwise {}", name_of(s.direction), name_of(s.data_type),
                     s.spatial_dims, s.depthwise);
}

const CudaConvPipeline* cuda_conv_pipeline(Pipeline pipeline) {
  switch (pipeline) {
    case Pipeline::mma_sm80:
      return &cuda_conv_mma_sm80();
    case Pipeline::warp_specialized:
      return &cuda_conv_warp_specialized();
    case Pipeline::depthwise:
      return &cuda_conv_depthwise();
    case Pipeline::grouped:
      return &cuda_conv_grouped();
    case Pipeline::halo:
      return &cuda_conv_halo();
    case Pipeline::stem:
      return &cuda_conv_stem();
    case Pipeline::direct:
      return &cuda_conv_direct();
    case Pipeline::pointwise:
      return &cuda_conv_pointwise();
    case Pipeline::rowwise:
      return &cuda_conv_rowwise();
    default:
      return nullptr;
  }
}

CudaConvResources cuda_conv_resources(const KernelConfig& config) {
  const CudaConvPipeline* own = cuda_conv_pipeline(config.algorithm.pipeline);
  return own == nullptr ? CudaConvResources{} : own->resources(config);
}

const CudaConvRule* cuda_conv_refusal(const CudaConvSubject& subject) {
  const CudaConvRule* refused = first_refusal(std::span<const CudaConvRule>(kCommonRules), subject);
  return refused != nullptr ? refused : first_refusal(own_rules(subject.algorithm().pipeline), subject);
}

std::vector<RuleVerdict> cuda_conv_verdicts(const CudaConvSubject& subject) {
  std::vector<RuleVerdict> out = verdicts(std::span<const CudaConvRule>(kCommonRules), subject);
  for (RuleVerdict& verdict : verdicts(own_rules(subject.algorithm().pipeline), subject))
    out.push_back(std::move(verdict));
  return out;
}

const CudaGemmTile* cuda_conv_row(const KernelConfig& config, const CudaSpec& spec) {
  const CudaGemmPipeline* pipeline = spec.conv.pipeline(config.algorithm.pipeline);
  const CudaConvPipeline* own = cuda_conv_pipeline(config.algorithm.pipeline);
  if (pipeline == nullptr || own == nullptr) return nullptr;
  const auto& signature = std::get<ConvSignature>(config.signature);
  for (const CudaGemmTile& row : pipeline->tiles)
    if (std::ranges::count(own->algorithms(signature, row), config.algorithm) > 0) return &row;
  return nullptr;
}

void walk_cuda_conv(const CudaSpec& spec, const ConvSignature& signature, const CudaConvVisit& visit,
                    const CudaConvWanted& wanted) {
  CudaConvAsked(spec, signature).walk(visit, wanted);
}

void listed_cuda_conv_signatures(const CudaSpec& spec, const std::function<bool(const ConvSignature&)>& sink) {
  const auto list = [&](ConvDirection direction, DataType type, DataType out) {
    for (const GemmEpilogue& epilogue : spec.conv.epilogues)
      for (const int dims : {3, 2, 1})
        for (const bool depthwise : {false, true}) {
          if (depthwise && dims != 3) continue;
          ConvSignature s;
          s.depthwise = depthwise;
          s.direction = direction;
          s.data_type = type;
          if (type == DataType::int8) s.accumulator = DataType::int32;
          s.spatial_dims = static_cast<std::uint8_t>(dims);
          s.type_out = out;
          s.type_bias = out == DataType::int8 ? DataType::fp32 : out;
          s.epilogue_ops = epilogue;
          if (uncarried_of_conv(s) == EpilogueOp::none && !sink(s)) return false;
        }
    return true;
  };
  for (const ConvDirection direction : kCudaConvDirections)
    for (const DataType type : kCudaConvTypes) {
      if (!list(direction, type, type)) return;
      if (type != DataType::fp32 && !list(direction, type, DataType::fp32)) return;
    }
  for (const DataType type : kNarrowConvTypes)
    for (const DataType out : {DataType::bf16, DataType::fp32, DataType::int8})
      if ((out != DataType::int8 || type == out) && !list(ConvDirection::forward, type, out)) return;
}

void enumerate_cuda_conv(const CudaSpec& spec, ConfigSink sink) {
  bool wanted = true;
  listed_cuda_conv_signatures(spec, [&](const ConvSignature& signature) {
    walk_cuda_conv(spec, signature, [&](const KernelConfig& config, const CudaGemmTile&, const CudaConvRule* refused) {
      return wanted = refused != nullptr || sink(config);
    });
    return wanted;
  });
}

}  // namespace tilesmith
