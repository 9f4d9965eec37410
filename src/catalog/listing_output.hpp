// Writing listings: names, a count, JSON, CSV; and reading back what was exported.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "catalog/listing.hpp"

namespace tilesmith {

enum class ListFormat : std::uint8_t {
  count,   ///< one integer
  names,   ///< one name a line
  json,    ///< one document: {"request": ..., "kernels": [{name, key, config}], "statistics": ...}
  ndjson,  ///< one kernel a line
  csv,     ///< a header, then one kernel a line
};
template <>
struct EnumTable<ListFormat> {
  static constexpr std::string_view kWhat = "list format";
  static constexpr auto kNames = enum_names<ListFormat>({{ListFormat::count, "count"},
                                                         {ListFormat::names, "names"},
                                                         {ListFormat::json, "json"},
                                                         {ListFormat::ndjson, "ndjson"},
                                                         {ListFormat::csv, "csv"}});
};

/// Writes the listing to a file descriptor through a buffer of fixed size. A write that fails ends the walk with an
/// error.
[[nodiscard]] Result<ListStatistics> write_listing(const Listing& listing, ListFormat format, int file);

/// The statistics as text, one figure a line, or as JSON.
[[nodiscard]] std::string statistics_text(const ListStatistics& statistics);
[[nodiscard]] std::string statistics_json(const ListStatistics& statistics);

/// The kernels of an exported list (json or ndjson). A name or key that does not belong to its config is an error.
[[nodiscard]] Result<std::vector<KernelConfig>> import_listing(std::string_view file, std::string_view text);

}  // namespace tilesmith
