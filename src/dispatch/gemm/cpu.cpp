#include "dispatch/gemm/cpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "base/log.hpp"
#include "dispatch/gemm/cpu_arguments.hpp"
#include "dispatch/gemm/cpu_list.hpp"
#include "dispatch/gemm/cpu_packed_b.hpp"
#include "dispatch/gemm/cpu_plan.hpp"
#include "instances/gemm/cpu.hpp"
#include "problem/gemm/group.hpp"
#include "problem/gemm/problem.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

constexpr std::int64_t kTypicalRows = 128;  // of products whose B is packed beforehand
constexpr std::int64_t kLeastRows = 4;  // of a register tile: fewer or more rows make a difference from there to there

/// What the first stage of a blocked kernel is called with to pack B.
TsGemmArgs packing_arguments(const GemmProblem& problem, const KernelConfig& config, const GemmOperand& b,
                             int threads) {
  TsGemmArgs args{};
  args.b = {b.data, b.leading, 0};
  args.m = 2 * std::int64_t{config.algorithm.tile[0]};  // a single row of tasks would pack panels by itself
  args.n = problem.n;
  args.k = problem.k;
  args.batch = args.splits = 1;
  args.threads = threads;
  args.alpha = 1;
  return args;
}

/// Why no instance of any level computes the problem: the rule that refuses one which differs from valid ones in the
/// signature alone.
Error refusal(const CpuMachine& machine, const GemmSignature& signature) {
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

}  // namespace

Result<Ranking> CpuGemm::rank(const GemmProblem& problem) const {
  TS_ASSIGN(const GemmSignature signature, cpu_signature_of(problem));
  std::optional<KernelConfig> panels;
  if (problem.packed_b) {
    TS_ASSIGN(panels, packer(problem));
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
  if (candidates.empty()) return std::unexpected(refusal(machine_, signature));
  order(problem, candidates);
  return Ranking{std::move(candidates), "cost model"};
}

std::vector<Candidate> CpuGemm::fallbacks(const GemmProblem& problem) const {
  std::vector<Candidate> linked;
  for (const KernelConfig& config : registry_.essential())
    if (serves(config, problem)) linked.push_back({config, 0});
  order(problem, linked);
  return linked;
}

Status CpuGemm::check(const Recipe& recipe, const GemmProblem& problem) const {
  TS_TRY(check_one_step(recipe));
  const KernelConfig& config = recipe.main();
  TS_TRY(check_runs_here(machine_, config));
  if (serves(config, problem)) {
    if (!problem.packed_b) return {};
    TS_ASSIGN(const KernelConfig panels, packer(problem));
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
  const KernelConfig& config = chosen.recipe.main();
  TS_ASSIGN(const CpuGemmEpilogue terms, cpu_gemm_epilogue(problem.epilogue, problem.beta));
  TS_ASSIGN(const CpuKernel kernel, registry_.find(config, build));
  const CpuSpec* spec = machine_.level(config.arch);
  const std::int64_t splits = spec == nullptr ? 1 : splits_for(typical_call(problem), config, *spec, pool_.threads());
  const TsCpuKernel& table = kernel.table();
  PlanInfo facts{.device = {}, .kernel = native_name(config), .reason = std::move(reason)};
  std::size_t scratch = 0;
  const auto make_room = [&](const GemmProblem& call) {
    // A matrix B that the batch shares is packed otherwise than one for each member: there is room for both.
    for (const bool shared_b : {false, true}) {
      GemmArguments arguments = dense_arguments(call);
      if (shared_b) arguments.b.batch = arguments.b2.batch = 0;
      const TsGemmArgs args = cpu_arguments(call, terms, arguments, splits, pool_.threads(), nullptr);
      facts.workspace_bytes = std::max(facts.workspace_bytes, static_cast<std::size_t>(table.workspace_bytes(&args)));
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
  for (unsigned stage = 0; stage < table.stage_count; ++stage)
    facts.stages.push_back({facts.kernel, fmt::format("stage {}", stage)});
  log_debug("planned {}: {}", facts.kernel, facts.reason);
  return std::make_unique<CpuGemmPlan>(problem, std::move(facts), terms, kernel, pool_, splits,
                                       PackedHeader::of(problem, config, 0));
}

Result<KernelConfig> CpuGemm::packer(const GemmProblem& problem) const {
  GemmProblem typical = packing_of(problem);
  typical.m = kTypicalRows;
  typical.order_b = MatrixOrder::column;
  typical.packed_b = false;
  TS_ASSIGN(GemmSignature signature, cpu_signature_of(typical));
  std::vector<Candidate> blocked;
  for (const CpuSpec& spec : machine_.levels)
    enumerate_cpu_gemm(spec, signature, [&](const KernelConfig& config) {
      if (config.algorithm.pipeline == Pipeline::blocked && !config.algorithm.split_k)
        blocked.push_back({config, expected_seconds(typical, config, spec, 1)});
      return true;
    });
  if (blocked.empty()) return std::unexpected(refusal(machine_, signature));
  best_first(blocked);
  KernelConfig best = blocked.front().recipe.main();
  signature.layout_b = problem.order_b;
  best.signature = signature;
  return best;
}

Result<std::size_t> CpuGemm::packed_b_bytes(const GemmProblem& problem, BuildPolicy build) {
  TS_ASSIGN(const KernelConfig config, packer(problem));
  TS_ASSIGN(const CpuKernel kernel, registry_.find(config, build));
  const TsGemmArgs args = packing_arguments(problem, config, {}, pool_.threads());
  return sizeof(PackedHeader) + static_cast<std::size_t>(kernel.table().workspace_bytes(&args));
}

Status CpuGemm::pack_b(const GemmProblem& problem, const GemmOperand& b, void* packed, BuildPolicy build) {
  TS_ASSIGN(const KernelConfig config, packer(problem));
  TS_ASSIGN(const CpuKernel kernel, registry_.find(config, build));
  TsGemmArgs args = packing_arguments(problem, config, b, pool_.threads());
  auto* const header = static_cast<PackedHeader*>(packed);
  args.workspace = header + 1;
  const long long bytes = kernel.table().workspace_bytes(&args);
  if (problem.n > 0 && problem.k > 0) {
    TsCpuKernel packing = kernel.table();
    packing.stage_count = 1;
    pool_.reserve_scratch(static_cast<std::size_t>(packing.scratch_bytes(&args)));
    pool_.run(packing, &args);
  }
  *header = PackedHeader::of(problem, config, static_cast<std::int64_t>(sizeof(PackedHeader)) + bytes);
  return {};
}

Result<std::unique_ptr<const GemmListPlan>> CpuGemm::plan_list(std::vector<GemmProblem> problems, const Planner& plan,
                                                               const DispatcherOptions&) {
  return CpuGemmListPlan::make(std::move(problems), plan, pool_);
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
