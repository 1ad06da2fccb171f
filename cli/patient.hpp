#pragma once

#include <chrono>
#include <holdfast/error.hpp>
#include <holdfast/locks.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>

#include "signals.hpp"
#include "slices.hpp"
#include "subject.hpp"
#include "waiting.hpp"

namespace holdfast::cli {

/// What came of waiting for a lock: exactly one of these.
template <class T>
struct Taken {
  std::optional<T> got = {};
  /// Somebody else holds it; why, for people.
  std::optional<std::string> refusal = {};
  /// A signal ended the wait.
  std::optional<int> signal = {};
};

/// `attempt(wait, stop)` waits for that lock so long at most and throws as Locks::lock does; what it
/// returns gives the lock back at its end. The first attempt does not wait, so that what need not be waited
/// for is told at once. Signals end it at any point; `waiting` is finished then. Other errors are thrown.
template <class Attempt>
auto take_with_patience(Locks& locks, const Subject& subject, std::chrono::milliseconds patience,
                        InterruptibleWait& waiting, const Attempt& attempt)
    -> Taken<std::invoke_result_t<Attempt, std::chrono::milliseconds, std::stop_token>> {
  using std::chrono::milliseconds;
  using Result = Taken<std::invoke_result_t<Attempt, milliseconds, std::stop_token>>;
  const auto stop = waiting.stop();
  const auto take = [&]() -> Result {
    try {
      return {.got = attempt(milliseconds::zero(), stop)};
    } catch (const Error& error) {
      if (error.code() != ErrorCode::AcquisitionTimeout) throw;
    }
    if (held_by_enclosing_run(locks, subject.key, stop)) return {.refusal = subject.nested};
    if (patience > milliseconds::zero()) {
      waiting.begin_waiting(subject.name);
      try {
        return {.got = wait_in_slices(patience, [&](milliseconds wait) { return attempt(wait, stop); })};
      } catch (const Error& error) {
        if (error.code() != ErrorCode::AcquisitionTimeout) throw;
      }
    }
    return {.refusal = not_acquired_message(locks, subject, patience, stop)};
  };
  try {
    waiting.begin_attempts();
    auto taken = take();
    if (const auto signal = waiting.finish()) return {.signal = signal};
    return taken;
  } catch (const Error&) {
    if (const auto signal = waiting.finish()) return {.signal = signal};
    throw;
  }
}

}  // namespace holdfast::cli
