// tilesmith: the program. Every verb is a thin face of the library.
#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <new>
#include <vector>

#include "base/nearest.hpp"
#include "cli/verbs.hpp"

namespace tilesmith::cli {
namespace {

/// CLI11 says which argument it did not expect; we add what was probably meant.
void print_usage_error(const CLI::App& app, const CLI::ParseError& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  const CLI::App* verb = &app;
  for (const CLI::App* sub : app.get_subcommands()) verb = sub;
  std::vector<std::string> known;
  if (verb == &app)
    for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) known.push_back(sub->get_name());
  else
    for (const CLI::Option* option : verb->get_options()) known.push_back(option->get_name());
  for (const std::string& word : verb->remaining()) fmt::print(stderr, "hint: {}: {}\n", word, did_you_mean(word, known));
  fmt::print(stderr, "hint: {} --help lists what it takes\n", verb == &app ? "tilesmith" : "tilesmith " + verb->get_name());
}

int run(int argc, char** argv) {
  CLI::App app("From a problem to the fastest verified kernel.", "tilesmith");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of every verb");
  int exit_code = kSuccess;
  for (const auto add : {add_arch, add_list, add_explain, add_generate, add_build, add_run, add_bench, add_sweep, add_store}) add(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForAllHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    print_usage_error(app, error);
    return kUsage;
  }
  return exit_code;
}

}  // namespace
}  // namespace tilesmith::cli

int main(int argc, char** argv) {
  try {
    return tilesmith::cli::run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("error: out of memory\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\nhint: this is a defect of tilesmith; please report it with the command line\n", error.what());
  }
  return tilesmith::cli::kFailure;
}
