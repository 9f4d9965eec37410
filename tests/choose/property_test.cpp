// What holds for random problems on every device: candidates are kernels that the rules accept and that compute the
// problem, each once; predictions are finite; and the space is the candidates and what was refused.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <thread>

#include "choose/attention/cpu.hpp"
#include "choose/attention/cuda.hpp"
#include "choose/attention/gpu_signature.hpp"
#include "choose/gemm/cpu.hpp"
#include "choose/gemm/cuda.hpp"
#include "choose/gemm/gpu_signature.hpp"
#include "choose/random_problem.hpp"
#include "instances/attention/cpu.hpp"
#include "instances/attention/cuda.hpp"
#include "instances/gemm/cpu.hpp"
#include "instances/gemm/cuda.hpp"
#include "problem/attention/problem.hpp"
#include "problem/gemm/transpose.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {
namespace {

constexpr unsigned kProblems = 60;

/// The instances with the problem's signature, whatever they compute. `each(config)`.
template <class Each>
void instances(const CpuFacts& facts, const AttentionProblem& problem, Each each) {
  for (const CpuSpec& spec : facts.levels)
    enumerate_cpu_attention(spec, signature_of(problem),
                            [&](const KernelConfig& config) { return each(config), true; });
}
template <class Each>
void instances(const CpuFacts& facts, const GemmProblem& any_order, Each each) {
  const GemmProblem problem = with_row_d(any_order);
  const auto signature = cpu_signature_of(problem);
  if (!signature) return;
  for (const CpuSpec& spec : facts.levels)
    enumerate_cpu_gemm(spec, *signature, [&](KernelConfig config) {
      if (config.algorithm.pipeline == Pipeline::generic) return true;  // a candidate where there is no other
      config.algorithm.packed_b = problem.packed_b;
      return each(config), true;
    });
}
template <class Each>
void instances(const CudaSpec& spec, const AttentionProblem& problem, Each each) {
  const int unpacked[] = {1};
  enumerate_cuda_attention(spec, gpu_signature_of(problem), unpacked,
                           [&](const KernelConfig& config) { return each(config), true; });
}
template <class Each>
void instances(const CudaSpec& spec, const GemmProblem& any_order, Each each) {
  const auto signature = gpu_signature_of(with_row_d(any_order));
  if (signature) enumerate_cuda_gemm(spec, *signature, [&](const KernelConfig& config) { return each(config), true; });
}

/// The first rule that refuses the config; empty: it is an instance.
std::string_view refusing_rule(const CpuFacts& facts, const KernelConfig& config) {
  const CpuSpec& spec = *facts.level(config.arch);
  if (config.operation() == Operation::attention) {
    const auto* rule = first_refusal(cpu_attention_rules(), CpuAttentionSubject{config, spec});
    return rule == nullptr ? "" : rule->name;
  }
  const auto* rule = first_refusal(cpu_gemm_rules(), CpuGemmSubject{config, spec});
  return rule == nullptr ? "" : rule->name;
}
std::string_view refusing_rule(const CudaSpec& spec, const KernelConfig& config) {
  if (config.operation() == Operation::attention) {
    const auto* rule = first_refusal(cuda_attention_rules(), CudaAttentionSubject{config, spec});
    return rule == nullptr ? "" : rule->name;
  }
  const auto* rule = first_refusal(cuda_gemm_rules(), CudaGemmSubject{config, spec});
  return rule == nullptr ? "" : rule->name;
}

template <class Facts, class Problem>
void check(const Facts& facts, const Problem& problem, const std::string& where) {
  SCOPED_TRACE(where);
  const auto ranking = rank(facts, problem);
  const auto refused = refusals(facts, problem);
  if (!ranking) {
    EXPECT_EQ(ranking.error().code, ErrorCode::unsupported) << ranking.error().text();
    if (!refused) return;
  }
  ASSERT_TRUE(refused) << refused.error().text();
  std::set<Key128> space;
  if (ranking) {
    const auto again = rank(facts, problem);
    ASSERT_EQ(ranking->candidates.size(), again->candidates.size());
    EXPECT_FALSE(ranking->policy.empty());
    for (std::size_t i = 0; i < ranking->candidates.size(); ++i) {
      const Candidate& candidate = ranking->candidates[i];
      const KernelConfig& config = candidate.recipe.main();
      EXPECT_EQ(candidate.recipe, again->candidates[i].recipe) << "the ranking is deterministic";
      EXPECT_TRUE(std::isfinite(candidate.predicted_seconds) && candidate.predicted_seconds > 0)
          << candidate.predicted_seconds << " " << native_name(config);
      EXPECT_EQ(refusing_rule(facts, config), "") << native_name(config);
      const Status served = serves(facts, config, problem);
      EXPECT_TRUE(served) << served.error().text();
      EXPECT_TRUE(space.insert(key_of(config)).second) << "twice: " << native_name(config);
    }
  }
  for (const Refusal& refusal : *refused) {
    EXPECT_TRUE(space.insert(key_of(refusal.config)).second) << "twice: " << native_name(refusal.config);
    EXPECT_FALSE(refusal.figures.empty()) << refusal.rule;
    if (const std::string_view rule = refusing_rule(facts, refusal.config); !rule.empty()) {
      EXPECT_EQ(refusal.rule, rule) << native_name(refusal.config);
    }
  }
  instances(facts, problem, [&](const KernelConfig& config) {
    EXPECT_TRUE(space.contains(key_of(config))) << "neither ranked nor refused: " << native_name(config);
  });
}

TEST(Choose, OnTheCpuTheSpaceIsCandidatesAndRefusals) {
  for (const int threads : {1, 16}) {
    const CpuFacts facts = testing::every_level(threads);
    for (unsigned seed = 0; seed < kProblems; ++seed) {
      check(facts, testing::random_attention(seed), "attention " + std::to_string(seed));
      check(facts, testing::random_gemm(seed), "gemm " + std::to_string(seed));
    }
  }
}

TEST(Choose, OnCudaDevicesTheSpaceIsCandidatesAndRefusals) {
  for (const char* name : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"})
    for (unsigned seed = 0; seed < kProblems; ++seed) {
      const CudaSpec& spec = testing::cuda_arch(name);
      check(spec, testing::random_attention(seed), std::string(name) + " attention " + std::to_string(seed));
      check(spec, testing::random_gemm(seed), std::string(name) + " gemm " + std::to_string(seed));
    }
}

/// Whether two rankings have the same recipes in the same order, with the same seconds, or the same error.
bool are_alike(const Result<Ranking>& one, const Result<Ranking>& other) {
  if (!one || !other) return !one && !other && one.error().text() == other.error().text();
  return std::ranges::equal(one->candidates, other->candidates, [](const Candidate& a, const Candidate& b) {
    return a.recipe == b.recipe && a.predicted_seconds == b.predicted_seconds && a.source == b.source;
  });
}

TEST(Choose, WhatIsKeptOfASignatureChangesNoRanking) {
  for (const char* name : {"sm_80", "sm_90a", "sm_120a"}) {
    const CudaSpec& spec = testing::cuda_arch(name);
    CudaGemmKept kept;
    std::vector<std::jthread> threads;
    for (unsigned thread = 0; thread < 3; ++thread)
      threads.emplace_back([&, thread] {
        // Of one seed, and then of the same signature and other sizes.
        for (unsigned seed = 0; seed < kProblems; ++seed) {
          GemmProblem problem = testing::random_gemm(seed + 7 * thread);
          for (const std::int64_t rows : {problem.m, std::int64_t{3}, std::int64_t{1000}}) {
            problem.m = rows;
            EXPECT_TRUE(are_alike(rank(spec, problem, &kept), rank(spec, problem))) << name << " " << seed;
          }
        }
      });
    threads.clear();
    EXPECT_GT(kept.size(), 0u);
  }
}

TEST(Choose, OnTheCpuPredictionsAscend) {
  const CpuFacts facts = testing::every_level(4);
  const auto ascend = [](const Result<Ranking>& ranking) {
    return !ranking || std::ranges::is_sorted(ranking->candidates, {}, &Candidate::predicted_seconds);
  };
  for (unsigned seed = 0; seed < kProblems; ++seed) {
    EXPECT_TRUE(ascend(rank(facts, testing::random_attention(seed)))) << seed;
    EXPECT_TRUE(ascend(rank(facts, testing::random_gemm(seed)))) << seed;
  }
}

}  // namespace
}  // namespace tilesmith
