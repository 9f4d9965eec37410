#include "cli/slurm_job.hpp"

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/subprocess.hpp"

namespace tilesmith::cli {
namespace {

/// As one word of a POSIX shell.
std::string shell_word(std::string_view word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string shell_words(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + shell_word(word);
  return out;
}

/// A path in a directive of sbatch, which splits these lines at blanks and fills in what follows a %.
std::string directive_path(const std::filesystem::path& folder, std::string_view pattern) {
  std::string out = "\"";
  for (const char c : folder.string()) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '%') out += '%';
    out += c;
  }
  return fmt::format("{}/{}\"", out, pattern);
}

std::string head_of(const SlurmJob& job, const std::string& name, const std::string& log) {
  std::string out = fmt::format("#!/bin/sh\n#SBATCH --job-name={}\n#SBATCH --output={}\n", name,
                                directive_path(job.base.parent_path(), log));
  for (const std::string& directive : job.directives) out += "#SBATCH " + directive + "\n";
  return out;
}

/// sbatch --parsable prints "ID" or "ID;CLUSTER".
Result<std::string> run_sbatch(const std::filesystem::path& sbatch, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {sbatch.string(), "--parsable"});
  TS_ASSIGN(const ProcessOutcome outcome, run_process({.arguments = std::move(arguments)}));
  if (!outcome.succeeded())
    return fail(ErrorCode::launch_failed, fmt::format("sbatch {}: {}", outcome.describe(), outcome.errors),
                "the scripts are there: submit them by hand, or give --slurm-option what the cluster asks for");
  return outcome.output.substr(0, outcome.output.find_first_of(";\n"));
}

}  // namespace

Result<SlurmScripts> write_slurm_scripts(const SlurmJob& job) {
  const std::string base = job.base.string();
  const std::string name = "tilesmith-" + job.name;
  // An instance that Slurm requeues, or that is submitted again, goes on where its file stands.
  std::string parts =
      head_of(job, name, name + "-%A-%a.log") +
      fmt::format("#SBATCH --array=1-{0}\n#SBATCH --requeue\nset -e\nexec {1} --shard \"$SLURM_ARRAY_TASK_ID/{0}\"",
                  job.parts, shell_words(job.command));
  if (job.join) parts += fmt::format(" {} {}.part-\"$SLURM_ARRAY_TASK_ID\"", job.join->option, shell_word(base));
  SlurmScripts scripts{.parts = fmt::format("{}.{}.sbatch", base, job.name), .join = {}};
  TS_TRY(write_file_atomic(scripts.parts, parts + "\n"));
  if (!job.join) return scripts;

  // A part that failed before its first result has no file.
  const std::string join =
      head_of(job, "tilesmith-merge", "tilesmith-merge-%j.log") +
      fmt::format(
          "missing=0\nset --\ni=1\nwhile [ $i -le {} ]; do\n"
          "  part={}.part-$i\n"
          "  if [ -e \"$part\" ]; then set -- \"$@\" \"$part\"; else missing=$((missing + 1)); fi\n"
          "  i=$((i + 1))\ndone\n"
          "[ $# -gt 0 ] && {} \"$@\" {} || exit 1\n"
          "[ $missing -eq 0 ] || {{ echo \"$missing parts have no {}\" >&2; exit 1; }}\n",
          job.parts, shell_word(base), shell_words(job.join->command), shell_words(job.join->options), job.join->kind);
  scripts.join = base + ".merge.sbatch";
  TS_TRY(write_file_atomic(scripts.join, join));
  return scripts;
}

Result<SlurmIds> submit(const SlurmScripts& scripts) {
  auto sbatch = find_program("sbatch");
  if (!sbatch)
    return fail(ErrorCode::not_found, "there is no sbatch in PATH",
                fmt::format("submit {} on a host of the cluster{}", scripts.parts.string(),
                            scripts.join.empty() ? "" : fmt::format(", then {} behind it", scripts.join.string())));
  SlurmIds ids;
  TS_ASSIGN(ids.parts, run_sbatch(*sbatch, {scripts.parts.string()}));
  if (scripts.join.empty()) return ids;
  TS_ASSIGN(ids.join, run_sbatch(*sbatch, {"--dependency=afterany:" + ids.parts, scripts.join.string()}));
  return ids;
}

std::string this_program() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).string();
}

}  // namespace tilesmith::cli
