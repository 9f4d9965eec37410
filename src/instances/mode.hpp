// How much of an enumeration is wanted.
#pragma once

#include "vocabulary/enum_table.hpp"

namespace tilesmith {

enum class EnumerationMode : std::uint8_t {
  rules,       ///< what the vendor's rules produce
  exhaustive,  ///< every tile the axes hold, every feature: to find what the rules leave out
  tables,      ///< what an earlier enumeration from fixed tiles produced
  sound,       ///< rules, less what the vendor's own validator or the silicon refuses
};
template <>
struct EnumTable<EnumerationMode> {
  static constexpr std::string_view kWhat = "enumeration mode";
  static constexpr auto kNames = enum_names<EnumerationMode>({{EnumerationMode::rules, "rules"},
                                                              {EnumerationMode::exhaustive, "exhaustive"},
                                                              {EnumerationMode::tables, "tables"},
                                                              {EnumerationMode::sound, "sound"}});
};

}  // namespace tilesmith
