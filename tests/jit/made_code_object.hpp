// A code object made by hand: an ELF file for AMD GPUs that holds nothing but a note of metadata.
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tilesmith::testing {

/// One kernel as the compiler's metadata tells of it.
inline nlohmann::json made_kernel(const std::string& name) {
  return {{".name", name},
          {".symbol", name + ".kd"},
          {".vgpr_count", 72},
          {".agpr_count", 16},
          {".vgpr_spill_count", 0},
          {".sgpr_spill_count", 0},
          {".group_segment_fixed_size", 32768},
          {".private_segment_fixed_size", 0},
          {".wavefront_size", 64}};
}

inline std::string made_code_object(const std::string& arch, const std::vector<nlohmann::json>& kernels) {
  const nlohmann::json metadata = {
      {"amdhsa.target", "amdgcn-amd-amdhsa--" + arch}, {"amdhsa.version", {1, 2}}, {"amdhsa.kernels", kernels}};
  std::vector<std::uint8_t> content = nlohmann::json::to_msgpack(metadata);
  const auto content_size = static_cast<Elf64_Word>(content.size());
  content.resize((content.size() + 3) / 4 * 4);

  struct Image {
    Elf64_Ehdr head{};
    Elf64_Phdr segment{};
    Elf64_Nhdr note{};
    char owner[8] = "AMDGPU";
  } image;
  std::memcpy(image.head.e_ident, ELFMAG, SELFMAG);
  image.head.e_ident[EI_CLASS] = ELFCLASS64;
  image.head.e_type = ET_DYN;
  image.head.e_machine = EM_AMDGPU;
  image.head.e_phoff = offsetof(Image, segment);
  image.head.e_phentsize = sizeof(Elf64_Phdr);
  image.head.e_phnum = 1;
  image.segment.p_type = PT_NOTE;
  image.segment.p_offset = offsetof(Image, note);
  image.segment.p_filesz = sizeof image.note + sizeof image.owner + content.size();
  image.note.n_namesz = 7;
  image.note.n_descsz = content_size;
  image.note.n_type = 32;
  std::string bytes(offsetof(Image, owner) + sizeof image.owner, '\0');
  std::memcpy(bytes.data(), &image, bytes.size());
  bytes.append(content.begin(), content.end());
  return bytes;
}

}  // namespace tilesmith::testing
