// The tools that tests of code objects need, where they are installed: clang for AMD GPUs and llvm-objdump of its
// release.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "amd/program.hpp"
#include "base/error.hpp"
#include "codegen/source.hpp"
#include "jit/amdgcn_toolchain.hpp"

namespace tilesmith::amdgpu {

class Compiler {
 public:
  /// Error: what is missing, and how to get it.
  [[nodiscard]] static Result<Compiler> find();

  [[nodiscard]] Result<Program> compile(const Source& source) const;
  /// Assembler text, as one kernel of the name `snippet` without arguments beside a pointer of 8 bytes; `lds_bytes` of
  /// local memory. The descriptor is written around it.
  [[nodiscard]] Result<Program> assemble(std::string_view chip, std::string_view text, int lds_bytes = 0) const;

 private:
  Compiler(std::shared_ptr<const AmdgcnToolchain> toolchain, std::filesystem::path objdump)
      : toolchain_(std::move(toolchain)), objdump_(std::move(objdump)) {}

  std::shared_ptr<const AmdgcnToolchain> toolchain_;
  std::filesystem::path objdump_;
};

}  // namespace tilesmith::amdgpu
