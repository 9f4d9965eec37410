// clang as a toolchain for AMD GPUs: one HIP source, which includes nothing and calls the compiler's builtins alone,
// becomes one code object, strictly. It needs clang and lld, and nothing of ROCm. A kernel that spills vector registers
// without leave, or keeps memory for each lane, is refused with the figures.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jit/compiler_program.hpp"

namespace tilesmith {

/// What clang is told before the options of a source: target, processor, and that there is nothing to include or link.
[[nodiscard]] std::vector<std::string> amdgcn_arguments(const std::string& arch);

class AmdgcnToolchain final : public Toolchain {
 public:
  /// TILESMITH_AMD_CLANG, else amdclang, the newest of clang-NN (18 or newer) in PATH, ROCm's own in /opt/rocm, clang.
  [[nodiscard]] static Result<std::unique_ptr<AmdgcnToolchain>> find();
  /// A clang by path, or by name in PATH.
  [[nodiscard]] static Result<std::unique_ptr<AmdgcnToolchain>> use(const std::string& clang);

  [[nodiscard]] const std::filesystem::path& compiler() const { return compiler_.path(); }
  /// Of clang and of the linker that it calls.
  [[nodiscard]] const std::string& identity() const override { return identity_; }
  [[nodiscard]] int largest_batch() const override { return 1; }
  /// The processor comes from the source's arch, everything else from its options.
  [[nodiscard]] Result<Compiled> compile(std::span<const Source* const> sources,
                                         const CompileLimits& limits) const override;

 private:
  AmdgcnToolchain(CompilerProgram compiler, std::string identity)
      : compiler_(std::move(compiler)), identity_(std::move(identity)) {}

  CompilerProgram compiler_;
  std::string identity_;
};

}  // namespace tilesmith
