// tilesmith: the program. Every verb is a thin face of the library.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iterator>
#include <new>
#include <system_error>
#include <vector>

#include "base/env.hpp"
#include "base/nearest.hpp"
#include "cli/signals.hpp"
#include "cli/verbs.hpp"
#include "sweep/version.hpp"

namespace tilesmith::cli {
namespace {

/// CLI11 says which argument it did not expect; we add what was probably meant.
void print_usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* verb = &app;
  std::string words = "tilesmith";
  while (!verb->get_subcommands().empty()) {
    verb = verb->get_subcommands().back();
    words += " " + verb->get_name();
  }
  std::vector<std::string> known;
  for (const CLI::App* sub : verb->get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(sub->get_name());
  // Of a word that is none of the verb's CLI11 says that one is required, or that it expected none.
  const std::vector<std::string> left = verb->remaining();
  if (!known.empty() && !left.empty() && !left.front().starts_with('-')) {
    fmt::print(stderr, "error: {} has no \"{}\"\nhint: {}: {}\n", words, left.front(), left.front(),
               did_you_mean(left.front(), known));
    return;
  }
  fmt::print(stderr, "error: {}\n", error.what());
  for (const CLI::Option* option : verb->get_options()) known.push_back(option->get_name());
  for (const std::string& word : verb->remaining()) {
    std::vector<std::string> begun;  // by a word that was cut short
    std::ranges::copy_if(known, std::back_inserter(begun),
                         [&](const std::string& name) { return word.size() > 3 && name.starts_with(word); });
    const std::string near =
        begun.empty() ? did_you_mean(word, known) : fmt::format("did you mean '{}'?", fmt::join(begun, "' or '"));
    if (!near.empty()) fmt::print(stderr, "hint: {}: {}\n", word, near);
  }
  fmt::print(stderr, "hint: {} --help lists what it takes\n", words);
}

int run(int argc, char** argv) {
  CLI::App app("From a problem to the fastest verified kernel.", "tilesmith");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of every verb");
  int exit_code = kSuccess;
  for (const auto add : {add_arch, add_list, add_explain, add_generate, add_build, add_run, add_bench, add_sweep,
                         add_tune, add_db, add_compare, add_report, add_store})
    add(app, exit_code);
  app.set_version_flag("--version", version_text());
  const auto asks = [&](std::string_view flag) { return std::find(argv + 1, argv + argc, flag) != argv + argc; };
  if (!asks("--help") && !asks("-h") && !asks("--version"))
    if (const Status environment = check_environment(); !environment) return exit_code_of(environment);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::Success)) {
      print_usage_error(app, error);
      return kUsage;
    }
    exit_code = app.exit(error);  // help or a version was asked for
  }
  // What was printed may be lost (a full disk behind standard output); then nothing succeeded.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    return exit_code_of(std::unexpected(
        Error{ErrorCode::io, "cannot write to standard output", "free some disk space, or another place"}));
  return exit_code;
}

}  // namespace
}  // namespace tilesmith::cli

int main(int argc, char** argv) {
  try {
    tilesmith::cli::watch_signals();
    const int exit_code = tilesmith::cli::run(argc, argv);
    tilesmith::cli::stay_silent_at_the_end();
    return exit_code;
  } catch (const std::bad_alloc&) {
    std::fputs("error: out of memory\nhint: a smaller problem, or more memory\n", stderr);
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) {
      std::fputs("error: cannot write to standard output\nhint: free some disk space, or another place\n", stderr);
      return tilesmith::cli::kFailure;
    }
    std::fprintf(stderr,
                 "error: %s\nhint: the system refused a write or a thread; free disk space, memory or processes\n",
                 error.what());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\nhint: this is a defect of tilesmith; please report it with the command line\n",
                 error.what());
  }
  return tilesmith::cli::kFailure;
}
