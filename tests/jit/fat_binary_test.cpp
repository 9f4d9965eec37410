#include "jit/fat_binary.hpp"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

namespace tilesmith {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;  // target, code object

template <class Record>
std::string bytes_of(const Record& record) {
  return std::string(reinterpret_cast<const char*>(&record), sizeof record);
}

std::string made_bundle(const Entries& entries) {
  std::string head = "__CLANG_OFFLOAD_BUNDLE__" + bytes_of(std::uint64_t{entries.size()});
  std::size_t at = head.size();
  for (const auto& [target, object] : entries) at += 24 + target.size();
  std::string objects;
  for (const auto& [target, object] : entries) {
    head += bytes_of(std::uint64_t{at + objects.size()}) + bytes_of(std::uint64_t{object.size()}) +
            bytes_of(std::uint64_t{target.size()}) + target;
    objects += object;
  }
  return head + objects;
}

/// An ELF file of two sections: the names, and one with the content.
std::string made_library(const std::string& section, const std::string& content) {
  const std::string names = std::string(1, '\0') + section + '\0' + ".names" + '\0';
  Elf64_Ehdr head{};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_shentsize = sizeof(Elf64_Shdr);
  head.e_shnum = 3;
  head.e_shstrndx = 2;
  head.e_shoff = sizeof head;
  Elf64_Shdr none{}, fat{}, strings{};
  fat.sh_name = 1;
  fat.sh_type = strings.sh_type = SHT_PROGBITS;
  fat.sh_offset = sizeof head + 3 * sizeof(Elf64_Shdr);
  fat.sh_size = content.size();
  strings.sh_name = static_cast<Elf64_Word>(section.size() + 2);
  strings.sh_offset = fat.sh_offset + content.size();
  strings.sh_size = names.size();
  return bytes_of(head) + bytes_of(none) + bytes_of(fat) + bytes_of(strings) + content + names;
}

const Entries kEntries = {{"host-x86_64-unknown-linux-gnu-", ""},
                          {"hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-", "for gfx90a"},
                          {"hipv4-amdgcn-amd-amdhsa--gfx942", "for gfx942"}};

TEST(FatBinary, HasACodeObjectForEachChip) {
  const std::string library = made_library(".hip_fatbin", made_bundle(kEntries));
  EXPECT_EQ(bundled_code_object(library, "gfx942").value(), "for gfx942");
  EXPECT_EQ(bundled_code_object(library, "gfx90a").value(), "for gfx90a");
  const auto none = bundled_code_object(library, "gfx94");
  ASSERT_FALSE(none.has_value());
  EXPECT_NE(none.error().message.find("none for gfx94"), std::string::npos) << none.error().text();
}

TEST(FatBinary, BytesThatAreNoneAreErrors) {
  const std::string library = made_library(".hip_fatbin", made_bundle(kEntries));
  const auto says = [](const std::string& bytes, const char* what) {
    const auto found = bundled_code_object(bytes, "gfx942");
    ASSERT_FALSE(found.has_value()) << what;
    EXPECT_NE(found.error().message.find(what), std::string::npos) << found.error().text();
  };
  says("", "no 64-bit ELF");
  says("no library", "no 64-bit ELF");
  says(made_library(".other", made_bundle(kEntries)), "no whole section .hip_fatbin");
  says(made_library(".hip_fatbin", "CCOB and so on"), "compressed");
  says(made_library(".hip_fatbin", "nothing of the kind"), "no bundle");
  std::string far = made_bundle(kEntries);
  far.resize(far.size() - 3);
  says(made_library(".hip_fatbin", far), "cut short");
  std::string endless = made_bundle({});
  endless[24] = 5;  // entries that are not there
  says(made_library(".hip_fatbin", endless), "cut short");
  // Whatever is cut off, nothing is read behind the end.
  for (std::size_t size = 0; size < library.size(); ++size)
    static_cast<void>(bundled_code_object(std::string_view(library).substr(0, size), "gfx942"));
}

}  // namespace
}  // namespace tilesmith
