// Kernels for AMD GPUs on a CPU: a template is flattened with tests/codegen/hip_emulated in the place of
// kernels/hip/common, so that the kernel's own text runs, thread by thread, with the matrix instruction as the facts of
// specs/hip describe it. That proves the kernel's arithmetic, indices and barriers; it proves neither the facts nor the
// compiler, and no AMD GPU is needed.
#pragma once

#include <dlfcn.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "codegen/flatten.hpp"
#include "codegen/source.hpp"

namespace tilesmith::testing {

/// The files of kernels/, with those of the device emulated.
class EmulatedKernels {
 public:
  EmulatedKernels() {
    for (const EmbeddedFile& file : embedded_kernels()) {
      const std::string_view folder = "hip/common/";
      if (!file.path.starts_with(folder)) {
        files_.push_back(file);
        continue;
      }
      const std::string path = std::string(TILESMITH_SOURCE_DIR) + "/tests/codegen/hip_emulated/" +
                               std::string(file.path.substr(folder.size()));
      texts_.push_back(read_file(path).value());
      files_.push_back({file.path, texts_.back()});
    }
  }
  [[nodiscard]] std::span<const EmbeddedFile> files() const { return files_; }

 private:
  std::deque<std::string> texts_;
  std::vector<EmbeddedFile> files_;
};

/// A source that was generated from emulated files, for the C++ compiler. Its entry takes the arguments and the number
/// of blocks: EmulatedEntry.
inline Source for_cpu(Source source, std::string_view arguments) {
  source.language = Language::cpp;
  source.arch = "x86_64";
  source.options = {"-std=c++20", "-O1", "-fvisibility=hidden", "-w"};
  source.text = "#include <ucontext.h>\n#include <cmath>\n#include <vector>\n#define TS_ARGS " +
                std::string(arguments) + "\n" + source.text;
  return source;
}

using EmulatedEntry = void (*)(const void* args, int blocks);

}  // namespace tilesmith::testing
