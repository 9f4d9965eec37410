// NVIDIA's run-time compiler as a library that is opened at run time: where it is looked for, and the few functions
// used of it. Nothing of CUDA is needed to build.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace tilesmith {

class NvrtcLibrary {
 public:
  enum class Code : int {
    success = 0,
    out_of_memory = 1,
    invalid_option = 5,
    compilation = 6,
    cancelled = 16,
  };
  using Program = struct ProgramObject*;

  /// The first that opens of: TILESMITH_NVRTC (nothing else is tried when it is set); libnvrtc on the loader's path;
  /// lib64 of CUDA_HOME and CUDA_PATH; the packages nvidia-cuda-nvrtc* of VIRTUAL_ENV; /usr/local/cuda/lib64. Error:
  /// `not_found` saying what to install, `unsupported` when all there is is older than 12.0.
  [[nodiscard]] static Result<NvrtcLibrary> find();
  [[nodiscard]] static Result<NvrtcLibrary> open(const std::string& library);

  [[nodiscard]] int major() const { return major_; }
  [[nodiscard]] int minor() const { return minor_; }
  /// Whether it keeps compiled code between calls, and takes --no-cache.
  [[nodiscard]] bool has_cache() const { return major_ > 12 || (major_ == 12 && minor_ >= 9); }
  /// Version and build, no path: "NVRTC 13.0 build 65be0db3...".
  [[nodiscard]] const std::string& identity() const { return identity_; }
  /// The file it came from.
  [[nodiscard]] const std::string& path() const { return path_; }

  Code (*version)(int*, int*) = nullptr;
  const char* (*error_string)(Code) = nullptr;
  Code (*create_program)(Program*, const char* text, const char* name, int headers, const char* const* header_texts,
                         const char* const* header_names) = nullptr;
  Code (*destroy_program)(Program*) = nullptr;
  Code (*compile_program)(Program, int options, const char* const* option_texts) = nullptr;
  Code (*log_size)(Program, std::size_t*) = nullptr;
  Code (*log)(Program, char*) = nullptr;
  Code (*cubin_size)(Program, std::size_t*) = nullptr;
  Code (*cubin)(Program, char*) = nullptr;
  /// Calls back between the phases of a compile, which a 1 cancels. Null before NVRTC 12.8.
  Code (*set_flow_callback)(Program, int (*)(void* payload, void*), void* payload) = nullptr;

 private:
  NvrtcLibrary() = default;

  int major_ = 0;
  int minor_ = 0;
  std::string identity_;
  std::string path_;
};

/// The files and names NvrtcLibrary::find tries, in order, when TILESMITH_NVRTC is not set.
[[nodiscard]] std::vector<std::string> nvrtc_candidates();

}  // namespace tilesmith
