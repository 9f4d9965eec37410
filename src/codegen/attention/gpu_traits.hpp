// The constants that tell a GPU's attention template what it computes, the same for every vendor.
#pragma once

#include "codegen/constants_table.hpp"
#include "vocabulary/signature.hpp"

namespace tilesmith {

void add_attention_traits(ConstantsTable& table, const AttentionSignature& signature);

}  // namespace tilesmith
