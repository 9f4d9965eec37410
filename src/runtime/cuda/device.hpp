// The CUDA devices of this machine, as their driver describes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "runtime/cuda/driver.hpp"

namespace tilesmith {

struct CudaDeviceInfo {
  int index = 0;        ///< among the devices this process may see (CUDA_VISIBLE_DEVICES)
  std::string name;     ///< "NVIDIA H200"
  std::string uuid;     ///< "GPU-8e7c...", as nvidia-smi prints it
  std::string pci_bus;  ///< "0000:1b:00.0"
  int compute_major = 0;
  int compute_minor = 0;
  int sm_count = 0;
  int warp_size = 0;
  int threads_per_sm = 0;
  int blocks_per_sm = 0;
  int shared_bytes_per_block = 0;    ///< the most a block can have, after asking for it (opt-in)
  int shared_bytes_per_sm = 0;       ///< for all blocks of an SM together
  int reserved_bytes_per_block = 0;  ///< of these, what the system keeps for itself for each block
  int registers_per_block = 0;       ///< 32 bits each
  int registers_per_sm = 0;
  std::int64_t l2_bytes = 0;
  std::uint64_t memory_bytes = 0;
  int clock_khz = 0;                   ///< the highest clock of the SMs; 0 where the driver does not say
  double memory_bytes_per_second = 0;  ///< peak: two transfers a memory clock over the bus; 0 where unknown
  bool clusters = false;               ///< blocks can be launched in clusters
  int driver_version = 0;              ///< of the driver's interface: 13000 is CUDA 13.0

  /// The most specific architecture kernels can be compiled for: "sm_90a" (with the architecture's own instructions,
  /// which exist from 9.0 on), "sm_86".
  [[nodiscard]] std::string arch() const;
};

/// Every device this process may see, in the driver's order. Never empty: no device is an `unsupported` error.
[[nodiscard]] Result<std::vector<CudaDeviceInfo>> cuda_devices(const CudaDriver& driver);
/// Of the process's driver; asked once, the answer is kept.
[[nodiscard]] const Result<std::vector<CudaDeviceInfo>>& cuda_devices();

}  // namespace tilesmith
