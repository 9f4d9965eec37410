// tilesmith report: results of benches as a page.
#include <fmt/core.h>

#include <memory>

#include "base/file.hpp"
#include "cli/output_place.hpp"
#include "cli/verbs.hpp"
#include "sweep/report_page.hpp"

namespace tilesmith::cli {
namespace {

Status report(const std::vector<std::string>& paths, const std::string& html) {
  TS_TRY(check_output_place(html));
  std::vector<ResultFile> files;
  for (const std::string& path : paths) {
    TS_ASSIGN(ResultFile file, read_results(path));
    files.push_back(std::move(file));
  }
  TS_TRY(write_file_atomic(html, report_page(files)));
  std::size_t rows = 0;
  for (const ResultFile& file : files) rows += file.rows.size();
  fmt::print("{}: {} rows of {} files\n", html, rows, files.size());
  return {};
}

}  // namespace

void add_report(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("report", "Show results of bench as one HTML page");
  auto paths = std::make_shared<std::vector<std::string>>();
  auto html = std::make_shared<std::string>();
  verb->add_option("results", *paths, "Files of bench (CSV or JSON); the first is what the others are compared with")
      ->required();
  verb->add_option("--html", *html, "The page to write")->required();
  verb->callback([paths, html, &exit_code] { exit_code = exit_code_of(report(*paths, *html)); });
}

}  // namespace tilesmith::cli
