#include "cli/list_candidates.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/candidates.hpp"
#include "choose/selection_policy.hpp"
#include "cli/number_checks.hpp"
#include "cli/operation_option.hpp"
#include "cli/problem_arguments.hpp"
#include "cli/serving/append_kv_words.hpp"
#include "vocabulary/signature.hpp"

namespace tilesmith::cli {
namespace {

constexpr std::array<std::string_view, 7> kOwn = {"--arch",       "--op",      "--origin", "--json",
                                                  "--candidates", "--refused", "--policy"};

/// The words that describe the problem. Error: an option that says nothing about a problem.
Result<std::vector<std::string>> problem_words(const CLI::App& verb, const CLI::App& problem) {
  std::vector<std::string> words = verb.remaining();
  for (const CLI::Option* option : verb.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || std::ranges::find(kOwn, name) != kOwn.end() || name == "--threads") continue;
    if (problem.get_option_no_throw(name) == nullptr)
      return fail(ErrorCode::invalid_argument, fmt::format("{} does not go with --candidates", name),
                  "--arch, --op, --origin, --threads, --refused, --policy, --json and the problem's options, as run "
                  "takes them");
    words.push_back(name);
    if (option->get_items_expected_max() == 0) continue;  // a flag
    for (const std::string& value : option->results()) words.push_back(value);
  }
  std::ranges::reverse(words);  // as CLI11 reads them
  return words;
}

/// Reads the verb's words as options of `parser`.
Status parse_words(const CLI::App& verb, CLI::App& parser) {
  TS_ASSIGN(std::vector<std::string> words, problem_words(verb, parser));
  try {
    parser.parse(words);
  } catch (const CLI::ParseError& error) {
    return fail(ErrorCode::invalid_argument, error.what(), "the problem's options, as run takes them");
  }
  return {};
}

template <class Op>
Result<AnyProblem> problem_of(const CLI::App& verb) {
  ProblemArguments<Op> arguments;
  CLI::App parser("", "tilesmith list --candidates");
  arguments.add_to(parser);
  TS_TRY(parse_words(verb, parser));
  TS_ASSIGN(const RandomCall<Op> call, read_call<Op>(arguments.given()));
  return AnyProblem(call.problem);
}

Result<AnyProblem> read_problem(const CLI::App& verb, RowChoice operation) {
  Result<AnyProblem> problem = fail(ErrorCode::unsupported, fmt::format("no kernels of {} run", operation.name()),
                                    "--op attention_fwd, attention_bwd, gemm or conv");
  any_operation([&]<class Op>(Op) {
    if (!operation.is<Op>()) return false;
    problem = problem_of<Op>(verb);
    return true;
  });
  return problem;
}

/// The call that appends to a cache of pages; of its pointers only what says which there are.
Result<AppendKv> append_kv_of(const CLI::App& verb) {
  AppendKvWords words;
  CLI::App parser("", "tilesmith list --candidates");
  words.add_to(parser);
  TS_TRY(parse_words(verb, parser));
  TS_TRY(words.read());
  const AppendKvSizes& sizes = words.sizes;
  static constexpr std::int32_t kPage = 0;
  AppendKv call;
  call.data_type = sizes.data_type;
  call.cache = sizes.cache;
  call.batch = sizes.batch;
  call.heads_kv = sizes.heads_kv;
  call.head_dim_qk = sizes.head_dim_qk;
  call.head_dim_v = sizes.head_dim_v;
  call.seqlen = sizes.seqlen;
  call.page_size = sizes.page_size;
  call.heads_q = sizes.heads_q;
  call.pages.numbers = &kPage;
  call.rotary.dim = sizes.rotary_dim;
  call.rotary.style = sizes.rotary_style;
  return call;
}

/// Of the problem or call that the verb's words describe.
Result<CandidateList> candidates_of(const CLI::App& verb, std::string_view op, const DeviceFacts& facts,
                                    SelectionPolicy policy) {
  if (op == "append_kv") {
    TS_ASSIGN(const AppendKv call, append_kv_of(verb));
    return list_candidates(facts, call);
  }
  TS_ASSIGN(const RowChoice operation, parse_row_option(std::string(op)));
  TS_ASSIGN(const AnyProblem problem, read_problem(verb, operation));
  return list_candidates(facts, problem, policy);
}

}  // namespace

void CandidateOptions::add_to(CLI::App& verb) {
  const char* group = "What dispatch chooses from for a problem, whose options are those of run";
  verb.add_flag("--candidates", wanted, "The candidates in dispatch order, with the seconds predicted for each")
      ->group(group);
  verb.add_flag("--refused", refused, "With --candidates: what was refused, and why; with --json every config of it")
      ->group(group);
  verb.add_option("--threads", threads, "With --candidates on a CPU: threads of a call")
      ->check(positive())
      ->capture_default_str()
      ->group(group);
  verb.add_option(
          "--policy", policy,
          "With --candidates: dispatch's; by the model's predictions (model); Composable Kernel's instances as its "
          "own dispatcher takes them (upstream); those nearest to the configs that PyTorch's Inductor would time "
          "(inductor, inductor_exhaustive)")
      ->capture_default_str()
      ->group(group);
  verb.allow_extras();
}

Status list_candidates_of(const CLI::App& verb, const CandidateOptions& options) {
  const auto text_of = [&](const char* name) { return verb.get_option(name)->as<std::string>(); };
  if (verb.get_option("--arch")->count() == 0)
    return fail(ErrorCode::invalid_argument, "--arch is missing", "tilesmith arch names the architectures");
  Origin origin = Origin::own;
  if (verb.get_option("--origin")->count() > 0) {
    TS_ASSIGN(origin, parse_enum<Origin>(text_of("--origin")));
  }
  TS_ASSIGN(const DeviceFacts facts, facts_of(text_of("--arch"), options.threads, origin));
  TS_ASSIGN(const SelectionPolicy policy, parse_enum<SelectionPolicy>(options.policy));
  TS_ASSIGN(const CandidateList list, candidates_of(verb, text_of("--op"), facts, policy));
  fmt::print("{}", verb.get_option("--json")->count() > 0 ? candidates_json(list, options.refused)
                                                          : candidates_text(list, options.refused));
  return {};
}

}  // namespace tilesmith::cli
