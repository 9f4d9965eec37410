#include "dispatch/conv/cpu.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <optional>

#include "choose/conv/cpu.hpp"
#include "choose/conv/cpu_model.hpp"
#include "dispatch/conv/channels_last.hpp"
#include "dispatch/conv/cpu_packed_w.hpp"
#include "dispatch/cpu_packed.hpp"
#include "dispatch/cpu_steps.hpp"
#include "dispatch/cpu_workspace.hpp"
#include "dispatch/plan_info.hpp"
#include "dispatch/workspace.hpp"
#include "problem/conv/problem.hpp"

namespace tilesmith {
namespace {

/// Whether the kernel reads tensors of any strides as they lie.
bool reads_any_strides(const KernelConfig& config) {
  return config.algorithm.pipeline == Pipeline::direct && config.algorithm.instruction == Instruction::fma_f32;
}

class CpuConvPlan final : public ConvPlan {
 public:
  /// `panels`: what a packed w is to be. `copies`: where in the workspace those with channels last are, if some are
  /// made.
  CpuConvPlan(const ConvProblem& problem, PlanInfo info, CpuSteps steps, const PackedWHeader& panels,
              std::optional<std::size_t> copies)
      : ConvPlan(problem, std::move(info)),
        steps_(std::move(steps)),
        panels_(panels),
        reading_(steps_.table()),
        copies_(copies) {
    reading_.stages[0] = reading_.stages[1];
    reading_.stage_count = 1;
  }

  [[nodiscard]] Status run(const ConvArguments& arguments, const RunOptions& options) const override {
    TS_TRY(validate(problem(), arguments));
    if (is_empty(problem())) return {};
    void* const workspace = cpu_workspace(options, workspace_bytes());
    if (problem().packed_w) return run_packed(arguments, workspace);
    const TsConvArgs args =
        cpu_arguments(problem(), as_read(arguments, true, workspace), steps_.team().threads(), workspace);
    steps_.run([&](std::size_t, auto&& send) { send(args); });
    return {};
  }

 private:
  [[nodiscard]] ConvArguments as_read(const ConvArguments& arguments, bool reads_w, void* workspace) const {
    if (!copies_) return arguments;
    return with_channels_last(problem(), arguments, reads_w, steps_.team(),
                              static_cast<std::byte*>(workspace) + *copies_);
  }

  /// Kernels read packed w where they would have packed it.
  [[nodiscard]] Status run_packed(const ConvArguments& arguments, void* workspace) const {
    TS_TRY(check_packed(panels_, arguments.w, arguments.w_strides.batch));
    auto* const panels = const_cast<PackedWHeader*>(static_cast<const PackedWHeader*>(arguments.w)) + 1;
    const TsConvArgs args =
        cpu_arguments(problem(), as_read(arguments, false, workspace), steps_.team().threads(), panels);
    steps_.team().run(reading_, &args);
    return {};
  }

  CpuSteps steps_;
  PackedWHeader panels_;
  TsCpuKernel reading_;  ///< the step's table without the stage that packs w
  std::optional<std::size_t> copies_;
};

}  // namespace

Result<Ranking> CpuConv::rank(const ConvProblem& problem) const {
  return tilesmith::rank(facts_, problem);
}

std::vector<Candidate> CpuConv::fallbacks(const ConvProblem& problem) const {
  return tilesmith::fallbacks(facts_, problem, registry_.essential());
}

Status CpuConv::check(const Recipe& recipe, const ConvProblem& problem) const {
  TS_TRY(check_one_step(recipe));
  return serves(facts_, recipe.main(), problem);
}

Result<std::unique_ptr<ConvPlan>> CpuConv::plan(const ConvProblem& problem, const Candidate& chosen, std::string reason,
                                                BuildPolicy build) {
  const ThreadTeam team = team_worth(problem, chosen.recipe.main(), facts_, team_);
  TS_ASSIGN(CpuSteps steps,
            CpuSteps::load(chosen.recipe, team, [&](const KernelConfig& step) { return registry_.find(step, build); }));
  const ConvArguments dense = dense_arguments(problem, ConvLayout::channels_last);
  const TsConvArgs args = cpu_arguments(problem, dense, team.threads(), nullptr);
  const TsCpuKernel& table = steps.table();
  PlanInfo info = plan_info({}, chosen, std::move(reason));
  info.steps.front().what += problem.packed_w ? " from packed w" : fmt::format(" in {} stages", table.stage_count);
  WorkspaceLayout layout;
  if (!problem.packed_w)
    layout.add(problem.direction == ConvDirection::backward_weight ? "partials of w" : "packed w",
               static_cast<std::size_t>(table.workspace_bytes(&args)));
  std::optional<std::size_t> copies;
  if (problem.unaligned && !reads_any_strides(chosen.recipe.main()))
    copies = layout.add("copies with channels last, of tensors whose channels are apart",
                        channels_last_bytes(problem, !problem.packed_w));
  layout.tell(info);
  team_.reserve_scratch(static_cast<std::size_t>(table.scratch_bytes(&args)));
  return std::make_unique<CpuConvPlan>(problem, std::move(info), std::move(steps),
                                       PackedWHeader::of(problem, chosen.recipe.main(), 0), copies);
}

}  // namespace tilesmith
