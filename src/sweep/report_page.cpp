#include "sweep/report_page.hpp"

#include <algorithm>

#include "base/embedded.hpp"
#include "base/json.hpp"

namespace tilesmith {

std::span<const EmbeddedFile> embedded_bench_data();

namespace {

using nlohmann::json;

json to_json(const ResultRow& row) {
  return {{"problem", row.problem}, {"line", row.line},
          {"kernel", row.kernel},   {"status", row.status},
          {"message", row.message}, {"threads", row.threads},
          {"rank", row.rank},       {"median_s", row.median_s},
          {"spread", row.spread},   {"samples", row.samples},
          {"tflops", row.tflops},   {"gbps", row.gbps},
          {"naive_s", row.naive_s}, {"roofline_percent", row.roofline_percent}};
}

/// JSON inside a script element ends at the first "</": so no such thing may stand in a string of it.
std::string without_end_of_script(std::string text) {
  for (std::size_t at = 0; (at = text.find("</", at)) != std::string::npos; at += 3) text.replace(at, 2, "<\\/");
  return text;
}

}  // namespace

std::string report_page(std::span<const ResultFile> files) {
  json data = {{"files", json::array()}};
  for (const ResultFile& file : files) {
    json rows = json::array();
    for (const ResultRow& row : file.rows) rows.push_back(to_json(row));
    data["files"].push_back({{"path", file.path}, {"about", file.about}, {"rows", std::move(rows)}});
  }
  constexpr std::string_view kPlace = "@DATA@";
  const auto templates = embedded_bench_data();
  std::string page(std::ranges::find(templates, std::string_view("report.html"), &EmbeddedFile::path)->text);
  page.replace(page.find(kPlace), kPlace.size(),
               without_end_of_script(data.dump(-1, ' ', false, json::error_handler_t::replace)));
  return page;
}

}  // namespace tilesmith
