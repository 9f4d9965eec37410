// One decoded instruction: what it does, and its operands and modifiers as the handlers need them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tilesmith::amdgpu {

class Wave;
struct Instruction;
using Handler = void (*)(Wave&, const Instruction&);

/// A row of a table of operations. Mnemonics are the assembler's, without the encoding (_e32, _e64, _sdwa, _dpp).
struct Operation {
  std::string_view mnemonic;
  Handler execute;
  enum Flags : std::uint8_t {
    plain = 0,
    text_operands = 1,  ///< what follows the mnemonic is no list of operands
    keeps_high = 2,     ///< a 16-bit result leaves the destination's other half as it is, on every chip
    scalar_words = 4,   ///< float constants are words of 32 bits whatever the mnemonic's last type is
  };
  std::uint8_t flags = plain;
};

/// Where scalar registers lie among all: the names that are not s0, s1, ...
enum ScalarIndex : std::uint16_t {
  kVcc = 106,
  kTtmp = 108,
  kM0 = 124,
  kNull = 125,  ///< reads as 0, what is written is lost
  kExec = 126,
  kScc = 128,
  kVccZ = 129,
  kExecZ = 130,
};
inline constexpr int kScalars = 128;
inline constexpr int kAccumulation = 256;  ///< the first accumulation register (AGPR), behind the vector registers

struct Operand {
  enum class Kind : std::uint8_t { none, vector, scalar, constant, off };
  Kind kind = Kind::none;
  std::uint8_t words = 1;  ///< registers
  std::uint16_t index = 0;
  bool negate = false, absolute = false, sign_extend = false;
  bool high_half = false;      ///< ".h": the upper 16 bits
  bool names_half = false;     ///< ".l" or ".h"
  bool literal = false;        ///< a constant that the instruction carries, not one of the inline ones
  std::uint64_t constant = 0;  ///< bits
};

/// Parts of words that SDWA selects (Vega ISA, 13.3.8).
enum class Select : std::uint8_t { byte0, byte1, byte2, byte3, word0, word1, dword };

/// Data-parallel primitives: from which lane each lane has its first source.
struct Dpp {
  std::array<std::int8_t, 64> from;  ///< -1: there is none
  std::uint64_t enabled = 0;         ///< lanes that row_mask and bank_mask let through
  bool zero_without = false;         ///< bound_ctrl: a lane without a source reads 0; else it is not written
  bool fetch_inactive = false;       ///< fi: lanes outside EXEC are read
};

struct Modifiers {
  std::int32_t offset = 0, offset1 = 0;
  std::uint8_t op_sel = 0, op_sel_hi = 0xff, neg_lo = 0, neg_hi = 0;  ///< a bit an operand
  bool clamp = false;
  float output_scale = 1;  ///< omod
  bool sdwa = false;
  Select dst_select = Select::dword, select[2] = {Select::dword, Select::dword};
  enum class Unused : std::uint8_t { pad, sext, preserve } unused = Unused::pad;
  int cbsz = 0, abid = 0, blgp = 0;
  int bitop3 = 0;
  int index_key = 0;
  bool offset_enable = false, index_enable = false;  ///< offen, idxen of buffer instructions
  bool to_lds = false;
  int wait_exp = -1;
  std::unique_ptr<Dpp> dpp;
};

struct Instruction {
  Handler execute = nullptr;
  const Operation* operation = nullptr;
  std::array<Operand, 8> operands{};
  int count = 0;  ///< operands
  Modifiers modifiers;
  std::uint64_t address = 0;
  int bytes = 0;
  std::uint32_t encoding = 0;                         ///< its first word
  std::int32_t target = -1;                           ///< of a branch: index of the instruction
  std::string argument;                               ///< of an operation with text_operands
  std::array<std::int16_t, 4> waits{-1, -1, -1, -1};  ///< most that may be outstanding, by Counter; -1: any number
  std::unique_ptr<Instruction> second;                ///< of a dual instruction, done at the same time
  std::string text;

  [[nodiscard]] const Operand& at(int i) const { return operands[static_cast<std::size_t>(i)]; }
};

}  // namespace tilesmith::amdgpu
