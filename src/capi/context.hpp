// A context: one dispatcher for each device it was asked for, opened by the first call that needs it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/error.hpp"
#include "base/fork.hpp"
#include "capi/device.hpp"
#include "tilesmith.h"
#include "tilesmith/dispatcher.hpp"

/// What a plan's handle points to. It belongs to its context.
struct tilesmith_attention_plan {
  const tilesmith::AttentionPlan* plan;
  const tilesmith_context* context;
};
struct tilesmith_attention_backward_plan {
  const tilesmith::AttentionBackwardPlan* plan;
  const tilesmith_context* context;
};
struct tilesmith_conv_plan {
  const tilesmith::ConvPlan* plan;
  const tilesmith_context* context;
};
struct tilesmith_gemm_plan {
  const tilesmith::GemmPlan* plan;
  const tilesmith_context* context;
};

/// What a context's handle points to; tilesmith_context_create makes it.
struct tilesmith_context {
 public:
  /// options.device is the one of calls that name none.
  explicit tilesmith_context(tilesmith::DispatcherOptions options);

  [[nodiscard]] const tilesmith::DispatcherOptions& options() const { return options_; }
  [[nodiscard]] tilesmith::Device device() const { return options_.device; }
  /// A device's dispatcher. Once there is one, no lock is taken and nothing is allocated.
  [[nodiscard]] tilesmith::Dispatcher& dispatcher(tilesmith::Device device);
  /// The handle of one of this context's plans; always the same one.
  [[nodiscard]] const tilesmith_attention_plan& handle(const tilesmith::AttentionPlan& plan);
  [[nodiscard]] const tilesmith_attention_backward_plan& handle(const tilesmith::AttentionBackwardPlan& plan);
  [[nodiscard]] const tilesmith_conv_plan& handle(const tilesmith::ConvPlan& plan);
  [[nodiscard]] const tilesmith_gemm_plan& handle(const tilesmith::GemmPlan& plan);
  /// Never two alike within a process.
  [[nodiscard]] std::uint64_t id() const { return id_; }
  /// Expires with the context.
  [[nodiscard]] std::weak_ptr<const void> life() const { return life_; }

 private:
  using Place = std::atomic<tilesmith::Dispatcher*>;
  [[nodiscard]] Place& place_of(tilesmith::Device device);
  void begin_anew();
  tilesmith::Dispatcher& open(tilesmith::Device device, Place& place);

  const tilesmith::DispatcherOptions options_;
  const std::uint64_t id_;
  const std::shared_ptr<const void> life_;
  std::mutex growing_;  ///< held to add a dispatcher or a handle
  std::vector<std::unique_ptr<tilesmith::Dispatcher>> owned_;
  Place cpu_{nullptr};
  std::array<Place, tilesmith::capi::kMaxDevices> cuda_{}, hip_{};
  Place unknown_{nullptr};  ///< of devices of no known kind: its plans fail, and say why
  std::map<const tilesmith::AttentionPlan*, tilesmith_attention_plan> attention_;
  std::map<const tilesmith::AttentionBackwardPlan*, tilesmith_attention_backward_plan> attention_backward_;
  std::map<const tilesmith::ConvPlan*, tilesmith_conv_plan> conv_;
  std::map<const tilesmith::GemmPlan*, tilesmith_gemm_plan> gemm_;
  tilesmith::AtFork at_fork_{this, [](void* context) { static_cast<tilesmith_context*>(context)->begin_anew(); }};
};

namespace tilesmith::capi {

/// The context itself; for null the process's own.
[[nodiscard]] tilesmith_context& context_or_default(tilesmith_context* context);

}  // namespace tilesmith::capi
