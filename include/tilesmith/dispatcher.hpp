// From a problem to a plan, and from a plan to a result.
//
//   tilesmith::Dispatcher dispatcher;                                  // one per process is enough; thread-safe
//   tilesmith::AttentionProblem problem{.batch = 1, .heads_q = 16, .heads_kv = 4, .seqlen_q = 2048, .seqlen_k = 2048};
//   auto plan = dispatcher.plan(problem);                              // may compile; once per distinct problem
//   if (!plan) { report(plan.error().text()); return; }
//   auto arguments = tilesmith::dense_arguments(problem, tilesmith::AttentionLayout::bhsd);
//   arguments.q = q; arguments.k = k; arguments.v = v; arguments.o = o;
//   auto status = (*plan)->run(arguments);                             // never compiles, takes no lock
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilesmith/attention.hpp"
#include "tilesmith/error.hpp"

namespace tilesmith {

/// Whether planning may compile a kernel that is not in the store yet.
enum class BuildPolicy : std::uint8_t {
  allowed,  ///< compile when the best kernel is not there; without a working compiler use what is there
  never,    ///< only kernels that are linked in, loaded, or in the store
};

struct DispatcherOptions {
  int threads = 0;  ///< threads a kernel runs on, the caller's included; 0: every processor this process may use
  BuildPolicy build = BuildPolicy::allowed;
  std::string kernel{};  ///< when set, the only kernel to use, by its name
};

/// One step of a plan, for people and logs.
struct PlanStage {
  std::string kernel;  ///< the kernel's name
  std::string stage;   ///< what the step does
};

/// A chosen, loaded kernel and everything a call needs beside its arguments. Immutable; belongs to the dispatcher that
/// made it and lives as long. Safe to use from any number of threads at once.
class TILESMITH_API Plan {
 public:
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan();

  [[nodiscard]] const AttentionProblem& problem() const;
  [[nodiscard]] std::string_view kernel_name() const;
  [[nodiscard]] std::span<const PlanStage> stages() const;
  /// Why this kernel was chosen, in a sentence.
  [[nodiscard]] std::string_view reason() const;
  /// Bytes of workspace a call needs; may be 0.
  [[nodiscard]] std::size_t workspace_bytes() const;

  /// Computes o (and lse). `workspace` is workspace_bytes, 64-byte aligned, not shared with a call that runs at the
  /// same time; null lets the calling thread keep one of its own, allocated by its first call that needs it. Errors:
  /// invalid_argument.
  [[nodiscard]] Status run(const AttentionArguments& arguments, void* workspace = nullptr) const;

  struct Impl;
  explicit Plan(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

class TILESMITH_API Dispatcher {
 public:
  explicit Dispatcher(DispatcherOptions options = {});
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  /// The plan for a problem. A problem planned before is found without a lock and without allocating; a new one may
  /// take the time of a compilation. Errors: invalid_argument, unsupported, compile_failed, load_failed.
  [[nodiscard]] Result<const Plan*> plan(const AttentionProblem& problem);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilesmith
