// Heuristics: what could compute a problem, in the order of the model's predictions, and a kernel chosen by its name.
#include "example.hpp"

int main() {
  const auto problem = tilesmith::gemm_problem(tilesmith::DataType::fp32, 64, 96, 128);
  tilesmith::Dispatcher dispatcher;
  const auto choice = example::value_of(dispatcher.candidates(problem, dispatcher.options()));
  std::printf("%zu candidates by the %s, %zu kernels refused\n", choice.candidates.size(), choice.policy.c_str(),
              choice.refusals.size());
  for (std::size_t i = 0; i < std::min<std::size_t>(3, choice.candidates.size()); ++i)
    std::printf("  %.2f us  %s\n", 1e6 * choice.candidates[i].predicted_seconds, choice.candidates[i].recipe.c_str());
  if (!choice.refusals.empty())
    std::printf("  refused by %s: %s\n", choice.refusals.front().rule.c_str(), choice.refusals.front().kernel.c_str());

  auto options = dispatcher.options();
  options.kernel = choice.candidates.back().recipe;
  const auto* plan = example::value_of(dispatcher.plan(problem, options));
  std::printf("asked for by name: %s (%s)\n", plan->info().recipe.c_str(), plan->info().source.c_str());
  return plan->info().recipe == options.kernel ? 0 : 1;
}
