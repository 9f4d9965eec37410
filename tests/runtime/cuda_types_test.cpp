// Our declarations of the driver's types against the vendor's, where its header is installed.
#include <gtest/gtest.h>

#ifdef TILESMITH_HAS_CUDA_H
#include <cuda.h>

#include <cstddef>

#include "runtime/cuda/driver.hpp"
#include "runtime/cuda/tensor_map.hpp"

namespace tilesmith {
namespace {

template <class Ours, class Theirs>
void expect_same(Ours ours, Theirs theirs, const char* name) {
  EXPECT_EQ(static_cast<int>(ours), static_cast<int>(theirs)) << name;
}
#define SAME(ours, theirs) expect_same(ours, theirs, #theirs)

TEST(CudaTypes, AreTheDrivers) {
  SAME(cu::Code::out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
  SAME(cu::Code::not_initialized, CUDA_ERROR_NOT_INITIALIZED);
  SAME(cu::Code::stub_library, CUDA_ERROR_STUB_LIBRARY);
  SAME(cu::Code::newer_driver_needed, CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER);
  SAME(cu::Code::device_unavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
  SAME(cu::Code::no_device, CUDA_ERROR_NO_DEVICE);
  SAME(cu::Code::invalid_device, CUDA_ERROR_INVALID_DEVICE);
  SAME(cu::Code::invalid_image, CUDA_ERROR_INVALID_IMAGE);
  SAME(cu::Code::invalid_context, CUDA_ERROR_INVALID_CONTEXT);
  SAME(cu::Code::no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
  SAME(cu::Code::uncorrectable_ecc, CUDA_ERROR_ECC_UNCORRECTABLE);
  SAME(cu::Code::invalid_ptx, CUDA_ERROR_INVALID_PTX);
  SAME(cu::Code::unsupported_ptx_version, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  SAME(cu::Code::invalid_source, CUDA_ERROR_INVALID_SOURCE);
  SAME(cu::Code::symbol_not_found, CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND);
  SAME(cu::Code::shared_object_failed, CUDA_ERROR_SHARED_OBJECT_INIT_FAILED);
  SAME(cu::Code::operating_system, CUDA_ERROR_OPERATING_SYSTEM);
  SAME(cu::Code::invalid_handle, CUDA_ERROR_INVALID_HANDLE);
  SAME(cu::Code::not_found, CUDA_ERROR_NOT_FOUND);
  SAME(cu::Code::not_ready, CUDA_ERROR_NOT_READY);
  SAME(cu::Code::illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS);
  SAME(cu::Code::launch_out_of_resources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  SAME(cu::Code::launch_timeout, CUDA_ERROR_LAUNCH_TIMEOUT);
  SAME(cu::Code::context_is_destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  SAME(cu::Code::tensor_memory_leak, 721);
  SAME(cu::Code::not_permitted, CUDA_ERROR_NOT_PERMITTED);
  SAME(cu::Code::not_supported, CUDA_ERROR_NOT_SUPPORTED);
  SAME(cu::Code::system_not_ready, CUDA_ERROR_SYSTEM_NOT_READY);
  SAME(cu::Code::system_driver_mismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
  SAME(cu::Code::compat_not_supported, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
  SAME(cu::Code::capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  SAME(cu::Code::captured_event, CUDA_ERROR_CAPTURED_EVENT);
  SAME(cu::Code::capture_wrong_thread, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  SAME(cu::Code::timeout, CUDA_ERROR_TIMEOUT);
  SAME(cu::Code::invalid_cluster_size, CUDA_ERROR_INVALID_CLUSTER_SIZE);
  SAME(cu::Code::function_not_loaded, CUDA_ERROR_FUNCTION_NOT_LOADED);

  SAME(cu::DeviceAttribute::shared_bytes_per_block, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  SAME(cu::DeviceAttribute::warp_size, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  SAME(cu::DeviceAttribute::registers_per_block, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  SAME(cu::DeviceAttribute::clock_khz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  SAME(cu::DeviceAttribute::sm_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  SAME(cu::DeviceAttribute::pci_bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  SAME(cu::DeviceAttribute::pci_device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
  SAME(cu::DeviceAttribute::memory_clock_khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
  SAME(cu::DeviceAttribute::memory_bus_bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
  SAME(cu::DeviceAttribute::l2_bytes, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  SAME(cu::DeviceAttribute::threads_per_sm, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  SAME(cu::DeviceAttribute::pci_domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
  SAME(cu::DeviceAttribute::compute_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  SAME(cu::DeviceAttribute::compute_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  SAME(cu::DeviceAttribute::shared_bytes_per_sm, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  SAME(cu::DeviceAttribute::registers_per_sm, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  SAME(cu::DeviceAttribute::shared_bytes_per_block_optin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  SAME(cu::DeviceAttribute::blocks_per_sm, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  SAME(cu::DeviceAttribute::reserved_shared_bytes_per_block, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  SAME(cu::DeviceAttribute::cluster_launch, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);

  SAME(cu::FunctionAttribute::threads_per_block, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  SAME(cu::FunctionAttribute::shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  SAME(cu::FunctionAttribute::constant_bytes, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
  SAME(cu::FunctionAttribute::local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  SAME(cu::FunctionAttribute::registers, CU_FUNC_ATTRIBUTE_NUM_REGS);
  SAME(cu::FunctionAttribute::dynamic_shared_bytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  SAME(cu::FunctionAttribute::shared_memory_share, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  SAME(cu::FunctionAttribute::non_portable_cluster, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);

  SAME(cu::LaunchAttributeId::cluster_dimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  SAME(cu::LaunchAttributeId::programmatic_stream_serialization, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  SAME(sizeof(cu::LaunchAttribute), sizeof(CUlaunchAttribute));
  SAME(offsetof(cu::LaunchAttribute, value), offsetof(CUlaunchAttribute, value));
  SAME(sizeof(cu::LaunchConfig), sizeof(CUlaunchConfig));
  SAME(offsetof(cu::LaunchConfig, shared_bytes), offsetof(CUlaunchConfig, sharedMemBytes));
  SAME(offsetof(cu::LaunchConfig, stream), offsetof(CUlaunchConfig, hStream));
  SAME(offsetof(cu::LaunchConfig, attributes), offsetof(CUlaunchConfig, attrs));
  SAME(offsetof(cu::LaunchConfig, attribute_count), offsetof(CUlaunchConfig, numAttrs));
  SAME(sizeof(cu::Uuid), sizeof(CUuuid));
  SAME(sizeof(TsCudaTensorMap), sizeof(CUtensorMap));
  SAME(alignof(TsCudaTensorMap), 64);

  SAME(cu::CaptureMode::thread_local_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  SAME(cu::CaptureMode::relaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
  SAME(cu::CaptureStatus::active, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  SAME(cu::kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
  SAME(cu::kEventDisableTiming, CU_EVENT_DISABLE_TIMING);

  SAME(TensorMapElement::f16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
  SAME(TensorMapElement::bf16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
  SAME(TensorMapElement::tf32_ftz, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ);
  SAME(TensorMapSwizzle::b128, CU_TENSOR_MAP_SWIZZLE_128B);
  SAME(TensorMapPromotion::b256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
  SAME(TensorMapFill::nan, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
}

}  // namespace
}  // namespace tilesmith

#else

TEST(CudaTypes, AreTheDrivers) {
  GTEST_SKIP() << "cuda.h is not installed";
}

#endif
