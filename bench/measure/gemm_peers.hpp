// GEMM as other libraries do it: OpenBLAS (fp32) where libopenblas.so.0 can be loaded, oneDNN where it was there to
// compile against.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/element_type.hpp"

namespace tilesmith {

struct GemmCall {
  long long m = 0, n = 0, k = 0;
  bool row_a = true, row_b = true;
  ElementType element = ElementType::fp32, output = ElementType::fp32;
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  int threads = 1;
};

struct GemmPeer {
  std::string name;
  std::function<void()> run;
};

/// `packed`: B in the layout the library likes best, converted before.
std::vector<GemmPeer> gemm_peers(const GemmCall& call, bool packed);

}  // namespace tilesmith
