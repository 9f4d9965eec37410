# Run by each build, as a script: writes OUTPUT, a header with the commit of SOURCE, when it has changed.
execute_process(
  COMMAND git -C ${SOURCE} describe --always --exclude=* --abbrev=12 --dirty=+
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
if(failed)
  set(commit "")
endif()
set(text "#define TILESMITH_COMMIT \"${commit}\"\n")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} old)
endif()
if(NOT "${old}" STREQUAL "${text}")
  file(WRITE ${OUTPUT} "${text}")
endif()
