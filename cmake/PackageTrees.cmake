# Read by cpack: the trees, of which each brings its part of the components. The files for CMake and pkg-config are those
# of the shared tree, which serve both libraries, so it comes last.
set(CPACK_INSTALL_CMAKE_PROJECTS
  "$ENV{HOLDFAST_STATIC_TREE};holdfast;ALL;/"
  "$ENV{HOLDFAST_SHARED_TREE};holdfast;ALL;/")
# The first line of each package's own description is its summary.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
