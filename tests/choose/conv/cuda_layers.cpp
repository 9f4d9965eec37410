#include "choose/conv/cuda_layers.hpp"

#include <algorithm>
#include <vector>

#include "spec/spec_files.hpp"

namespace tilesmith::testing {

const CudaSpec& hopper() {
  static const std::vector<CudaSpec> specs = load_cuda_specs().value();
  return *std::ranges::find_if(specs, [](const CudaSpec& spec) { return spec.arch.text() == "sm_90a"; });
}

ConvProblem conv_line(std::int64_t in, std::int64_t filter, std::int64_t stride, std::int64_t dilation,
                      std::int64_t pad) {
  ConvProblem p{.direction = ConvDirection::backward_data,
                .data_type = DataType::bf16,
                .type_out = DataType::bf16,
                .type_bias = DataType::bf16,
                .c = 64,
                .k = 64,
                .in_w = in,
                .filter_w = filter,
                .stride_w = stride,
                .dilation_w = dilation,
                .pad_w = pad};
  p.pad_high_w = std::max<std::int64_t>(pad, dilation * (filter - 1) + 1 - in - pad);
  return p;
}

}  // namespace tilesmith::testing
