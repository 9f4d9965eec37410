// hipcc as a toolchain for Composable Kernel's instances: one source against a tree of Composable Kernel becomes one
// shared object, which holds the host's launch and the device's code. It needs ROCm and the tree, both looked for at
// run time. A kernel that spills vector registers without leave is refused with the figures.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/embedded.hpp"
#include "base/file.hpp"
#include "jit/compiler_program.hpp"

namespace tilesmith {

class CkToolchain final : public Toolchain {
 public:
  /// The compiler: HIPCC, else hipcc or amdclang++ in PATH or in /opt/rocm/bin. The tree: TILESMITH_CK_DIR. `headers`
  /// are what sources include as tilesmith_ck/PATH. Errors: not_found, with what is missing and where it was looked
  /// for.
  [[nodiscard]] static Result<std::unique_ptr<CkToolchain>> find(std::span<const EmbeddedFile> headers);
  /// A compiler by path or by name in PATH, and a tree with a folder include/ck_tile.
  [[nodiscard]] static Result<std::unique_ptr<CkToolchain>> use(const std::string& compiler,
                                                                const std::filesystem::path& tree,
                                                                std::span<const EmbeddedFile> headers);

  [[nodiscard]] const std::filesystem::path& compiler() const { return compiler_.path(); }
  /// Of the compiler, and the digests of the tree's ck_tile and of the headers that sources share.
  [[nodiscard]] const std::string& identity() const override { return identity_; }
  [[nodiscard]] int largest_batch() const override { return 1; }
  [[nodiscard]] Result<Compiled> compile(std::span<const Source* const> sources,
                                         const CompileLimits& limits) const override;

 private:
  CkToolchain(CompilerProgram compiler, std::string identity, std::filesystem::path tree, TemporaryDirectory headers)
      : compiler_(std::move(compiler)),
        identity_(std::move(identity)),
        tree_(std::move(tree)),
        headers_(std::move(headers)) {}

  CompilerProgram compiler_;
  std::string identity_;
  std::filesystem::path tree_;
  TemporaryDirectory headers_;  ///< with a folder tilesmith_ck
};

}  // namespace tilesmith
