// A list of epilogue operations as the specs write it: ["bias", "relu"].
#pragma once

#include "spec/json_reader.hpp"
#include "vocabulary/traits.hpp"

namespace tilesmith {

[[nodiscard]] inline Result<GemmEpilogue> read_epilogue(const JsonReader& reader) {
  TS_ASSIGN(const auto items, reader.elements());
  GemmEpilogue epilogue;
  for (const JsonReader& item : items) {
    TS_ASSIGN(const EpilogueOp op, item.enumerator<EpilogueOp>());
    if (!epilogue.push_back(op)) return item.refuse("one of at most 8 operations");
  }
  return epilogue;
}

}  // namespace tilesmith
