// Problems from the words of a command line: the options of a problem (problem/line.hpp), each with any number of
// values, and the product of them all.
//
//   -m 1,8,16:128:16 -n 4096 -k 1024:16384:*2 --dtype bf16,fp32 --epilogue bias,gelu --epilogue none
//
// Values stand between commas. START:END:STEP is a range of whole numbers that holds its end when a step reaches it,
// START:END:*FACTOR one whose numbers grow by a factor. What an option reads as a list (--epilogue bias,gelu) is one
// value; such an option has several when it is given several times.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "sweep/operation.hpp"
#include "sweep/shard.hpp"

namespace tilesmith {

/// The values of "1,8,16:128:16". Error: invalid_argument, with the option's name.
[[nodiscard]] Result<std::vector<std::string>> axis_values(std::string_view option, std::string_view text);

/// What a command line says of the problems of a sweep.
struct ProblemWords {
  std::optional<RowChoice> operation;  ///< absent: the one that has all of the options
  std::vector<std::string> words;      ///< options and their values, one after the other
  std::vector<std::string> lines;      ///< whole problems, "gemm -m 3 -n 4 -k 5" or without the operation's name

  [[nodiscard]] bool empty() const { return words.empty() && lines.empty(); }
};

/// The problems that belong to the shard, each once, in order: the product of the options, the last one fastest, then
/// the lines. Errors: invalid_argument, that names the option; unsupported, for operations that no sweep runs.
[[nodiscard]] Result<BenchProblems> problems_of_words(const ProblemWords& given, Shard shard);

}  // namespace tilesmith
