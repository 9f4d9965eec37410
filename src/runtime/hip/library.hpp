// The HIP runtime, opened at run time: libamdhip64.so of ROCm 6 or newer, or what TILESMITH_LIBAMDHIP64 names. A
// machine without it still runs everything else, so its absence is an ordinary error that says what is missing.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "runtime/hip/types.hpp"

namespace tilesmith {

// Every entry point, once: the member's name, the exported symbol, the parameters.
#define TILESMITH_HIP_FUNCTIONS(F)                                                                                     \
  F(init, "hipInit", unsigned flags)                                                                                   \
  F(runtime_get_version, "hipRuntimeGetVersion", int* version)                                                         \
  F(get_device_count, "hipGetDeviceCount", int* count)                                                                 \
  F(get_device, "hipGetDevice", int* index)                                                                            \
  F(set_device, "hipSetDevice", int index)                                                                             \
  F(get_device_properties, "hipGetDevicePropertiesR0600", void* properties, int index)                                 \
  F(device_get_name, "hipDeviceGetName", char* name, int length, int index)                                            \
  F(device_total_mem, "hipDeviceTotalMem", std::size_t* bytes, int index)                                              \
  F(device_get_attribute, "hipDeviceGetAttribute", int* value, hip::DeviceAttribute attribute, int index)              \
  F(device_synchronize, "hipDeviceSynchronize")                                                                        \
  F(mem_get_info, "hipMemGetInfo", std::size_t* free, std::size_t* total)                                              \
  F(module_load_data, "hipModuleLoadData", hip::Module* module, const void* image)                                     \
  F(module_get_function, "hipModuleGetFunction", hip::Function* function, hip::Module module, const char* name)        \
  F(occupancy, "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor", int* blocks, hip::Function function, int threads, \
    std::size_t dynamic_lds_bytes)                                                                                     \
  F(launch_kernel, "hipModuleLaunchKernel", hip::Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, \
    unsigned block_x, unsigned block_y, unsigned block_z, unsigned dynamic_lds_bytes, hip::Stream stream,              \
    void** parameters, void** extra)                                                                                   \
  F(malloc, "hipMalloc", void** pointer, std::size_t bytes)                                                            \
  F(free, "hipFree", void* pointer)                                                                                    \
  F(host_malloc, "hipHostMalloc", void** pointer, std::size_t bytes, unsigned flags)                                   \
  F(host_free, "hipHostFree", void* pointer)                                                                           \
  F(memcpy_htod, "hipMemcpyHtoDAsync", void* to, const void* from, std::size_t bytes, hip::Stream stream)              \
  F(memcpy_dtoh, "hipMemcpyDtoHAsync", void* to, void* from, std::size_t bytes, hip::Stream stream)                    \
  F(memcpy_dtod, "hipMemcpyDtoDAsync", void* to, void* from, std::size_t bytes, hip::Stream stream)                    \
  F(memcpy_any, "hipMemcpyAsync", void* to, const void* from, std::size_t bytes, hip::CopyKind kind,                   \
    hip::Stream stream)                                                                                                \
  F(memset_d8, "hipMemsetD8Async", void* to, unsigned char value, std::size_t count, hip::Stream stream)               \
  F(memset_d32, "hipMemsetD32Async", void* to, int value, std::size_t count, hip::Stream stream)                       \
  F(stream_create, "hipStreamCreateWithFlags", hip::Stream* stream, unsigned flags)                                    \
  F(stream_destroy, "hipStreamDestroy", hip::Stream stream)                                                            \
  F(stream_synchronize, "hipStreamSynchronize", hip::Stream stream)                                                    \
  F(stream_wait_event, "hipStreamWaitEvent", hip::Stream stream, hip::Event event, unsigned flags)                     \
  F(stream_begin_capture, "hipStreamBeginCapture", hip::Stream stream, hip::CaptureMode mode)                          \
  F(stream_end_capture, "hipStreamEndCapture", hip::Stream stream, hip::Graph* graph)                                  \
  F(stream_is_capturing, "hipStreamIsCapturing", hip::Stream stream, hip::CaptureStatus* status)                       \
  F(exchange_capture_mode, "hipThreadExchangeStreamCaptureMode", hip::CaptureMode* mode)                               \
  F(event_create, "hipEventCreateWithFlags", hip::Event* event, unsigned flags)                                        \
  F(event_destroy, "hipEventDestroy", hip::Event event)                                                                \
  F(event_record, "hipEventRecord", hip::Event event, hip::Stream stream)                                              \
  F(event_query, "hipEventQuery", hip::Event event)                                                                    \
  F(event_synchronize, "hipEventSynchronize", hip::Event event)                                                        \
  F(event_elapsed_time, "hipEventElapsedTime", float* milliseconds, hip::Event start, hip::Event stop)                 \
  F(graph_instantiate, "hipGraphInstantiateWithFlags", hip::GraphExec* exec, hip::Graph graph,                         \
    unsigned long long flags)                                                                                          \
  F(graph_destroy, "hipGraphDestroy", hip::Graph graph)                                                                \
  F(graph_exec_destroy, "hipGraphExecDestroy", hip::GraphExec exec)                                                    \
  F(graph_launch, "hipGraphLaunch", hip::GraphExec exec, hip::Stream stream)

/// "6.2", of 60'232'830.
[[nodiscard]] std::string hip_version_name(int version);

class HipLibrary {
 public:
  /// The oldest release that has every entry point above: ROCm 6.0, which changed the device properties.
  static constexpr int kOldestVersion = 60'000'000;

  /// Opens a library and initialises it. Errors: `not_found` without the library, `unsupported` when it is too old,
  /// lacks an entry point, or sees no device.
  [[nodiscard]] static Result<std::unique_ptr<const HipLibrary>> open(const std::string& library);

  /// As the library counts: 60'232'830 is HIP 6.2.32830.
  [[nodiscard]] int version() const { return version_; }
  /// "6.2"
  [[nodiscard]] std::string version_text() const;

#define TILESMITH_DECLARE(name, symbol, ...) hip::Code (*name)(__VA_ARGS__) = nullptr;
  TILESMITH_HIP_FUNCTIONS(TILESMITH_DECLARE)
#undef TILESMITH_DECLARE
  const char* (*get_error_name)(hip::Code) = nullptr;
  const char* (*get_error_string)(hip::Code) = nullptr;

 private:
  HipLibrary() = default;

  int version_ = 0;
};

/// The process's library, opened by the first call; it stays for the life of the process, and so does the reason why
/// there is none.
[[nodiscard]] Result<const HipLibrary*> hip_library();

/// Whether this process was forked from one that had opened the library: its threads and queues are not there.
[[nodiscard]] bool hip_is_lost();
/// The error that says so.
[[nodiscard]] Error hip_lost_error();

/// The error for a failed call, with the library's own name and words.
[[nodiscard]] Error hip_error(const HipLibrary& library, hip::Code code, std::string_view doing);

/// Success, or the error of the call.
[[nodiscard]] inline Status hip_status(const HipLibrary& library, hip::Code code, std::string_view doing) {
  if (code == hip::Code::success) [[likely]]
    return {};
  return std::unexpected(hip_error(library, code, doing));
}

}  // namespace tilesmith
