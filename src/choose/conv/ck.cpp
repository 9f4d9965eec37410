#include "choose/conv/ck.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "choose/ck_serves.hpp"
#include "choose/compute_unit.hpp"
#include "choose/gemm/ck_model.hpp"
#include "choose/rounding.hpp"
#include "instances/conv/ck.hpp"
#include "problem/conv/problem.hpp"

namespace tilesmith {
namespace {

/// A convolution along one dimension is one of two, whose outer is 1.
int dimensions_of(const ConvProblem& p) {
  const bool is_flat = p.in_d == 1 && p.filter_d == 1 && p.stride_d == 1 && p.pad_d == 0 && p.pad_high_d == 0;
  return is_flat ? 2 : 3;
}

/// Whether a number is the same along each dimension that counts.
bool is_all(const ConvSpatial& numbers, std::int64_t number, int dims) {
  return std::all_of(numbers.end() - dims, numbers.end(), [&](std::int64_t each) { return each == number; });
}

/// Whether the filter is one tap and looks at nothing but its pixel.
bool is_pointwise(const ConvProblem& p, int dims) {
  return is_all(p.filter(), 1, dims) && is_all(p.pad(), 0, dims) && is_all(p.pad_high(), 0, dims);
}

bool has_filter_of(ConvSpecialization specialization, const ConvProblem& p, int dims) {
  switch (specialization) {
    case ConvSpecialization::none:
      return true;
    case ConvSpecialization::filter1x1_pad0:
      return is_pointwise(p, dims);
    case ConvSpecialization::filter1x1_stride1_pad0:
      return is_pointwise(p, dims) && is_all(p.stride(), 1, dims);
    case ConvSpecialization::filter3x3:
      return is_all(p.filter(), 3, dims);
  }
  return false;
}

std::string_view obstacle_of_depthwise(const KernelConfig& config, const ConvProblem& p) {
  const auto& s = std::get<ConvSignature>(config.signature);
  if (p.c != 1 || p.k != 1) return "a depthwise kernel takes groups of one channel";
  if (p.filter_h != s.filter[0] || p.filter_w != s.filter[1]) return "it is for another filter";
  if (p.stride_h != s.stride[0] || p.stride_w != s.stride[1]) return "it is for another stride";
  if (p.dilation_h != 1 || p.dilation_w != 1) return "a depthwise kernel has no dilation";
  if (p.pad_h != s.padding[0] || p.pad_w != s.padding[1] || p.pad_high_h != p.pad_h || p.pad_high_w != p.pad_w)
    return "it is for other pads";
  return p.batch % config.algorithm.images == 0 ? std::string_view() : "its images do not divide the batch";
}

/// Why an instance does not take the sizes; empty: it does.
std::string_view obstacle_to_sizes(const KernelConfig& config, const ConvProblem& p, int dims) {
  const auto& s = std::get<ConvSignature>(config.signature);
  const Algorithm& a = config.algorithm;
  if (s.depthwise) return obstacle_of_depthwise(config, p);
  if (!has_filter_of(s.specialization, p, dims)) return "it is for another filter";
  if (p.groups % a.groups_merged != 0) return "its merged groups do not divide the groups";
  if (a.explicit_gemm && !(is_pointwise(p, dims) && is_all(p.stride(), 1, dims) && p.groups == 1))
    return "an explicit GEMM is for filters of one tap and one group";
  // What lies in a row of each operand: channels of x (c) or of y (k).
  const std::array<std::int64_t, 3> rows = p.direction == ConvDirection::forward         ? std::array{p.c, p.c, p.k}
                                           : p.direction == ConvDirection::backward_data ? std::array{p.k, p.c, p.c}
                                                                                         : std::array{p.k, p.c, p.c};
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (a.vector[i] > 0 && rows[i] % a.vector[i] != 0) return "its accesses are wider than the channels";
  return {};
}

std::string_view obstacle(const ConvProblem& p) {
  if (!p.epilogue.empty()) return "the instances have no epilogue";
  if (p.type_out != p.data_type) return "the instances write the type that they read";
  if (p.unaligned) return "the instances read and write channels by vectors";
  return {};
}

struct Space {
  int dims = 2;
  std::vector<Recipe> recipes;  ///< in the order of the list
  std::vector<Refusal> refused;
};

Result<Space> space_of(const CkFacts& facts, const ConvProblem& p) {
  const auto none = [&](std::string_view why, std::string hint = {}) {
    return fail(ErrorCode::unsupported,
                fmt::format("no convolution of Composable Kernel for {} computes this problem: {}",
                            facts.chip.arch.text(), why),
                std::move(hint));
  };
  if (const std::string_view why = obstacle(p); !why.empty()) return none(why);
  if (facts.reference.tflops_of(p.data_type) == 0)
    return none(fmt::format("{} has no rate for {}", facts.reference.chip, name_of(p.data_type)),
                "the rate in specs/hip");
  const auto& spec = amd_conv_spec();
  if (!spec) return std::unexpected(spec.error());
  const auto& gemm = amd_gemm_spec();
  if (!gemm) return std::unexpected(gemm.error());
  Space space{.dims = dimensions_of(p), .recipes = {}, .refused = {}};
  const AmdConvQuery query{.chip = facts.chip,
                           .spec = *spec,
                           .gemm = *gemm,
                           .directions = {p.direction},
                           .spatial_dims = {space.dims},
                           .data_types = {p.data_type}};
  RefusalList refused({});
  std::set<Key128> met;
  enumerate_amd_conv(query, [&](const KernelConfig& config) {
    const AmdConvSubject subject{config, facts.chip, *spec, *gemm};
    if (const auto* rule = first_refusal(amd_conv_sound_rules(), subject))
      refused.add(*rule, subject);
    else if (const std::string_view why = obstacle_to_sizes(config, p, space.dims); !why.empty())
      refused.add(config, "suits_shape", std::string(why));
    else if (met.insert(key_of(config)).second)
      space.recipes.emplace_back(config);
    return true;
  });
  space.refused = refused.take();
  if (!space.recipes.empty()) return space;
  return space.refused.empty() ? none("there is none of its type", "fp16, bf16 or fp32")
                               : none(space.refused.back().figures, "--refused shows each instance's reason");
}

/// The GEMM that the convolution is, of groups that are merged or not.
ComputeUnitProduct product_of(const ConvProblem& p, std::int64_t merged) {
  const std::int64_t taps = taps_of(p);
  ComputeUnitProduct out{.batch = p.groups / merged, .bytes = bytes_of(p)};
  switch (p.direction) {
    case ConvDirection::forward:
      out.m = pixels_of_y(p);
      out.n = p.k * merged;
      out.k = p.c * taps * merged;
      break;
    case ConvDirection::backward_data:
      out.m = pixels_of_x(p);
      out.n = p.c * merged;
      out.k = p.k * taps * merged;
      break;
    case ConvDirection::backward_weight:
      out.m = p.k * merged;
      out.n = p.c * taps * merged;
      out.k = pixels_of_y(p);
      break;
  }
  return out;
}

/// Of a kernel that adds `parts` of the sum in float32, and of the one behind it that converts them.
double two_stage_seconds(const Algorithm& a, const CkFacts& facts, const ConvProblem& p, std::int64_t parts) {
  const double weights = static_cast<double>(p.groups * p.k * p.c * taps_of(p));
  const double sums = 4 * weights;
  ComputeUnitProduct product = product_of(p, a.groups_merged);
  product.batch *= parts;
  product.k = ceil_div(product.k, parts);
  if (parts > 1) product.bytes += 2 * static_cast<double>(parts) * sums;  // each reads, adds and writes
  const double zeroing = parts > 1 ? compute_unit::pass_seconds(sums, facts.reference) : 0;
  return zeroing + ck_gemm_seconds(a, p.data_type, facts, product) +
         compute_unit::pass_seconds(sums + weights * bits_of(p.data_type) / 8, facts.reference);
}

double predicted_seconds(const KernelConfig& config, const CkFacts& facts, const ConvProblem& p) {
  const auto& s = std::get<ConvSignature>(config.signature);
  const Algorithm& a = config.algorithm;
  // A depthwise kernel does little but read and write.
  if (s.depthwise) return compute_unit::pass_seconds(bytes_of(p), facts.reference);
  if (s.two_stage) return two_stage_seconds(a, facts, p, ck_k_batch(facts, config, p));
  ComputeUnitProduct product = product_of(p, a.groups_merged);
  if (s.stream_k_reduction == StreamKReduction::none) return ck_gemm_seconds(a, p.data_type, facts, product);
  // The tiles of all groups are shared out together, as rows of one product.
  product.m *= std::exchange(product.batch, 1);
  return ck_stream_k_seconds(a, {p.data_type, p.data_type, s.stream_k_reduction}, facts, product);
}

}  // namespace

std::int64_t ck_k_batch(const CkFacts& facts, const KernelConfig& config, const ConvProblem& p) {
  if (!std::get<ConvSignature>(config.signature).two_stage) return 1;
  constexpr std::int64_t kMost = 128;  // as Composable Kernel limits those of other kernels
  const Algorithm& a = config.algorithm;
  const std::int64_t steps = ceil_div(pixels_of_y(p), std::int64_t{a.tile[2]});
  std::int64_t best = 1;
  double seconds = two_stage_seconds(a, facts, p, 1);
  for (std::int64_t parts = 2; parts <= std::min(kMost, steps); parts *= 2)
    if (const double of_parts = two_stage_seconds(a, facts, p, parts); of_parts < seconds) {
      best = parts;
      seconds = of_parts;
    }
  return best;
}

Result<Ranking> rank(const CkFacts& facts, const ConvProblem& problem) {
  TS_ASSIGN(const Space space, space_of(facts, problem));
  Ranking ranking{{}, "model"};
  for (const Recipe& recipe : space.recipes)
    ranking.candidates.push_back(
        {.recipe = recipe, .predicted_seconds = predicted_seconds(recipe.main(), facts, problem)});
  best_first(ranking.candidates);
  return ranking;
}

Status serves(const CkFacts& facts, const Recipe& recipe, const ConvProblem& problem) {
  TS_ASSIGN(const Space space, space_of(facts, problem));
  return ck_serves(recipe, space.recipes, space.refused);
}

Result<std::vector<Refusal>> refusals(const CkFacts& facts, const ConvProblem& problem) {
  TS_ASSIGN(Space space, space_of(facts, problem));
  return std::move(space.refused);
}

}  // namespace tilesmith
