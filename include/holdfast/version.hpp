#pragma once

/// @file
/// The version of these headers, for the preprocessor. holdfast::version() is that of the linked library.
/// CMake reads the version from this file.

/// The major version.
#define HOLDFAST_VERSION_MAJOR 0
/// The minor version.
#define HOLDFAST_VERSION_MINOR 1
/// The patch level.
#define HOLDFAST_VERSION_PATCH 0
/// The version as a text.
#define HOLDFAST_VERSION "0.1.0"
/// The version as one number that can be compared: 10203 is 1.2.3.
#define HOLDFAST_VERSION_NUMBER \
  (HOLDFAST_VERSION_MAJOR * 10000 + HOLDFAST_VERSION_MINOR * 100 + HOLDFAST_VERSION_PATCH)
