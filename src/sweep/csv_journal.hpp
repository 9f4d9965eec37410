// The CSV file a bench writes: a row at a time, each on disk before the next is measured, so a killed bench loses
// nothing and can go on.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/file.hpp"
#include "sweep/row.hpp"

namespace tilesmith {

class CsvJournal {
 public:
  /// Opens the file for appending results of the operation ("gemm"). With `resume`, rows already there are kept (the
  /// torn end of a killed run is cut off); without, a file that holds anything is an error, because results are not
  /// overwritten.
  /// A new file begins with `about`, lines that begin with # (sweep/provenance.hpp).
  [[nodiscard]] static Result<CsvJournal> open(const std::string& path, std::string_view operation, bool resume,
                                               const std::string& about = {});

  [[nodiscard]] bool holds(const std::string& identity) const { return known_.contains(identity); }
  [[nodiscard]] std::size_t size() const { return known_.size(); }
  [[nodiscard]] Status append(const BenchRow& row);

 private:
  FileDescriptor file_;
  std::string path_;
  std::set<std::string> known_;  ///< identities of the rows in the file
};

}  // namespace tilesmith
