#include "jit/ck_toolchain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/env.hpp"
#include "base/sha256.hpp"
#include "base/subprocess.hpp"
#include "jit/code_object.hpp"
#include "jit/fat_binary.hpp"
#include "jit/shared_object.hpp"

namespace tilesmith {
namespace {
namespace fs = std::filesystem;

constexpr const char *kHipccVariable = "HIPCC", *kTreeVariable = "TILESMITH_CK_DIR";
constexpr std::array kHipccNames = {"hipcc", "amdclang++", "/opt/rocm/bin/hipcc", "/opt/rocm/bin/amdclang++"};
constexpr std::uint64_t kLargestHeader = 16ull << 20, kLargestLibrary = 256ull << 20;

/// The SHA-256 of every header's path and content, in the order of the paths.
Result<std::string> digest_of(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code code;
  for (fs::recursive_directory_iterator it(folder, fs::directory_options::follow_directory_symlink, code), end;
       !code && it != end; it.increment(code))
    if (it->is_regular_file()) files.push_back(it->path());
  if (code) return std::unexpected(system_error("cannot read", folder, code.value()));
  std::ranges::sort(files);
  std::string text;
  for (const fs::path& file : files) {
    TS_ASSIGN(const std::string content, read_file(file, kLargestHeader));
    text += fmt::format("{} {}\n", file.lexically_relative(folder).string(), to_hex(sha256(content)));
  }
  return to_hex(sha256(text));
}

/// What the compiler wrote: the shared object with the unit's function, and what its device code takes.
Result<Compiled> take_library(const fs::path& path, const Source& source) {
  TS_ASSIGN(std::string binary, read_regular_file(path, kLargestLibrary));
  TS_TRY(check_shared_object(binary, std::array{source.entry_symbol}));
  TS_ASSIGN(const std::string_view device_code, bundled_code_object(binary, source.arch));
  TS_ASSIGN(CodeObject object, read_code_object(device_code));
  // Arrays of a lane that the compiler leaves in memory are advice here: the templates are not ours to change.
  TS_TRY(check_resources({.functions = object.resources.functions, .advisories = {}}, source.spill_limit_bytes));
  return Compiled{std::move(binary), {}, std::move(object.resources)};
}

}  // namespace

Result<std::unique_ptr<CkToolchain>> CkToolchain::find(std::span<const EmbeddedFile> headers) {
  const auto tree = env(kTreeVariable);
  if (!tree)
    return fail(ErrorCode::not_found, fmt::format("no tree of Composable Kernel: {} is not set", kTreeVariable),
                fmt::format("{}=/path/to/composable_kernel, whose folder include has ck_tile", kTreeVariable));
  if (const auto chosen = env(kHipccVariable)) {
    auto toolchain = use(*chosen, *tree, headers);
    if (!toolchain && toolchain.error().code == ErrorCode::not_found)
      return std::unexpected(toolchain.error().in(kHipccVariable));
    return toolchain;
  }
  for (const char* name : kHipccNames)
    if (find_program(name)) return use(name, *tree, headers);
  return fail(ErrorCode::not_found,
              "no compiler for Composable Kernel: neither hipcc nor amdclang++ is in PATH or in /opt/rocm/bin",
              fmt::format("install ROCm, or set {} to a hipcc", kHipccVariable));
}

Result<std::unique_ptr<CkToolchain>> CkToolchain::use(const std::string& name, const fs::path& tree,
                                                      std::span<const EmbeddedFile> headers) {
  std::error_code code;
  const fs::path include = fs::absolute(tree, code) / "include";
  if (!fs::is_regular_file(include / "ck_tile" / "core.hpp", code))
    return fail(ErrorCode::not_found, fmt::format("{} has no include/ck_tile/core.hpp", tree.string()),
                fmt::format("set {} to a tree of Composable Kernel", kTreeVariable));
  TS_ASSIGN(CompilerProgram compiler, CompilerProgram::open(name, kHipccVariable));
  TS_ASSIGN(const std::string tree_digest, digest_of(include / "ck_tile"));
  TS_ASSIGN(TemporaryDirectory folder, TemporaryDirectory::create("tilesmith-ck-"));
  const fs::path shared = folder.path() / "tilesmith_ck";
  if (!fs::create_directory(shared, code)) return std::unexpected(system_error("cannot create", shared, code.value()));
  for (const EmbeddedFile& header : headers) TS_TRY(write_new_file(shared / header.path, header.text));
  TS_ASSIGN(const std::string shared_digest, digest_of(shared));
  std::string identity =
      fmt::format("{}\nck_tile {}\ntilesmith_ck {}", compiler.identity(), tree_digest, shared_digest);
  return std::unique_ptr<CkToolchain>(
      new CkToolchain(std::move(compiler), std::move(identity), include, std::move(folder)));
}

Result<Compiled> CkToolchain::compile(std::span<const Source* const> sources, const CompileLimits& limits) const {
  if (sources.size() != 1)
    return fail(ErrorCode::invalid_argument, "Composable Kernel's sources are compiled one at a time");
  const Source& source = *sources[0];
  if (source.language != Language::ck)
    return fail(ErrorCode::invalid_argument, fmt::format("{} is no source of Composable Kernel's", source.name));
  std::vector<std::string> arguments = {"-x", "hip"};
  arguments.insert(arguments.end(), source.options.begin(), source.options.end());
  for (const std::string& word : {std::string("-I"), headers_.path().string(), std::string("-I"), tree_.string(),
                                  std::string("-fPIC"), std::string("-shared")})
    arguments.push_back(word);
  return compiler_.compile(
      sources, std::move(arguments), limits,
      [&](const fs::path& directory, const std::string& file) { return take_library(directory / file, source); });
}

}  // namespace tilesmith
