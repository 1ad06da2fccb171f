#pragma once

#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>
#include <optional>

#include "engine/redis/conn/backoff.hpp"

namespace holdfast::redis {

/// When to connect, and what to report about it. It gets events, times and random numbers in [0, 1).
class ReconnectFsm {
 public:
  /// How long to wait after a connection broke that had answered.
  enum class AfterAnswers : std::uint8_t {
    at_once,  ///< not at all: calls wait for the next connection
    pause,    ///< as after one that never answered
  };
  /// For an observer: a connection lost at `since` was replaced, or an attempt that began then failed.
  struct Report {
    BootTime since;
    std::optional<ErrorCode> failed;
    bool operator==(const Report&) const = default;
  };
  enum class Next : std::uint8_t {
    wait,     ///< until `dial_at`, if a connection is wanted
    begin,    ///< begin an attempt
    go_on,    ///< with the attempt that has begun
    abandon,  ///< the attempt
  };

  explicit ReconnectFsm(AfterAnswers after_answers) noexcept : after_answers_(after_answers) {}

  /// What to do while there is no connection. `wanted`: something is to be sent.
  [[nodiscard]] Next next(BootTime now, bool wanted) noexcept;
  /// The next attempt need not wait any longer.
  void end_pause() noexcept { dial_at_ = BootTime{}; }
  /// No attempt begins before this.
  [[nodiscard]] BootTime dial_at() const noexcept { return dial_at_; }

  // How the attempt ended. Only an attempt after a loss is reported.
  [[nodiscard]] std::optional<Report> connected() noexcept;
  [[nodiscard]] std::optional<Report> failed(Error why, BootTime now, double random) noexcept;
  [[nodiscard]] std::optional<Report> abandoned() noexcept;

  /// The connection answered: whatever failed before is over.
  void answered() noexcept;
  /// The connection is gone. `demoted`: it was left because its server is a replica.
  void lost(Error why, BootTime now, bool demoted, double random) noexcept;

  /// Why there is no connection; empty before the first attempt has failed.
  [[nodiscard]] const std::optional<Error>& last_error() const noexcept { return last_error_; }

 private:
  [[nodiscard]] BootClock::duration pause(BootTime now, bool demoted, double random) noexcept;

  const AfterAnswers after_answers_;
  std::optional<BootTime> began_;  ///< the attempt that is being made
  bool answered_ = false;          ///< by the connection, at least once
  BootTime dial_at_{};
  std::optional<BootTime> lost_at_;  ///< empty: never, or replaced since
  std::optional<Error> last_error_;
  Backoff backoff_;
  Backoff replica_backoff_;  ///< a replica answers, which resets the other one
  BootTime demoted_at_{};    ///< when one was last left
};

}  // namespace holdfast::redis
