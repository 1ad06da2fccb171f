#pragma once

// The version of these headers; holdfast::version() is that of the library that is linked. CMake reads it
// here.
#define HOLDFAST_VERSION_MAJOR 0
#define HOLDFAST_VERSION_MINOR 1
#define HOLDFAST_VERSION_PATCH 0
#define HOLDFAST_VERSION "0.1.0"
/// As one number to compare: 10203 is 1.2.3.
#define HOLDFAST_VERSION_NUMBER \
  (HOLDFAST_VERSION_MAJOR * 10000 + HOLDFAST_VERSION_MINOR * 100 + HOLDFAST_VERSION_PATCH)
