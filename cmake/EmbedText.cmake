# Turns text files into a C++ source that holds them, so that the library needs no file beside it at run time.
# cmake -D OUTPUT=file.cpp -D "INPUTS=a;b" -D FUNCTION=name -P EmbedText.cmake
# writes std::string_view tilesmith::FUNCTION(std::string_view file_name), which is empty for an unknown name.
set(cases "")
foreach(input ${INPUTS})
  get_filename_component(name ${input} NAME)
  file(READ ${input} text)
  # A string literal may be limited to 64 KiB; fragments are far smaller, and this says so early.
  string(LENGTH "${text}" length)
  if(length GREATER 60000)
    message(FATAL_ERROR "${input} has ${length} characters; an embedded file may have 60000")
  endif()
  string(APPEND cases "  if (name == \"${name}\") return R\"embedded(${text})embedded\";\n")
endforeach()
set(source "// Generated from the files below; do not edit.\n#include <string_view>\n\nnamespace tilesmith {\n\n")
string(APPEND source "std::string_view ${FUNCTION}(std::string_view name);\n\nstd::string_view ${FUNCTION}(std::string_view name) {\n")
string(APPEND source "${cases}  return {};\n}\n\n}  // namespace tilesmith\n")
file(WRITE ${OUTPUT} "${source}")
