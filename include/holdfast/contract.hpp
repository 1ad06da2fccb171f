#pragma once

#include <cstddef>
#include <cstdint>
#include <holdfast/done.hpp>
#include <holdfast/export.hpp>
#include <holdfast/fence.hpp>
#include <optional>
#include <stop_token>
#include <string_view>
#include <utility>

namespace holdfast {

/// Something the library does.
enum class Activity : std::uint8_t {
  // The operations of LockBackend.
  acquire,
  release,
  break_lock,  ///< a release by an operator, who takes the lock from its holder
  extend,
  is_locked,
  lookup,
  list_locks,
  // The operations of StorageBackend.
  get_record,
  create_record,
  put_record,
  remove_record,
  bind_record,
  rebind_record,
  list_records,
  list_owners,
  cleanup_records,
  // What the policies make of them.
  wait,   ///< for a lock: from the call until it is granted or given up, all attempts together
  hold,   ///< by a guard: from the grant until it is released, detached or lost
  renew,  ///< an extend that a guard makes by itself
  // Of engines with a server.
  reconnect,  ///< from the loss of a connection until another is made; or one failed attempt to make it
};
inline constexpr std::size_t activity_count = static_cast<std::size_t>(Activity::reconnect) + 1;

/// "acquire", "break", "list", "cleanup_expired": what it is called on its subject.
[[nodiscard]] HOLDFAST_EXPORT std::string_view to_string(Activity activity) noexcept;
/// "lock", "task" or "connection".
[[nodiscard]] HOLDFAST_EXPORT std::string_view subject_of(Activity activity) noexcept;

/// What a request is about, for those who report it. Views of the request.
struct RequestSubject {
  std::string_view key = {};      ///< of the lock, or `owner:task` of the record
  std::string_view lock_id = {};  ///< a capability: never shown raw unless asked for
  std::optional<Fence> fence = std::nullopt;
  std::string_view broken_because = {};  ///< of a release by an operator
};

/// The operations of an engine, one for each request type. A request states once what the operation is:
///
///     struct ExtendRequest {
///       using Outcome = ExtendOutcome;                       // what it is answered with
///       static constexpr Activity activity();                // what it is called
///       RequestSubject subject() const;                      // what it is about
///       BootTime deadline = never;                           // when it ends with NetworkTimeout
///       ...
///     };
///
/// Everything between a caller and an engine (blocking, coroutines, completion tokens, observation, test
/// doubles) is a template over the request and does not name operations.
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

template <class First, class... Rest>
class Contract<First, Rest...> : public Contract<Rest...> {
 public:
  using Contract<Rest...>::submit;
  /// Starts one operation and completes `done` exactly once: before it returns, or later on another thread.
  /// If a thread waits for it (`done.is_awaited()`), the engine may use this thread until the answer is
  /// there.
  virtual void submit(First request, std::stop_token stop, Done<typename First::Outcome> done) = 0;
};

/// Base of a backend that handles all requests alike: `Derived::intercept(request, stop, done)`, a template,
/// gets each of them. For decorators and test doubles.
template <class Derived, class Backend, class Operations = typename Backend::Operations>
class Intercepting;

template <class Derived, class Backend>
class Intercepting<Derived, Backend, Contract<>> : public Backend {
 public:
  using Backend::submit;
};

template <class Derived, class Backend, class First, class... Rest>
class Intercepting<Derived, Backend, Contract<First, Rest...>>
    : public Intercepting<Derived, Backend, Contract<Rest...>> {
 public:
  using Intercepting<Derived, Backend, Contract<Rest...>>::submit;
  void submit(First request, std::stop_token stop, Done<typename First::Outcome> done) override {
    static_cast<Derived&>(*this).intercept(std::move(request), std::move(stop), std::move(done));
  }
};

}  // namespace holdfast
