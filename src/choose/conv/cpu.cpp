#include "choose/conv/cpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "choose/cpu_level.hpp"
#include "choose/cpu_threads.hpp"
#include "choose/rounding.hpp"
#include "instances/conv/cpu.hpp"
#include "problem/conv/problem.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

/// Groups of as many channels as divide a vector's lanes. Floats hold sums of so many products of int8 whole; fours of
/// int8 are of several channels.
bool suits_lanes(const CpuSpec& spec, Instruction instruction, const ConvProblem& problem) {
  constexpr std::int64_t kWholeProducts = (1 << 24) / (128 * 128);
  const bool integers = instruction == Instruction::dot_int8;
  if (integers && problem.c < 2) return false;
  if (!integers && problem.data_type == DataType::int8 && problem.c * taps_of(problem) > kWholeProducts) return false;
  return problem.c == problem.k && problem.c > 0 && spec.vector_bits / 32 % problem.c == 0;
}

bool computes(const CpuSpec& spec, const KernelConfig& config, const ConvProblem& problem) {
  if (config.operation() != Operation::conv) return false;
  ConvSignature signature = signature_of(problem);
  signature.depthwise = std::get<ConvSignature>(config.signature).depthwise;
  return std::get<ConvSignature>(config.signature) == signature &&
         (!signature.depthwise || suits_lanes(spec, config.algorithm.instruction, problem));
}

}  // namespace

// Products of whole vectors of columns, words that are packed, and the bytes of the tensors.
double predicted_seconds(const ConvProblem& p, const KernelConfig& config, const CpuSpec& spec, int threads) {
  constexpr double kShare = 0.7;        // of the instruction's products: blocks' ends, and waiting for the caches
  constexpr double kWordCycles = 0.25;  // a word that is packed, as part of a vector
  constexpr double kLineCycles = 10;    // the line of channels of one pixel and tap that it is part of
  constexpr double kCallCycles = 4000;
  const CpuConvSubject subject{config, spec};
  const CpuGemmInstruction& facts = *subject.facts();
  const bool data = p.direction == ConvDirection::backward_data;
  const double lanes = spec.vector_bits / 32.0;
  if (subject.signature().depthwise) {
    constexpr double kShareOfLoads = 0.4;  // of the products: each loads one of its factors
    const double vectors = static_cast<double>(pixels_of_y(p) * taps_of(p)) *
                           ceil_div(static_cast<double>(p.c), facts.elements_per_word) *
                           ceil_div(static_cast<double>(p.groups * p.c), lanes);
    const double cycles = vectors * lanes * facts.elements_per_word / (kShareOfLoads * facts.products_per_cycle) +
                          bytes_of(p) / spec.memory_bytes_per_cycle;
    return (cycles / std::max(threads, 1) + kCallCycles) / spec.clock_hz;
  }
  const double columns = static_cast<double>(data ? p.c : p.k), depth = static_cast<double>(data ? p.k : p.c);
  const double pixels = static_cast<double>(pixels_of_y(p)) * static_cast<double>(p.groups);
  const double whole_depth = ceil_div(depth, facts.elements_per_word) * facts.elements_per_word;
  const double products = pixels * static_cast<double>(taps_of(p)) * whole_depth * ceil_div(columns, lanes) * lanes;
  const double words = pixels * static_cast<double>(taps_of(p)) * whole_depth / facts.elements_per_word +
                       static_cast<double>(p.groups * p.k * p.c * taps_of(p));
  const double lines = pixels * static_cast<double>(taps_of(p));
  const double cycles = products / (kShare * facts.products_per_cycle) + words * kWordCycles + lines * kLineCycles +
                        bytes_of(p) / spec.memory_bytes_per_cycle;
  return (cycles / std::max(threads, 1) + kCallCycles) / spec.clock_hz;
}

namespace {

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

Result<std::vector<Refusal>> refusals(const CpuFacts& facts, const ConvProblem& problem) {
  RefusalList out({});
  std::optional<KernelConfig> panels;
  if (problem.packed_w) {
    TS_ASSIGN(panels, packing_kernel(facts, problem));
  }
  for (const CpuSpec& spec : facts.levels)
    enumerate_cpu_conv(spec, problem.direction, problem.data_type, [&](const KernelConfig& config) {
      if (!computes(spec, config, problem))
        out.add(config, "suits_shape",
                fmt::format("c {} and k {} in a group, depthwise as many of both, which divide a vector", problem.c,
                            problem.k));
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
