// A compiler that is a program: asked once who it is, and run without a shell, in a private directory and with a
// cleaned environment. How it fails is judged here, for all such compilers: what is the source's fault is remembered by
// the store, what is the machine's is not.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/toolchain.hpp"

namespace tilesmith {

class CompilerProgram {
 public:
  /// A program by path, or by name in PATH. Asks it for its version; the answer is kept for the life of the process.
  /// `variable` is the one that chooses another, for the hint of an error.
  [[nodiscard]] static Result<CompilerProgram> open(const std::string& name, std::string_view variable);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// The version text and the digest of the program.
  [[nodiscard]] const std::string& identity() const { return identity_; }

  /// Checks and takes what the compiler wrote; `file` lies in `directory`.
  using Take = std::function<Result<Compiled>(const std::filesystem::path& directory, const std::string& file)>;

  /// Runs `path arguments -o FILE SYMBOL.cpp...` on the sources and has `take` look at the file. An error of `take`
  /// other than `compile_failed` is an accident of the compiler's, which said that it succeeded.
  [[nodiscard]] Result<Compiled> compile(std::span<const Source* const> sources, std::vector<std::string> arguments,
                                         const CompileLimits& limits, const Take& take) const;

  /// What the program answers to arguments that compile nothing: the name of another part of it.
  [[nodiscard]] Result<std::string> ask(std::vector<std::string> arguments) const;

 private:
  CompilerProgram(std::filesystem::path path, std::string identity)
      : path_(std::move(path)), identity_(std::move(identity)) {}

  std::filesystem::path path_;
  std::string identity_;
};

}  // namespace tilesmith
