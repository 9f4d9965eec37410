// What turns sources into a binary. A toolchain says who it is, so that the store never gives one compiler's binary to
// another; what it cannot do comes back as an error value with the compiler's own words.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "base/error.hpp"
#include "codegen/source.hpp"
#include "jit/resource_report.hpp"

namespace tilesmith {

struct CompileLimits {
  std::chrono::milliseconds time{120'000};
  std::uint64_t memory_bytes = 0;  ///< address space of each compiler process; 0: no limit
  std::stop_token stop{};
};

struct Compiled {
  std::string binary;
  std::string log;                            ///< what the compiler said although it succeeded
  std::optional<ResourceReport> resources{};  ///< what the kernel takes of its device; GPUs only
};

/// A compiler's words for an error message: all of them, or the first 4 KiB and how many are left out.
[[nodiscard]] std::string quote_log(const std::string& text);

class Toolchain {
 public:
  Toolchain() = default;
  Toolchain(const Toolchain&) = delete;
  Toolchain& operator=(const Toolchain&) = delete;
  virtual ~Toolchain() = default;

  /// Everything about the toolchain that can change a binary, and no path: two machines with the same compiler share a
  /// store.
  [[nodiscard]] virtual const std::string& identity() const = 0;
  /// How many sources one compile() may take.
  [[nodiscard]] virtual int largest_batch() const = 0;
  /// All sources, which agree in language, arch and options and differ in entry_symbol, into one binary. Errors:
  /// `compile_failed` when the compiler refuses the text (trying again is useless), `timeout`, `cancelled`,
  /// `out_of_memory`, and `io` or `internal` for the rest.
  [[nodiscard]] virtual Result<Compiled> compile(std::span<const Source* const> sources,
                                                 const CompileLimits& limits) const = 0;
};

}  // namespace tilesmith
