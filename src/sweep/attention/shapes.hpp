// The attention shape matrix: named sweeps over shapes, in tiers of growing cost (data/attention_shapes.yaml, or a
// user's file of that form; `forward: [{axes: ...}, ...]` is enough of one).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/function_ref.hpp"
#include "sweep/field_axes.hpp"
#include "sweep/shard.hpp"
#include "sweep/tiers.hpp"
#include "tilesmith/attention.hpp"
#include "vocabulary/data_type.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith {

/// Keys that a query sees on the left and on the right of its own place; -1 is unbounded.
using AttentionWindow = std::array<std::int64_t, 2>;
inline constexpr AttentionWindow kNoWindow{-1, -1};

/// One attention problem of a sweep.
struct AttentionShape {
  std::int64_t batch = 1, seqlen_q = 1024, seqlen_k = 1024, heads_q = 16, heads_kv = 16, head_dim_qk = 128,
               head_dim_v = 128;
  DataType data_type = DataType::fp16;
  MaskKind mask = MaskKind::none;
  BiasKind bias = BiasKind::none;
  double dropout = 0;
  bool lse = false;
  AttentionWindow window = kNoWindow;
  bool soft_cap = false, sink = false, block_scale = false;
  AttentionProblem others{};  ///< the fields that nothing above says

  friend bool operator==(const AttentionShape&, const AttentionShape&) = default;

  /// "b2_q1024_k1024_h16x8_d128x128_fp16_top_left_nobias_p0.1_lse": the same text on every machine, in results and for
  /// sharding.
  [[nodiscard]] std::string id() const;
};

/// The values of each axis; the product of them all is the sweep, in this order with the last axis fastest.
struct AttentionAxes {
  std::vector<std::int64_t> batch, seqlen_q, seqlen_k, heads_q, heads_kv, head_dim_qk, head_dim_v;
  std::vector<DataType> data_type;
  std::vector<MaskKind> mask;
  std::vector<BiasKind> bias;
  std::vector<double> dropout;
  std::vector<bool> lse;
  std::vector<AttentionWindow> window{kNoWindow};
  std::vector<bool> soft_cap{false}, sink{false}, block_scale{false};
  FieldAxes<AttentionProblem> others{};  ///< fields that no axis above sets, by their names
};

struct AttentionShapeSweep {
  std::string id;
  std::string about;
  AttentionAxes axes;
  /// What the file says the sweep holds; 0 where it says nothing.
  struct Counts {
    std::int64_t shapes = 0, distinct = 0, pair_ok = 0, heads_ok = 0;
  } counts;

  /// How many shapes; the largest integer when there are more.
  [[nodiscard]] std::int64_t size() const;
  void for_each(FunctionRef<void(const AttentionShape&)> visit) const;
};

class AttentionShapes {
 public:
  /// The matrix compiled into the library.
  [[nodiscard]] static Result<AttentionShapes> builtin() { return load({}); }
  /// The built-in one when the path is empty.
  [[nodiscard]] static Result<AttentionShapes> load(const std::filesystem::path& path);
  /// `origin` begins every error message.
  [[nodiscard]] static Result<AttentionShapes> parse(std::string_view yaml, std::string_view origin);

  /// The sweeps of a kernel variant (fwd, splitkv, bwd...) in a tier (smoke, full, nightly) and the tiers it includes,
  /// in file order.
  [[nodiscard]] Result<std::vector<const AttentionShapeSweep*>> sweeps(std::string_view variant,
                                                                       std::string_view tier) const;
  /// Their shapes that belong to the shard, in order, repeats included.
  [[nodiscard]] Result<std::vector<AttentionShape>> shapes(std::string_view variant, std::string_view tier,
                                                           Shard shard = {}) const;
  /// How long one kernel may take on one shape, in seconds.
  [[nodiscard]] Result<int> timeout_s(std::string_view tier) const;

 private:
  friend class AttentionShapesReader;

  Tiers tiers_;
  std::map<std::string, std::string, std::less<>> variant_sections_;
  std::map<std::string, TieredSweeps<AttentionShapeSweep>, std::less<>> sections_;
};

/// The forward problems of a tier: from the file `path`, or the built-in matrix when it is empty; of the part `shard`.
/// Shapes that are listed twice come once, and those whose heads_q is no multiple of heads_kv, which no kernel
/// computes, are left out.
[[nodiscard]] Result<std::vector<AttentionProblem>> load_attention_problems(const std::filesystem::path& path,
                                                                            std::string_view tier, Shard shard);

}  // namespace tilesmith
