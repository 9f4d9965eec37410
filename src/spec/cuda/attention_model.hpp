// Coefficients of the model that predicts what attention takes (src/choose/attention/cuda_terms.hpp): data that
// tools/fit_model.py fitted to measurements.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "vocabulary/algorithm.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {

class JsonReader;

/// What a prediction is the weighted sum of, in this order: seconds; of what is counted, a microsecond each.
///
///   launch    1
///   rounds    of tiles, on the SM that has most of them, each as many microseconds as its row of the tile table says
///   steps     blocks of keys that one place for a tile walks over, one after another
///   products  of all tiles that share an SM, at the row's share of the chip's peak
///   narrower  products that heads as wide as the row allows would have more: the rest of a step takes as long for all
///   copies    bytes of steps, by one warp of those that copy them, at an SM's share of the chip's bandwidth
///   memory    queries, keys, values and outputs once, at the chip's bandwidth
inline constexpr std::array<std::string_view, 7> kCudaAttentionTerms = {"launch",   "rounds", "steps", "products",
                                                                        "narrower", "copies", "memory"};
using CudaAttentionTerms = std::array<double, kCudaAttentionTerms.size()>;

/// How many times as long a kernel takes that is predicted here, on keys of 8 bits beside wider queries.
struct NarrowKeys {
  int head_dim;
  double times;
};

/// Picoseconds that an SM takes longer for a score: for dropout, slopes, a bias that the copy engine brings to shared
/// memory, and one that threads load.
struct CudaScorePicoseconds {
  double dropout = 0, alibi = 0, copied_bias = 0, loaded_bias = 0;
};

struct CudaAttentionModel {
  std::string command;                  ///< that fitted the coefficients
  std::string date;                     ///< of the fit
  std::vector<DataType> data_types;     ///< that it was fitted for
  double first_choice_share = 1;        ///< the tile table's first choice counts as if it took this share of its time
  std::vector<NarrowKeys> narrow_keys;  ///< by rising head dims
  /// How many times as long a persistent kernel takes whose tiles are dealt before it begins, where they are of
  /// different lengths: behind a mask, in packed sequences, in pages.
  double dealt_uneven_times = 1;
  double idle_rows = 0;  ///< what rows of a tile's warpgroups that have no query take, of those that have one
  /// What an SM has of a persistent kernel's tiles of different lengths beyond the mean of SMs, of a tile, where blocks
  /// take them as they come.
  double uneven_end = 1;
  /// Nanoseconds that an SM takes for 128 bytes of a row of keys or values where rows are no multiple of 32 bytes, so
  /// that these lie in five sectors; and for what is left of such a row, in a box of its own or in one that it cuts.
  double straddling_box_ns = 0, rest_box_ns = 0, cut_box_ns = 0;
  /// Nanoseconds that an SM takes for an element which a thread loads or stores by itself: to do so, and to wait for it
  /// where a warp is the only one on its SM. Others wait at the same time.
  double element_ns = 0, element_wait_ns = 0;
  double missing_block = 0;  ///< a step takes this share longer for each block less on its SM than a kernel is made for
  std::vector<std::pair<Pipeline, CudaAttentionTerms>> pipelines;
  std::vector<std::pair<Pipeline, CudaScorePicoseconds>> scores;  ///< of pipelines whose traits were measured

  /// Null where the pipeline has none.
  [[nodiscard]] const CudaAttentionTerms* coefficients(Pipeline pipeline) const;
  /// Null where the pipeline has none.
  [[nodiscard]] const CudaScorePicoseconds* score_picoseconds(Pipeline pipeline) const;
  /// Of rows of so many elements: the figure of the next head dim that has one, of the last beyond it; 1 without any.
  [[nodiscard]] double narrow_keys_times(int head_dim) const;
};

[[nodiscard]] Result<CudaAttentionModel> read_cuda_attention_model(const JsonReader& reader);

}  // namespace tilesmith
