#include "dispatch/ck_builder.hpp"

#include <fmt/format.h>

#include <mutex>

#include "codegen/ck.hpp"
#include "jit/ck_toolchain.hpp"
#include "spec/amd/chip.hpp"

namespace tilesmith {
namespace {

/// A writer keeps what it has worked out, so that one thread writes at a time.
struct SharedWriter {
  explicit SharedWriter(CkWriter made) : writer(std::move(made)) {}

  std::mutex mutex;
  CkWriter writer;
};

// Front ends alone take up to two minutes for a backward kernel on a loaded machine (docs/amd.md), optimising more.
constexpr std::chrono::minutes kLongestCompile{20};

}  // namespace

Result<std::unique_ptr<KernelBuilder>> ck_builder_for(std::string_view arch, const CkBuildOptions& options) {
  TS_ASSIGN(const AmdChip* chip, find_amd_chip(arch));
  TS_ASSIGN(CkWriter made, CkWriter::create(*chip, options.version));
  const auto shared = std::make_shared<SharedWriter>(std::move(made));
  const auto generate = [shared, chip,
                         limit = options.spill_limit_bytes](const KernelConfig& config) -> Result<Source> {
    const std::lock_guard lock(shared->mutex);
    Source source;
    source.arch = chip->arch.text();
    source.language = Language::ck;
    source.spill_limit_bytes = limit;
    CkWriter::Written names;
    TS_TRY(shared->writer.write(config, source.text, &names));
    source.name = names.name;
    // The function that the unit defines, tilesmith_ck::k_KEY(), as the Itanium C++ ABI spells it.
    const std::string function = CkWriter::symbol(config);
    source.entry_symbol = fmt::format("_ZN12tilesmith_ck{}{}Ev", function.size(), function);
    source.options = shared->writer.options();
    for (std::string& option : shared->writer.options_of(config)) source.options.push_back(std::move(option));
    return source;
  };
  return std::make_unique<KernelBuilder>(
      generate, [] { return CkToolchain::find(ck_support_headers()); }, CompileLimits{.time = kLongestCompile});
}

}  // namespace tilesmith
