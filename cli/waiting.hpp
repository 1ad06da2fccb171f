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

/// -n, -w and --verbose: how long to wait for a lock. Shared by `run`, `task run` and `lock acquire`.
struct Patience {
  /// Without -n and -w.
  std::chrono::milliseconds by_default = no_time_limit;
  bool no_wait = false;
  std::optional<std::string> wait = {};
  bool verbose = false;

  void add_to(Command command);
  /// -n and -w alone.
  void add_waits_to(Command command);
  /// Throws UsageError. Zero for a single attempt.
  [[nodiscard]] std::chrono::milliseconds length() const;
};

/// Whether it is said what is being waited for.
enum class Saying : std::uint8_t { on_a_terminal, always, never };

/// Listens for signals while the main thread waits for a lock: INT, TERM, HUP and QUIT end the wait, a
/// Ctrl-Z stops the process as usual. Says on stderr after a second what is being waited for.
class InterruptibleWait {
 public:
  /// `name`: of what is waited for, fit to print.
  InterruptibleWait(SignalQueue& signals, std::string name, Saying saying);
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
  bool says_;
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
