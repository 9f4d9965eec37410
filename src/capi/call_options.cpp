#include "capi/call_options.hpp"

#include <fmt/format.h>

#include <cstddef>

#include "capi/call_checks.hpp"
#include "capi/device.hpp"
#include "capi/sized_struct.hpp"

namespace tilesmith::capi {
namespace {

/// Writes all but the device.
Status read_options(const tilesmith_context_options& given, DispatcherOptions& options) {
  if (given.threads < 0)
    return fail(ErrorCode::invalid_argument, fmt::format("threads is {}", given.threads),
                "1 or more, or 0 for every processor this process may use");
  TS_TRY(check_enum("build", given.build, TILESMITH_BUILD_NEVER, "tilesmith_build_policy"));
  TS_TRY(check_enum("determinism", given.determinism, TILESMITH_DETERMINISM_TOLERANT, "tilesmith_determinism"));
  if (given.reserved != 0)
    return fail(ErrorCode::invalid_argument, fmt::format("reserved is {}", given.reserved),
                "0; TILESMITH_CONTEXT_OPTIONS_INIT sets it");
  options.threads = given.threads;
  options.build = given.build == TILESMITH_BUILD_ALLOWED ? BuildPolicy::allowed : BuildPolicy::never;
  options.determinism = static_cast<Determinism>(given.determinism);
  options.kernel.assign(given.kernel == nullptr ? "" : given.kernel);
  options.tuning.assign(given.tuning == nullptr ? "" : given.tuning);
  return {};
}

Result<const tilesmith_context_options*> whole(const tilesmith_context_options* given,
                                               tilesmith_context_options& room) {
  // Before determinism, and before tuning files, were added.
  return read_struct("tilesmith_context_options", given,
                     {offsetof(tilesmith_context_options, determinism), offsetof(tilesmith_context_options, tuning)},
                     room);
}

}  // namespace

Result<DispatcherOptions> options_from_c(const tilesmith_context_options* given) {
  tilesmith_context_options room;
  TS_ASSIGN(const tilesmith_context_options* all, whole(given, room));
  DispatcherOptions options;
  TS_ASSIGN(options.device, device_from_c(all->device, Device{}));
  TS_TRY(read_options(*all, options));
  return options;
}

Result<const DispatcherOptions*> options_of_call(const tilesmith_context_options* given, Device device) {
  thread_local DispatcherOptions options;
  tilesmith_context_options room;
  TS_ASSIGN(const tilesmith_context_options* all, whole(given, room));
  TS_TRY(read_options(*all, options));
  options.device = device;
  return &options;
}

}  // namespace tilesmith::capi
