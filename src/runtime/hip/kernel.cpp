#include "runtime/hip/kernel.hpp"

#include <elf.h>
#include <fmt/core.h>

#include <cstring>

#include "runtime/hip/stream.hpp"

namespace tilesmith {

Result<std::string> code_object_arch(std::string_view bytes) {
  Elf64_Ehdr header{};
  if (bytes.size() >= sizeof header) std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_machine != EM_AMDGPU)
    return fail(ErrorCode::load_failed, fmt::format("{} bytes that are no code object for an AMD GPU", bytes.size()));
  constexpr std::string_view kTarget = "amdgcn-amd-amdhsa--";
  const std::size_t at = bytes.find(kTarget);
  std::string_view arch = at == std::string_view::npos ? std::string_view() : bytes.substr(at + kTarget.size());
  arch = arch.substr(0, arch.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"));
  if (arch.empty()) return fail(ErrorCode::load_failed, "a code object that does not name its processor");
  return std::string(arch);
}

Result<HipModule> HipModule::load(const HipDevice& device, std::string_view code_object) {
  TS_ASSIGN(const std::string arch, code_object_arch(code_object));
  if (arch != device.info().arch)
    return fail(ErrorCode::load_failed,
                fmt::format("code for {} does not run on {} ({})", arch, device.info().name, device.info().arch),
                fmt::format("compile it for {}", device.info().arch));
  const HipCurrent current(device);
  TS_TRY(current.status());
  const HipCaptureRelaxed relaxed(device.library());
  hip::Module handle = nullptr;
  TS_TRY(hip_status(device.library(), device.library().module_load_data(&handle, code_object.data()),
                    fmt::format("loading code for {} on {}", arch, device.info().name)));
  return HipModule(device, handle);
}

Result<HipKernel> HipModule::kernel(const std::string& symbol) const {
  const HipCurrent current(device_);
  TS_TRY(current.status());
  const HipCaptureRelaxed relaxed(device_.library());
  hip::Function function = nullptr;
  const hip::Code code = device_.library().module_get_function(&function, handle_, symbol.c_str());
  if (code == hip::Code::success) return HipKernel(device_, function);
  Error error = hip_error(device_.library(), code, fmt::format("looking for the kernel {}", symbol));
  if (error.code == ErrorCode::not_found) error.code = ErrorCode::load_failed;
  return std::unexpected(std::move(error));
}

Result<int> HipKernel::blocks_per_compute_unit(int threads, std::size_t dynamic_lds_bytes) const {
  const HipCurrent current(device_);
  TS_TRY(current.status());
  int blocks = 0;
  TS_TRY(hip_status(device_.library(), device_.library().occupancy(&blocks, function_, threads, dynamic_lds_bytes),
                    "asking how many blocks fit a compute unit"));
  return blocks;
}

Status launch(const HipKernel& kernel, const HipLaunch& how, void* const* parameters) {
  const HipLibrary& library = kernel.device().library();
  const HipCurrent current(kernel.device());
  TS_TRY(current.status());
  const hip::Code code =
      library.launch_kernel(kernel.function(), how.blocks, 1, 1, how.threads, 1, 1, how.dynamic_lds_bytes, how.stream,
                            const_cast<void**>(parameters), nullptr);
  if (code == hip::Code::success) [[likely]]
    return {};
  return std::unexpected(
      hip_error(library, code,
                fmt::format("launching {} blocks of {} threads with {} bytes of dynamic local memory", how.blocks,
                            how.threads, how.dynamic_lds_bytes)));
}

}  // namespace tilesmith
