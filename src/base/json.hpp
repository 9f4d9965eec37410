#pragma once

// nlohmann's JSON, whose templates json_library.cpp compiles once: a source that compiles them for itself takes an
// eighth longer.
#include <nlohmann/json.hpp>

#include <string>

#define TILESMITH_JSON_TEMPLATES(prefix, json)                                                                \
  prefix template class nlohmann::detail::serializer<json>;                                                   \
  prefix template class nlohmann::detail::lexer<                                                              \
      json, nlohmann::detail::iterator_input_adapter<std::string::const_iterator>>;                           \
  prefix template class nlohmann::detail::lexer<json, nlohmann::detail::iterator_input_adapter<const char*>>; \
  prefix template class nlohmann::detail::parser<                                                             \
      json, nlohmann::detail::iterator_input_adapter<std::string::const_iterator>>;                           \
  prefix template class nlohmann::detail::parser<json, nlohmann::detail::iterator_input_adapter<const char*>>;

extern template class nlohmann::basic_json<>;
extern template class nlohmann::basic_json<nlohmann::ordered_map>;
TILESMITH_JSON_TEMPLATES(extern, nlohmann::json)
TILESMITH_JSON_TEMPLATES(extern, nlohmann::ordered_json)
