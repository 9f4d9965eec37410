#include "dispatch/plan_cache.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "dispatch/allocation_count.hpp"
#include "problem/attention/problem.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {
namespace {

class NoPlan final : public AttentionPlan {
 public:
  explicit NoPlan(const AttentionProblem& problem) : AttentionPlan(problem, {}) {}
  [[nodiscard]] Status run(const AttentionArguments&, const RunOptions&) const override { return {}; }
};

/// The i-th of many problems that differ in one or several fields.
AttentionProblem problem_of(std::int64_t i) {
  return {.batch = 1 + i % 7,
          .heads_q = 4,
          .heads_kv = 4,
          .seqlen_q = 1 + i,
          .seqlen_k = 1 + i / 3,
          .soft_cap = i % 2 == 0};
}

std::unique_ptr<const AttentionPlan> plan_of(const AttentionProblem& problem) {
  return std::make_unique<NoPlan>(problem);
}

TEST(PlanCache, IsEmptyAtFirst) {
  const PlanCache<AttentionPlan> cache;
  EXPECT_EQ(cache.find({}), nullptr);
}

TEST(PlanCache, TheFirstPlanOfAProblemStays) {
  PlanCache<AttentionPlan> cache;
  auto plan = plan_of(problem_of(3));
  const AttentionPlan* first = plan.get();
  EXPECT_EQ(cache.insert(std::move(plan)), first);
  EXPECT_EQ(cache.insert(plan_of(problem_of(3))), first);
  EXPECT_EQ(cache.find(problem_of(3)), first);
  EXPECT_EQ(cache.find(problem_of(4)), nullptr);
}

TEST(PlanCache, EveryFieldTellsProblemsApart) {
  AttentionProblem base{
      .batch = 2, .heads_q = 8, .heads_kv = 2, .seqlen_q = 100, .seqlen_k = 200, .head_dim_qk = 64, .head_dim_v = 32};
  std::vector<AttentionProblem> problems(18, base);
  problems[0].data_type = DataType::fp16;
  problems[1].mode = SequenceMode::group;
  problems[2].batch = 3;
  problems[3].heads_q = 4;
  problems[4].heads_kv = 4;
  problems[5].seqlen_q = 101;
  problems[6].seqlen_k = 201;
  problems[7].head_dim_qk = 72;
  problems[8].head_dim_v = 40;
  problems[9].mask = MaskKind::top_left;
  problems[10].window_left = 0;
  problems[11].window_right = 0;
  problems[12].bias = BiasKind::alibi;
  problems[13].soft_cap = true;
  problems[14].sink = true;
  problems[15].dropout = true;
  problems[16].negative_scale = true;
  problems[17].unaligned = true;
  problems.push_back(base);
  problems.push_back(base);
  problems.back().lse = true;
  PlanCache<AttentionPlan> cache;
  std::set<const AttentionPlan*> plans;
  std::set<std::uint64_t> hashes;
  for (const AttentionProblem& problem : problems) {
    plans.insert(cache.insert(plan_of(problem)));
    hashes.insert(hash_of(problem));
  }
  EXPECT_EQ(plans.size(), problems.size());
  EXPECT_EQ(hashes.size(), problems.size());
  for (const AttentionProblem& problem : problems) EXPECT_EQ(cache.find(problem)->problem(), problem);
}

TEST(PlanCache, GrowsOverThousandsOfProblemsAndForgetsNone) {
  PlanCache<AttentionPlan> cache;
  constexpr std::int64_t kCount = 5000;
  std::vector<const AttentionPlan*> plans;
  for (std::int64_t i = 0; i < kCount; ++i) {
    plans.push_back(cache.insert(plan_of(problem_of(i))));
    if (i % 97 != 0) continue;
    for (std::int64_t j = 0; j <= i; j += 61)
      ASSERT_EQ(cache.find(problem_of(j)), plans[static_cast<std::size_t>(j)]) << j << " of " << i;
  }
  const std::size_t before = testing::allocations();
  std::size_t found = 0;
  for (std::int64_t i = 0; i < 2 * kCount; ++i) {
    const AttentionPlan* plan = cache.find(problem_of(i));
    found += plan != nullptr && plan == plans[static_cast<std::size_t>(i)];
  }
  EXPECT_EQ(testing::allocations(), before) << "a look-up allocates";
  EXPECT_EQ(found, static_cast<std::size_t>(kCount));
}

TEST(PlanCache, ReadersSeeWholePlansWhileWritersAdd) {
  PlanCache<AttentionPlan> cache;
  constexpr std::int64_t kCount = 1500;
  std::atomic<std::int64_t> wrong = 0, added = 0;
  std::atomic<bool> done = false;
  {
    std::vector<std::jthread> readers;
    for (int t = 0; t < 3; ++t)
      readers.emplace_back([&, t] {
        for (std::int64_t i = t; !done; i = (i + 7) % kCount)
          if (const AttentionPlan* plan = cache.find(problem_of(i));
              plan != nullptr && plan->problem() != problem_of(i))
            ++wrong;
      });
    {
      std::vector<std::jthread> writers;
      for (std::int64_t t = 0; t < 3; ++t)
        writers.emplace_back([&, t] {
          for (std::int64_t i = 0; i < kCount; ++i) {
            const std::int64_t which =
                (i * 37 + t * 500) % kCount;  // every writer adds every problem, in its own order
            auto plan = plan_of(problem_of(which));
            const AttentionPlan* mine = plan.get();
            const AttentionPlan* kept = cache.insert(std::move(plan));
            added += kept == mine;
            if (kept->problem() != problem_of(which) || cache.find(problem_of(which)) != kept) ++wrong;
          }
        });
    }
    done = true;
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(added, kCount) << "each problem has one plan, whoever came first";
}

}  // namespace
}  // namespace tilesmith
