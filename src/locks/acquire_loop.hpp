#pragma once

#include <cstdint>
#include <holdfast/clock.hpp>
#include <holdfast/lock_options.hpp>
#include <holdfast/lock_types.hpp>
#include <memory>
#include <optional>
#include <type_traits>
#include <variant>

namespace holdfast::locks {

/// The options for waiting, checked and with defaults filled in.
struct AcquirePolicy {
  Ttl ttl;
  std::chrono::milliseconds wait;  ///< no_time_limit: forever
  std::uint32_t retries;           ///< no_retry_limit: any number
  std::chrono::milliseconds base_delay;
  std::chrono::milliseconds max_delay;
  Backoff backoff;
  Jitter jitter;
  /// Whether a grant that comes too late to prove the lease is useless (true for a guard).
  bool must_prove;

  /// InvalidArgument for a bad ttl, negative durations or a notice that is too long.
  [[nodiscard]] static Result<AcquirePolicy> from(const LockOptions& options);
  /// The same for a single attempt.
  [[nodiscard]] static Result<AcquirePolicy> once(const LockOptions& options);
};

/// Decides the next step of a waiter. Pure: no clock, threads, I/O or random numbers, so tests cover every
/// path without waiting.
///
/// Lock ids. A retry after an unanswered attempt uses the same id, because acquire is idempotent per id; the
/// proof of the lease then runs from that id's first send. Any other attempt uses a fresh id, so that a
/// pending attempt can never be mistaken for a later one. An id abandoned after an unanswered attempt may
/// hold the lock: it must be released (`abandon`).
class AcquireLoop {
 public:
  struct Attempt {
    bool fresh_id;      ///< use a new lock id, sent for the first time now
    bool abandon;       ///< release the old id in the background first
    BootTime deadline;  ///< for the attempt
  };
  struct StartWatching {
    BootTime at_latest;
  };  ///< then resume with Watching
  struct Wait {
    BootTime until;
    BootTime at_latest;  ///< latest time if another waiter of this process polls for both
  };
  struct Won {};
  /// The wait failed; error() is the reason.
  struct Lost {
    bool abandon;  ///< release the id in the background
  };
  using Action = std::variant<Attempt, StartWatching, Wait, Won, Lost>;
  static_assert(std::is_trivially_copyable_v<Action>);

  struct Granted {};
  struct Refused {
    std::optional<std::chrono::milliseconds> free_in = std::nullopt;
    const std::shared_ptr<const LockHolder>* holder = nullptr;  ///< its label; null: unknown
  };
  struct Failed {
    const Error* error;
  };
  struct IdSpent {};  ///< the engine never grants this id again, see Effect::id_is_spent
  struct Watching {};
  struct Woken {};   ///< the watch reports that the lock may be free
  struct TimeUp {};  ///< Wait::until was reached
  struct Stopped {};
  /// What it points to must be valid until resume() returns.
  using Event = std::variant<Granted, Refused, Failed, IdSpent, Watching, Woken, TimeUp, Stopped>;
  static_assert(std::is_trivially_copyable_v<Event>);

  /// `random` returns values in [0, 1).
  AcquireLoop(const AcquirePolicy& policy, double (*random)()) noexcept;

  [[nodiscard]] Action start(BootTime now);
  [[nodiscard]] Action resume(const Event& event, BootTime now);
  /// Why the wait failed. Requires that the last action was Lost.
  [[nodiscard]] const Error& error() const noexcept { return *last_error_; }

 private:
  Action on(const Granted&, BootTime now);
  Action on(const Refused&, BootTime now);
  Action on(const Failed&, BootTime now);
  Action on(const IdSpent&, BootTime now);
  Action on(const Watching&, BootTime now);
  Action on(const Woken&, BootTime now);
  Action on(const TimeUp&, BootTime now);
  Action on(const Stopped&, BootTime now);

  Action attempt(BootTime now);
  Action wait_or_give_up(BootTime now);
  Action give_up(BootTime now);
  Action lose(Error why, bool abandon);
  [[nodiscard]] BootClock::duration next_delay();

  AcquirePolicy policy_;
  double (*random_)();
  BootTime started_;
  BootTime give_up_at_ = never;
  BootTime id_first_sent_;
  bool id_is_spent_ = true;        ///< the next attempt needs a fresh id
  bool id_is_unanswered_ = false;  ///< some attempt with the current id was never answered
  bool spent_in_a_row_ = false;    ///< the last answer was IdSpent
  bool watching_ = false;
  std::uint32_t retries_ = 0;
  BootTime poll_at_;  ///< the next attempt that counts as a retry
  bool poll_is_set_ = false;
  BootTime expiry_at_ = never;                ///< when the holder's lease expires, as far as known
  BootClock::duration expiry_pause_{};        ///< shortest pause before an attempt at that time
  bool wake_is_unused_ = false;               ///< no attempt was answered since the last wake-up
  BootClock::duration wake_pause_{};          ///< pause before the next attempt after that wake-up
  std::optional<Error> last_error_;           ///< of the last attempt; after Lost, of the wait
  std::shared_ptr<const LockHolder> holder_;  ///< of the last refusal
  bool was_refused_ = false;                  ///< the last attempt that was made found the lock held
};

}  // namespace holdfast::locks
