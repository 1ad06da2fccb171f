#pragma once

/// Marks what a shared library of Holdfast exports. All else is hidden.
#define HOLDFAST_EXPORT __attribute__((visibility("default")))
