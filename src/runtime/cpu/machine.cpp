#include "runtime/cpu/machine.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/env.hpp"
#include "base/lasting.hpp"
#include "runtime/cpu/quota.hpp"

namespace tilesmith {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

/// "48K" -> 49152.
long cache_bytes(const std::string& text) {
  long number = 0;
  char unit = ' ';
  std::istringstream in(text);
  if (!(in >> number)) return 0;
  in >> unit;
  return unit == 'K' ? number << 10 : unit == 'M' ? number << 20 : number;
}

void read_caches(CpuMachine& machine) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    const std::string level = first_line(folder + "level");
    if (level.empty()) break;
    const long bytes = cache_bytes(first_line(folder + "size"));
    if (level == "1" && first_line(folder + "type") == "Data") machine.l1d_bytes = bytes;
    if (level == "2") machine.l2_bytes = bytes;
    if (level == "3") machine.l3_bytes = bytes;
  }
}

void read_cpuinfo(CpuMachine& machine) {
  std::ifstream in("/proc/cpuinfo");
  std::string vendor, family;
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string value = colon + 2 <= line.size() ? line.substr(colon + 2) : std::string();
    if (line.starts_with("model name") && machine.model.empty()) machine.model = value;
    if (line.starts_with("vendor_id")) vendor = value;
    if (line.starts_with("cpu family")) family = value;
    if (line.starts_with("flags") && machine.features.empty()) {
      std::istringstream words(value);
      for (std::string word; words >> word;) machine.features.push_back(word);
    }
  }
  machine.family = fmt::format("{} {}", vendor, family);
}

/// AMX state is large, so Linux hands it out on request: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA), once per
/// process (Documentation/arch/x86/xstate.rst).
bool request_amx() {
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

std::vector<std::string> missing_features(const CpuSpec& spec, const std::vector<std::string>& features) {
  std::vector<std::string> missing;
  for (const std::string& feature : spec.features)
    if (std::ranges::find(features, feature) == features.end()) missing.push_back(feature);
  return missing;
}

std::vector<std::string> cpu_features() {
  CpuMachine machine;
  read_cpuinfo(machine);
  return machine.features;
}

Result<CpuMachine> detect_cpu_machine() {
  CpuMachine machine;
  read_cpuinfo(machine);
  if (machine.features.empty())
    return fail(ErrorCode::unsupported, "/proc/cpuinfo does not say what this CPU can do",
                "/proc mounted, on an x86-64 processor");
  read_caches(machine);
  machine.threads = usable_processors();
  if (const int quota = quota_processors(); quota > 0) machine.threads = std::min(machine.threads, quota);

  const auto amx = [](const std::string& feature) { return feature.starts_with("amx_"); };
  if (std::ranges::any_of(machine.features, amx) && !request_amx()) std::erase_if(machine.features, amx);

  TS_ASSIGN(const std::vector<CpuSpec> specs, load_cpu_specs());
  for (const CpuSpec& spec : specs)
    if (missing_features(spec, machine.features).empty())
      machine.levels.insert(machine.levels.begin(), on_chip(spec, machine.family));
  if (machine.levels.empty())
    return fail(
        ErrorCode::unsupported,
        fmt::format("the CPU \"{}\" has no level that Tilesmith knows: {} lacks {}", machine.model,
                    specs.empty() ? "-" : specs.front().arch.text(),
                    specs.empty()
                        ? std::string()
                        : fmt::format("{}", fmt::join(missing_features(specs.front(), machine.features), ", "))),
        "an x86-64 processor with AVX2 and FMA");
  for (CpuSpec& spec : machine.levels) {
    // A machine has one clock, whichever level's kernels it runs: its highest level is the nearest to it.
    spec.clock_hz = machine.levels.front().clock_hz;
    spec.memory_bytes_per_cycle = machine.levels.front().memory_bytes_per_cycle;
    if (machine.l1d_bytes > 0) spec.l1d_bytes = machine.l1d_bytes;
    if (machine.l2_bytes > 0) spec.l2_bytes = machine.l2_bytes;
  }
  return machine;
}

const Result<CpuMachine>& this_cpu_machine() {
  static const Result<CpuMachine>& machine = lasting(detect_cpu_machine());
  return machine;
}

}  // namespace tilesmith
