#include "spec/amd/chip.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/lasting.hpp"
#include "base/nearest.hpp"
#include "spec/amd/ck_reading.hpp"
#include "spec/json_reader.hpp"
#include "spec/spec_files.hpp"

namespace tilesmith {
namespace {

/// "fp8*bf8->fp32": inputs A and B and the accumulator.
Result<AmdFragments> read_fragments(const std::string& key, const JsonReader& from) {
  const std::size_t star = key.find('*');
  const std::size_t arrow = key.find("->");
  if (star == std::string::npos || arrow == std::string::npos || arrow < star)
    return from.refuse("a key like fp16*fp16->fp32");
  AmdFragments fragments;
  const auto type = [&](std::string_view text, DataType& into) -> Status {
    auto parsed = parse_enum<DataType>(text);
    if (!parsed) return std::unexpected(parsed.error().in(from.place()));
    into = *parsed;
    return {};
  };
  TS_TRY(type(std::string_view(key).substr(0, star), fragments.a));
  TS_TRY(type(std::string_view(key).substr(star + 1, arrow - star - 1), fragments.b));
  TS_TRY(type(std::string_view(key).substr(arrow + 2), fragments.accumulator));
  TS_ASSIGN(fragments.shapes, read_shapes<3>(from));
  return fragments;
}

Status read_fragment_table(const JsonReader& from, std::vector<AmdFragments>& into) {
  TS_ASSIGN(const auto members, from.members());
  for (const auto& [key, value] : members) {
    TS_ASSIGN(AmdFragments fragments, read_fragments(key, value));
    into.push_back(std::move(fragments));
  }
  return {};
}

Result<AmdChip::Attention> read_attention(const JsonReader& from) {
  TS_TRY(from.only({"data_types", "pipelines", "transposed_load", "v3", "async_load_bytes", "lds_banks"}));
  AmdChip::Attention attention;
  TS_ASSIGN(attention.data_types, read_enums<DataType>(from.at("data_types")));
  TS_ASSIGN(attention.pipelines, read_enums<Pipeline>(from.at("pipelines")));
  TS_ASSIGN(attention.transposed_load, from.at("transposed_load").boolean());
  TS_ASSIGN(attention.v3, from.at("v3").boolean());
  TS_ASSIGN(attention.async_load_bytes, from.at("async_load_bytes").integer<int>(1, 64));
  TS_ASSIGN(attention.lds_banks, from.at("lds_banks").integer<int>(1, 1024));
  return attention;
}

Status read_hard_limits(const JsonReader& from, AmdChip& chip) {
  TS_TRY(from.only({"about", "wave_and_fragment_tables", "max_waves_mn"}));
  TS_ASSIGN(chip.tables_are_hard, from.at("wave_and_fragment_tables").boolean());
  TS_ASSIGN(const auto limits, from.at("max_waves_mn").elements());
  for (const JsonReader& limit : limits) {
    TS_TRY(limit.only({"pipeline", "scheduler", "waves"}));
    AmdWaveLimit& into = chip.wave_limits.emplace_back();
    TS_ASSIGN(into.pipeline, limit.at("pipeline").enumerator<Pipeline>());
    TS_ASSIGN(into.scheduler, limit.at("scheduler").enumerator<Scheduler>());
    TS_ASSIGN(into.waves, limit.at("waves").integer<int>(1, 64));
  }
  return {};
}

}  // namespace

const AmdFragments* AmdChip::fragments_of(DataType a, DataType b, DataType accumulator, bool preshuffle) const {
  for (const AmdFragments& entry : preshuffle ? preshuffle_fragments : fragments)
    if (entry.a == a && entry.b == b && entry.accumulator == accumulator) return &entry;
  return nullptr;
}

Result<AmdChip> parse_amd_chip(std::string_view file, std::string_view text) {
  TS_ASSIGN(const auto document, JsonReader::parse(file, text));
  const JsonReader root(std::string(file), document);
  TS_TRY(root.only({"arch", "about", "isa", "matrix_unit", "lanes_per_wave", "lds_bytes", "fp8_encoding",
                    "waves_per_block", "fragments", "preshuffle_fragments", "hard_limits", "attention"}));
  AmdChip chip;
  TS_ASSIGN(const std::string arch, root.at("arch").string());
  auto name = ArchName::parse(arch);
  if (!name) return std::unexpected(name.error().in(root.at("arch").place()));
  chip.arch = *name;
  TS_ASSIGN(chip.about, root.at("about").string());
  TS_ASSIGN(chip.isa, root.at("isa").enumerator<AmdIsa>());
  TS_ASSIGN(chip.matrix_unit, root.at("matrix_unit").enumerator<Instruction>());
  TS_ASSIGN(chip.lanes_per_wave, root.at("lanes_per_wave").integer<int>(1, 64));
  TS_ASSIGN(chip.lds_bytes, root.at("lds_bytes").integer<long>(1, 1 << 30));
  TS_ASSIGN(chip.fp8_encoding, root.at("fp8_encoding").enumerator<Fp8Encoding>());
  TS_ASSIGN(chip.waves_per_block, read_shapes<3>(root.at("waves_per_block")));
  TS_TRY(read_fragment_table(root.at("fragments"), chip.fragments));
  TS_TRY(read_fragment_table(root.at("preshuffle_fragments"), chip.preshuffle_fragments));
  if (root.has("hard_limits")) TS_TRY(read_hard_limits(root.at("hard_limits"), chip));
  if (root.has("attention")) {
    TS_ASSIGN(chip.attention, read_attention(root.at("attention")));
  }
  return chip;
}

Result<std::vector<AmdChip>> load_amd_chips() {
  TS_ASSIGN(const std::vector<std::string> paths, spec_files("amd/chips"));
  std::vector<AmdChip> chips;
  for (const std::string& path : paths) {
    TS_ASSIGN(const std::string text, spec_file_text(path));
    TS_ASSIGN(AmdChip chip, parse_amd_chip(path, text));
    chips.push_back(std::move(chip));
  }
  std::ranges::sort(chips, {}, &AmdChip::arch);
  return chips;
}

const Result<std::vector<AmdChip>>& amd_chips() {
  static const Result<std::vector<AmdChip>>& chips = lasting(load_amd_chips());
  return chips;
}

Result<const AmdChip*> find_amd_chip(std::string_view arch) {
  const auto& chips = amd_chips();
  if (!chips) return std::unexpected(chips.error());
  std::vector<std::string> known;
  for (const AmdChip& chip : *chips) {
    if (chip.arch.text() == arch) return &chip;
    known.emplace_back(chip.arch.text());
  }
  return fail(ErrorCode::not_found, fmt::format("\"{}\" is not an AMD chip that the specs know", arch.substr(0, 64)),
              did_you_mean(arch, known));
}

}  // namespace tilesmith
