// What a GPU kernel takes of its device, and what its compiler warns of: as ptxas -v writes both, or as the note of an
// AMD code object says. A kernel that spills, or whose wgmma instructions were serialised, gives right results at a
// fraction of the speed: only this report tells.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace tilesmith {

/// One compiled function: the kernel, or a device function that was not inlined.
struct FunctionResources {
  std::string function;                ///< its symbol
  bool is_kernel = false;              ///< registers, barriers and shared memory are told of kernels alone
  int registers = 0;                   ///< per thread at launch
  int barriers = 0;                    ///< named barriers, per block
  std::int64_t shared_bytes = 0;       ///< static, per block
  std::int64_t stack_bytes = 0;        ///< per thread, as are the spills
  std::int64_t spill_store_bytes = 0;  ///< of all spill instructions
  std::int64_t spill_load_bytes = 0;
  int accumulation_registers = 0;  ///< AMD: of the registers those that hold what the matrix unit sums up

  friend bool operator==(const FunctionResources&, const FunctionResources&) = default;
};

struct ResourceReport {
  std::vector<FunctionResources> functions;
  /// The assembler's advice, a line each: "(C7511) Potential Performance Loss: wgmma.mma_async instructions are
  /// serialized due to ...".
  std::vector<std::string> advisories;

  [[nodiscard]] std::int64_t spill_bytes() const;  ///< stores and loads of all functions
  /// The kernel of this symbol, or null.
  [[nodiscard]] const FunctionResources* kernel(std::string_view symbol) const;

  friend bool operator==(const ResourceReport&, const ResourceReport&) = default;
};

/// Reads the log of ptxas; what it does not know it skips.
[[nodiscard]] ResourceReport parse_resources(std::string_view log);

/// Refuses, with `compile_failed` and the compiler's own words, what ptxas calls a potential performance loss
/// (serialised wgmma, setmaxnreg ignored), and spills beyond the limit.
[[nodiscard]] Status check_resources(const ResourceReport& report, std::uint32_t spill_limit_bytes);
/// Whether an error is such a refusal: another tile of the same template may well pass.
[[nodiscard]] bool is_loss_of_performance(const Error& error);

[[nodiscard]] nlohmann::json to_json(const ResourceReport& report);
/// Throws nlohmann::json::exception when it is none.
[[nodiscard]] ResourceReport resource_report_from_json(const nlohmann::json& json);

}  // namespace tilesmith
