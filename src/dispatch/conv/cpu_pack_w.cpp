#include "dispatch/conv/cpu_pack_w.hpp"

#include <fmt/format.h>

#include "choose/conv/cpu.hpp"
#include "choose/conv/cpu_model.hpp"
#include "dispatch/conv/cpu_packed_w.hpp"
#include "dispatch/cpu_steps.hpp"
#include "dispatch/plan_info.hpp"
#include "problem/conv/problem.hpp"

namespace tilesmith {
namespace {

/// What the first stage of a kernel is called with.
TsConvArgs packing_arguments(const ConvProblem& problem, const void* w, const ConvStrides& strides, int threads,
                             void* panels) {
  ConvArguments arguments;
  arguments.w = w;
  arguments.w_strides = strides;
  TsConvArgs args = cpu_arguments(problem, arguments, threads, panels);
  args.packed_w = true;
  return args;
}

class CpuConvPackWPlan final : public ConvPackWPlan {
 public:
  CpuConvPackWPlan(const ConvPackWProblem& problem, PlanInfo info, CpuSteps steps, const KernelConfig& config,
                   std::size_t packed_bytes)
      : ConvPackWPlan(problem, std::move(info), packed_bytes),
        steps_(std::move(steps)),
        config_(config),
        packing_(steps_.table()) {
    packing_.stage_count = 1;
    const TsConvArgs args = packing_arguments(problem.conv, nullptr, {}, steps_.team().threads(), nullptr);
    steps_.team().reserve_scratch(static_cast<std::size_t>(packing_.scratch_bytes(&args)));
  }

  [[nodiscard]] Status run(const ConvPackWArguments& arguments, const RunOptions&) const override {
    const ConvProblem& p = problem().conv;
    TS_TRY(validate_packing(p, arguments.w, arguments.strides, arguments.packed, packed_bytes()));
    auto* const header = static_cast<PackedWHeader*>(arguments.packed);
    const TsConvArgs args = packing_arguments(p, arguments.w, arguments.strides, steps_.team().threads(), header + 1);
    steps_.team().run(packing_, &args);
    *header = PackedWHeader::of(p, config_, static_cast<std::int64_t>(packed_bytes()));
    return {};
  }

 private:
  CpuSteps steps_;
  KernelConfig config_;
  TsCpuKernel packing_;  ///< the step's table with its first stage alone
};

}  // namespace

Result<Ranking> CpuConvPackW::rank(const ConvPackWProblem& problem) const {
  TS_ASSIGN(KernelConfig config, packing_kernel(facts_, problem.conv));
  return Ranking{{{Recipe(std::move(config), StepRole::pack_w)}}, "cost model"};
}

Status CpuConvPackW::check(const Recipe& recipe, const ConvPackWProblem& problem) const {
  TS_ASSIGN(const Ranking ranking, rank(problem));
  const Recipe& own = ranking.candidates.front().recipe;
  if (recipe == own) return {};
  return fail(ErrorCode::invalid_argument, fmt::format("recipe {} does not pack this w", recipe_name(recipe)),
              recipe_name(own));
}

Result<std::unique_ptr<ConvPackWPlan>> CpuConvPackW::plan(const ConvPackWProblem& problem, const Candidate& chosen,
                                                          std::string reason, BuildPolicy build) {
  TS_ASSIGN(CpuSteps steps, CpuSteps::load(chosen.recipe, team_,
                                           [&](const KernelConfig& config) { return registry_.find(config, build); }));
  const TsConvArgs args = packing_arguments(problem.conv, nullptr, {}, team_.threads(), nullptr);
  const std::size_t bytes = sizeof(PackedWHeader) + static_cast<std::size_t>(steps.table().workspace_bytes(&args));
  return std::make_unique<CpuConvPackWPlan>(problem, plan_info({}, chosen, std::move(reason)), std::move(steps),
                                            chosen.recipe.main(), bytes);
}

}  // namespace tilesmith
