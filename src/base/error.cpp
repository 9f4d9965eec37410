#include "base/error.hpp"

namespace tilesmith {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::io:
      return "io";
    case ErrorCode::parse:
      return "parse";
    case ErrorCode::compile_failed:
      return "compile_failed";
    case ErrorCode::load_failed:
      return "load_failed";
    case ErrorCode::launch_failed:
      return "launch_failed";
    case ErrorCode::wrong_result:
      return "wrong_result";
    case ErrorCode::timeout:
      return "timeout";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::corrupt:
      return "corrupt";
    case ErrorCode::busy:
      return "busy";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::internal:
      return "internal";
  }
  return "unknown";
}

Error Error::in(std::string_view where) const {
  return {code, std::string(where) + ": " + message, hint};
}

std::string Error::text() const {
  return hint.empty() ? message : message + " (" + hint + ")";
}

}  // namespace tilesmith
