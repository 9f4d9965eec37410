#include "dispatch/gemm/cpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "dispatch/cpu_steps.hpp"
#include "dispatch/gemm/cpu_arguments.hpp"
#include "dispatch/gemm/cpu_pack_b.hpp"
#include "dispatch/gemm/cpu_packed_b.hpp"
#include "dispatch/gemm/cpu_plan.hpp"
#include "dispatch/gemm/transpose.hpp"
#include "dispatch/plan_info.hpp"
#include "dispatch/workspace.hpp"
#include "instances/gemm/cpu.hpp"
#include "problem/gemm/group.hpp"
#include "problem/gemm/problem.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kLeastRows = 4;  // of a register tile: fewer or more rows make a difference from there to there

}  // namespace

Error cpu_gemm_refusal(const CpuMachine& machine, const GemmSignature& signature) {
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
          fmt::format("no CPU kernel multiplies {} matrices on {}", name_of(signature.a),
                      machine.levels.front().arch.text()),
          "tilesmith list --op gemm --arch ARCH shows what there is"};
}

Result<Ranking> CpuGemm::rank(const GemmProblem& given) const {
  const GemmProblem problem = with_row_d(given);
  TS_ASSIGN(const GemmSignature signature, cpu_signature_of(problem));
  std::optional<KernelConfig> panels;
  if (problem.packed_b) {
    TS_ASSIGN(panels, cpu_packer(machine_, problem));
  }
  std::vector<Candidate> candidates;
  for (const CpuSpec& spec : machine_.levels)
    enumerate_cpu_gemm(spec, signature, [&](KernelConfig config) {
      config.algorithm.packed_b = problem.packed_b;
      if (panels && !reads_panels_of(config, *panels)) return true;
      const bool useless_split =
          config.algorithm.split_k && splits_for(typical_call(problem), config, spec, pool_.threads()) == 1;
      if (!useless_split && serves(config, problem)) candidates.push_back({config, 0});
      return true;
    });
  if (candidates.empty()) return std::unexpected(cpu_gemm_refusal(machine_, signature));
  order(problem, candidates);
  return Ranking{std::move(candidates), "cost model"};
}

std::vector<Candidate> CpuGemm::fallbacks(const GemmProblem& given) const {
  const GemmProblem problem = with_row_d(given);
  std::vector<Candidate> linked;
  for (const KernelConfig& config : registry_.essential())
    if (serves(config, problem)) linked.push_back({config, 0});
  order(problem, linked);
  return linked;
}

Status CpuGemm::check(const Recipe& recipe, const GemmProblem& given) const {
  const GemmProblem problem = with_row_d(given);
  TS_TRY(check_one_step(recipe));
  const KernelConfig& config = recipe.main();
  TS_TRY(check_runs_here(machine_, config));
  if (serves(config, problem)) {
    if (!problem.packed_b) return {};
    TS_ASSIGN(const KernelConfig panels, cpu_packer(machine_, problem));
    if (reads_panels_of(config, panels)) return {};
    return fail(ErrorCode::invalid_argument, fmt::format("kernel {} reads other panels of B", native_name(config)),
                fmt::format("panels are packed for {}", PackedHeader::of(problem, panels, 0).text()));
  }
  const std::string what = fmt::format("kernel {} does not compute this problem", native_name(config));
  if (config.operation() == Operation::gemm && config.algorithm.packed_b != problem.packed_b)
    return fail(ErrorCode::invalid_argument, what,
                config.algorithm.packed_b ? "it reads a packed B" : "it reads B as it lies, and B is packed");
  const auto signature = cpu_signature_of(problem);
  if (!signature) return fail(ErrorCode::invalid_argument, what, signature.error().message);
  const auto why = [&]() -> std::string {
    if (config.operation() != Operation::gemm || std::get<GemmSignature>(config.signature) != *signature)
      return fmt::format("the problem's kernels are {}",
                         native_name({.arch = config.arch, .signature = *signature, .algorithm = config.algorithm}));
    if (problem.m > config.algorithm.tile[0])
      return fmt::format("its tile has {} rows, the problem {}", config.algorithm.tile[0], problem.m);
    return fmt::format("it takes a k of at most {}", kDeepestSkinny);
  };
  return fail(ErrorCode::invalid_argument, what, why());
}

Result<std::unique_ptr<GemmPlan>> CpuGemm::plan(const GemmProblem& problem, const Candidate& chosen, std::string reason,
                                                BuildPolicy build) {
  return plan_with_row_d(problem,
                         [&](const GemmProblem& row_d) { return plan_row_d(row_d, chosen, std::move(reason), build); });
}

Result<std::unique_ptr<GemmPlan>> CpuGemm::plan_row_d(const GemmProblem& problem, const Candidate& chosen,
                                                      std::string reason, BuildPolicy build) {
  const KernelConfig& config = chosen.recipe.main();
  TS_ASSIGN(const CpuGemmEpilogue terms, cpu_gemm_epilogue(problem.epilogue, problem.beta));
  TS_ASSIGN(CpuSteps steps, CpuSteps::load(chosen.recipe, pool_,
                                           [&](const KernelConfig& step) { return registry_.find(step, build); }));
  const CpuSpec* spec = machine_.level(config.arch);
  const std::int64_t splits = spec == nullptr ? 1 : splits_for(typical_call(problem), config, *spec, pool_.threads());
  const TsCpuKernel& table = steps.table();
  std::size_t workspace = 0, scratch = 0;
  const auto make_room = [&](const GemmProblem& call) {
    // A matrix B that the batch shares is packed otherwise than one for each member: there is room for both.
    for (const bool shared_b : {false, true}) {
      GemmArguments arguments = dense_arguments(call);
      if (shared_b) arguments.b.batch = arguments.b2.batch = 0;
      const TsGemmArgs args = cpu_arguments(call, terms, arguments, splits, pool_.threads(), nullptr);
      workspace = std::max(workspace, static_cast<std::size_t>(table.workspace_bytes(&args)));
      scratch = std::max(scratch, static_cast<std::size_t>(table.scratch_bytes(&args)));
    }
  };
  if (problem.grouping == GemmGrouping::none) {
    make_room(problem);
  } else {
    // A group of fewer rows may be cut into other tasks, until there are whole tiles for all threads.
    const std::int64_t uneven = std::min(problem.m, std::int64_t{config.algorithm.tile[0]} * 4 * pool_.threads());
    for (std::int64_t rows = 1; rows < uneven; rows += kLeastRows) make_room(problem_of_group(problem, rows));
    make_room(problem_of_group(problem, uneven));
    make_room(problem_of_group(problem, problem.m));
  }
  pool_.reserve_scratch(scratch);
  PlanInfo info = plan_info({}, chosen, std::move(reason));
  info.steps.front().what += fmt::format(" in {} stages", table.stage_count);
  WorkspaceLayout layout;
  layout.add("packed panels and partials", workspace);
  layout.tell(info);
  return std::make_unique<CpuGemmPlan>(problem, std::move(info), terms, std::move(steps), splits,
                                       PackedHeader::of(problem, config, 0));
}

void CpuGemm::order(const GemmProblem& problem, std::vector<Candidate>& candidates) const {
  const GemmProblem call = typical_call(problem);
  for (Candidate& candidate : candidates) {
    const CpuSpec* spec = machine_.level(candidate.recipe.main().arch);
    candidate.predicted_seconds = spec == nullptr
                                      ? std::numeric_limits<double>::infinity()
                                      : expected_seconds(call, candidate.recipe.main(), *spec, pool_.threads());
  }
  best_first(candidates);
}

}  // namespace tilesmith
