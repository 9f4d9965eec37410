// What a device brings to dispatch: for each operation the recipes it has for a problem, best first, and plans that run
// them. Which of them is taken (choice.hpp) is decided in the same way for every device and operation.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.hpp"
#include "choose/candidate.hpp"
#include "choose/refusal.hpp"
#include "dispatch/operations.hpp"
#include "tilesmith/dispatcher.hpp"

namespace tilesmith {

/// One operation on one device.
template <class Op>
class OperationBackend {
 public:
  using Problem = typename Op::Problem;

  OperationBackend() = default;
  OperationBackend(const OperationBackend&) = delete;
  OperationBackend& operator=(const OperationBackend&) = delete;
  virtual ~OperationBackend() = default;

  /// Recipes whose kernels have exactly the problem's signature, best first. Error: unsupported, with the rule that
  /// refuses and its figures, when there is none.
  [[nodiscard]] virtual Result<Ranking> rank(const Problem& problem) const = 0;
  /// Every other config of the problem's space, and what refused it.
  [[nodiscard]] virtual Result<std::vector<Refusal>> refusals(const Problem&) const { return std::vector<Refusal>{}; }
  /// Recipes that need no compiler and compute the problem, perhaps with traits it does not use; best first.
  [[nodiscard]] virtual std::vector<Candidate> fallbacks(const Problem&) const { return {}; }
  /// Whether a recipe asked for by name runs on this device and computes the problem. Errors: unsupported,
  /// invalid_argument.
  [[nodiscard]] virtual Status check(const Recipe& recipe, const Problem& problem) const = 0;
  /// Finds, loads or builds the kernels of the recipe and plans the problem with them. The plan's info carries the
  /// reason and the predicted seconds.
  [[nodiscard]] virtual Result<std::unique_ptr<PlanFor<Op>>> plan(const Problem& problem, const Candidate& chosen,
                                                                  std::string reason, BuildPolicy build) = 0;
};

/// Lists of one operation's problems on one device. A list's plan is made of plans of its members, and of kernels for
/// several members at a time where the device has such.
template <class Op>
class ListBackend {
 public:
  using Problem = typename Op::Problem;
  /// The dispatcher's plan for a member, made under the same options.
  using Planner = std::function<Result<const PlanFor<Op>*>(const Problem&)>;

  ListBackend() = default;
  ListBackend(const ListBackend&) = delete;
  ListBackend& operator=(const ListBackend&) = delete;
  virtual ~ListBackend() = default;

  /// Errors: those of the first member that fails, with its number.
  [[nodiscard]] virtual Result<std::unique_ptr<const PlanFor<ListOf<Op>>>> plan(std::vector<Problem> problems,
                                                                                const Planner& plan,
                                                                                const DispatcherOptions& options) = 0;
};

/// A direct operation on one device.
template <class Op>
class DirectBackend {
 public:
  DirectBackend() = default;
  DirectBackend(const DirectBackend&) = delete;
  DirectBackend& operator=(const DirectBackend&) = delete;
  virtual ~DirectBackend() = default;

  /// Of a call that validate() has accepted.
  [[nodiscard]] virtual Status run(const typename Op::Arguments& call, const RunOptions& options) = 0;
};

namespace detail {
template <class Op>
struct BackendOf : std::type_identity<OperationBackend<Op>> {};
template <class Op>
struct BackendOf<ListOf<Op>> : std::type_identity<ListBackend<Op>> {};
template <class Op>
requires is_direct<Op>
struct BackendOf<Op> : std::type_identity<DirectBackend<Op>> {
};

template <class Tuple>
struct BackendTable;
template <class... Ops>
struct BackendTable<std::tuple<Ops...>> : std::type_identity<std::tuple<typename BackendOf<Ops>::type*...>> {};
}  // namespace detail

/// What a device brings for an operation.
template <class Op>
using BackendOf = typename detail::BackendOf<Op>::type;

/// Of operations whose recipes have one computing step. Error: invalid_argument, for other recipes.
[[nodiscard]] Status check_one_step(const Recipe& recipe);

/// done, total and failed kernels of a build; called by one thread at a time.
using BuildCounter = std::function<void(std::size_t done, std::size_t total, std::size_t failed)>;

/// A device: a table of what it brings for each operation.
class Backend {
 public:
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] Device device() const { return device_; }
  /// Never null. Error: unsupported, where the device has no kernels of the operation or is lost to this process.
  template <class Op>
  [[nodiscard]] Result<BackendOf<Op>*> find() const {
    TS_TRY(check_usable());
    if (BackendOf<Op>* const kernels = std::get<BackendOf<Op>*>(table_)) return kernels;
    return std::unexpected(no_kernels_of(Op::kName));
  }
  /// choose/device_class.hpp: what tuning measured counts for this class.
  [[nodiscard]] virtual std::string device_class() const = 0;
  /// Says which compiler makes the device's kernels; empty where there is none.
  [[nodiscard]] virtual std::string compiler() = 0;
  /// The same device for plans whose calls use another number of threads, with the kernels that are loaded here; null
  /// where calls use no threads. It lives no longer than this. 0: every processor this process may use.
  [[nodiscard]] virtual std::unique_ptr<Backend> with_threads(int) { return nullptr; }
  /// Compiles what the device needs compiled and does not have, several at a time; one status per config, in order.
  /// Nothing is loaded.
  [[nodiscard]] virtual std::vector<Status> build(std::span<const KernelConfig> configs, int workers,
                                                  const BuildCounter& progress) = 0;

 protected:
  explicit Backend(Device device) : device_(device) {}

  /// Error: unsupported, in a forked child of a process that used a device which does not survive that.
  [[nodiscard]] virtual Status check_usable() const { return {}; }

  /// Puts an operation's kernels, which live as long as this, into the table.
  template <class Op>
  void add(BackendOf<Op>& kernels) {
    std::get<BackendOf<Op>*>(table_) = &kernels;
  }

 private:
  [[nodiscard]] Error no_kernels_of(std::string_view operation) const;

  Device device_;
  detail::BackendTable<decltype(std::tuple_cat(RecipeOperations{}, ListOperations{}, DirectOperations{}))>::type
      table_{};
};

/// `threads` is for the CPU. Errors: not_found (no such device, or what it needs is not installed), unsupported.
[[nodiscard]] Result<std::unique_ptr<Backend>> open_backend(Device device, int threads);

}  // namespace tilesmith
