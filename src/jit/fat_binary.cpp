#include "jit/fat_binary.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <optional>

#include "jit/elf_record.hpp"

namespace tilesmith {
namespace {

constexpr std::string_view kFatSection = ".hip_fatbin", kBundleMagic = "__CLANG_OFFLOAD_BUNDLE__",
                           kCompressedBundle = "CCOB";

std::unexpected<Error> no_device_code(std::string what, std::string hint = {}) {
  return fail(ErrorCode::internal, "no device code: " + what, std::move(hint));
}

/// A part of the bytes; nothing when it does not lie within them.
std::optional<std::string_view> part_of(std::string_view bytes, std::uint64_t offset, std::uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
  return bytes.substr(offset, size);
}

std::optional<std::string_view> content_of(std::string_view bytes, const Elf64_Shdr& section) {
  return section.sh_type == SHT_NOBITS ? std::nullopt : part_of(bytes, section.sh_offset, section.sh_size);
}

std::optional<std::string_view> find_section(std::string_view bytes, const Elf64_Ehdr& head) {
  const auto section_at = [&](std::uint64_t i) {
    return record_at<Elf64_Shdr>(bytes, head.e_shoff + i * sizeof(Elf64_Shdr));
  };
  const auto names_section = section_at(head.e_shstrndx);
  const auto names = names_section ? content_of(bytes, *names_section) : std::nullopt;
  if (!names) return std::nullopt;
  for (std::uint64_t i = 0; i < head.e_shnum; ++i) {
    const auto section = section_at(i);
    if (!section || section->sh_name >= names->size()) continue;
    const std::string_view name = names->substr(section->sh_name);
    if (name.substr(0, name.find('\0')) == kFatSection) return content_of(bytes, *section);
  }
  return std::nullopt;
}

/// Whether an entry is for the chip: "hipv4-amdgcn-amd-amdhsa--gfx942", perhaps with ":sramecc+" and its like behind.
bool is_for(std::string_view target, std::string_view arch) {
  const std::size_t at = target.rfind("--");
  if (!target.starts_with("hip") || at == std::string_view::npos) return false;
  const std::string_view chip = target.substr(at + 2);
  return chip.substr(0, chip.find(':')) == arch;
}

}  // namespace

Result<std::string_view> bundled_code_object(std::string_view shared_object, std::string_view arch) {
  const auto head = record_at<Elf64_Ehdr>(shared_object, 0);
  if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64 ||
      head->e_shentsize != sizeof(Elf64_Shdr))
    return no_device_code("it is no 64-bit ELF file with sections");
  const auto bundle = find_section(shared_object, *head);
  if (!bundle) return no_device_code(fmt::format("it has no whole section {}", kFatSection));
  if (bundle->starts_with(kCompressedBundle))
    return no_device_code("its bundle is compressed", "a compiler that is told --no-offload-compress");
  const auto count = record_at<std::uint64_t>(*bundle, kBundleMagic.size());
  if (!bundle->starts_with(kBundleMagic) || !count) return no_device_code(fmt::format("{} is no bundle", kFatSection));
  struct Entry {
    std::uint64_t offset, size, name_size;
  };
  std::uint64_t at = kBundleMagic.size() + sizeof *count;
  for (std::uint64_t i = 0; i < *count; ++i) {
    const auto entry = record_at<Entry>(*bundle, at);
    const auto target = entry ? part_of(*bundle, at + sizeof(Entry), entry->name_size) : std::nullopt;
    if (!target) return no_device_code("its bundle is cut short");
    at += sizeof(Entry) + target->size();
    if (!is_for(*target, arch)) continue;
    const auto object = part_of(*bundle, entry->offset, entry->size);
    if (!object) return no_device_code("its bundle is cut short");
    return *object;
  }
  return no_device_code(fmt::format("its bundle has none for {}", arch));
}

}  // namespace tilesmith
