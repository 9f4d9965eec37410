// Work that may crash or hang without harm: each item runs in a forked child. The child has a copy of the parent's
// memory (inputs, references) and sends bytes back through a pipe.
//
// A child handles one item after the other until it dies or the list ends. An item that crashes, hangs or exits is
// recorded as such, and a new child goes on with the next item.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/function_ref.hpp"

namespace tilesmith {

enum class IsolatedStatus : std::uint8_t { done, crashed, timed_out };

struct IsolatedResult {
  std::size_t item = 0;
  IsolatedStatus status = IsolatedStatus::done;
  std::string payload;  ///< what the item returned, or what happened to it: "killed by signal 11 (Segmentation fault)"
};

/// Runs `work(item)` for every item in 0..count-1, in order, in children, and hands each result to `report` in the
/// parent as it comes. `report` returns false to stop early. `limit` bounds one item's wall-clock time; a child over it
/// is killed. Once `stop` says so (asked at least every second, and after each signal), the child is killed and nothing
/// more is reported. Errors: io (no pipe or process to be had).
[[nodiscard]] Status run_isolated(std::size_t count, std::chrono::milliseconds limit,
                                  FunctionRef<std::string(std::size_t)> work,
                                  FunctionRef<bool(const IsolatedResult&)> report,
                                  const std::function<bool()>& stop = {});

}  // namespace tilesmith
