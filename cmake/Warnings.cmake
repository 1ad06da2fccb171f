# Private to our own targets: a user's build never inherits them. Errors only where the compiler is chosen (CI, and the
# presets for editing): one that is newer than this source may warn of more, and must build it all the same.
option(HOLDFAST_WERROR "Treat warnings as errors" OFF)
if(HOLDFAST_WERROR)
  set(holdfast_werror -Werror)
endif()
function(holdfast_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion -Wshadow -Wpedantic
                                           ${holdfast_werror})
  # g++ 12 takes `"text" + std::string` for overlapping memory when it optimises (GCC bug 105651).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict)
  endif()
endfunction()
