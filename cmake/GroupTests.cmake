# Tests of many cases that share something expensive: one CTest test for each suite and parameter, in place of
# one for each case. Every case would start a server of its own; so it is started once for some twenty of them.

# holdfast_group_tests(TARGET PREFIX SECONDS): registers them when TARGET is built, as PREFIX/SUITE/PARAMETER.
function(holdfast_group_tests target prefix seconds)
  set(list ${CMAKE_CURRENT_BINARY_DIR}/${target}_groups.cmake)
  add_custom_command(TARGET ${target} POST_BUILD BYPRODUCTS ${list} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${target}> -DPREFIX=${prefix} -DSECONDS=${seconds}
            -DLIST=${list} -P ${PROJECT_SOURCE_DIR}/cmake/GroupTests.cmake)
  set(include ${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake)
  file(WRITE ${include} "if(EXISTS \"${list}\")\n  include(\"${list}\")\nelse()\n"
                        "  add_test(${target}_NOT_BUILT ${target}_NOT_BUILT)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${include})
endfunction()

if(NOT CMAKE_SCRIPT_MODE_FILE)
  return()
endif()

execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" lines "${output}")
set(names)
foreach(line ${lines})
  if(line MATCHES "^([A-Za-z0-9_]+/)?([A-Za-z0-9_]+)\\.")
    set(instance ${CMAKE_MATCH_1})
    set(suite ${CMAKE_MATCH_2})
  elseif(line MATCHES "^  [A-Za-z0-9_]+/([A-Za-z0-9_]+)")
    set(name ${suite}/${CMAKE_MATCH_1})
    set(filter_of_${name} "${instance}${suite}.*/${CMAKE_MATCH_1}")
    list(APPEND names ${name})
  elseif(line MATCHES "^  [A-Za-z0-9_]+")
    set(filter_of_${suite} "${suite}.*")
    list(APPEND names ${suite})
  endif()
endforeach()
list(REMOVE_DUPLICATES names)
if(NOT names)
  message(FATAL_ERROR "${PROGRAM} lists no tests")
endif()
set(text "")
foreach(name ${names})
  set(test ${PREFIX}/${name})
  # What an engine does through a facade or a decorator it does alone as well: in a developer's loop memory
  # stands for all of them, and `ctest -C Full`, which scripts/test says, runs the others too.
  set(open "")
  set(close "")
  if(name MATCHES "/(sqlite|redis).*_(asio|telemetry)$")
    set(open "if(CTEST_CONFIGURATION_TYPE STREQUAL \"Full\")\n")
    set(close "endif()\n")
  endif()
  string(APPEND text
    "${open}add_test(\"${test}\" \"${PROGRAM}\" \"--gtest_filter=${filter_of_${name}}\")\n"
    "set_tests_properties(\"${test}\" PROPERTIES TIMEOUT ${SECONDS} SKIP_REGULAR_EXPRESSION \"\\\\[  SKIPPED \\\\]\")\n${close}")
endforeach()
file(WRITE ${LIST} "${text}")
