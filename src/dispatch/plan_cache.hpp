// Plans by problem. Reading takes no lock and allocates nothing: a reader follows one atomic pointer to a table and
// probes it. Writers take turns; they fill empty slots in place, and replace a half-full table by one of twice the
// size. Replaced tables are kept until the cache dies, because a reader may still be in one; together they are no
// larger than the newest.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "tilesmith/attention.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

class PlanCache {
 public:
  PlanCache();

  /// The plan of an equal problem, or null.
  [[nodiscard]] const Plan* find(const AttentionProblem& problem) const;

  /// Keeps the plan; when another thread was first, keeps and returns that one.
  const Plan* insert(std::unique_ptr<const Plan> plan);

 private:
  struct Slot {
    std::atomic<const Plan*> plan{nullptr};
    std::atomic<std::uint64_t> hash{0};
  };
  struct Table {
    explicit Table(std::size_t size) : slots(size) {}
    std::vector<Slot> slots;  ///< a power of two, at most half full
  };
  static void place(Table& table, std::uint64_t hash, const Plan* plan);

  std::atomic<Table*> table_;
  std::mutex writing_;
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<std::unique_ptr<const Plan>> plans_;
};

}  // namespace tilesmith
