#include "dispatch/softmax_recipe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "dispatch/cpu_workspace.hpp"
#include "dispatch/plan_info.hpp"
#include "dispatch/workspace.hpp"

namespace tilesmith::testing {
namespace {

constexpr long long kBlock = 10;

/// What every step's kernel reads.
struct SoftmaxArgs {
  const float* x;
  float* y;
  float* maxima;  ///< of each block of kBlock numbers
  float* sums;
  long long n;
  [[nodiscard]] long long blocks() const { return (n + kBlock - 1) / kBlock; }
};

const SoftmaxArgs& args_of(const void* args) {
  return *static_cast<const SoftmaxArgs*>(args);
}
long long blocks_of(const void* args) {
  return args_of(args).blocks();
}
long long one_task(const void*) {
  return 1;
}

template <class Work>
void for_block(const SoftmaxArgs& a, long long block, Work work) {
  for (long long i = block * kBlock; i < std::min(a.n, (block + 1) * kBlock); ++i) work(i);
}

void run_maximum(const void* args, long long block, void*) {
  const SoftmaxArgs& a = args_of(args);
  a.maxima[block] = -INFINITY;
  for_block(a, block, [&](long long i) { a.maxima[block] = std::max(a.maxima[block], a.x[i]); });
}
void run_exponentials(const void* args, long long block, void*) {
  const SoftmaxArgs& a = args_of(args);
  const float top = *std::max_element(a.maxima, a.maxima + a.blocks());
  a.sums[block] = 0;
  for_block(a, block, [&](long long i) { a.sums[block] += a.y[i] = std::exp(a.x[i] - top); });
}
void run_divide(const void* args, long long block, void*) {
  const SoftmaxArgs& a = args_of(args);
  float sum = 0;
  for (long long b = 0; b < a.blocks(); ++b) sum += a.sums[b];
  for_block(a, block, [&](long long i) { a.y[i] /= sum; });
}
void run_all(const void* args, long long, void*) {
  const SoftmaxArgs& a = args_of(args);
  const float top = *std::max_element(a.x, a.x + a.n);
  float sum = 0;
  for (long long i = 0; i < a.n; ++i) sum += a.y[i] = std::exp(a.x[i] - top);
  for (long long i = 0; i < a.n; ++i) a.y[i] /= sum;
}

/// The kernel of a step, as one that is linked in.
const TsCpuKernel& table_of(SoftmaxStep step) {
  static const std::map<SoftmaxStep, TsCpuKernel>& tables = *[] {
    auto* made = new std::map<SoftmaxStep, TsCpuKernel>;
    const auto add = [&](SoftmaxStep which, auto tasks, auto run) {
      TsCpuKernel table{};
      table.abi_version = TS_CPU_ABI_VERSION;
      table.stage_count = 1;
      table.name = "softmax";
      const Key128 key = key_of(config_of(which));
      table.key[0] = key.hi;
      table.key[1] = key.lo;
      table.workspace_bytes = [](const void*) { return 0LL; };
      table.scratch_bytes = [](const void*) { return 0LL; };
      table.stages[0] = {tasks, run};
      made->emplace(which, table);
    };
    add(SoftmaxStep::all, one_task, run_all);
    add(SoftmaxStep::maximum, blocks_of, run_maximum);
    add(SoftmaxStep::exponentials, blocks_of, run_exponentials);
    add(SoftmaxStep::divide, blocks_of, run_divide);
    return made;
  }();
  return tables.at(step);
}

Recipe recipe_of(std::initializer_list<SoftmaxStep> steps) {
  std::vector<Step> made;
  for (const SoftmaxStep step : steps) made.push_back({config_of(step)});
  return Recipe(std::move(made));
}

class Plan final : public SoftmaxPlan {
 public:
  Plan(const SoftmaxProblem& problem, PlanInfo info, CpuSteps steps, std::size_t maxima, std::size_t sums)
      : SoftmaxPlan(problem, std::move(info)), steps_(std::move(steps)), maxima_(maxima), sums_(sums) {}

  [[nodiscard]] Status run(const SoftmaxArguments& arguments, const RunOptions& options) const override {
    TS_TRY(check_workspace(options.workspace));
    auto* const workspace = static_cast<std::byte*>(cpu_workspace(options, workspace_bytes()));
    const SoftmaxArgs args{.x = arguments.x,
                           .y = arguments.y,
                           .maxima = reinterpret_cast<float*>(workspace + maxima_),
                           .sums = reinterpret_cast<float*>(workspace + sums_),
                           .n = problem().n};
    steps_.run([&](std::size_t, auto&& send) { send(args); });
    return {};
  }

 private:
  CpuSteps steps_;
  std::size_t maxima_, sums_;  ///< offsets in the workspace
};

}  // namespace

KernelConfig config_of(SoftmaxStep step) {
  KernelConfig config{.arch = ArchName::parse("x86_64_v3").value(), .signature = GemmSignature{}, .algorithm = {}};
  config.algorithm.pipeline = Pipeline::blocked;
  config.algorithm.instruction = Instruction::fma_f32;
  config.algorithm.tile = {8, static_cast<std::uint16_t>(step), 64};
  return config;
}

Result<Ranking> CpuSoftmax::rank(const SoftmaxProblem&) const {
  return Ranking{{{recipe_of({SoftmaxStep::maximum, SoftmaxStep::exponentials, SoftmaxStep::divide}), 3e-6},
                  {recipe_of({SoftmaxStep::maximum, SoftmaxStep::all}), 4e-6}},
                 "test"};
}

std::vector<Candidate> CpuSoftmax::fallbacks(const SoftmaxProblem&) const {
  return {{recipe_of({SoftmaxStep::all}), 5e-6}};
}

Status CpuSoftmax::check(const Recipe& recipe, const SoftmaxProblem&) const {
  if (recipe.steps.size() <= 3) return {};
  return fail(ErrorCode::invalid_argument, "more than three steps");
}

Result<std::unique_ptr<SoftmaxPlan>> CpuSoftmax::plan(const SoftmaxProblem& problem, const Candidate& chosen,
                                                      std::string reason, BuildPolicy) {
  TS_ASSIGN(CpuSteps steps, CpuSteps::load(chosen.recipe, pool_, [&](const KernelConfig& config) -> Result<CpuKernel> {
              const auto step = static_cast<SoftmaxStep>(config.algorithm.tile[1]);
              asked.push_back(step);
              if (const auto found = broken.find(step); found != broken.end()) return std::unexpected(found->second);
              return CpuKernel::wrap(&table_of(step), key_of(config));
            }));
  const auto blocks = static_cast<std::size_t>((problem.n + kBlock - 1) / kBlock);
  WorkspaceLayout layout;
  const std::size_t maxima = layout.add("maxima", blocks * sizeof(float));
  const std::size_t sums = layout.add("sums", blocks * sizeof(float));
  PlanInfo info = plan_info({}, chosen, std::move(reason));
  layout.tell(info);
  return std::make_unique<Plan>(problem, std::move(info), std::move(steps), maxima, sums);
}

}  // namespace tilesmith::testing
