// An AMD code object: the shared object that the HIP runtime loads, and the note in it where the compiler says what
// each kernel takes of its device. The note is the one place where a spill shows.
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "jit/resource_report.hpp"

namespace tilesmith {

struct CodeObject {
  std::string target;  ///< "amdgcn-amd-amdhsa--gfx942"
  ResourceReport resources;
};

/// Reads the metadata note (NT_AMDGPU_METADATA, code object version 3 and newer). Registers are vector registers of a
/// lane, accumulation registers among them; a spilled register counts 4 bytes of stores and of loads. A kernel that
/// keeps memory of its own for each lane without spilling (an array whose index is not constant) gets an advisory: such
/// memory is as slow as a spill. Errors: `internal`, with what is wrong with the bytes.
[[nodiscard]] Result<CodeObject> read_code_object(std::string_view bytes);

/// The metadata note itself, a map in MessagePack. Errors as above.
[[nodiscard]] Result<std::string_view> code_object_metadata(std::string_view bytes);

}  // namespace tilesmith
