// How a program that is told to end (Ctrl-C) leaves nothing behind: the programs it started are killed with their
// groups, and its temporary files and directories are removed.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>

#include "base/error.hpp"

namespace tilesmith {

/// Whether end_work() was called. What may last looks at it: run_process() then ends as cancelled.
[[nodiscard]] bool work_has_ended();

/// Tells every thread of this process to end what it does, waits for at most `bound` until no program that it started
/// is left, and removes what is temporary. Meant to be followed by the process's death.
void end_work(std::chrono::milliseconds bound);

/// Counts a started program for as long as it must not be left alone.
class RunningProgram {
 public:
  RunningProgram();
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;
};

/// Calls `create`, and remembers the file or directory whose path it returns: end_work() removes that. Once work has
/// ended nothing is created (cancelled). A forked child knows none of its parent's.
[[nodiscard]] Result<std::filesystem::path> create_temporary(
    const std::function<Result<std::filesystem::path>()>& create);
/// For what is removed or renamed by now; before, it could outlive the process. What is not known is no error.
void forget_temporary(const std::filesystem::path& path);

}  // namespace tilesmith
