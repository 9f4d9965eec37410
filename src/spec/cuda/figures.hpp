// Objects of a spec that hold nothing but figures: {"name": number above 0, ...}, all of which must be there.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "spec/json_reader.hpp"

namespace tilesmith {

struct SpecFigure {
  std::string_view name;
  double* into;
};

inline Status read_figure(const JsonReader& reader, const SpecFigure& figure) {
  const JsonReader value = reader.at(figure.name);
  TS_ASSIGN(*figure.into, value.number());
  return *figure.into > 0 ? Status{} : value.refuse("a number above 0");
}

/// `others`: fields of the object that are read elsewhere.
inline Status read_figures(const JsonReader& reader, std::initializer_list<SpecFigure> figures,
                           std::initializer_list<std::string_view> others = {}) {
  std::vector<std::string_view> known(others);
  for (const SpecFigure& figure : figures) known.push_back(figure.name);
  TS_TRY(reader.only(known));
  for (const SpecFigure& figure : figures) TS_TRY(read_figure(reader, figure));
  return {};
}

}  // namespace tilesmith
