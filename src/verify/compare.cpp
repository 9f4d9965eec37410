#include "verify/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "verify/chunks.hpp"

namespace tilesmith {

namespace {

/// The figures of some elements; mean_abs is their sum.
struct ErrorSums {
  ErrorFigures figures;
  double squares = 0, norms = 0;

  void add(std::size_t at, double x, double y) {
    double error = x == y ? 0.0 : std::abs(x - y);
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    if (error > figures.max_abs) {
      figures.max_abs = error;
      figures.worst = at;
      figures.worst_got = x;
      figures.worst_want = y;
    }
    if (y != 0 && error > 0) figures.max_rel = std::max(figures.max_rel, error / std::abs(y));
    figures.mean_abs += error;
    squares += error * error;
    if (std::isfinite(x)) norms += x * x;
    if (std::isfinite(y)) norms += y * y;
  }

  void add(const ErrorSums& later) {
    ErrorFigures all = later.figures.max_abs > figures.max_abs ? later.figures : figures;
    all.max_rel = std::max(figures.max_rel, later.figures.max_rel);
    all.mean_abs = figures.mean_abs + later.figures.mean_abs;
    figures = all;
    squares += later.squares;
    norms += later.norms;
  }
};

}  // namespace

ErrorFigures measure_errors(std::span<const double> got, std::span<const double> want, unsigned threads) {
  const std::size_t size = std::min(got.size(), want.size());
  const auto own_sums = [&](std::size_t begin, std::size_t end) {
    ErrorSums own;
    for (std::size_t i = begin; i < end; ++i) own.add(i, got[i], want[i]);
    return own;
  };
  ErrorSums sums;
  for (const ErrorSums& chunk : of_chunks(size, own_sums, threads)) sums.add(chunk);
  ErrorFigures figures = sums.figures;
  figures.count = size;
  if (figures.count == 0) return figures;
  const auto count = static_cast<double>(figures.count);
  figures.mean_abs /= count;
  figures.rms = std::sqrt(sums.squares / count);
  figures.norm_wise = sums.norms > 0 ? sums.squares / sums.norms : sums.squares > 0 ? 1.0 : 0.0;
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
    case Check::sums:
      return "sums";
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
