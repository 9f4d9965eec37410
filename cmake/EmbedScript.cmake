# Run by tilesmith_embed: writes the C++ source that holds the files as raw string literals.
string(REPLACE "," ";" FILES "${FILES}")
set(entries "")
foreach(file ${FILES})
  file(READ ${ROOT}/${file} text)
  # A compiler limits one literal's length; adjacent literals join. Split at a fixed length, which CMake counts in bytes for ASCII text.
  string(LENGTH "${text}" length)
  set(literals "")
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${text}" ${at} 12000 piece)
    string(APPEND literals "R\"tsembed(${piece})tsembed\"\n")
    math(EXPR at "${at} + 12000")
  endwhile()
  if(length EQUAL 0)
    set(literals "\"\"")
  endif()
  # With the length that a literal has: counting the characters of all files would go beyond what a compiler computes in a constant expression.
  string(STRIP "${literals}" literals)
  string(APPEND entries "    {\"${file}\", ${literals}sv},\n")
endforeach()
file(WRITE ${OUTPUT} "// Generated from the files it names; edit those.
#include \"base/embedded.hpp\"

namespace tilesmith {
std::span<const EmbeddedFile> embedded_${NAME}();
std::span<const EmbeddedFile> embedded_${NAME}() {
  using namespace std::string_view_literals;
  static constexpr EmbeddedFile kFiles[] = {
${entries}  };
  return kFiles;
}
}  // namespace tilesmith
")
