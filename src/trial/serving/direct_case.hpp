// A case of an operation that has no plan (dispatch/operations.hpp, DirectOperations): random data, the call on them,
// and what it should write.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "tilesmith/dispatcher.hpp"
#include "trial/call_memory.hpp"
#include "trial/report.hpp"

namespace tilesmith {

class DirectCase {
 public:
  DirectCase() = default;
  DirectCase(const DirectCase&) = delete;
  DirectCase& operator=(const DirectCase&) = delete;
  virtual ~DirectCase() = default;

  [[nodiscard]] virtual std::vector<NamedInput> inputs() const = 0;
  [[nodiscard]] virtual std::vector<OutputSpec> outputs() const = 0;
  /// Runs the call once, on memory of the host or of the dispatcher's device.
  [[nodiscard]] virtual Status call(Dispatcher& dispatcher, const CallMemory& memory,
                                    const RunOptions& options) const = 0;
  /// What is wrong in outputs that were filled with `kBefore` before the call; empty when nothing is. `written` is in
  /// the order of outputs().
  [[nodiscard]] virtual std::string fault(std::span<const std::vector<std::byte>> written) const = 0;
  /// Bytes that a call reads and writes, each once.
  [[nodiscard]] virtual double bytes() const = 0;

  /// NaN in every floating-point type, -1 in the integers.
  static constexpr std::byte kBefore{0xff};
};

struct DirectReport {
  std::optional<std::string> fault{};  ///< absent when the call was not verified
  std::optional<TrialTiming> timing{};
};

/// Runs the case on the dispatcher's device. Errors: those of the call, and of the device.
[[nodiscard]] Result<DirectReport> try_direct(const DirectCase& direct, Dispatcher& dispatcher, bool verify, bool time);

}  // namespace tilesmith
