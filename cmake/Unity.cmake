# For trees that are built once: the sources of a directory compiled together, with precompiled headers. Several
# times faster from nothing. Other builds compile each source alone, so that each names all it needs; what keeps
# that true of the library and the command line in CI is `scripts/lint alone`.
option(HOLDFAST_UNITY "Compile the sources of a directory together, with precompiled headers" OFF)

# holdfast_unity(TARGET [PARTS n]): its sources must be set. PARTS: how many compilations a directory is split
# into, for one that would keep a single processor busy long after the others are done. A source with the
# property SKIP_UNITY_BUILD_INCLUSION is compiled alone.
#
# CMake's own UNITY_BUILD writes absolute paths into its files, so that ccache would take the same tree in
# another directory for another program. These name their sources from the project's root.
function(holdfast_unity target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "PARTS" "")
  if(NOT HOLDFAST_UNITY)
    return()
  endif()
  if(NOT arg_PARTS GREATER 0)
    set(arg_PARTS 1)
  endif()
  get_target_property(sources ${target} SOURCES)
  set(kept ${sources})
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  list(FILTER kept EXCLUDE REGEX "\\.cpp$")
  set(texts)
  foreach(source ${sources})
    get_source_file_property(alone ${source} SKIP_UNITY_BUILD_INCLUSION)
    if(alone)
      list(APPEND kept ${source})
      continue()
    endif()
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE path)
    cmake_path(GET path PARENT_PATH dir)
    math(EXPR part "0${count_${dir}} % ${arg_PARTS}")
    math(EXPR count_${dir} "0${count_${dir}} + 1")
    string(MAKE_C_IDENTIFIER "${dir}_${part}" text)
    string(APPEND text_${text} "#include \"${path}\"  // NOLINT(bugprone-suspicious-include)\n")
    list(APPEND texts ${text})
  endforeach()
  list(REMOVE_DUPLICATES texts)
  foreach(text ${texts})
    set(file ${CMAKE_CURRENT_BINARY_DIR}/unity/${target}/${text}.cpp)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text_${text}}" @ONLY)
    list(APPEND kept ${file})
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${kept}")
  # First: a project that takes this one in may have a src/ of its own on the path.
  target_include_directories(${target} BEFORE PRIVATE ${PROJECT_SOURCE_DIR})
  # g++ takes what is included for a header, where a type with an anonymous one in it would be a mistake.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

# holdfast_precompile(TARGET HEADER...): what many of its sources include, parsed once. No header of the project:
# they change. Or holdfast_precompile(TARGET REUSE_FROM OTHER), which must have the same compiler flags.
# g++ only: clang's keep the path they were made at, so ccache would find nothing in another clone, and clang reads
# the headers in half the time.
function(holdfast_precompile target)
  if(NOT HOLDFAST_UNITY OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  if(ARGV1 STREQUAL "REUSE_FROM")
    target_precompile_headers(${target} REUSE_FROM ${ARGV2})
  else()
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()
