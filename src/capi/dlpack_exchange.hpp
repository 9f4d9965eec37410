// The table of functions by which a Python library tells of its tensors. The declarations are those of the DLPack
// specification, version 1: https://dmlc.github.io/dlpack/latest/c_api.html
#pragma once

#include <cstdint>
#include <cstring>

namespace tilesmith::capi {

struct DlDataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct DlTensor {
  void* data;
  std::int32_t device_type, device_id;
  std::int32_t rank;
  DlDataType type;
  std::int64_t* shape;
  std::int64_t* strides;  // null: dense
  std::uint64_t byte_offset;
};
struct DlExchange {
  std::uint32_t major, minor;
  DlExchange* previous;
  void *allocate, *from_object, *to_object;
  int (*describe)(void* object, DlTensor* out);  // may be null

  [[nodiscard]] bool can_describe() const { return major == 1 && describe != nullptr; }
};

[[nodiscard]] inline std::int64_t address_of(const DlTensor& tensor) {
  return reinterpret_cast<std::int64_t>(tensor.data) + static_cast<std::int64_t>(tensor.byte_offset);
}

[[nodiscard]] inline std::int64_t words_of(const DlTensor& tensor) {
  return 2 + 2 * std::int64_t{tensor.rank};
}

/// Writes the tensor's type, device, sizes and strides: words that are equal exactly where all of these are.
inline void write_look(const DlTensor& tensor, std::int64_t* words) {
  std::int32_t type = 0;
  static_assert(sizeof type == sizeof tensor.type);
  std::memcpy(&type, &tensor.type, sizeof type);
  *words++ = std::int64_t{tensor.rank} << 32 | static_cast<std::uint32_t>(type);
  *words++ = std::int64_t{tensor.device_type} << 32 | static_cast<std::uint32_t>(tensor.device_id);
  for (std::int32_t d = 0; d < tensor.rank; ++d) *words++ = tensor.shape[d];
  for (std::int32_t d = 0; d < tensor.rank; ++d) *words++ = tensor.strides == nullptr ? -1 : tensor.strides[d];
}

}  // namespace tilesmith::capi
