#include "choose/gemm/ck.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "choose/ck_serves.hpp"
#include "choose/gemm/ck_model.hpp"
#include "instances/gemm/ck.hpp"
#include "problem/gemm/problem.hpp"
#include "problem/gemm/transpose.hpp"

namespace tilesmith {
namespace {

/// What no instance of the chip can do, whatever its tile; empty: nothing.
std::string_view obstacle(const CkFacts& facts, const GemmProblem& p) {
  if (p.packed_b && (p.batch != 1 || !p.epilogue.empty()))
    return "an instance that reads B in the order of its fragments has neither a batch nor an epilogue";
  if (p.grouping != GemmGrouping::none)
    return "groups whose rows a device array tells are no list of GEMMs on the host";
  if (p.k2 != 0) return "Composable Kernel's instances multiply one pair of matrices";
  if (p.group_size != 0 || p.type_b != p.type_a) return "the dispatcher builds no GEMM with scales along k";
  if (p.beta) return "the instances add no beta * C; an addition in the epilogue is a tensor of theirs";
  if (p.unaligned) return "the instances read A, B and write C by whole vectors of 16 bytes";
  const bool is_fp8 = p.type_a == DataType::fp8 || p.type_a == DataType::bf8;
  if (is_fp8 && facts.chip.fp8_encoding != Fp8Encoding::ocp)
    return "the chip's fp8 is another (fnuz), or there is none";
  return {};
}

/// The operation of an epilogue that an instance may have.
struct DOperation {
  ElementwiseKind kind = ElementwiseKind::pass_through;
  int tensors = 0;
};
Result<DOperation> operation_of(const GemmProblem& p) {
  DOperation out;
  for (const EpilogueOp op : p.epilogue) {
    const ElementwiseKind kind = op == EpilogueOp::add        ? ElementwiseKind::multi_d_add
                                 : op == EpilogueOp::multiply ? ElementwiseKind::multi_d_multiply
                                                              : ElementwiseKind::pass_through;
    if (kind == ElementwiseKind::pass_through || (out.tensors > 0 && kind != out.kind) || p.type_c != p.type_d)
      return fail(ErrorCode::unsupported, "no instance of Composable Kernel's dispatcher has this epilogue",
                  "none, or tensors of D's type that are all added or all multiplied");
    out.kind = kind;
    ++out.tensors;
  }
  return out;
}

/// Which instances a ranking has.
enum class Wanted : std::uint8_t {
  all,
  usual  ///< those that a call takes which asks for no particular ones
};

/// What an instance must be to compute the problem, the usual one first; at most one for each family and way of
/// joining.
Result<std::vector<GemmSignature>> wanted_of(const GemmProblem& p, Wanted wanted) {
  TS_ASSIGN(const DOperation operation, operation_of(p));
  if (operation.tensors > 0 && p.batch != 1)
    return fail(ErrorCode::unsupported, "no instance of Composable Kernel's dispatcher has a batch and an epilogue",
                "a batch of 1, or no epilogue");
  GemmSignature s;
  s.family = operation.tensors > 0 ? GemmFamily::multi_d
             : p.packed_b          ? GemmFamily::preshuffle
             : p.batch == 1        ? GemmFamily::standard
                                   : GemmFamily::grouped_gemm;
  s.a = p.type_a == DataType::tf32 ? DataType::fp32 : p.type_a;
  s.b = s.a;
  s.c = p.type_d;
  s.accumulator = gemm_accumulator_type(s.a);
  s.layout_a = p.order_a;
  s.layout_b = p.order_b;
  s.elementwise = operation.kind;
  s.num_d = static_cast<std::uint8_t>(operation.tensors);
  std::vector<GemmSignature> out{s};
  if (s.family == GemmFamily::standard && wanted == Wanted::all) {
    s.family = GemmFamily::stream_k;
    for (const auto& each : EnumTable<StreamKReduction>::kNames)
      if ((s.stream_k_reduction = each.value) != StreamKReduction::none) out.push_back(s);
  }
  return out;
}

/// Why an instance does not take the sizes; empty: it does.
std::string_view obstacle_to_sizes(const KernelConfig& config, const GemmProblem& p) {
  const auto& [tile, pad] = std::tie(config.algorithm.tile, config.algorithm.pad);
  if (pad[0] == 0 && p.m % tile[0] != 0) return "m is no whole tile, and is not padded";
  if (pad[1] == 0 && p.n % tile[1] != 0) return "n is no whole tile, and is not padded";
  if (pad[2] == 0 && p.k % tile[2] != 0) return "k is no whole tile, and is not padded";
  return {};
}

/// Whether the rows of the three matrices are whole vectors: padding helps where a tile ends, not within a vector.
bool has_whole_vectors(const GemmProblem& p) {
  const auto whole = [](std::int64_t elements, DataType type) { return elements * bits_of(type) % 128 == 0; };
  return whole(p.order_a == MatrixOrder::row ? p.k : p.m, p.type_a) &&
         whole(p.order_b == MatrixOrder::row ? p.n : p.k, p.type_b) && whole(p.n, p.type_d);
}

struct Space {
  GemmProblem problem;          ///< with a row-major D
  std::vector<Recipe> recipes;  ///< in upstream's order
  std::vector<Refusal> refused;
};

Result<Space> space_of(const CkFacts& facts, const GemmProblem& any_order, Wanted which = Wanted::all) {
  Space space{.problem = with_row_d(any_order), .recipes = {}, .refused = {}};
  const GemmProblem& p = space.problem;
  const auto none = [&](std::string_view why, std::string hint = {}) {
    return fail(ErrorCode::unsupported,
                fmt::format("no GEMM instance of Composable Kernel for {} computes this problem: {}",
                            facts.chip.arch.text(), why),
                std::move(hint));
  };
  if (const std::string_view why = obstacle(facts, p); !why.empty()) return none(why);
  TS_ASSIGN(const std::vector<GemmSignature> signatures, wanted_of(p, which));
  const GemmSignature& wanted = signatures.front();
  if (facts.reference.tflops_of(wanted.a) == 0)
    return none(fmt::format("{} has no rate for {}", facts.reference.chip, name_of(wanted.a)), "the rate in specs/hip");
  if (!has_whole_vectors(p)) return none("rows of A, B or D are no whole vectors of 16 bytes");
  const auto& spec = amd_gemm_spec();
  if (!spec) return std::unexpected(spec.error());
  RefusalList refused({});
  std::set<Key128> met;
  for (const EnumerationMode mode : {EnumerationMode::rules, EnumerationMode::tables}) {
    const AmdGemmQuery query{
        .chip = facts.chip,
        .spec = *spec,
        .mode = mode,
        .layout = fmt::format("{}{}{}", name_of(wanted.layout_a), name_of(wanted.layout_b), name_of(wanted.layout_c)),
        .data_types = {wanted.a}};
    const auto take = [&](const KernelConfig& config) {
      if (std::ranges::find(signatures, std::get<GemmSignature>(config.signature)) == signatures.end()) return true;
      const AmdGemmSubject subject{config, facts.chip, *spec};
      for (const auto rules : {amd_gemm_rules(), amd_gemm_sound_rules()})
        if (const auto* rule = first_refusal(rules, subject)) {
          refused.add(*rule, subject);
          return true;
        }
      if (const std::string_view why = obstacle_to_sizes(config, p); !why.empty())
        refused.add(config, "suits_shape", std::string(why));
      else if (met.insert(key_of(config)).second)
        space.recipes.emplace_back(config);
      return true;
    };
    enumerate_amd_gemm(query, wanted.family, take);
    if (signatures.back().family != wanted.family) enumerate_amd_gemm(query, signatures.back().family, take);
  }
  space.refused = refused.take();
  if (!space.recipes.empty()) return space;
  if (space.refused.empty())
    return none(fmt::format("none of family {} has these types, layouts and this operation", name_of(wanted.family)),
                "tilesmith list --origin ck --op gemm shows what there is");
  return none(fmt::format("{}: {}", space.refused.back().rule, space.refused.back().figures),
              "--refused shows each instance's reason");
}

double predicted_seconds(const KernelConfig& config, const CkFacts& facts, const ComputeUnitProduct& product) {
  const auto& s = std::get<GemmSignature>(config.signature);
  return s.stream_k_reduction == StreamKReduction::none
             ? ck_gemm_seconds(config.algorithm, s.a, facts, product)
             : ck_stream_k_seconds(config.algorithm, {s.a, s.c, s.stream_k_reduction}, facts, product);
}

std::vector<Candidate> candidates_of(const Space& space, const CkFacts& facts) {
  const GemmProblem& p = space.problem;
  const ComputeUnitProduct product{p.m, p.n, p.k, p.batch, bytes_of(p)};
  std::vector<Candidate> candidates;
  for (const Recipe& recipe : space.recipes)
    candidates.push_back({.recipe = recipe, .predicted_seconds = predicted_seconds(recipe.main(), facts, product)});
  return candidates;
}

}  // namespace

Result<Ranking> rank(const CkFacts& facts, const GemmProblem& problem) {
  TS_ASSIGN(const Space space, space_of(facts, problem));
  Ranking ranking{candidates_of(space, facts), "model"};
  best_first(ranking.candidates);
  return ranking;
}

Result<Ranking> upstream_ranking(const CkFacts& facts, const GemmProblem& problem) {
  TS_ASSIGN(const Space space, space_of(facts, problem, Wanted::usual));
  return Ranking{candidates_of(space, facts), "upstream"};
}

Status serves(const CkFacts& facts, const Recipe& recipe, const GemmProblem& problem) {
  TS_ASSIGN(const Space space, space_of(facts, problem));
  return ck_serves(recipe, space.recipes, space.refused);
}

Result<std::vector<Refusal>> refusals(const CkFacts& facts, const GemmProblem& problem) {
  TS_ASSIGN(Space space, space_of(facts, problem));
  return std::move(space.refused);
}

}  // namespace tilesmith
