// The host's C++ compiler as a toolchain: sources become one shared object, which a process of its own has loaded once
// before it is taken.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "jit/compiler_program.hpp"

namespace tilesmith {

class CxxToolchain final : public Toolchain {
 public:
  /// TILESMITH_CXX, else g++, clang++ or c++ in PATH. The words of TILESMITH_CXXFLAGS follow each source's own options
  /// and belong to the identity, so that kernels compiled with them are entries of their own in the store.
  [[nodiscard]] static Result<std::unique_ptr<CxxToolchain>> find();
  /// A compiler by path, or by name in PATH. Asks it for its version; the answer is kept for the life of the process.
  [[nodiscard]] static Result<std::unique_ptr<CxxToolchain>> use(const std::string& compiler);

  [[nodiscard]] const std::filesystem::path& compiler() const { return compiler_.path(); }
  [[nodiscard]] const std::string& identity() const override { return identity_; }
  [[nodiscard]] int largest_batch() const override { return 64; }
  [[nodiscard]] Result<Compiled> compile(std::span<const Source* const> sources,
                                         const CompileLimits& limits) const override;

 private:
  CxxToolchain(CompilerProgram compiler, std::string identity, std::vector<std::string> flags)
      : compiler_(std::move(compiler)), identity_(std::move(identity)), flags_(std::move(flags)) {}

  CompilerProgram compiler_;
  std::string identity_;
  std::vector<std::string> flags_;
};

}  // namespace tilesmith
