#include "instances/conv/ck.hpp"
#include "base/lasting.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace tilesmith {
namespace {

using Spec = AmdConvSpec;
using FragmentMn = Spec::FragmentMn;
using Feature = Spec::Feature;

constexpr int kTileMathLanes = 64;  // upstream's tile arithmetic counts on waves of 64 lanes everywhere

const std::vector<Shape3>& chip_fragments(const AmdChip& chip, DataType type) {
  static const auto& none = lasting(std::vector<Shape3>());
  const AmdFragments* table = chip.fragments_of(type, type, DataType::fp32);
  return table == nullptr ? none : table->shapes;
}

/// A wave layout and the m, n of a fragment; k follows from the tile (fragment_k).
struct WavesAndFragment {
  Shape3 waves{};
  FragmentMn fragment{};
  friend bool operator==(const WavesAndFragment&, const WavesAndFragment&) = default;
};

/// Every layout and fragment of the chip that tiles m and n exactly.
std::vector<WavesAndFragment> exact_pairs(const AmdChip& chip, DataType type, const Shape3& tile) {
  std::vector<WavesAndFragment> out;
  for (const Shape3& fragment : chip_fragments(chip, type)) {
    if (tile[0] % fragment[0] != 0 || tile[1] % fragment[1] != 0) continue;
    const int most_m = tile[0] / fragment[0], most_n = tile[1] / fragment[1];
    for (int repeat_m = 1; repeat_m <= most_m; ++repeat_m)
      for (int repeat_n = 1; repeat_n <= most_n; ++repeat_n) {
        if (most_m % repeat_m != 0 || most_n % repeat_n != 0) continue;
        for (const int waves_k : {1, 2}) {
          const Shape3 waves{static_cast<std::uint16_t>(most_m / repeat_m),
                             static_cast<std::uint16_t>(most_n / repeat_n), static_cast<std::uint16_t>(waves_k)};
          const WavesAndFragment pair{waves, {fragment[0], fragment[1]}};
          const bool listed = std::ranges::find(chip.waves_per_block, waves) != chip.waves_per_block.end();
          if (listed && std::ranges::find(out, pair) == out.end()) out.push_back(pair);
        }
      }
  }
  return out;
}

/// Fragments of 32x32 where each wave's part is made of such, else 16x16; a few tiles have their own.
std::vector<FragmentMn> curated_fragments(const Spec::Row& row, const Shape3& waves) {
  for (const auto& [own_waves, shapes] : row.fragments_mn)
    if (own_waves == waves) return shapes;
  const int m = row.tile[0] / waves[0], n = row.tile[1] / waves[1];
  const bool wide = m >= 32 && n >= 32 && m % 32 == 0 && n % 32 == 0;
  return {wide ? FragmentMn{32, 32} : FragmentMn{16, 16}};
}

std::vector<WavesAndFragment> pairs_of(const AmdConvQuery& query, const Spec::Row& row, DataType type) {
  const std::vector<WavesAndFragment> exact = exact_pairs(query.chip, type, row.tile);
  std::vector<WavesAndFragment> out;
  for (const Shape3& waves : row.waves)
    for (const FragmentMn& fragment : curated_fragments(row, waves)) {
      const auto& excluded = query.spec.excluded_fragments_mn;
      const bool divides = row.tile[0] % (waves[0] * fragment[0]) == 0 && row.tile[1] % (waves[1] * fragment[1]) == 0;
      const WavesAndFragment pair{waves, fragment};
      if (divides && std::ranges::find(excluded, fragment) == excluded.end() &&
          std::ranges::find(exact, pair) != exact.end())
        out.push_back(pair);
    }
  // The curated layouts are CDNA's; a chip that has none of them gets all that fit.
  return out.empty() ? exact : out;
}

/// The depth of the fragment: that of the current matrix unit, or of an earlier one for kernels that were written by
/// hand.
std::uint16_t fragment_k(DataType type, int fragment_m, int tile_k, bool legacy) {
  const bool single = type == DataType::fp32;
  if (legacy) return static_cast<std::uint16_t>(std::min(fragment_m == 32 ? 8 : 16, single ? tile_k / 4 : tile_k));
  const int load = tile_k <= 16 ? 4 : 8;
  const int unit = single ? (fragment_m == 32 ? 2 : 4) : (fragment_m == 32 ? 16 : 32);
  return static_cast<std::uint16_t>(std::min(std::max(load, unit), tile_k));
}

/// Whether accesses of these widths divide what each lane brings in, and are ones the chip has: at most 32 bytes, a
/// power of two.
bool vector_fits(const Shape3& tile, const Shape3& waves, DataType type, const Spec::Vector3& vector) {
  const int lanes = kTileMathLanes * waves[0] * waves[1] * waves[2];
  const int bytes = bits_of(type) / 8;
  const auto is_access = [&](int v) { return v <= 16 && (v & (v - 1)) == 0 && v * bytes <= 32; };
  const auto fits = [&](int v, int extent) {
    const int elements = extent * tile[2];
    if (elements % lanes != 0) return false;
    const int each = elements / lanes;
    return is_access(v) && each > 0 && (each % v == 0 || v % each == 0);
  };
  return fits(vector[0], tile[0]) && fits(vector[1], tile[1]) && is_access(vector[2]) && tile[1] % vector[2] == 0;
}

std::vector<ConvSpecialization> specializations_of(ConvDirection direction, const Shape3& tile) {
  using S = ConvSpecialization;
  if (direction != ConvDirection::forward) return {S::none, S::filter1x1_stride1_pad0};
  if (tile[2] == 8) return {S::none};
  std::vector<S> out = {S::none, S::filter1x1_pad0, S::filter1x1_stride1_pad0};
  if (tile[0] * tile[1] <= 4096) out.push_back(S::filter3x3);
  return out;
}

class Walk {
 public:
  Walk(const AmdConvQuery& query, ConfigSink sink) : query_(query), sink_(sink) {
    config_.origin = Origin::ck;
    config_.arch = query.chip.arch;
    config_.signature = ConvSignature{};
    dims_ = query.spatial_dims;
    if (dims_.empty()) dims_ = query.rule_set == ConvRuleSet::tiny ? std::vector<int>{2} : std::vector<int>{2, 3};
    types_ = query.data_types.empty() ? query.spec.data_types : query.data_types;
  }

  void full() {
    for (const ConvDirection direction : query_.directions) {
      for (const int dims : dims_)
        for (const DataType type : types_) of_type(direction, dims, type);
      if (direction == ConvDirection::forward && std::ranges::find(dims_, 2) != dims_.end()) depthwise();
    }
  }

  void defaults() {
    for (const ConvDirection direction : query_.directions)
      for (const int dims : dims_)
        for (const auto& [pipeline, epilogue] : spec(direction).default_pipelines)
          for (const Spec::DefaultKernel& kernel : query_.spec.default_kernels)
            if (pipeline != Pipeline::compv4 || kernel.compv4)
              default_kernel(direction, dims, pipeline, epilogue, kernel);
  }

 private:
  ConvSignature& signature() { return std::get<ConvSignature>(config_.signature); }
  [[nodiscard]] const Spec::Direction& spec(ConvDirection direction) const {
    return query_.spec.directions[static_cast<std::size_t>(direction)];
  }
  [[nodiscard]] AmdConvSubject subject() const { return {config_, query_.chip, query_.spec, query_.gemm}; }
  void send() { go_ = go_ && sink_(config_); }

  void start(ConvDirection direction, int dims, DataType type) {
    config_.signature = ConvSignature{};
    signature().direction = direction;
    signature().spatial_dims = static_cast<std::uint8_t>(dims);
    signature().data_type = type;
    config_.algorithm = Algorithm{};
    config_.algorithm.pad = {1, 1, 1, 0};
  }

  void of_type(ConvDirection direction, int dims, DataType type) {
    const Spec::Direction& d = spec(direction);
    for (const Spec::Row& row : d.rows) {
      const Spec::ByClass& facts = row.of(type);
      if (std::ranges::find(facts.spatial_dims, dims) != facts.spatial_dims.end())
        tile(direction, dims, type, row, nullptr);
    }
    for (const Feature& feature : d.features) {
      if (feature.half_only && type == DataType::fp32) continue;
      for (const Shape3& shape : feature.tiles) tile(direction, dims, type, *d.row(shape), &feature);
    }
  }

  void tile(ConvDirection direction, int dims, DataType type, const Spec::Row& row, const Feature* feature) {
    const Spec::ByClass& facts = row.of(type);
    const auto& pipelines = feature != nullptr && !feature->pipelines.empty() ? feature->pipelines : facts.pipelines;
    const bool legacy_tile = direction == query_.spec.legacy_direction &&
                             std::ranges::find(query_.spec.legacy_tiles, row.tile) != query_.spec.legacy_tiles.end();
    start(direction, dims, type);
    Algorithm& a = config_.algorithm;
    a.epilogue = Epilogue::cshuffle;
    if (feature != nullptr) {
      signature().two_stage = feature->two_stage;
      signature().large_tensor = feature->large_tensor;
      signature().stream_k_reduction = feature->stream_k;
      a.explicit_gemm = feature->explicit_gemm;
      a.groups_merged = static_cast<std::uint8_t>(feature->groups_merged);
      a.persistent = feature->persistent;
    }
    for (std::size_t i = 0; i < 3; ++i) a.tile[i] = row.tile[i];
    for (const WavesAndFragment& pair : pairs_of(query_, row, type)) {
      for (std::size_t i = 0; i < 3; ++i) a.wave[i] = pair.waves[i];
      a.warp[0] = pair.fragment[0];
      a.warp[1] = pair.fragment[1];
      for (const Spec::Vector3& vector : facts.vectors) {
        if (!vector_fits(row.tile, pair.waves, type, vector)) continue;
        a.vector = vector;
        for (const auto& [pipeline, scheduler] : pipelines) {
          // The wavelet pipeline has a kernel of its own, which the explicit GEMM does not call.
          if (pipeline == Pipeline::wavelet && a.explicit_gemm) continue;
          a.pipeline = pipeline;
          a.scheduler = scheduler;
          a.double_buffer = pipeline == Pipeline::compv4;
          const bool legacy = signature().stream_k_reduction != StreamKReduction::none ||
                              (legacy_tile && pipeline == query_.spec.legacy_pipeline);
          a.warp[2] = fragment_k(type, pair.fragment[0], row.tile[2], legacy);
          for (const ConvSpecialization specialization : specializations_of(direction, row.tile)) {
            signature().specialization = specialization;
            if (first_refusal(amd_conv_rules(), subject()) == nullptr) send();
            if (!go_) return;
          }
        }
      }
    }
  }

  void depthwise() {
    for (const Spec::Depthwise& kernel : query_.spec.depthwise)
      for (const DataType type : types_) {
        start(ConvDirection::forward, 2, type);
        const auto padding = static_cast<std::uint8_t>((kernel.filter - 1) / 2);
        signature().depthwise = true;
        signature().filter = {kernel.filter, kernel.filter};
        signature().stride = {kernel.stride_h, kernel.stride_w};
        signature().padding = {padding, padding};
        Algorithm& a = config_.algorithm;
        a.pad = {};
        a.pipeline = Pipeline::depthwise;
        a.tile = {kernel.tile_h, kernel.tile_w};
        a.subtile = {kernel.sub_h, kernel.sub_w};
        a.images = kernel.images;
        a.vector = {kernel.load, 0, kernel.store};
        send();
        if (!go_) return;
      }
  }

  void default_kernel(ConvDirection direction, int dims, Pipeline pipeline, Epilogue epilogue,
                      const Spec::DefaultKernel& kernel) {
    for (const bool two_stage : {false, true}) {
      if (two_stage && direction != ConvDirection::backward_weight) continue;
      for (const DataType type : types_) {
        start(direction, dims, type);
        signature().two_stage = two_stage;
        Algorithm& a = config_.algorithm;
        a.pipeline = pipeline;
        a.epilogue = epilogue;
        a.scheduler = Scheduler::intrawave;
        a.vector = query_.spec.default_vector;
        for (std::size_t i = 0; i < 3; ++i) {
          a.tile[i] = kernel.tile[i];
          a.wave[i] = kernel.waves[i];
          a.warp[i] = kernel.fragment[i];
        }
        if (pipeline == Pipeline::compv4) {
          a.tile[2] = static_cast<std::uint16_t>(2 * a.tile[2]);  // two stages of the same size
          a.double_buffer = true;
        }
        if (first_refusal(amd_conv_rules(), subject()) == nullptr &&
            first_refusal(amd_conv_chip_rules(), subject()) == nullptr)
          send();
        if (!go_) return;
      }
    }
  }

  const AmdConvQuery& query_;
  ConfigSink sink_;
  KernelConfig config_;
  std::vector<int> dims_;
  std::vector<DataType> types_;
  bool go_ = true;
};

/// What the smaller rule sets group kernels by: the first feature of this list that a kernel has, and its data type.
enum class Category : std::uint8_t {
  depthwise,
  stream_k,
  large_tensor,
  merged_groups,
  two_stage,
  explicit_gemm,
  regular
};
Category category_of(const KernelConfig& config) {
  const auto& s = std::get<ConvSignature>(config.signature);
  const Algorithm& a = config.algorithm;
  if (s.depthwise) return Category::depthwise;
  if (s.stream_k_reduction != StreamKReduction::none) return Category::stream_k;
  if (s.large_tensor) return Category::large_tensor;
  if (a.groups_merged > 1) return Category::merged_groups;
  if (s.two_stage) return Category::two_stage;
  return a.explicit_gemm ? Category::explicit_gemm : Category::regular;
}

std::vector<KernelConfig> all_of(const AmdConvQuery& query) {
  std::vector<KernelConfig> out;
  Walk(query, [&](const KernelConfig& config) {
    out.push_back(config);
    return true;
  }).full();
  return out;
}

/// Every fifth of each category, at least one; and the first of each pipeline and scheduler of a direction and type
/// that is left out by that.
std::vector<KernelConfig> test_selection(const std::vector<KernelConfig>& all) {
  const auto type_of = [](const KernelConfig& c) { return std::get<ConvSignature>(c.signature).data_type; };
  std::map<std::pair<Category, DataType>, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < all.size(); ++i) groups[{category_of(all[i]), type_of(all[i])}].push_back(i);
  std::set<std::size_t> chosen;
  for (const auto& [key, members] : groups) {
    for (std::size_t rank = 4; rank < members.size(); rank += 5) chosen.insert(members[rank]);
    if (members.size() < 5) chosen.insert(members.front());
  }
  using Combination = std::tuple<ConvDirection, DataType, Pipeline, Scheduler>;
  std::map<Combination, std::size_t> first;
  std::set<Combination> covered;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& s = std::get<ConvSignature>(all[i].signature);
    if (s.depthwise) continue;
    const Combination combination{s.direction, s.data_type, all[i].algorithm.pipeline, all[i].algorithm.scheduler};
    first.try_emplace(combination, i);
    if (chosen.contains(i)) covered.insert(combination);
  }
  for (const auto& [combination, index] : first)
    if (!covered.contains(combination)) chosen.insert(index);
  std::vector<KernelConfig> out;
  for (const std::size_t i : chosen) out.push_back(all[i]);
  return out;
}

/// The first kernel of each category, type and number of dimensions; then second ones, and so on, up to ten.
std::vector<KernelConfig> tiny_selection(const std::vector<KernelConfig>& tests) {
  constexpr std::size_t kAtLeast = 10;
  using Key = std::tuple<Category, DataType, int>;
  std::vector<std::pair<Key, std::vector<KernelConfig>>> groups;
  std::size_t longest = 0;
  for (const KernelConfig& config : tests) {
    const auto& s = std::get<ConvSignature>(config.signature);
    const Key key{category_of(config), s.data_type, s.spatial_dims};
    auto found = std::ranges::find(groups, key, &std::pair<Key, std::vector<KernelConfig>>::first);
    if (found == groups.end()) found = groups.insert(groups.end(), {key, {}});
    found->second.push_back(config);
    longest = std::max(longest, found->second.size());
  }
  std::vector<KernelConfig> out;
  for (std::size_t rank = 0; rank < longest && (rank == 0 || out.size() < kAtLeast); ++rank)
    for (const auto& [key, members] : groups)
      if (rank < members.size() && (rank == 0 || out.size() < kAtLeast)) out.push_back(members[rank]);
  return out;
}

}  // namespace

void enumerate_amd_conv(const AmdConvQuery& query, ConfigSink sink) {
  switch (query.rule_set) {
    case ConvRuleSet::full:
      Walk(query, sink).full();
      return;
    case ConvRuleSet::defaults:
      Walk(query, sink).defaults();
      return;
    case ConvRuleSet::full_tests:
    case ConvRuleSet::tiny:
      break;
  }
  // A selection needs the whole list: some thousands of configs.
  AmdConvQuery whole = query;
  if (whole.spatial_dims.empty() && query.rule_set == ConvRuleSet::tiny) whole.spatial_dims = {2};
  std::vector<KernelConfig> selected = test_selection(all_of(whole));
  if (query.rule_set == ConvRuleSet::tiny) selected = tiny_selection(selected);
  for (const KernelConfig& config : selected)
    if (!sink(config)) return;
}

}  // namespace tilesmith
