#include "verify/reference.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tilesmith {

Verdict Reference::judge(std::span<const OutputValues> outputs) const {
  const std::vector<ReferenceTensor> references = tensors();
  const auto reference_of = [&](std::string_view name) {
    return std::ranges::find(references, name, &ReferenceTensor::name);
  };
  Verdict verdict;
  for (const OutputValues& output : outputs) {
    const auto reference = reference_of(output.name);
    if (reference == references.end()) continue;
    ErrorFigures figures = measure_errors(output.values, reference->values);
    const ErrorFigures& naive = reference->naive;
    if (naive.max_abs > 0) figures.max_ratio = figures.max_abs / naive.max_abs;
    if (naive.mean_abs > 0) figures.mean_ratio = figures.mean_abs / naive.mean_abs;
    verdict.tensors.push_back({std::string(output.name), figures});
  }
  std::string mistrusted;
  for (const OutputValues& output : outputs) {
    verdict.tensor = output.name;
    const auto reference = reference_of(output.name);
    if (reference == references.end()) {
      fails(verdict, Check::guards, fmt::format("there is no reference of {}", output.name));
      return verdict;
    }
    if (!check(output, *reference, verdict)) return verdict;
    if (verdict.outcome == Outcome::mistrusted && mistrusted.empty()) mistrusted = output.name;
  }
  verdict.tensor = mistrusted;
  return verdict;
}

bool Reference::check(const OutputValues& output, const ReferenceTensor& reference, Verdict& verdict) const {
  if (output.values.size() != reference.values.size())
    return fails(
        verdict, Check::guards,
        fmt::format("{} has {} elements, the problem {}", output.name, output.values.size(), reference.values.size()));
  const bool sound = check_guards(output, verdict);
  if (output.judged == Judged::within_bounds) return sound && check_bounds(output, verdict);
  // An exact comparison proves something even where the inputs say little.
  if (verdict.outcome == Outcome::fail) return false;
  for (std::size_t at = 0; at < output.values.size(); ++at) {
    const double want = round_to(reference.type, reference.values[at]);
    if (output.values[at] == want) continue;
    return fails(verdict, Check::exact,
                 fmt::format("{}{} is {:.9g}, it should be exactly {:.9g}", output.name, position(output.name, at),
                             output.values[at], want));
  }
  return true;
}

}  // namespace tilesmith
