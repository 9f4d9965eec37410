// Coefficients of the model that predicts what attention forward takes (src/choose/attention/cpu_terms.hpp): data that
// tools/fit_model.py fitted to measurements.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "vocabulary/algorithm.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {

class JsonReader;

/// What a prediction is the weighted sum of, in this order: a cycle for each of what is counted. A vector is what the
/// level handles in a cycle.
///
///   products  vectors of multiplications and additions of floats
///   narrow    those of them where each load of a key serves a single vector of queries
///   far       vectors of keys and values that strips of queries read from beyond the first-level cache
///   softmax   vectors of scores
///   masked    those of them in blocks that a mask cuts
///   staging   vectors of keys and values: converted for a tile, packed for a call, or loaded for rows that share them
///   rows      vectors of queries and outputs
///   rescale   vectors of outputs, once for each block of keys that their queries walk over
///   blocks    of keys and a strip of queries
///   tasks     tiles, or parts of the keys
///   call      1
///   memory    that the tensors' bytes take to pass through it
inline constexpr std::array<std::string_view, 12> kCpuAttentionTerms = {"products", "narrow",  "far",  "softmax",
                                                                        "masked",   "staging", "rows", "rescale",
                                                                        "blocks",   "tasks",   "call", "memory"};
using CpuAttentionTerms = std::array<double, kCpuAttentionTerms.size()>;

struct CpuAttentionModel {
  struct Kernels {
    Pipeline pipeline = Pipeline::flash;
    DataType data_type = DataType::fp32;
    CpuAttentionTerms cycles{};
  };
  std::string command;  ///< that fitted the coefficients
  std::string date;     ///< of the fit
  std::vector<Kernels> kernels;

  /// Null where such kernels have none.
  [[nodiscard]] const CpuAttentionTerms* coefficients(Pipeline pipeline, DataType type) const;
};

[[nodiscard]] Result<CpuAttentionModel> read_cpu_attention_model(const JsonReader& reader);

}  // namespace tilesmith
