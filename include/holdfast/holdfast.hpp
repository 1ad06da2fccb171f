#pragma once

/// Everything but the engines' own options.
#include <holdfast/locks.hpp>
#include <holdfast/open.hpp>
