#pragma once

#if __cplusplus < 202002L
#error "Holdfast needs C++20: compile with -std=c++20"
#endif

/// Everything but the engines' own options.
#include <holdfast/fenced_register.hpp>
#include <holdfast/locks.hpp>
#include <holdfast/open.hpp>
#include <holdfast/tasks.hpp>
#include <holdfast/version.hpp>
