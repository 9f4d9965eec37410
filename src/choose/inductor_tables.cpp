#include "choose/inductor_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <span>

#include "base/embedded.hpp"
#include "base/json.hpp"
#include "base/json_error.hpp"
#include "base/lasting.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {

std::span<const EmbeddedFile> embedded_inductor();

namespace {

using nlohmann::json;

struct ConfigField {
  std::string_view name;
  int InductorConfig::*member;
};

constexpr std::array<ConfigField, 9> kConfigFields = {{{"block_m", &InductorConfig::block_m},
                                                       {"block_n", &InductorConfig::block_n},
                                                       {"block_k", &InductorConfig::block_k},
                                                       {"num_stages", &InductorConfig::stages},
                                                       {"num_warps", &InductorConfig::warps},
                                                       {"group_m", &InductorConfig::group_m},
                                                       {"matrix_instr_nonkdim", &InductorConfig::matrix_instr_nonkdim},
                                                       {"waves_per_eu", &InductorConfig::waves_per_eu},
                                                       {"kpack", &InductorConfig::kpack}}};

using Members = std::vector<int InductorConfig::*>;

/// Tables that name the back end's default number of stages are ROCm's alone.
constexpr int kBackendStages = 2;

Result<Members> members_of(const json& fields) {
  Members members;
  for (const json& field : fields) {
    const auto found = std::ranges::find(kConfigFields, field.get<std::string>(), &ConfigField::name);
    if (found == kConfigFields.end())
      return fail(ErrorCode::parse, fmt::format("no config has a field {}", field.dump()));
    members.push_back(found->member);
  }
  return members;
}

int number_of(const json& value) {
  return value.is_string() ? kBackendStages : value.get<int>();
}

InductorConfig config_of(const Members& members, const json& values) {
  InductorConfig config;
  for (std::size_t i = 0; i < members.size(); ++i) config.*members[i] = number_of(values.at(i));
  return config;
}

/// The values of a field whose range depends on the fields before it, as the file words them.
Result<std::vector<int>> range_of(const json& range, const InductorConfig& before) {
  if (range.is_array()) {
    std::vector<int> values;
    for (const json& value : range) values.push_back(number_of(value));
    return values;
  }
  const auto text = range.get<std::string>();
  if (text == "[4, 8] if block_m >= 128 or block_n >= 128 else [4]")
    return before.block_m >= 128 || before.block_n >= 128 ? std::vector{4, 8} : std::vector{4};
  if (text == "[0, 8 // num_warps]") return std::vector{0, 8 / before.warps};
  return fail(ErrorCode::parse, fmt::format("the range {} is not known", text));
}

Result<std::vector<InductorConfig>> product_of(const json& table, const Members& members) {
  const std::string constraint = table.value("constraint", "");
  if (!constraint.empty() && constraint != "block_n % block_m == 0")
    return fail(ErrorCode::parse, fmt::format("the constraint {} is not known", constraint));
  std::vector<InductorConfig> rows{InductorConfig{}};
  for (std::size_t i = 0; i < members.size(); ++i) {
    std::vector<InductorConfig> longer;
    for (const InductorConfig& row : rows) {
      TS_ASSIGN(const std::vector<int> values, range_of(table.at("ranges").at(table.at("fields").at(i)), row));
      for (const int value : values) {
        longer.push_back(row);
        longer.back().*members[i] = value;
      }
    }
    rows = std::move(longer);
  }
  if (!constraint.empty())
    std::erase_if(rows, [](const InductorConfig& row) { return row.block_n % row.block_m != 0; });
  return rows;
}

/// Whether `left` stands to `right` as the sign says.
Result<bool> compare(double left, std::string_view sign, double right) {
  if (sign == "<=") return left <= right;
  if (sign == ">=") return left >= right;
  if (sign == "==") return left == right;
  if (sign == "<") return left < right;
  if (sign == ">") return left > right;
  return fail(ErrorCode::parse, fmt::format("the comparison {} is not known", sign));
}

std::vector<std::string_view> words_of(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t end = text.find(separator);
    words.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return words;
    text.remove_prefix(end + separator.size());
  }
}

}  // namespace

Result<InductorTables> InductorTables::parse(std::string_view origin, std::string_view text) {
  InductorTables out;
  try {
    const json file = json::parse(text);
    for (const json& each : file.at("tables")) {
      InductorTable table{.id = each.at("id"),
                          .name = each.at("template"),
                          .device = each.at("device"),
                          .space = each.at("space"),
                          .count = each.at("count"),
                          .rows = {}};
      TS_ASSIGN(const Members members, members_of(each.at("fields")));
      if (each.contains("rows")) {
        for (const json& row : each.at("rows")) table.rows.push_back(config_of(members, row));
      } else {
        TS_ASSIGN(table.rows, product_of(each, members));
      }
      if (table.rows.size() != table.count)
        return fail(ErrorCode::parse, fmt::format("{}: table {} has {} rows and says that it has {}", origin, table.id,
                                                  table.rows.size(), table.count));
      out.tables_.push_back(std::move(table));
    }
    for (const json& each : file.at("keyed_defaults")) {
      TS_ASSIGN(const Members members, members_of(each.at("fields")));
      std::vector<Keyed>& rows = out.keyed_[each.at("id")];
      for (const json& row : each.at("rows")) {
        TS_ASSIGN(const DataType type, parse_enum<DataType>(row.at("dtype").get<std::string>()));
        rows.push_back({type, row.at("head_dim"), config_of(members, row.at("config"))});
      }
    }
    for (const json& each : file.at("fallback_rules")) {
      TS_ASSIGN(const Members members, members_of(each.at("fields")));
      const auto device = each.at("device").get<std::string>();
      Rules rules{.name = each.at("template"), .device = device.substr(0, device.find(' ')), .rules = {}};
      for (const json& rule : each.at("first_match")) {
        Rule& added = rules.rules.emplace_back(Rule{.when = rule.at("when"), .config = {}});
        if (rule.at("config").is_array()) added.config = config_of(members, rule.at("config"));
        // A condition that cannot be read is found now, not when it is asked.
        std::string_view table;
        TS_TRY(out.holds(added.when, FlexKey{.head_dim = 64}, table));
      }
      out.rules_.push_back(std::move(rules));
    }
  } catch (const json::exception& error) {
    return fail(ErrorCode::parse, fmt::format("{}: {}", origin, words_of(error)));
  }
  return out;
}

const InductorTables& InductorTables::built_in() {
  static const InductorTables& tables = lasting([] {
    const EmbeddedFile& file = embedded_inductor().front();
    auto parsed = parse(file.path, file.text);
    // A test reads the file; a library whose own data are damaged has no tables.
    return parsed ? std::move(*parsed) : InductorTables();
  }());
  return tables;
}

const std::vector<InductorConfig>& InductorTables::rows(std::string_view id) const {
  static const auto& none = lasting(std::vector<InductorConfig>());
  const auto found = std::ranges::find(tables_, id, &InductorTable::id);
  return found == tables_.end() ? none : found->rows;
}

const InductorConfig* InductorTables::keyed(std::string_view id, const FlexKey& key) const {
  const auto table = keyed_.find(id);
  if (table == keyed_.end()) return nullptr;
  for (const Keyed& row : table->second)
    if (row.type == key.type && row.head_dim == key.head_dim) return &row.config;
  return nullptr;
}

Result<bool> InductorTables::holds(std::string_view when, const FlexKey& key, std::string_view& table) const {
  constexpr std::string_view kKeyed = "(dtype, head_dim) in ";
  const double capability = key.major + key.minor / 10.0;
  bool all = true;
  double subject = 0;  // of a comparison that names none: that of the one before
  for (const std::string_view term : words_of(when, " and ")) {
    if (term == "always" || term == "otherwise") continue;
    if (term == "fp32") {
      all = all && key.type == DataType::fp32;
      continue;
    }
    if (term.starts_with(kKeyed)) {
      table = term.substr(kKeyed.size());
      all = all && keyed(table, key) != nullptr;
      continue;
    }
    const std::vector<std::string_view> words = words_of(term, " ");
    std::string_view name =
        term.substr(0, term.find_last_of("<>=") == std::string_view::npos ? 0 : term.find_first_of("<>="));
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (name == "head_dim")
      subject = key.head_dim;
    else if (name == "capability")
      subject = capability;
    else if (name == "capability minor")
      subject = key.minor;
    else if (!name.empty() || words.size() != 2)
      return fail(ErrorCode::parse, fmt::format("the condition {} is not known", term));
    double number = 0;
    const std::string_view last = words.back();
    if (const auto [end, error] = std::from_chars(last.data(), last.data() + last.size(), number);
        error != std::errc{} || end != last.data() + last.size())
      return fail(ErrorCode::parse, fmt::format("the condition {} is not known", term));
    TS_ASSIGN(const bool is_so, compare(subject, words[words.size() - 2], number));
    all = all && is_so;
  }
  return all;
}

std::optional<InductorConfig> InductorTables::flex_default(std::string_view name, const FlexKey& key) const {
  for (const Rules& rules : rules_) {
    if (rules.name != name || rules.device != key.device) continue;
    for (const Rule& rule : rules.rules) {
      std::string_view table;
      const auto is_so = holds(rule.when, key, table);
      if (is_so && *is_so) return rule.config ? *rule.config : *keyed(table, key);
    }
  }
  return std::nullopt;
}

}  // namespace tilesmith
