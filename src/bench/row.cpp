#include "bench/row.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/problem_json.hpp"
#include "kernel/native_name.hpp"

namespace tilesmith {
namespace {

/// RFC 4180: cells with a comma, quote or line break are quoted, quotes doubled.
std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c == '\n' || c == '\r' ? ' ' : c;
  }
  return out + '"';
}

struct Column {
  std::string_view name;
  std::string (*cell)(const BenchRow&);
};

std::string number(double value) {
  return fmt::format("{:.6g}", value);
}

template <double (TrialTiming::*Figure)() const>
std::string rate(const BenchRow& row) {
  return row.timing ? number(((*row.timing).*Figure)()) : std::string();
}

template <double RowError::*Figure>
std::string error_cell(const BenchRow& row) {
  return row.error ? number((*row.error).*Figure) : std::string();
}

std::string joined(const std::array<std::uint16_t, 9>& tile) {
  return fmt::format("{}x{}", tile[0], tile[1]);
}

const Column kColumns[] = {
    {"identity", [](const BenchRow& r) { return r.identity(); }},
    {"operation", [](const BenchRow&) { return std::string("attention_fwd"); }},
    {"data_type", [](const BenchRow& r) { return std::string(name_of(r.problem.data_type)); }},
    {"mode", [](const BenchRow& r) { return std::string(name_of(r.problem.mode)); }},
    {"batch", [](const BenchRow& r) { return std::to_string(r.problem.batch); }},
    {"heads_q", [](const BenchRow& r) { return std::to_string(r.problem.heads_q); }},
    {"heads_kv", [](const BenchRow& r) { return std::to_string(r.problem.heads_kv); }},
    {"seqlen_q", [](const BenchRow& r) { return std::to_string(r.problem.seqlen_q); }},
    {"seqlen_k", [](const BenchRow& r) { return std::to_string(r.problem.seqlen_k); }},
    {"head_dim_qk", [](const BenchRow& r) { return std::to_string(r.problem.head_dim_qk); }},
    {"head_dim_v", [](const BenchRow& r) { return std::to_string(r.problem.head_dim_v); }},
    {"mask", [](const BenchRow& r) { return std::string(name_of(r.problem.mask)); }},
    {"window_left", [](const BenchRow& r) { return std::to_string(r.problem.window_left); }},
    {"window_right", [](const BenchRow& r) { return std::to_string(r.problem.window_right); }},
    {"bias", [](const BenchRow& r) { return std::string(name_of(r.problem.bias)); }},
    {"soft_cap", [](const BenchRow& r) { return std::to_string(r.problem.soft_cap); }},
    {"sink", [](const BenchRow& r) { return std::to_string(r.problem.sink); }},
    {"dropout", [](const BenchRow& r) { return std::to_string(r.problem.dropout); }},
    {"lse", [](const BenchRow& r) { return std::to_string(r.problem.lse); }},
    {"threads", [](const BenchRow& r) { return std::to_string(r.threads); }},
    {"kernel", [](const BenchRow& r) { return native_name(r.config); }},
    {"key", [](const BenchRow& r) { return key_of(r.config).hex(); }},
    {"arch", [](const BenchRow& r) { return std::string(r.config.arch.text()); }},
    {"pipeline", [](const BenchRow& r) { return std::string(name_of(r.config.algorithm.pipeline)); }},
    {"instruction", [](const BenchRow& r) { return std::string(name_of(r.config.algorithm.instruction)); }},
    {"tile", [](const BenchRow& r) { return joined(r.config.algorithm.tile); }},
    {"status", [](const BenchRow& r) { return std::string(name_of(r.status)); }},
    {"median_ms", [](const BenchRow& r) { return r.timing ? number(r.timing->median_s * 1e3) : std::string(); }},
    {"best_ms", [](const BenchRow& r) { return r.timing ? number(r.timing->best_s * 1e3) : std::string(); }},
    {"spread", [](const BenchRow& r) { return r.timing ? number(r.timing->spread) : std::string(); }},
    {"samples", [](const BenchRow& r) { return r.timing ? std::to_string(r.timing->samples) : std::string(); }},
    {"tflops", [](const BenchRow& r) { return r.timing ? number(r.timing->gflops() * 1e-3) : std::string(); }},
    {"gbps", rate<&TrialTiming::gbps>},
    {"roofline_percent",
     [](const BenchRow& r) { return r.timing && r.roofline_percent > 0 ? number(r.roofline_percent) : std::string(); }},
    {"max_abs_error", error_cell<&RowError::max_abs>},
    {"max_rel_error", error_cell<&RowError::max_rel>},
    {"rms_error", error_cell<&RowError::rms>},
    {"error_ratio_to_naive", error_cell<&RowError::max_ratio>},
    {"naive_ms", [](const BenchRow& r) { return r.naive_s > 0 ? number(r.naive_s * 1e3) : std::string(); }},
    {"message", [](const BenchRow& r) { return r.message; }},
};

}  // namespace

std::string BenchRow::identity() const {
  const AttentionProblem& p = problem;
  const std::string text = fmt::format(
      "{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", name_of(p.data_type), name_of(p.mode), p.batch,
      p.heads_q, p.heads_kv, p.seqlen_q, p.seqlen_k, p.head_dim_qk, p.head_dim_v, name_of(p.mask), p.window_left,
      p.window_right, name_of(p.bias), p.soft_cap, p.sink, p.dropout, p.lse, threads, key_of(config).hex());
  return key128(text).hex();
}

nlohmann::json to_json(const BenchRow& row) {
  nlohmann::json out = {{"problem", to_json(row.problem)}, {"kernel", native_name(row.config)},
                        {"key", key_of(row.config).hex()}, {"config", to_json(row.config)},
                        {"status", name_of(row.status)},   {"threads", row.threads}};
  if (!row.message.empty()) out["message"] = row.message;
  if (row.timing) out["timing"] = to_json(*row.timing);
  if (row.timing && row.roofline_percent > 0) out["roofline_percent"] = row.roofline_percent;
  if (row.naive_s > 0) out["naive_ms"] = row.naive_s * 1e3;
  if (row.error)
    out["error"] = {{"max_abs", row.error->max_abs},
                    {"max_rel", row.error->max_rel},
                    {"rms", row.error->rms},
                    {"max_ratio_to_naive", row.error->max_ratio}};
  return out;
}

std::string csv_header() {
  std::string line;
  for (const Column& column : kColumns) {
    if (!line.empty()) line += ',';
    line += column.name;
  }
  return line;
}

std::string csv_line(const BenchRow& row) {
  std::string line;
  for (const Column& column : kColumns) {
    if (&column != kColumns) line += ',';
    line += csv_cell(column.cell(row));
  }
  return line;
}

std::optional<std::vector<std::string>> parse_csv_line(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted) {
      if (c != '"')
        cells.back() += c;
      else if (i + 1 < line.size() && line[i + 1] == '"')
        cells.back() += line[++i];
      else
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  if (quoted || cells.size() != std::size(kColumns)) return std::nullopt;
  return cells;
}

}  // namespace tilesmith
