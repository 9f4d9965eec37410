#include "dispatch/plan_cache.hpp"

#include "dispatch/attention_problem.hpp"

namespace tilesmith {

PlanCache::PlanCache() {
  tables_.push_back(std::make_unique<Table>(64));
  table_.store(tables_.back().get());
}

const Plan* PlanCache::find(const AttentionProblem& problem) const {
  const std::uint64_t hash = hash_of(problem);
  const Table& table = *table_.load(std::memory_order_acquire);
  const std::size_t mask = table.slots.size() - 1;
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    const Plan* plan = table.slots[i].plan.load(std::memory_order_acquire);
    if (plan == nullptr) return nullptr;
    if (table.slots[i].hash.load(std::memory_order_relaxed) == hash && plan->problem() == problem) return plan;
  }
}

void PlanCache::place(Table& table, std::uint64_t hash, const Plan* plan) {
  const std::size_t mask = table.slots.size() - 1;
  std::size_t i = hash & mask;
  while (table.slots[i].plan.load(std::memory_order_relaxed) != nullptr) i = (i + 1) & mask;
  table.slots[i].hash.store(hash, std::memory_order_relaxed);
  table.slots[i].plan.store(plan, std::memory_order_release);
}

const Plan* PlanCache::insert(std::unique_ptr<const Plan> plan) {
  const std::lock_guard lock(writing_);
  if (const Plan* first = find(plan->problem())) return first;
  plans_.push_back(std::move(plan));
  const Plan* kept = plans_.back().get();
  Table* table = table_.load(std::memory_order_relaxed);
  if (plans_.size() * 2 > table->slots.size()) {
    tables_.push_back(std::make_unique<Table>(table->slots.size() * 2));
    table = tables_.back().get();
    for (const auto& each : plans_) place(*table, hash_of(each->problem()), each.get());
    table_.store(table, std::memory_order_release);
  } else {
    place(*table, hash_of(kept->problem()), kept);
  }
  return kept;
}

}  // namespace tilesmith
