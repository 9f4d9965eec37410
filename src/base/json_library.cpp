#include "base/json.hpp"

template class nlohmann::basic_json<>;
template class nlohmann::basic_json<nlohmann::ordered_map>;
TILESMITH_JSON_TEMPLATES(, nlohmann::json)
TILESMITH_JSON_TEMPLATES(, nlohmann::ordered_json)
