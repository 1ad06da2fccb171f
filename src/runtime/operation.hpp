#pragma once

#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>
#include <optional>
#include <stop_token>

namespace holdfast::runtime {

/// Why an operation must not begin: it was stopped, or its deadline has passed.
[[nodiscard]] inline std::optional<Error> refuse_before_start(BootTime deadline,
                                                              const std::stop_token& stop) {
  if (stop.stop_requested()) return Error(ErrorCode::Aborted, "the caller stopped the operation");
  if (deadline != never && BootClock::now() >= deadline) {
    return Error(ErrorCode::NetworkTimeout, "the deadline passed before the operation started")
        .with(Effect::none);
  }
  return std::nullopt;
}

}  // namespace holdfast::runtime
