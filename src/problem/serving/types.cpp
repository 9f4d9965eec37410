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

}  // namespace tilesmith
