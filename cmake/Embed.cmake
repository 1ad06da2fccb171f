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

# holdfast_embed_lua(OUT dir namespace): embedded/scripts.hpp with a constant NAME_lua for every dir/NAME.lua.
# A line `-- include PART` stands for dir/parts/PART.lua, which may include others; comments are left out.
# Also `script_commands`: what each script calls, from which the rights of a user are derived. So a script names its
# commands literally, redis.call('GET', …); anything else is an error here. And `script_purposes`: what a user without
# these rights cannot do, from the line `-- Without it, locks cannot be DONE.` (or tasks) of each script.
function(holdfast_embed_lua out dir namespace)
  set(header ${CMAKE_CURRENT_BINARY_DIR}/generated/embedded/scripts.hpp)
  file(GLOB scripts CONFIGURE_DEPENDS ${dir}/*.lua)
  file(GLOB parts CONFIGURE_DEPENDS ${dir}/parts/*.lua)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${scripts} ${parts})
  set(constants "")
  set(commands "")
  set(purposes "")
  # The composed scripts as files too: to be read by people, and by the benchmark.
  set(composed_dir ${CMAKE_CURRENT_BINARY_DIR}/generated/scripts)
  foreach(script ${scripts})
    get_filename_component(name ${script} NAME_WE)
    file(READ ${script} text)
    if(NOT text MATCHES "\n-- Without it, (locks|tasks) cannot be ([a-z ]+)\\.\n")
      message(FATAL_ERROR "${script}: the line `-- Without it, locks cannot be DONE.` (or tasks) is missing")
    endif()
    string(APPEND purposes "    {\"${name}\", \"${CMAKE_MATCH_1}\", \"${CMAKE_MATCH_2}\"},\n")
    while(text MATCHES "-- include ([a-z_]+)\n")
      set(part ${CMAKE_MATCH_1})
      file(READ ${dir}/parts/${part}.lua part_text)
      string(REPLACE "-- include ${part}\n" "${part_text}" text "${text}")
    endwhile()
    string(REGEX REPLACE "(^|\n) *--[^\n]*" "\\1" text "${text}")
    string(REGEX REPLACE "\n[ \n]*\n" "\n" text "${text}")
    string(REGEX REPLACE "^\n" "" text "${text}")
    string(REGEX MATCHALL "redis" mentions "${text}")
    string(REGEX MATCHALL "redis\\.(p?call\\('[A-Z]+'|sha1hex)" understood "${text}")
    list(LENGTH mentions all)
    list(LENGTH understood known)
    if(NOT all EQUAL known)
      message(FATAL_ERROR "${script}: `redis` is used otherwise than in redis.call('NAME', …), redis.pcall('NAME', …) "
                          "and redis.sha1hex: the rights that the script needs would not be known")
    endif()
    string(REGEX MATCHALL "redis\\.p?call\\('[A-Z]+'" named "${text}")
    list(REMOVE_DUPLICATES named)
    foreach(call ${named})
      string(REGEX MATCH "(p?call)\\('([A-Z]+)'" ignored "${call}")
      string(COMPARE EQUAL ${CMAKE_MATCH_1} pcall may_fail)
      string(REPLACE 1 true may_fail ${may_fail})
      string(REPLACE 0 false may_fail ${may_fail})
      string(APPEND commands "    {\"${name}\", \"${CMAKE_MATCH_2}\", ${may_fail}},\n")
    endforeach()
    file(CONFIGURE OUTPUT ${composed_dir}/${name}.lua CONTENT "@text@" @ONLY)
    string(APPEND constants "inline constexpr std::string_view ${name}_lua = R\"embedded(${text})embedded\";\n")
  endforeach()
  file(CONFIGURE OUTPUT ${header} @ONLY CONTENT [[
#pragma once
#include <string_view>
namespace @namespace@ {
@constants@
struct ScriptCommand {
  std::string_view script, command;
  bool may_fail;  // called by redis.pcall
};
inline constexpr ScriptCommand script_commands[] = {
@commands@};
struct ScriptPurpose {
  std::string_view script, half, done;
};
inline constexpr ScriptPurpose script_purposes[] = {
@purposes@};
}
]])
  set(${out} ${header} PARENT_SCOPE)
endfunction()
