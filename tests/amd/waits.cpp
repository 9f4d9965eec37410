#include "amd/waits.hpp"

#include <cstdlib>
#include <string>

#include "amd/fault.hpp"
#include "amd/operand_text.hpp"

namespace tilesmith::amdgpu {
namespace {

int number(std::string_view text) {
  return static_cast<int>(std::strtol(std::string(text).c_str(), nullptr, 0));
}

}  // namespace

std::array<std::int16_t, kQueues> wait_counts(std::string_view mnemonic, std::string_view argument, const Chip& chip) {
  std::array<std::int16_t, kQueues> counts{-1, -1, -1, -1};
  const auto wait_for = [&](Counted kind, int most) {
    counts[static_cast<std::size_t>(chip.queue_of(kind))] = static_cast<std::int16_t>(most);
  };
  if (mnemonic == "s_waitcnt") {
    for (const std::string_view part : split_outside_brackets(argument, ' ')) {
      const std::size_t open = part.find('(');
      if (open == std::string_view::npos) {
        if (part == "&") continue;
        fault("the wait '{}' is not known", argument);
      }
      const std::string_view name = part.substr(0, open);
      const int most = number(part.substr(open + 1, part.size() - open - 2));
      if (name == "vmcnt")
        wait_for(Counted::load, most);
      else if (name == "lgkmcnt")
        wait_for(Counted::local, most);
      else if (name != "expcnt")
        fault("the wait '{}' is not known", argument);
    }
  } else if (mnemonic == "s_waitcnt_vscnt") {
    wait_for(Counted::store, number(argument.substr(argument.find(',') + 1)));
  } else if (mnemonic == "s_wait_loadcnt") {
    wait_for(Counted::load, number(argument));
  } else if (mnemonic == "s_wait_storecnt") {
    wait_for(Counted::store, number(argument));
  } else if (mnemonic == "s_wait_dscnt") {
    wait_for(Counted::local, number(argument));
  } else if (mnemonic == "s_wait_kmcnt") {
    wait_for(Counted::scalar, number(argument));
  } else if (mnemonic == "s_wait_loadcnt_dscnt" || mnemonic == "s_wait_storecnt_dscnt") {
    // DScnt in bits 5:0, the other in 13:8 (RDNA 4 ISA 16.5).
    wait_for(mnemonic == "s_wait_loadcnt_dscnt" ? Counted::load : Counted::store, number(argument) >> 8 & 63);
    wait_for(Counted::local, number(argument) & 63);
  }
  return counts;
}

}  // namespace tilesmith::amdgpu
