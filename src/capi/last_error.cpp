#include "capi/last_error.hpp"

#include <string>

#include "capi/sized_struct.hpp"

namespace tilesmith::capi {
namespace {

struct LastError {
  tilesmith_status code = TILESMITH_SUCCESS;
  const char* message = "";
  const char* hint = "";
  std::string message_text{};
  std::string hint_text{};
};
thread_local LastError last;

tilesmith_status status_of(ErrorCode code) {
  return static_cast<tilesmith_status>(code) + 1;
}
static_assert(static_cast<int>(ErrorCode::invalid_argument) + 1 == TILESMITH_INVALID_ARGUMENT);
static_assert(static_cast<int>(ErrorCode::compile_failed) + 1 == TILESMITH_COMPILE_FAILED);
static_assert(static_cast<int>(ErrorCode::out_of_memory) + 1 == TILESMITH_OUT_OF_MEMORY);
static_assert(static_cast<int>(ErrorCode::internal) + 1 == TILESMITH_INTERNAL);

/// Texts that need no memory.
tilesmith_status keep_static(tilesmith_status code, const char* message, const char* hint) noexcept {
  last.code = code;
  last.message = message;
  last.hint = hint;
  return code;
}

}  // namespace

tilesmith_status keep(const Error& error) noexcept {
  try {
    last.message_text = error.message;
    last.hint_text = error.hint;
  } catch (...) {
    return keep_static(status_of(error.code), "an error whose text did not fit into memory", "free some memory");
  }
  return keep_static(status_of(error.code), last.message_text.c_str(), last.hint_text.c_str());
}

tilesmith_status keep_thrown() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return keep_static(TILESMITH_OUT_OF_MEMORY, "out of memory", "free some memory, or ask for less");
  } catch (const std::exception& error) {
    try {
      return keep({ErrorCode::internal, error.what(), "this is a defect of tilesmith; please report it with the call"});
    } catch (...) {
      return keep_static(TILESMITH_OUT_OF_MEMORY, "out of memory", "free some memory, or ask for less");
    }
  } catch (...) {
    return keep_static(TILESMITH_INTERNAL, "an unknown exception",
                       "this is a defect of tilesmith; please report it with the call");
  }
}

}  // namespace tilesmith::capi

tilesmith_status tilesmith_last_error(tilesmith_error* out) {
  using namespace tilesmith::capi;
  // Asking for the last error must not replace it, except when the question itself is wrong.
  const tilesmith_error value{sizeof value, last.code, 0, last.message, last.hint};
  return guarded([&] { return write_struct("tilesmith_error", out, value); });
}

const char* tilesmith_code_name(tilesmith_status code) {
  if (code == TILESMITH_SUCCESS) return "success";
  if (code < 0 || code > TILESMITH_INTERNAL) return "unknown";
  return tilesmith::to_string(static_cast<tilesmith::ErrorCode>(code - 1)).data();
}
