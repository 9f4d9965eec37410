#include "problem/serving/types.hpp"

#include <fmt/format.h>

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

}  // namespace tilesmith
