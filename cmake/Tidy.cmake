# clang-tidy beside the compiler, for what users run and copy; tests are spared the time. A part of the
# build, so that only what changed is checked again.
option(HOLDFAST_TIDY "Run clang-tidy while compiling" OFF)
if(NOT HOLDFAST_TIDY)
  return()
endif()
find_program(HOLDFAST_CLANG_TIDY NAMES clang-tidy-19 REQUIRED)

function(holdfast_tidy_targets dir)
  get_property(targets DIRECTORY ${dir} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(sources ${target} SOURCES)
    list(FILTER sources INCLUDE REGEX "\\.cpp$")
    set_target_properties(${target} PROPERTIES CXX_CLANG_TIDY "${HOLDFAST_CLANG_TIDY};--quiet")
    # A changed rule is a reason to look again.
    set_source_files_properties(${sources} TARGET_DIRECTORY ${target}
                                PROPERTIES OBJECT_DEPENDS ${PROJECT_SOURCE_DIR}/.clang-tidy)
  endforeach()
endfunction()

holdfast_tidy_targets(${PROJECT_SOURCE_DIR})
foreach(part rpc view serve cli examples)
  get_property(built DIRECTORY ${PROJECT_SOURCE_DIR} PROPERTY SUBDIRECTORIES)
  if(${PROJECT_SOURCE_DIR}/${part} IN_LIST built)
    holdfast_tidy_targets(${PROJECT_SOURCE_DIR}/${part})
  endif()
endforeach()
