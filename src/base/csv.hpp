// Comma-separated values (RFC 4180), read a record at a time.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilesmith {

/// The cells of the record that begins at `at`, which moves behind it. Nothing for a record without an end: a line
/// break ends one. A quoted cell keeps its line breaks.
[[nodiscard]] std::optional<std::vector<std::string>> next_csv_record(std::string_view text, std::size_t& at);

/// The text as one cell: quoted, and its quotes doubled, where it has a comma, a quote or a line break.
[[nodiscard]] std::string csv_cell(std::string_view text);

}  // namespace tilesmith
