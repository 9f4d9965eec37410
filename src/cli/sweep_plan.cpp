#include "cli/sweep_plan.hpp"

#include <fmt/core.h>

#include <memory>

#include "base/env.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "cli/build_kernels.hpp"
#include "cli/verbs.hpp"
#include "dispatch/ck_builder.hpp"
#include "spec/amd/chip.hpp"
#include "sweep/plan.hpp"

namespace tilesmith::cli {
namespace {

Result<Origin> origin_of(const ArchSweep& sweep) {
  if (!sweep.origin.empty()) return parse_enum<Origin>(sweep.origin);
  return find_amd_chip(sweep.arch) ? Origin::ck : Origin::own;
}

Result<std::optional<AttentionVariant>> variant_of(const ArchSweep& sweep, Origin origin) {
  if (origin == Origin::own || !std::holds_alternative<std::vector<AttentionProblem>>(sweep.shards.front()))
    return std::optional<AttentionVariant>();
  TS_ASSIGN(const AttentionVariant variant, parse_enum<AttentionVariant>(sweep.variant));
  return std::optional(variant);
}

Status build_kernels_of(const SweepPlan& plan, const ArchSweep& sweep, Origin origin) {
  TS_ASSIGN(const std::unique_ptr<KernelBuilder> builder,
            origin == Origin::ck ? ck_builder_for(sweep.arch, {.version = sweep.ck_version, .spill_limit_bytes = 0})
                                 : builder_for(sweep.arch));
  return build_kernels(*builder, plan.kernels, sweep.workers);
}

}  // namespace

Status sweep_for_arch(const ArchSweep& sweep) {
  TS_ASSIGN(const Origin origin, origin_of(sweep));
  TS_ASSIGN(DeviceFacts facts, facts_of(sweep.arch, 1, origin));
  SweepPlanOptions options{.facts = std::move(facts),
                           .shards = sweep.shards,
                           .max_kernels = sweep.max_kernels,
                           .workers = sweep.workers > 0 ? sweep.workers : usable_processors()};
  TS_ASSIGN(options.variant, variant_of(sweep, origin));
  TS_ASSIGN(const SweepPlan plan, plan_sweep(options));
  if (!sweep.dry_run) {
    if (plan.kernels.empty())
      return fail(ErrorCode::unsupported, "no kernel of the chip computes a problem of the sweep",
                  "--dry-run says why each is skipped");
    return build_kernels_of(plan, sweep, origin);
  }
  nlohmann::json document = to_json(plan);
  document["arch"] = sweep.arch;
  document["origin"] = name_of(origin);
  document["workers"] = options.workers;
  if (sweep.json == "-") {
    fmt::print("{}", json_text(document));
    return {};
  }
  if (!sweep.json.empty()) TS_TRY(write_file_atomic(sweep.json, json_text(document)));
  fmt::print("{} on {}, {} compilers at a time\n{}",
             origin == Origin::ck ? "Composable Kernel's instances" : "own kernels", sweep.arch, options.workers,
             to_text(plan));
  return {};
}

}  // namespace tilesmith::cli
