// Kernels for AMD GPUs on a CPU: a template is flattened with tests/codegen/hip_emulated in the place of
// kernels/hip/common, so that the kernel's own text runs, thread by thread, with the matrix instruction as the facts of
// specs/hip describe it. That proves the kernel's arithmetic, indices and barriers; it proves neither the facts nor the
// compiler, and no AMD GPU is needed.
#pragma once

#include <dlfcn.h>

#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "codegen/flatten.hpp"
#include "codegen/source.hpp"
#include "jit/cxx_toolchain.hpp"

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
      if (!std::filesystem::exists(path)) {  // knows nothing of the device
        files_.push_back(file);
        continue;
      }
      texts_.push_back(read_file(path).value());
      files_.push_back({file.path, texts_.back()});
    }
  }
  [[nodiscard]] std::span<const EmbeddedFile> files() const { return files_; }

 private:
  std::deque<std::string> texts_;
  std::vector<EmbeddedFile> files_;
};

/// What the emulation is told of a template: its arguments' type, and the type of the matrix instruction's operands (a
/// number of kernels/gpu/gemm/words.h, in terms of ts::cfg).
struct EmulatedTemplate {
  std::string_view arguments, input_type;
};
inline constexpr EmulatedTemplate kEmulatedGemm{"TsHipGemmArgs", "cfg::kTypeA"};
inline constexpr EmulatedTemplate kEmulatedAttention{"TsHipAttentionArgs", "cfg::kBf16 ? TS_GEMM_BF16 : TS_GEMM_F16"};

/// A source that was generated from emulated files, for the C++ compiler. Its entry takes the arguments and the number
/// of blocks: EmulatedEntry.
inline Source for_cpu(Source source, const EmulatedTemplate& of) {
  source.language = Language::cpp;
  source.arch = "x86_64";
  source.options = {"-std=c++20", "-O1", "-fvisibility=hidden", "-w"};
  source.text = "#include <ucontext.h>\n#include <cmath>\n#include <vector>\n#define TS_ARGS " +
                std::string(of.arguments) + "\n#define TS_INPUT_TYPE " + std::string(of.input_type) + "\n" +
                source.text;
  return source;
}

using EmulatedEntry = void (*)(const void* args, int blocks);

/// Emulated kernels, compiled by the CPU's compiler and loaded for as long as the program runs.
class EmulatedLibraries {
 public:
  /// The entry of a source that was generated from emulated files. Error: the compiler's.
  [[nodiscard]] Result<EmulatedEntry> entry(Source source, const EmulatedTemplate& of) {
    if (const auto found = entries_.find(source.name); found != entries_.end()) return found->second;
    const Source cpu = for_cpu(std::move(source), of);
    const Source* one = &cpu;
    TS_ASSIGN(const Compiled compiled, toolchain_->compile({&one, 1}, {}));
    const auto path = folder_.path() / (std::to_string(entries_.size()) + ".so");
    TS_TRY(write_new_file(path, compiled.binary));
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return fail(ErrorCode::load_failed, ::dlerror());
    auto* entry = reinterpret_cast<EmulatedEntry>(::dlsym(library, cpu.entry_symbol.c_str()));
    if (entry == nullptr) return fail(ErrorCode::load_failed, "no entry " + cpu.entry_symbol);
    entries_.emplace(cpu.name, entry);
    return entry;
  }

 private:
  std::unique_ptr<CxxToolchain> toolchain_ = CxxToolchain::find().value();
  TemporaryDirectory folder_ = TemporaryDirectory::create("tilesmith-hip-emulated-").value();
  std::map<std::string, EmulatedEntry> entries_;
};

}  // namespace tilesmith::testing
