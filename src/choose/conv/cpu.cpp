#include "choose/conv/cpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "choose/conv/cpu_model.hpp"
#include "choose/conv/cpu_terms.hpp"
#include "choose/cpu_level.hpp"
#include "choose/cpu_threads.hpp"
#include "instances/conv/cpu.hpp"
#include "problem/conv/problem.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

/// Floats hold sums of so many products of int8 whole.
bool holds_sums(Instruction instruction, const ConvProblem& problem) {
  constexpr std::int64_t kWholeProducts = (1 << 24) / (128 * 128);
  return instruction != Instruction::fma_f32 || problem.data_type != DataType::int8 ||
         problem.c * taps_of(problem) <= kWholeProducts;
}

/// Groups of as many channels as divide a vector's lanes. What multiplies pairs takes groups of several; fours are of
/// rows of taps where groups have one.
bool suits_lanes(const CpuSpec& spec, Instruction instruction, const ConvProblem& problem) {
  if (instruction != Instruction::fma_f32 && instruction != Instruction::dot_int8 && problem.c < 2) return false;
  return holds_sums(instruction, problem) && problem.c == problem.k && problem.c > 0 &&
         spec.vector_bits / 32 % problem.c == 0;
}

/// Direct kernels hold lines of the image as long as their taps reach; what multiplies several elements at once takes
/// several channels.
bool suits_pixels(Instruction instruction, const ConvProblem& problem) {
  const std::int64_t channels = problem.direction == ConvDirection::forward ? problem.c : problem.k;
  if (instruction != Instruction::fma_f32 && channels < 2) return false;
  constexpr std::int64_t kMostWindow = 1 << 14;
  std::int64_t window = 1;
  for (std::size_t d = 0; d < 3; ++d) {
    if ((problem.filter()[d] - 1) > kMostWindow / problem.dilation()[d]) return false;
    window *= (problem.filter()[d] - 1) * problem.dilation()[d] + 1;
    if (window > kMostWindow) return false;
  }
  return holds_sums(instruction, problem);
}

bool computes(const CpuSpec& spec, const KernelConfig& config, const ConvProblem& problem) {
  if (config.operation() != Operation::conv) return false;
  ConvSignature signature = signature_of(problem);
  signature.depthwise = std::get<ConvSignature>(config.signature).depthwise;
  return std::get<ConvSignature>(config.signature) == signature &&
         (!signature.depthwise || suits_lanes(spec, config.algorithm.instruction, problem)) &&
         (config.algorithm.pipeline != Pipeline::direct || suits_pixels(config.algorithm.instruction, problem));
}

/// Kernels of every level the machine runs that compute the problem with w as it lies, by their seconds on up to so
/// many threads.
std::vector<Candidate> plain_candidates(const CpuFacts& facts, const ConvProblem& problem, int threads) {
  std::vector<Candidate> candidates;
  for (const CpuSpec& spec : facts.levels)
    enumerate_cpu_conv(spec, problem.direction, problem.data_type, [&](const KernelConfig& config) {
      if (computes(spec, config, problem))
        candidates.push_back({config, seconds_of_call(problem, config, spec, threads)});
      return true;
    });
  best_first(candidates);
  return candidates;
}

Error no_kernel(const CpuFacts& facts) {
  return {ErrorCode::unsupported, fmt::format("no CPU kernel computes this problem on {}", name_of(facts)), ""};
}

}  // namespace

Result<KernelConfig> packing_kernel(const CpuFacts& facts, const ConvProblem& problem) {
  constexpr std::int64_t kTypicalPixels = 784;
  ConvProblem typical = packing_of(problem);
  typical.in_w += kTypicalPixels - 1;
  std::vector<Candidate> candidates = plain_candidates(facts, typical, 1);
  // What is packed is read by one kernel alone. Direct kernels of floats are not linked in, as blocked ones are:
  // without a compiler nobody could. No kernel of pairs and fours is.
  std::erase_if(candidates, [](const Candidate& candidate) {
    const Algorithm& algorithm = candidate.recipe.main().algorithm;
    return algorithm.pipeline == Pipeline::direct && algorithm.instruction == Instruction::fma_f32;
  });
  if (candidates.empty()) return std::unexpected(no_kernel(facts));
  return candidates.front().recipe.main();
}

Result<Ranking> rank(const CpuFacts& facts, const ConvProblem& problem) {
  std::vector<Candidate> candidates = plain_candidates(facts, problem, facts.threads);
  if (problem.packed_w) {
    TS_ASSIGN(const KernelConfig panels, packing_kernel(facts, problem));
    std::erase_if(candidates, [&](const Candidate& candidate) { return candidate.recipe.main() != panels; });
  }
  if (candidates.empty()) return std::unexpected(no_kernel(facts));
  return Ranking{std::move(candidates), "cost model"};
}

std::vector<ModelTerms> model_terms(const CpuFacts& facts, const ConvProblem& problem) {
  std::vector<ModelTerms> out;
  for (const CpuSpec& spec : facts.levels)
    enumerate_cpu_conv(spec, problem.direction, problem.data_type, [&](const KernelConfig& config) {
      if (!computes(spec, config, problem)) return true;
      const CpuConvTerms terms = cpu_conv_terms(problem, config, spec);
      out.push_back({config, kCpuConvTerms, {terms.begin(), terms.end()}});
      return true;
    });
  return out;
}

Result<std::vector<Refusal>> refusals(const CpuFacts& facts, const ConvProblem& problem) {
  RefusalList out({});
  std::optional<KernelConfig> panels;
  if (problem.packed_w) {
    TS_ASSIGN(panels, packing_kernel(facts, problem));
  }
  for (const CpuSpec& spec : facts.levels)
    enumerate_cpu_conv(spec, problem.direction, problem.data_type, [&](const KernelConfig& config) {
      if (!computes(spec, config, problem))
        out.add(
            config, "suits_shape",
            fmt::format("c {} and k {} in a group, depthwise as many of both, which divide a vector; direct kernels "
                        "have short reaches, and sums that floats hold",
                        problem.c, problem.k));
      else if (panels && config != *panels)
        out.add(config, "reads_packed_panels", "the problem's w is packed for another kernel");
      return true;
    });
  return out.take();
}

std::vector<Candidate> fallbacks(const CpuFacts& facts, const ConvProblem& problem,
                                 std::span<const KernelConfig> linked) {
  std::vector<Candidate> candidates;
  for (const KernelConfig& config : linked)
    if (const CpuSpec* spec = facts.level(config.arch); spec != nullptr && serves(facts, config, problem))
      candidates.push_back({config, seconds_of_call(problem, config, *spec, facts.threads)});
  best_first(candidates);
  return candidates;
}

Status serves(const CpuFacts& facts, const KernelConfig& config, const ConvProblem& problem) {
  TS_TRY(check_runs_on(facts, config));
  const CpuSpec* spec = facts.level(config.arch);
  if (spec != nullptr && computes(*spec, config, problem)) {
    if (!problem.packed_w) return {};
    TS_ASSIGN(const KernelConfig panels, packing_kernel(facts, problem));
    if (config == panels) return {};
    return fail(ErrorCode::invalid_argument, fmt::format("kernel {} reads other panels of w", native_name(config)),
                fmt::format("{}, which w is packed for", native_name(panels)));
  }
  return fail(ErrorCode::invalid_argument, fmt::format("kernel {} does not compute this problem", native_name(config)),
              "a kernel of conv with the problem's direction and type; depthwise where c and k are as many and divide "
              "a vector");
}

}  // namespace tilesmith
