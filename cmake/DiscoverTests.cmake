# CTest tests from a GoogleTest program, listed when it is built: what CMake's gtest_discover_tests does, and
# besides
# - one test for a whole suite where its cases are cheaper than starting a process for each, or for a parameter where
#   each case, or each suite, would start something expensive, as a server;
# - only the variants that run in this tree (the table in CONTRIBUTING.md);
# - labels: how many tests may run beside this one (test/labels.cmake).
# What cannot be registered so that it surely runs fails the build.

# holdfast_discover_tests(TARGET PREFIX SECONDS BY): registers
# - by CASE: PREFIX/SUITE.CASE;
# - by SUITE: PREFIX/SUITE, and PREFIX/SUITE.CASE for the cases that have a label;
# - by VARIANT: PREFIX/VARIANT for the suites of a variant, and PREFIX/SUITE/VARIANT for those that the list `alone` in
#   test/labels.cmake matches.
# SECONDS: the limit of one test.
function(holdfast_discover_tests target prefix seconds by)
  set(list ${CMAKE_CURRENT_BINARY_DIR}/${target}_list.cmake)
  set(script ${PROJECT_SOURCE_DIR}/cmake/DiscoverTests.cmake)
  set(labels ${PROJECT_SOURCE_DIR}/test/labels.cmake)
  set(matrix ${PROJECT_SOURCE_DIR}/CONTRIBUTING.md)
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=([a-z]+)")
    set(tree ${CMAKE_MATCH_1})
  else()
    set(tree plain)
  endif()
  # With the program, whatever is built: a list that is older would name tests that are no more.
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${script} ${labels} ${matrix})
  add_custom_command(TARGET ${target} POST_BUILD BYPRODUCTS ${list} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${target}> -DPREFIX=${prefix} -DSECONDS=${seconds} -DBY=${by}
            -DTREE=${tree} -DMATRIX=${matrix} -DLABELS=${labels} -DLIST=${list} -P ${script})
  set(include ${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake)
  file(WRITE ${include} "if(EXISTS \"${list}\")\n  include(\"${list}\")\nelse()\n"
                        "  add_test(${target}_NOT_BUILT ${target}_NOT_BUILT)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${include})
endfunction()

if(NOT CMAKE_SCRIPT_MODE_FILE)
  return()
endif()

cmake_policy(VERSION 3.25)
# The table: `| variant | plain | address | thread | why |`, where "yes" means that it runs there.
set(columns plain address thread)
list(FIND columns "${TREE}" column)
if(column EQUAL -1)
  message(FATAL_ERROR "there is no column for the tree ${TREE}")
endif()
set(row_of_the_table "^\\| `([a-z_]+)` \\| (yes|no) \\| (yes|no) \\| (yes|no) \\|")
file(STRINGS ${MATRIX} rows REGEX "${row_of_the_table}")
foreach(row ${rows})
  string(REGEX MATCH "${row_of_the_table}" row "${row}")
  set(cells "${CMAKE_MATCH_2}" "${CMAKE_MATCH_3}" "${CMAKE_MATCH_4}")
  set(variant ${CMAKE_MATCH_1})
  list(GET cells ${column} runs_${variant})
endforeach()

include(${LABELS})

# Lines `SUITE.` and `  CASE`, without the parameters' values, which may be anything.
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "^Running main[^\n]*\n" "" output "${output}")
string(REGEX REPLACE "  # (GetParam\\(\\)|TypeParam) = [^\n]*" "" output "${output}")
if(output MATCHES "[^A-Za-z0-9_/.\n ]")
  message(FATAL_ERROR "${PROGRAM}: a name in its list of tests, or a parameter's value with a line break, has an "
                      "unexpected \"${CMAKE_MATCH_0}\"")
endif()
string(REGEX REPLACE "\n$" "" output "${output}")
string(REPLACE "\n" ";" lines "${output}")

# labels_of(RESULT NAME): those of the test NAME.
function(labels_of result name)
  set(found)
  foreach(label ${labels})
    foreach(pattern ${${label}})
      if("${PREFIX}/${name}" MATCHES "${pattern}")
        list(APPEND found ${label})
        break()
      endif()
    endforeach()
  endforeach()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

set(names)
foreach(line ${lines})
  if(line MATCHES "^([A-Za-z0-9_/]+)\\.$")
    set(suite ${CMAKE_MATCH_1})
    string(REGEX REPLACE "^.*/([A-Za-z][A-Za-z0-9_]*)" "\\1" short_suite "${suite}")
  elseif(line MATCHES "^  ([A-Za-z0-9_]+)(/[A-Za-z0-9_]+)?$")
    set(case ${CMAKE_MATCH_1})
    set(parameter "${CMAKE_MATCH_2}")
    if(BY STREQUAL "CASE")
      set(name ${suite}.${case}${parameter})
      set(filter ${name})
    else()
      if(case MATCHES "^DISABLED_")
        message(FATAL_ERROR "${suite}.${case} is disabled, which a test of the whole suite would not show: use "
                            "GTEST_SKIP, which CI refuses")
      endif()
      set(labels_of_case)
      if(BY STREQUAL "SUITE")
        labels_of(labels_of_case ${suite}.${case}${parameter})
      endif()
      if(labels_of_case)
        set(name ${suite}.${case}${parameter})
        set(filter ${name})
        string(APPEND without_${short_suite} ":${name}")
        set(parameter "")
      else()
        if(BY STREQUAL "SUITE")
          set(parameter "")
        endif()
        set(name ${short_suite}${parameter})
        set(filter "${suite}.*${parameter}")
      endif()
      string(REGEX REPLACE "^/" "" variant "${parameter}")
      if(variant AND NOT DEFINED runs_${variant})
        message(FATAL_ERROR "${MATRIX} does not say in which trees the variant ${variant} runs")
      elseif(variant AND NOT runs_${variant})
        continue()
      endif()
    endif()
    if(NOT DEFINED filter_of_${name})
      set(filter_of_${name} "${filter}")
      list(APPEND names ${name})
    elseif(NOT filter_of_${name} STREQUAL filter)
      message(FATAL_ERROR "${filter} and ${filter_of_${name}} would both be the test ${name}")
    endif()
  else()
    message(FATAL_ERROR "${PROGRAM} lists something that is neither a suite nor a case: \"${line}\"")
  endif()
endforeach()
if(NOT names)
  message(FATAL_ERROR "${PROGRAM} lists no tests")
endif()

# The suites of a variant in one test, but for those that are to be tests of their own.
if(BY STREQUAL "VARIANT")
  set(separate ${names})
  set(names)
  foreach(name ${separate})
    set(together ${name})
    if(name MATCHES "/([a-z_]+)$")
      set(together ${CMAKE_MATCH_1})
      foreach(pattern ${alone})
        if("${PREFIX}/${name}" MATCHES "${pattern}")
          set(together ${name})
          break()
        endif()
      endforeach()
    endif()
    if(NOT together STREQUAL name)
      string(APPEND filter_of_${together} ":${filter_of_${name}}")
      string(REGEX REPLACE "^:" "" filter_of_${together} "${filter_of_${together}}")
    endif()
    if(NOT together IN_LIST names)
      list(APPEND names ${together})
    endif()
  endforeach()
endif()

# GoogleTest names the skipped cases at the end, and behind them those that failed: then nothing is only skipped.
set(only_skipped "\\[  SKIPPED \\] [A-Za-z0-9_/.]+\n*$")
set(text "")
foreach(name ${names})
  set(properties TIMEOUT ${SECONDS} SKIP_REGULAR_EXPRESSION "${only_skipped}")
  # CTest counts it as not run, and CI does not accept that.
  if("/${name}" MATCHES "[/.]DISABLED_")
    list(APPEND properties DISABLED TRUE)
  endif()
  labels_of(labels_of_test ${name})
  foreach(label ${labels_of_test})
    list(APPEND properties ${properties_of_${label}})
  endforeach()
  if(without_${name})
    string(REGEX REPLACE "^:" "-" without "${without_${name}}")
    string(APPEND filter_of_${name} "${without}")
  endif()
  string(REPLACE ";" "]==] [==[" properties "${properties}")
  string(APPEND properties "]==] LABELS [==[${labels_of_test}")
  string(APPEND text
    "add_test([==[${PREFIX}/${name}]==] [==[${PROGRAM}]==] [==[--gtest_filter=${filter_of_${name}}]==])\n"
    "set_tests_properties([==[${PREFIX}/${name}]==] PROPERTIES [==[${properties}]==])\n")
endforeach()
file(WRITE ${LIST} "${text}")
