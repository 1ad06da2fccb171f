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
/// for is told at once. Other errors are thrown.
template <class Attempt>
auto take_with_patience(Locks& locks, const Subject& subject, std::chrono::milliseconds patience,
                        SignalQueue& signals, bool verbose, const Attempt& attempt)
    -> Taken<std::invoke_result_t<Attempt, std::chrono::milliseconds, std::stop_token>> {
  using std::chrono::milliseconds;
  try {
    return {.got = attempt(milliseconds::zero(), std::stop_token{})};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::AcquisitionTimeout) throw;
  }
  if (held_by_enclosing_run(locks, subject.key)) return {.refusal = subject.nested};
  if (patience == milliseconds::zero()) return {.refusal = not_acquired_message(locks, subject, patience)};

  InterruptibleWait waiting(signals, subject.name, verbose ? Saying::always : Saying::on_a_terminal);
  try {
    auto got = wait_in_slices(patience, [&](milliseconds wait) { return attempt(wait, waiting.stop()); });
    if (const auto signal = waiting.finish()) return {.signal = signal};
    return {.got = std::move(got)};
  } catch (const Error& error) {
    if (const auto signal = waiting.finish()) return {.signal = signal};
    if (error.code() != ErrorCode::AcquisitionTimeout) throw;
    return {.refusal = not_acquired_message(locks, subject, patience)};
  }
}

}  // namespace holdfast::cli
