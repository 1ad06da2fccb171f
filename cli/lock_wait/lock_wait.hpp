#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>
#include <holdfast/locks.hpp>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>

#include "arguments/command.hpp"
#include "process/job_control.hpp"
#include "rpc/posix/descriptor.hpp"
#include "terminal/exit_codes.hpp"
#include "terminal/log.hpp"

namespace holdfast::cli {

/// Whether a message on stderr names the lock that is waited for.
enum class Announce : std::uint8_t {
  on_a_terminal,
  always,
  always_as_nested,  ///< and that the wait may never end, because this process waits under another lock
  never,
};

/// Handles signals while the main thread opens a store, tries to acquire a lock and waits for it. Ctrl-Z
/// stops the process as usual. INT, TERM, HUP and QUIT end it, depending on the stage that the main thread
/// has reached:
///
/// - opening (from the construction on): nothing can be held, so the process exits at once with 128 + the
///   number of the signal, whatever blocks;
/// - attempting: a lock may be granted at any moment, so stop() is triggered and the main thread ends what it
///   began;
/// - waiting: the same, and after a second stderr names what is waited for.
class InterruptibleWait {
 public:
  /// `fields`: of the lock, for the log.
  InterruptibleWait(SignalQueue& signals, Announce announce, LogFields fields = {});
  ~InterruptibleWait();
  InterruptibleWait(const InterruptibleWait&) = delete;
  InterruptibleWait& operator=(const InterruptibleWait&) = delete;

  /// To be called before the first request that may leave a lock or a task behind.
  void begin_attempts() noexcept;
  /// `name`: of what is waited for, printable.
  void begin_waiting(std::string name);

  [[nodiscard]] std::stop_token stop() const noexcept { return stop_.get_token(); }
  /// Stops listening and returns the signal that triggered stop(), if one did.
  std::optional<int> finish();

 private:
  enum class Stage : std::uint8_t { opening, attempting, waiting, finished };

  void listen();
  void end_by(int signal);
  void enter(Stage stage, std::string name = {});

  SignalQueue& signals_;
  bool announces_;
  bool nested_;
  LogFields fields_;
  std::mutex mutex_;  ///< guards the next two
  Stage stage_ = Stage::opening;
  std::string name_;
  std::stop_source stop_;
  std::optional<int> signal_;
  posix::Descriptor changed_;
  std::thread thread_;
};

/// -n, -w, --verbose and -E: how long to wait for a lock. Shared by `run`, `task run` and `lock acquire`.
struct WaitOptions {
  /// Without -n and -w.
  std::chrono::milliseconds by_default = no_time_limit;
  bool no_wait = false;
  std::optional<std::string> wait = {};
  bool verbose = false;
  bool quiet = false;
  int conflict_exit_code = exit_not_acquired;

  /// -n and -w.
  void add_to(Command command);
  void add_verbose_to(Command command, const std::string& help = verbose_help);
  void add_conflict_exit_code_to(Command command, const std::string& help = conflict_help);
  static constexpr const char* verbose_help = "Report waiting on stderr, not only on a terminal";
  static constexpr const char* conflict_help = "Exit code if the lock is not acquired (default 75)";

  /// Throws UsageError. Zero for a single attempt.
  [[nodiscard]] std::chrono::milliseconds length() const;
  /// How long a store that cannot be reached is tried again: as long as -w says, and not at all without it.
  [[nodiscard]] std::chrono::milliseconds retry_for() const {
    return wait ? length() : std::chrono::milliseconds::zero();
  }
  /// What is left of the length: with -w, opening the store counts too.
  [[nodiscard]] std::chrono::milliseconds left() const {
    const auto since = std::chrono::floor<std::chrono::milliseconds>(BootClock::now() - begun);
    return wait ? std::max(length() - since, std::chrono::milliseconds::zero()) : length();
  }
  BootTime begun = BootClock::now();
  /// `otherwise`: with neither --verbose nor --quiet. A wait without a limit inside an enclosing `holdfast
  /// run` is always announced, unless --quiet says otherwise.
  [[nodiscard]] Announce announce(Announce otherwise = Announce::on_a_terminal) const noexcept;
};

/// What messages call a lock: by its key, or, if it is a task's own, by that task, because its user may not
/// know the key.
struct LockWording {
  [[nodiscard]] static LockWording lock(const std::string& key);
  /// `key`: of the task's own lock.
  [[nodiscard]] static LockWording task(const std::string& id, const std::string& key);

  std::string key;
  std::string name;         ///< "k", or the task "x"
  std::string noun;         ///< the lock "k", or the task "x"
  std::string running;      ///< a command runs: under the lock "k", or as the task "x"
  std::string held;         ///< why it was not acquired
  std::string held_by;      ///< the same, followed by the label of the holder
  std::string held_by_run;  ///< why it is not waited for: an enclosing `holdfast run` holds it
  LogFields log_fields;     ///< of the lock, and of the task
};

/// Half of the time after which a wait without a limit fails if the backend does not answer.
inline constexpr std::chrono::milliseconds reachability_interval = std::chrono::seconds(30);

/// Calls `attempt(wait)`, which waits for a lock that long at most and throws as Locks::lock does: once with
/// a limit, repeatedly without one. A single unlimited wait would retry after each transient error forever
/// and never report that the backend is gone. One interval that ends with such an error proves little (an
/// attempt that the interval's end cut off looks the same); the second in a row is thrown.
template <class Attempt>
auto wait_while_reachable(std::chrono::milliseconds limit, const Attempt& attempt)
    -> decltype(attempt(limit)) {
  if (limit != no_time_limit) return attempt(limit);
  bool failed_before = false;
  while (true) {
    try {
      return attempt(reachability_interval);
    } catch (const Error& error) {
      const bool contention = error.code() == ErrorCode::AcquisitionTimeout;
      if (!contention && (failed_before || !error.transient())) throw;
      failed_before = !contention;
    }
  }
}

/// Why a lock was not acquired.
struct AcquireRefusal {
  std::string message;  ///< explains it, and what to do
  std::string holder;   ///< the label of the holder, as it is stored; empty if it has none
};
[[nodiscard]] AcquireRefusal refusal_of(const Locks& locks, const LockWording& wording,
                                        std::chrono::milliseconds waited, const std::stop_token& stop);
/// `name`, and the label of its holder if the error has one.
[[nodiscard]] std::string name_with_holder(const std::string& name, const Error& held);

/// Whether an enclosing `holdfast run` (named by HOLDFAST_CHAIN) holds the key: then waiting for it would
/// never end, because it waits for this process.
[[nodiscard]] bool held_by_enclosing_run(const Locks& locks, const std::string& key,
                                         const std::stop_token& stop);

/// The outcome of waiting for a lock.
template <class T>
struct Acquired {
  /// May come with a signal: then it is to be released.
  std::optional<T> lock = {};
  /// Another holder has it.
  std::optional<AcquireRefusal> refusal = {};
  /// A signal ended the wait.
  std::optional<int> signal = {};
};

/// Acquires a lock by `attempt(wait, stop)`, which waits that long at most and throws as Locks::lock does.
/// The first attempt does not wait, so that a refusal that waiting cannot change is reported at once. Signals
/// end it at any point; `waiting` is finished then. Other errors are thrown, transient ones after
/// `retry_for`.
template <class Attempt>
auto acquire(const Locks& locks, const LockWording& wording, const WaitOptions& wait,
             InterruptibleWait& waiting, const Attempt& attempt)
    -> Acquired<std::invoke_result_t<Attempt, std::chrono::milliseconds, std::stop_token>> {
  using std::chrono::milliseconds;
  using Result = Acquired<std::invoke_result_t<Attempt, milliseconds, std::stop_token>>;
  const auto stop = waiting.stop();
  const auto limit = wait.length();
  const auto acquire_or_refuse = [&]() -> Result {
    auto name = wording.name;
    bool is_held = true;
    try {
      return {.lock = attempt(milliseconds::zero(), stop)};
    } catch (const Error& error) {
      is_held = error.code() == ErrorCode::AcquisitionTimeout;
      if (!is_held && !(error.transient() && wait.retry_for() > milliseconds::zero())) throw;
      name = name_with_holder(name, error);
    }
    if (is_held && held_by_enclosing_run(locks, wording.key, stop)) {
      return {.refusal = AcquireRefusal{.message = wording.held_by_run, .holder = {}}};
    }
    if (limit > milliseconds::zero()) {
      waiting.begin_waiting(std::move(name));
      try {
        return {.lock = wait_while_reachable(wait.left(),
                                             [&](milliseconds length) { return attempt(length, stop); })};
      } catch (const Error& error) {
        if (error.code() != ErrorCode::AcquisitionTimeout) throw;
      }
    }
    return {.refusal = refusal_of(locks, wording, limit, stop)};
  };
  try {
    waiting.begin_attempts();
    auto acquired = acquire_or_refuse();
    acquired.signal = waiting.finish();
    return acquired;
  } catch (const Error&) {
    if (const auto signal = waiting.finish()) return {.signal = signal};
    throw;
  }
}

/// How long the last release of a lock may take: its store may be what failed, and its lease expires anyway.
inline constexpr std::chrono::milliseconds last_release_timeout{1000};

/// A stop token that is triggered after a while: bounds a call whose store may not answer.
class StopAfter {
 public:
  explicit StopAfter(std::chrono::milliseconds length)
      : thread_([this, length](const std::stop_token& ended) {
          std::unique_lock lock(mutex_);
          never_.wait_for(lock, ended, length, [] { return false; });
          if (!ended.stop_requested()) source_.request_stop();
        }) {}

  [[nodiscard]] std::stop_token token() const noexcept { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::mutex mutex_;
  std::condition_variable_any never_;
  std::jthread thread_;
};

/// Warns if the store is `memory:`, whose locks exclude no other process.
void warn_of_private_locks(const Locks& locks);

}  // namespace holdfast::cli
