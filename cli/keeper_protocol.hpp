#pragma once

#include <cstddef>
#include <cstdint>

#include "survivors.hpp"

/// What holdfast and its keeper say to each other over a SOCK_SEQPACKET pair: one struct to a packet. Both
/// ends are one program, forked, so layout and byte order are no question. Times are CLOCK_BOOTTIME in
/// nanoseconds, which all processes of one machine share.
namespace holdfast::cli::keeper_protocol {

/// From holdfast. End of file instead of an order means that holdfast is dead.
struct Order {
  enum class Kind : std::int32_t {
    start,         ///< run the command; followed by environment additions, NAME=VALUE, each NUL-terminated
    new_deadline,  ///< the lease was renewed
    signal,        ///< send `signal` to the command's group
    resume,        ///< the lease was verified after a stop: let the command go on
    kill,          ///< the lock is lost: end the command and all its descendants
  };
  Kind kind{};
  std::int32_t signal = 0;
  /// start and new_deadline: until then the lease is proven.
  std::int64_t deadline_ns = 0;
  /// start: whether the command's group gets the terminal.
  bool give_terminal = false;
};

/// The longest packet: an Order and its environment.
inline constexpr std::size_t max_packet = 64U * 1024;

/// From the keeper. End of file before `exited` or `exec_failed` means that the keeper is dead.
struct Report {
  enum class Kind : std::int32_t {
    started,      ///< `value` is the command's pid, which is also its process group
    exec_failed,  ///< `value` is the errno
    stopped,      ///< the command was stopped by signal `value`
    refused,      ///< signal `value` was not forwarded: we may not signal the command
    survivors,    ///< some of what is being ended cannot be; the keeper goes on trying
    exited,       ///< `value` is the wait status; the keeper is gone after this
  };
  /// Why the keeper ended the command.
  enum class Cause : std::int32_t {
    none,      ///< it did not: the command ended by itself
    ordered,   ///< Order::kill
    deadline,  ///< the lease was about to end, or had ended before anybody looked
  };
  Kind kind{};
  std::int32_t value = 0;
  Cause cause = Cause::none;
  /// survivors and exited
  Survivors survivors = {};
  /// exited: until when the lease was known to be proven. A command that ended by itself ended before that.
  std::int64_t deadline_ns = 0;
};

}  // namespace holdfast::cli::keeper_protocol
