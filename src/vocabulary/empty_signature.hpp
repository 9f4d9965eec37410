// The signature of an operation with every field at its default.
#pragma once

#include "vocabulary/signature.hpp"

namespace tilesmith {

[[nodiscard]] inline Signature empty_signature(Operation operation) {
  switch (operation) {
    case Operation::attention:
      return AttentionSignature();
    case Operation::gemm:
      return GemmSignature();
    case Operation::conv:
      return ConvSignature();
  }
  return {};
}

}  // namespace tilesmith
