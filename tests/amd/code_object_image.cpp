#include "amd/code_object_image.hpp"

#include <elf.h>

#include <cstring>

#include "amd/fault.hpp"
#include "base/json.hpp"
#include "jit/code_object.hpp"

namespace tilesmith::amdgpu {
namespace {

using nlohmann::json;

template <class Record>
Record record_at(std::string_view bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(Record)) fault("the code object ends too early");
  Record record;
  std::memcpy(&record, bytes.data() + offset, sizeof record);
  return record;
}

/// The address of a symbol of the dynamic symbol table.
std::uint64_t address_of(std::string_view bytes, const Elf64_Ehdr& head, std::string_view wanted) {
  for (int s = 0; s < head.e_shnum; ++s) {
    const auto section = record_at<Elf64_Shdr>(bytes, head.e_shoff + std::uint64_t{s * sizeof(Elf64_Shdr)});
    if (section.sh_type != SHT_DYNSYM) continue;
    const auto names = record_at<Elf64_Shdr>(bytes, head.e_shoff + std::uint64_t{section.sh_link * sizeof(Elf64_Shdr)});
    for (std::uint64_t at = 0; at < section.sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = record_at<Elf64_Sym>(bytes, section.sh_offset + at);
      const std::string_view name = bytes.substr(names.sh_offset + symbol.st_name);
      if (name.substr(0, name.find('\0')) == wanted) return symbol.st_value;
    }
  }
  fault("the code object has no symbol {}", wanted);
}

/// What the interpreter takes for granted of a kernel's mode and initial state.
void check(const Kernel& kernel, std::string_view chip) {
  const KernelDescriptor& d = kernel.descriptor;
  // COMPUTE_PGM_RSRC1: rounding of float32 and of fp16 and float64 in 15:12 (0: nearest even), denormals in 19:16 (15:
  // kept, of operands and results).
  if ((d.resources1 >> 12 & 15) != 0) fault("{} does not round to nearest even", kernel.name);
  if ((d.resources1 >> 16 & 15) != 15) fault("{} flushes denormals", kernel.name);
  // Bit 23, ENABLE_IEEE_MODE, which gfx12 does not have.
  if (!chip.starts_with("gfx12") && (d.resources1 >> 23 & 1) == 0) fault("{} is not in the IEEE mode", kernel.name);
  if (d.private_segment_bytes != 0 || (d.resources2 & 1) != 0) fault("{} keeps memory for each lane", kernel.name);
}

}  // namespace

CodeObjectImage::CodeObjectImage(std::string_view bytes) {
  const auto metadata = code_object_metadata(bytes);
  if (!metadata) fault("{}", metadata.error().text());
  const auto head = record_at<Elf64_Ehdr>(bytes, 0);
  for (int i = 0; i < head.e_phnum; ++i) {
    const auto segment = record_at<Elf64_Phdr>(bytes, head.e_phoff + std::uint64_t{i * sizeof(Elf64_Phdr)});
    if (segment.p_type != PT_LOAD) continue;
    if (segment.p_offset > bytes.size() || segment.p_filesz > bytes.size() - segment.p_offset)
      fault("a segment is longer than the code object");
    memory_.resize(std::max<std::size_t>(memory_.size(), segment.p_vaddr + segment.p_memsz));
    std::memcpy(memory_.data() + segment.p_vaddr, bytes.data() + segment.p_offset, segment.p_filesz);
  }
  const json map = json::from_msgpack(metadata->begin(), metadata->end());
  const auto target = map.at("amdhsa.target").get<std::string>();
  chip_ = target.substr(target.rfind("--") + 2);
  chip_ = chip_.substr(0, chip_.find(':'));
  for (const json& each : map.at("amdhsa.kernels")) {
    Kernel kernel;
    each.at(".name").get_to(kernel.name);
    each.at(".wavefront_size").get_to(kernel.lanes);
    for (const json& argument : each.value(".args", json::array())) {
      KernelArgument& added = kernel.arguments.emplace_back();
      argument.at(".value_kind").get_to(added.kind);
      argument.at(".offset").get_to(added.offset);
      argument.at(".size").get_to(added.bytes);
    }
    const std::uint64_t at = address_of(bytes, head, each.at(".symbol").get<std::string>());
    kernel.descriptor = record_at<KernelDescriptor>({memory_.data(), memory_.size()}, at);
    kernel.entry = at + static_cast<std::uint64_t>(kernel.descriptor.entry_offset);
    check(kernel, chip_);
    kernels_.push_back(std::move(kernel));
  }
}

const Kernel& CodeObjectImage::kernel(std::string_view name) const {
  for (const Kernel& kernel : kernels_)
    if (kernel.name == name) return kernel;
  fault("the code object has no kernel {}", name);
}

}  // namespace tilesmith::amdgpu
