#pragma once

#include <holdfast/clock.hpp>
#include <holdfast/lock_types.hpp>

namespace holdfast::locks {

/// Until when a lease is proven whose request was sent at `sent`. The engine cannot have started the lease
/// before that, and clocks may drift apart by a thousandth.
[[nodiscard]] constexpr BootTime proof_end(BootTime sent, Ttl ttl) noexcept {
  return sent + ttl.length() - std::chrono::milliseconds(1) - BootClock::duration(ttl.length()) / 1000;
}

}  // namespace holdfast::locks
