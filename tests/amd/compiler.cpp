#include "amd/compiler.hpp"

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/subprocess.hpp"

namespace tilesmith::amdgpu {

Result<Compiler> Compiler::find() {
  TS_ASSIGN(std::unique_ptr<AmdgcnToolchain> toolchain, AmdgcnToolchain::find());
  // Beside clang itself, which a link in PATH leads to.
  std::error_code error;
  const auto clang = std::filesystem::canonical(toolchain->compiler(), error);
  const auto objdump = clang.parent_path() / "llvm-objdump";
  if (error || !std::filesystem::exists(objdump))
    return fail(ErrorCode::not_found, fmt::format("no llvm-objdump beside {}", clang.string()),
                "install llvm of clang's release (Debian: llvm-22), or run tools/setup.sh");
  return Compiler(std::move(toolchain), objdump);
}

Result<Program> Compiler::compile(const Source& source) const {
  const Source* one = &source;
  TS_ASSIGN(const Compiled compiled, toolchain_->compile({&one, 1}, {}));
  return Program::load(compiled.binary, objdump_);
}

Result<Program> Compiler::assemble(std::string_view chip, std::string_view text, int lds_bytes) const {
  const bool wave32 = chip.starts_with("gfx11") || chip.starts_with("gfx12");
  const bool accumulates = chip == "gfx90a" || chip == "gfx942" || chip == "gfx950";
  const std::string source = fmt::format(
      R"(.amdgcn_target "amdgcn-amd-amdhsa--{0}"
.text
.globl snippet
.p2align 8
.type snippet,@function
snippet:
{1}
s_endpgm
.rodata
.p2align 6
.amdhsa_kernel snippet
.amdhsa_user_sgpr_kernarg_segment_ptr 1
.amdhsa_kernarg_size 8
.amdhsa_group_segment_fixed_size {2}
.amdhsa_next_free_vgpr 256
.amdhsa_next_free_sgpr 96
.amdhsa_float_denorm_mode_32 3
{3}
.end_amdhsa_kernel
.amdgpu_metadata
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--{0}
amdhsa.kernels:
- .name: snippet
  .symbol: snippet.kd
  .kernarg_segment_size: 8
  .kernarg_segment_align: 8
  .group_segment_fixed_size: {2}
  .private_segment_fixed_size: 0
  .wavefront_size: {4}
  .sgpr_count: 96
  .vgpr_count: 256
  .max_flat_workgroup_size: 1024
  .args:
  - .offset: 0
    .size: 8
    .value_kind: by_value
.end_amdgpu_metadata
)",
      chip, text, lds_bytes,
      accumulates ? ".amdhsa_accum_offset 256"
      : wave32    ? ".amdhsa_wavefront_size32 1"
                  : "",
      wave32 ? 32 : 64);
  TS_ASSIGN(const TemporaryDirectory folder, TemporaryDirectory::create("tilesmith-amd-"));
  const auto in = folder.path() / "snippet.s", out = folder.path() / "snippet.o";
  TS_TRY(write_new_file(in, source));
  const Command command{.arguments = {toolchain_->compiler().string(), "--target=amdgcn-amd-amdhsa",
                                      fmt::format("-mcpu={}", chip), in.string(), "-o", out.string()}};
  TS_ASSIGN(const ProcessOutcome outcome, run_process(command));
  if (!outcome.succeeded()) return fail(ErrorCode::compile_failed, outcome.errors);
  TS_ASSIGN(const std::string binary, read_file(out));
  return Program::load(binary, objdump_);
}

}  // namespace tilesmith::amdgpu
