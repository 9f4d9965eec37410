#include "runtime/cpu/quota.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace tilesmith {
namespace {

constexpr int kNoQuota = std::numeric_limits<int>::max();

int processors(long quota, long period) {
  if (quota <= 0 || period <= 0) return kNoQuota;
  return static_cast<int>(std::min<long>(quota / period + (quota % period != 0), kNoQuota));
}

/// Version 2 keeps both numbers in one file ("200000 100000" is two processors, "max" none), version 1 in one each.
/// (Documentation/admin-guide/cgroup-v2.rst, Documentation/scheduler/sched-bwc.rst)
int processors_of_group(const std::filesystem::path& group) {
  long quota = 0, period = 0;
  if (std::ifstream(group / "cpu.max") >> quota >> period) return processors(quota, period);
  if (std::ifstream(group / "cpu.cfs_quota_us") >> quota && std::ifstream(group / "cpu.cfs_period_us") >> period)
    return processors(quota, period);
  return kNoQuota;
}

/// The group `path` and all above it. A container sees its own group as the root, and may be told a path that is not
/// there.
int processors_up_to_root(const std::filesystem::path& root, std::filesystem::path path) {
  int least = processors_of_group(root);
  for (path = path.relative_path(); path.has_relative_path(); path = path.parent_path())
    least = std::min(least, processors_of_group(root / path));
  return least;
}

bool names_cpu(std::string_view controllers) {
  std::istringstream in{std::string(controllers)};
  for (std::string controller; std::getline(in, controller, ',');)
    if (controller == "cpu") return true;
  return false;
}

}  // namespace

int quota_processors(const std::filesystem::path& mount, std::string_view membership) {
  int least = processors_of_group(mount);
  std::istringstream lines{std::string(membership)};
  for (std::string line; std::getline(lines, line);) {  // "0::PATH", or of version 1 "4:cpu,cpuacct:PATH"
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (controllers.empty()) least = std::min(least, processors_up_to_root(mount, path));
    if (names_cpu(controllers))
      for (const std::string& folder : {controllers, std::string("cpu")})
        least = std::min(least, processors_up_to_root(mount / folder, path));
  }
  return least == kNoQuota ? 0 : least;
}

int quota_processors() {
  std::ostringstream membership;
  membership << std::ifstream("/proc/self/cgroup").rdbuf();
  return quota_processors("/sys/fs/cgroup", membership.view());
}

}  // namespace tilesmith
