// A call of an attention kernel for AMD GPUs: tensors that end where memory ends, the kernel's arguments, and the check
// of every element against float64. How the kernel is run is the test's affair.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/cpu_kernel_harness.hpp"
#include "instances/attention/hip_resources.hpp"
#include "kernels/hip/attention/abi.h"
#include "verify/random_attention.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith::testing {

/// What a kernel computes for the problem.
[[nodiscard]] AttentionSignature hip_attention_signature(const AttentionTensors& tensors, bool lse, bool unaligned);

class HipAttentionProblem {
 public:
  /// A kernel of the pipeline flash; `problem` must outlive this.
  HipAttentionProblem(const KernelConfig& config, const HipAttentionResources& facts, const RandomAttention& problem);

  [[nodiscard]] const TsHipAttentionArgs& arguments() const { return args_; }
  [[nodiscard]] int blocks() const;
  /// What the kernel may read, and what it writes.
  struct Buffer {
    std::string_view name;
    const void* data;
    std::size_t bytes;
    bool written;
  };
  [[nodiscard]] std::vector<Buffer> buffers() const;
  /// What is wrong in the outputs, or was written beside them; empty: nothing.
  [[nodiscard]] std::string fault() const;
  /// Forgets the outputs.
  void clear();

 private:
  [[nodiscard]] std::size_t extent(const TensorStrides& strides, std::int64_t heads, std::int64_t rows,
                                   std::int64_t columns) const;

  AttentionSignature signature_;
  const AttentionTensors& tensors_;
  std::int64_t members_, rows_q_, rows_k_, pitch_;
  TensorView out_, lses_;
  std::unique_ptr<GuardedBytes> q_, k_, v_, o_, lse_;
  std::vector<Buffer> buffers_;
  TsHipAttentionArgs args_{};
};

}  // namespace tilesmith::testing
