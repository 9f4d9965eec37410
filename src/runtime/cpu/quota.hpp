// The processor time that control groups grant this process: how many threads can run all the time.
#pragma once

#include <filesystem>
#include <string_view>

namespace tilesmith {

/// Whole processors of the smallest quota among the groups of `membership` (/proc/self/cgroup) and those above them,
/// below `mount` (/sys/fs/cgroup), or 0 where none is set. Half a processor counts as one.
[[nodiscard]] int quota_processors(const std::filesystem::path& mount, std::string_view membership);

/// Of this process.
[[nodiscard]] int quota_processors();

}  // namespace tilesmith
