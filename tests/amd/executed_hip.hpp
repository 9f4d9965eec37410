// AMD GPUs for tests of dispatch whose code objects are executed: the fake HIP runtime hands each launch of a plan to
// the interpreter, with the kernel that dispatch chose, the arguments that it filled in and the memory of the call.
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "amd/compiler.hpp"
#include "amd/machine.hpp"
#include "codegen/generate.hpp"
#include "dispatch/attention/random_problem.hpp"
#include "dispatch/emulated_hip.hpp"
#include "instances/attention/hip.hpp"

namespace tilesmith::testing {

class ExecutedDevice {
 public:
  /// A kernel of a recipe, as the interpreter has it.
  struct Kernel {
    amdgpu::Program program;
    std::uint32_t threads;
    std::vector<std::uint64_t> times;  ///< that each instruction was executed
  };

  ExecutedDevice(int index, const amdgpu::Compiler& compiler)
      : backend_(open_backend({DeviceKind::hip, index}, 1).value()), compiler_(compiler) {
    const std::string_view processor = kFakeHipDevices[index].processor;
    const std::vector<HipSpec> specs = load_hip_specs().value();
    for (const HipSpec& spec : specs)
      if (spec.arch.text() == processor.substr(0, processor.find(':'))) spec_ = spec;
  }

  [[nodiscard]] OperationBackend<AttentionFwd>& attention() { return **backend_->find<AttentionFwd>(); }

  /// Plans the recipe, whose kernels the fake then hands to the interpreter. This must outlive the plan.
  Result<std::unique_ptr<AttentionPlan>> plan(const AttentionProblem& problem, const Candidate& chosen) {
    for (const Step& step : chosen.recipe.steps) {
      const std::string name = native_name(step.config);
      TS_ASSIGN(const Source source, generate(step.config, spec_));
      TS_ASSIGN(amdgpu::Program program, compiler_.compile(source));
      const HipAttentionSubject subject{step.config, spec_};
      const int threads = hip_attention_resources(step.config, spec_, *subject.fragment()).threads;
      kernels_.insert_or_assign(name, Kernel{std::move(program), static_cast<std::uint32_t>(threads), {}});
      fake().kernels[name] = {[this, name](const void* arguments, int blocks) { execute(name, arguments, blocks); },
                              sizeof(TsHipAttentionArgs)};
    }
    return attention().plan(problem, chosen, "a test", BuildPolicy::allowed);
  }

  [[nodiscard]] Kernel& kernel(const KernelConfig& config) { return kernels_.at(native_name(config)); }

  /// What is wrong with the plan's results, or what a kernel did that it must not; empty: nothing.
  [[nodiscard]] std::string fault_of(RandomCall& call, const AttentionPlan& plan, std::uint32_t seed) {
    call_ = &call;
    seed_ = seed;
    fault_.clear();
    const Status ran = call.run(plan);
    if (!ran) return ran.error().text();
    return !fault_.empty() ? fault_ : call.judge();
  }

 private:
  void execute(const std::string& name, const void* arguments, int blocks) {
    if (!fault_.empty()) return;  // what the next kernel would read is not there
    using Access = amdgpu::DeviceMemory::Access;
    amdgpu::DeviceMemory memory;
    for (const RandomCall::Memory& part : call_->memory())
      memory.add(part.name, part.bytes.data(), part.bytes.size(), part.written ? Access::read_write : Access::read);
    for (const auto& [data, bytes] : fake().allocations)
      memory.add("the device's own memory", data, bytes, Access::read_write);
    Kernel& kernel = kernels_.at(name);
    const amdgpu::Grid grid{{static_cast<std::uint32_t>(blocks), 1, 1}, {kernel.threads, 1, 1}};
    const std::string_view bytes(static_cast<const char*>(arguments), sizeof(TsHipAttentionArgs));
    const auto ran = amdgpu::run(kernel.program, name, bytes, grid, memory, {.seed = seed_});
    if (ran)
      kernel.times = ran->times;
    else
      fault_ = ran.error().text();
  }

  std::unique_ptr<Backend> backend_;
  const amdgpu::Compiler& compiler_;
  HipSpec spec_;
  std::map<std::string, Kernel> kernels_;
  RandomCall* call_ = nullptr;
  std::uint32_t seed_ = 1;
  std::string fault_;
};

}  // namespace tilesmith::testing
