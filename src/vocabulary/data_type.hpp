// Names and properties of the data types (declared in include/tilesmith/types.hpp).
#pragma once

#include "tilesmith/types.hpp"
#include "vocabulary/enum_table.hpp"

namespace tilesmith {

template <>
struct EnumTable<DataType> {
  static constexpr std::string_view kWhat = "data type";
  static constexpr auto kNames = enum_names<DataType>({{DataType::fp32, "fp32"},
                                                       {DataType::fp16, "fp16"},
                                                       {DataType::bf16, "bf16"},
                                                       {DataType::fp8, "fp8"},
                                                       {DataType::bf8, "bf8"},
                                                       {DataType::int8, "int8"},
                                                       {DataType::int4, "int4"},
                                                       {DataType::int32, "int32"},
                                                       {DataType::tf32, "tf32"},
                                                       {DataType::fp64, "fp64"},
                                                       {DataType::fp8fp16, "fp8fp16"},
                                                       {DataType::fp8bf16, "fp8bf16"},
                                                       {DataType::fp8fp32, "fp8fp32"},
                                                       {DataType::mxfp8, "mxfp8"},
                                                       {DataType::mxfp4, "mxfp4"},
                                                       {DataType::pk_fp4, "pk_fp4"}});
  static constexpr EnumName<DataType> kAliases[] = {{DataType::fp8, "fp8e4m3"},
                                                    {DataType::bf8, "fp8e5m2"},
                                                    {DataType::fp32, "float32"},
                                                    {DataType::fp16, "float16"},
                                                    {DataType::bf16, "bfloat16"}};
};

/// The type of the inputs of an operation on `type` (fp8bf16 -> fp8).
[[nodiscard]] constexpr DataType input_type(DataType type) {
  switch (type) {
    case DataType::fp8fp16:
    case DataType::fp8bf16:
    case DataType::fp8fp32:
      return DataType::fp8;
    default:
      return type;
  }
}

/// The type of the output of an operation on `type` (fp8bf16 -> bf16).
[[nodiscard]] constexpr DataType output_type(DataType type) {
  switch (type) {
    case DataType::fp8fp16:
      return DataType::fp16;
    case DataType::fp8bf16:
      return DataType::bf16;
    case DataType::fp8fp32:
      return DataType::fp32;
    default:
      return type;
  }
}

/// What Composable Kernel's GEMMs accumulate in and write for inputs of `type`.
[[nodiscard]] constexpr DataType gemm_accumulator_type(DataType type) {
  return type == DataType::int8 ? DataType::int32 : DataType::fp32;
}
[[nodiscard]] constexpr DataType gemm_output_type(DataType type) {
  switch (type) {
    case DataType::fp8:
    case DataType::bf8:
    case DataType::pk_fp4:
      return DataType::fp16;
    case DataType::int8:
      return DataType::int32;
    default:
      return type;
  }
}

/// Bits an input element takes in memory.
[[nodiscard]] constexpr int bits_of(DataType type) {
  switch (input_type(type)) {
    case DataType::fp64:
      return 64;
    case DataType::fp32:
    case DataType::tf32:
    case DataType::int32:
      return 32;
    case DataType::fp16:
    case DataType::bf16:
      return 16;
    case DataType::int4:
    case DataType::mxfp4:
    case DataType::pk_fp4:
      return 4;
    default:
      return 8;
  }
}

}  // namespace tilesmith
