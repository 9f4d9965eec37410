// From instances to binaries: generates each instance's source and finds it in the store, or compiles it into the
// store. The toolchain is looked for when the first kernel is needed, and a failure to find one is remembered.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/fork.hpp"
#include "codegen/source.hpp"
#include "dispatch/backend.hpp"
#include "jit/store.hpp"
#include "jit/toolchain.hpp"
#include "spec/cpu/spec.hpp"
#include "spec/cuda/spec.hpp"
#include "spec/hip/spec.hpp"
#include "vocabulary/config.hpp"

namespace tilesmith {

/// Whether compiled kernels must be there for the next process.
enum class Keep : std::uint8_t { if_possible, required };

class KernelBuilder {
 public:
  using Generate = std::function<Result<Source>(const KernelConfig&)>;
  using FindToolchain = std::function<Result<std::unique_ptr<Toolchain>>()>;

  KernelBuilder(Generate generate, FindToolchain find_toolchain, CompileLimits limits = {})
      : generate_(std::move(generate)), find_toolchain_(std::move(find_toolchain)), limits_(std::move(limits)) {}

  /// The instance's binary. Thread-safe. Errors: not_found when it is not in the store and compiling is not allowed, or
  /// there is no toolchain; compile_failed; those of the store.
  [[nodiscard]] Result<Binary> find(const KernelConfig& config, BuildPolicy policy);

  /// The binary of a kernel that belongs to no config: there is nothing to choose about it.
  [[nodiscard]] Result<Binary> find(const Source& source, BuildPolicy policy);

  /// Compiles what is not in the store, several at a time; one status per config, in order. With Keep::required a
  /// kernel that the store cannot take is an error too, and nothing is compiled for a store that takes nothing.
  [[nodiscard]] std::vector<Status> build(std::span<const KernelConfig> configs, int workers,
                                          const BuildCounter& progress, Keep keep = Keep::if_possible);

  /// The identity of the toolchain; empty where there is none.
  [[nodiscard]] std::string compiler();

 private:
  /// `before` is how the kernel can be compiled before it is needed.
  [[nodiscard]] Result<Binary> find(const Source& source, BuildPolicy policy, std::string_view before);
  /// The source's binary among what an open store has; nothing when it is to be compiled.
  [[nodiscard]] Result<std::optional<Binary>> stored(const Source& source);
  /// Finds the compiler and opens the store, once.
  [[nodiscard]] Status open();
  void begin_anew();

  Generate generate_;
  FindToolchain find_toolchain_;
  CompileLimits limits_;
  std::mutex mutex_;  ///< of what follows
  std::unique_ptr<Store> store_;
  std::unique_ptr<Toolchain> toolchain_;
  std::optional<Error> no_toolchain_;
  AtFork at_fork_{this, [](void* builder) { static_cast<KernelBuilder*>(builder)->begin_anew(); }};
};

[[nodiscard]] std::unique_ptr<KernelBuilder> cpu_builder(const CpuSpec& level);
[[nodiscard]] std::unique_ptr<KernelBuilder> cuda_builder(const CudaSpec& spec);
[[nodiscard]] std::unique_ptr<KernelBuilder> hip_builder(const HipSpec& spec);

/// A builder of an architecture's kernels, which this machine need not run. Errors: unsupported, with the known names.
[[nodiscard]] Result<std::unique_ptr<KernelBuilder>> builder_for(std::string_view arch);

}  // namespace tilesmith
