// Tensors of another library by its table of DLPack functions.
#include "capi/dlpack_exchange.hpp"
#include "tilesmith.h"

using namespace tilesmith::capi;

std::int64_t tilesmith_describe_tensors(const void* exchange, void* const* objects, std::int64_t count,
                                        const void* none, std::int64_t* words, std::int64_t capacity) {
  const auto* const table = static_cast<const DlExchange*>(exchange);
  if (table == nullptr || !table->can_describe() || capacity < count) return -1;
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
    if (capacity - used < words_of(tensor)) return -1;
    words[i] = address_of(tensor);
    write_look(tensor, words + used);
    used += words_of(tensor);
  }
  return used;
}
