#include "verify/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace tilesmith {

ErrorFigures measure_errors(std::span<const double> got, std::span<const double> want) {
  ErrorFigures figures;
  figures.count = std::min(got.size(), want.size());
  double squares = 0;
  double norms = 0;
  for (std::size_t i = 0; i < figures.count; ++i) {
    const double x = got[i];
    const double y = want[i];
    double error = x == y ? 0.0 : std::abs(x - y);
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    if (error > figures.max_abs) {
      figures.max_abs = error;
      figures.worst = i;
      figures.worst_got = x;
      figures.worst_want = y;
    }
    if (y != 0 && error > 0) figures.max_rel = std::max(figures.max_rel, error / std::abs(y));
    figures.mean_abs += error;
    squares += error * error;
    if (std::isfinite(x)) norms += x * x;
    if (std::isfinite(y)) norms += y * y;
  }
  if (figures.count == 0) return figures;
  const auto count = static_cast<double>(figures.count);
  figures.mean_abs /= count;
  figures.rms = std::sqrt(squares / count);
  figures.norm_wise = norms > 0 ? squares / norms : squares > 0 ? 1.0 : 0.0;
  return figures;
}

const ErrorFigures& Verdict::errors_of(std::string_view name) const {
  static const ErrorFigures kNone;
  const auto found = std::ranges::find(tensors, name, &TensorErrors::name);
  return found == tensors.end() ? kNone : found->figures;
}

const ErrorFigures& Verdict::result_errors() const {
  return errors_of(tensors.empty() ? std::string_view() : tensors.front().name);
}

bool fails(Verdict& verdict, Check check, std::string_view reason) {
  verdict.outcome = Outcome::fail;
  verdict.check = check;
  verdict.reason = fmt::format("check {}: {}", to_string(check), reason);
  return false;
}

void mistrusts(Verdict& verdict, std::string reason) {
  verdict.outcome = Outcome::mistrusted;
  verdict.check = Check::guards;
  verdict.reason = std::move(reason);
}

std::string_view to_string(Check check) {
  switch (check) {
    case Check::none:
      return "none";
    case Check::exact:
      return "exact";
    case Check::bound:
      return "bound";
    case Check::relative:
      return "relative";
    case Check::norm_wise:
      return "norm_wise";
    case Check::guards:
      return "guards";
  }
  std::unreachable();
}

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::pass:
      return "pass";
    case Outcome::fail:
      return "fail";
    case Outcome::mistrusted:
      return "mistrusted";
  }
  std::unreachable();
}

}  // namespace tilesmith
