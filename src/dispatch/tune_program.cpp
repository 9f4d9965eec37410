// tilesmith::tune: the program `tilesmith` races, and tells what came of it as JSON.
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/cancel.hpp"
#include "base/env.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "base/uncancelled.hpp"
#include "tilesmith/tune.hpp"

namespace tilesmith {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kMostOutput = std::size_t{256} << 20;
constexpr std::chrono::hours kLongest{24 * 365};  // each race has a limit of its own

/// The folder of the library, or of the program that has the library within.
fs::path own_folder() {
  Dl_info found{};
  const auto address = reinterpret_cast<const void*>(static_cast<Result<TuneReport> (*)(const TuneRequest&)>(&tune));
  if (::dladdr(address, &found) == 0 || found.dli_fname == nullptr) return {};
  std::error_code ignored;
  return fs::canonical(found.dli_fname, ignored).parent_path();
}

Result<std::string> program() {
  if (const auto given = env("TILESMITH_PROGRAM")) return *given;
  if (const fs::path folder = own_folder(); !folder.empty())
    for (const fs::path& place : {folder, folder.parent_path() / "bin"})
      if (const auto beside = find_program((place / "tilesmith").string())) return beside->string();
  if (const auto found = find_program("tilesmith")) return found->string();
  return fail(ErrorCode::not_found, "the program tilesmith is not there: it runs the races",
              "make install, or TILESMITH_PROGRAM with its path");
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  for (std::size_t at = 0; (at = line.find_first_not_of(" \t", at)) != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
    words.emplace_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

/// Whether a word is a range of sizes: "1:8192".
bool is_range(std::string_view word) {
  const std::size_t colon = word.find(':');
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return colon != std::string_view::npos && is_number(word.substr(0, colon)) && is_number(word.substr(colon + 1));
}

/// What one run of the program tunes: an operation and a file of lines, or the words of a line with ranges.
struct Job {
  std::vector<std::string> words;
  std::string lines;
};

Result<std::vector<Job>> jobs_of(const TuneRequest& request) {
  const char* hint = "lines as `tilesmith run` takes them: \"gemm -m 8 -n 64 -k 64\"";
  if (request.problems.empty()) return fail(ErrorCode::invalid_argument, "there is no problem", hint);
  std::vector<Job> jobs;
  for (const std::string& line : request.problems) {
    std::vector<std::string> words = words_of(line);
    if (words.size() < 2 || line.find_first_of(std::string_view("\n\0", 2)) != std::string::npos)
      return fail(ErrorCode::invalid_argument, fmt::format("a line is \"{}\"", line), hint);
    if (std::ranges::any_of(words, is_range)) {
      jobs.push_back({std::move(words), {}});
      continue;
    }
    const auto same = std::ranges::find_if(
        jobs, [&](const Job& job) { return !job.lines.empty() && job.words.front() == words.front(); });
    if (same != jobs.end())
      same->lines += line + '\n';
    else
      jobs.push_back({{words.front()}, line + '\n'});
  }
  return jobs;
}

Status check(const TuneRequest& request) {
  if (!(request.budget_seconds >= 0.001 && request.budget_seconds <= 1e6))
    return fail(ErrorCode::invalid_argument, fmt::format("budget_seconds is {}", request.budget_seconds),
                "0.001 to 1000000 seconds");
  if (request.candidates < 0)
    return fail(ErrorCode::invalid_argument, fmt::format("candidates is {}", request.candidates),
                "a number of recipes, or 0 for all");
  if (request.threads < 0 || request.threads > 4096)
    return fail(ErrorCode::invalid_argument, fmt::format("threads is {}", request.threads),
                "1 to 4096, or 0 for every processor");
  return {};
}

/// What the program says of itself in "error: ..." and "hint: ...".
Error words_of_failure(const std::string& verb, const ProcessOutcome& done) {
  constexpr std::string_view kError = "error: ", kHint = "\nhint: ";
  std::string message = done.describe(), hint;
  if (const std::size_t at = done.errors.rfind(kError); at != std::string::npos) {
    message = done.errors.substr(at + kError.size());
    while (message.ends_with('\n')) message.pop_back();
    if (const std::size_t told = message.find(kHint); told != std::string::npos) {
      hint = message.substr(told + kHint.size());
      message.resize(told);
    }
  }
  const ErrorCode code = done.end == ProcessOutcome::End::cancelled                  ? ErrorCode::cancelled
                         : done.end == ProcessOutcome::End::exited && done.code == 2 ? ErrorCode::invalid_argument
                                                                                     : ErrorCode::io;
  return {code, fmt::format("tilesmith {}: {}", verb, message), hint};
}

/// Runs the program. `may_skip`: it may fail when it has told its outcome, which is then that it could tune nothing.
Result<std::string> output_of(std::vector<std::string> words, bool may_skip) {
  TS_ASSIGN(std::string path, program());
  const std::string verb = words.front();
  words.insert(words.begin(), std::move(path));
  std::vector<std::string> environment{"TILESMITH_LOG=warn"};
  for (char** each = environ; *each != nullptr; ++each)
    if (!std::string_view(*each).starts_with("TILESMITH_LOG=")) environment.emplace_back(*each);
  const CancelScope scope;
  TS_ASSIGN(const ProcessOutcome done, run_process({.arguments = std::move(words),
                                                    .environment = std::move(environment),
                                                    .time_limit = kLongest,
                                                    .stop = scope.stop(),
                                                    .kept_bytes = kMostOutput}));
  if (done.succeeded() || (may_skip && done.end == ProcessOutcome::End::exited && done.output.starts_with('{')))
    return done.output;
  return std::unexpected(words_of_failure(verb, done));
}

Status add(const std::string& told, TuneReport& report) {
  const json document = json::parse(told, nullptr, false);
  if (document.is_discarded())
    return fail(ErrorCode::internal, "the program tilesmith tells no JSON", "the program that this library belongs to");
  for (const json& each : document.at("outcomes"))
    report.problems.push_back({.problem = each.at("problem"),
                               .before = each.at("before"),
                               .chosen = each.at("chosen"),
                               .before_seconds = each.at("before_s"),
                               .chosen_seconds = each.at("chosen_s"),
                               .gain = each.at("gain")});
  for (const json& each : document.at("skipped"))
    report.skipped.push_back({.problem = each.at("problem"), .reason = each.at("reason")});
  report.known += document.at("known").get<std::int64_t>();
  report.database = document.at("database");
  return {};
}

}  // namespace

Result<TuneReport> tune(const TuneRequest& request) {
  const Uncancelled tuning;
  TS_TRY(check(request));
  TS_ASSIGN(const std::vector<Job> jobs, jobs_of(request));
  std::vector<std::string> base;
  if (!request.database.empty()) base = {"--db", request.database};
  TuneReport report;
  for (const Job& job : jobs) {
    TS_ASSIGN(const TemporaryDirectory folder, TemporaryDirectory::create("tilesmith-tune-"));
    std::vector<std::string> words{"tune"};
    words.insert(words.end(), job.words.begin(), job.words.end());
    words.insert(words.end(), {"--device", to_string(request.device), "--threads", fmt::format("{}", request.threads),
                               "--budget", fmt::format("{}", request.budget_seconds), "--candidates",
                               fmt::format("{}", request.candidates), "--json"});
    if (request.again) words.emplace_back("--again");
    words.insert(words.end(), base.begin(), base.end());
    if (!job.lines.empty()) {
      const fs::path file = folder.path() / "problems.txt";
      TS_TRY(write_new_file(file, job.lines));
      words.insert(words.end(), {"--shapes", file.string()});
    }
    TS_ASSIGN(const std::string told, output_of(std::move(words), true));
    TS_TRY(add(told, report));
  }
  if (report.problems.empty() && report.known == 0) {
    std::vector<std::string> reasons;
    for (const SkippedProblem& each : report.skipped) reasons.push_back(each.problem + ": " + each.reason);
    return fail(ErrorCode::unsupported, fmt::format("no problem could be tuned: {}", fmt::join(reasons, "; ")),
                "a problem that a kernel computes");
  }
  if (!request.file.empty()) {
    std::vector<std::string> words{"db", "publish", request.file};
    words.insert(words.end(), base.begin(), base.end());
    TS_TRY(output_of(std::move(words), false));
  }
  return report;
}

}  // namespace tilesmith
