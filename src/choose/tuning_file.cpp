#include "choose/tuning_file.hpp"

#include <fmt/format.h>

#include <tuple>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/json_error.hpp"
#include "vocabulary/canonical.hpp"

namespace tilesmith {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;
constexpr std::uint64_t kFileLimit = 256u << 20;

json to_json(const TunedChoice& choice) {
  return {{"device_class", choice.device_class},
          {"problem", choice.problem},
          {"line", choice.line},
          {"recipe", choice.recipe.hex()},
          {"name", choice.name},
          {"seconds", choice.seconds},
          {"gain", choice.gain},
          {"confirmed", choice.is_confirmed}};
}

json to_json(const std::vector<TunedChoice>& choices) {
  json out = json::array();
  for (const TunedChoice& choice : choices) out.push_back(to_json(choice));
  return out;
}

/// Names of devices come from outside; bytes that are no UTF-8 are replaced.
std::string text_of(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string digest_of(const json& choices) {
  return to_hex(sha256(text_of(choices)));
}

auto order_of(const TunedChoice& choice) {
  return std::tie(choice.device_class, choice.problem);
}

Result<TunedChoice> choice_from(const json& from) {
  TunedChoice choice{.device_class = from.at("device_class"),
                     .problem = from.at("problem"),
                     .line = from.at("line"),
                     .recipe = {},
                     .name = from.at("name"),
                     .seconds = from.at("seconds"),
                     .gain = from.at("gain"),
                     .is_confirmed = from.at("confirmed")};
  TS_ASSIGN(choice.recipe, Key128::parse(from.at("recipe").get<std::string>()));
  return choice;
}

}  // namespace

std::string TuningFile::digest() const {
  return digest_of(to_json(choices));
}

std::string TuningFile::to_text() const {
  const json list = to_json(choices);
  std::string out = fmt::format("{{\"tilesmith_tuning\": {}, \"keys\": \"{}\", \"digest\": \"{}\", \"choices\": [",
                                kFormat, kCanonicalVersion, digest_of(list));
  const char* separator = "\n";
  for (const json& choice : list) {
    out += separator + text_of(choice);
    separator = ",\n";
  }
  return out + "\n]}\n";
}

Result<TuningFile> TuningFile::parse(std::string_view origin, std::string_view text) {
  const auto wrong = [&](std::string what, std::string hint = "a file that tilesmith db publish wrote",
                         ErrorCode code = ErrorCode::parse) {
    return fail(code, fmt::format("{}: {}", origin, what), std::move(hint));
  };
  TuningFile file;
  try {
    const json document = json::parse(text);
    if (!document.is_object() || !document.contains("tilesmith_tuning")) return wrong("this is no tuning file");
    if (const auto format = document.at("tilesmith_tuning").get<int>(); format != kFormat)
      return wrong(fmt::format("its format is {}, and this program reads {}", format, kFormat),
                   "publish it again with this version of tilesmith");
    if (const auto keys = document.at("keys").get<std::string>(); keys != kCanonicalVersion)
      return wrong(fmt::format("its keys have version {}, and this program's have {}", keys, kCanonicalVersion),
                   "publish it again with this version of tilesmith");
    const json& choices = document.at("choices");
    for (const json& each : choices) {
      TS_ASSIGN(TunedChoice choice, choice_from(each));
      if (!file.choices.empty() && !(order_of(file.choices.back()) < order_of(choice)))
        return wrong(fmt::format("the choice for {} is out of order, or there are two", choice.line));
      file.choices.push_back(std::move(choice));
    }
    if (digest_of(choices) != document.at("digest").get<std::string>())
      return wrong("its choices do not match its digest: the file was changed or is torn",
                   "publish it again, or copy it again", ErrorCode::corrupt);
  } catch (const json::exception& error) {
    return wrong(words_of(error));
  }
  return file;
}

Result<TuningFile> TuningFile::read(const std::filesystem::path& path) {
  TS_ASSIGN(const std::string text, read_file(path, kFileLimit));
  return parse(path.string(), text);
}

MeasuredTable TuningFile::table_for(std::string_view device_class) const {
  MeasuredTable table;
  for (const TunedChoice& choice : choices)
    if (choice.device_class == device_class) table.add(choice.problem, choice.recipe, choice.seconds);
  return table;
}

}  // namespace tilesmith
