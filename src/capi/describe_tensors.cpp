// Tensors of another library by its table of DLPack functions. The declarations are those of the DLPack specification,
// version 1: https://dmlc.github.io/dlpack/latest/c_api.html
#include <cstring>

#include "tilesmith.h"

namespace {

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
};

}  // namespace

std::int64_t tilesmith_describe_tensors(const void* exchange, void* const* objects, std::int64_t count,
                                        const void* none, std::int64_t* words, std::int64_t capacity) {
  const auto* const table = static_cast<const DlExchange*>(exchange);
  if (table == nullptr || table->major != 1 || table->describe == nullptr || capacity < count) return -1;
  std::int64_t used = count;
  for (std::int64_t i = 0; i < count; ++i) {
    if (objects[i] == none) {
      if (used == capacity) return -1;
      words[i] = 0;
      words[used++] = -1;  // no tensor's rank and type
      continue;
    }
    DlTensor tensor{};
    if (table->describe(objects[i], &tensor) != 0) return -1;
    if (capacity - used < 2 + 2 * tensor.rank) return -1;
    words[i] = reinterpret_cast<std::int64_t>(tensor.data) + static_cast<std::int64_t>(tensor.byte_offset);
    std::int32_t type = 0;
    static_assert(sizeof type == sizeof tensor.type);
    std::memcpy(&type, &tensor.type, sizeof type);
    words[used++] = std::int64_t{tensor.rank} << 32 | static_cast<std::uint32_t>(type);
    words[used++] = std::int64_t{tensor.device_type} << 32 | static_cast<std::uint32_t>(tensor.device_id);
    for (std::int32_t d = 0; d < tensor.rank; ++d) words[used++] = tensor.shape[d];
    for (std::int32_t d = 0; d < tensor.rank; ++d) words[used++] = tensor.strides == nullptr ? -1 : tensor.strides[d];
  }
  return used;
}
