#pragma once

/// @file
/// The visibility of symbols.

/// Exports a class or function from a shared library of Holdfast. All other symbols are hidden.
#define HOLDFAST_EXPORT __attribute__((visibility("default")))
