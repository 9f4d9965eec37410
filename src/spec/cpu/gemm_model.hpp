// Coefficients of the model that predicts what GEMM takes (src/choose/gemm/cpu_terms.hpp): data that
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

namespace tilesmith {

class JsonReader;

/// What a prediction is the weighted sum of, in this order: a cycle for each of what is counted. A vector is one of the
/// level's registers.
///
///   products   cycles of multiplications at the instruction's rate, rows and columns that fill up micro-tiles included
///   dots       those of them that are of vectors along k
///   visits     of a micro-tile to a panel of B: each waits for its first words
///   reads_a    vectors of A that micro-tiles read
///   reads_b    vectors of B that they read from beyond the first-level cache
///   sums       vectors of sums that are loaded and stored again for more of k, and of parts of k
///   packed_a   vectors of A's words that are packed as they lie
///   turned_a   vectors of A's words whose columns become rows
///   packed_b   vectors of row-major B's words that are packed, or made on the way
///   turned_b   the same of column-major B, whose columns become rows where they are packed
///   runs       of B's elements in memory that are begun
///   folds      vectors of sums of products along k, whose lanes are added up
///   weights    vectors of B's words of a narrower type than A's
///   stored_b   vectors of packed B that several tasks read: they lie in memory between two stages
///   parts      elements of A and B that fill no vector, read one at a time
///   results    vectors of results
///   tails      elements of results that fill no vector, written one at a time
///   far        rows of results that a panel begins, where a task's lie in so many pages that none of them is followed
///              from panel to panel, and what of the wait for each no products hide
///   tasks      pieces that a thread takes at a time
///   call       1
///   stages     rounds of waking threads and waiting for them
///   shared     bytes that threads read of what others have in their caches
///   memory     that the matrices' bytes take to pass through it
inline constexpr std::array<std::string_view, 23> kCpuGemmTerms = {
    "products", "dots",     "visits", "reads_a", "reads_b", "sums",     "packed_a", "turned_a",
    "packed_b", "turned_b", "runs",   "folds",   "weights", "stored_b", "parts",    "results",
    "tails",    "far",      "tasks",  "call",    "stages",  "shared",   "memory"};
using CpuGemmTerms = std::array<double, kCpuGemmTerms.size()>;

struct CpuGemmModel {
  struct Kernels {
    Pipeline pipeline = Pipeline::blocked;
    std::optional<DataType> data_type{};  ///< of A; none: of types that have no coefficients of their own
    CpuGemmTerms cycles{};
  };
  std::string command;           ///< that fitted the coefficients
  std::string date;              ///< of the fit
  std::vector<Kernels> kernels;  ///< at least one

  /// Those of the kernels that are most alike: of the pipeline before those of the type.
  [[nodiscard]] const CpuGemmTerms& coefficients(Pipeline pipeline, DataType type) const;
};

[[nodiscard]] Result<CpuGemmModel> read_cpu_gemm_model(const JsonReader& reader);

}  // namespace tilesmith
