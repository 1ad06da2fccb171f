#pragma once

#include <cstdint>
#include <string>

#include "decorate/counts.hpp"

namespace holdfast::decorate {

/// The counts in the Prometheus text format, version 0.0.4. Counters that may be read before they first
/// count are there from the start, with 0, so that a rate sees their first event; those by reason, and the
/// times of operations, only once there are some.
[[nodiscard]] std::string prometheus(const Engines& engines, std::uint64_t dropped_events);

}  // namespace holdfast::decorate
