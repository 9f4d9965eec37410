#include "jit/amdgcn_toolchain.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/env.hpp"
#include "base/file.hpp"
#include "base/subprocess.hpp"
#include "jit/code_object.hpp"

namespace tilesmith {
namespace {
namespace fs = std::filesystem;

constexpr const char* kVariable = "TILESMITH_AMD_CLANG";
constexpr const char* kTarget = "--target=amdgcn-amd-amdhsa";
constexpr std::uint64_t kLargestCodeObject = 64ull << 20;
// Releases of clang by the names of packages: 18 is the first that knows gfx942, gfx1201 and code object version 5.
constexpr int kOldestClang = 18;
constexpr int kNewestClang = 40;

std::vector<std::string> clang_names() {
  std::vector<std::string> names = {"amdclang"};
  for (int release = kNewestClang; release >= kOldestClang; --release)
    names.push_back(fmt::format("clang-{}", release));
  names.insert(names.end(), {"/opt/rocm/llvm/bin/clang", "clang"});
  return names;
}

bool names_a_processor(const std::string& option) {
  return option.starts_with("-mcpu") || option.starts_with("--offload-arch") || option.starts_with("--target");
}

Result<Compiled> take_code_object(const fs::path& path, const Source& source) {
  TS_ASSIGN(std::string binary, read_regular_file(path, kLargestCodeObject));
  TS_ASSIGN(CodeObject object, read_code_object(binary));
  if (!object.target.ends_with("--" + source.arch))
    return fail(ErrorCode::internal, fmt::format("it is for {}, not for {}", object.target, source.arch));
  if (object.resources.kernel(source.entry_symbol) == nullptr)
    return fail(ErrorCode::compile_failed, fmt::format("the binary does not define the kernel {}", source.entry_symbol),
                "the entry symbol must be extern \"C\" with the attribute amdgpu_kernel");
  TS_TRY(check_resources(object.resources, source.spill_limit_bytes));
  return Compiled{std::move(binary), {}, std::move(object.resources)};
}

}  // namespace

std::vector<std::string> amdgcn_arguments(const std::string& arch) {
  return {kTarget, "-mcpu=" + arch, "-nogpulib", "-ffreestanding"};
}

Result<std::unique_ptr<AmdgcnToolchain>> AmdgcnToolchain::find() {
  if (const auto chosen = env(kVariable)) {
    auto toolchain = use(*chosen);
    if (!toolchain) return std::unexpected(toolchain.error().in(kVariable));
    return toolchain;
  }
  for (const std::string& name : clang_names())
    if (find_program(name)) return use(name);
  return fail(ErrorCode::not_found,
              fmt::format("no compiler for AMD GPUs: none of amdclang, clang-{} and newer, clang is in PATH, nor "
                          "/opt/rocm/llvm/bin/clang",
                          kOldestClang),
              fmt::format("install clang and lld {} or newer, or set {} to a clang", kOldestClang, kVariable));
}

Result<std::unique_ptr<AmdgcnToolchain>> AmdgcnToolchain::use(const std::string& clang) {
  TS_ASSIGN(CompilerProgram compiler, CompilerProgram::open(clang, kVariable));
  // The linker writes the code object. A name without a folder comes back when clang does not find it.
  TS_ASSIGN(const std::string path, compiler.ask({kTarget, "-print-prog-name=ld.lld"}));
  auto linker = CompilerProgram::open(path, kVariable);
  if (!linker && linker.error().code == ErrorCode::not_found)
    return fail(ErrorCode::not_found,
                fmt::format("{} does not find its linker: {}", compiler.path().string(), linker.error().message),
                "install lld of the same release");
  if (!linker) return std::unexpected(linker.error());
  std::string identity = fmt::format("{}\n{}", compiler.identity(), linker->identity());
  return std::unique_ptr<AmdgcnToolchain>(new AmdgcnToolchain(std::move(compiler), std::move(identity)));
}

Result<Compiled> AmdgcnToolchain::compile(std::span<const Source* const> sources, const CompileLimits& limits) const {
  if (sources.size() != 1) return fail(ErrorCode::invalid_argument, "sources for AMD GPUs are compiled one at a time");
  const Source& source = *sources[0];
  if (source.language != Language::hip)
    return fail(ErrorCode::invalid_argument, fmt::format("{} is not written for AMD GPUs", source.name));
  if (std::ranges::any_of(source.options, names_a_processor))
    return fail(ErrorCode::invalid_argument, fmt::format("the options of {} name a processor", source.name),
                "the source's arch says which");
  std::vector<std::string> arguments = amdgcn_arguments(source.arch);
  arguments.insert(arguments.end(), source.options.begin(), source.options.end());
  return compiler_.compile(
      sources, std::move(arguments), limits,
      [&](const fs::path& directory, const std::string& file) { return take_code_object(directory / file, source); });
}

}  // namespace tilesmith
