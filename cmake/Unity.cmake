# One compilation for the sources of each directory: several times faster from nothing, for builds that nobody
# edits in. Other builds compile each source by itself, so that each names all it needs.
option(HOLDFAST_UNITY "Compile the sources of a directory together" OFF)

# holdfast_unity(TARGET): its sources must be set.
function(holdfast_unity target)
  if(NOT HOLDFAST_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  foreach(source ${sources})
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE path)
    cmake_path(GET path PARENT_PATH dir)
    string(MAKE_C_IDENTIFIER "${dir}" group)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${group}")
  endforeach()
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ON UNITY_BUILD_MODE GROUP
    UNITY_BUILD_CODE_BEFORE_INCLUDE "// NOLINTNEXTLINE(bugprone-suspicious-include)")
  # g++ takes what is included for a header, where a type with an anonymous one in it would be a mistake.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()
