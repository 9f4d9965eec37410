set(prefix "${BUILD}/package test/prefix")
set(work "${BUILD}/package test/consumer")
file(REMOVE_RECURSE "${BUILD}/package test")
foreach(step
    "${CMAKE_COMMAND};--install;${BUILD};--prefix;${prefix}"
    "${CMAKE_COMMAND};-S;${CONSUMER};-B;${work};-DCMAKE_PREFIX_PATH=${prefix}"
    "${CMAKE_COMMAND};--build;${work}"
    "${work}/consumer"
    "${work}/c_consumer")
  execute_process(COMMAND ${step} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${step} failed (${result}):\n${output}")
  endif()
endforeach()
