// Results of benches read back from their files, for whoever compares or shows them. What a bench measured is read as
// text and figures: a file of another version, or of kernels that this program does not know, can be read too.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace tilesmith {

/// One kernel on one problem. Figures that the file does not have are 0.
struct ResultRow {
  std::string problem;  ///< for people: "bf16 256x512x1024 rcr"
  std::string line;     ///< what repeats it; of a file without lines, the problem
  std::string kernel;   ///< the recipe's name
  std::string status;   ///< "correct", "unverified", "wrong", ... (RowStatus)
  std::string message;  ///< why it is not good
  int threads = 0;
  int rank = 0;  ///< the policy's first is 0
  double median_s = 0;
  double spread = 0;  ///< interquartile range over median
  int samples = 0;
  double tflops = 0, gbps = 0, roofline_percent = 0, naive_s = 0;

  [[nodiscard]] bool is_timed() const { return (status == "correct" || status == "unverified") && median_s > 0; }
};

struct ResultFile {
  std::string path;
  std::map<std::string, std::string> about;  ///< what the file says of itself: commit, host, ...
  std::vector<ResultRow> rows;
};

/// A JSON document or a CSV file that `bench` wrote; told apart by the first character. Errors: parse, which names the
/// file, the row and what is wrong.
[[nodiscard]] Result<ResultFile> parse_results(std::string_view path, std::string_view text);
/// Errors: io; those of parse_results.
[[nodiscard]] Result<ResultFile> read_results(const std::filesystem::path& path);

}  // namespace tilesmith
