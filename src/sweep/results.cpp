#include "sweep/results.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "base/csv.hpp"
#include "base/file.hpp"
#include "base/json.hpp"

namespace tilesmith {
namespace {

using nlohmann::json;

constexpr std::uint64_t kResultsLimit = 1u << 30;

/// A field of an object as text; numbers as JSON writes them, what is not there as nothing.
std::string text_at(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return {};
  return found->is_string() ? found->get<std::string>() : found->dump();
}

double number_at(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

Result<ResultFile> parse_json(std::string_view path, std::string_view text) {
  ResultFile file{.path = std::string(path), .about = {}, .rows = {}};
  const json document = json::parse(text, nullptr, false);
  if (!document.is_object() || !document.contains("rows") || !document["rows"].is_array())
    return fail(ErrorCode::parse, fmt::format("{}: no JSON document of bench results", path),
                "a file that tilesmith bench --json or --csv wrote");
  for (const char* name : {"about", "header"})
    if (const auto about = document.find(name); about != document.end() && about->is_object())
      for (const auto& [key, value] : about->items())
        file.about[key] = value.is_string() ? value.get<std::string>() : value.dump();
  for (const json& from : document["rows"]) {
    if (!from.is_object())
      return fail(ErrorCode::parse, fmt::format("{}: rows[{}] is no object", path, file.rows.size()));
    const json timing = from.value("timing", json::object());
    ResultRow row{.problem = from.contains("description") ? text_at(from, "description") : std::string(),
                  .line = text_at(from, "line"),
                  .kernel = text_at(from, "kernel"),
                  .status = text_at(from, "status"),
                  .message = text_at(from, "message"),
                  .threads = static_cast<int>(number_at(from, "threads")),
                  .rank = static_cast<int>(number_at(from, "rank")),
                  .median_s = number_at(timing, "median_ms") * 1e-3,
                  .spread = number_at(timing, "spread"),
                  .samples = static_cast<int>(number_at(timing, "samples")),
                  .tflops = number_at(timing, "gflops") * 1e-3,
                  .gbps = number_at(timing, "gbps"),
                  .roofline_percent = number_at(from, "roofline_percent"),
                  .naive_s = number_at(from, "naive_ms") * 1e-3};
    if (row.problem.empty()) row.problem = row.line;
    if (row.line.empty()) row.line = text_at(from, "problem");
    file.rows.push_back(std::move(row));
  }
  return file;
}

double number_of(const std::string& cell) {
  double value = 0;
  std::from_chars(cell.data(), cell.data() + cell.size(), value);
  return std::isfinite(value) ? value : 0;
}

Result<ResultFile> parse_csv(std::string_view path, std::string_view text) {
  ResultFile file{.path = std::string(path), .about = {}, .rows = {}};
  std::size_t at = 0;
  // Lines "# name: value" before the header say what the file is about.
  while (at < text.size() && text[at] == '#') {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at + 1, end - at - 1);
    if (const auto colon = line.find(':'); colon != std::string_view::npos) {
      const auto trimmed = [](std::string_view word) {
        const auto begin = word.find_first_not_of(" \r");
        return begin == std::string_view::npos
                   ? std::string()
                   : std::string(word.substr(begin, word.find_last_not_of(" \r") - begin + 1));
      };
      file.about[trimmed(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
    }
    at = std::min(end + 1, text.size());
  }
  const auto header = next_csv_record(text, at);
  if (!header)
    return fail(ErrorCode::parse, fmt::format("{}: no line of column names", path), "a file of tilesmith bench");
  std::map<std::string, std::size_t> columns;
  for (std::size_t i = 0; i < header->size(); ++i) columns.emplace((*header)[i], i);
  for (const char* needed : {"problem", "kernel", "status", "median_ms"})
    if (!columns.contains(needed))
      return fail(ErrorCode::parse, fmt::format("{}: no column {}", path, needed),
                  "a file that tilesmith bench --csv wrote");
  while (const auto cells = next_csv_record(text, at)) {
    if (cells->size() == 1 && cells->front().empty()) continue;
    // A bench that goes on with a file may have left a torn line; other widths are another file's.
    if (cells->size() != header->size())
      return fail(ErrorCode::parse, fmt::format("{}: row {} has {} cells, the line of names has {}", path,
                                                file.rows.size() + 1, cells->size(), header->size()));
    const auto cell = [&](const char* name) {
      const auto found = columns.find(name);
      return found == columns.end() ? std::string() : (*cells)[found->second];
    };
    ResultRow row{.problem = cell("problem"),
                  .line = cell("line"),
                  .kernel = cell("kernel"),
                  .status = cell("status"),
                  .message = cell("message"),
                  .threads = static_cast<int>(number_of(cell("threads"))),
                  .rank = static_cast<int>(number_of(cell("rank"))),
                  .median_s = number_of(cell("median_ms")) * 1e-3,
                  .spread = number_of(cell("spread")),
                  .samples = static_cast<int>(number_of(cell("samples"))),
                  .tflops = number_of(cell("tflops")),
                  .gbps = number_of(cell("gbps")),
                  .roofline_percent = number_of(cell("roofline_percent")),
                  .naive_s = number_of(cell("naive_ms")) * 1e-3};
    if (row.line.empty()) row.line = row.problem;
    file.rows.push_back(std::move(row));
  }
  return file;
}

}  // namespace

Result<ResultFile> parse_results(std::string_view path, std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos)
    return fail(ErrorCode::parse, fmt::format("{} is empty", path), "a file of tilesmith bench");
  return text[first] == '{' ? parse_json(path, text) : parse_csv(path, text);
}

Result<ResultFile> read_results(const std::filesystem::path& path) {
  TS_ASSIGN(const std::string text, read_file(path, kResultsLimit));
  return parse_results(path.string(), text);
}

}  // namespace tilesmith
