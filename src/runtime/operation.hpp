#pragma once

#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>
#include <optional>
#include <stop_token>

namespace holdfast::runtime {

/// The refusal of an operation that must not begin. Not inline, so that the check below is.
[[nodiscard, gnu::cold, gnu::noinline]] inline Error refusal_before_start(const std::stop_token& stop) {
  if (stop.stop_requested()) return {ErrorCode::Aborted, "the caller stopped the operation"};
  return Error(ErrorCode::NetworkTimeout, "the deadline passed before the operation started")
      .with(Effect::none);
}

/// Why an operation must not begin: it was stopped, or its deadline has passed.
[[nodiscard]] inline std::optional<Error> refuse_before_start(BootTime deadline,
                                                              const std::stop_token& stop) {
  if (!stop.stop_requested() && (deadline == never || BootClock::now() < deadline)) return std::nullopt;
  return refusal_before_start(stop);
}

}  // namespace holdfast::runtime
