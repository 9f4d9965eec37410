#include "tune/random_shapes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "problem/attention/problem.hpp"
#include "problem/attention_backward/problem.hpp"
#include "problem/conv/problem.hpp"
#include "problem/gemm/problem.hpp"
#include "sweep/operation.hpp"

namespace tilesmith {

// SplitMix64, by Sebastiano Vigna (prng.di.unimi.it/splitmix64.c, public domain).
std::uint64_t ShapeRandom::next() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

double ShapeRandom::share() {
  return static_cast<double>(next() >> 11) * 0x1p-53;
}

std::int64_t ShapeRandom::size(std::int64_t low, std::int64_t high, std::int64_t step) {
  const double least = std::log2(static_cast<double>(low)), most = std::log2(static_cast<double>(high) + 1);
  const auto drawn = static_cast<std::int64_t>(std::exp2(least + share() * (most - least)));
  return std::clamp((drawn + step / 2) / step * step, (low + step - 1) / step * step,
                    std::max(low, high / step * step));
}

template <class Op>
Result<std::vector<DrawnProblem<Op>>> draw_problems(const SampleOptions& options) {
  using Families = ShapeFamilies<Op>;
  const std::span<const std::string_view> all = Families::families();
  std::vector<std::string> names = options.families;
  if (names.empty()) names.assign(all.begin(), all.end());
  for (const std::string& name : names)
    if (std::ranges::find(all, name) == all.end())
      return fail(ErrorCode::invalid_argument, fmt::format("{} has no family {}", Op::kName, name),
                  fmt::format("{}", fmt::join(all, ", ")));
  const std::vector<DataType> types = options.types.empty() ? Families::usual_types() : options.types;
  const std::size_t turn = names.size() * types.size();

  std::vector<DrawnProblem<Op>> drawn;
  for (std::size_t i = 0; i < static_cast<std::size_t>(options.count); ++i) {
    const std::string& family = names[i % names.size()];
    const std::size_t type = i / names.size() % types.size();
    const auto place = static_cast<std::uint64_t>(std::ranges::find(all, family) - all.begin());
    // Another number of families or types does not change what a family's draws of a type are.
    ShapeRandom random(ShapeRandom(options.seed).next() ^
                       ((place << 48) | (std::uint64_t{static_cast<unsigned>(types[type])} << 40) | i / turn));
    constexpr int kTries = 64;  // a family may hold few problems of so little work
    for (int attempt = 0; attempt < kTries; ++attempt) {
      typename Op::Problem problem = Families::draw(family, types[type], random);
      if (!validate(problem)) continue;
      problem = BenchOperation<Op>::measured(problem);  // as a line that is read has it
      if (flops_of(problem) > options.most_flops || bytes_of(problem) > options.most_bytes) continue;
      if (std::ranges::find(drawn, problem, &DrawnProblem<Op>::problem) != drawn.end()) continue;
      drawn.push_back({family, std::move(problem)});
      break;
    }
  }
  return drawn;
}

template Result<std::vector<DrawnProblem<Gemm>>> draw_problems(const SampleOptions&);
template Result<std::vector<DrawnProblem<AttentionFwd>>> draw_problems(const SampleOptions&);
template Result<std::vector<DrawnProblem<AttentionBwd>>> draw_problems(const SampleOptions&);
template Result<std::vector<DrawnProblem<Conv>>> draw_problems(const SampleOptions&);

}  // namespace tilesmith
