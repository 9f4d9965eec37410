// What a CUDA attention instance's time consists of: terms whose weighted sum is the prediction. The
// weights are the spec's (CudaAttentionModel).
#pragma once

#include "choose/attention/cuda_model.hpp"

namespace tilesmith {

/// In the order of kCudaAttentionTerms. `row` is the row of the tile table that the config was made from.
[[nodiscard]] CudaAttentionTerms cuda_attention_terms(const KernelConfig& config, const CudaTile& row,
                                                      const CudaSpec& spec, const CudaAttentionShape& shape);

/// Nanoseconds that an SM takes for a row of keys or values that the copy engine brings: nothing that products do not
/// hide, unless the row straddles sectors.
[[nodiscard]] double row_ns(int head_dim, DataType type, bool exact_boxes, const CudaAttentionModel& model);

/// Whether the spec's coefficients are for problems of this signature: of every pipeline that has its type. Traits
/// whose tiles the table knows by measurement, biases and dropout, are not in what the coefficients were fitted to.
[[nodiscard]] bool is_fitted_for(const CudaSpec& spec, const AttentionSignature& signature);

}  // namespace tilesmith
