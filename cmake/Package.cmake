# Debian packages, made by scripts/package from two trees: a static one (the command line, the archive) and a shared one
# (the library). Components are named after the packages.
option(HOLDFAST_DEBIAN "Install as Debian's packages do: compressed pages, a changelog, a systemd unit" OFF)
set(CPACK_PACKAGE_NAME holdfast)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_PACKAGE_CONTACT "Holdfast contributors <holdfast@localhost>")
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(library libholdfast${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(CPACK_COMPONENTS_ALL command library development)

set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME holdfast)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_COMMAND_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SUGGESTS "redis-server, python3, nodejs")
set(CPACK_DEBIAN_COMMAND_DESCRIPTION "fenced locks and durable tasks for commands and scripts
Holdfast runs a command under a named lock: only one process at a time holds
it, its lease is renewed while the command runs, and the command is stopped
before another holder can acquire the lock. Each grant has a fencing token,
so that data can reject the late write of a former holder.
.
It also runs pools of workers over queues of tasks, shows who holds what, and
serves programs in other languages. Locks and tasks are stored in an SQLite
file or on a Redis server.")
set(CPACK_DEBIAN_COMMAND_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/debian/postinst
                                               ${PROJECT_SOURCE_DIR}/packaging/debian/prerm
                                               ${PROJECT_SOURCE_DIR}/packaging/debian/postrm)

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${library})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION "fenced locks and durable tasks - C++ library
A C++20 library of named locks with leases and fencing tokens, durable tasks,
and queues, on SQLite, in memory and on Redis.
.
This package contains the shared library.")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/debian/triggers)

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libholdfast-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
# What the static library needs. Asio is for <holdfast/asio.hpp> alone.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${library} (= ${PROJECT_VERSION}-1), libssl-dev, libsqlite3-dev, libutf8proc-dev, libhiredis-dev")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "libasio-dev, nlohmann-json3-dev")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "fenced locks and durable tasks - development files
A C++20 library of named locks with leases and fencing tokens, durable tasks,
and queues, on SQLite, in memory and on Redis.
.
This package contains the headers, the static library, and files for CMake
and pkg-config.")
if(HOLDFAST_DEBIAN)
  set(debian ${PROJECT_SOURCE_DIR}/packaging/debian)
  string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # SOURCE_DATE_EPOCH's
  configure_file(${debian}/changelog.in changelog.Debian @ONLY)
  execute_process(COMMAND gzip -9nkf ${PROJECT_BINARY_DIR}/changelog.Debian COMMAND_ERROR_IS_FATAL ANY)
  set(documents ${debian}/copyright ${PROJECT_BINARY_DIR}/changelog.Debian.gz)
  if(HOLDFAST_CLI)
    install(FILES ${documents} DESTINATION share/doc/holdfast COMPONENT command)
    install(FILES packaging/holdfast-serve.service DESTINATION lib/systemd/system COMPONENT command)
  else()
    install(FILES ${documents} DESTINATION share/doc/${library} COMPONENT library)
    install(FILES ${documents} DESTINATION share/doc/libholdfast-dev COMPONENT development)
  endif()
endif()
# The trees, as scripts/package names them: each brings its components.
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/PackageTrees.cmake)
include(CPack)
