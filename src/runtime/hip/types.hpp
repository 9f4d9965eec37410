// The few types of the HIP runtime's interface that Tilesmith uses, declared here so that neither building nor running
// needs a HIP header. Values are those of ROCm 6's binary interface.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tilesmith::hip {

/// What every call returns. Only the codes that Tilesmith tells apart have names here; the library names all.
enum class Code : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  insufficient_driver = 35,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  no_binary_for_gpu = 209,
  uncorrectable_ecc = 214,
  invalid_kernel_file = 218,
  symbol_not_found = 302,
  shared_object_failed = 303,
  invalid_handle = 400,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  launch_out_of_resources = 701,
  launch_timeout = 702,
  launch_failure = 719,
  not_supported = 801,
  capture_unsupported = 900,
  capture_wrong_thread = 908,
  unknown = 999,
};

using Module = struct ModuleObject*;
using Function = struct FunctionObject*;
using Stream = struct StreamObject*;  ///< null: the default stream
using Event = struct EventObject*;
using Graph = struct GraphObject*;
using GraphExec = struct GraphExecObject*;

enum class DeviceAttribute : int {
  compute_units = 63,
  pci_bus = 67,
  pci_device = 68,
  pci_domain = 69,
  lds_bytes_per_block = 74,
  lanes_per_wave = 87,
};

/// Of the kinds of copies the one that finds out where each address lies (hipMemcpyDefault).
enum class CopyKind : int { by_address = 4 };

enum class CaptureMode : int { global = 0, thread_local_ = 1, relaxed = 2 };
enum class CaptureStatus : int { none = 0, active = 1, invalidated = 2 };

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
/// More than any release's hipDeviceProp_t.
inline constexpr std::size_t kPropertiesBytes = 16 << 10;

}  // namespace tilesmith::hip
