// The performance database as files: our own JSON and CSV, and formats of other programs (docs/tuning.md says which
// fields mean what, and cites their sources).
//
// Rows of ours come back as the races they were. Rows of another program are kept as samples of foreign kernels
// (tune/foreign.hpp), or refused with a reason; none becomes a race.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tune/database.hpp"

namespace tilesmith {

enum class ExchangeFormat : std::uint8_t {
  json,       ///< ours: everything
  csv,        ///< ours: the races, a line for each recipe of each
  t4,         ///< Kernel Tuner's results, schema T4 1.0.0
  tunableop,  ///< results of PyTorch's TunableOp; only to be read, and given back as they were read
  inductor,   ///< a look-up table of PyTorch Inductor; only to be read, and given back as it was read
  untuned,    ///< problems for PyTorch's TunableOp to tune; what it recorded is read as tunableop is
  lines       ///< problems, a line each, for tune --shapes and bench --shapes; only to be written
};
[[nodiscard]] const std::vector<std::string>& exchange_format_names();
/// Error: invalid_argument, with the names.
[[nodiscard]] Result<ExchangeFormat> parse_exchange_format(std::string_view name);

/// What a file holds.
struct ExchangeContent {
  std::vector<StoredRace> races;
  std::vector<ForeignSource> foreign;
  std::vector<std::string> refused;  ///< rows that were left out: "FILE:7: why"
};

/// Errors: parse, which names `origin`: the file as a whole is not of this format, or is torn; unsupported, for a
/// format that is only written.
[[nodiscard]] Result<ExchangeContent> read_exchange(ExchangeFormat format, std::string_view origin,
                                                    std::string_view text);

/// The text of a file. Errors: not_found, when there is nothing to write in this format; unsupported, when it cannot
/// hold what there is.
[[nodiscard]] Result<std::string> write_exchange(ExchangeFormat format, const std::vector<StoredRace>& races,
                                                 const std::vector<ForeignSource>& foreign);

}  // namespace tilesmith
