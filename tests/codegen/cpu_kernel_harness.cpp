#include "codegen/cpu_kernel_harness.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "jit/build.hpp"
#include "jit/cxx_toolchain.hpp"

namespace tilesmith {

bool machine_has(CpuLevel level) {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)
  switch (level) {
    case CpuLevel::x86_64_v3:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case CpuLevel::x86_64_v4:
      return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    case CpuLevel::x86_64_v4_bf16:
      return machine_has(CpuLevel::x86_64_v4) && __builtin_cpu_supports("avx512bf16");
    case CpuLevel::x86_64_amx:
      return machine_has(CpuLevel::x86_64_v4_bf16) && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }
  return false;
}

Result<const TsCpuKernel*> compile_kernel(Source source, const std::filesystem::path& store_directory) {
  TS_ASSIGN(const std::unique_ptr<Store> store, Store::open(store_directory));
  static const Result<std::unique_ptr<CxxToolchain>> toolchain = CxxToolchain::find();
  if (!toolchain) return std::unexpected(toolchain.error());
  for (const char* option : {"-Wall", "-Werror"}) source.options.emplace_back(option);
  TS_ASSIGN(const Binary binary, build(*store, **toolchain, source));
  void* library = dlopen(binary.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail(ErrorCode::load_failed, dlerror());
  const void* symbol = dlsym(library, source.entry_symbol.c_str());
  if (symbol == nullptr) return fail(ErrorCode::load_failed, "no symbol " + source.entry_symbol);
  return static_cast<const TsCpuKernel*>(symbol);
}

GuardedBytes::GuardedBytes(std::size_t bytes, std::size_t alignment) {
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  mapped_ = (rounded + page - 1) / page * page + page;
  mapping_ =
      static_cast<std::byte*>(mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::memset(mapping_, 0xff, mapped_ - page);
  mprotect(mapping_ + mapped_ - page, page, PROT_NONE);
  data_ = mapping_ + mapped_ - page - rounded;
}

GuardedBytes::~GuardedBytes() {
  munmap(mapping_, mapped_);
}

void run_stages(const TsCpuKernel& kernel, const void* args) {
  const GuardedBytes scratch(static_cast<std::size_t>(kernel.scratch_bytes(args)), 64);
  if (kernel.thread_begin != nullptr) kernel.thread_begin();
  for (unsigned s = 0; s < kernel.stage_count; ++s) {
    const long long tasks = kernel.stages[s].tasks(args);
    for (long long t = 0; t < tasks; ++t) kernel.stages[s].run(args, t, scratch.data());
  }
  if (kernel.thread_end != nullptr) kernel.thread_end();
}

}  // namespace tilesmith
