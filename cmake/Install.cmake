# Installation: the library, its headers, a CMake package and a pkg-config file. test/package checks it.
option(HOLDFAST_INSTALL "Make installation targets" ${PROJECT_IS_TOP_LEVEL})
if(NOT HOLDFAST_INSTALL)
  return()
endif()

include(CMakePackageConfigHelpers)
set(holdfast_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/holdfast)

install(TARGETS holdfast EXPORT holdfast_targets)
install(DIRECTORY include/holdfast DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(EXPORT holdfast_targets NAMESPACE holdfast:: DESTINATION ${holdfast_package_dir}
        FILE holdfast-targets.cmake)

# A static library passes on what it links to; a shared one keeps it to itself.
get_target_property(holdfast_kind holdfast TYPE)
if(holdfast_kind STREQUAL "STATIC_LIBRARY")
  set(holdfast_link_private ON)
  set(holdfast_pc_requires "Requires")
else()
  set(holdfast_link_private OFF)
  set(holdfast_pc_requires "Requires.private")
endif()
configure_package_config_file(cmake/holdfast-config.cmake.in holdfast-config.cmake
                              INSTALL_DESTINATION ${holdfast_package_dir})
# Before 1.0 a minor version may break its users.
write_basic_package_version_file(holdfast-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/holdfast-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/holdfast-config-version.cmake
        DESTINATION ${holdfast_package_dir})

# The prefix is found from the file's own place, so that `cmake --install --prefix` and moved trees work.
file(RELATIVE_PATH holdfast_pc_to_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" holdfast_pc_to_prefix "${holdfast_pc_to_prefix}")
configure_file(cmake/holdfast.pc.in holdfast.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/holdfast.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
