// The CPU as a device: one thread pool and one registry for all its operations, and for all numbers of threads.
#pragma once

#include "choose/device_class.hpp"
#include "dispatch/attention/cpu.hpp"
#include "dispatch/attention_backward/cpu.hpp"
#include "dispatch/backend.hpp"
#include "dispatch/conv/cpu.hpp"
#include "dispatch/conv/cpu_pack_w.hpp"
#include "dispatch/cpu_registry.hpp"
#include "dispatch/gemm/cpu.hpp"
#include "dispatch/gemm/cpu_list.hpp"
#include "dispatch/gemm/cpu_pack_b.hpp"
#include "dispatch/serving/cpu.hpp"
#include "runtime/cpu/machine.hpp"
#include "runtime/cpu/thread_team.hpp"

namespace tilesmith {

class CpuBackend final : public Backend {
 public:
  /// threads = 0: every processor this process may use.
  CpuBackend(const CpuMachine& machine, int threads)
      : CpuBackend(machine, std::make_shared<CpuRegistry>(machine),
                   std::make_shared<ThreadPool>(threads > 0 ? threads : machine.threads), threads) {}

  /// More threads than the pool has are a pool of their own.
  [[nodiscard]] std::unique_ptr<Backend> with_threads(int threads) override {
    const int wanted = threads > 0 ? threads : machine_.threads;
    auto pool = wanted <= pool_->threads() ? pool_ : std::make_shared<ThreadPool>(wanted);
    return std::unique_ptr<Backend>(new CpuBackend(machine_, registry_, std::move(pool), wanted));
  }

  [[nodiscard]] std::string device_class() const override { return tilesmith::device_class(facts_of(machine_, team_)); }
  [[nodiscard]] std::string compiler() override { return registry_->compiler(); }
  [[nodiscard]] std::vector<Status> build(std::span<const KernelConfig> configs, int workers,
                                          const BuildCounter& progress) override {
    return registry_->build(configs, workers, progress);
  }

 private:
  CpuBackend(const CpuMachine& machine, std::shared_ptr<CpuRegistry> registry, std::shared_ptr<ThreadPool> pool,
             int threads)
      : Backend({}),
        machine_(machine),
        registry_(std::move(registry)),
        pool_(std::move(pool)),
        team_(threads > 0 ? ThreadTeam(*pool_, threads) : ThreadTeam(*pool_)),
        attention_(machine, *registry_, team_),
        attention_backward_(machine, *registry_, team_),
        conv_(machine, *registry_, team_),
        pack_w_(machine, *registry_, team_),
        gemm_(machine, *registry_, team_),
        pack_b_(machine, *registry_, team_),
        gemm_list_(team_),
        merge_states_(team_),
        append_kv_(team_) {
    add<AttentionFwd>(attention_);
    add<AttentionBwd>(attention_backward_);
    add<Conv>(conv_);
    add<ConvPackW>(pack_w_);
    add<Gemm>(gemm_);
    add<GemmPackB>(pack_b_);
    add<ListOf<Gemm>>(gemm_list_);
    add<MergeStatesCall>(merge_states_);
    add<AppendKvCall>(append_kv_);
  }

  const CpuMachine& machine_;
  std::shared_ptr<CpuRegistry> registry_;
  std::shared_ptr<ThreadPool> pool_;
  ThreadTeam team_;
  CpuAttention attention_;
  CpuAttentionBackward attention_backward_;
  CpuConv conv_;
  CpuConvPackW pack_w_;
  CpuGemm gemm_;
  CpuGemmPackB pack_b_;
  CpuGemmList gemm_list_;
  CpuMergeStates merge_states_;
  CpuAppendKv append_kv_;
};

}  // namespace tilesmith
