#include "choose/gemm/cpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "choose/cpu_level.hpp"
#include "choose/cpu_threads.hpp"
#include "choose/gemm/cpu_model.hpp"
#include "choose/gemm/cpu_terms.hpp"
#include "instances/gemm/cpu.hpp"
#include "problem/gemm/problem.hpp"
#include "problem/gemm/transpose.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kTypicalRows = 128;  // of GEMMs whose B is packed beforehand

/// Why no instance of any level computes the problem: the rule that refuses one which differs from valid ones in the
/// signature alone.
Error why_none(const CpuFacts& machine, const GemmSignature& signature) {
  for (const CpuSpec& spec : machine.levels)
    for (const CpuGemmInstruction& facts : spec.gemm) {
      if (std::ranges::find(facts.data_types, signature.a) == facts.data_types.end()) continue;
      for (const CpuGemmTiles& tiles : facts.pipelines) {
        KernelConfig config{.arch = spec.arch, .signature = signature, .algorithm = {}};
        config.algorithm.instruction = facts.instruction;
        config.algorithm.pipeline = tiles.pipeline;
        config.algorithm.tile = {static_cast<std::uint16_t>(tiles.tile_m.front()),
                                 static_cast<std::uint16_t>(tiles.tile_n.front()),
                                 static_cast<std::uint16_t>(tiles.tile_k.front())};
        const CpuGemmSubject subject{config, spec};
        if (const auto* rule = first_refusal(cpu_gemm_rules(), subject))
          return {ErrorCode::unsupported,
                  fmt::format("no CPU kernel computes this problem: rule {}: {}", rule->name, rule->figures(subject)),
                  std::string(rule->about)};
      }
    }
  return {ErrorCode::unsupported,
          fmt::format("no CPU kernel multiplies {} matrices on {}", name_of(signature.a), name_of(machine)),
          "tilesmith list --op gemm --arch ARCH shows what there is"};
}

/// Why a kernel of the problem's signature does not compute it; empty: it does.
std::string obstacle(const KernelConfig& config, const GemmProblem& p) {
  if (config.algorithm.pipeline != Pipeline::skinny) return {};
  if (p.m > config.algorithm.tile[0])
    return fmt::format("its tile has {} rows, the problem {}", config.algorithm.tile[0], p.m);
  if (std::max(p.k, p.k2) > kCpuSkinnyDepth) return fmt::format("it takes a k of at most {}", kCpuSkinnyDepth);
  return {};
}

/// Whether it is a generic kernel of GEMM, which computes every problem but those of a packed B.
bool is_generic(const KernelConfig& config) {
  return config.operation() == Operation::gemm && config.algorithm.pipeline == Pipeline::generic;
}

/// `signature`: the problem's, if any but generic kernels can have it.
bool computes(const KernelConfig& config, const GemmProblem& problem, const Result<GemmSignature>& signature) {
  if (config.operation() != Operation::gemm || config.algorithm.packed_b != problem.packed_b) return false;
  if (is_generic(config)) return true;
  return signature && std::get<GemmSignature>(config.signature) == *signature && obstacle(config, problem).empty();
}

/// Walks the spaces of all levels. `take(config, spec)` gets every candidate; `refuse(config, spec, rule, reason,
/// figures)` everything else, with a rule or else a reason.
template <class Take, class Refuse>
Status walk_space(const CpuFacts& facts, const GemmProblem& problem, const GemmSignature& signature, Take take,
                  Refuse refuse) {
  std::optional<KernelConfig> panels;
  if (problem.packed_b) {
    TS_ASSIGN(panels, packing_kernel(facts, problem));
  }
  const GemmProblem call = typical_call(problem);
  for (const CpuSpec& spec : facts.levels)
    walk_cpu_gemm(spec, signature, [&](KernelConfig config, const Rule<CpuGemmSubject>* rule) {
      if (problem.packed_b) {
        config.algorithm.packed_b = true;
        rule = first_refusal(cpu_gemm_rules(), CpuGemmSubject{config, spec});
      }
      if (rule != nullptr)
        refuse(config, spec, rule, "", "");
      else if (panels && !reads_panels_of(config, *panels))
        refuse(config, spec, rule, "reads_packed_panels", "the problem's B is packed for other kernels");
      else if (config.algorithm.split_k &&
               splits_for(call, config, spec, threads_worth(call, config, spec, facts.threads)) == 1)
        refuse(config, spec, rule, "blocks_share_tiles", "every thread has work without parts of k");
      else if (const std::string why = obstacle(config, problem); !why.empty())
        refuse(config, spec, rule, "suits_shape", why);
      else
        take(config, spec);
      return true;
    });
  return {};
}

constexpr auto kIgnore = [](const KernelConfig&, const CpuSpec&, const auto*, std::string_view, std::string_view) {};

Result<std::vector<Candidate>> candidates_of(const CpuFacts& facts, const GemmProblem& problem,
                                             const GemmSignature& signature) {
  const GemmProblem call = typical_call(problem);
  std::vector<Candidate> candidates;
  const auto take = [&](const KernelConfig& config, const CpuSpec& spec) {
    candidates.push_back({config, seconds_of_call(call, config, spec, facts.threads)});
  };
  TS_TRY(walk_space(facts, problem, signature, take, kIgnore));
  return candidates;
}

}  // namespace

Result<GemmSignature> cpu_signature_of(const GemmProblem& p) {
  TS_ASSIGN(const CpuGemmEpilogue terms, cpu_gemm_epilogue(p.epilogue, p.beta));
  GemmSignature s;
  s.a = p.type_a;
  s.b = p.type_b;
  s.c = p.type_d;
  s.accumulator = p.type_a == DataType::int8 ? DataType::int32 : DataType::fp32;
  s.aux = p.beta || terms.c >= 0 || terms.extras > 0 ? p.type_c : p.type_d;
  if (terms.bias >= 0) s.bias = p.type_bias;
  s.zero_points = p.zero_points;
  if (has_weights(p))
    s.scale = p.type_scale;
  else if (p.group_size != 0)
    s.qscale = QuantScale::blockscale;
  s.mm_plus_mm = p.k2 != 0;
  s.layout_a = p.order_a;
  s.layout_b = p.packed_b ? MatrixOrder::column : p.order_b;  // packed panels are alike for both orders
  s.epilogue_ops = terms.normal_form();
  return s;
}

Result<Ranking> rank(const CpuFacts& facts, const GemmProblem& any_order) {
  const GemmProblem problem = with_row_d(any_order);
  const Result<GemmSignature> signature = cpu_signature_of(problem);
  std::vector<Candidate> candidates;
  if (signature) {
    TS_ASSIGN(candidates, candidates_of(facts, problem, *signature));
    if (candidates.empty() && problem.packed_b) return std::unexpected(why_none(facts, *signature));
  } else if (problem.packed_b) {
    return std::unexpected(signature.error());
  }
  // A generic kernel where there is no other: beside others it comes last, among the fallbacks.
  if (candidates.empty()) {
    const GemmProblem call = typical_call(problem);
    for (const CpuSpec& spec : facts.levels)
      if (const auto config = generic_cpu_gemm(spec))
        candidates.push_back({*config, seconds_of_call(call, *config, spec, facts.threads)});
  }
  best_first(candidates);
  return Ranking{std::move(candidates), "cost model"};
}

std::vector<ModelTerms> model_terms(const CpuFacts& facts, const GemmProblem& any_order) {
  const GemmProblem problem = with_row_d(any_order);
  const Result<GemmSignature> signature = cpu_signature_of(problem);
  std::vector<ModelTerms> out;
  if (!signature) return out;
  const GemmProblem call = typical_call(problem);
  const auto take = [&](const KernelConfig& config, const CpuSpec& spec) {
    if (is_generic(config)) return;
    const CpuGemmTerms terms = cpu_gemm_terms(call, config, spec, threads_worth(call, config, spec, facts.threads));
    out.push_back({config, kCpuGemmTerms, {terms.begin(), terms.end()}});
  };
  // Of what rank() refuses there are no candidates and so no terms.
  if (!walk_space(facts, problem, *signature, take, kIgnore)) out.clear();
  return out;
}

std::vector<Candidate> fallbacks(const CpuFacts& facts, const GemmProblem& any_order,
                                 std::span<const KernelConfig> linked) {
  const GemmProblem problem = with_row_d(any_order);
  const auto signature = cpu_signature_of(problem);
  const GemmProblem call = typical_call(problem);
  std::vector<Candidate> candidates;
  for (const KernelConfig& config : linked)
    if (const CpuSpec* spec = facts.level(config.arch); spec != nullptr && computes(config, problem, signature))
      candidates.push_back({config, seconds_of_call(call, config, *spec, facts.threads)});
  best_first(candidates);
  std::ranges::stable_partition(candidates, [](const Candidate& c) { return !is_generic(c.recipe.main()); });
  return candidates;
}

Status serves(const CpuFacts& facts, const KernelConfig& config, const GemmProblem& any_order) {
  const GemmProblem problem = with_row_d(any_order);
  TS_TRY(check_runs_on(facts, config));
  const std::string what = fmt::format("kernel {} does not compute this problem", native_name(config));
  const auto refuse = [&](std::string why) { return fail(ErrorCode::invalid_argument, what, std::move(why)); };
  if (config.operation() == Operation::gemm && config.algorithm.packed_b != problem.packed_b)
    return refuse(config.algorithm.packed_b ? "it reads a packed B" : "it reads B as it lies, and B is packed");
  if (is_generic(config)) return {};
  const auto signature = cpu_signature_of(problem);
  if (!signature) return refuse(signature.error().message);
  if (config.operation() != Operation::gemm || std::get<GemmSignature>(config.signature) != *signature)
    return refuse(
        fmt::format("the problem's kernels are {}",
                    native_name({.arch = config.arch, .signature = *signature, .algorithm = config.algorithm})));
  if (std::string why = obstacle(config, problem); !why.empty()) return refuse(std::move(why));
  if (!problem.packed_b) return {};
  TS_ASSIGN(const KernelConfig panels, packing_kernel(facts, problem));
  if (reads_panels_of(config, panels)) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("kernel {} reads other panels of B", native_name(config)),
              fmt::format("panels are packed for kernels of {} with {} in blocks of {}", panels.arch.text(),
                          name_of(panels.algorithm.instruction), panels.algorithm.tile[2]));
}

Result<std::vector<Refusal>> refusals(const CpuFacts& facts, const GemmProblem& any_order) {
  const GemmProblem problem = with_row_d(any_order);
  const Result<GemmSignature> signature = cpu_signature_of(problem);
  RefusalList list({});
  if (!signature) {
    GemmProblem without = problem;
    without.epilogue = {};
    TS_ASSIGN(const GemmSignature plain, cpu_signature_of(without));
    for (const CpuSpec& spec : facts.levels)
      enumerate_cpu_gemm(spec, plain, [&](const KernelConfig& config) {
        list.add(config, "epilogue_is_carried", signature.error().message);
        return true;
      });
    return list.take();
  }
  TS_TRY(walk_space(
      facts, problem, *signature, [](const KernelConfig&, const CpuSpec&) {},
      [&](const KernelConfig& config, const CpuSpec& spec, const Rule<CpuGemmSubject>* rule, std::string_view reason,
          std::string_view figures) {
        if (rule != nullptr)
          list.add(*rule, CpuGemmSubject{config, spec});
        else
          list.add(config, reason, std::string(figures));
      }));
  return list.take();
}

Result<KernelConfig> packing_kernel(const CpuFacts& facts, const GemmProblem& problem) {
  GemmProblem typical = packing_of(problem);
  typical.m = kTypicalRows;
  typical.order_b = MatrixOrder::column;
  typical.packed_b = false;
  TS_ASSIGN(GemmSignature signature, cpu_signature_of(typical));
  std::vector<Candidate> blocked;
  for (const CpuSpec& spec : facts.levels)
    enumerate_cpu_gemm(spec, signature, [&](const KernelConfig& config) {
      if (config.algorithm.pipeline == Pipeline::blocked && !config.algorithm.split_k)
        blocked.push_back({config, predicted_seconds(typical, config, spec, 1)});
      return true;
    });
  if (blocked.empty()) return std::unexpected(why_none(facts, signature));
  best_first(blocked);
  KernelConfig best = blocked.front().recipe.main();
  signature.layout_b = problem.order_b;
  best.signature = signature;
  return best;
}

bool reads_panels_of(const KernelConfig& reader, const KernelConfig& packer) {
  return reader.arch == packer.arch && reader.algorithm.packed_b &&
         reader.algorithm.pipeline == packer.algorithm.pipeline &&
         reader.algorithm.instruction == packer.algorithm.instruction &&
         reader.algorithm.tile[2] == packer.algorithm.tile[2];
}

}  // namespace tilesmith
