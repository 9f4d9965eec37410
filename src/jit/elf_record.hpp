// Records of ELF files, read from bytes that need not be whole.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace tilesmith {

/// The record at an offset; nothing when it does not lie within the bytes.
template <class Record>
[[nodiscard]] std::optional<Record> record_at(std::string_view bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(Record)) return std::nullopt;
  Record record;
  std::memcpy(&record, bytes.data() + offset, sizeof record);
  return record;
}

}  // namespace tilesmith
