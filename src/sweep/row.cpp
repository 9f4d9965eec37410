#include "sweep/row.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/csv.hpp"
#include "base/json.hpp"
#include "problem/describe.hpp"
#include "problem/json.hpp"
#include "sweep/lines.hpp"
#include "vocabulary/names/name.hpp"

namespace tilesmith {
namespace {

/// A row stays one line: a line break within a cell becomes a blank.
std::string one_line_cell(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return csv_cell(text);
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
  const RowError* const worst = row.errors.worst();
  return worst != nullptr ? number(worst->*Figure) : std::string();
}

const Column kHead[] = {
    {"identity", [](const BenchRow& r) { return r.identity(); }},
    {"operation", [](const BenchRow& r) { return std::string(operation_name_of(r.problem)); }},
    {"problem", [](const BenchRow& r) { return describe(r.problem); }},
    {"line", [](const BenchRow& r) { return r.line(); }},
};

const Column kTail[] = {
    {"threads", [](const BenchRow& r) { return std::to_string(r.threads); }},
    {"kernel", [](const BenchRow& r) { return recipe_name(r.recipe); }},
    {"key", [](const BenchRow& r) { return key_of(r.recipe).hex(); }},
    {"arch", [](const BenchRow& r) { return text_of_steps(r.recipe, [](const auto& c) { return c.arch.text(); }); }},
    {"pipeline",
     [](const BenchRow& r) {
       return text_of_steps(r.recipe, [](const auto& c) { return name_of(c.algorithm.pipeline); });
     }},
    {"instruction",
     [](const BenchRow& r) {
       return text_of_steps(r.recipe, [](const auto& c) { return name_of(c.algorithm.instruction); });
     }},
    {"tile", [](const BenchRow& r) { return text_of_steps(r.recipe, tile_text); }},
    {"rank", [](const BenchRow& r) { return std::to_string(r.rank); }},
    {"status", [](const BenchRow& r) { return std::string(name_of(r.status)); }},
    {"median_ms", [](const BenchRow& r) { return r.timing ? number(r.timing->median_s * 1e3) : std::string(); }},
    {"best_ms", [](const BenchRow& r) { return r.timing ? number(r.timing->best_s * 1e3) : std::string(); }},
    {"spread", [](const BenchRow& r) { return r.timing ? number(r.timing->spread) : std::string(); }},
    {"noisy", [](const BenchRow& r) { return r.timing ? std::string(r.noisy ? "1" : "0") : std::string(); }},
    {"samples", [](const BenchRow& r) { return r.timing ? std::to_string(r.timing->samples) : std::string(); }},
    {"tflops", [](const BenchRow& r) { return r.timing ? number(r.timing->gflops() * 1e-3) : std::string(); }},
    {"gbps", rate<&TrialTiming::gbps>},
    {"roofline_percent",
     [](const BenchRow& r) { return r.timing && r.roofline_percent > 0 ? number(r.roofline_percent) : std::string(); }},
    {"worst_output",
     [](const BenchRow& r) { return r.errors.worst() != nullptr ? r.errors.worst()->output : std::string(); }},
    {"max_abs_error", error_cell<&RowError::max_abs>},
    {"max_rel_error", error_cell<&RowError::max_rel>},
    {"rms_error", error_cell<&RowError::rms>},
    {"error_ratio_to_naive", error_cell<&RowError::max_ratio>},
    {"naive_ms", [](const BenchRow& r) { return r.naive_s > 0 ? number(r.naive_s * 1e3) : std::string(); }},
    {"message", [](const BenchRow& r) { return r.message; }},
};

/// Calls visit(name, cell) for every column; cell() makes the row's, where there is a row.
template <std::size_t N, class Visit>
void for_each_column(const Column (&columns)[N], const BenchRow* row, Visit& visit) {
  for (const Column& column : columns)
    visit(column.name, [&] { return row == nullptr ? std::string() : column.cell(*row); });
}

/// The same for every column of an operation's file, in order: a problem has one for each of its fields.
template <class Visit>
void for_each_column(std::string_view operation, const BenchRow* row, Visit visit) {
  for_each_column(kHead, row, visit);
  any_operation([&]<class Op>(Op) {
    if (Op::kName != operation) return false;
    const typename Op::Problem usual{};
    const auto* problem = row == nullptr ? &usual : std::get_if<typename Op::Problem>(&row->problem);
    Op::Problem::fields(*problem, [&](std::string_view name, const auto& value) {
      visit(name, [&] {
        std::string cell;
        append_value(cell, value);
        return cell;
      });
    });
    return true;
  });
  for_each_column(kTail, row, visit);
}

nlohmann::json to_json(const RowError& error) {
  return {{"max_abs", error.max_abs},
          {"max_rel", error.max_rel},
          {"rms", error.rms},
          {"max_ratio_to_naive", error.max_ratio}};
}

}  // namespace

RowErrors RowErrors::of(const Verdict& verdict) {
  RowErrors errors;
  const auto is_worse = [&](const RowError& one, const RowError& other) {
    if (verdict.outcome == Outcome::fail && (one.output == verdict.tensor) != (other.output == verdict.tensor))
      return one.output == verdict.tensor;
    return one.max_ratio > other.max_ratio;
  };
  for (const auto& [name, e] : verdict.tensors) {
    errors.outputs.push_back({name, e.max_abs, e.max_rel, e.rms, e.max_ratio});
    if (is_worse(errors.outputs.back(), *errors.worst())) errors.worst_place = errors.outputs.size() - 1;
  }
  return errors;
}

std::string BenchRow::line() const {
  return to_line(problem, kSweepSeed);
}

std::string tile_text(const KernelConfig& config) {
  const auto& tile = config.algorithm.tile;
  std::string text = fmt::format("{}x{}", tile[0], tile[1]);
  if (config.operation() == Operation::gemm) text += fmt::format("x{}", tile[2]);
  return text;
}

std::string BenchRow::identity() const {
  const Key128 key = key128(fmt::format("{}|{}|{}", identity_of(problem), threads, key_of(recipe).hex()));
  return fmt::format("{}{}", kIdentityVersion, key.hex());
}

nlohmann::json to_json(const BenchRow& row) {
  nlohmann::json out = {{"problem", to_json(row.problem)},
                        {"description", describe(row.problem)},
                        {"line", row.line()},
                        {"kernel", recipe_name(row.recipe)},
                        {"key", key_of(row.recipe).hex()},
                        {"config", to_json(row.recipe.main())},
                        {"status", name_of(row.status)},
                        {"threads", row.threads},
                        {"rank", row.rank}};
  if (!row.message.empty()) out["message"] = row.message;
  if (row.timing) {
    out["timing"] = to_json(*row.timing);
    out["noisy"] = row.noisy;
  }
  if (row.timing && row.roofline_percent > 0) out["roofline_percent"] = row.roofline_percent;
  if (row.naive_s > 0) out["naive_ms"] = row.naive_s * 1e3;
  for (const Step& step : row.recipe.steps)
    out["steps"].push_back({{"kernel", kernel_name(step.config)}, {"role", name_of(step.role)}});
  if (const RowError* worst = row.errors.worst()) {
    out["error"] = to_json(*worst);
    out["error"]["output"] = worst->output;
    for (const RowError& each : row.errors.outputs) out["errors"][each.output] = to_json(each);
  }
  return out;
}

std::string csv_header(std::string_view operation) {
  std::string line;
  for_each_column(operation, nullptr, [&](std::string_view name, const auto&) {
    if (!line.empty()) line += ',';
    line += name;
  });
  return line;
}

std::string csv_line(const BenchRow& row) {
  std::string line;
  for_each_column(operation_name_of(row.problem), &row, [&](std::string_view, const auto& cell) {
    if (!line.empty()) line += ',';  // the first cell, the identity, is never empty
    line += one_line_cell(cell());
  });
  return line;
}

std::optional<std::vector<std::string>> parse_csv_line(std::string_view operation, std::string_view line) {
  std::size_t at = 0;
  auto cells = next_csv_record(fmt::format("{}\n", line), at);  // a cell has no line break
  std::size_t columns = 0, place = 0;
  for_each_column(operation, nullptr, [&](std::string_view name, const auto&) {
    if (name == "operation") place = columns;
    ++columns;
  });
  if (!cells || cells->size() != columns) return std::nullopt;
  // Another operation's row may have as many cells; the header's names itself.
  if ((*cells)[place] != operation && (*cells)[place] != "operation") return std::nullopt;
  return cells;
}

}  // namespace tilesmith
