// The host's C++ compiler as a toolchain: sources become one shared object, compiled in a private directory by a
// program started without a shell and with a cleaned environment.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "jit/toolchain.hpp"

namespace tilesmith {

class CxxToolchain final : public Toolchain {
 public:
  /// TILESMITH_CXX, else g++, clang++ or c++ in PATH.
  [[nodiscard]] static Result<std::unique_ptr<CxxToolchain>> find();
  /// A compiler by path, or by name in PATH. Asks it for its version; the answer is kept for the life of the process.
  [[nodiscard]] static Result<std::unique_ptr<CxxToolchain>> use(const std::string& compiler);

  [[nodiscard]] const std::filesystem::path& compiler() const { return compiler_; }
  [[nodiscard]] const std::string& identity() const override { return identity_; }
  [[nodiscard]] int largest_batch() const override { return 64; }
  [[nodiscard]] Result<Compiled> compile(std::span<const Source* const> sources,
                                         const CompileLimits& limits) const override;

 private:
  CxxToolchain(std::filesystem::path compiler, std::string identity)
      : compiler_(std::move(compiler)), identity_(std::move(identity)) {}

  std::filesystem::path compiler_;
  std::string identity_;
};

}  // namespace tilesmith
