#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <holdfast/done.hpp>
#include <holdfast/export.hpp>
#include <holdfast/fence.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>
#include <utility>

namespace holdfast {

class LockHolder;

/// An activity that observers, metrics, telemetry and traces report. See Occurrence.
enum class Activity : std::uint8_t {
  // The operations come first, the others after read_output: observers compare the values.
  // The operations of LockBackend.
  acquire,        ///< AcquireRequest
  release,        ///< ReleaseRequest of a holder
  break_lock,     ///< ReleaseRequest of an operator, who breaks the lock of its holder
  extend,         ///< ExtendRequest
  is_locked,      ///< IsLockedRequest
  lookup,         ///< LookupRequest
  list_locks,     ///< ListRequest
  count_waiters,  ///< WaitersRequest
  // The operations of StorageBackend.
  get_record,       ///< GetRecord
  create_record,    ///< CreateRecord
  put_record,       ///< PutRecord
  remove_record,    ///< RemoveRecord
  bind_record,      ///< BindRecord
  rebind_record,    ///< RebindRecord
  list_records,     ///< ListRecords
  list_owners,      ///< ListOwners
  cleanup_records,  ///< CleanupRecords
  claim_next,       ///< ClaimNext
  claim_record,     ///< ClaimRecord
  renew_leases,     ///< RenewLeases
  end_lease,        ///< EndLease
  count_queue,      ///< CountQueue
  configure_queue,  ///< ConfigureQueue
  append_output,    ///< AppendOutput
  read_output,      ///< ReadOutput
  // What Locks and Guard make of these operations.
  /// Waiting for a lock: from the call until it is granted or given up, all attempts together.
  wait,
  /// Holding a lock with a guard: from the grant until it is released, detached or lost.
  hold,
  /// An extend that a guard makes automatically.
  renew,
  // Engines with a server.
  /// Reconnecting: from the loss of a connection until another is made; or one failed attempt to make it.
  reconnect,
  /// A grant showed that the server lost writes: the fence counter of the key was below a fence that this
  /// client was granted before, or the whole store was replaced. A moment, without a beginning.
  fence_regression,
  /// The server's clock jumped against this machine's by more than a second. A moment, without a beginning.
  clock_jump,
  /// The epoch of a Redis master cannot order the fences across a failover: it is too high, or lower than the
  /// fence counters show. Reported once.
  unusable_epoch,
};
/// The number of activities: for arrays that are indexed by Activity.
inline constexpr std::size_t activity_count = static_cast<std::size_t>(Activity::unusable_epoch) + 1;

namespace detail {

/// The subject and the name of an activity.
struct ActivityName {
  std::string_view subject, name;
};
/// In the order of Activity.
inline constexpr std::array<ActivityName, activity_count> activity_names{{
    {"lock", "acquire"},
    {"lock", "release"},
    {"lock", "break"},
    {"lock", "extend"},
    {"lock", "is_locked"},
    {"lock", "lookup"},
    {"lock", "list"},
    {"lock", "waiters"},
    {"task", "get"},
    {"task", "create"},
    {"task", "put"},
    {"task", "remove"},
    {"task", "bind"},
    {"task", "rebind"},
    {"task", "list"},
    {"task", "list_owners"},
    {"task", "cleanup_expired"},
    {"queue", "claim_next"},
    {"queue", "claim"},
    {"queue", "renew"},
    {"queue", "end"},
    {"queue", "count"},
    {"queue", "configure"},
    {"task", "append_output"},
    {"task", "read_output"},
    {"lock", "wait"},
    {"lock", "hold"},
    {"lock", "renew"},
    {"connection", "reconnect"},
    {"lock", "fence_regression"},
    {"connection", "clock_jump"},
    {"connection", "unusable_epoch"},
}};
static_assert(activity_names.back().name == "unusable_epoch", "an activity has no name");

/// A number that is no activity has empty names.
[[nodiscard]] constexpr ActivityName name_of(Activity activity) noexcept {
  const auto index = static_cast<std::size_t>(activity);
  return index < activity_count ? activity_names[index] : ActivityName{};
}

}  // namespace detail

/// Returns the activity's name on its subject: "acquire", "break", "list", "cleanup_expired". Unique only
/// together with subject_of(). The view is valid forever.
[[nodiscard]] constexpr std::string_view to_string(Activity activity) noexcept {
  return detail::name_of(activity).name;
}
/// Returns the kind of object that the activity is about: "lock", "task", "queue" or "connection". The view
/// is valid forever.
[[nodiscard]] constexpr std::string_view subject_of(Activity activity) noexcept {
  return detail::name_of(activity).subject;
}

/// The object that a request is about, for decorators that report it. All views point into the request; the
/// label is shared with it.
struct RequestSubject {
  /// The key of the lock, or `owner:task` of the record; empty if the request names none.
  std::string_view key = {};
  /// The lock id. A capability, because its reader can release the lock: never shown raw unless asked for.
  std::string_view lock_id = {};
  /// The fence that the request carries, if any.
  std::optional<Fence> fence = std::nullopt;
  /// The operator's reason; empty unless an operator breaks the lock.
  std::string_view broken_because = {};
  /// The label of the lock's holder; null if the request has none.
  std::shared_ptr<const LockHolder> holder = nullptr;
};

/// The operations of an engine: one virtual function `submit` for each request type. LockBackend and
/// StorageBackend are contracts. How an engine completes an operation: see <holdfast/done.hpp>. A request
/// type states once what its operation is:
///
/// @code
/// struct ExtendRequest {
///   using Outcome = ExtendOutcome;         // the result of the operation
///   static constexpr Activity activity();  // its name for observers
///   RequestSubject subject() const;        // the object that it is about
///   BootTime deadline = never;             // when the operation ends with NetworkTimeout
///   // ...
/// };
/// @endcode
///
/// Everything between a caller and an engine (blocking, coroutines, completion tokens, observation, test
/// doubles) is a template over the request and does not name operations. A request without `activity()` is
/// not observed.
template <class... Requests>
class Contract {
 public:
  Contract() = default;
  Contract(const Contract&) = delete;
  Contract& operator=(const Contract&) = delete;
  virtual ~Contract() = default;
  /// Gives derived classes a name to inherit; never called.
  void submit() = delete;
};

/// The contract of one request type and of those that follow it.
template <class First, class... Rest>
class Contract<First, Rest...> : public Contract<Rest...> {
 public:
  using Contract<Rest...>::submit;
  /// Starts one operation and completes `done` exactly once: before it returns, or later on another thread.
  /// The engine owns the request. If a thread waits for the result (`done.is_awaited()`), the engine may use
  /// this thread until the result is there. `stop` ends the operation early; see LockBackend for what it
  /// leaves behind.
  virtual void submit(First request, std::stop_token stop, Done<typename First::Outcome> done) = 0;
};

/// Base of a backend that handles all requests alike: each of them is passed to the template
/// `Derived::intercept(request, stop, done)`. For decorators and test doubles.
///
/// @code
/// class Slow final : public Intercepting<Slow, LockBackend> {
///  public:
///   template <class Request>
///   void intercept(Request request, std::stop_token stop, Done<typename Request::Outcome> done) {
///     std::this_thread::sleep_for(std::chrono::milliseconds(5));
///     inner_->submit(std::move(request), std::move(stop), std::move(done));
///   }
///   // ... and the other virtual functions of LockBackend, passed on to inner_
/// };
/// @endcode
template <class Derived, class Backend, class Operations = typename Backend::Operations>
class Intercepting;

/// The end of the recursion over the request types.
template <class Derived, class Backend>
class Intercepting<Derived, Backend, Contract<>> : public Backend {
 public:
  using Backend::submit;
};

/// Implements `submit` for one request type and inherits it for those that follow.
template <class Derived, class Backend, class First, class... Rest>
class Intercepting<Derived, Backend, Contract<First, Rest...>>
    : public Intercepting<Derived, Backend, Contract<Rest...>> {
 public:
  using Intercepting<Derived, Backend, Contract<Rest...>>::submit;
  /// Passes the request to `Derived::intercept`.
  void submit(First request, std::stop_token stop, Done<typename First::Outcome> done) override {
    static_cast<Derived&>(*this).intercept(std::move(request), std::move(stop), std::move(done));
  }
};

}  // namespace holdfast
