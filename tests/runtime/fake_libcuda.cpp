// A CUDA driver without a device: the functions Tilesmith loads, with scripted answers and a journal of what was asked,
// so that everything on this side of the driver can be tested anywhere. The exported symbols are the real ones.
#include "runtime/fake_libcuda.hpp"

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "runtime/cuda/types.hpp"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using tilesmith::cu::Code;
using tilesmith::cu::DeviceAttribute;
using tilesmith::cu::LaunchConfig;
using tilesmith::testing::FakeLibcuda;

FakeLibcuda state;

template <class Handle>
Code give(Handle* handle) {
  *handle = reinterpret_cast<Handle>(++state.handles);
  return Code::success;
}

/// What is called when the last graph that holds it is gone.
using UserObject = std::shared_ptr<void>;
std::map<void*, UserObject> user_objects;
std::map<void*, std::vector<UserObject>> held;  // by graphs and their instances

}  // namespace

EXPORT FakeLibcuda* fake_libcuda() {
  return &state;
}

EXPORT Code cuDriverGetVersion(int* version) {
  *version = state.version;
  return Code::success;
}
EXPORT Code cuInit(unsigned) {
  return state.init;
}
EXPORT Code cuGetErrorName(Code code, const char** name) {
  switch (code) {
    case Code::out_of_memory:
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      return Code::success;
    case Code::no_device:
      *name = "CUDA_ERROR_NO_DEVICE";
      return Code::success;
    case Code::illegal_address:
      *name = "CUDA_ERROR_ILLEGAL_ADDRESS";
      return Code::success;
    case Code::invalid_value:
      *name = "CUDA_ERROR_INVALID_VALUE";
      return Code::success;
    case Code::not_found:
      *name = "CUDA_ERROR_NOT_FOUND";
      return Code::success;
    default:
      *name = nullptr;
      return Code::invalid_value;
  }
}
EXPORT Code cuGetErrorString(Code code, const char** text) {
  *text = code == Code::illegal_address ? "an illegal memory access was encountered" : "words of the driver";
  return code == Code::unknown ? Code::invalid_value : Code::success;
}
EXPORT Code cuDeviceGetCount(int* count) {
  *count = state.devices;
  return Code::success;
}
EXPORT Code cuDeviceGet(int* device, int index) {
  *device = index + 100;  // a handle is no index
  return Code::success;
}
EXPORT Code cuDeviceGetName(char* name, int length, int device) {
  std::strncpy(name, device == 100 ? "Fake H200" : "Fake A10", static_cast<std::size_t>(length));
  return Code::success;
}
EXPORT Code cuDeviceGetUuid_v2(tilesmith::cu::Uuid* uuid, int) {
  for (int i = 0; i < 16; ++i) uuid->bytes[i] = static_cast<unsigned char>(i * 17);
  return Code::success;
}
EXPORT Code cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = std::size_t{141} << 30;
  return Code::success;
}
EXPORT Code cuDeviceGetAttribute(int* value, DeviceAttribute attribute, int device) {
  switch (attribute) {
    case DeviceAttribute::compute_major:
      *value = device == 100 ? 9 : 8;
      break;
    case DeviceAttribute::compute_minor:
      *value = device == 100 ? 0 : 6;
      break;
    case DeviceAttribute::sm_count:
      *value = 132;
      break;
    case DeviceAttribute::shared_bytes_per_block_optin:
      *value = 232448;
      break;
    case DeviceAttribute::memory_clock_khz:
      *value = 3201000;
      break;
    case DeviceAttribute::memory_bus_bits:
      *value = 6144;
      break;
    case DeviceAttribute::pci_bus:
      *value = 0x1b;
      break;
    case DeviceAttribute::clock_khz:
      return Code::invalid_value;  // as a driver that no longer tells it
    default:
      *value = static_cast<int>(attribute);
  }
  return Code::success;
}

EXPORT Code cuDevicePrimaryCtxRetain(void** context, int device) {
  ++state.retained;
  *context = reinterpret_cast<void*>(static_cast<std::intptr_t>(device * 1000));
  return state.retain;
}
EXPORT Code cuDevicePrimaryCtxRelease_v2(int) {
  --state.retained;
  return Code::success;
}
EXPORT Code cuCtxGetCurrent(void** context) {
  *context = state.depth == 0 ? nullptr : state.stack[state.depth - 1];
  return Code::success;
}
EXPORT Code cuCtxPushCurrent_v2(void* context) {
  ++state.pushes;
  state.stack[state.depth++] = context;
  return Code::success;
}
EXPORT Code cuCtxPopCurrent_v2(void** context) {
  *context = state.stack[--state.depth];
  return Code::success;
}
EXPORT Code cuCtxSynchronize() {
  return state.synchronize;
}
EXPORT Code cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *free = std::size_t{3} << 20;
  *total = std::size_t{8} << 20;
  return Code::success;
}

EXPORT Code cuModuleLoadData(void** module, const void*) {
  state.mode_at_load = state.mode;
  return give(module);
}
EXPORT Code cuModuleUnload(void*) {
  return Code::success;
}
EXPORT Code cuModuleGetFunction(void** function, void*, const char* name) {
  if (std::strcmp(name, "k") != 0) return Code::not_found;
  return give(function);
}
EXPORT Code cuFuncGetAttribute(int* value, tilesmith::cu::FunctionAttribute attribute, void*) {
  *value = 10 + static_cast<int>(attribute);
  return Code::success;
}
EXPORT Code cuFuncSetAttribute(void*, tilesmith::cu::FunctionAttribute attribute, int value) {
  if (attribute == tilesmith::cu::FunctionAttribute::dynamic_shared_bytes) state.dynamic_shared_bytes = value;
  return Code::success;
}
EXPORT Code cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int threads, std::size_t bytes) {
  *blocks = bytes > 100'000 ? 1 : 2048 / threads;
  return Code::success;
}
EXPORT Code cuOccupancyMaxActiveClusters(int* clusters, void*, const LaunchConfig* config) {
  *clusters = static_cast<int>(config->attributes[0].value.cluster.x);
  return Code::success;
}
EXPORT Code cuLaunchKernelEx(const LaunchConfig* config, void*, void** parameters, void** extra) {
  state.config = *config;
  state.attributes[0] = config->attributes[0];
  state.attributes[1] = config->attributes[1];
  state.extra = extra;
  state.first_parameter = parameters != nullptr && parameters[0] != nullptr ? *static_cast<int*>(parameters[0]) : 0;
  ++state.launches;
  return state.launch;
}

EXPORT Code cuMemAlloc_v2(std::uint64_t* pointer, std::size_t bytes) {
  if (bytes > std::size_t{3} << 20) return Code::out_of_memory;
  ++state.allocations;
  state.allocated_bytes += bytes;
  *pointer = reinterpret_cast<std::uint64_t>(std::malloc(bytes));
  return Code::success;
}
EXPORT Code cuMemFree_v2(std::uint64_t pointer) {
  --state.allocations;
  state.mode_at_free = state.mode;
  state.context_at_free = state.depth == 0 ? nullptr : state.stack[state.depth - 1];
  std::free(reinterpret_cast<void*>(pointer));
  return Code::success;
}
EXPORT Code cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  ++state.allocations;
  *pointer = std::malloc(bytes);
  return Code::success;
}
EXPORT Code cuMemFreeHost(void* pointer) {
  --state.allocations;
  std::free(pointer);
  return Code::success;
}
EXPORT Code cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes, void*) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return state.copy;
}
EXPORT Code cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes, void*) {
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return state.copy;
}
EXPORT Code cuMemcpyDtoDAsync_v2(std::uint64_t to, std::uint64_t from, std::size_t bytes, void*) {
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return state.copy;
}
EXPORT Code cuMemcpyAsync(std::uint64_t to, std::uint64_t from, std::size_t bytes, void*) {
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return state.copy;
}
EXPORT Code cuMemsetD8Async(std::uint64_t to, unsigned char value, std::size_t count, void*) {
  std::memset(reinterpret_cast<void*>(to), value, count);
  return Code::success;
}
EXPORT Code cuMemsetD32Async(std::uint64_t to, unsigned value, std::size_t count, void*) {
  for (std::size_t i = 0; i < count; ++i) reinterpret_cast<unsigned*>(to)[i] = value;
  return Code::success;
}

EXPORT Code cuStreamCreate(void** stream, unsigned flags) {
  state.stream_flags = flags;
  ++state.objects;
  return give(stream);
}
EXPORT Code cuStreamDestroy_v2(void*) {
  --state.objects;
  return Code::success;
}
EXPORT Code cuStreamSynchronize(void*) {
  return state.synchronize;
}
EXPORT Code cuStreamWaitEvent(void*, void*, unsigned) {
  return Code::success;
}
EXPORT Code cuStreamBeginCapture_v2(void*, int) {
  state.capturing = true;
  ++state.captures;
  return give(&state.captured_graph);
}
EXPORT Code cuStreamEndCapture(void*, void** graph) {
  state.capturing = false;
  ++state.objects;
  *graph = state.captured_graph;
  return Code::success;
}
EXPORT Code cuStreamGetCaptureInfo_v2(void*, int* status, std::uint64_t* identity, void** graph, const void**,
                                      std::size_t*) {
  *status = state.capturing ? 1 : 0;
  *identity = state.captures;
  *graph = state.captured_graph;
  return Code::success;
}
EXPORT Code cuUserObjectCreate(void** object, void* data, void (*destroy)(void*), unsigned, unsigned) {
  give(object);
  user_objects[*object] = UserObject(data, destroy);
  return Code::success;
}
EXPORT Code cuUserObjectRelease(void* object, unsigned) {
  user_objects.erase(object);
  return Code::success;
}
EXPORT Code cuGraphRetainUserObject(void* graph, void* object, unsigned, unsigned) {
  held[graph].push_back(user_objects[object]);
  user_objects.erase(object);  // moved
  return Code::success;
}
EXPORT Code cuStreamGetId(void* stream, std::uint64_t* identity) {
  if (state.capturing) return Code::capture_unsupported;
  *identity = reinterpret_cast<std::uintptr_t>(stream);
  return Code::success;
}
EXPORT Code cuStreamIsCapturing(void*, int* status) {
  *status = state.capturing ? 1 : 0;
  return Code::success;
}
EXPORT Code cuThreadExchangeStreamCaptureMode(int* mode) {
  const int before = state.mode;
  state.mode = *mode;
  *mode = before;
  return Code::success;
}
EXPORT Code cuEventCreate(void** event, unsigned flags) {
  state.event_flags = flags;
  ++state.objects;
  return give(event);
}
EXPORT Code cuEventDestroy_v2(void*) {
  --state.objects;
  return Code::success;
}
EXPORT Code cuEventRecord(void*, void*) {
  return Code::success;
}
EXPORT Code cuEventQuery(void*) {
  return state.event;
}
EXPORT Code cuEventSynchronize(void*) {
  return Code::success;
}
EXPORT Code cuEventElapsedTime(float* milliseconds, void*, void*) {
  *milliseconds = 2.5F;
  return Code::success;
}
EXPORT Code cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
  ++state.objects;
  give(exec);
  held[*exec] = held[graph];
  return Code::success;
}
EXPORT Code cuGraphDestroy(void* graph) {
  held.erase(graph);
  --state.objects;
  return Code::success;
}
EXPORT Code cuGraphExecDestroy(void* exec) {
  held.erase(exec);
  --state.objects;
  return Code::success;
}
EXPORT Code cuGraphLaunch(void*, void*) {
  ++state.launches;
  return Code::success;
}
EXPORT Code cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* address, const std::uint64_t* extents,
                                   const std::uint64_t* strides, const std::uint32_t* box, const std::uint32_t* steps,
                                   int interleave, int swizzle, int promotion, int fill) {
  state.map = {type, static_cast<int>(rank), interleave, swizzle, promotion, fill};
  for (unsigned i = 0; i < rank; ++i) {
    state.extents[i] = extents[i];
    state.box[i] = box[i];
    state.steps[i] = steps[i];
    if (i + 1 < rank) state.strides[i] = strides[i];
  }
  std::memcpy(map, &address, sizeof address);
  state.context_at_encode = state.depth == 0 ? nullptr : state.stack[state.depth - 1];
  return state.encode;
}
EXPORT Code cuTensorMapEncodeIm2col(void* map, int type, unsigned rank, void* address, const std::uint64_t* extents,
                                    const std::uint64_t* strides, const int* lower, const int* upper, unsigned channels,
                                    unsigned pixels, const std::uint32_t* steps, int interleave, int swizzle,
                                    int promotion, int fill) {
  state.map = {type, static_cast<int>(rank), interleave, swizzle, promotion, fill};
  for (unsigned i = 0; i < rank; ++i) {
    state.extents[i] = extents[i];
    state.steps[i] = steps[i];
    if (i + 1 < rank) state.strides[i] = strides[i];
    if (i + 2 >= rank) continue;
    state.lower[i] = lower[i];
    state.upper[i] = upper[i];
  }
  state.box[0] = channels;
  state.box[1] = pixels;
  std::memcpy(map, &address, sizeof address);
  return state.encode;
}
#ifndef FAKE_LIBCUDA_INCOMPLETE
EXPORT Code cuTensorMapReplaceAddress(void* map, void* address) {
  std::memcpy(map, &address, sizeof address);
  return Code::success;
}
#endif
