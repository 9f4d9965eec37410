// How long a kernel of tiles of queries takes where one tile holds a key head's queries: beside decode's kernels, which
// cut the keys, that decides between them.
#pragma once

#include "choose/attention/cuda_model.hpp"

namespace tilesmith {

/// The figures that such a kernel's time is predicted by; null where the terms of longer problems do.
[[nodiscard]] const CudaFewQueriesModel* few_queries_model(const KernelConfig& config, const CudaSpec& spec,
                                                           const CudaAttentionShape& shape);

/// Seconds on the spec's reference chip, a launch included. The model for long sequences knows neither how few
/// microseconds a short one takes nor that a block alone waits for its copies.
[[nodiscard]] double few_queries_seconds(const KernelConfig& config, const CudaFewQueriesModel& model,
                                         const CudaSpec& spec, const CudaAttentionShape& shape);

}  // namespace tilesmith
