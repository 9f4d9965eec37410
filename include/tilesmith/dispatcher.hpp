// From a problem to a plan, and from a plan to a result.
//
//   tilesmith::Dispatcher dispatcher;          // one per process and device is enough; thread-safe
//   tilesmith::AttentionProblem problem{.heads_q = 16, .heads_kv = 4, .seqlen_q = 2048, .seqlen_k = 2048};
//   auto plan = dispatcher.plan(problem);      // may compile; once per distinct problem
//   if (!plan) return report(plan.error().text());
//   auto arguments = tilesmith::dense_arguments(problem, tilesmith::AttentionLayout::bhsd);
//   arguments.q = q;                           // your buffers; k, v and o likewise
//   auto status = (*plan)->run(arguments);     // never compiles, takes no lock
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tilesmith/attention.hpp"
#include "tilesmith/attention_backward.hpp"
#include "tilesmith/conv.hpp"
#include "tilesmith/device.hpp"
#include "tilesmith/error.hpp"
#include "tilesmith/gemm.hpp"
#include "tilesmith/serving.hpp"

namespace tilesmith {

/// Whether planning may compile a kernel that is not in the store yet.
enum class BuildPolicy : std::uint8_t {
  allowed,  ///< compile when the best kernel is not there; without a working compiler use what is there
  never,    ///< only kernels that are linked in, loaded, or in the store
};

/// How problems are planned, by a dispatcher or in a single call.
struct DispatcherOptions {
  Device device{};
  /// CPU: threads a kernel runs on, the caller's included, at most 4096; 0: every processor this process may use.
  int threads = 0;
  BuildPolicy build = BuildPolicy::allowed;
  Determinism determinism = Determinism::bitwise;
  /// When set, the only recipe to use, by its name: a kernel's name, or those of several steps joined by "+".
  std::string kernel{};
  /// A file of choices that `tilesmith db publish` wrote; empty: that of TILESMITH_TUNING, if it is set. A problem that
  /// the file has for this device's class gets the recipe that tuning chose, others what the policy chooses. When the
  /// file cannot be read, every plan fails and says why.
  std::string tuning{};

  friend bool operator==(const DispatcherOptions&, const DispatcherOptions&) = default;
};

/// One step of a plan, for people and logs: a kernel, and what it is there for.
struct PlanStep {
  std::string kernel;  ///< the kernel's name
  std::string role;    ///< its role in the recipe: "compute", "pack_b", "pack_w", "append"
  std::string what;    ///< what it does, in words
};

/// A part of the memory that a call works in.
struct WorkspaceRegion {
  std::string name;        ///< what it holds: "partials", "counters"
  std::size_t offset = 0;  ///< in bytes, from the workspace's begin
  std::size_t bytes = 0;
  /// Not a part of the caller's workspace, and not counted by workspace_bytes: the library alone keeps it, for each
  /// stream. Its offset is 0.
  bool library_only = false;
};

/// What is known of a plan, whatever its operation.
struct PlanInfo {
  Device device{};
  std::string recipe;            ///< its name; of one step: the kernel's
  std::string reason;            ///< why this recipe was chosen, in a sentence
  double predicted_seconds = 0;  ///< what the policy predicts a call to take; 0: it was not asked
  /// What the choice rests on: "measurement" of this problem, an "interval" between two sizes that were measured,
  /// "nearby" measurements of which several sizes differ, the "model" of the device, the "table" of its tiles; "name":
  /// it was asked for; "fallback": what goes first could not be had. Of a list "mixed", where its products differ.
  std::string source{};
  double measured_seconds = 0;  ///< what a call took when it was tuned, of "interval" and "nearby" at the larger sizes
  double bound = 0;             ///< of "measurement", "interval", "nearby": a call takes at most so many times the best
                                ///< kernel's time, as far as times were measured exactly; 0: not known
  std::vector<PlanStep> steps{};
  std::vector<WorkspaceRegion> workspace{};  ///< without overlaps, by offset
  std::size_t workspace_bytes = 0;           ///< that a call needs; may be 0
};

/// A recipe that computes a problem.
struct CandidateInfo {
  std::string recipe;            ///< its name; of one step: the kernel's. An option's `kernel` takes it
  double predicted_seconds = 0;  ///< what the policy predicts a call to take
};

/// A kernel that dispatch passed over for a problem.
struct RefusalInfo {
  std::string kernel;
  std::string rule;     ///< the first rule, or other reason, that refused it
  std::string figures;  ///< what the rule compared
};

/// What dispatch has to choose from for a problem.
struct ChoiceInfo {
  std::string policy;                       ///< what ordered the candidates: "cost model"
  std::vector<CandidateInfo> candidates{};  ///< in dispatch's order, never empty
  std::vector<RefusalInfo> refusals{};      ///< every other kernel of the problem's space
};

/// Where and with what memory one call runs.
struct RunOptions {
  void* stream = nullptr;     ///< CUDA: the stream (CUstream, cudaStream_t) to run on; null is the default stream
  void* workspace = nullptr;  ///< workspace_bytes, 64-byte aligned, not shared with a call that runs at the same time;
                              ///< null lets the library keep one, allocated by the first call that needs it
};

/// A chosen recipe, its loaded kernels, and everything a call needs beside its arguments. Immutable; belongs to the
/// dispatcher that made it and lives as long. Safe to use from any number of threads at once.
class TILESMITH_API Plan {
 public:
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  virtual ~Plan();

  [[nodiscard]] const PlanInfo& info() const { return info_; }
  [[nodiscard]] Device device() const { return info_.device; }
  /// The recipe's name: of one step, the kernel's.
  [[nodiscard]] std::string_view kernel_name() const { return info_.recipe; }
  [[nodiscard]] std::span<const PlanStep> steps() const { return info_.steps; }
  [[nodiscard]] std::string_view reason() const { return info_.reason; }
  [[nodiscard]] double predicted_seconds() const { return info_.predicted_seconds; }
  [[nodiscard]] std::span<const WorkspaceRegion> workspace() const { return info_.workspace; }
  [[nodiscard]] std::size_t workspace_bytes() const { return info_.workspace_bytes; }

 protected:
  explicit Plan(PlanInfo info) : info_(std::move(info)) {}

 private:
  PlanInfo info_;
};

/// A plan of one operation, for its problems and the arguments of its calls.
template <class ProblemT, class ArgumentsT>
class OperationPlan : public Plan {
 public:
  using Problem = ProblemT;
  using Arguments = ArgumentsT;

  [[nodiscard]] const Problem& problem() const { return problem_; }

  /// Computes the result (attention's o and lse, its gradients, a GEMM's D). On the CPU it is done when run returns; on
  /// a CUDA device it is queued on the stream. Errors: invalid_argument, launch_failed.
  [[nodiscard]] virtual Status run(const Arguments& arguments, const RunOptions& options = {}) const = 0;

 protected:
  OperationPlan(const Problem& problem, PlanInfo info) : Plan(std::move(info)), problem_(problem) {}

 private:
  Problem problem_;
};

using AttentionPlan = OperationPlan<AttentionProblem, AttentionArguments>;
using AttentionBackwardPlan = OperationPlan<AttentionBackwardProblem, AttentionBackwardArguments>;
using ConvPlan = OperationPlan<ConvProblem, ConvArguments>;
using GemmPlan = OperationPlan<GemmProblem, GemmArguments>;

/// A list of GEMMs, each with sizes, types and an epilogue of its own, computed as one call. On the CPU all GEMMs'
/// tasks are one job for the threads; on a CUDA device GEMMs of one form share launches where a kernel is made for it
/// (steps() says which), and the others are launched one after another. It lives no longer than its dispatcher.
class TILESMITH_API GemmListPlan : public Plan {
 public:
  [[nodiscard]] std::span<const GemmProblem> problems() const { return problems_; }

  /// Computes every product's D from its own arguments, in the problems' order. No D overlaps what another product
  /// reads or writes. Nothing is computed when any of them is wrong: the message says which. Errors: invalid_argument,
  /// launch_failed.
  [[nodiscard]] virtual Status run(std::span<const GemmArguments> arguments, const RunOptions& options = {}) const = 0;

 protected:
  GemmListPlan(std::vector<GemmProblem> problems, PlanInfo info)
      : Plan(std::move(info)), problems_(std::move(problems)) {}

 private:
  std::vector<GemmProblem> problems_;
};

class TILESMITH_API Dispatcher {
 public:
  explicit Dispatcher(DispatcherOptions options = {});
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  [[nodiscard]] Device device() const;
  /// What holds for calls without options of their own.
  [[nodiscard]] const DispatcherOptions& options() const;

  /// The plan for a problem. A problem planned before is found without a lock and without allocating; a new one may
  /// take the time of a compilation. Errors: invalid_argument, unsupported, not_found
  /// (no such device, no driver), compile_failed, load_failed.
  [[nodiscard]] Result<const AttentionPlan*> plan(const AttentionProblem& problem);
  [[nodiscard]] Result<const AttentionBackwardPlan*> plan(const AttentionBackwardProblem& problem);
  [[nodiscard]] Result<const GemmPlan*> plan(const GemmProblem& problem);
  [[nodiscard]] Result<const ConvPlan*> plan(const ConvProblem& problem);
  /// The plan for a list of products, the caller's own. Kernels and what is known of each problem stay with the
  /// dispatcher, so that a list of new sizes is planned in about a microsecond a product once kernels are there.
  /// Errors: those of the first problem that fails, whose number the message has; unsupported for members that are
  /// groups.
  [[nodiscard]] Result<std::unique_ptr<const GemmListPlan>> plan(std::span<const GemmProblem> problems);

  /// The same under options of the caller's, in place of the dispatcher's: copy options() and change what differs.
  /// Plans are kept for each distinct options as long as the dispatcher lives, with the same guarantees; threads and
  /// loaded kernels are shared. Errors: also invalid_argument, when the options name another device.
  [[nodiscard]] Result<const AttentionPlan*> plan(const AttentionProblem& problem, const DispatcherOptions& options);
  [[nodiscard]] Result<const AttentionBackwardPlan*> plan(const AttentionBackwardProblem& problem,
                                                          const DispatcherOptions& options);
  [[nodiscard]] Result<const GemmPlan*> plan(const GemmProblem& problem, const DispatcherOptions& options);
  [[nodiscard]] Result<const ConvPlan*> plan(const ConvProblem& problem, const DispatcherOptions& options);
  [[nodiscard]] Result<std::unique_ptr<const GemmListPlan>> plan(std::span<const GemmProblem> problems,
                                                                 const DispatcherOptions& options);

  /// What plan() chooses from under the options' threads and determinism, in its order, and why each other kernel was
  /// passed over. Compiles nothing; not cached. plan() takes the first candidate that can be had.
  /// Errors: invalid_argument; unsupported, when no kernel computes the problem, with the refusing rule.
  [[nodiscard]] Result<ChoiceInfo> candidates(const AttentionProblem& problem, const DispatcherOptions& options);
  [[nodiscard]] Result<ChoiceInfo> candidates(const AttentionBackwardProblem& problem,
                                              const DispatcherOptions& options);
  [[nodiscard]] Result<ChoiceInfo> candidates(const GemmProblem& problem, const DispatcherOptions& options);
  [[nodiscard]] Result<ChoiceInfo> candidates(const ConvProblem& problem, const DispatcherOptions& options);

  /// Packs B once for any number of calls with `packed_b`: products of these types, n and k, of any m, batch and
  /// epilogue, on machines of this kind. Of the problem, the types of A and B, order_b, n and k are read. `packed` has
  /// packed_b_bytes, is 64-byte aligned, and is the result: bytes that may be copied, kept in a file, and moved. It
  /// names what it was made for, and a call that it was not made for fails. On the CPU alone: CUDA kernels read plain
  /// matrices at full speed. Errors: invalid_argument, unsupported (also where kernels of packed B do not exist), those
  /// of plan().
  [[nodiscard]] Result<std::size_t> packed_b_bytes(const GemmProblem& problem);
  [[nodiscard]] Status pack_b(const GemmProblem& problem, const GemmOperand& b, void* packed);

  /// Packs w once for any number of convolutions with `packed_w`: of this direction (forward or backward data), type,
  /// groups, c, k, filter and dilation_w, of any batch, image, stride, padding, epilogue and layout of the other
  /// tensors. Otherwise as pack_b.
  [[nodiscard]] Result<std::size_t> packed_w_bytes(const ConvProblem& problem);
  [[nodiscard]] Status pack_w(const ConvProblem& problem, const void* w, const ConvStrides& strides, void* packed);

  /// What serving needs beside attention (serving.hpp). Done on return on the CPU, queued on the stream of a CUDA
  /// device, where the first call of a kind may compile a kernel; on any number of threads at once. There is no
  /// workspace. Errors: invalid_argument, unsupported; CUDA: those of plans, and launch_failed.
  [[nodiscard]] Status merge_states(const MergeStates& call, const RunOptions& options = {});
  [[nodiscard]] Status append_kv(const AppendKv& call, const RunOptions& options = {});

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilesmith
