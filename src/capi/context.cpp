#include "capi/context.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <new>

#include "base/env.hpp"
#include "capi/call_options.hpp"
#include "capi/last_error.hpp"
#include "capi/sized_struct.hpp"
#include "vocabulary/enum_table.hpp"
#include "vocabulary/traits.hpp"

namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

tilesmith_context::tilesmith_context(tilesmith::DispatcherOptions options)
    : options_(std::move(options)), id_(next_id()), life_(std::make_shared<int>(0)) {}

tilesmith::Dispatcher& tilesmith_context::dispatcher(tilesmith::Device device) {
  Place& place = place_of(device);
  if (tilesmith::Dispatcher* known = place.load(std::memory_order_acquire)) return *known;
  return open(device, place);
}

/// In a forked child, when another thread was adding something. Dispatchers that have a place keep it, and handles that
/// were given out stay where they are.
void tilesmith_context::begin_anew() {
  if (!tilesmith::renew(growing_)) return;
  new (&owned_) decltype(owned_);
  new (&attention_) decltype(attention_);
  new (&attention_backward_) decltype(attention_backward_);
  new (&conv_) decltype(conv_);
  new (&gemm_) decltype(gemm_);
}

tilesmith_context::Place& tilesmith_context::place_of(tilesmith::Device device) {
  switch (device.kind) {
    case tilesmith::DeviceKind::cpu:
      return cpu_;
    case tilesmith::DeviceKind::cuda:
      return cuda_.at(static_cast<std::size_t>(device.index));
    case tilesmith::DeviceKind::hip:
      return hip_.at(static_cast<std::size_t>(device.index));
  }
  return unknown_;
}

tilesmith::Dispatcher& tilesmith_context::open(tilesmith::Device device, Place& place) {
  const std::lock_guard lock(growing_);
  if (tilesmith::Dispatcher* known = place.load(std::memory_order_acquire)) return *known;
  tilesmith::DispatcherOptions options = options_;
  options.device = device;
  owned_.push_back(std::make_unique<tilesmith::Dispatcher>(std::move(options)));
  place.store(owned_.back().get(), std::memory_order_release);
  return *owned_.back();
}

const tilesmith_attention_plan& tilesmith_context::handle(const tilesmith::AttentionPlan& plan) {
  const std::lock_guard lock(growing_);
  return attention_.try_emplace(&plan, tilesmith_attention_plan{&plan, this}).first->second;
}

const tilesmith_attention_backward_plan& tilesmith_context::handle(const tilesmith::AttentionBackwardPlan& plan) {
  const std::lock_guard lock(growing_);
  return attention_backward_.try_emplace(&plan, tilesmith_attention_backward_plan{&plan, this}).first->second;
}

const tilesmith_conv_plan& tilesmith_context::handle(const tilesmith::ConvPlan& plan) {
  const std::lock_guard lock(growing_);
  return conv_.try_emplace(&plan, tilesmith_conv_plan{&plan, this}).first->second;
}

const tilesmith_gemm_plan& tilesmith_context::handle(const tilesmith::GemmPlan& plan) {
  const std::lock_guard lock(growing_);
  return gemm_.try_emplace(&plan, tilesmith_gemm_plan{&plan, this}).first->second;
}

namespace tilesmith::capi {
namespace {

Determinism wanted_determinism() {
  const auto text = env_word("TILESMITH_DETERMINISM");  // another word is an error of every call: check_environment()
  if (!text || !*text) return Determinism::bitwise;
  return parse_enum<Determinism>(**text).value_or(Determinism::bitwise);
}

}  // namespace

tilesmith_context& context_or_default(tilesmith_context* context) {
  if (context != nullptr) return *context;
  // Never destroyed: threads that outlive main may still call, and at exit a driver may be gone before us.
  static tilesmith_context& own = *new tilesmith_context(DispatcherOptions{.determinism = wanted_determinism()});
  return own;
}

}  // namespace tilesmith::capi

tilesmith_status tilesmith_context_create(const tilesmith_context_options* options, tilesmith_context** out) {
  using namespace tilesmith;
  return capi::guarded([&]() -> Status {
    if (out == nullptr) return fail(ErrorCode::invalid_argument, "out is null", "a place for the new context");
    *out = nullptr;
    DispatcherOptions chosen;
    if (options != nullptr) {
      TS_ASSIGN(chosen, capi::options_from_c(options));
    }
    *out = new tilesmith_context(std::move(chosen));
    return {};
  });
}

tilesmith_status tilesmith_context_get_options(tilesmith_context* context, tilesmith_context_options* out) {
  using namespace tilesmith;
  return capi::guarded([&]() -> Status {
    const DispatcherOptions& options = capi::context_or_default(context).options();
    const auto build = options.build == BuildPolicy::allowed ? TILESMITH_BUILD_ALLOWED : TILESMITH_BUILD_NEVER;
    return capi::write_struct(
        "tilesmith_context_options", out,
        {.struct_size = sizeof *out,
         .device = capi::device_in_c(options.device),
         .threads = options.threads,
         .build = build,
         .kernel = options.kernel.c_str(),
         .determinism = static_cast<int32_t>(options.determinism),
         .reserved = 0,
         .tuning = options.tuning.c_str()},
        {offsetof(tilesmith_context_options, determinism), offsetof(tilesmith_context_options, tuning)});
  });
}

void tilesmith_context_destroy(tilesmith_context* context) {
  delete context;
}
