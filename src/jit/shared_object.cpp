#include "jit/shared_object.hpp"

#include <elf.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "base/subprocess.hpp"
#include "jit/toolchain.hpp"

namespace tilesmith {
namespace {

constexpr std::chrono::seconds kLoadTimeLimit{20};

std::unexpected<Error> torn(std::string what) {
  return fail(ErrorCode::internal, "no whole shared object: " + what);
}

class Image {
 public:
  explicit Image(std::string_view bytes) : bytes_(bytes) {}

  [[nodiscard]] bool holds(std::uint64_t offset, std::uint64_t size) const {
    return offset <= bytes_.size() && size <= bytes_.size() - offset;
  }
  /// `count` records from `offset`; nothing when they do not lie within the file.
  template <class Record>
  [[nodiscard]] std::optional<std::vector<Record>> records(std::uint64_t offset, std::uint64_t count) const {
    if (count > bytes_.size() / sizeof(Record) || !holds(offset, count * sizeof(Record))) return std::nullopt;
    std::vector<Record> records(count);
    if (count > 0) std::memcpy(records.data(), bytes_.data() + offset, count * sizeof(Record));
    return records;
  }
  /// The text from `offset` to its NUL; nothing when that does not come.
  [[nodiscard]] std::optional<std::string_view> text(std::uint64_t offset) const {
    if (offset >= bytes_.size()) return std::nullopt;
    const std::size_t end = bytes_.find('\0', offset);
    if (end == std::string_view::npos) return std::nullopt;
    return bytes_.substr(offset, end - offset);
  }

 private:
  std::string_view bytes_;
};

using Segments = std::vector<Elf64_Phdr>;

bool is_loaded(const Segments& segments, std::uint64_t address, std::uint64_t size) {
  return std::ranges::any_of(segments, [&](const Elf64_Phdr& segment) {
    return segment.p_type == PT_LOAD && address >= segment.p_vaddr && size <= segment.p_memsz &&
           address - segment.p_vaddr <= segment.p_memsz - size;
  });
}

/// The tables that the loader follows lie in what it maps.
Status check_dynamic(const Image& image, const Segments& segments) {
  const auto dynamic = std::ranges::find(segments, Elf64_Word{PT_DYNAMIC}, &Elf64_Phdr::p_type);
  if (dynamic == segments.end()) return torn("it has no dynamic segment");
  const auto entries = image.records<Elf64_Dyn>(dynamic->p_offset, dynamic->p_filesz / sizeof(Elf64_Dyn));
  if (!entries) return torn("its dynamic segment ends behind the file");
  std::uint64_t value[DT_NUM] = {};
  bool ends = false;
  for (const Elf64_Dyn& entry : *entries) {
    ends = entry.d_tag == DT_NULL;
    if (ends) break;
    if (entry.d_tag > 0 && entry.d_tag < DT_NUM) value[entry.d_tag] = entry.d_un.d_val;
  }
  if (!ends) return torn("its dynamic table has no end");
  struct Table {
    int address;
    int size;  ///< DT_NULL: of unknown size
    bool needed;
  };
  constexpr Table kTables[] = {{DT_STRTAB, DT_STRSZ, true},
                               {DT_SYMTAB, DT_NULL, true},
                               {DT_RELA, DT_RELASZ, false},
                               {DT_JMPREL, DT_PLTRELSZ, false},
                               {DT_INIT_ARRAY, DT_INIT_ARRAYSZ, false},
                               {DT_FINI_ARRAY, DT_FINI_ARRAYSZ, false},
                               {DT_HASH, DT_NULL, false},
                               {DT_INIT, DT_NULL, false},
                               {DT_FINI, DT_NULL, false}};
  for (const Table& table : kTables) {
    if (value[table.address] == 0 && !table.needed) continue;
    const std::uint64_t size = table.size == DT_NULL ? 1 : value[table.size];
    if (!is_loaded(segments, value[table.address], size))
      return torn(fmt::format("table {} of its dynamic segment lies outside what is loaded", table.address));
  }
  return {};
}

Status check_symbols(const Image& image, const Segments& segments, const std::vector<Elf64_Shdr>& sections,
                     std::span<const std::string> wanted) {
  const auto table = std::ranges::find(sections, Elf64_Word{SHT_DYNSYM}, &Elf64_Shdr::sh_type);
  if (table == sections.end() || table->sh_link >= sections.size()) return torn("it has no table of symbols");
  const auto symbols = image.records<Elf64_Sym>(table->sh_offset, table->sh_size / sizeof(Elf64_Sym));
  if (!symbols) return torn("its table of symbols ends behind the file");
  const std::uint64_t names = sections[table->sh_link].sh_offset;
  for (const std::string& name : wanted) {
    const auto defines = [&](const Elf64_Sym& symbol) {
      return symbol.st_shndx != SHN_UNDEF && ELF64_ST_BIND(symbol.st_info) != STB_LOCAL &&
             is_loaded(segments, symbol.st_value, std::max<std::uint64_t>(1, symbol.st_size)) &&
             image.text(names + symbol.st_name) == name;
    };
    if (std::ranges::none_of(*symbols, defines))
      return fail(ErrorCode::internal, fmt::format("it does not define {}", name),
                  "the entry symbol must be extern \"C\" with default visibility");
  }
  return {};
}

}  // namespace

Status check_shared_object(std::string_view bytes, std::span<const std::string> symbols) {
  const Image image(bytes);
  const auto headers = image.records<Elf64_Ehdr>(0, 1);
  if (!headers) return torn(fmt::format("{} bytes", bytes.size()));
  const Elf64_Ehdr& header = headers->front();
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_DYN)
    return torn("its header is another");
  if (header.e_machine != EM_X86_64) return torn(fmt::format("it is for machine {} of ELF", header.e_machine));
  const auto segments = header.e_phentsize == sizeof(Elf64_Phdr)
                            ? image.records<Elf64_Phdr>(header.e_phoff, header.e_phnum)
                            : std::nullopt;
  if (!segments || segments->empty()) return torn("its program headers are not in the file");
  for (const Elf64_Phdr& segment : *segments)
    if (segment.p_type != PT_NULL && (!image.holds(segment.p_offset, segment.p_filesz) ||
                                      (segment.p_type == PT_LOAD && segment.p_filesz > segment.p_memsz)))
      return torn(fmt::format("a segment ends behind the file's {} bytes", bytes.size()));
  const auto sections = header.e_shentsize == sizeof(Elf64_Shdr)
                            ? image.records<Elf64_Shdr>(header.e_shoff, header.e_shnum)
                            : std::nullopt;
  if (!sections || sections->empty()) return torn("its section headers are not in the file");
  for (const Elf64_Shdr& section : *sections)
    if (section.sh_type != SHT_NULL && section.sh_type != SHT_NOBITS &&
        !image.holds(section.sh_offset, section.sh_size))
      return torn(fmt::format("a section ends behind the file's {} bytes", bytes.size()));
  TS_TRY(check_dynamic(image, *segments));
  return check_symbols(image, *segments, *sections, symbols);
}

// The library is preloaded into a program that does nothing, so nothing of this process is copied or put at risk, and
// however many threads it has does not matter.
Status try_loading(const std::filesystem::path& directory, const std::string& file) {
  const auto program = find_program("true"), with = find_program("env");
  if (!program || !with) return {};
  // By env, not in the environment of the command: what starts the command may be a program itself, in another folder.
  Command command{.arguments = {with->string(), "LD_BIND_NOW=1", "LD_PRELOAD=./" + file, program->string()}};
  command.environment = {"LC_ALL=C"};
  command.directory = directory;
  command.time_limit = kLoadTimeLimit;
  TS_ASSIGN(const ProcessOutcome outcome, run_process(command));
  if (outcome.end == ProcessOutcome::End::cancelled) return fail(ErrorCode::cancelled, "cancelled");
  if (outcome.succeeded() && outcome.errors.empty()) return {};
  for (const char* of_this_machine : {"failed to map segment", "CPU ISA level"})
    if (outcome.errors.find(of_this_machine) != std::string::npos) return {};
  return torn(fmt::format("a process that loaded it {}{}{}", outcome.describe(), outcome.errors.empty() ? "" : ": ",
                          quote_log(outcome.errors)));
}

}  // namespace tilesmith
