// Coefficients of the model that predicts what convolution takes (src/choose/conv/cpu_terms.hpp): data that
// tools/fit_model.py fitted to measurements.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "vocabulary/algorithm.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith {

class JsonReader;

/// What a prediction is the weighted sum of, in this order: a cycle for each of what is counted. A vector is one of the
/// level's registers.
///
///   products   cycles of multiplications at the instruction's rate, rows that fill up micro-tiles included
///   loads      vectors and words that products read, where registers do not keep them
///   spread     those of them that are spread over the lanes of narrow groups
///   steps      of micro-tiles along the sum, or rows of taps of a run of pixels: each waits for the one before
///   lines      pixels at a tap, which are looked up
///   copied     vectors of the image that are brought into rows, or converted there
///   gathered   lines of channels, or of a row of the filter, that are copied one at a time
///   scattered  elements that are read one at a time
///   packing    vectors of w, or of y, that are packed
///   results    vectors of sums on their way to the result, and of partial sums
///   straddling vectors of the result that lie in two lines of a cache
///   tails      elements of the result that fill no vector, written one at a time
///   zeros      vectors of sums that are set to zero, where no tap reaches them
///   tasks      pieces that a thread takes at a time
///   call       1
///   memory     that the tensors' bytes take to pass through it
inline constexpr std::array<std::string_view, 16> kCpuConvTerms = {
    "products", "loads",   "spread",     "steps", "lines", "copied", "gathered", "scattered",
    "packing",  "results", "straddling", "tails", "zeros", "tasks",  "call",     "memory"};
using CpuConvTerms = std::array<double, kCpuConvTerms.size()>;

struct CpuConvModel {
  struct Kernels {
    Pipeline pipeline = Pipeline::blocked;
    ConvDirection direction = ConvDirection::forward;
    std::optional<DataType> data_type{};  ///< none: of types that have no coefficients of their own
    CpuConvTerms cycles{};
  };
  std::string command;           ///< that fitted the coefficients
  std::string date;              ///< of the fit
  std::vector<Kernels> kernels;  ///< at least one

  /// Those of the kernels that are most alike: of the direction before those of the pipeline before those of the type.
  [[nodiscard]] const CpuConvTerms& coefficients(Pipeline pipeline, ConvDirection direction, DataType type) const;
};

[[nodiscard]] Result<CpuConvModel> read_cpu_conv_model(const JsonReader& reader);

}  // namespace tilesmith
