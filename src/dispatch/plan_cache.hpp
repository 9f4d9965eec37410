// Plans by problem. Reading takes no lock and allocates nothing: a reader follows one atomic pointer to a table and
// probes it. Writers take turns; they fill empty slots in place, and replace a half-full table by one of twice the
// size. Replaced tables are kept until the cache dies, because a reader may still be in one; together they are no
// larger than the newest.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "base/fork.hpp"
#include "problem/attention/problem.hpp"
#include "problem/gemm/problem.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

/// PlanT has a Problem, a problem() and, for its problems, hash_of() and ==.
template <class PlanT>
class PlanCache {
 public:
  using Problem = typename PlanT::Problem;

  PlanCache() {
    tables_.push_back(std::make_unique<Table>(64));
    table_.store(tables_.back().get());
  }

  /// The plan of an equal problem, or null.
  [[nodiscard]] const PlanT* find(const Problem& problem) const;

  /// Keeps the plan; when another thread was first, keeps and returns that one.
  const PlanT* insert(std::unique_ptr<const PlanT> plan);

 private:
  struct Slot {
    std::atomic<const PlanT*> plan{nullptr};
    std::atomic<std::uint64_t> hash{0};
  };
  struct Table {
    explicit Table(std::size_t size) : slots(size) {}
    std::vector<Slot> slots;  ///< a power of two, at most half full
  };
  static void place(Table& table, std::uint64_t hash, const PlanT* plan);
  void begin_anew();

  std::atomic<Table*> table_;
  std::mutex writing_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<std::unique_ptr<const PlanT>> plans_;
  AtFork at_fork_{this, [](void* cache) { static_cast<PlanCache*>(cache)->begin_anew(); }};
};

template <class PlanT>
const PlanT* PlanCache<PlanT>::find(const Problem& problem) const {
  const std::uint64_t hash = hash_of(problem);
  const Table& table = *table_.load(std::memory_order_acquire);
  const std::size_t mask = table.slots.size() - 1;
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    const PlanT* plan = table.slots[i].plan.load(std::memory_order_acquire);
    if (plan == nullptr) return nullptr;
    if (table.slots[i].hash.load(std::memory_order_relaxed) == hash && plan->problem() == problem) return plan;
  }
}

template <class PlanT>
void PlanCache<PlanT>::place(Table& table, std::uint64_t hash, const PlanT* plan) {
  const std::size_t mask = table.slots.size() - 1;
  std::size_t i = hash & mask;
  while (table.slots[i].plan.load(std::memory_order_relaxed) != nullptr) i = (i + 1) & mask;
  table.slots[i].hash.store(hash, std::memory_order_relaxed);
  table.slots[i].plan.store(plan, std::memory_order_release);
}

/// In a forked child. Plans in use stay where they are.
template <class PlanT>
void PlanCache<PlanT>::begin_anew() {
  if (!renew(writing_)) return;
  new (&tables_) std::vector<std::unique_ptr<Table>>;
  new (&plans_) std::vector<std::unique_ptr<const PlanT>>;
  tables_.push_back(std::make_unique<Table>(64));
  table_.store(tables_.back().get());
}

template <class PlanT>
const PlanT* PlanCache<PlanT>::insert(std::unique_ptr<const PlanT> plan) {
  const std::lock_guard lock(writing_);
  if (const PlanT* first = find(plan->problem())) return first;
  plans_.push_back(std::move(plan));
  const PlanT* kept = plans_.back().get();
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
