// What the sources of all CPU kernels share: the levels of instructions, and how constants, contract and fragments
// become one text.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/element_type.hpp"
#include "base/error.hpp"
#include "codegen/source.hpp"
#include "vocabulary/algorithm.hpp"

namespace tilesmith {

/// Sets of instructions a machine has; each includes those before it. The third includes AVX512-VNNI: no processor has
/// AVX512-BF16 without it.
enum class CpuLevel : std::uint8_t { x86_64_v3, x86_64_v4, x86_64_v4_bf16, x86_64_amx };

[[nodiscard]] std::string_view to_string(CpuLevel level);
/// Compiler options that allow a level's instructions; explicit, so that a binary does not depend on the building
/// machine.
[[nodiscard]] std::vector<std::string> cpu_level_options(CpuLevel level);
/// 32-bit words in a vector register.
[[nodiscard]] constexpr int cpu_lanes(CpuLevel level) {
  return level == CpuLevel::x86_64_v3 ? 8 : 16;
}

/// The constants at the head of a source.
class CpuConstants {
 public:
  void integer(std::string_view name, int value);
  void flag(std::string_view name, bool value);
  /// `constexpr Type name = Type::value;`
  void choice(std::string_view type, std::string_view name, std::string_view value);
  /// Any text, for example the declaration of an enumeration.
  void line(std::string_view text);
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// An instruction as the fragments spell it.
[[nodiscard]] std::string_view fragment_name(Instruction instruction);
/// The fragment with one step of its multiplication.
[[nodiscard]] std::string_view product_fragment(Instruction instruction);

/// What every kernel says of itself: kElement's and kInstruction's enumerations with their values, and what the level's
/// conversions can do.
void add_cpu_basics(CpuConstants& constants, CpuLevel level, ElementType element, Instruction instruction);

struct CpuStageNames {
  std::string_view tasks, run;  ///< functions of the fragments
};

/// The function table of a kernel, by the names its fragments give.
struct CpuTable {
  std::string_view workspace, scratch;
  std::string_view thread_begin = "nullptr", thread_end = "nullptr";
  std::vector<CpuStageNames> stages = {};
};

/// Instance `name` with its key: constants, then what it shares with the host (the table's type and the file
/// `arguments` with the contract it includes), then, in an unnamed namespace, the fragments, then the table. Files are
/// named by their paths below kernels/cpu.
[[nodiscard]] Result<Source> cpu_source(std::string_view name, const std::array<std::uint64_t, 2>& key, CpuLevel level,
                                        const CpuConstants& constants, std::string_view arguments,
                                        std::span<const std::string_view> fragments, const CpuTable& table);

}  // namespace tilesmith
