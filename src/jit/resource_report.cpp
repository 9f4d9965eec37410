#include "jit/resource_report.hpp"

#include <fmt/core.h>

#include <charconv>

#include "base/json.hpp"

namespace tilesmith {
namespace {

using nlohmann::json;

constexpr std::string_view kLoss = "Potential Performance Loss";
constexpr std::string_view kRefusal = "the compiler reports a loss of performance:";

/// The number before a word: 168 in "Used 168 registers" for " registers"; 0 when there is none.
std::int64_t number_before(std::string_view line, std::string_view word) {
  const std::size_t end = line.find(word);
  if (end == std::string_view::npos) return 0;
  std::size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  std::int64_t number = 0;
  std::from_chars(line.data() + begin, line.data() + end, number);
  return number;
}

/// What stands between quotes: 'ts_attention_fwd'.
std::string_view quoted(std::string_view line) {
  const std::size_t begin = line.find('\'');
  const std::size_t end = begin == std::string_view::npos ? begin : line.find('\'', begin + 1);
  return end == std::string_view::npos ? std::string_view() : line.substr(begin + 1, end - begin - 1);
}

/// A line of ptxas without its head: "ptxas info    : (C7511) ...", "ptxas warning : ...".
std::string_view message(std::string_view line) {
  const std::size_t colon = line.find(": ");
  return colon == std::string_view::npos ? line : line.substr(colon + 2);
}

class Reader {
 public:
  void read(std::string_view line) {
    constexpr std::string_view kCompiling = "Compiling entry function ";
    constexpr std::string_view kProperties = "Function properties for ";
    if (line.find(kCompiling) != std::string_view::npos) {
      kernel_ = quoted(line);
    } else if (const std::size_t at = line.find(kProperties); at != std::string_view::npos) {
      FunctionResources& function = report.functions.emplace_back();
      function.function = line.substr(at + kProperties.size());
      function.is_kernel = function.function == kernel_;
    } else if (line.find(" bytes stack frame") != std::string_view::npos && !report.functions.empty()) {
      FunctionResources& function = report.functions.back();
      function.stack_bytes = number_before(line, " bytes stack frame");
      function.spill_store_bytes = number_before(line, " bytes spill stores");
      function.spill_load_bytes = number_before(line, " bytes spill loads");
    } else if (line.find(": Used ") != std::string_view::npos && !report.functions.empty()) {
      FunctionResources& function = report.functions.back();
      function.registers = static_cast<int>(number_before(line, " registers"));
      function.barriers = static_cast<int>(number_before(line, " barriers"));
      function.shared_bytes = number_before(line, " bytes smem");
    } else if (line.starts_with("ptxas") &&
               (line.find(": (C") != std::string_view::npos || line.find("warning :") != std::string_view::npos ||
                line.find(kLoss) != std::string_view::npos)) {
      report.advisories.emplace_back(message(line));
    }
  }

  ResourceReport report;

 private:
  std::string_view kernel_;
};

}  // namespace

std::int64_t ResourceReport::spill_bytes() const {
  std::int64_t bytes = 0;
  for (const FunctionResources& function : functions) bytes += function.spill_store_bytes + function.spill_load_bytes;
  return bytes;
}

const FunctionResources* ResourceReport::kernel(std::string_view symbol) const {
  for (const FunctionResources& function : functions)
    if (function.is_kernel && function.function == symbol) return &function;
  return nullptr;
}

ResourceReport parse_resources(std::string_view log) {
  Reader reader;
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    reader.read(log.substr(0, end));
    log.remove_prefix(std::min(end + 1, log.size()));
  }
  return std::move(reader.report);
}

Status check_resources(const ResourceReport& report, std::uint32_t spill_limit_bytes) {
  std::string losses;
  std::string hint;
  for (const std::string& advisory : report.advisories)
    if (advisory.find(kLoss) != std::string::npos) losses += "\n  " + advisory;
  if (!losses.empty()) hint = "such a kernel gives right results slowly: change its configuration or its source";
  for (const FunctionResources& each : report.functions) {
    if (std::max(each.spill_store_bytes, each.spill_load_bytes) <= std::int64_t{spill_limit_bytes}) continue;
    losses += fmt::format("\n  {} spills registers: {} bytes of stores, {} bytes of loads, with {} registers a thread",
                          each.function, each.spill_store_bytes, each.spill_load_bytes, each.registers);
    if (hint.empty())
      hint = "a smaller tile, fewer threads a block or fewer blocks a multiprocessor leave more registers";
  }
  if (losses.empty()) return {};
  return fail(ErrorCode::compile_failed, std::string(kRefusal) + losses, std::move(hint));
}

bool is_loss_of_performance(const Error& error) {
  return error.code == ErrorCode::compile_failed && error.message.find(kRefusal) != std::string::npos;
}

json to_json(const ResourceReport& report) {
  json functions = json::array();
  for (const FunctionResources& each : report.functions)
    functions.push_back({{"function", each.function},
                         {"is_kernel", each.is_kernel},
                         {"registers", each.registers},
                         {"accumulation_registers", each.accumulation_registers},
                         {"barriers", each.barriers},
                         {"shared_bytes", each.shared_bytes},
                         {"stack_bytes", each.stack_bytes},
                         {"spill_store_bytes", each.spill_store_bytes},
                         {"spill_load_bytes", each.spill_load_bytes}});
  return {{"functions", std::move(functions)}, {"advisories", report.advisories}};
}

ResourceReport resource_report_from_json(const json& json) {
  ResourceReport report;
  for (const auto& each : json.at("functions")) {
    FunctionResources& function = report.functions.emplace_back();
    each.at("function").get_to(function.function);
    each.at("is_kernel").get_to(function.is_kernel);
    each.at("registers").get_to(function.registers);
    function.accumulation_registers = each.value("accumulation_registers", 0);
    each.at("barriers").get_to(function.barriers);
    each.at("shared_bytes").get_to(function.shared_bytes);
    each.at("stack_bytes").get_to(function.stack_bytes);
    each.at("spill_store_bytes").get_to(function.spill_store_bytes);
    each.at("spill_load_bytes").get_to(function.spill_load_bytes);
  }
  json.at("advisories").get_to(report.advisories);
  return report;
}

}  // namespace tilesmith
