#include "jit/nvrtc_toolchain.hpp"

#include <elf.h>
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <vector>

namespace tilesmith {
namespace {

using Code = NvrtcLibrary::Code;
using Clock = std::chrono::steady_clock;

/// Owns one program of the compiler.
class Program {
 public:
  [[nodiscard]] static Result<Program> create(const NvrtcLibrary& nvrtc, const Source& source) {
    NvrtcLibrary::Program handle = nullptr;
    // The name appears in messages and in nothing else.
    const std::string name = source.entry_symbol + ".cu";
    const Code code = nvrtc.create_program(&handle, source.text.c_str(), name.c_str(), 0, nullptr, nullptr);
    if (code != Code::success)
      return fail(code == Code::out_of_memory ? ErrorCode::out_of_memory : ErrorCode::internal,
                  fmt::format("NVRTC cannot begin with {}: {}", source.name, nvrtc.error_string(code)));
    return Program(nvrtc, handle);
  }
  Program(Program&& other) noexcept : nvrtc_(other.nvrtc_), handle_(std::exchange(other.handle_, nullptr)) {}
  Program& operator=(Program&&) = delete;
  ~Program() {
    if (handle_ != nullptr) nvrtc_.destroy_program(&handle_);
  }

  [[nodiscard]] NvrtcLibrary::Program handle() const { return handle_; }
  [[nodiscard]] std::string log() const {
    std::string text = read(nvrtc_.log_size, nvrtc_.log);
    while (!text.empty() && (text.back() == '\0' || text.back() == '\n')) text.pop_back();
    return text;
  }
  [[nodiscard]] std::string cubin() const { return read(nvrtc_.cubin_size, nvrtc_.cubin); }

 private:
  Program(const NvrtcLibrary& nvrtc, NvrtcLibrary::Program handle) : nvrtc_(nvrtc), handle_(handle) {}

  [[nodiscard]] std::string read(Code (*size_of)(NvrtcLibrary::Program, std::size_t*),
                                 Code (*get)(NvrtcLibrary::Program, char*)) const {
    std::size_t size = 0;
    if (size_of(handle_, &size) != Code::success) return {};
    std::string content(size, '\0');
    if (get(handle_, content.data()) != Code::success) return {};
    return content;
  }

  const NvrtcLibrary& nvrtc_;
  NvrtcLibrary::Program handle_;
};

/// What the compiler asks between its phases. Once it said to cancel it must go on saying so.
struct Watch {
  const CompileLimits& limits;
  Clock::time_point deadline;
  std::atomic<bool> late{false};  // the compiler may ask from several threads
  std::atomic<bool> stopped{false};

  static int ask(void* payload, void*) {
    auto& watch = *static_cast<Watch*>(payload);
    if (!watch.stopped && !watch.late) {
      if (watch.limits.stop.stop_requested())
        watch.stopped = true;
      else if (Clock::now() >= watch.deadline)
        watch.late = true;
    }
    return watch.stopped || watch.late ? 1 : 0;
  }
};

bool names_an_arch(const std::string& option) {
  return option.starts_with("--gpu-architecture") || option.starts_with("-arch");
}

Error failure(const NvrtcLibrary& nvrtc, const Source& source, Code code, const std::string& log) {
  Error error{ErrorCode::internal, fmt::format("NVRTC refused {}: {}", source.name, nvrtc.error_string(code))};
  if (code == Code::compilation) error.code = ErrorCode::compile_failed;
  if (code == Code::out_of_memory) error.code = ErrorCode::out_of_memory;
  if (code == Code::invalid_option) error.code = ErrorCode::invalid_argument;
  if (!log.empty()) error.message += fmt::format(":\n{}", quote_log(log));
  return error;
}

/// Whether it is a cubin with the entry's code in it: a section named after the symbol.
Status check_binary(const Source& source, const std::string& binary) {
  if (binary.size() < SELFMAG || std::memcmp(binary.data(), ELFMAG, SELFMAG) != 0)
    return fail(ErrorCode::internal,
                fmt::format("NVRTC gave {} bytes for {} that are no cubin", binary.size(), source.name),
                "the arch must be a real one: sm_90a");
  if (binary.find(".text." + source.entry_symbol + '\0') == std::string::npos)
    return fail(ErrorCode::compile_failed,
                fmt::format("the binary of {} does not define {}", source.name, source.entry_symbol),
                "the entry symbol must be extern \"C\" __global__");
  return {};
}

}  // namespace

Result<std::unique_ptr<NvrtcToolchain>> NvrtcToolchain::find() {
  TS_ASSIGN(NvrtcLibrary library, NvrtcLibrary::find());
  return std::unique_ptr<NvrtcToolchain>(new NvrtcToolchain(std::move(library)));
}

Result<std::unique_ptr<NvrtcToolchain>> NvrtcToolchain::use(const std::string& path) {
  TS_ASSIGN(NvrtcLibrary library, NvrtcLibrary::open(path));
  return std::unique_ptr<NvrtcToolchain>(new NvrtcToolchain(std::move(library)));
}

Result<Compiled> NvrtcToolchain::compile(std::span<const Source* const> sources, const CompileLimits& limits) const {
  if (sources.size() != 1) return fail(ErrorCode::invalid_argument, "NVRTC compiles one source at a time");
  const Source& source = *sources[0];
  if (source.language != Language::cuda)
    return fail(ErrorCode::invalid_argument, fmt::format("{} is not written in CUDA", source.name));
  if (std::ranges::any_of(source.options, names_an_arch))
    return fail(ErrorCode::invalid_argument, fmt::format("the options of {} name an architecture", source.name),
                "the source's arch says which");
  if (limits.stop.stop_requested())
    return fail(ErrorCode::cancelled, fmt::format("{} was not compiled: cancelled", source.name));

  TS_ASSIGN(const Program program, Program::create(library_, source));
  Watch watch{limits, Clock::now() + limits.time};
  if (library_.set_flow_callback != nullptr) library_.set_flow_callback(program.handle(), &Watch::ask, &watch);
  // The report decides whether the kernel is accepted, so asking for it is not the source's to forget.
  const std::string arch = "--gpu-architecture=" + source.arch;
  std::vector<const char*> options = {arch.c_str(), "--ptxas-options=-v"};
  // NVRTC keeps a cache of its own where there is a driver. What comes from it comes without the report.
  if (library_.has_cache()) options.push_back("--no-cache");
  for (const std::string& option : source.options) options.push_back(option.c_str());
  const Code code = library_.compile_program(program.handle(), static_cast<int>(options.size()), options.data());
  if (code != Code::success && watch.stopped)
    return fail(ErrorCode::cancelled, fmt::format("compiling {} was cancelled", source.name));
  if (code != Code::success && watch.late)
    return fail(ErrorCode::timeout, fmt::format("NVRTC did not end within {:.1f} s on {}",
                                                static_cast<double>(limits.time.count()) / 1000, source.name));
  std::string log = program.log();
  if (code != Code::success) return std::unexpected(failure(library_, source, code, log));

  ResourceReport resources = parse_resources(log);
  if (const Status good = check_resources(resources, source.spill_limit_bytes); !good)
    return std::unexpected(good.error().in(source.name));
  std::string binary = program.cubin();
  TS_TRY(check_binary(source, binary));
  if (resources.kernel(source.entry_symbol) == nullptr)
    return fail(ErrorCode::internal,
                fmt::format("{} did not report what {} takes of its device, so that nothing can be said of its quality",
                            library_.identity(), source.name),
                "an option of the source may silence it; CUDA_CACHE_DISABLE=1 helps against a cached answer");
  return Compiled{std::move(binary), std::move(log), std::move(resources)};
}

}  // namespace tilesmith
