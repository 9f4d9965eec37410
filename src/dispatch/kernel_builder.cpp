#include "dispatch/kernel_builder.hpp"

#include <fmt/format.h>

#include "base/cancel.hpp"
#include "base/env.hpp"
#include "base/progress.hpp"
#include "base/uncancelled.hpp"
#include "codegen/generate.hpp"
#include "jit/amdgcn_toolchain.hpp"
#include "jit/build.hpp"
#include "jit/cxx_toolchain.hpp"
#include "jit/nvrtc_toolchain.hpp"
#include "spec/architectures.hpp"
#include "vocabulary/names/native.hpp"

namespace tilesmith {

Result<Binary> KernelBuilder::find(const KernelConfig& config, BuildPolicy policy) {
  TS_ASSIGN(const Source source, generate_(config));
  return find(source, policy, fmt::format("tilesmith build --kernel {}", native_name(config)));
}

Result<Binary> KernelBuilder::find(const Source& source, BuildPolicy policy) {
  return find(source, policy, "the same call, once");
}

Result<Binary> KernelBuilder::find(const Source& source, BuildPolicy policy, std::string_view before) {
  const Uncancelled building;
  const CancelScope scope;
  TS_TRY(open());
  if (policy == BuildPolicy::allowed && !building_is_off()) {
    BuildOptions options;
    options.limits = limits_;
    options.limits.stop = scope.stop();
    const Waiting waiting("tilesmith: compiling " + source.name);
    return tilesmith::build(*store_, *toolchain_, source, options);
  }
  TS_ASSIGN(const std::optional<Binary> found, stored(source));
  if (found) return *found;
  if (policy == BuildPolicy::allowed)
    return fail(ErrorCode::not_found,
                fmt::format("kernel {} is not in the store, and TILESMITH_BUILD is never", source.name),
                fmt::format("TILESMITH_BUILD=now, or before: TILESMITH_BUILD=now {}", before));
  return fail(ErrorCode::not_found,
              fmt::format("kernel {} is not in the store, and compiling is not allowed", source.name),
              fmt::format("a call that may compile it, once; or {}", before));
}

Result<std::optional<Binary>> KernelBuilder::stored(const Source& source) {
  TS_ASSIGN(const EntryKey entry, entry_key(source, toolchain_->identity()));
  return store_->find(entry);
}

std::vector<Status> KernelBuilder::build(std::span<const KernelConfig> configs, int workers,
                                         const BuildCounter& progress, Keep keep) {
  std::vector<Status> statuses(configs.size());
  std::vector<Source> sources;
  std::vector<std::size_t> owners;  // the config each source belongs to
  for (std::size_t i = 0; i < configs.size(); ++i) {
    Result<Source> source = generate_(configs[i]);
    if (!source) {
      statuses[i] = std::unexpected(source.error());
      continue;
    }
    sources.push_back(std::move(*source));
    owners.push_back(i);
  }
  if (sources.empty()) return statuses;
  if (building_is_off()) {
    for (const std::size_t owner : owners)
      if (const auto found = find(configs[owner], BuildPolicy::allowed); !found)
        statuses[owner] = std::unexpected(found.error());
    return statuses;
  }
  if (const Status opened = open(); !opened) {
    for (const std::size_t owner : owners) statuses[owner] = opened;
    return statuses;
  }
  const bool required = keep == Keep::required;
  const std::filesystem::path& root = store_->root();
  if (required && !store_->writable()) {
    const Error closed{ErrorCode::io,
                       root.empty() ? "there is no store" : fmt::format("{} is read only", root.string()),
                       "TILESMITH_CACHE_DIR=DIRECTORY, where compiled kernels can be kept"};
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const Result<std::optional<Binary>> found = stored(sources[i]);
      if (!found || !*found) statuses[owners[i]] = std::unexpected(found ? closed : found.error());
    }
    return statuses;
  }
  BuildOptions options;
  options.limits = limits_;
  options.workers = workers;
  options.batch = 4;  // one compiler start for several kernels, while a short list still spreads over the workers
  if (progress) options.progress = [&](const BuildProgress& p) { progress(p.done, p.total, p.failed); };
  const std::vector<Result<Binary>> built = tilesmith::build(*store_, *toolchain_, sources, options);
  for (std::size_t i = 0; i < built.size(); ++i) {
    if (!built[i]) {
      statuses[owners[i]] = std::unexpected(built[i].error());
    } else if (required && !built[i]->path.string().starts_with(root.string() + '/')) {
      statuses[owners[i]] = fail(ErrorCode::io, fmt::format("{} cannot keep it, though it compiles", root.string()),
                                 "free disk space, or TILESMITH_CACHE_DIR=DIRECTORY");
    }
  }
  return statuses;
}

std::string KernelBuilder::compiler() {
  return open() ? toolchain_->identity() : std::string();
}

/// In a forked child, when another thread was looking for a compiler.
void KernelBuilder::begin_anew() {
  if (!renew(mutex_)) return;
  static_cast<void>(store_.release());
  static_cast<void>(toolchain_.release());
  new (&no_toolchain_) std::optional<Error>;
}

Status KernelBuilder::open() {
  const std::lock_guard lock(mutex_);
  if (toolchain_ != nullptr) return {};
  if (!no_toolchain_) {
    if (store_ == nullptr) {
      auto store = Store::open();
      if (!store) return std::unexpected(store.error());
      store_ = std::move(*store);
    }
    auto toolchain = find_toolchain_();
    if (toolchain) {
      toolchain_ = std::move(*toolchain);
      return {};
    }
    if (toolchain.error().code == ErrorCode::cancelled) return std::unexpected(toolchain.error());
    no_toolchain_ = toolchain.error();  // looking again on every plan would cost more than it could find
  }
  return std::unexpected(*no_toolchain_);
}

std::unique_ptr<KernelBuilder> cpu_builder(const CpuSpec& level) {
  return std::make_unique<KernelBuilder>([level](const KernelConfig& config) { return generate(config, level); },
                                         [] { return CxxToolchain::find(); });
}

std::unique_ptr<KernelBuilder> cuda_builder(const CudaSpec& spec) {
  return std::make_unique<KernelBuilder>([spec](const KernelConfig& config) { return generate(config, spec); },
                                         [] { return NvrtcToolchain::find(); });
}

std::unique_ptr<KernelBuilder> hip_builder(const HipSpec& spec) {
  return std::make_unique<KernelBuilder>([spec](const KernelConfig& config) { return generate(config, spec); },
                                         [] { return AmdgcnToolchain::find(); });
}

Result<std::unique_ptr<KernelBuilder>> builder_for(std::string_view arch) {
  TS_ASSIGN(const std::vector<CpuSpec> levels, load_cpu_specs());
  for (const CpuSpec& level : levels)
    if (level.arch.text() == arch) return cpu_builder(level);
  TS_ASSIGN(const std::vector<CudaSpec> specs, load_cuda_specs());
  for (const CudaSpec& spec : specs)
    if (spec.arch.text() == arch) return cuda_builder(spec);
  TS_ASSIGN(const std::vector<HipSpec> hip, load_hip_specs());
  for (const HipSpec& spec : hip)
    if (spec.arch.text() == arch) return hip_builder(spec);
  return std::unexpected(no_own_kernels(arch, "kernels are not compiled"));
}

}  // namespace tilesmith
