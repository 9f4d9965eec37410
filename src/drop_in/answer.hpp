// How a failure becomes one of Composable Kernel's numbers: its words go to the log, nothing that is thrown gets out.
#pragma once

#include <cstring>
#include <exception>
#include <initializer_list>
#include <string_view>

#include "base/error.hpp"
#include "base/log.hpp"
#include "drop_in/abi.h"

namespace tilesmith::drop_in {

/// Whether a kernel is missing for a call that is otherwise in order, the call is wrong, or the machine failed.
[[nodiscard]] constexpr bool is_about_the_call(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::unsupported:
      return true;
    case ErrorCode::not_found:
    case ErrorCode::io:
    case ErrorCode::parse:
    case ErrorCode::compile_failed:
    case ErrorCode::load_failed:
    case ErrorCode::launch_failed:
    case ErrorCode::wrong_result:
    case ErrorCode::timeout:
    case ErrorCode::cancelled:
    case ErrorCode::corrupt:
    case ErrorCode::busy:
    case ErrorCode::out_of_memory:
    case ErrorCode::internal:
      return false;
  }
  return false;
}

/// Runs the body of the C function `name`, which returns a Result, and gives its value; of a failure what `code_of`
/// makes of it, after it was logged.
template <class Value, class Body, class CodeOf>
Value answer(std::string_view name, Value thrown, Body body, CodeOf code_of) noexcept {
  try {
    auto result = body();
    if (result) return static_cast<Value>(*std::move(result));
    log_error("{}: {}", name, result.error().text());
    return code_of(result.error());
  } catch (const std::exception& error) {
    log_message(LogLevel::error, error.what());
  } catch (...) {
    log_message(LogLevel::error, "an unknown exception");
  }
  return thrown;
}

/// 0, or the number of what went wrong, of a body that returns a Status.
template <class Body>
int answer(std::string_view name, Body body) noexcept {
  return answer(
      name, int{TILESMITH_CK_FAILED},
      [&]() -> Result<int> {
        TS_TRY(body());
        return 0;
      },
      [](const Error& error) -> int {
        return is_about_the_call(error.code) ? TILESMITH_CK_NO_KERNEL : TILESMITH_CK_FAILED;
      });
}

/// Whether the calling thread waits in vain: a pointer that the call needs is null. Says which.
struct NamedPointer {
  std::string_view name;
  const void* pointer;
};
[[nodiscard]] inline bool any_is_null(std::string_view function, std::initializer_list<NamedPointer> needed) {
  for (const auto& [name, pointer] : needed)
    if (pointer == nullptr) {
      log_error("{}: {} is null", function, name);
      return true;
    }
  return false;
}

/// Copies a name into a caller's buffer, cut to its size. False where there is no room for the end of a text.
[[nodiscard]] inline bool write_name(std::string_view name, char* buffer, int size) {
  if (buffer == nullptr || size <= 0) return false;
  const std::size_t bytes = name.copy(buffer, static_cast<std::size_t>(size) - 1);
  buffer[bytes] = '\0';
  return true;
}

}  // namespace tilesmith::drop_in
