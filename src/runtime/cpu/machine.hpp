// The CPU at hand: which architecture level it is, what it lacks, and its cache sizes.
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "spec/cpu/facts.hpp"

namespace tilesmith {

/// `threads`: processors this process may use, by affinity mask and cgroup quota.
struct CpuMachine : CpuFacts {
  std::string model;                  ///< as the kernel names it
  std::string family;                 ///< vendor and number: "AuthenticAMD 25"
  std::vector<std::string> features;  ///< as in /proc/cpuinfo: what both the chip and the operating system offer
  long l1d_bytes = 0;                 ///< per core; 0 when the machine does not say
  long l2_bytes = 0;
  long l3_bytes = 0;  ///< of the whole cache; on virtual machines often the host's
};

/// The features among `spec.features` that `features` lacks.
[[nodiscard]] std::vector<std::string> missing_features(const CpuSpec& spec, const std::vector<std::string>& features);

/// As in /proc/cpuinfo, of a machine that no level fits too; none where /proc is absent.
[[nodiscard]] std::vector<std::string> cpu_features();

/// Detects this machine; the error says that no level fits and what is missing. AMX counts only when the operating
/// system grants its use.
[[nodiscard]] Result<CpuMachine> detect_cpu_machine();

/// The machine, detected once per process.
[[nodiscard]] const Result<CpuMachine>& this_cpu_machine();

}  // namespace tilesmith
