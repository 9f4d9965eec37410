// NVRTC with a fault in what it compiles. find_mutants.py builds this library against the true one, whose path REAL is,
// and names it in TILESMITH_NVRTC: what is not defined here a caller finds in the true library behind it.
//
// The folder TILESMITH_FAULT has the files `in` (a template's path below kernels/), `from` and `to` (texts). Where the
// lines of that template have `from`, `to` takes its place and the file `applied` is made. `slow_in`, `slow_from` and
// `slow_to` are a second exchange of the same kind.
#include <dlfcn.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace {

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The text with what the files `kind`in, `kind`from and `kind`to name. A file's lines stand in several sections where
/// it includes others.
std::string exchanged(std::string text, const std::string& kind) {
  const char* const folder = std::getenv("TILESMITH_FAULT");
  if (folder == nullptr) return text;
  const std::string here = std::string(folder) + "/" + kind, from = read(here + "from");
  const std::string header = "\n// ---- ", wanted = header + read(here + "in") + "\n";
  if (from.empty()) return text;
  for (std::size_t begin = text.find(wanted); begin != std::string::npos; begin = text.find(wanted, begin + 1)) {
    const std::size_t end = text.find(header, begin + 1), at = text.find(from, begin);
    if (at >= end) continue;
    std::ofstream(here + "applied").close();
    return text.replace(at, from.size(), read(here + "to"));
  }
  return text;
}

}  // namespace

extern "C" int nvrtcCreateProgram(void** program, const char* source, const char* name, int headers,
                                  const char* const* texts, const char* const* names) {
  using Create = int(void**, const char*, const char*, int, const char* const*, const char* const*);
  static auto* const create = reinterpret_cast<Create*>(::dlsym(::dlopen(REAL, RTLD_NOW), "nvrtcCreateProgram"));
  return create(program, exchanged(exchanged(source, "slow_"), "").c_str(), name, headers, texts, names);
}
