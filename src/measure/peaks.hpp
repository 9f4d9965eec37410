// Peaks: the rates that this machine reaches at most. The roofline that results are held against.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/error.hpp"
#include "runtime/cpu/machine.hpp"
#include "spec/cuda/spec.hpp"
#include "spec/hip/spec.hpp"
#include "tilesmith/types.hpp"

namespace tilesmith {

struct Peaks {
  bool measured = true;    ///< on this machine; else the figures are the chip's data sheet
  int threads = 1;         ///< of the CPU; 0 on a device
  double fp32_gflops = 0;  ///< fp32 fused multiply-adds, operands in registers; 0: unknown
  double tf32_gflops = 0;  ///< this and the next four: the type's fastest product instruction; 0: there is none
  double bf16_gflops = 0;
  double fp16_gflops = 0;
  double fp8_gflops = 0;
  double int8_gops = 0;
  double read_gbps = 0;  ///< reading memory that is in no cache

  /// The one list of the members. JSON is made from it.
  template <class Self, class Visitor>
  static constexpr void fields(Self& self, Visitor&& visit) {
    visit("measured", self.measured);
    visit("threads", self.threads);
    visit("fp32_gflops", self.fp32_gflops);
    visit("tf32_gflops", self.tf32_gflops);
    visit("bf16_gflops", self.bf16_gflops);
    visit("fp16_gflops", self.fp16_gflops);
    visit("fp8_gflops", self.fp8_gflops);
    visit("int8_gops", self.int8_gops);
    visit("read_gbps", self.read_gbps);
  }

  friend bool operator==(const Peaks&, const Peaks&) = default;

  /// The least seconds a problem of these operations and bytes can take on inputs of this type; 0 when the rate of its
  /// products is unknown.
  [[nodiscard]] double least_seconds(DataType type, double flops, double bytes) const;
};

/// The figures of the spec's chip, from its data sheet.
[[nodiscard]] Peaks cuda_peaks(const CudaSpec& spec);
[[nodiscard]] Peaks hip_peaks(const HipSpec& spec);

/// A loop of the fastest product instruction for inputs of one type. Its chains do not depend on each other. Operands
/// are in registers; those of AMX are random data in L1, because zeros run at a higher clock. A call takes less than a
/// millisecond.
struct ProductLoop {
  double operations = 0;  ///< of one call; 0: the machine has no such instruction
  void (*run)() = nullptr;
};

/// `inputs` is fp32, bf16 or int8.
[[nodiscard]] ProductLoop product_loop(const CpuMachine& machine, DataType inputs);

/// Takes about a second. Errors: unsupported, when the machine has no level that Tilesmith knows.
[[nodiscard]] Result<Peaks> measure_peaks(int threads);

/// An object with every figure by name.
[[nodiscard]] nlohmann::json to_json(const Peaks& peaks);
/// The inverse. Error: parse, for JSON that lacks a figure or has one of another type.
[[nodiscard]] Result<Peaks> peaks_from_json(const nlohmann::json& json);

}  // namespace tilesmith
