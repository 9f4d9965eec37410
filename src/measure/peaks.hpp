// What this machine can do at most, measured: the roofline that results are held against.
#pragma once

#include "base/error.hpp"
#include "runtime/cpu/machine.hpp"
#include "spec/cuda/spec.hpp"
#include "tilesmith/types.hpp"

namespace tilesmith {

struct Peaks {
  bool measured = true;    ///< else the chip's data sheet says so
  int threads = 1;         ///< the CPU's; 0 on a device
  double fp32_gflops = 0;  ///< fp32 fused multiply-adds, operands in registers; 0: unknown
  double tf32_gflops = 0;  ///< this and the following are of the type's fastest product instruction; 0: there is none
  double bf16_gflops = 0;
  double fp16_gflops = 0;
  double fp8_gflops = 0;
  double int8_gops = 0;
  double read_gbps = 0;  ///< reading memory that is in no cache

  /// The least seconds a problem of these operations and bytes can take on inputs of this type; 0 when the rate of its
  /// products is unknown.
  [[nodiscard]] double least_seconds(DataType type, double flops, double bytes) const;
};

/// The data sheet of the chip that stands for an architecture, or whose figures the spec was given.
[[nodiscard]] Peaks cuda_ceilings(const CudaSpec& spec);

/// A loop of the fastest product instruction for inputs of one type: independent chains, operands in registers (of AMX
/// in L1, random data, because zeros run at a higher clock). A call takes less than a millisecond.
struct ProductLoop {
  double operations = 0;  ///< of one call; 0: the machine has no such instruction
  void (*run)() = nullptr;
};

/// `inputs` is fp32, bf16 or int8.
[[nodiscard]] ProductLoop product_loop(const CpuMachine& machine, DataType inputs);

/// Takes about a second. Errors: unsupported, when the machine has no level that Tilesmith knows.
[[nodiscard]] Result<Peaks> measure_ceilings(int threads);

}  // namespace tilesmith
