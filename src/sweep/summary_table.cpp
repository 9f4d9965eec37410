#include "sweep/summary_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json.hpp"
#include "problem/describe.hpp"
#include "spec/json_reader.hpp"

namespace tilesmith {
namespace {

std::string short_name(const Recipe& recipe) {
  return text_of_steps(recipe, [](const KernelConfig& config) {
    const Algorithm& a = config.algorithm;
    return fmt::format("{} {} {}{}", name_of(a.pipeline), name_of(a.instruction), tile_text(config),
                       a.split_k ? " split" : "");
  });
}

/// "0.00012", or behind the output's name where the worst output is not the operation's result.
std::string largest_error(const RowErrors& errors) {
  const RowError* worst = errors.worst();
  if (worst == nullptr) return "-";
  return fmt::format("{}{:.2g}", errors.worst_place == 0 ? "" : worst->output + " ", worst->max_abs);
}

/// "fp32 117 GFLOP/s, bf16 234 GFLOP/s, memory 31.0 GB/s": what is known.
std::string peaks_text(const Peaks& c) {
  std::string out;
  for (const auto& [name, rate] : {std::pair{"fp32", c.fp32_gflops},
                                   {"tf32", c.tf32_gflops},
                                   {"bf16", c.bf16_gflops},
                                   {"fp8", c.fp8_gflops},
                                   {"int8", c.int8_gops}})
    if (rate > 0) out += fmt::format("{} {:.0f} G{}/s, ", name, rate, std::string_view(name) == "int8" ? "OP" : "FLOP");
  return out + fmt::format("memory {:.1f} GB/s", c.read_gbps);
}

std::string times(double other_s, double own_s) {
  return other_s > 0 ? fmt::format("{:.2f}x", other_s / own_s) : std::string("-");
}

std::string duration(double seconds) {
  return seconds < 1e-3 ? fmt::format("{:.1f} us", seconds * 1e6)
         : seconds < 1  ? fmt::format("{:.3f} ms", seconds * 1e3)
                        : fmt::format("{:.3f} s", seconds);
}

}  // namespace

Result<PeerTimes> PeerTimes::parse(std::string_view file, std::string_view text) {
  TS_ASSIGN(const nlohmann::json document, JsonReader::parse(file, text));
  const JsonReader root(std::string(file), document);
  PeerTimes out;
  TS_ASSIGN(out.peer, root.at("peer").string());
  TS_ASSIGN(const auto rows, root.at("rows").elements());
  for (const JsonReader& row : rows) {
    TS_ASSIGN(const std::string problem, row.at("problem").string());
    TS_ASSIGN(const double median_ms, row.at("median_ms").number());
    if (!(median_ms > 0)) return row.at("median_ms").refuse("a positive number of milliseconds");
    out.median_s[problem] = median_ms * 1e-3;
  }
  return out;
}

void SummaryTable::add(const BenchRow& row) {
  const std::string problem = describe(row.problem);
  const auto [at, fresh] = index_.try_emplace(problem, lines_.size());
  if (fresh) lines_.push_back({.problem = problem, .best = row});
  Line& line = lines_[at->second];
  ++line.tried;
  const bool good =
      row.status == RowStatus::correct || row.status == RowStatus::unverified || row.status == RowStatus::compiled;
  const bool faster = good && row.timing && (!line.best.timing || row.timing->median_s < line.best.timing->median_s);
  if (good && (!line.any_good || faster)) line.best = row;
  line.any_good = line.any_good || good;
  if (good && row.timing) {
    if (row.rank == 0) line.first_s = row.timing->best_s;
    if (line.least_s == 0 || row.timing->best_s < line.least_s) line.least_s = row.timing->best_s;
  }
}

void SummaryTable::print_regret(std::FILE* out) const {
  double logarithms = 0;
  std::size_t count = 0, fastest = 0;
  const Line* worst = nullptr;
  for (const Line& line : lines_) {
    if (line.first_s == 0 || line.tried < 2) continue;
    ++count;
    fastest += line.first_s == line.least_s;
    logarithms += std::log(line.first_s / line.least_s);
    if (worst == nullptr || line.first_s / line.least_s > worst->first_s / worst->least_s) worst = &line;
  }
  if (count == 0) return;
  fmt::print(
      out,
      "the policy's first choice is the fastest of {} of {} problems; by best times it takes {:.3f}x the fastest "
      "(geometric mean), at most {:.2f}x ({})\n",
      fastest, count, std::exp(logarithms / static_cast<double>(count)), worst->first_s / worst->least_s,
      worst->problem);
}

void SummaryTable::print(std::FILE* out, const BenchSummary& summary) const {
  if (summary.peaks)
    fmt::print(out, "{}: {}\n\n",
               summary.peaks->measured ? fmt::format("measured peaks, {} thread{}", summary.peaks->threads,
                                                     summary.peaks->threads == 1 ? "" : "s")
                                       : std::string("the data sheet's peaks"),
               peaks_text(*summary.peaks));
  std::size_t widest = 7;
  std::size_t longest_name = 24;
  for (const Line& line : lines_) {
    widest = std::max(widest, line.problem.size());
    longest_name = std::max(longest_name, short_name(line.best.recipe).size());
  }
  const bool naive = std::ranges::any_of(lines_, [](const Line& line) { return line.best.naive_s > 0; });
  fmt::print(out, "{:{}}  {:>5}  {:{}}  {:>10}  {:>8}  {:>6}  {:>9}  {:>6}", "problem", widest, "tried", "best kernel",
             longest_name, "time", "TFLOP/s", "% roof", "max error", "/naive");
  if (naive) fmt::print(out, "  {:>8}", "vs naive");
  if (!peers_.peer.empty()) fmt::print(out, "  {:>8}", "vs peer");
  fmt::print(out, "\n");
  for (const Line& line : lines_) {
    fmt::print(out, "{:{}}  {:>5}  ", line.problem, widest, line.tried);
    const BenchRow& row = line.best;
    if (!line.any_good) {
      fmt::print(out, "none: {}\n", name_of(row.status));
      continue;
    }
    fmt::print(out, "{:{}}  ", short_name(row.recipe), longest_name);
    if (!row.timing) {
      fmt::print(out, "{}\n", name_of(row.status));
      continue;
    }
    fmt::print(out, "{:>10}  {:8.3f}  {:>6}  ", duration(row.timing->median_s) + (row.noisy ? " ~" : ""),
               row.timing->gflops() * 1e-3,
               row.roofline_percent > 0 ? fmt::format("{:.0f}", row.roofline_percent) : "-");
    const RowError* worst = row.errors.worst();
    fmt::print(out, "{:>9}  {:>6}", largest_error(row.errors),
               worst != nullptr ? fmt::format("{:.2f}", worst->max_ratio) : "-");
    if (naive) fmt::print(out, "  {:>8}", times(row.naive_s, row.timing->median_s));
    if (!peers_.peer.empty()) {
      const auto peer = peers_.median_s.find(line.problem);
      fmt::print(out, "  {:>8}", times(peer == peers_.median_s.end() ? 0 : peer->second, row.timing->median_s));
    }
    fmt::print(out, "\n");
  }
  fmt::print(out, "\n{} results", summary.rows);
  if (summary.resumed > 0) fmt::print(out, ", {} found in the file and not repeated", summary.resumed);
  if (summary.wrong + summary.failed > 0) fmt::print(out, ", {} wrong, {} failed", summary.wrong, summary.failed);
  fmt::print(out,
             "; times are medians with cold caches; \"/naive\" is the error over that of the same computation done "
             "plainly in this precision");
  if (!peers_.peer.empty()) fmt::print(out, "; the peer is {}", peers_.peer);
  if (summary.noisy > 0)
    fmt::print(out, "; {} noisy (~): their spread stayed above the limit (--target-spread, --min-time, --retakes)",
               summary.noisy);
  if (summary.stopped) fmt::print(out, "; interrupted, the rest was not measured");
  fmt::print(out, "\n");
  print_regret(out);
}

}  // namespace tilesmith
