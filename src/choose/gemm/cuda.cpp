#include "choose/gemm/cuda.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "choose/gemm/cuda_model.hpp"
#include "choose/gemm/cuda_work.hpp"
#include "choose/gemm/gpu_signature.hpp"
#include "choose/gpu_serves.hpp"
#include "choose/rounding.hpp"
#include "instances/gemm/cuda_rows.hpp"
#include "instances/gemm/family.hpp"
#include "problem/gemm/transpose.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

constexpr int kFewRows = 16;

/// Tiles of few rows that precede all others where they suit: beside weights and groups, and where they bring B early,
/// which the estimate of others does not know. Else streams are ranked by their time.
bool precedes(const Algorithm& algorithm, const CudaGemmShape& shape) {
  if (algorithm.tile[0] > kFewRows) return false;
  if (algorithm.pipeline == Pipeline::skinny) return true;
  return algorithm.pipeline == Pipeline::skinny_tma && (shape.prefetch_weights || shape.grouping != GemmGrouping::none);
}

bool is_first_for(const CudaGemmTile& row, const GemmSignature& signature, const CudaGemmShape& shape) {
  if (!row.first_for || !is_along_k(signature) || shape.batch != 1) return false;
  // Measured on rows that straddle nothing; tiles of one row share no panel of B, so clusters have nothing to bring.
  if (shape.m > row.tile_m && straddling(signature, shape).a) return false;
  const CudaGemmCondition& c = *row.first_for;
  return (!c.element_bytes || *c.element_bytes == bits_of(signature.a) / 8) && (!c.most_m || shape.m <= *c.most_m) &&
         (!c.most_n || shape.n <= *c.most_n) && (!c.most_k || shape.k + shape.k2 <= *c.most_k);
}

/// What a walk over the space finds of a config that the rules accept and the problem suits.
struct Found {
  const KernelConfig& config;
  const CudaGemmResources& facts;
  const CudaGemmTile& row;
  const CudaGemmWork& work;
  int place;   ///< the row's in the pipeline's table, from 1
  bool first;  ///< the row is a first choice for the shape
};

/// Orders what it is given, and hears of no refusals.
class Ranker {
 public:
  static constexpr bool kHearsRefusals = false;

  Ranker(const CudaSpec& spec, const CudaGemmShape& shape) : spec_(spec), shape_(shape) { ranked_.reserve(256); }

  void accept(const Found& found) {
    // First choices were measured with more than a few rows and on chips a quarter full or more. What a row leaves to
    // others since it fills them unevenly is no later row's, which was measured at other sizes.
    const bool fills =
        found.first && shape_.m > kFewRows && 4 * found.work.items >= cuda_gemm_places(found.facts, spec_);
    const bool is_measured = fills && !fills_unevenly(found) && !passed_over_;
    passed_over_ |= fills && !is_measured;
    const bool is_before = precedes(found.config.algorithm, shape_), by_table = is_measured || is_before;
    const double seconds = predicted_seconds(found.config, found.facts, &found.row, spec_, shape_, found.work);
    ranked_.push_back({{.recipe = found.config,
                        .predicted_seconds = seconds,
                        .source = by_table ? ChoiceSource::table : ChoiceSource::model},
                       is_before                  ? kBefore
                       : is_measured              ? found.place
                       : found.row.stream_k       ? kShared
                       : found.row.split_k_atomic ? kAdded
                                                  : kOthers,
                       std::llround(1e12 * seconds)});
  }

  [[nodiscard]] std::vector<Candidate> take() {
    demote_slow_first_choices();
    std::vector<Order> order;
    order.reserve(ranked_.size());
    for (const Ranked& r : ranked_) order.push_back(order_of(r, order.size()));
    std::sort(order.begin(), order.end());
    std::vector<Candidate> out;
    out.reserve(ranked_.size());
    for (const Order& each : order) out.push_back(std::move(ranked_[each.number].candidate));
    return out;
  }

 private:
  static constexpr int kBefore = -1000, kOthers = 1000, kShared = 1001, kAdded = 1002;

  struct Ranked {
    Candidate candidate;
    int place;  // few rows, then the table's first choices in their order, then the rest
    long long picoseconds;
  };

  /// Where memory decides, tiles of several sizes are said to take as long. The least then took 0.3 to 6 % less than
  /// the one the table has first, in all of eight problems of 18 to 122 rows, and tiles that take turns longer (H200).
  /// A cluster counts as all of its tiles: 143 x 57344 x 8192 took 0.6 and 129 x 27648 x 5120 2.9 % longer by fours.
  struct Order {
    long long picoseconds;
    int place;
    int size;
    bool in_turns;
    std::uint32_t number;  ///< of those ranked

    friend bool operator<(const Order& a, const Order& b) {
      if (a.place != b.place) return a.place < b.place;
      if (a.picoseconds != b.picoseconds) return a.picoseconds < b.picoseconds;
      return std::tie(a.size, a.in_turns, a.number) < std::tie(b.size, b.in_turns, b.number);
    }
  };
  static Order order_of(const Ranked& r, std::size_t number) {
    const Algorithm& a = r.candidate.recipe.main().algorithm;
    const int size = a.pipeline == Pipeline::warp_specialized ? a.tile[0] * a.tile[1] * a.cluster[0] * a.cluster[1] : 0;
    return {r.picoseconds, r.place, size, a.ping_pong, static_cast<std::uint32_t>(number)};
  }

  /// First choices had a tile for less than half of the SMs or for nearly all: between, some have their way to memory
  /// alone and others share it (49 x 4608 x 3584 by 64 x 64). More rounds than one were nearly whole ones (25 x 32768 x
  /// 512 in 2.2 rounds of 64 x 112 takes 12.8 us, and 10.6 by 64 x 128; H200).
  bool fills_unevenly(const Found& found) const {
    const std::int64_t places = cuda_gemm_places(found.facts, spec_), items = found.work.items;
    const bool between = shape_.m <= found.config.algorithm.tile[0] && 2 * items > places && 4 * items < 3 * places;
    return between || (items > places && 10 * items < 9 * places * ceil_div(items, places));
  }

  /// First choices were measured among what there was, at a few sizes: where the model sees another take clearly less
  /// time, it is believed. Where it saw 0.90 to 0.96 of the time, in eight of 20 problems of 21 to 94 rows, it was
  /// right, and so it was in three of 28 and 51 rows where it saw 0.988; with 0.993 it was wrong twice.
  void demote_slow_first_choices() {
    constexpr double kFar = 0.99;
    double least = std::numeric_limits<double>::infinity();
    for (const Ranked& r : ranked_) least = std::min(least, r.candidate.predicted_seconds);
    const Ranked* front = nullptr;
    for (const Ranked& r : ranked_)
      if (is_first_choice(r) && (front == nullptr || r.place < front->place)) front = &r;
    const auto is_slow = [&](const Ranked& r) { return least < kFar * r.candidate.predicted_seconds; };
    const bool all = front != nullptr && is_slow(*front);
    for (Ranked& r : ranked_)
      if (is_first_choice(r) && (all || is_slow(r))) {
        r.place = kOthers;
        r.candidate.source = ChoiceSource::model;
      }
  }
  static bool is_first_choice(const Ranked& r) { return r.place > 0 && r.place < kOthers; }

  const CudaSpec& spec_;
  const CudaGemmShape& shape_;
  std::vector<Ranked> ranked_;
  bool passed_over_ = false;
};

/// Prices what it is given, and hears of no refusals.
class Pricer {
 public:
  static constexpr bool kHearsRefusals = false;

  Pricer(const CudaSpec& spec, const CudaGemmShape& shape, FunctionRef<void(const CudaGemmPriced&)> show)
      : spec_(spec), shape_(shape), show_(show) {}

  void accept(const Found& found) {
    show_({found.config, found.facts, found.row, found.work,
           predicted_seconds(found.config, found.facts, &found.row, spec_, shape_, found.work)});
  }

 private:
  const CudaSpec& spec_;
  const CudaGemmShape& shape_;
  FunctionRef<void(const CudaGemmPriced&)> show_;
};

/// Lists what is refused.
class Refuser {
 public:
  static constexpr bool kHearsRefusals = true;

  Refuser(const CudaSpec& spec, const std::vector<Candidate>& candidates) : spec_(spec), list_(candidates) {}

  void accept(const Found&) {}
  void refuse(const KernelConfig& config, const CudaGemmRule& rule) { list_.add(rule, CudaGemmSubject{config, spec_}); }
  void refuse(const KernelConfig& config, std::string_view reason, std::string figures) {
    list_.add(config, reason, std::move(figures));
  }
  [[nodiscard]] std::vector<Refusal> take() { return list_.take(); }

 private:
  const CudaSpec& spec_;
  RefusalList list_;
};

/// Walks the space of a signature: every row of the tile table that is meant for it, with every width of access. The
/// rules are asked in parts: pipeline, tile, access.
template <class Visitor>
class SpaceWalk {
 public:
  SpaceWalk(const CudaSpec& spec, const GemmSignature& signature, const CudaGemmShape& shape, CudaGemmAsked& asked,
            Visitor& visitor)
      : spec_(spec),
        signature_(signature),
        shape_(shape),
        asked_(asked),
        visitor_(visitor),
        config_{.arch = spec.arch, .signature = signature, .algorithm = {}} {}

  void run() {
    for (CudaGemmAsked::Rows& rows : asked_.pipelines()) walk(rows);
  }

 private:
  void walk(CudaGemmAsked::Rows& rows) {
    const auto lacks = [&](const CudaGemmTile& tile) {
      return lacks_rows(rows.pipeline->pipeline, tile.tile_m, shape_);
    };
    if (!Visitor::kHearsRefusals && (rows.refused != nullptr || std::ranges::all_of(rows.pipeline->tiles, lacks)))
      return;
    std::vector<CudaGemmAsked::Row>& all = asked_.rows_of(rows);
    // A tile may be the first choice for several shapes; otherwise the table has it once.
    std::vector<bool> taken(all.size()), taken_first(all.size());
    for (CudaGemmAsked::Row& row : all) {
      const CudaGemmTile& tile = *row.tile;
      const bool first = is_first_for(tile, signature_, shape_);
      const bool for_others = tile.first_for.has_value() && !first;
      if (!Visitor::kHearsRefusals && (for_others || lacks(tile))) continue;
      if (!for_others && (tile.first_for ? taken : taken_first)[row.alike]) continue;
      config_.algorithm = row.algorithm;
      const int shared_by = cuda_gemm_cluster_k(config_, tile, spec_, shape_);
      if constexpr (Visitor::kHearsRefusals) refuse_other_clusters(rows, row, shared_by);
      if (tile.cluster_k > 1 && shared_by == 1) continue;
      CudaGemmAsked::Shared& shared = asked_.of_blocks(rows, row, shared_by);
      if (shared.refused != nullptr && !Visitor::kHearsRefusals) continue;
      if (!walk(rows, row, shared, for_others, first)) continue;
      taken[row.alike] = true;
      if (tile.first_for) taken_first[row.alike] = true;
    }
  }

  /// The clusters of a row that shares tiles by k, but those of as many blocks as the shape should have.
  void refuse_other_clusters(const CudaGemmAsked::Rows& rows, CudaGemmAsked::Row& row, int suiting) {
    if (row.tile->cluster_k == 1) return;
    for (int blocks = 2; blocks <= row.tile->cluster_k; ++blocks) {
      if (blocks == suiting) continue;
      CudaGemmAsked::Shared& shared = asked_.of_blocks(rows, row, blocks);
      for (std::size_t width = 0; width < rows.widths.size(); ++width) {
        CudaGemmAsked::Access& access = asked_.of_width(rows, shared, width);
        const CudaGemmRule* rule = asked_.refusal(row, shared, access);
        config_.algorithm = access.algorithm;
        if (rule != nullptr)
          visitor_.refuse(config_, *rule);
        else
          visitor_.refuse(config_, "cluster_suits",
                          suiting == 1 ? "the tiles alone fill the chip, or k has one step"
                                       : "clusters of another size should take less time");
      }
    }
  }

  /// Whether the row has a candidate: its widest accesses that the rules accept and the problem suits.
  bool walk(const CudaGemmAsked::Rows& rows, const CudaGemmAsked::Row& row, CudaGemmAsked::Shared& shared,
            bool for_others, bool first) {
    const bool can_prefetch = rows.pipeline->pipeline == Pipeline::skinny_tma;
    bool is_taken = false;
    for (std::size_t width = 0; width < rows.widths.size(); ++width) {
      CudaGemmAsked::Access& access = asked_.of_width(rows, shared, width);
      const auto use = [&] {
        config_.algorithm = access.algorithm;
        config_.algorithm.prefetch_weights = can_prefetch && shape_.prefetch_weights;
      };
      use();
      const bool suits = cuda_gemm_obstacle(config_, access.facts, shape_).empty();
      if (!Visitor::kHearsRefusals && !suits) continue;  // cheaper to ask than the rules, which find the stages
      const CudaGemmRule* rule = asked_.refusal(row, shared, access);
      config_.algorithm.stages = access.algorithm.stages;
      const bool takes = rule == nullptr && !is_taken && !for_others && suits;
      if (takes) {
        is_taken = true;
        const CudaGemmWork work = cuda_gemm_work(config_, access.facts, row.tile, spec_, shape_);
        if (is_shared(config_) && !cuda_gemm_shares(config_, work))
          refuse(config_, "blocks_share_tiles", "k has no steps for two parts, or the last round is full");
        else
          visitor_.accept({config_, access.facts, *row.tile, work, row.place, first});
      }
      if constexpr (Visitor::kHearsRefusals) {
        if (!takes) refuse_other(config_, rule, for_others);
        if (can_prefetch) {
          config_.algorithm.prefetch_weights = !config_.algorithm.prefetch_weights;
          if (takes && shape_.prefetch_weights)
            visitor_.refuse(config_, "prefetch_is_promised", "no kernel before writes B");
          else
            refuse_other(config_, rule, for_others);
        }
      } else if (takes) {
        break;
      }
    }
    return is_taken;
  }

  void refuse_other(const KernelConfig& config, const CudaGemmRule* rule, bool for_others) {
    if (rule != nullptr)
      visitor_.refuse(config, *rule);
    else if (const std::string_view obstacle = cuda_gemm_obstacle(config, shape_); !obstacle.empty())
      visitor_.refuse(config, "suits_shape", std::string(obstacle));
    else if (for_others)
      visitor_.refuse(config, "first_for", "the tile table has it for other sizes alone");
    else
      visitor_.refuse(config, "wider_accesses_suit", "the same kernel with wider accesses is a candidate");
  }

  void refuse(const KernelConfig& config, std::string_view reason, std::string_view figures) {
    if constexpr (Visitor::kHearsRefusals) visitor_.refuse(config, reason, std::string(figures));
  }

  static bool is_shared(const KernelConfig& config) { return config.algorithm.split_k || config.algorithm.stream_k; }

  const CudaSpec& spec_;
  const GemmSignature& signature_;
  const CudaGemmShape& shape_;
  CudaGemmAsked& asked_;
  Visitor& visitor_;
  KernelConfig config_;  ///< of the signature, with the algorithm at hand
};

template <class Visitor>
void walk_space(const CudaSpec& spec, const GemmSignature& signature, const CudaGemmShape& shape, CudaGemmKept* kept,
                Visitor& visitor) {
  const Lent asked(kept, signature, [&] { return CudaGemmAsked(spec, signature); });
  SpaceWalk<Visitor>(spec, signature, shape, *asked, visitor).run();
}

}  // namespace

std::vector<Candidate> ranked_cuda_gemm(const CudaSpec& spec, const GemmSignature& signature,
                                        const CudaGemmShape& shape, CudaGemmKept* kept) {
  Ranker ranker(spec, shape);
  walk_space(spec, signature, shape, kept, ranker);
  return ranker.take();
}

Error no_cuda_gemm(const CudaSpec& spec, const GemmSignature& signature) {
  KernelConfig config{.arch = spec.arch, .signature = signature, .algorithm = {}};
  const CudaGemmPipeline& pipeline = spec.gemm.pipelines.back();
  config.algorithm.pipeline = pipeline.pipeline;
  config.algorithm.instruction = pipeline.instruction;
  const CudaGemmSubject subject{config, spec};
  const auto* rule = first_refusal(cuda_gemm_rules(), subject);
  if (rule == nullptr)
    return {ErrorCode::unsupported, fmt::format("no CUDA kernel computes this problem on {}", spec.arch.text())};
  return {ErrorCode::unsupported,
          fmt::format("no CUDA kernel computes this problem: rule {}: {}", rule->name, rule->figures(subject)),
          std::string(rule->about)};
}

Result<Ranking> rank(const CudaSpec& spec, const GemmProblem& any_order, CudaGemmKept* kept) {
  const GemmProblem problem = with_row_d(any_order);
  TS_ASSIGN(const GemmSignature signature, gpu_signature_of(problem));
  std::vector<Candidate> candidates = ranked_cuda_gemm(spec, signature, cuda_gemm_shape(problem), kept);
  if (candidates.empty()) return std::unexpected(no_cuda_gemm(spec, signature));
  return Ranking{std::move(candidates), "tile table"};
}

void price(const CudaSpec& spec, const GemmProblem& any_order, CudaGemmKept* kept,
           FunctionRef<void(const CudaGemmPriced&)> show) {
  const GemmProblem problem = with_row_d(any_order);
  const Result<GemmSignature> signature = gpu_signature_of(problem);
  if (!signature) return;
  const CudaGemmShape shape = cuda_gemm_shape(problem);
  Pricer pricer(spec, shape, show);
  walk_space(spec, *signature, shape, kept, pricer);
}

Status serves(const CudaSpec& spec, const KernelConfig& config, const GemmProblem& any_order) {
  const GemmProblem problem = with_row_d(any_order);
  TS_TRY(is_instance(config, spec, Operation::gemm, cuda_gemm_rules()));
  TS_ASSIGN(const GemmSignature signature, gpu_signature_of(problem));
  if (std::get<GemmSignature>(config.signature) != signature) return other_signature(config, signature);
  if (const std::string_view obstacle = cuda_gemm_obstacle(config, cuda_gemm_shape(problem)); !obstacle.empty())
    return fail(ErrorCode::invalid_argument,
                fmt::format("kernel {} does not suit a GEMM of {} x {} x {}: {}", native_name(config), problem.m,
                            problem.n, problem.k, obstacle),
                "fewer elements at a time (vector), or another pipeline; a prefetch kernel asks for prefetch_weights");
  return {};
}

Result<std::vector<Refusal>> refusals(const CudaSpec& spec, const GemmProblem& any_order) {
  const GemmProblem problem = with_row_d(any_order);
  TS_ASSIGN(const GemmSignature signature, gpu_signature_of(problem));
  const CudaGemmShape shape = cuda_gemm_shape(problem);
  Refuser refuser(spec, ranked_cuda_gemm(spec, signature, shape));
  walk_space(spec, signature, shape, nullptr, refuser);
  return refuser.take();
}

}  // namespace tilesmith
