#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <holdfast/locks.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "command.hpp"
#include "descriptor.hpp"
#include "signals.hpp"
#include "subject.hpp"

namespace holdfast::cli {

/// -n, -w and --verbose: how long to wait for a lock. Shared by `run` and `lock acquire`.
struct Patience {
  bool no_wait = false;
  std::optional<std::string> wait;
  bool verbose = false;

  void add_to(Command command);
  /// Throws UsageError. Zero for a single attempt, no_time_limit if nothing was said.
  [[nodiscard]] std::chrono::milliseconds length() const;
};

/// Listens for signals while the main thread waits for a lock: INT, TERM, HUP and QUIT end the wait, a
/// Ctrl-Z stops the process as usual. On a terminal (or if `verbose`) it says after a second what is being
/// waited for.
class InterruptibleWait {
 public:
  /// `name`: of what is waited for, fit to print.
  InterruptibleWait(SignalQueue& signals, std::string name, bool verbose);
  ~InterruptibleWait();
  InterruptibleWait(const InterruptibleWait&) = delete;
  InterruptibleWait& operator=(const InterruptibleWait&) = delete;

  [[nodiscard]] std::stop_token stop() const noexcept { return stop_.get_token(); }
  /// Stops listening; the signal that ended the wait, if one did.
  std::optional<int> finish();

 private:
  void listen();

  SignalQueue& signals_;
  std::string name_;
  bool verbose_;
  std::stop_source stop_;
  std::optional<int> signal_;
  Descriptor end_;
  std::thread thread_;
};

/// Why a lock was not acquired, for people; ends with what to do.
[[nodiscard]] std::string not_acquired_message(Locks& locks, const Subject& subject,
                                               std::chrono::milliseconds waited);

/// Whether an enclosing `holdfast run` (named by HOLDFAST_CHAIN) holds the key: then waiting for it would
/// never end, because it waits for us.
[[nodiscard]] bool held_by_enclosing_run(Locks& locks, const std::string& key);

}  // namespace holdfast::cli
