#include "spec/amd/ck_sources.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/lasting.hpp"
#include "base/nearest.hpp"
#include "spec/json_reader.hpp"
#include "spec/spec_files.hpp"

namespace tilesmith {
namespace {

bool holds(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

Result<std::vector<std::string>> read_versions(const JsonReader& from, const CkSourcesSpec& spec) {
  TS_ASSIGN(auto names, from.strings());
  for (const std::string& name : names)
    if (std::ranges::none_of(spec.versions, [&](const auto& each) { return each.name == name; }))
      return from.refuse("names of \"versions\"");
  if (names.empty()) return from.refuse("at least one version");
  return names;
}

Result<std::array<std::vector<std::string>, 2>> read_by_mode(const JsonReader& from) {
  std::array<std::vector<std::string>, 2> out;
  TS_TRY(from.only({"batch", "group"}));
  TS_ASSIGN(out[static_cast<std::size_t>(SequenceMode::batch)], from.at("batch").strings());
  TS_ASSIGN(out[static_cast<std::size_t>(SequenceMode::group)], from.at("group").strings());
  return out;
}

/// Names of aliases must come before their use: a misspelt one would be found by a compiler only.
Status check_alias_names(const JsonReader& from, const std::vector<CkAlias>& aliases) {
  std::vector<std::string> known;
  for (const CkAlias& alias : aliases) {
    for (const std::string& argument : alias.arguments) {
      if (argument.empty()) return from.refuse("no empty argument");
      const bool is_name = argument.front() >= 'A' && argument.front() <= 'Z' && argument != "Element" &&
                           argument.find("::") == std::string::npos;
      if (is_name && !holds(known, argument))
        return from.refuse(fmt::format("{} of {} to be an earlier alias", argument, alias.name));
    }
    if (alias.class_template == "=" && (alias.arguments.size() != 1 || !is_ck_word(alias.arguments[0])))
      return from.refuse(fmt::format("one word for {}", alias.name));
    if (alias.arguments.size() == 1 && alias.class_template != "=" && is_ck_word(alias.arguments[0]))
      return from.refuse(fmt::format("an alias as the only argument of {}", alias.name));
    known.push_back(alias.name);
  }
  return {};
}

/// The class's name, or a list of it and its arguments.
Result<CkPipelineClass> read_pipeline_class(const JsonReader& from) {
  if (auto words = from.strings()) {
    if (words->empty()) return from.refuse("the name of a class, and its arguments");
    return CkPipelineClass{words->front(), {words->begin() + 1, words->end()}};
  }
  TS_ASSIGN(std::string name, from.string());
  return CkPipelineClass{std::move(name), {}};
}

Result<CkUnit> read_unit(const JsonReader& from, const CkSourcesSpec& spec) {
  TS_TRY(
      from.only({"family", "versions", "pipelines", "padded", "aliases", "make", "arguments", "grid", "splits_log2"}));
  CkUnit unit;
  TS_ASSIGN(unit.family, from.at("family").string());
  TS_ASSIGN(unit.versions, read_versions(from.at("versions"), spec));
  TS_ASSIGN(const auto pipelines, from.at("pipelines").members());
  for (const auto& [name, value] : pipelines) {
    const auto pipeline = parse_enum<Pipeline>(name);
    if (!pipeline) return std::unexpected(pipeline.error().in(value.place()));
    TS_ASSIGN(CkPipelineClass pipeline_class, read_pipeline_class(value));
    unit.pipelines.emplace_back(*pipeline, std::move(pipeline_class));
  }
  if (from.has("padded")) {
    TS_ASSIGN(const auto padded, from.at("padded").members());
    for (const auto& [name, value] : padded) {
      const auto pipeline = parse_enum<Pipeline>(name);
      if (!pipeline) return std::unexpected(pipeline.error().in(value.place()));
      TS_ASSIGN(const auto figures, value.integers(0, 1));
      if (figures.size() != 4) return value.refuse("four figures");
      std::array<std::uint8_t, 4> pads{};
      std::ranges::transform(figures, pads.begin(), [](int figure) { return static_cast<std::uint8_t>(figure); });
      unit.padded.emplace_back(*pipeline, pads);
    }
  }
  const JsonReader aliases = from.at("aliases");
  TS_ASSIGN(const auto items, aliases.elements());
  for (const JsonReader& item : items) {
    TS_TRY(item.only({"name", "template", "arguments"}));
    CkAlias alias;
    TS_ASSIGN(alias.name, item.at("name").string());
    TS_ASSIGN(alias.class_template, item.at("template").string());
    TS_ASSIGN(alias.arguments, item.at("arguments").strings());
    unit.aliases.push_back(std::move(alias));
  }
  TS_TRY(check_alias_names(aliases, unit.aliases));
  if (from.has("make")) {
    TS_ASSIGN(unit.make, from.at("make").string());
    TS_ASSIGN(unit.make_arguments, read_by_mode(from.at("arguments")));
    TS_ASSIGN(unit.grid_arguments, read_by_mode(from.at("grid")));
  }
  if (from.has("splits_log2")) {
    TS_ASSIGN(unit.splits_log2, from.at("splits_log2").integers(0, 16));
  }
  return unit;
}

Status read_flags(const JsonReader& from, CkSourcesSpec::Flags& flags) {
  TS_TRY(from.only({"all", "cdna", "rdna", "backward"}));
  TS_ASSIGN(flags.all, from.at("all").strings());
  TS_ASSIGN(flags.cdna, from.at("cdna").strings());
  TS_ASSIGN(flags.rdna, from.at("rdna").strings());
  TS_ASSIGN(flags.backward, from.at("backward").strings());
  return {};
}

}  // namespace

bool is_ck_word(std::string_view argument) {
  const auto is_upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  if (argument.empty() || argument == "true" || argument == "false" || argument == "void" || argument == "float")
    return false;
  if (argument[0] == 'k' && argument.size() > 1 && is_upper(argument[1])) return false;
  // Names of Composable Kernel itself have colons.
  return argument[0] >= 'a' && argument[0] <= 'z' && argument.find(':') == std::string_view::npos;
}

const CkPipelineClass* CkUnit::class_of(Pipeline pipeline) const {
  for (const auto& [each, pipeline_class] : pipelines)
    if (each == pipeline) return &pipeline_class;
  return nullptr;
}

const CkUnit* CkSourcesSpec::unit(Operation operation, std::string_view family, std::string_view version,
                                  Pipeline pipeline) const {
  for (const auto& [each, list] : units) {
    if (each != operation) continue;
    for (const CkUnit& unit : list)
      if (unit.family == family && holds(unit.versions, version) && unit.class_of(pipeline) != nullptr) return &unit;
  }
  return nullptr;
}

const CkSourcesSpec::Launch* CkSourcesSpec::launch(std::string_view version) const {
  for (const Launch& each : launches)
    if (holds(each.versions, version)) return &each;
  return nullptr;
}

const std::vector<std::string>* CkSourcesSpec::headers_of(Operation operation) const {
  for (const auto& [each, files] : headers)
    if (each == operation) return &files;
  return nullptr;
}

const std::string* CkSourcesSpec::arch_tag(std::string_view arch) const {
  for (const auto& [each, tag] : arch_tags)
    if (each == arch) return &tag;
  return nullptr;
}

Result<const CkSourcesSpec::Version*> CkSourcesSpec::version(std::string_view name) const {
  std::vector<std::string> known;
  for (const Version& each : versions) {
    if (each.name == name) return &each;
    known.push_back(each.name);
  }
  return fail(ErrorCode::invalid_argument, fmt::format("no Composable Kernel version {} is known", name),
              did_you_mean(std::string(name), known));
}

Result<CkSourcesSpec> parse_ck_sources_spec(std::string_view file, std::string_view text) {
  TS_ASSIGN(const nlohmann::json document, JsonReader::parse(file, text));
  const JsonReader root(std::string(file), document);
  TS_TRY(root.only({"about", "versions", "default_version", "headers", "launch", "arch_tags", "flags", "attention",
                    "gemm", "conv"}));
  CkSourcesSpec spec;
  TS_ASSIGN(const auto versions, root.at("versions").elements());
  for (const JsonReader& item : versions) {
    TS_TRY(item.only({"name", "about"}));
    CkSourcesSpec::Version version;
    TS_ASSIGN(version.name, item.at("name").string());
    TS_ASSIGN(version.about, item.at("about").string());
    spec.versions.push_back(std::move(version));
  }
  TS_ASSIGN(spec.default_version, root.at("default_version").string());
  if (!spec.version(spec.default_version)) return root.at("default_version").refuse("a name of \"versions\"");
  TS_ASSIGN(const auto headers, root.at("headers").members());
  for (const auto& [name, files] : headers) {
    const auto operation = parse_enum<Operation>(name);
    if (!operation) return std::unexpected(operation.error().in(files.place()));
    TS_ASSIGN(auto list, files.strings());
    spec.headers.emplace_back(*operation, std::move(list));
  }
  TS_ASSIGN(const auto launches, root.at("launch").elements());
  for (const JsonReader& item : launches) {
    TS_TRY(item.only({"versions", "arguments"}));
    CkSourcesSpec::Launch launch;
    TS_ASSIGN(launch.versions, read_versions(item.at("versions"), spec));
    TS_ASSIGN(launch.arguments, item.at("arguments").strings());
    for (const std::string& word : launch.arguments)
      if (word != "block_threads" && word != "min_blocks" && word != "arch_tag")
        return item.at("arguments").refuse("block_threads, min_blocks or arch_tag");
    spec.launches.push_back(std::move(launch));
  }
  for (const auto& version : spec.versions)
    if (spec.launch(version.name) == nullptr) return root.at("launch").refuse("an entry for " + version.name);
  TS_ASSIGN(const auto tags, root.at("arch_tags").members());
  for (const auto& [arch, tag] : tags) {
    TS_ASSIGN(auto text_of_tag, tag.string());
    spec.arch_tags.emplace_back(arch, std::move(text_of_tag));
  }
  TS_TRY(read_flags(root.at("flags"), spec.flags));
  for (const auto& entry : EnumTable<Operation>::kNames) {
    if (!root.has(entry.name)) continue;
    if (spec.headers_of(entry.value) == nullptr)
      return root.at("headers").refuse(fmt::format("the headers of {}", entry.name));
    TS_ASSIGN(const auto units, root.at(entry.name).elements());
    std::vector<CkUnit> list;
    for (const JsonReader& item : units) {
      TS_ASSIGN(auto unit, read_unit(item, spec));
      list.push_back(std::move(unit));
    }
    spec.units.emplace_back(entry.value, std::move(list));
  }
  return spec;
}

const Result<CkSourcesSpec>& ck_sources_spec() {
  static const Result<CkSourcesSpec>& spec = lasting([]() -> Result<CkSourcesSpec> {
    constexpr std::string_view kFile = "amd/ck/sources.json";
    TS_ASSIGN(const std::string text, spec_file_text(kFile));
    return parse_ck_sources_spec(kFile, text);
  }());
  return spec;
}

}  // namespace tilesmith
