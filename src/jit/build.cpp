#include "jit/build.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/env.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "base/parallel.hpp"
#include "jit/counters.hpp"
#include "jit/kept_counts.hpp"

namespace tilesmith {
namespace {

// What one compiler needs at its peak for a kernel: g++ 12 takes 60 to 250 MB for generated sources.
constexpr std::uint64_t kBytesPerWorker = 512ull << 20;

/// MemAvailable of /proc/meminfo; nothing where there is none.
std::optional<std::uint64_t> available_memory() {
  const auto text = read_file("/proc/meminfo", 1 << 16);
  if (!text) return std::nullopt;
  const std::size_t label = text->find("MemAvailable:");
  if (label == std::string::npos) return std::nullopt;
  const std::size_t digits = text->find_first_of("0123456789", label);
  if (digits == std::string::npos) return std::nullopt;
  std::uint64_t kib = 0;
  std::from_chars(text->data() + digits, text->data() + text->size(), kib);
  return kib << 10;
}

Result<int> choose_workers(const BuildOptions& options) {
  if (options.workers > 0) return options.workers;
  if (env("TILESMITH_WORKERS")) return worker_count();
  const int processors = usable_processors();
  const auto memory = available_memory();
  if (!memory) return processors;
  return static_cast<int>(std::clamp<std::uint64_t>(*memory / kBytesPerWorker, 1, processors));
}

struct Job {
  const Source* source = nullptr;
  EntryKey key;
  std::optional<Result<Binary>> result{};
};

/// Counts the time until it dies.
class CompilerTime {
 public:
  CompilerTime() = default;
  CompilerTime(const CompilerTime&) = delete;
  CompilerTime& operator=(const CompilerTime&) = delete;
  ~CompilerTime() {
    const auto spent = std::chrono::steady_clock::now() - begin_;
    build_counters().build_ns.fetch_add(
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count()),
        std::memory_order_relaxed);
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

class Builder {
 public:
  Builder(Store& store, const Toolchain& toolchain, const BuildOptions& options, std::size_t total)
      : store_(store), toolchain_(toolchain), options_(options) {
    progress_.total = total;
  }

  void finish(Job& job, Result<Binary> result) {
    job.result = std::move(result);
    count(*job.result);
  }

  void count(const Result<Binary>& result) {
    const std::lock_guard guard(progress_mutex_);
    ++progress_.done;
    if (!result) ++progress_.failed;
    if (result && result->from_store) ++progress_.found;
    if (options_.progress) options_.progress(progress_);
  }

  /// How many sources are to be compiled, for what is said of each.
  void expect(std::size_t to_compile) { to_compile_ = to_compile; }

  /// Looks a job up; true when that settles it.
  bool settle(Job& job) {
    auto found = store_.find(job.key);
    if (found && !*found) return false;
    build_counters().hits.fetch_add(found.has_value(), std::memory_order_relaxed);
    finish(job, found ? Result<Binary>(std::move(**found)) : std::unexpected(std::move(found.error())));
    return true;
  }

  bool cancelled(Job& job) {
    if (!options_.limits.stop.stop_requested()) return false;
    finish(job, fail(ErrorCode::cancelled, fmt::format("{} was not compiled: cancelled", job.source->name)));
    return true;
  }

  /// One key, waiting for whoever compiles it.
  void compile_alone(Job& job) {
    if (cancelled(job)) return;
    const auto lock = store_.lock(job.key, options_.lock_wait, options_.limits.stop);
    if (!lock && cancelled(job)) return;
    if (!lock && lock.error().code == ErrorCode::busy)
      log_warn("{}: compiling {} without waiting any longer", lock.error().message, job.source->name);
    if (settle(job)) return;
    compile_locked({&job});
  }

  /// Several keys at once. What another process holds is left for afterwards: waiting with locks in hand is how
  /// deadlocks are made.
  void compile_together(const std::vector<Job*>& jobs) {
    std::vector<Job*> mine, others;
    {
      std::vector<FileLock> locks;
      for (Job* job : jobs) {
        if (cancelled(*job)) continue;
        auto lock = store_.lock(job->key, std::chrono::milliseconds(0), {});
        if (!lock && lock.error().code == ErrorCode::busy) {
          others.push_back(job);
          continue;
        }
        if (lock) locks.push_back(std::move(*lock));
        if (!settle(*job)) mine.push_back(job);
      }
      if (!mine.empty()) compile_locked(mine);
    }
    for (Job* job : others) compile_alone(*job);
  }

 private:
  void compile_locked(const std::vector<Job*>& jobs) {
    std::vector<const Source*> sources;
    for (const Job* job : jobs) {
      sources.push_back(job->source);
      if (LogLevel::info <= log_level()) say(*job);
    }
    std::optional<CompilerTime> time(std::in_place);
    auto compiled = toolchain_.compile(sources, options_.limits);
    if (!compiled && compiled.error().code == ErrorCode::out_of_memory) {
      // Once more, and of those that ran short only one at a time.
      const std::lock_guard alone(starved_);
      compiled = toolchain_.compile(sources, options_.limits);
    }
    if (!compiled && jobs.size() > 1 && compiled.error().code != ErrorCode::cancelled) {
      // One of them is to blame; each for itself tells which.
      for (Job* job : jobs) compile_locked({job});
      return;
    }
    time.reset();
    build_counters().builds.fetch_add(compiled ? jobs.size() : 0, std::memory_order_relaxed);
    if (!compiled) {
      build_counters().failed_builds.fetch_add(1, std::memory_order_relaxed);
      if (compiled.error().code == ErrorCode::compile_failed)
        store_.publish_failure(jobs[0]->key, *jobs[0]->source, compiled.error());
      for (Job* job : jobs) finish(*job, std::unexpected(compiled.error()));  // of several when it was cancelled
      return;
    }
    EntryContent content{compiled->binary, compiled->log};
    content.resources = std::move(compiled->resources);
    // The binary of a batch is stored once and linked into every entry.
    std::optional<PrivateDirectory> shared;
    if (jobs.size() > 1) {
      if (auto directory = store_.private_directory();
          directory && write_new_file(directory->path() / "binary", compiled->binary, Sync::yes)) {
        shared.emplace(std::move(*directory));
        content.same_binary = shared->path() / "binary";
      }
    }
    for (Job* job : jobs) finish(*job, store_.publish(job->key, *job->source, content));
  }

  /// Says once that a source is compiled, and how many are.
  void say(const Job& job) {
    std::size_t number = 0;
    {
      const std::lock_guard guard(progress_mutex_);
      if (!said_.insert(&job).second) return;
      number = said_.size();
    }
    log_info("compiling {} ({} of {})", job.source->name, number, to_compile_);
  }

  Store& store_;
  const Toolchain& toolchain_;
  const BuildOptions& options_;
  std::size_t to_compile_ = 0;
  std::set<const Job*> said_;
  std::mutex progress_mutex_;
  BuildProgress progress_;
  std::mutex starved_;
};

/// Jobs that one compiler call may take together, at most `largest` each.
std::vector<std::vector<Job*>> make_batches(const std::vector<Job*>& jobs, std::size_t largest) {
  using Group = std::tuple<Language, std::string, std::vector<std::string>>;
  std::map<Group, std::vector<Job*>> groups;
  for (Job* job : jobs) groups[{job->source->language, job->source->arch, job->source->options}].push_back(job);
  std::vector<std::vector<Job*>> batches;
  for (const auto& [group, members] : groups) {
    std::set<std::string_view> symbols;
    std::vector<Job*> batch;
    for (Job* job : members) {
      if (batch.size() == largest || symbols.contains(job->source->entry_symbol)) {
        batches.push_back(std::exchange(batch, {}));
        symbols.clear();
      }
      batch.push_back(job);
      symbols.insert(job->source->entry_symbol);
    }
    if (!batch.empty()) batches.push_back(std::move(batch));
  }
  return batches;
}

}  // namespace

std::vector<Result<Binary>> build(Store& store, const Toolchain& toolchain, std::span<const Source> sources,
                                  const BuildOptions& options) {
  const auto workers = choose_workers(options);
  if (!workers) return std::vector<Result<Binary>>(sources.size(), std::unexpected(workers.error()));

  Builder builder(store, toolchain, options, sources.size());
  std::map<std::string, Job> jobs;
  std::vector<Result<Job*>> job_of;
  for (const Source& source : sources) {
    auto key = entry_key(source, toolchain.identity());
    if (!key) {
      job_of.emplace_back(std::unexpected(std::move(key.error())));
      builder.count(std::unexpected(job_of.back().error()));
      continue;
    }
    const std::string digest = key->digest;
    job_of.emplace_back(&jobs.try_emplace(digest, Job{&source, std::move(*key)}).first->second);
  }

  std::vector<Job*> unique;
  for (auto& [digest, job] : jobs) unique.push_back(&job);
  const auto threads = static_cast<unsigned>(*workers);
  parallel_for(unique.size(), threads, [&](std::size_t i) { builder.settle(*unique[i]); });
  std::erase_if(unique, [](const Job* job) { return job->result.has_value(); });

  builder.expect(unique.size());
  build_counters().misses.fetch_add(unique.size(), std::memory_order_relaxed);

  // Never so large that a worker has nothing to do.
  const std::size_t share =
      (unique.size() + static_cast<std::size_t>(*workers) - 1) / static_cast<std::size_t>(*workers);
  const std::size_t largest =
      std::clamp<std::size_t>(std::min(options.batch, toolchain.largest_batch()), 1, std::max<std::size_t>(1, share));
  const std::vector<std::vector<Job*>> batches = make_batches(unique, largest);
  parallel_for(batches.size(), threads, [&](std::size_t i) {
    batches[i].size() == 1 ? builder.compile_alone(*batches[i][0]) : builder.compile_together(batches[i]);
  });

  std::vector<Result<Binary>> results;
  std::set<const Job*> counted;
  for (const Result<Job*>& job : job_of) {
    if (!job) {
      results.emplace_back(std::unexpected(job.error()));
      continue;
    }
    results.push_back(*(*job)->result);
    if (!counted.insert(*job).second) builder.count(results.back());
  }
  if (store.writable()) keep_counts(store.root(), unique.empty() ? KeepCounts::seldom : KeepCounts::now);
  return results;
}

Result<Binary> build(Store& store, const Toolchain& toolchain, const Source& source, const BuildOptions& options) {
  return std::move(build(store, toolchain, std::span(&source, 1), options)[0]);
}

}  // namespace tilesmith
