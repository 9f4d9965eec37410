// The CPU as a device: one thread pool and one registry for all its operations.
#pragma once

#include "choose/device_class.hpp"
#include "dispatch/attention/cpu.hpp"
#include "dispatch/backend.hpp"
#include "dispatch/cpu_registry.hpp"
#include "dispatch/gemm/cpu.hpp"
#include "dispatch/gemm/cpu_list.hpp"
#include "dispatch/gemm/cpu_pack_b.hpp"
#include "runtime/cpu/machine.hpp"
#include "runtime/cpu/thread_pool.hpp"

namespace tilesmith {

class CpuBackend final : public Backend {
 public:
  /// threads = 0: every processor this process may use.
  CpuBackend(const CpuMachine& machine, int threads)
      : Backend({}),
        machine_(machine),
        registry_(machine),
        pool_(threads > 0 ? threads : machine.threads),
        attention_(machine, registry_, pool_),
        gemm_(machine, registry_, pool_),
        pack_b_(machine, registry_, pool_),
        gemm_list_(pool_) {
    add<AttentionFwd>(attention_);
    add<Gemm>(gemm_);
    add<GemmPackB>(pack_b_);
    add<ListOf<Gemm>>(gemm_list_);
  }

  [[nodiscard]] std::string device_class() const override { return tilesmith::device_class(facts_of(machine_, pool_)); }
  [[nodiscard]] std::string compiler() override { return registry_.compiler(); }
  [[nodiscard]] std::vector<Status> build(std::span<const KernelConfig> configs, int workers,
                                          const BuildCounter& progress) override {
    return registry_.build(configs, workers, progress);
  }

 private:
  const CpuMachine& machine_;
  CpuRegistry registry_;
  ThreadPool pool_;
  CpuAttention attention_;
  CpuGemm gemm_;
  CpuGemmPackB pack_b_;
  CpuGemmList gemm_list_;
};

}  // namespace tilesmith
