// The few types of the CUDA driver's interface that Tilesmith uses, declared here so that neither building nor running
// needs a CUDA header. Sizes and values are the driver's binary interface; tests/runtime compares them with cuda.h
// where that is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tilesmith::cu {

/// What every driver call returns. Only the codes that Tilesmith tells apart have names here; the driver names all.
enum class Code : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  deinitialized = 4,
  stub_library = 34,
  newer_driver_needed = 36,
  device_unavailable = 46,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  no_binary_for_gpu = 209,
  uncorrectable_ecc = 214,
  invalid_ptx = 218,
  unsupported_ptx_version = 222,
  invalid_source = 300,
  symbol_not_found = 302,
  shared_object_failed = 303,
  operating_system = 304,
  invalid_handle = 400,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  launch_out_of_resources = 701,
  launch_timeout = 702,
  context_is_destroyed = 709,
  tensor_memory_leak = 721,
  not_permitted = 800,
  not_supported = 801,
  system_not_ready = 802,
  system_driver_mismatch = 803,
  compat_not_supported = 804,
  capture_unsupported = 900,
  captured_event = 907,
  capture_wrong_thread = 908,
  timeout = 909,
  invalid_cluster_size = 912,
  function_not_loaded = 913,
  unknown = 999,
};

using Device = int;
using DevicePointer = std::uint64_t;
using Context = struct ContextObject*;
using Module = struct ModuleObject*;
using Function = struct FunctionObject*;
using Stream = struct StreamObject*;  ///< null: the legacy default stream
using Event = struct EventObject*;
using Graph = struct GraphObject*;
using GraphExec = struct GraphExecObject*;
using GraphNode = struct GraphNodeObject*;
using UserObject = struct UserObjectObject*;
using HostFunction = void (*)(void* data);

struct Uuid {
  unsigned char bytes[16];
};

enum class DeviceAttribute : int {
  shared_bytes_per_block = 8,
  warp_size = 10,
  registers_per_block = 12,
  clock_khz = 13,
  sm_count = 16,
  pci_bus = 33,
  pci_device = 34,
  memory_clock_khz = 36,
  memory_bus_bits = 37,
  l2_bytes = 38,
  threads_per_sm = 39,
  pci_domain = 50,
  compute_major = 75,
  compute_minor = 76,
  shared_bytes_per_sm = 81,
  registers_per_sm = 82,
  shared_bytes_per_block_optin = 97,
  blocks_per_sm = 106,
  reserved_shared_bytes_per_block = 111,
  cluster_launch = 120,
};

enum class FunctionAttribute : int {
  threads_per_block = 0,
  shared_bytes = 1,
  constant_bytes = 2,
  local_bytes = 3,
  registers = 4,
  binary_version = 6,
  dynamic_shared_bytes = 8,
  shared_memory_share = 9,  // of an SM's memory that is shared memory or cache, in percent
  cluster_must_be_set = 10,
  non_portable_cluster = 14,
};

enum class LaunchAttributeId : int { cluster_dimension = 4, programmatic_stream_serialization = 6 };

struct LaunchAttribute {
  LaunchAttributeId id;
  char padding[4];
  union {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int flag;
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);

struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  Stream stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(LaunchConfig) == 56);

enum class CaptureMode : int { global = 0, thread_local_ = 1, relaxed = 2 };
enum class CaptureStatus : int { none = 0, active = 1, invalidated = 2 };

inline constexpr unsigned kStreamNonBlocking = 1;
/// CU_STREAM_PER_THREAD: the calling thread's own default stream.
[[nodiscard]] inline Stream per_thread_stream() {
  return reinterpret_cast<Stream>(std::uintptr_t{2});
}
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kUserObjectNoSync = 1;     ///< its destruction is not waited for
inline constexpr unsigned kGraphUserObjectMove = 1;  ///< the graph takes the caller's reference

}  // namespace tilesmith::cu
