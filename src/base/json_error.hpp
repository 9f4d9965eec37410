#pragma once

#include <string>

#include "base/json.hpp"

namespace tilesmith {

/// What the library found wrong, without the tag of the exception's class that it puts before its words.
[[nodiscard]] std::string words_of(const nlohmann::json::exception& error);

}  // namespace tilesmith
