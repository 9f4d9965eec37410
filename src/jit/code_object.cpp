#include "jit/code_object.hpp"

#include <elf.h>
#include <fmt/core.h>

#include <cstdint>
#include <cstring>
#include <optional>

#include "base/json.hpp"
#include "base/json_error.hpp"
#include "jit/elf_record.hpp"

namespace tilesmith {
namespace {

using nlohmann::json;

constexpr Elf64_Word kMetadataNote = 32;  // NT_AMDGPU_METADATA: a map in MessagePack
constexpr std::string_view kNoteOwner{"AMDGPU\0", 7};

std::unexpected<Error> no_code_object(std::string what) {
  return fail(ErrorCode::internal, "no code object for an AMD GPU: " + what);
}

/// Sizes in notes are rounded up to words.
std::uint64_t in_whole_words(std::uint64_t bytes) {
  return (bytes + 3) / 4 * 4;
}

/// The metadata among the notes of a segment.
std::optional<std::string_view> metadata_among(std::string_view notes) {
  std::uint64_t at = 0;
  while (const auto head = record_at<Elf64_Nhdr>(notes, at)) {
    const std::uint64_t name = at + sizeof *head;
    const std::uint64_t content = name + in_whole_words(head->n_namesz);
    if (content > notes.size() || head->n_descsz > notes.size() - content) return std::nullopt;
    if (head->n_type == kMetadataNote && notes.substr(name, head->n_namesz) == kNoteOwner)
      return notes.substr(content, head->n_descsz);
    at = content + in_whole_words(head->n_descsz);
  }
  return std::nullopt;
}

std::optional<std::string_view> find_metadata(std::string_view bytes, const Elf64_Ehdr& head) {
  for (int i = 0; i < head.e_phnum; ++i) {
    const auto segment = record_at<Elf64_Phdr>(bytes, head.e_phoff + std::uint64_t{i * sizeof(Elf64_Phdr)});
    if (!segment) return std::nullopt;
    if (segment->p_type != PT_NOTE) continue;
    if (segment->p_offset > bytes.size() || segment->p_filesz > bytes.size() - segment->p_offset) return std::nullopt;
    if (const auto found = metadata_among(bytes.substr(segment->p_offset, segment->p_filesz))) return found;
  }
  return std::nullopt;
}

void read_kernel(const json& kernel, ResourceReport& report) {
  FunctionResources& function = report.functions.emplace_back();
  function.is_kernel = true;
  kernel.at(".name").get_to(function.function);
  kernel.at(".vgpr_count").get_to(function.registers);
  function.accumulation_registers = kernel.value(".agpr_count", 0);
  kernel.at(".group_segment_fixed_size").get_to(function.shared_bytes);
  kernel.at(".private_segment_fixed_size").get_to(function.stack_bytes);
  function.spill_store_bytes = function.spill_load_bytes = 4 * kernel.value(".vgpr_spill_count", std::int64_t{0});
  const auto scalars = kernel.value(".sgpr_spill_count", 0);
  if (scalars > 0)
    report.advisories.push_back(
        fmt::format("{}: {} scalar registers are kept in lanes of vector registers", function.function, scalars));
  if (function.stack_bytes > 0 && function.spill_store_bytes == 0)
    report.advisories.push_back(fmt::format(
        "Potential Performance Loss: {} keeps {} bytes of memory for each lane, for an array whose index is "
        "not constant",
        function.function, function.stack_bytes));
}

}  // namespace

Result<std::string_view> code_object_metadata(std::string_view bytes) {
  const auto head = record_at<Elf64_Ehdr>(bytes, 0);
  if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64 ||
      head->e_phentsize != sizeof(Elf64_Phdr))
    return no_code_object("it is no 64-bit ELF file");
  if (head->e_machine != EM_AMDGPU)
    return no_code_object(fmt::format("its machine is {}, not {}", head->e_machine, EM_AMDGPU));
  const auto metadata = find_metadata(bytes, *head);
  if (!metadata) return no_code_object("it has no whole note of metadata");
  return *metadata;
}

Result<CodeObject> read_code_object(std::string_view bytes) {
  TS_ASSIGN(const std::string_view metadata, code_object_metadata(bytes));
  try {
    const json map = json::from_msgpack(metadata.begin(), metadata.end());
    CodeObject object;
    map.at("amdhsa.target").get_to(object.target);
    for (const json& kernel : map.at("amdhsa.kernels")) read_kernel(kernel, object.resources);
    return object;
  } catch (const json::exception& error) {
    return no_code_object(fmt::format("its note of metadata cannot be read: {}", words_of(error)));
  }
}

}  // namespace tilesmith
