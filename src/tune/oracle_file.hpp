// What an oracle measured, as a CSV file: a row for each candidate of each problem. The figures of regret are computed
// from it, and models can be fitted to it. The rows of a problem are written together, when it is done, so a killed
// oracle loses the problem it was at and goes on behind the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/sha256.hpp"

namespace tilesmith {

enum class OracleStatus : std::uint8_t {
  verified,    ///< right, and timed in both halves
  unverified,  ///< timed in both halves; the problem is too large for a reference
  behind,      ///< far behind at the first look, and no more was done
  failed,      ///< wrong, crashed, hung or could not be built
};

struct OracleRow {
  std::string problem;         ///< its line (to_line)
  std::string family;          ///< of shapes; "given" for problems that were not drawn
  std::string device_class;    ///< choose/device_class.hpp
  std::size_t candidates = 0;  ///< rows that the problem has
  Key128 recipe;
  std::string name;        ///< recipe_name
  std::size_t rank = 0;    ///< in dispatch's order for the problem, from 0, among all its candidates
  double predicted_s = 0;  ///< seconds of a call, as the model had it
  OracleStatus status = OracleStatus::failed;
  double look_s = 0;            ///< seconds of a call at the first look, cold caches; 0: none
  std::vector<double> turns_s;  ///< seconds of a call in the rounds; halves_of
  std::string message;          ///< why it failed
  /// Policies that would time a set of candidates with this one, by name, joined by blanks: "inductor".
  std::string sets{};

  friend bool operator==(const OracleRow&, const OracleRow&) = default;
};

/// The columns, in order: problem, family, device_class, candidates, recipe, name, rank, predicted_s, status, look_s,
/// first_s, second_s (the medians of both halves), turns_s (joined by blanks), message, sets. Files without the last
/// one are read too.
[[nodiscard]] std::string oracle_header();
[[nodiscard]] std::string oracle_line(const OracleRow& row);

/// The rows of a file's text, of problems that are whole; lines that begin with # are skipped. Errors: parse, with the
/// number of the record.
[[nodiscard]] Result<std::vector<OracleRow>> parse_oracle(std::string_view origin, std::string_view text);

class OracleFile {
 public:
  /// Opens the file for adding rows. With `resume`, the rows there are kept (a problem that is not whole is cut off);
  /// without, a file that holds anything is an error. A new file begins with `about`, lines that begin with #.
  [[nodiscard]] static Result<OracleFile> open(const std::string& path, bool resume, const std::string& about);

  /// Those that the file had when it was opened.
  [[nodiscard]] const std::vector<OracleRow>& rows() const { return rows_; }
  /// All rows of one problem; on disk when this returns.
  [[nodiscard]] Status append(const std::vector<OracleRow>& rows);

 private:
  FileDescriptor file_;
  std::string path_;
  std::vector<OracleRow> rows_;
};

}  // namespace tilesmith
