// Problems from a file of lines (problem/line.hpp), beside the shape matrices of YAML.
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "problem/line.hpp"
#include "sweep/shard.hpp"

namespace tilesmith {

/// The seed of the random inputs that a sweep runs its problems on, with their usual numbers (problem/line.hpp).
inline constexpr std::uint64_t kSweepSeed = 1;

/// Whether the shapes file is one of lines: "cases.txt".
[[nodiscard]] bool is_file_of_lines(const std::string& path);

/// The calls that the lines of a file describe.
[[nodiscard]] Result<std::vector<LineOfFile>> read_lines(const std::string& path);

/// The problems of one operation among lines that belong to the shard, each once, in order. A sweep runs them with its
/// own numbers: those of the lines are for `run`.
template <class Op>
[[nodiscard]] std::vector<typename Op::Problem> problems_of(const std::vector<LineOfFile>& lines, Shard shard) {
  std::vector<typename Op::Problem> problems;
  for (const LineOfFile& line : lines)
    if (const auto* call = std::get_if<RandomCall<Op>>(&line.call))
      if (shard.has(identity_of(call->problem)) && std::ranges::find(problems, call->problem) == problems.end())
        problems.push_back(call->problem);
  return problems;
}

/// Those of a file.
template <class Op>
[[nodiscard]] Result<std::vector<typename Op::Problem>> problems_of_lines(const std::string& path, Shard shard) {
  TS_ASSIGN(const std::vector<LineOfFile> lines, read_lines(path));
  return problems_of<Op>(lines, shard);
}

}  // namespace tilesmith
