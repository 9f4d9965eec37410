// A HIP runtime without a device: the functions Tilesmith loads, with scripted answers and a journal of what was asked.
// Device memory is the host's, so that copies are real; a kernel is a function of the host that the test names.
#include "runtime/fake_libamdhip64.hpp"

#include <cstdlib>
#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using tilesmith::hip::CaptureMode;
using tilesmith::hip::CaptureStatus;
using tilesmith::hip::Code;
using tilesmith::hip::DeviceAttribute;
using tilesmith::testing::FakeLibamdhip64;
using tilesmith::testing::kFakeHipDevices;
using Launches = std::vector<FakeLibamdhip64::Launch>;

FakeLibamdhip64 state;
Launches captured;

template <class Handle>
Code give(Handle* handle) {
  ++state.objects;
  *handle = new char;
  return Code::success;
}
Code take(void* handle) {
  --state.objects;
  delete static_cast<char*>(handle);
  return Code::success;
}

void run(const FakeLibamdhip64::Launch& launch) {
  if (launch.kernel.run) launch.kernel.run(launch.arguments.data(), static_cast<int>(launch.blocks));
}

}  // namespace

EXPORT FakeLibamdhip64* fake_libamdhip64() {
  return &state;
}

EXPORT Code hipRuntimeGetVersion(int* version) {
  *version = state.version;
  return Code::success;
}
EXPORT Code hipInit(unsigned) {
  return state.init;
}
EXPORT const char* hipGetErrorName(Code code) {
  return code == Code::out_of_memory ? "hipErrorOutOfMemory" : code == Code::unknown ? nullptr : "hipErrorOfTheFake";
}
EXPORT const char* hipGetErrorString(Code code) {
  return code == Code::unknown ? nullptr : "words of the library";
}
EXPORT Code hipGetDeviceCount(int* count) {
  *count = state.devices;
  return Code::success;
}
EXPORT Code hipGetDevice(int* index) {
  *index = state.current;
  return Code::success;
}
EXPORT Code hipSetDevice(int index) {
  if (state.set_device == Code::success) state.current = index;
  return state.set_device;
}
EXPORT Code hipGetDevicePropertiesR0600(void* properties, int index) {
  // The name comes first, and must not be taken for the processor.
  auto* bytes = static_cast<char*>(properties);
  std::strcpy(bytes, "a gfx card");
  std::strcpy(bytes + 1160, index == 0 ? state.processor.c_str() : kFakeHipDevices[index].processor);
  return Code::success;
}
EXPORT Code hipDeviceGetName(char* name, int length, int index) {
  std::strncpy(name, kFakeHipDevices[index].name, static_cast<std::size_t>(length));
  return Code::success;
}
EXPORT Code hipDeviceTotalMem(std::size_t* bytes, int) {
  *bytes = std::size_t{192} << 30;
  return Code::success;
}
EXPORT Code hipDeviceGetAttribute(int* value, DeviceAttribute attribute, int index) {
  switch (attribute) {
    case DeviceAttribute::compute_units:
      *value = kFakeHipDevices[index].compute_units;
      break;
    case DeviceAttribute::lanes_per_wave:
      *value = kFakeHipDevices[index].lanes_per_wave;
      break;
    case DeviceAttribute::lds_bytes_per_block:
      *value = 65536;
      break;
    case DeviceAttribute::pci_bus:
      *value = 0x1b;
      break;
    default:
      *value = 0;
      break;
  }
  return Code::success;
}
EXPORT Code hipDeviceSynchronize() {
  return state.synchronize;
}
EXPORT Code hipMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = 1000;
  *total = 2000;
  return Code::success;
}
EXPORT Code hipModuleLoadData(void** module, const void*) {
  state.mode_at_load = state.mode;
  *module = &state;
  return state.load;
}
EXPORT Code hipModuleGetFunction(void** function, void*, const char* name) {
  const auto found = state.kernels.find(name);
  if (found == state.kernels.end()) return Code::not_found;
  *function = &found->second;
  return Code::success;
}
EXPORT Code hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int threads, std::size_t) {
  *blocks = 1024 / threads;
  return Code::success;
}
EXPORT Code hipModuleLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                                  unsigned block_y, unsigned block_z, unsigned dynamic_lds_bytes,
                                  tilesmith::hip::Stream stream, void** parameters, void**) {
  if (state.launch != Code::success) return state.launch;
  if (grid_y * grid_z * block_y * block_z != 1) return Code::invalid_value;
  const auto& kernel = *static_cast<FakeLibamdhip64::Kernel*>(function);
  const auto* from = static_cast<const std::byte*>(parameters[0]);
  state.launches.push_back({kernel, {from, from + kernel.argument_bytes}, grid_x, block_x, dynamic_lds_bytes, stream});
  if (state.capturing)
    captured.push_back(state.launches.back());
  else
    run(state.launches.back());
  return Code::success;
}
EXPORT Code hipMalloc(void** pointer, std::size_t bytes) {
  if (state.malloc != Code::success) return state.malloc;
  *pointer = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*pointer, 0xff, bytes);  // what nobody wrote is NaN
  state.allocations[*pointer] = bytes;
  return Code::success;
}
EXPORT Code hipFree(void* pointer) {
  state.allocations.erase(pointer);
  state.device_at_free = state.current;
  std::free(pointer);
  return Code::success;
}
EXPORT Code hipHostMalloc(void** pointer, std::size_t bytes, unsigned) {
  return hipMalloc(pointer, bytes);
}
EXPORT Code hipHostFree(void* pointer) {
  return hipFree(pointer);
}
EXPORT Code hipMemcpyHtoDAsync(void* to, const void* from, std::size_t bytes, void*) {
  std::memcpy(to, from, bytes);
  return state.copy;
}
#ifndef FAKE_LIBAMDHIP64_INCOMPLETE
EXPORT Code hipMemcpyDtoHAsync(void* to, void* from, std::size_t bytes, void*) {
  std::memcpy(to, from, bytes);
  return state.copy;
}
#endif
EXPORT Code hipMemcpyDtoDAsync(void* to, void* from, std::size_t bytes, void*) {
  std::memcpy(to, from, bytes);
  return state.copy;
}
EXPORT Code hipMemcpyAsync(void* to, const void* from, std::size_t bytes, tilesmith::hip::CopyKind kind, void*) {
  if (kind != tilesmith::hip::CopyKind::by_address) return Code::invalid_value;
  std::memcpy(to, from, bytes);
  return state.copy;
}
EXPORT Code hipMemsetD8Async(void* to, unsigned char value, std::size_t count, void*) {
  std::memset(to, value, count);
  return state.copy;
}
EXPORT Code hipMemsetD32Async(void* to, int value, std::size_t count, void*) {
  for (std::size_t i = 0; i < count; ++i) static_cast<int*>(to)[i] = value;
  return state.copy;
}
EXPORT Code hipStreamCreateWithFlags(void** stream, unsigned) {
  return give(stream);
}
EXPORT Code hipStreamDestroy(void* stream) {
  return take(stream);
}
EXPORT Code hipStreamSynchronize(void*) {
  return state.synchronize;
}
EXPORT Code hipStreamWaitEvent(void*, void*, unsigned) {
  return state.event;
}
EXPORT Code hipStreamBeginCapture(void*, CaptureMode) {
  state.capturing = true;
  captured.clear();
  return Code::success;
}
EXPORT Code hipStreamEndCapture(void*, void** graph) {
  state.capturing = false;
  ++state.objects;
  *graph = new Launches(captured);
  return Code::success;
}
EXPORT Code hipStreamIsCapturing(void*, CaptureStatus* status) {
  *status = state.capturing ? CaptureStatus::active : CaptureStatus::none;
  return Code::success;
}
EXPORT Code hipThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  const auto before = static_cast<CaptureMode>(state.mode);
  state.mode = static_cast<int>(*mode);
  *mode = before;
  return Code::success;
}
EXPORT Code hipEventCreateWithFlags(void** event, unsigned) {
  return state.event == Code::success ? give(event) : state.event;
}
EXPORT Code hipEventDestroy(void* event) {
  return take(event);
}
EXPORT Code hipEventRecord(void*, void*) {
  return state.event;
}
EXPORT Code hipEventQuery(void*) {
  return state.event;
}
EXPORT Code hipEventSynchronize(void*) {
  return state.event;
}
EXPORT Code hipEventElapsedTime(float* milliseconds, void*, void*) {
  *milliseconds = 2.5F;
  return state.event;
}
EXPORT Code hipGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
  if (state.instantiate != Code::success) return state.instantiate;
  ++state.objects;
  *exec = new Launches(*static_cast<Launches*>(graph));
  return Code::success;
}
EXPORT Code hipGraphDestroy(void* graph) {
  --state.objects;
  delete static_cast<Launches*>(graph);
  return Code::success;
}
EXPORT Code hipGraphExecDestroy(void* exec) {
  return hipGraphDestroy(exec);
}
EXPORT Code hipGraphLaunch(void* exec, void*) {
  for (const FakeLibamdhip64::Launch& launch : *static_cast<Launches*>(exec)) run(launch);
  return state.launch;
}
