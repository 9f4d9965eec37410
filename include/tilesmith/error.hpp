// Errors are values: a code, a message that says what is wrong and where, and a hint that says what would be right.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "tilesmith/export.hpp"

namespace tilesmith {

enum class ErrorCode : std::uint8_t {
  invalid_argument,  ///< the caller asked for something that cannot be: fix the call
  unsupported,       ///< the request is meaningful, but no kernel or machine here can serve it
  not_found,         ///< a named thing (file, kernel, symbol) does not exist
  io,                ///< the operating system refused a read, a write or a directory
  parse,             ///< a text (JSON, YAML, .npy, a kernel name) is not what its format asks for
  compile_failed,    ///< a compiler reported an error, crashed or produced nothing
  load_failed,       ///< a binary could not be loaded
  launch_failed,     ///< a kernel did not run to its end
  wrong_result,      ///< a kernel ran and its result is outside the tolerance
  timeout,           ///< a bounded wait ran out
  cancelled,         ///< somebody asked to stop
  corrupt,           ///< stored bytes are not those that were written
  busy,              ///< another process holds what is needed
  out_of_memory,     ///< memory or disk space is exhausted
  internal,          ///< a defect in Tilesmith itself
};

[[nodiscard]] TILESMITH_API std::string_view to_string(ErrorCode code);

struct TILESMITH_API Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;  ///< what is wrong and where, with the offending value
  std::string hint{};   ///< what would be right; may be empty

  /// Prefixes the message with where the error happened: "while reading q.npy: ...".
  [[nodiscard]] Error in(std::string_view where) const;
  /// "message (hint)", for a log line or a terminal.
  [[nodiscard]] std::string text() const;
};

template <class T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

}  // namespace tilesmith
