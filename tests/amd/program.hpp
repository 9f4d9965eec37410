// The instructions of a code object, disassembled by llvm-objdump and decoded once.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "amd/chip.hpp"
#include "amd/code_object_image.hpp"
#include "amd/instruction.hpp"
#include "base/error.hpp"

namespace tilesmith::amdgpu {

class Program {
 public:
  /// `objdump` is llvm-objdump of a release that knows the chip. Errors: what is wrong with the code object; an
  /// instruction that the interpreter does not know, by its name.
  [[nodiscard]] static Result<Program> load(std::string_view code_object, const std::filesystem::path& objdump);

  [[nodiscard]] const Chip& chip() const { return chip_; }
  [[nodiscard]] const CodeObjectImage& image() const { return image_; }
  [[nodiscard]] const std::vector<Instruction>& instructions() const { return instructions_; }
  /// Index of the instruction at an address of the image. Fault: there is none.
  [[nodiscard]] std::size_t at(std::uint64_t address) const;
  /// Makes an instruction do nothing, as a program without it would; and back.
  void remove(std::size_t index);
  void restore(std::size_t index);

 private:
  Program(CodeObjectImage image, std::string_view disassembly);

  CodeObjectImage image_;
  Chip chip_;
  std::vector<Instruction> instructions_;
};

/// One line of a disassembly, "mnemonic operands // address: words". Fault: what is not known, named.
[[nodiscard]] Instruction decode_line(std::string_view line, const Chip& chip);

}  // namespace tilesmith::amdgpu
