// AMX in software, so that the AMX kernels' logic is checked on every machine: the generated source with its tile
// instructions replaced by calls of plain C++ that does what Intel's manual says of them.
#pragma once

#include <string>

namespace tilesmith {

inline std::string with_emulated_tiles(std::string text) {
  static constexpr const char* kEmulation = R"(
namespace {
struct EmulatedTile { alignas(64) unsigned char row[16][64]; };
thread_local EmulatedTile emulated_tile[8];
inline void emulated_load(int t, const void* from, long long stride) {
  for (int r = 0; r < 16; ++r) __builtin_memcpy(emulated_tile[t].row[r], static_cast<const char*>(from) + r * stride, 64);
}
inline void emulated_store(int t, void* to, long long stride) {
  for (int r = 0; r < 16; ++r) __builtin_memcpy(static_cast<char*>(to) + r * stride, emulated_tile[t].row[r], 64);
}
inline void emulated_zero(int t) { __builtin_memset(&emulated_tile[t], 0, sizeof(EmulatedTile)); }
inline float emulated_bf16(const unsigned char* at) {
  const unsigned bits = (at[0] | (unsigned)at[1] << 8) << 16;
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}
inline void emulated_dot(int c, int a, int b) {
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 16; ++n) {
      float sum;
      __builtin_memcpy(&sum, emulated_tile[c].row[m] + 4 * n, 4);
      for (int k = 0; k < 32; ++k) {
        sum += emulated_bf16(emulated_tile[a].row[m] + 2 * k) * emulated_bf16(emulated_tile[b].row[k / 2] + 4 * n + k % 2 * 2);
      }
      __builtin_memcpy(emulated_tile[c].row[m] + 4 * n, &sum, 4);
    }
  }
}
inline void emulated_dot_int8(int c, int a, int b) {
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 16; ++n) {
      int sum;
      __builtin_memcpy(&sum, emulated_tile[c].row[m] + 4 * n, 4);
      for (int k = 0; k < 64; ++k) {
        sum += (signed char)emulated_tile[a].row[m][k] * (signed char)emulated_tile[b].row[k / 4][4 * n + k % 4];
      }
      __builtin_memcpy(emulated_tile[c].row[m] + 4 * n, &sum, 4);
    }
  }
}
}
)";
  struct Replacement {
    const char *mnemonic, *call;
  };
  for (const Replacement& r :
       {Replacement{"tileloadd ", "emulated_load(kTile, from, stride);"},
        Replacement{"tileloaddt1 ", "emulated_load(kTile, from, stride);"},
        Replacement{"tilestored", "emulated_store(kTile, to, stride);"},
        Replacement{"tilezero", "emulated_zero(kTile);"}, Replacement{"tdpbf16ps", "emulated_dot(kC, kA, kB);"},
        Replacement{"tdpbssd", "emulated_dot_int8(kC, kA, kB);"}, Replacement{"ldtilecfg", ";"},
        Replacement{"tilerelease", ";"}}) {
    const std::size_t at = text.find(std::string("asm volatile(\"") + r.mnemonic);
    if (at == std::string::npos) continue;
    text.replace(at, text.find(';', at) + 1 - at, r.call);
  }
  return kEmulation + text;
}

}  // namespace tilesmith
