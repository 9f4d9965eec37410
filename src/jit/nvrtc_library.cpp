#include "jit/nvrtc_library.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/core.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/env.hpp"
#include "base/file.hpp"
#include "base/sha256.hpp"

namespace tilesmith {
namespace {
namespace fs = std::filesystem;

constexpr int kOldestMajor = 12;  // the first to know all of sm_90a
constexpr const char* kNames[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"};
constexpr const char* kRemedy =
    "install it with 'pip install nvidia-cuda-nvrtc' (or the CUDA toolkit), or name the file libnvrtc.so.* in "
    "TILESMITH_NVRTC";

/// A directory's entries by name, newest version first; none when it is not there.
std::vector<fs::path> entries(const fs::path& directory) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error))
    paths.push_back(entry->path());
  std::ranges::sort(paths, std::greater());
  return paths;
}

/// Directories that may hold the library beside those the loader searches.
std::vector<fs::path> library_directories() {
  std::vector<fs::path> directories;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const auto root = env(variable)) directories.push_back(fs::path(*root) / "lib64");
  // Wheels: lib/python3.X/site-packages/nvidia/{cu13,cuda_nvrtc}/lib.
  if (const auto environment = env("VIRTUAL_ENV"))
    for (const fs::path& python : entries(fs::path(*environment) / "lib"))
      for (const fs::path& package : entries(python / "site-packages/nvidia")) directories.push_back(package / "lib");
  directories.emplace_back("/usr/local/cuda/lib64");
  return directories;
}

struct BuildIdSearch {
  const void* address;
  std::string build_id{};
};

/// The build ID of the loaded object that holds an address, in hexadecimal.
std::string build_id_at(const void* address) {
  BuildIdSearch search{address};
  const auto visit = [](dl_phdr_info* info, std::size_t, void* data) {
    auto& wanted = *static_cast<BuildIdSearch*>(data);
    const auto target = reinterpret_cast<std::uintptr_t>(wanted.address);
    bool holds = false;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& header = info->dlpi_phdr[i];
      const std::uintptr_t begin = info->dlpi_addr + header.p_vaddr;
      holds |= header.p_type == PT_LOAD && target >= begin && target < begin + header.p_memsz;
    }
    if (!holds) return 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& header = info->dlpi_phdr[i];
      if (header.p_type != PT_NOTE) continue;
      const auto* at = reinterpret_cast<const unsigned char*>(info->dlpi_addr + header.p_vaddr);
      const unsigned char* const end = at + header.p_memsz;
      while (at + sizeof(ElfW(Nhdr)) <= end) {
        ElfW(Nhdr) note;
        std::memcpy(&note, at, sizeof note);
        const unsigned char* const name = at + sizeof note;
        const unsigned char* const content = name + (note.n_namesz + 3) / 4 * 4;
        const unsigned char* const next = content + (note.n_descsz + 3) / 4 * 4;
        if (next > end) break;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0)
          for (unsigned b = 0; b < note.n_descsz; ++b) wanted.build_id += fmt::format("{:02x}", content[b]);
        at = next;
      }
    }
    return 1;
  };
  ::dl_iterate_phdr(visit, &search);
  return search.build_id;
}

template <class Function>
bool find_function(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, symbol));
  return function != nullptr;
}

}  // namespace

Result<NvrtcLibrary> NvrtcLibrary::open(const std::string& library) {
  // Never closed: compilers keep state for the life of the process.
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return fail(ErrorCode::not_found, fmt::format("cannot open NVRTC: {}", ::dlerror()), kRemedy);
  NvrtcLibrary nvrtc;
  const bool complete = find_function(handle, "nvrtcVersion", nvrtc.version) &&
                        find_function(handle, "nvrtcGetErrorString", nvrtc.error_string) &&
                        find_function(handle, "nvrtcCreateProgram", nvrtc.create_program) &&
                        find_function(handle, "nvrtcDestroyProgram", nvrtc.destroy_program) &&
                        find_function(handle, "nvrtcCompileProgram", nvrtc.compile_program) &&
                        find_function(handle, "nvrtcGetProgramLogSize", nvrtc.log_size) &&
                        find_function(handle, "nvrtcGetProgramLog", nvrtc.log) &&
                        find_function(handle, "nvrtcGetCUBINSize", nvrtc.cubin_size) &&
                        find_function(handle, "nvrtcGetCUBIN", nvrtc.cubin);
  find_function(handle, "nvrtcSetFlowCallback", nvrtc.set_flow_callback);
  if (!complete || nvrtc.version(&nvrtc.major_, &nvrtc.minor_) != Code::success)
    return fail(ErrorCode::unsupported, fmt::format("{} is no NVRTC", library), kRemedy);
  if (nvrtc.major_ < kOldestMajor)
    return fail(ErrorCode::unsupported,
                fmt::format("NVRTC {}.{} ({}) is too old: {}.0 is the oldest that works", nvrtc.major_, nvrtc.minor_,
                            library, kOldestMajor),
                kRemedy);

  const auto* const address = reinterpret_cast<const void*>(nvrtc.version);
  Dl_info found{};
  nvrtc.path_ = ::dladdr(address, &found) != 0 && found.dli_fname != nullptr ? found.dli_fname : library;
  // Releases of one version differ in what they emit: the build tells them apart, the version does not.
  std::string build = build_id_at(address);
  if (build.empty()) {
    TS_ASSIGN(const std::string file, read_file(nvrtc.path_));
    build = "sha256 " + to_hex(sha256(file));
  }
  nvrtc.identity_ = fmt::format("NVRTC {}.{} build {}", nvrtc.major_, nvrtc.minor_, build);
  return nvrtc;
}

std::vector<std::string> nvrtc_candidates() {
  std::vector<std::string> candidates(std::begin(kNames), std::end(kNames));
  for (const fs::path& directory : library_directories())
    for (const char* name : kNames) {
      std::error_code ignored;
      if (fs::exists(directory / name, ignored)) candidates.push_back(directory / name);
    }
  return candidates;
}

Result<NvrtcLibrary> NvrtcLibrary::find() {
  if (const auto chosen = env("TILESMITH_NVRTC")) {
    auto library = open(*chosen);
    if (!library) return std::unexpected(library.error().in("TILESMITH_NVRTC"));
    return library;
  }
  Error unusable;
  for (const std::string& candidate : nvrtc_candidates()) {
    auto library = open(candidate);
    if (library) return library;
    if (library.error().code != ErrorCode::not_found && unusable.message.empty()) unusable = library.error();
  }
  if (!unusable.message.empty()) return std::unexpected(std::move(unusable));
  return fail(ErrorCode::not_found, "no CUDA compiler: NVRTC (libnvrtc.so, 12.0 or newer) was not found", kRemedy);
}

}  // namespace tilesmith
