// How elements of a data type lie in memory.
#pragma once

#include "base/element_type.hpp"
#include "vocabulary/data_type.hpp"

namespace tilesmith {

/// Types that travel as bytes of another (fp4, int4) are uint8.
[[nodiscard]] constexpr ElementType memory_type_of(DataType type) {
  switch (input_type(type)) {
    case DataType::fp64:
      return ElementType::fp64;
    case DataType::fp32:
    case DataType::tf32:
      return ElementType::fp32;
    case DataType::fp16:
      return ElementType::fp16;
    case DataType::bf16:
      return ElementType::bf16;
    case DataType::fp8:
    case DataType::mxfp8:
      return ElementType::fp8e4m3;
    case DataType::bf8:
      return ElementType::fp8e5m2;
    case DataType::int8:
      return ElementType::int8;
    case DataType::int32:
      return ElementType::int32;
    default:
      return ElementType::uint8;
  }
}

}  // namespace tilesmith
