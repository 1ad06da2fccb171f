#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <holdfast/locks.hpp>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "command.hpp"
#include "descriptor.hpp"
#include "signals.hpp"
#include "subject.hpp"

namespace holdfast::cli {

/// Whether it is said what is being waited for.
enum class Saying : std::uint8_t { on_a_terminal, always, never };

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
  [[nodiscard]] Saying saying() const noexcept { return verbose ? Saying::always : Saying::on_a_terminal; }
};

/// Listens for signals while the main thread opens a store, tries to acquire a lock and waits for it. Ctrl-Z
/// stops the process as usual. INT, TERM, HUP and QUIT end it in three stages, each begun by the main thread:
///
/// - opening (from the construction on): nothing can be held, so they end the process at once, with
///   128 + their number, whatever blocks;
/// - attempting: something may be granted at any moment, so they trigger stop() and the main thread ends what
///   it began;
/// - waiting: the same, and after a second stderr says what is being waited for.
class InterruptibleWait {
 public:
  InterruptibleWait(SignalQueue& signals, Saying saying);
  ~InterruptibleWait();
  InterruptibleWait(const InterruptibleWait&) = delete;
  InterruptibleWait& operator=(const InterruptibleWait&) = delete;

  /// To be called before the first request that may leave something behind.
  void begin_attempts() noexcept;
  /// `name`: of what is waited for, fit to print.
  void begin_waiting(std::string name);

  [[nodiscard]] std::stop_token stop() const noexcept { return stop_.get_token(); }
  /// Stops listening; the signal that triggered stop(), if one did.
  std::optional<int> finish();

 private:
  enum class Stage : std::uint8_t { opening, attempting, waiting, finished };

  void listen();
  void end_by(int signal);
  void enter(Stage stage, std::string name = {});

  SignalQueue& signals_;
  bool says_;
  std::mutex mutex_;  ///< guards the next two
  Stage stage_ = Stage::opening;
  std::string name_;
  std::stop_source stop_;
  std::optional<int> signal_;
  Descriptor changed_;
  std::thread thread_;
};

/// Why a lock was not acquired, for people; ends with what to do.
[[nodiscard]] std::string not_acquired_message(Locks& locks, const Subject& subject,
                                               std::chrono::milliseconds waited, const std::stop_token& stop);

/// Whether an enclosing `holdfast run` (named by HOLDFAST_CHAIN) holds the key: then waiting for it would
/// never end, because it waits for us.
[[nodiscard]] bool held_by_enclosing_run(Locks& locks, const std::string& key, const std::stop_token& stop);

}  // namespace holdfast::cli
