#include "runtime/cuda/kernel.hpp"

#include <elf.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "runtime/cuda/stream.hpp"

namespace tilesmith {
namespace {

constexpr int kMachineCuda = 190;  // EM_CUDA
// The ABI version of CUDA 13's cubins moved the SM's number from the flags' first byte to their second (LLVM's
// BinaryFormat/ELF.h tells both).
constexpr unsigned char kAbiSecondByte = 8;

/// The driver's numbers for a launch; the attributes live as long as this.
struct PackedLaunch {
  std::array<cu::LaunchAttribute, 2> attributes{};
  cu::LaunchConfig config{};

  explicit PackedLaunch(const CudaLaunch& how) {
    config = {
        how.grid.x, how.grid.y,        how.grid.z, how.block.x, how.block.y, how.block.z, how.dynamic_shared_bytes,
        how.stream, attributes.data(), 0};
    if (how.cluster != CudaExtent{}) {
      cu::LaunchAttribute& attribute = attributes[config.attribute_count++];
      attribute.id = cu::LaunchAttributeId::cluster_dimension;
      attribute.value.cluster = {how.cluster.x, how.cluster.y, how.cluster.z};
    }
    if (how.overlaps_previous) {
      cu::LaunchAttribute& attribute = attributes[config.attribute_count++];
      attribute.id = cu::LaunchAttributeId::programmatic_stream_serialization;
      attribute.value.flag = 1;
    }
  }
  PackedLaunch(const PackedLaunch&) = delete;
  PackedLaunch& operator=(const PackedLaunch&) = delete;
};

std::string describe(const CudaLaunch& how) {
  const auto text = [](const CudaExtent& extent) { return fmt::format("{}x{}x{}", extent.x, extent.y, extent.z); };
  std::string all = fmt::format("launching a grid of {} blocks of {} threads with {} bytes of dynamic shared memory",
                                text(how.grid), text(how.block), how.dynamic_shared_bytes);
  if (how.cluster != CudaExtent{}) all += fmt::format(" in clusters of {}", text(how.cluster));
  return all;
}

struct ArchNumber {
  int major = 0;
  int minor = 0;
  char suffix = 0;
};

Result<ArchNumber> parse_arch(std::string_view arch) {
  int number = 0;
  ArchNumber parsed;
  if (arch.starts_with("sm_")) {
    const char* const end = arch.data() + arch.size();
    const auto [stop, error] = std::from_chars(arch.data() + 3, end, number);
    if (error == std::errc{} && end - stop == 1 && (*stop == 'a' || *stop == 'f')) parsed.suffix = *stop;
    if (error == std::errc{} && number >= 10 && (stop == end || parsed.suffix != 0)) {
      parsed.major = number / 10;
      parsed.minor = number % 10;
      return parsed;
    }
  }
  return fail(ErrorCode::invalid_argument, fmt::format("'{}' is no CUDA architecture", arch),
              "such as sm_80 or sm_90a");
}

}  // namespace

Result<std::string> cubin_arch(std::string_view cubin) {
  Elf64_Ehdr header{};
  if (cubin.size() >= sizeof header) std::memcpy(&header, cubin.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_machine != kMachineCuda)
    return fail(ErrorCode::load_failed, fmt::format("{} bytes that are no cubin", cubin.size()));
  const unsigned number = header.e_ident[EI_ABIVERSION] >= kAbiSecondByte ? header.e_flags >> 8 & 0xff  //
                                                                          : header.e_flags & 0xff;
  std::string arch = fmt::format("sm_{}", number);
  // The suffix is told only by the note in which ptxas keeps its options.
  const std::string option = "-arch " + arch;
  const std::size_t at = cubin.find(option);
  if (at != std::string_view::npos && at + option.size() < cubin.size()) {
    const char suffix = cubin[at + option.size()];
    if (suffix == 'a' || suffix == 'f') arch += suffix;
  }
  return arch;
}

Status check_runs_on(std::string_view arch, const CudaDeviceInfo& device) {
  TS_ASSIGN(const ArchNumber built, parse_arch(arch));
  const bool exact = built.suffix == 'a';
  const bool runs = built.major == device.compute_major &&
                    (exact ? built.minor == device.compute_minor : built.minor <= device.compute_minor);
  if (runs) return {};
  return fail(ErrorCode::load_failed,
              fmt::format("code for {} does not run on {} (compute capability {}.{})", arch, device.name,
                          device.compute_major, device.compute_minor),
              fmt::format("compile it for {}", device.arch()));
}

Result<CudaModule> CudaModule::load(const CudaContext& context, std::string_view cubin) {
  TS_ASSIGN(const std::string arch, cubin_arch(cubin));
  TS_TRY(check_runs_on(arch, context.device()));
  const CudaCurrent current(context);
  TS_TRY(current.status());
  const CudaCaptureRelaxed relaxed(context.driver());
  cu::Module handle = nullptr;
  TS_TRY(cuda_status(context.driver(), context.driver().module_load_data(&handle, cubin.data()),
                     fmt::format("loading code for {} on {}", arch, context.device().name)));
  return CudaModule(context, handle);
}

Result<CudaKernel> CudaModule::kernel(const std::string& symbol, std::size_t dynamic_shared_bytes) const {
  using Attribute = cu::FunctionAttribute;
  const CudaDriver& driver = context_->driver();
  const CudaCurrent current(*context_);
  TS_TRY(current.status());
  const CudaCaptureRelaxed relaxed(driver);
  cu::Function function = nullptr;
  if (const cu::Code code = driver.module_get_function(&function, handle_, symbol.c_str()); code != cu::Code::success) {
    Error error = cuda_error(driver, code, fmt::format("looking for the kernel {}", symbol));
    if (error.code == ErrorCode::not_found) error.code = ErrorCode::load_failed;
    return std::unexpected(std::move(error));
  }
  CudaKernelProperties facts;
  const std::pair<Attribute, int*> wanted[] = {{Attribute::registers, &facts.registers},
                                               {Attribute::local_bytes, &facts.local_bytes},
                                               {Attribute::shared_bytes, &facts.static_shared_bytes},
                                               {Attribute::constant_bytes, &facts.constant_bytes},
                                               {Attribute::threads_per_block, &facts.threads_per_block}};
  for (const auto& [attribute, value] : wanted)
    TS_TRY(cuda_status(driver, driver.func_get_attribute(value, attribute, function), "asking about kernel " + symbol));
  const std::size_t total = dynamic_shared_bytes + static_cast<std::size_t>(facts.static_shared_bytes);
  const auto most = static_cast<std::size_t>(context_->device().shared_bytes_per_block);
  if (total > most)
    return fail(ErrorCode::unsupported,
                fmt::format("{} needs {} bytes of shared memory a block ({} of them dynamic), and {} has {}", symbol,
                            total, dynamic_shared_bytes, context_->device().name, most));
  const bool much = dynamic_shared_bytes > kMuchSharedMemory;
  const std::size_t limit = much ? most - static_cast<std::size_t>(facts.static_shared_bytes) : dynamic_shared_bytes;
  TS_TRY(cuda_status(driver,
                     driver.func_set_attribute(function, Attribute::dynamic_shared_bytes, static_cast<int>(limit)),
                     fmt::format("giving {} {} bytes of dynamic shared memory", symbol, limit)));
  // What needs much of it may also be launched with little, between launches with much: an SM cannot change how its
  // memory is divided while blocks run on it, so all are to ask for the same.
  if (much)
    TS_TRY(cuda_status(driver, driver.func_set_attribute(function, Attribute::shared_memory_share, 100),
                       "dividing the memory of SMs for " + symbol));
  return CudaKernel(*context_, handle_, function, facts);
}

Result<CudaKernel> CudaKernel::other(const std::string& symbol, std::size_t dynamic_shared_bytes) const {
  return CudaModule(*context_, module_).kernel(symbol, dynamic_shared_bytes);
}

Result<int> CudaKernel::blocks_per_sm(int threads, std::size_t dynamic_shared_bytes) const {
  const CudaCurrent current(*context_);
  TS_TRY(current.status());
  int blocks = 0;
  TS_TRY(cuda_status(context_->driver(),
                     context_->driver().occupancy(&blocks, function_, threads, dynamic_shared_bytes),
                     "asking how many blocks fit an SM"));
  return blocks;
}

Status launch(const CudaKernel& kernel, const CudaLaunch& how, void* const* parameters) {
  const CudaDriver& driver = kernel.context().driver();
  const CudaCurrent current(kernel.context());
  TS_TRY(current.status());
  const PackedLaunch packed(how);
  const cu::Code code =
      driver.launch_kernel(&packed.config, kernel.function(), const_cast<void**>(parameters), nullptr);
  if (code == cu::Code::success) [[likely]]
    return {};
  return std::unexpected(cuda_error(driver, code, describe(how)));
}

Result<int> active_clusters(const CudaKernel& kernel, const CudaLaunch& how) {
  const CudaDriver& driver = kernel.context().driver();
  const CudaCurrent current(kernel.context());
  TS_TRY(current.status());
  const PackedLaunch packed(how);
  int clusters = 0;
  TS_TRY(cuda_status(driver, driver.occupancy_clusters(&clusters, kernel.function(), &packed.config),
                     "asking how many clusters the device holds"));
  return clusters;
}

}  // namespace tilesmith
