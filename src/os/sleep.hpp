#pragma once

#include <holdfast/clock.hpp>
#include <stop_token>

namespace holdfast::os {

/// Sleeps until the time or a stop request.
void sleep_until(BootTime until, const std::stop_token& stop);

}  // namespace holdfast::os
