# Installation: the library, its headers, a CMake package and a pkg-config file; the command line with its manual pages
# and completions. test/package checks it. Components are those of the Debian packages (Package.cmake): a static and a
# shared tree may be installed to one prefix.
option(HOLDFAST_INSTALL "Make installation targets" ${PROJECT_IS_TOP_LEVEL})
if(NOT HOLDFAST_INSTALL)
  return()
endif()

include(CMakePackageConfigHelpers)
set(holdfast_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/holdfast)

install(TARGETS holdfast EXPORT holdfast_targets
        LIBRARY COMPONENT library NAMELINK_COMPONENT development
        ARCHIVE COMPONENT development)
install(DIRECTORY include/holdfast DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
        FILES_MATCHING PATTERN "*.hpp")

# A static library passes on what it links to; a shared one keeps it to itself. See holdfast-config.cmake.in.
get_target_property(holdfast_kind holdfast TYPE)
if(holdfast_kind STREQUAL "STATIC_LIBRARY")
  set(holdfast_targets_file holdfast-static-targets.cmake)
  set(holdfast_pc_requires "Requires")
else()
  set(holdfast_targets_file holdfast-shared-targets.cmake)
  set(holdfast_pc_requires "Requires.private")
endif()
install(EXPORT holdfast_targets NAMESPACE holdfast:: DESTINATION ${holdfast_package_dir} COMPONENT development
        FILE ${holdfast_targets_file})
configure_package_config_file(cmake/holdfast-config.cmake.in holdfast-config.cmake
                              INSTALL_DESTINATION ${holdfast_package_dir})
# Before 1.0 a minor version may break its users.
write_basic_package_version_file(holdfast-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/holdfast-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/holdfast-config-version.cmake
        DESTINATION ${holdfast_package_dir} COMPONENT development)

# The prefix is found from the file's own place, so that `cmake --install --prefix` and moved trees work.
file(RELATIVE_PATH holdfast_pc_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" holdfast_pc_to_prefix "${holdfast_pc_to_prefix}")
configure_file(cmake/holdfast.pc.in holdfast.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/holdfast.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
        COMPONENT development)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT license)

# The texts that the command line makes of its own options and methods.
if(HOLDFAST_CLI)
  set(manual ${PROJECT_BINARY_DIR}/man)
  set(completions ${PROJECT_BINARY_DIR}/completions)
  # One page for each command, whichever there are.
  add_custom_command(
    OUTPUT ${manual}/holdfast.1 ${completions}/holdfast ${completions}/_holdfast ${completions}/holdfast.fish
           ${PROJECT_BINARY_DIR}/openrpc.json
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${manual}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${manual} ${completions}
    COMMAND holdfast_cli manual --directory ${manual}
    COMMAND holdfast_cli completion bash > ${completions}/holdfast
    COMMAND holdfast_cli completion zsh > ${completions}/_holdfast
    COMMAND holdfast_cli completion fish > ${completions}/holdfast.fish
    COMMAND holdfast_cli rpc --schema > ${PROJECT_BINARY_DIR}/openrpc.json
    DEPENDS holdfast_cli COMMENT "Manual pages, completions and the schema of the rpc methods" VERBATIM)
  add_custom_target(manual ALL DEPENDS ${manual}/holdfast.1)
  set(pages "*.1")
  if(HOLDFAST_DEBIAN)
    install(CODE "file(GLOB pages ${manual}/*.1)
                  execute_process(COMMAND gzip -9nkf \${pages} COMMAND_ERROR_IS_FATAL ANY)" COMPONENT command)
    set(pages "*.1.gz")
  endif()
  install(DIRECTORY ${manual}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command
          FILES_MATCHING PATTERN ${pages})
  set(share ${CMAKE_INSTALL_DATADIR})
  install(FILES ${completions}/holdfast DESTINATION ${share}/bash-completion/completions COMPONENT command)
  install(FILES ${completions}/_holdfast DESTINATION ${share}/zsh/vendor-completions COMPONENT command)
  install(FILES ${completions}/holdfast.fish DESTINATION ${share}/fish/vendor_completions.d COMPONENT command)
  install(FILES ${PROJECT_BINARY_DIR}/openrpc.json DESTINATION ${share}/holdfast COMPONENT command)
  # package.json: `npm install DIRECTORY`. Python needs the file alone.
  install(FILES examples/clients/holdfast_client.py examples/clients/README-python.md examples/clients/package.json
                examples/clients/README-node.md DESTINATION ${share}/holdfast/clients COMPONENT command)
  install(PROGRAMS examples/clients/holdfast_client.mjs DESTINATION ${share}/holdfast/clients COMPONENT command)
endif()
