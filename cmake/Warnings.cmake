# Private to our own targets: a user's build never inherits them.
option(HOLDFAST_WERROR "Treat warnings as errors" OFF)
function(holdfast_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion -Wshadow -Wpedantic)
  if(HOLDFAST_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()
