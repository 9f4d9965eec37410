// tilesmith sweep: all candidates of a tier of the built-in shapes, measured here; planned or built for a chip that is
// not here; or as a Slurm job array.
#include <fmt/core.h>

#include <array>
#include <filesystem>
#include <memory>

#include "cli/bench_options.hpp"
#include "cli/slurm_job.hpp"
#include "cli/sweep_plan.hpp"
#include "cli/verbs.hpp"

namespace tilesmith::cli {
namespace {

struct SweepCliOptions {
  BenchCliOptions bench;
  std::string variant = "fwd", arch, origin, ck_version;
  int shards = 1, slurm = 0;
  std::vector<std::string> slurm_options;
  bool slurm_script = false;

  void add_to(CLI::App& verb) {
    verb.add_option("--category", bench.category, "smoke, full or nightly")->capture_default_str();
    verb.add_option(
            "--variant", variant,
            "Attention variant: fwd; of Composable Kernel's instances (--arch) also splitkv, pagedkv and batch_prefill")
        ->capture_default_str();
    bench.add_to(verb);
    const char* group = "For a chip that need not be here";
    verb.add_option("--arch", arch, "The chip: with --dry-run the plan of its sweep, with --compile-only its kernels")
        ->group(group);
    verb.add_option("--origin", origin, "own, or ck: Composable Kernel's instances, the default for AMD chips")
        ->group(group);
    verb.add_option("--ck-version", ck_version, "The state of Composable Kernel that sources are for, a month")
        ->group(group);
    verb.add_option("--shards", shards, "With --dry-run: parts that the sweep is cut into")
        ->check(CLI::Range(1, 1000))
        ->group(group);
    group = "As a Slurm job array";
    verb.add_option("--slurm", slurm,
                    "Submit so many parts, each a task, and a job that reports their results (--csv) on one page; with "
                    "--dry-run write the scripts")
        ->check(CLI::Range(1, 1000))
        ->group(group);
    verb.add_option("--slurm-option", slurm_options,
                    "For sbatch, as in --slurm-option=--partition=gpu; may be repeated")
        ->group(group);
    verb.add_flag("--slurm-script", slurm_script, "Write the scripts, and submit nothing")->group(group);
  }
};

/// Refuses the options of the list that were given.
template <std::size_t kCount>
Status refuse(const CLI::App& verb, const std::array<const char*, kCount>& names, const char* beside,
              const char* instead) {
  for (const char* name : names)
    if (verb.get_option(name)->count() > 0)
      return fail(ErrorCode::invalid_argument, fmt::format("{} {}", name, beside), instead);
  return {};
}

/// The words that sweep a part as these options sweep the whole. Paths are absolute: a job starts in another folder.
std::vector<std::string> words_of(const CLI::App& verb) {
  std::vector<std::string> words{this_program(), "sweep"};
  for (const CLI::Option* option : verb.get_options()) {
    const std::string name = option->get_name();
    constexpr std::array<std::string_view, 8> kOfTheWhole = {"--slurm", "--slurm-option", "--slurm-script", "--csv",
                                                             "--json",  "--resume",       "--dry-run",      "--shards"};
    if (option->count() == 0 || name == "--help" || std::ranges::find(kOfTheWhole, name) != kOfTheWhole.end()) continue;
    if (option->get_items_expected_max() == 0) {
      words.push_back(name);
      continue;
    }
    for (const std::string& value : option->results()) {
      const bool is_path = name == "--shapes" || name == "--peers";
      words.insert(words.end(), {name, is_path ? std::filesystem::absolute(value).string() : value});
    }
  }
  return words;
}

Status by_slurm(const CLI::App& verb, const SweepCliOptions& o) {
  constexpr std::array kNot = {"--shard", "--json", "--resume"};
  TS_TRY(refuse(verb, kNot, "beside --slurm", "each task is a shard, and goes on where its file stands"));
  const bool measures = o.arch.empty();
  if (measures && o.bench.csv.empty())
    return fail(ErrorCode::invalid_argument, "--slurm without --csv", "the file beside which the parts' results go");
  SlurmJob job{
      .name = "sweep",
      .command = words_of(verb),
      .base = std::filesystem::absolute(measures ? o.bench.csv : fmt::format("{}.{}", o.arch, o.bench.category)),
      .parts = o.slurm,
      .directives = o.slurm_options};
  if (measures) {
    job.command.push_back("--resume");
    job.join = SlurmJob::Join{.option = "--csv",
                              .kind = "results",
                              .command = {this_program(), "report"},
                              .options = {"--html", job.base.string() + ".html"}};
  }
  TS_ASSIGN(const SlurmScripts scripts, write_slurm_scripts(job));
  if (o.slurm_script || o.bench.dry_run) {
    std::FILE* const out = o.bench.dry_run ? stderr : stdout;  // beside a plan, which standard output has
    fmt::print(out, "{}\n", scripts.parts.string());
    if (job.join) fmt::print(out, "{}\n", scripts.join.string());
    return {};
  }
  TS_ASSIGN(const SlurmIds ids, submit(scripts));
  fmt::print("job {} sweeps in {} parts", ids.parts, o.slurm);
  if (job.join) fmt::print(", job {} reports them in {}", ids.join, job.join->options.back());
  fmt::print("\n");
  return {};
}

/// The tier's problems as a variant takes them: those of paged caches have pages of 16 keys, the one size that
/// batch_prefill's instances have beside 1 and 1024.
BenchProblems as_variant(BenchProblems problems, std::string_view variant) {
  constexpr std::int64_t kPage = 16;
  auto* attention = std::get_if<std::vector<AttentionProblem>>(&problems);
  if (attention == nullptr || (variant != "pagedkv" && variant != "batch_prefill")) return problems;
  for (AttentionProblem& problem : *attention) {
    problem.page_size = kPage;
    if (variant == "batch_prefill") problem.mode = SequenceMode::group;
  }
  return problems;
}

Status for_arch(const CLI::App& verb, const SweepCliOptions& o) {
  constexpr std::array kOfMeasuring = {"--csv",      "--peers",         "--verify",  "--naive",
                                       "--resume",   "--device",        "--limit",   "--processor-time",
                                       "--min-time", "--target-spread", "--retakes", "--threads"};
  TS_TRY(refuse(verb, kOfMeasuring, "beside --arch, which measures nothing",
                "on a machine with the chip: --device hip:0"));
  if (!o.bench.dry_run && !o.bench.compile_only)
    return fail(ErrorCode::invalid_argument, "--arch with neither --dry-run nor --compile-only",
                "--dry-run prints the plan, --compile-only builds the kernels; measuring takes --device");
  if (o.bench.workers < 0 || o.bench.max_kernels < 0 || o.bench.max_problems < 0)
    return fail(ErrorCode::invalid_argument, "a negative count", "0 or more");
  if (o.slurm > 0) {
    TS_TRY(by_slurm(verb, o));
    if (!o.bench.dry_run) return {};
  }
  ArchSweep sweep{.arch = o.arch,
                  .origin = o.origin,
                  .variant = o.variant,
                  .ck_version = o.ck_version,
                  .json = o.bench.json,
                  .shards = {},
                  .max_kernels = o.bench.max_kernels,
                  .workers = o.bench.workers,
                  .dry_run = o.bench.dry_run};
  const int parts = o.slurm > 0 ? o.slurm : o.shards;
  if (parts > 1 && !o.bench.shard.empty())
    return fail(ErrorCode::invalid_argument, "--shards beside --shard", "one shard, or all of them");
  for (int part = 1; part <= parts; ++part) {
    BenchCliOptions of_part = o.bench;
    if (parts > 1) of_part.shard = fmt::format("{}/{}", part, parts);
    TS_ASSIGN(BenchProblems problems, problems_of(of_part));
    sweep.shards.push_back(as_variant(allowed(std::move(problems), {}, o.bench.max_problems), o.variant));
  }
  return sweep_for_arch(sweep);
}

Status sweep(const CLI::App& verb, const SweepCliOptions& o) {
  if (!o.arch.empty()) return for_arch(verb, o);
  constexpr std::array kOfArch = {"--origin", "--ck-version", "--shards"};
  TS_TRY(refuse(verb, kOfArch, "without --arch", "--arch gfx950, for example"));
  if (o.variant != "fwd")
    return fail(ErrorCode::unsupported, fmt::format("--variant {}: no kernel of it runs here", o.variant), "fwd");
  if (o.slurm > 0) return by_slurm(verb, o);
  return bench(o.bench);
}

}  // namespace

void add_sweep(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("sweep", "Measure all candidates on a tier of the built-in shape matrix");
  auto options = std::make_shared<SweepCliOptions>();
  options->add_to(*verb);
  verb->callback([verb, options, &exit_code] { exit_code = exit_code_of(sweep(*verb, *options)); });
}

}  // namespace tilesmith::cli
