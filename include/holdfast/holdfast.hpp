#pragma once

/// Everything but the engines' own options.
#include <holdfast/fenced_register.hpp>
#include <holdfast/locks.hpp>
#include <holdfast/open.hpp>
#include <holdfast/tasks.hpp>
