# Text files compiled into the library, so that the program needs nothing beside it.
#
# tilesmith_embed(TARGET NAME ROOT files...)
# adds to TARGET a source that defines   std::span<const tilesmith::EmbeddedFile> tilesmith::embedded_NAME();   (base/embedded.hpp)
# with one entry per file, named by its path relative to ROOT. Editing a file rebuilds the source.
function(tilesmith_embed target name root)
  get_target_property(taken ${target} IMPORTED)
  if(taken)
    return()
  endif()
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/embedded_${name}.cpp)
  set(paths "")
  foreach(file ${ARGN})
    list(APPEND paths ${root}/${file})
  endforeach()
  string(REPLACE ";" "," files "${ARGN}")
  add_custom_command(
    OUTPUT ${generated}
    COMMAND ${CMAKE_COMMAND} -DNAME=${name} -DROOT=${root} -DFILES=${files} -DOUTPUT=${generated} -P ${PROJECT_SOURCE_DIR}/cmake/EmbedScript.cmake
    DEPENDS ${paths} ${PROJECT_SOURCE_DIR}/cmake/EmbedScript.cmake
    COMMENT "Embedding ${name}"
    VERBATIM)
  target_sources(${target} PRIVATE ${generated})
endfunction()
