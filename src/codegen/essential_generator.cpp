// Build-time program: writes the sources of the essential set, one file per level and piece, and the table that lists
// their entry symbols.
//
//   essential_generator DIRECTORY PIECES LEVEL...      DIRECTORY/<level>_<piece>.cpp ..., DIRECTORY/table.cpp
//
// A level's instances are dealt to PIECES files so that a build can compile them in parallel.
#include <fmt/core.h>

#include <charconv>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/essential.hpp"
#include "codegen/generate.hpp"

namespace tilesmith {
namespace {

/// Writes the file only when its text changes, so that an unchanged source is not compiled again.
bool write(const std::string& path, const std::string& text) {
  std::ifstream in(path, std::ios::binary);
  const std::string old((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (in && old == text) return true;
  std::ofstream out(path, std::ios::binary);
  out << text;
  return static_cast<bool>(out.flush());
}

Status generate_all(const std::string& directory, int pieces, const std::vector<std::string_view>& levels) {
  TS_ASSIGN(const std::vector<CpuSpec> specs, load_cpu_specs());
  std::string declarations, entries;
  std::size_t count = 0;
  for (const std::string_view level : levels) {
    std::vector<std::string> texts(static_cast<std::size_t>(pieces));
    std::size_t next = 0;
    for (const CpuSpec& spec : specs) {
      if (spec.arch.text() != level) continue;
      for (const KernelConfig& config : essential_configs(spec)) {
        TS_ASSIGN(const Source source, generate(config, spec));
        // Each instance's internals live in a namespace of their own; its entry symbol is extern "C" wherever it
        // stands.
        texts[next++ % texts.size()] +=
            fmt::format("namespace {}_instance {{\n{}\n}}\n", source.entry_symbol, source.text);
        declarations += fmt::format("extern const TsCpuKernel {};\n", source.entry_symbol);
        entries += fmt::format("    &{},\n", source.entry_symbol);
        ++count;
      }
    }
    for (std::size_t piece = 0; piece < texts.size(); ++piece)
      if (const std::string path = fmt::format("{}/{}_{}.cpp", directory, level, piece); !write(path, texts[piece]))
        return fail(ErrorCode::io, fmt::format("cannot write {}", path));
  }
  // An array object, because the set may be empty and a built-in array may not.
  const std::string table = fmt::format(
      "#include <array>\n\n#include \"codegen/essential.hpp\"\n\nextern \"C\" {{\n{}}}\n\n"
      "std::span<const TsCpuKernel* const> tilesmith::essential_kernels() {{\n"
      "  static const std::array<const TsCpuKernel*, {}> kTable = {{{{\n{}  }}}};\n  return kTable;\n}}\n",
      declarations, count, entries);
  if (const std::string path = directory + "/table.cpp"; !write(path, table))
    return fail(ErrorCode::io, fmt::format("cannot write {}", path));
  return {};
}

}  // namespace
}  // namespace tilesmith

int main(int argc, char** argv) {
  int pieces = 0;
  if (argc < 3 || std::from_chars(argv[2], argv[2] + std::string_view(argv[2]).size(), pieces).ec != std::errc{} ||
      pieces < 1) {
    std::fputs("usage: essential_generator DIRECTORY PIECES LEVEL...\n", stderr);
    return 2;
  }
  const std::vector<std::string_view> levels(argv + 3, argv + argc);
  const tilesmith::Status status = tilesmith::generate_all(argv[1], pieces, levels);
  if (!status) fmt::print(stderr, "essential_generator: {}\n", status.error().text());
  return status ? 0 : 1;
}
