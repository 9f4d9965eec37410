#include "dispatch/gemm/cpu_pack_b.hpp"

#include <fmt/format.h>

#include "choose/gemm/cpu.hpp"
#include "dispatch/cpu_steps.hpp"
#include "dispatch/gemm/cpu_arguments.hpp"
#include "dispatch/gemm/cpu_packed_b.hpp"
#include "dispatch/plan_info.hpp"
#include "problem/gemm/problem.hpp"

namespace tilesmith {
namespace {

/// What the first stage of a blocked kernel is called with to pack B.
TsGemmArgs packing_arguments(const GemmProblem& problem, const KernelConfig& config, const GemmOperand& b,
                             int threads) {
  TsGemmArgs args{};
  args.b = {b.data, b.leading, 0};
  args.m = config.algorithm.tile[0];
  args.n = problem.n;
  args.k = problem.k;
  args.batch = 1;
  args.splits = 0;
  args.threads = threads;
  args.alpha = 1;
  return args;
}

class CpuGemmPackBPlan final : public GemmPackBPlan {
 public:
  CpuGemmPackBPlan(const GemmPackBProblem& problem, PlanInfo info, CpuSteps steps, const KernelConfig& config,
                   std::size_t packed_bytes)
      : GemmPackBPlan(problem, std::move(info), packed_bytes),
        steps_(std::move(steps)),
        config_(config),
        packing_(steps_.table()) {
    packing_.stage_count = 1;
    const TsGemmArgs args = packing_arguments(problem.gemm, config_, {}, steps_.team().threads());
    steps_.team().reserve_scratch(static_cast<std::size_t>(packing_.scratch_bytes(&args)));
  }

  [[nodiscard]] Status run(const GemmPackBArguments& arguments, const RunOptions&) const override {
    const GemmProblem& p = problem().gemm;
    TS_TRY(validate_packing(p, arguments.b, arguments.packed, packed_bytes()));
    auto* const header = static_cast<PackedHeader*>(arguments.packed);
    TsGemmArgs args = packing_arguments(p, config_, arguments.b, steps_.team().threads());
    args.workspace = header + 1;
    if (p.n > 0 && p.k > 0) steps_.team().run(packing_, &args);
    *header = PackedHeader::of(p, config_, static_cast<std::int64_t>(packed_bytes()));
    return {};
  }

 private:
  CpuSteps steps_;
  KernelConfig config_;
  TsCpuKernel packing_;  ///< the step's table with its first stage alone
};

}  // namespace

Result<Ranking> CpuGemmPackB::rank(const GemmPackBProblem& problem) const {
  TS_ASSIGN(KernelConfig config, packing_kernel(facts_, problem.gemm));
  return Ranking{{{Recipe(std::move(config), StepRole::pack_b)}}, "cost model"};
}

Status CpuGemmPackB::check(const Recipe& recipe, const GemmPackBProblem& problem) const {
  TS_ASSIGN(const Ranking ranking, rank(problem));
  const Recipe& own = ranking.candidates.front().recipe;
  if (recipe == own) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("recipe {} does not pack this B", recipe_name(recipe)),
              recipe_name(own));
}

Result<std::unique_ptr<GemmPackBPlan>> CpuGemmPackB::plan(const GemmPackBProblem& problem, const Candidate& chosen,
                                                          std::string reason, BuildPolicy build) {
  TS_ASSIGN(CpuSteps steps, CpuSteps::load(chosen.recipe, team_,
                                           [&](const KernelConfig& config) { return registry_.find(config, build); }));
  const KernelConfig& config = chosen.recipe.main();
  const TsGemmArgs args = packing_arguments(problem.gemm, config, {}, team_.threads());
  const std::size_t bytes = sizeof(PackedHeader) + static_cast<std::size_t>(steps.table().workspace_bytes(&args));
  return std::make_unique<CpuGemmPackBPlan>(problem, plan_info({}, chosen, std::move(reason)), std::move(steps), config,
                                            bytes);
}

}  // namespace tilesmith
