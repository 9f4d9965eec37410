// NVIDIA's run-time compiler as a toolchain: one CUDA source becomes one cubin, strictly. A kernel that spills
// registers without leave, whose wgmma instructions were serialised or whose setmaxnreg was ignored is refused with the
// compiler's own words.
//
// It compiles inside this process, several sources at a time from as many threads (figures in docs/architecture.md). A
// stop request and the time limit are obeyed between its phases, the longest of which, assembling, takes half of a
// compile or more; before NVRTC 12.8 only before it starts. The memory limit is for compilers that are
// programs. If the compiler itself crashes, so does this process.
#pragma once

#include <memory>
#include <string>

#include "jit/nvrtc_library.hpp"
#include "jit/toolchain.hpp"

namespace tilesmith {

class NvrtcToolchain final : public Toolchain {
 public:
  /// Where NvrtcLibrary::find looks.
  [[nodiscard]] static Result<std::unique_ptr<NvrtcToolchain>> find();
  /// A library by path, or by name on the loader's path.
  [[nodiscard]] static Result<std::unique_ptr<NvrtcToolchain>> use(const std::string& library);

  [[nodiscard]] const NvrtcLibrary& library() const { return library_; }
  [[nodiscard]] const std::string& identity() const override { return library_.identity(); }
  [[nodiscard]] int largest_batch() const override { return 1; }
  /// The architecture comes from the source's arch, everything else from its options.
  [[nodiscard]] Result<Compiled> compile(std::span<const Source* const> sources,
                                         const CompileLimits& limits) const override;

 private:
  explicit NvrtcToolchain(NvrtcLibrary library) : library_(std::move(library)) {}

  NvrtcLibrary library_;
};

}  // namespace tilesmith
