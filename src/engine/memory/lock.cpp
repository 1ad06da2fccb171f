#include <holdfast/memory.hpp>
