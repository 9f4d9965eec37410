// The GEMM shape lists: named sweeps over sizes, types, layouts and epilogues, in tiers of growing cost
// (data/gemm_shapes.yaml, or a user's file of that schema).
//
//   schema: 1                                             (this may be left out)
//   tiers: {smoke: {includes: [smoke], timeout_s: 60}}    (this too)
//   axis_defaults_when_absent: {dtype: [bf16]}
//   gemm:
//     smoke:
//       - id: projections
//         about: "one model's"                            (id and about too)
//         axes: {m: [1, 16], nk: [[4096, 4096], [28672, 4096]], dtype: [bf16,
//         fp16], epilogue: [[], [bias, gelu]]}
//
// `gemm: [{axes: ...}, ...]` are sweeps of the smoke tier. Sizes are m, n and k crossed, m crossed with pairs `nk`, or
// triples `mnk`. The other axes are batch, k2 (columns of A2 and rows of B2, a second product in the same sums; 0:
// none), dtype, dtype_b, dtype_out (both absent: the usual ones of dtype), grouping (none, contiguous, masked: batch
// counts the groups), group_size, dtype_scale and zero_points, packed (B, which the batch shares, is packed once before
// the calls that are measured: constant weights on a CPU), prefetch_weights (kernels of few rows may read B before the
// kernel before them ends), layout (the orders of A, B and D, as in rcr), epilogue (lists of operations) and beta. Each
// other field of the problem (type_c, type_bias, unaligned) is an axis by its own name.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/function_ref.hpp"
#include "sweep/field_axes.hpp"
#include "sweep/shard.hpp"
#include "sweep/tiers.hpp"
#include "tilesmith/gemm.hpp"

namespace tilesmith {

/// The values of each axis; the product of them all is the sweep, in this order with the last axis fastest.
struct GemmAxes {
  struct Orders {
    MatrixOrder a = MatrixOrder::row, b = MatrixOrder::column, d = MatrixOrder::row;
  };

  std::vector<std::int64_t> batch{1};
  std::vector<std::array<std::int64_t, 3>> mnk{{512, 512, 512}};
  std::vector<std::int64_t> k2{0};
  std::vector<DataType> dtype{DataType::bf16};
  std::vector<std::optional<DataType>> dtype_b{{}}, dtype_out{{}};  ///< absent: the usual ones
  std::vector<GemmGrouping> grouping{GemmGrouping::none};
  std::vector<std::int64_t> group_size{0};
  std::vector<DataType> dtype_scale{DataType::fp32};
  std::vector<bool> zero_points{false};
  std::vector<bool> packed{false};
  std::vector<bool> prefetch_weights{false};
  std::vector<Orders> layout{{}};
  std::vector<GemmEpilogue> epilogue{{}};
  std::vector<bool> beta{false};
  FieldAxes<GemmProblem> others{};  ///< fields that no axis above sets, by their names
};

struct GemmShapeSweep {
  std::string id;
  std::string about;
  GemmAxes axes;

  /// How many shapes; the largest integer when there are more.
  [[nodiscard]] std::int64_t size() const;
  void for_each(FunctionRef<void(const GemmProblem&)> visit) const;
};

class GemmShapes {
 public:
  /// The lists compiled into the library.
  [[nodiscard]] static Result<GemmShapes> builtin() { return load({}); }
  /// The built-in ones when the path is empty.
  [[nodiscard]] static Result<GemmShapes> load(const std::filesystem::path& path);
  /// `origin` begins every error message.
  [[nodiscard]] static Result<GemmShapes> parse(std::string_view yaml, std::string_view origin);

  /// The sweeps of a tier (smoke, full, nightly) and the tiers it includes, in file order.
  [[nodiscard]] Result<std::vector<const GemmShapeSweep*>> sweeps(std::string_view tier) const;
  /// How long one kernel may take on one shape, in seconds.
  [[nodiscard]] Result<int> timeout_s(std::string_view tier) const;

 private:
  friend class GemmShapesReader;

  Tiers tiers_;
  TieredSweeps<GemmShapeSweep> sweeps_;
};

/// The problems of a tier: from the file `path`, or the built-in lists when it is empty; of the part `shard`. Problems
/// that are listed twice come once. Their matrices are dense, and `unaligned` says what that makes of their rows.
[[nodiscard]] Result<std::vector<GemmProblem>> load_gemm_problems(const std::filesystem::path& path,
                                                                  std::string_view tier, Shard shard);

}  // namespace tilesmith
