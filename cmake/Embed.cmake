# holdfast_embed_text(OUT file namespace name): a header with the file's text as a constexpr string_view,
# so that SQL and scripts live in files of their own language.
function(holdfast_embed_text out file namespace name)
  get_filename_component(stem ${file} NAME)
  set(header ${CMAKE_CURRENT_BINARY_DIR}/generated/embedded/${stem}.hpp)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  file(CONFIGURE OUTPUT ${header} @ONLY CONTENT [[
#pragma once
#include <string_view>
namespace @namespace@ {
inline constexpr std::string_view @name@ = R"embedded(@text@)embedded";
}
]])
  set(${out} ${header} PARENT_SCOPE)
endfunction()
