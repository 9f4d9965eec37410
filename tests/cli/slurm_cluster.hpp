// Runs the program on a real cluster of one machine (slurm_cluster.sh), and waits for what it submits.
#pragma once

#include <filesystem>
#include <string>

#include "base/file.hpp"
#include "cli/program.hpp"

namespace tilesmith::testing {

/// Small products, one a line, for a file of shapes.
inline std::string lines_of_small_products() {
  std::string lines;
  for (int i = 0; i < 4; ++i) lines += "gemm -m " + std::to_string(19 + i) + " -n 24 -k 40 --dtype fp32\n";
  return lines;
}

/// The cluster lives in `folder`/cluster while the program and its jobs run. Code 77: there is no Slurm here.
inline auto run_on_cluster(const std::filesystem::path& folder, const std::string& arguments) {
  const std::string cluster = (std::filesystem::path(__FILE__).parent_path() / "slurm_cluster.sh").string();
  return run_by(cluster + " " + (folder / "cluster").string() +
                    " sh -c '\"$0\" \"$@\" || exit 1; i=0; while [ -n \"$(squeue -h)\" ] && [ $i -lt 900 ]; do "
                    "sleep 0.2; i=$((i + 1)); done' \"$0\" \"$@\"",
                arguments);
}

/// What jobs left in the logs of a folder.
inline std::string logs_in(const std::filesystem::path& folder) {
  std::string logs;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".log") logs += read_file(entry.path()).value_or("");
  return logs;
}

}  // namespace tilesmith::testing
