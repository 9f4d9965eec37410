// What a cubin looks like, as far as a loader looks at it, for tests against the fake driver.
#pragma once

#include <elf.h>

#include <cstring>
#include <string>

namespace tilesmith::testing {

[[nodiscard]] inline std::string cubin_of_sm_90() {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_ABIVERSION] = 8;
  header.e_machine = 190;
  header.e_flags = 0x6000004 | 90U << 8;
  return std::string(reinterpret_cast<const char*>(&header), sizeof header);
}

}  // namespace tilesmith::testing
