// The data types of calls that move rows of attention's tensors.
#pragma once

#include <string_view>

#include "base/element_type.hpp"
#include "base/error.hpp"
#include "tilesmith/types.hpp"

namespace tilesmith {

/// fp32, fp16 or bf16. Error: unsupported.
[[nodiscard]] Status check_floating_type(std::string_view operation, DataType type);
/// Of a type that check_floating_type accepts.
[[nodiscard]] ElementType floating_element(DataType type);
/// Of a cache for queries of such a type.
[[nodiscard]] ElementType cache_element(DataType queries, KvElements cache);
/// The scale of a row of such a cache of 8 bits whose largest magnitude is `largest`, where the call chooses it.
[[nodiscard]] float row_scale(float largest, KvElements cache);

}  // namespace tilesmith
