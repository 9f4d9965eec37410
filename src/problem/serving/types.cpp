#include "problem/serving/types.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "vocabulary/data_type.hpp"

namespace tilesmith {

Status check_floating_type(std::string_view operation, DataType type) {
  if (type == DataType::fp32 || type == DataType::fp16 || type == DataType::bf16) return {};
  return fail(ErrorCode::unsupported, fmt::format("{} of {}", operation, name_of(type)), "fp32, fp16 or bf16");
}

ElementType floating_element(DataType type) {
  if (type == DataType::fp16) return ElementType::fp16;
  return type == DataType::bf16 ? ElementType::bf16 : ElementType::fp32;
}

ElementType cache_element(DataType queries, KvElements cache) {
  switch (cache) {
    case KvElements::as_queries:
      return floating_element(queries);
    case KvElements::fp8:
      return ElementType::fp8e4m3;
    case KvElements::int8:
      return ElementType::int8;
  }
  return floating_element(queries);
}

float row_scale(float largest, KvElements cache) {
  if (largest == 0.0F) return 1.0F;
  return std::clamp(largest / (cache == KvElements::int8 ? 127.0F : 448.0F), std::numeric_limits<float>::min(),
                    std::numeric_limits<float>::max());
}

}  // namespace tilesmith
