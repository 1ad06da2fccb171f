#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>
#include <optional>
#include <string>

namespace holdfast::redis {

/// Whether enough replicas have a change. WAIT counts the replicas that have received everything which *its
/// own connection* has written. So it proves something only on the connection that made the change: on
/// another one it counts every replica at once. Pure.
class ReplicaWait {
 public:
  ReplicaWait(std::uint32_t needed, std::chrono::milliseconds timeout) noexcept
      : needed_(needed), timeout_(timeout) {}

  /// The change was answered on this connection of the client; the operation ends at `deadline`.
  void changed(std::uint64_t connection, BootTime now, BootTime deadline) noexcept {
    connection_ = connection;
    began_ = now;
    // A quarter of the time is left to undo the change. Never zero, by which WAIT means forever.
    const auto left = deadline == never ? timeout_
                                        : std::chrono::floor<std::chrono::milliseconds>(
                                              std::max(deadline - now, BootClock::duration::zero()) / 4 * 3);
    allowed_ = std::max(std::min(timeout_, left), std::chrono::milliseconds(1));
  }

  [[nodiscard]] std::uint32_t needed() const noexcept { return needed_; }
  /// How long WAIT may block.
  [[nodiscard]] std::chrono::milliseconds allowed() const noexcept { return allowed_; }

  /// The answer to WAIT: the number of replicas, or none if it was not answered with a number.
  void counted(std::optional<std::int64_t> replicas, std::uint64_t connection, BootTime now) noexcept {
    waited_ = std::chrono::round<std::chrono::milliseconds>(now - began_);
    same_connection_ = connection == connection_;
    if (replicas && same_connection_) {
      acknowledged_ = static_cast<std::uint32_t>(std::clamp<std::int64_t>(*replicas, 0, most));
    }
  }

  /// Valid after `counted`; empty if nothing is known.
  [[nodiscard]] std::optional<std::uint32_t> acknowledged() const noexcept { return acknowledged_; }
  [[nodiscard]] bool enough() const noexcept { return acknowledged_.value_or(0) >= needed_; }

  /// "0 of 1 replicas acknowledged it within 1000 ms": why it is not enough.
  [[nodiscard]] std::string shortage() const {
    const auto needed = std::to_string(needed_) + (needed_ == 1 ? " replica" : " replicas");
    if (!same_connection_) return "the connection was lost before " + needed + " acknowledged it";
    if (!acknowledged_) return "it is unknown whether " + needed + " acknowledged it";
    return std::to_string(*acknowledged_) + " of " + needed + " acknowledged it within " +
           std::to_string(waited_.count()) + " ms";
  }

 private:
  static constexpr std::int64_t most = 1'000'000;

  std::uint32_t needed_;
  std::chrono::milliseconds timeout_;
  std::chrono::milliseconds allowed_{1};
  std::chrono::milliseconds waited_{};
  std::uint64_t connection_ = 0;
  BootTime began_;
  bool same_connection_ = true;
  std::optional<std::uint32_t> acknowledged_;
};

}  // namespace holdfast::redis
