// tilesmith store: what is kept, whether it is whole, and making room.
#include <fmt/chrono.h>
#include <fmt/core.h>

#include <charconv>
#include <memory>

#include "base/env.hpp"
#include "base/json.hpp"
#include "cli/verbs.hpp"
#include "jit/kept_counts.hpp"
#include "jit/store.hpp"

namespace tilesmith::cli {
namespace {

nlohmann::json to_json(const StoreStats& stats) {
  return {{"entries", stats.entries},
          {"failures", stats.failures},
          {"bytes", stats.bytes},
          {"other_version_entries", stats.other_version_entries},
          {"other_version_bytes", stats.other_version_bytes},
          {"quarantined", stats.quarantined},
          {"in_progress", stats.in_progress}};
}

void print(const StoreStats& stats) {
  fmt::print("{} entries ({} of them remembered failures), {:.1f} MiB, {} in quarantine, {} in progress\n",
             stats.entries, stats.failures, static_cast<double>(stats.bytes) / (1 << 20), stats.quarantined,
             stats.in_progress);
  if (stats.other_version_entries > 0)
    fmt::print("{} entries of another version of tilesmith, {:.1f} MiB, are left alone\n", stats.other_version_entries,
               static_cast<double>(stats.other_version_bytes) / (1 << 20));
}

/// "500M", "2G" or a number of bytes.
Result<std::uint64_t> parse_size(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const int shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
  if (code != std::errc{} || shift < 0 || number > (std::uint64_t{1} << 62 >> shift))
    return fail(ErrorCode::invalid_argument, fmt::format("--max {}", text), "a size such as 500M or 2G");
  return number << shift;
}

nlohmann::json to_json(const BuildCounts& counts) {
  return {{"since", counts.since},
          {"hits", counts.hits},
          {"misses", counts.misses},
          {"builds", counts.builds},
          {"failed_builds", counts.failed_builds},
          {"fallbacks", counts.fallbacks},
          {"build_seconds", 1e-9 * static_cast<double>(counts.build_ns)}};
}

void print(const BuildCounts& counts) {
  if (counts.since == 0) return;
  fmt::print(
      "since {:%Y-%m-%d} all processes found {} kernels here and missed {}, compiled {} in {:.1f} s of compilers' time "
      "({} failed), and fell back to another kernel {} times\n",
      fmt::localtime(static_cast<std::time_t>(counts.since)), counts.hits, counts.misses, counts.builds,
      1e-9 * static_cast<double>(counts.build_ns), counts.failed_builds, counts.fallbacks);
}

/// Calls go on without a store, but these verbs are about it.
Result<std::unique_ptr<Store>> open_store() {
  TS_ASSIGN(const CacheDirectory place, cache_directory());
  return Store::open(place.path);
}

Status stats(bool as_json) {
  TS_ASSIGN(const std::unique_ptr<Store> store, open_store());
  TS_ASSIGN(const StoreStats stats, store->stats());
  TS_ASSIGN(const BuildCounts counts, read_counts(store->root()));
  if (as_json) {
    nlohmann::json out = to_json(stats);
    out["path"] = store->root().string();
    out["counts"] = to_json(counts);
    fmt::print("{}", json_text(out));
  } else {
    fmt::print("{}: ", store->root().string());
    print(stats);
    print(counts);
  }
  return {};
}

Status verify(bool as_json) {
  TS_ASSIGN(const std::unique_ptr<Store> store, open_store());
  TS_ASSIGN(const StoreVerdict verdict, store->verify());
  if (as_json) {
    nlohmann::json corrupt = nlohmann::json::array();
    for (const Error& error : verdict.corrupt) corrupt.push_back(error.text());
    fmt::print("{}", json_text({{"checked", verdict.checked},
                                {"other_version_entries", verdict.other_version_entries},
                                {"corrupt", std::move(corrupt)}}));
  } else {
    for (const Error& error : verdict.corrupt) fmt::print("{}\n", error.text());
    fmt::print("{} entries checked, {} were corrupt\n", verdict.checked, verdict.corrupt.size());
    if (verdict.other_version_entries > 0)
      fmt::print("{} entries of another version of tilesmith were left alone\n", verdict.other_version_entries);
  }
  if (verdict.corrupt.empty()) return {};
  return fail(ErrorCode::corrupt,
              fmt::format("{} of {} stored entries were damaged", verdict.corrupt.size(), verdict.checked),
              store->writable() ? "they are in quarantine now, and are compiled again when needed"
                                : "the store is read only, so they stay there; none of them is used");
}

Status prune(const std::string& max, OtherVersions others, bool as_json) {
  TS_ASSIGN(const std::uint64_t bytes, parse_size(max));
  TS_ASSIGN(const std::unique_ptr<Store> store, open_store());
  TS_ASSIGN(const PruneResult result, store->prune(bytes, others));
  if (as_json) {
    fmt::print("{}", json_text({{"removed", result.removed}, {"left", to_json(result.left)}}));
  } else {
    fmt::print("{} entries removed; left: ", result.removed);
    print(result.left);
  }
  return {};
}

}  // namespace

void add_store(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand("store", "The compiled kernels that are kept between runs");
  verb->require_subcommand(1);
  auto as_json = std::make_shared<bool>(false);
  auto max = std::make_shared<std::string>("1G");
  CLI::App* stats_verb = verb->add_subcommand("stats", "How many entries, how large");
  stats_verb->callback([as_json, &exit_code] { exit_code = exit_code_of(stats(*as_json)); });
  CLI::App* verify_verb =
      verb->add_subcommand("verify", "Read every entry; what is corrupt goes to quarantine, and the exit code is 1");
  verify_verb->callback([as_json, &exit_code] { exit_code = exit_code_of(verify(*as_json)); });
  CLI::App* prune_verb = verb->add_subcommand("prune", "Remove the quarantine, then what was unused for longest");
  prune_verb->add_option("--max", *max, "Size to shrink to")->capture_default_str();
  auto remove_others = std::make_shared<bool>(false);
  prune_verb->add_flag("--other-versions", *remove_others, "Remove all entries of other versions of tilesmith as well");
  prune_verb->callback([as_json, max, remove_others, &exit_code] {
    exit_code = exit_code_of(prune(*max, *remove_others ? OtherVersions::remove : OtherVersions::keep, *as_json));
  });
  for (CLI::App* each : {stats_verb, verify_verb, prune_verb}) each->add_flag("--json", *as_json, "One JSON document");
}

}  // namespace tilesmith::cli
