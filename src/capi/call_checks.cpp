#include "capi/call_checks.hpp"

#include <fmt/format.h>

namespace tilesmith::capi {
namespace {

constexpr std::int64_t kAlignment = 16;

}  // namespace

Status check_enum(std::string_view field, std::int64_t value, std::int64_t last, std::string_view type) {
  if (value < 0 || value > last)
    return fail(ErrorCode::invalid_argument, fmt::format("{} is {}", field, value), fmt::format("a {}", type));
  return {};
}

Status check_unused(std::string_view field, bool given, std::string_view asks) {
  if (given)
    return fail(ErrorCode::invalid_argument, fmt::format("{} is given, and the problem does not ask for it", field),
                fmt::format("{}, or leave it at zero", asks));
  return {};
}

bool is_unaligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % kAlignment != 0;
}

bool is_unaligned(std::int64_t stride, int element_bits) {
  // Modulo first: a stride may be anything, and its bits overflow.
  return stride % (8 * kAlignment) * element_bits % (8 * kAlignment) != 0;
}

Result<RunOptions> options_of(void* stream, void* workspace, std::uint64_t workspace_bytes, const Plan& plan) {
  if (stream != nullptr && !is_gpu(plan.device().kind))
    return fail(ErrorCode::invalid_argument, "a stream is given, and the device is the CPU", "null");
  if (workspace != nullptr && workspace_bytes < plan.workspace_bytes())
    return fail(ErrorCode::invalid_argument, fmt::format("the workspace has {} bytes", workspace_bytes),
                fmt::format("at least {}, or null for the library's own", plan.workspace_bytes()));
  if (reinterpret_cast<std::uintptr_t>(workspace) % 64 != 0)
    return fail(ErrorCode::invalid_argument, "the workspace is not aligned", "a multiple of 64 bytes");
  return RunOptions{.stream = stream, .workspace = workspace};
}

}  // namespace tilesmith::capi
