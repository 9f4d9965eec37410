#include "cli/bench_report.hpp"

#include <fmt/core.h>

#include "cli/signals.hpp"
#include "problem/json.hpp"

namespace tilesmith::cli {

BenchProgress BenchReport::progress() {
  return {.building = [this](std::size_t done, std::size_t total,
                             std::size_t failed) { work_.compiled(done, total, failed); },
          .problem =
              [this](std::size_t problem, std::size_t count, const BenchProblem&) {
                problems_ = count;
                if (problem == 0) remember_first_signal();
                work_.worked(problem, count, failures_);
              },
          .row = [this](const BenchRow& row) { add(row); },
          .skipped = [this](const BenchProblem&, const Error& error) { ++skipped_[error.message]; }};
}

void BenchReport::add(const BenchRow& row) {
  if (keeps_rows_) rows_.push_back(to_json(row));
  if (row.status != RowStatus::correct && row.status != RowStatus::unverified && row.status != RowStatus::compiled)
    say_failure(row);
  table_.add(row);
}

void BenchReport::say_failure(const BenchRow& row) {
  ++failures_;
  const bool is_new = row.status != RowStatus::compile || compilers_words_.insert(row.message).second;
  fmt::print(stderr, "{}: {} on {}: {}\n", name_of(row.status), recipe_name(row.recipe), describe(row.problem),
             is_new ? row.message : "as said before");
  fmt::print(stderr, "repeat with: tilesmith run {} --device {} --kernel {} --verify\n", row.line(), device_,
             recipe_name(row.recipe));
}

void BenchReport::end(const BenchSummary& summary) {
  if (summary.stopped)
    work_.stop();
  else
    work_.end(problems_, failures_);
}

void BenchReport::print(const BenchSummary& summary) const {
  table_.print(stdout, summary);
  for (const auto& [reason, count] : skipped_) fmt::print("{} problems skipped: {}\n", count, reason);
}

nlohmann::json BenchReport::document(const BenchSummary& summary, const nlohmann::json& about) {
  nlohmann::json document = {
      {"about", about},         {"rows", std::move(rows_)},      {"resumed", summary.resumed},
      {"wrong", summary.wrong}, {"failed", summary.failed},      {"without_result", summary.problems_without_result},
      {"noisy", summary.noisy}, {"interrupted", summary.stopped}};
  if (summary.peaks) document["peaks"] = to_json(*summary.peaks);
  document["skipped"] = nlohmann::json::object();
  for (const auto& [reason, count] : skipped_) document["skipped"][reason] = count;
  return document;
}

}  // namespace tilesmith::cli
