// What code generation gives and the just-in-time station compiles: one kernel's text with everything that decides its
// binary. The name is for people and messages; all other fields are part of the binary's identity in the store.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tilesmith {

enum class Language : std::uint8_t {
  cpp,
  cuda,
  hip,
  ck,  ///< HIP, against the headers of Composable Kernel; the text includes them
};

struct Source {
  std::string name;          ///< the instance's name
  std::string text;          ///< self-contained; everything but entry_symbol has internal linkage
  std::string entry_symbol;  ///< the one exported symbol, extern "C", unique to the instance: [A-Za-z_][A-Za-z0-9_]*
  std::vector<std::string> options;  ///< for the compiler, in order: "-O3", "-march=x86-64-v4"
  std::string arch;                  ///< the architecture's name, for example x86_64_v4 or sm_90a
  Language language = Language::cpp;
  /// GPUs: bytes of registers that a thread may spill to memory. More are a defect, and compiling fails with the
  /// figures.
  std::uint32_t spill_limit_bytes = 0;
};

}  // namespace tilesmith
