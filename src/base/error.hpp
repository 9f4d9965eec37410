// The error values of include/tilesmith/error.hpp, and the three ways the code makes and passes them on.
#pragma once

#include <string>
#include <utility>

#include "tilesmith/error.hpp"

namespace tilesmith {

[[nodiscard]] inline std::unexpected<Error> fail(ErrorCode code, std::string message, std::string hint = {}) {
  return std::unexpected(Error{code, std::move(message), std::move(hint)});
}

}  // namespace tilesmith

/// Leaves the function with the error of a Status or Result expression.
#define TS_TRY(expression)                                             \
  do {                                                                 \
    if (auto ts_try_result = (expression); !ts_try_result.has_value()) \
      return std::unexpected(std::move(ts_try_result).error());        \
  } while (false)

#define TS_CONCAT_INNER(a, b) a##b
#define TS_CONCAT(a, b) TS_CONCAT_INNER(a, b)
/// TS_ASSIGN(auto x, expression): the value of a Result, or leaves the function with its error.
#define TS_ASSIGN(declaration, expression) TS_ASSIGN_INNER(TS_CONCAT(ts_result_, __LINE__), declaration, expression)
#define TS_ASSIGN_INNER(temporary, declaration, expression)                         \
  auto temporary = (expression);                                                    \
  if (!temporary.has_value()) return std::unexpected(std::move(temporary).error()); \
  declaration = std::move(temporary).value()
