// The CUDA driver, opened at run time: libcuda.so.1, or what TILESMITH_LIBCUDA names. A machine without it still runs
// everything else, so its absence is an ordinary error that says what is missing.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "runtime/cuda/types.hpp"

namespace tilesmith {

// Every entry point, once: the member's name, the exported symbol with its version, the parameters. The version in the
// symbol fixes the parameters' types for ever.
#define TILESMITH_CUDA_FUNCTIONS(F)                                                                                    \
  F(init, "cuInit", unsigned flags)                                                                                    \
  F(driver_get_version, "cuDriverGetVersion", int* version)                                                            \
  F(get_error_name, "cuGetErrorName", cu::Code code, const char** name)                                                \
  F(get_error_string, "cuGetErrorString", cu::Code code, const char** text)                                            \
  F(device_get_count, "cuDeviceGetCount", int* count)                                                                  \
  F(device_get, "cuDeviceGet", cu::Device* device, int index)                                                          \
  F(device_get_name, "cuDeviceGetName", char* name, int length, cu::Device device)                                     \
  F(device_get_uuid, "cuDeviceGetUuid_v2", cu::Uuid* uuid, cu::Device device)                                          \
  F(device_total_mem, "cuDeviceTotalMem_v2", std::size_t* bytes, cu::Device device)                                    \
  F(device_get_attribute, "cuDeviceGetAttribute", int* value, cu::DeviceAttribute attribute, cu::Device device)        \
  F(primary_ctx_retain, "cuDevicePrimaryCtxRetain", cu::Context* context, cu::Device device)                           \
  F(primary_ctx_release, "cuDevicePrimaryCtxRelease_v2", cu::Device device)                                            \
  F(ctx_get_current, "cuCtxGetCurrent", cu::Context* context)                                                          \
  F(ctx_push_current, "cuCtxPushCurrent_v2", cu::Context context)                                                      \
  F(ctx_pop_current, "cuCtxPopCurrent_v2", cu::Context* context)                                                       \
  F(ctx_synchronize, "cuCtxSynchronize")                                                                               \
  F(mem_get_info, "cuMemGetInfo_v2", std::size_t* free, std::size_t* total)                                            \
  F(module_load_data, "cuModuleLoadData", cu::Module* module, const void* image)                                       \
  F(module_unload, "cuModuleUnload", cu::Module module)                                                                \
  F(module_get_function, "cuModuleGetFunction", cu::Function* function, cu::Module module, const char* name)           \
  F(func_get_attribute, "cuFuncGetAttribute", int* value, cu::FunctionAttribute attribute, cu::Function function)      \
  F(func_set_attribute, "cuFuncSetAttribute", cu::Function function, cu::FunctionAttribute attribute, int value)       \
  F(occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor", int* blocks, cu::Function function, int threads,         \
    std::size_t dynamic_shared_bytes)                                                                                  \
  F(occupancy_clusters, "cuOccupancyMaxActiveClusters", int* clusters, cu::Function function,                          \
    const cu::LaunchConfig* config)                                                                                    \
  F(launch_kernel, "cuLaunchKernelEx", const cu::LaunchConfig* config, cu::Function function, void** parameters,       \
    void** extra)                                                                                                      \
  F(mem_alloc, "cuMemAlloc_v2", cu::DevicePointer* pointer, std::size_t bytes)                                         \
  F(mem_free, "cuMemFree_v2", cu::DevicePointer pointer)                                                               \
  F(mem_host_alloc, "cuMemHostAlloc", void** pointer, std::size_t bytes, unsigned flags)                               \
  F(mem_free_host, "cuMemFreeHost", void* pointer)                                                                     \
  F(memcpy_htod, "cuMemcpyHtoDAsync_v2", cu::DevicePointer to, const void* from, std::size_t bytes, cu::Stream stream) \
  F(memcpy_dtoh, "cuMemcpyDtoHAsync_v2", void* to, cu::DevicePointer from, std::size_t bytes, cu::Stream stream)       \
  F(memcpy_dtod, "cuMemcpyDtoDAsync_v2", cu::DevicePointer to, cu::DevicePointer from, std::size_t bytes,              \
    cu::Stream stream)                                                                                                 \
  F(memcpy_any, "cuMemcpyAsync", cu::DevicePointer to, cu::DevicePointer from, std::size_t bytes, cu::Stream stream)   \
  F(memset_d8, "cuMemsetD8Async", cu::DevicePointer to, unsigned char value, std::size_t count, cu::Stream stream)     \
  F(memset_d32, "cuMemsetD32Async", cu::DevicePointer to, unsigned value, std::size_t count, cu::Stream stream)        \
  F(stream_create, "cuStreamCreate", cu::Stream* stream, unsigned flags)                                               \
  F(stream_destroy, "cuStreamDestroy_v2", cu::Stream stream)                                                           \
  F(stream_synchronize, "cuStreamSynchronize", cu::Stream stream)                                                      \
  F(stream_wait_event, "cuStreamWaitEvent", cu::Stream stream, cu::Event event, unsigned flags)                        \
  F(stream_begin_capture, "cuStreamBeginCapture_v2", cu::Stream stream, cu::CaptureMode mode)                          \
  F(stream_end_capture, "cuStreamEndCapture", cu::Stream stream, cu::Graph* graph)                                     \
  F(stream_get_id, "cuStreamGetId", cu::Stream stream, std::uint64_t* identity)                                        \
  F(stream_is_capturing, "cuStreamIsCapturing", cu::Stream stream, cu::CaptureStatus* status)                          \
  F(stream_get_capture_info, "cuStreamGetCaptureInfo_v2", cu::Stream stream, cu::CaptureStatus* status,                \
    std::uint64_t* identity, cu::Graph* graph, const cu::GraphNode** dependencies, std::size_t* dependency_count)      \
  F(exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", cu::CaptureMode* mode)                                 \
  F(event_create, "cuEventCreate", cu::Event* event, unsigned flags)                                                   \
  F(event_destroy, "cuEventDestroy_v2", cu::Event event)                                                               \
  F(event_record, "cuEventRecord", cu::Event event, cu::Stream stream)                                                 \
  F(event_query, "cuEventQuery", cu::Event event)                                                                      \
  F(event_synchronize, "cuEventSynchronize", cu::Event event)                                                          \
  F(event_elapsed_time, "cuEventElapsedTime", float* milliseconds, cu::Event start, cu::Event stop)                    \
  F(graph_instantiate, "cuGraphInstantiateWithFlags", cu::GraphExec* exec, cu::Graph graph, unsigned long long flags)  \
  F(graph_destroy, "cuGraphDestroy", cu::Graph graph)                                                                  \
  F(graph_exec_destroy, "cuGraphExecDestroy", cu::GraphExec exec)                                                      \
  F(user_object_create, "cuUserObjectCreate", cu::UserObject* object, void* data, cu::HostFunction destroy,            \
    unsigned references, unsigned flags)                                                                               \
  F(user_object_release, "cuUserObjectRelease", cu::UserObject object, unsigned references)                            \
  F(graph_retain_user_object, "cuGraphRetainUserObject", cu::Graph graph, cu::UserObject object, unsigned references,  \
    unsigned flags)                                                                                                    \
  F(graph_launch, "cuGraphLaunch", cu::GraphExec exec, cu::Stream stream)                                              \
  F(tensor_map_encode_tiled, "cuTensorMapEncodeTiled", void* map, int data_type, unsigned rank, void* address,         \
    const std::uint64_t* extents, const std::uint64_t* strides, const std::uint32_t* box, const std::uint32_t* steps,  \
    int interleave, int swizzle, int promotion, int fill)                                                              \
  F(tensor_map_encode_im2col, "cuTensorMapEncodeIm2col", void* map, int data_type, unsigned rank, void* address,       \
    const std::uint64_t* extents, const std::uint64_t* strides, const int* lower, const int* upper, unsigned channels, \
    unsigned pixels, const std::uint32_t* steps, int interleave, int swizzle, int promotion, int fill)                 \
  F(tensor_map_replace_address, "cuTensorMapReplaceAddress", void* map, void* address)

class CudaDriver {
 public:
  /// The oldest interface that has every entry point above: CUDA 12.0, which driver 525.60 brought.
  static constexpr int kOldestVersion = 12000;

  /// Opens a driver library and initialises it. Errors: `not_found` without the library, `unsupported` when it is too
  /// old, lacks an entry point, or sees no device.
  [[nodiscard]] static Result<std::unique_ptr<const CudaDriver>> open(const std::string& library);

  /// The interface's version as the driver counts: 13000 is CUDA 13.0.
  [[nodiscard]] int version() const { return version_; }
  /// "13.0"
  [[nodiscard]] std::string version_text() const;

#define TILESMITH_DECLARE(name, symbol, ...) cu::Code (*name)(__VA_ARGS__) = nullptr;
  TILESMITH_CUDA_FUNCTIONS(TILESMITH_DECLARE)
#undef TILESMITH_DECLARE

 private:
  CudaDriver() = default;

  int version_ = 0;
};

/// The process's driver, opened by the first call; it stays for the life of the process, and so does the reason why
/// there is none.
[[nodiscard]] Result<const CudaDriver*> cuda_driver();

/// Whether this process was forked from one that had opened the driver. The driver's state does not survive that, and
/// its locks may be held by threads that are not there: nothing of it may be called.
[[nodiscard]] bool cuda_is_lost();
/// The error that says so.
[[nodiscard]] Error cuda_lost_error();

/// The error for a failed call, with the driver's own name and words: "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory
/// access was encountered) while synchronising the stream".
[[nodiscard]] Error cuda_error(const CudaDriver& driver, cu::Code code, std::string_view doing);

/// Success, or the error of the call.
[[nodiscard]] inline Status cuda_status(const CudaDriver& driver, cu::Code code, std::string_view doing) {
  if (code == cu::Code::success) [[likely]]
    return {};
  return std::unexpected(cuda_error(driver, code, doing));
}

}  // namespace tilesmith
