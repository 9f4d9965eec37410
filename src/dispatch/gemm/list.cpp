#include "dispatch/gemm/list.hpp"

#include <algorithm>

#include "dispatch/plan_info.hpp"
#include "problem/gemm/problem.hpp"

namespace tilesmith {
namespace {

/// Where a product's D lies, or something else of it.
struct Place {
  GemmLines lines;
  std::size_t product;

  [[nodiscard]] std::intptr_t begin() const { return reinterpret_cast<std::intptr_t>(lines.data); }
  [[nodiscard]] std::intptr_t end() const { return begin() + lines.extent(); }
};

/// What of the product D overlaps, for an error.
std::string overlapped_name(const GemmProblem& problem, const GemmArguments& arguments, const GemmLines& d) {
  std::string name;
  show_memory(problem, arguments, [&](const GemmLines& lines, bool) {
    if (name.empty() && overlap(d, lines)) name = lines.name;
  });
  return name;
}

/// That no D overlaps what another product reads or writes. Bounds of all D, in order, are compared with those of all
/// else; only where two meet, such as columns of one matrix side by side, their lines are.
Status check_apart(std::span<const GemmProblem> problems, std::span<const GemmArguments> arguments) {
  if (problems.size() < 2) return {};
  thread_local std::vector<Place> results, others;   // calls allocate nothing
  thread_local std::vector<std::intptr_t> furthest;  // end of the results up to each
  results.clear();
  others.clear();
  furthest.clear();
  for (std::size_t i = 0; i < problems.size(); ++i)
    show_memory(problems[i], arguments[i], [&](const GemmLines& lines, bool is_d) {
      (is_d ? results : others).push_back({lines, i});
    });
  std::ranges::sort(results, {}, &Place::begin);
  for (const Place& result : results)
    furthest.push_back(furthest.empty() ? result.end() : std::max(furthest.back(), result.end()));
  for (const std::vector<Place>* places : {&results, &others})
    for (const Place& place : *places) {
      const auto behind = std::ranges::lower_bound(results, place.end(), {}, &Place::begin);
      for (auto at = static_cast<std::size_t>(behind - results.begin()); at > 0 && furthest[at - 1] > place.begin();
           --at) {
        const auto& [d, product] = results[at - 1];
        if (product == place.product || !overlap(d, place.lines)) continue;
        const std::string name = overlapped_name(problems[place.product], arguments[place.product], d);
        return std::unexpected(
            of_product({ErrorCode::invalid_argument, fmt::format("d overlaps {} of product {}", name, place.product),
                        "memory of its own"},
                       product, problems.size()));
      }
    }
  return {};
}

}  // namespace

Status validate(std::span<const GemmProblem> problems, std::span<const GemmArguments> arguments) {
  if (arguments.size() != problems.size())
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("there are arguments for {} products, the plan is for {}", arguments.size(), problems.size()),
        "as many as problems, in their order");
  for (std::size_t i = 0; i < problems.size(); ++i)
    if (const Status status = validate(problems[i], arguments[i]); !status)
      return std::unexpected(of_product(status.error(), i, problems.size()));
  return check_apart(problems, arguments);
}

Result<std::vector<const GemmPlan*>> plans_of(std::span<const GemmProblem> problems,
                                              const ListBackend<Gemm>::Planner& plan) {
  std::vector<const GemmPlan*> plans;
  plans.reserve(problems.size());
  for (const GemmProblem& problem : problems) {
    const auto member = plan(problem);
    if (!member) return std::unexpected(of_product(member.error(), plans.size(), problems.size()));
    plans.push_back(*member);
  }
  return plans;
}

void GemmListInfo::add(const PlanStep& step, std::size_t products) {
  const auto found = std::ranges::find_if(
      parts_, [&](const Part& part) { return part.step.kernel == step.kernel && part.step.role == step.role; });
  if (found != parts_.end())
    found->products += products;
  else
    parts_.push_back({step, products});
}

void GemmListInfo::add(const Plan& member, bool has_work) {
  for (const PlanStep& step : member.steps()) add(step, 1);
  if (!has_work) return;
  add_source(member.info().source);
  predicted_seconds_ += member.predicted_seconds();
  is_predicted_ = is_predicted_ && member.predicted_seconds() > 0;
}

void GemmListInfo::add(const KernelConfig& kernel, std::size_t products, double predicted_seconds) {
  for (const PlanStep& step : plan_info({}, {kernel}, {}).steps) add(step, products);
  predicted_seconds_ += predicted_seconds;
  add_source(name_of(ChoiceSource::model));
}

void GemmListInfo::add_source(std::string_view source) {
  if (source_.empty()) source_ = source;
  if (source_ != source) source_ = "mixed";
}

PlanInfo GemmListInfo::info(Device device, std::size_t products, std::string_view how) const {
  PlanInfo info{.device = device,
                .recipe = {},
                .reason = fmt::format("{} products {}", products, how),
                .predicted_seconds = is_predicted_ ? predicted_seconds_ : 0,
                .source = source_};
  for (const auto& [step, count] : parts_) {
    info.steps.push_back(step);
    info.steps.back().what += fmt::format(", for {} products", count);
  }
  info.recipe = recipe_name(info.steps);
  return info;
}

}  // namespace tilesmith
