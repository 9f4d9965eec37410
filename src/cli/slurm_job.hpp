// A verb as a Slurm job array: one task a shard, each with a file of its own, and a job behind them that joins these
// into one.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace tilesmith::cli {

struct SlurmJob {
  std::string name;                     ///< the verb's: jobs, logs and scripts are called by it
  std::vector<std::string> command;     ///< the words of a part's command, without --shard and its file
  std::filesystem::path base;           ///< scripts, logs and the parts' files lie beside it, and begin with its name
  int parts = 1;                        ///< tasks of the array
  std::vector<std::string> directives;  ///< "--partition=gpu", for each job

  /// How parts' files become one. Without it parts have no files.
  struct Join {
    std::string option;                ///< that names a part's file, "--db"
    std::string kind;                  ///< of file, for people: "database"
    std::vector<std::string> command;  ///< the words before the parts' files
    std::vector<std::string> options;  ///< the words behind them
  };
  std::optional<Join> join{};
};

/// The scripts, beside the base; `join` is empty where there is nothing to join.
struct SlurmScripts {
  std::filesystem::path parts, join;
};
/// Error: io.
[[nodiscard]] Result<SlurmScripts> write_slurm_scripts(const SlurmJob& job);

struct SlurmIds {
  std::string parts, join;
};
/// Submits them with sbatch: the join runs when every part has ended, however it ended. Errors: not_found, without an
/// sbatch in PATH; launch_failed, with sbatch's words.
[[nodiscard]] Result<SlurmIds> submit(const SlurmScripts& scripts);

/// This program's path, as the first word of a command.
[[nodiscard]] std::string this_program();

}  // namespace tilesmith::cli
