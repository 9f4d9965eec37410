// tune as a Slurm job array: one task a shard, each with a database of its own, and a job behind them that merges these
// into one.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace tilesmith::cli {

struct SlurmJob {
  std::vector<std::string> tune;        ///< the words of a part's command, without --shard and --db
  std::filesystem::path database;       ///< of the whole; parts lie beside it
  int parts = 1;                        ///< tasks of the array
  std::vector<std::string> directives;  ///< "--partition=gpu", for each job
};

/// The two scripts, beside the database.
struct SlurmScripts {
  std::filesystem::path parts, merge;
};
/// Error: io.
[[nodiscard]] Result<SlurmScripts> write_slurm_scripts(const SlurmJob& job);

struct SlurmIds {
  std::string parts, merge;
};
/// Submits them with sbatch: the merge runs when every part has ended, however it ended. Errors: not_found, without an
/// sbatch in PATH; launch_failed, with sbatch's words.
[[nodiscard]] Result<SlurmIds> submit(const SlurmScripts& scripts);

}  // namespace tilesmith::cli
