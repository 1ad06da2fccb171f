#pragma once

#include <cstdint>
#include <exception>
#include <holdfast/export.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

namespace holdfast {

/// The kind of an error, the same for all engines. Contention and absence of a lock are results, not errors.
enum class ErrorCode : std::uint8_t {
  ServiceUnavailable = 1,  ///< the engine cannot be reached or used now; transient
  NetworkTimeout,          ///< no answer before the deadline, so the result may be unknown; transient
  RateLimited,             ///< the engine is out of memory or disk space; transient
  AuthFailed,              ///< the engine rejects the credentials, or a permission is missing
  InvalidArgument,         ///< an argument, an option or a URL is invalid; nothing was changed
  AcquisitionTimeout,      ///< the lock was held until LockOptions::wait or LockOptions::retries was used up
  Aborted,                 ///< the caller's stop token was triggered
  Internal,                ///< the engine or the stored data broke a promise

  // Of tasks and registers. The caller can correct these:
  NotFound = 16,       ///< the task does not exist, or belongs to another owner
  InvalidTransition,   ///< the task's status does not allow this change; a finished task cannot be changed
  NotReady,            ///< the task is not finished, so it has no result yet
  TooLarge,            ///< variables, a string or a record exceed the limit
  TooDeep,             ///< a JSON value is nested more deeply than the limit
  TtlTooLong,          ///< the ttl exceeds the maximum of this store
  BadCursor,           ///< the cursor is not from a page of this list
  RequestKeyConflict,  ///< the request key was used before for another request
  AnonymousOwner,      ///< the owner `local` is not allowed here
  // The caller cannot correct these:
  QuotaExceeded,     ///< the owner has the maximum number of tasks
  ConcurrentChange,  ///< other writers changed the record during each attempt
  StaleFence,        ///< the write carries a lower fence than the highest that the record has seen
  WrongLock,         ///< the record is bound to another lock, or a required fence is missing
};

/// Returns the name of the enumerator, such as "NetworkTimeout". The text is static.
[[nodiscard]] HOLDFAST_EXPORT std::string_view to_string(ErrorCode code) noexcept;

/// Returns whether only operations on tasks and registers fail with this code.
[[nodiscard]] constexpr bool is_task_code(ErrorCode code) noexcept {
  return code >= ErrorCode::NotFound;
}

/// Returns the category of every ErrorCode as a std::error_code. Its name is "holdfast".
///
/// Some codes are equivalent to a std::errc, so that `code == std::errc::timed_out` works:
/// | ErrorCode | std::errc |
/// |---|---|
/// | NetworkTimeout, AcquisitionTimeout | timed_out |
/// | Aborted | operation_canceled |
/// | InvalidArgument | invalid_argument |
/// | AuthFailed | permission_denied |
/// | ServiceUnavailable, RateLimited | resource_unavailable_try_again |
[[nodiscard]] HOLDFAST_EXPORT const std::error_category& error_category() noexcept;
/// Converts a code to a std::error_code of error_category().
[[nodiscard]] HOLDFAST_EXPORT std::error_code make_error_code(ErrorCode code) noexcept;

/// Returns the JSON-RPC code for an error: -32602 if the caller can correct the request, otherwise -32603.
[[nodiscard]] HOLDFAST_EXPORT int json_rpc_code(ErrorCode code) noexcept;

/// Returns whether the same call may succeed later: true for ServiceUnavailable, NetworkTimeout and
/// RateLimited.
[[nodiscard]] constexpr bool is_transient(ErrorCode code) noexcept {
  return code == ErrorCode::ServiceUnavailable || code == ErrorCode::NetworkTimeout ||
         code == ErrorCode::RateLimited;
}

/// What an engine knows about the effect of a change that failed.
enum class Effect : std::uint8_t {
  /// No more than the code implies: after a transient error the change may have been carried out, or may
  /// still be carried out.
  unknown,
  /// The change was not carried out and will not be.
  none,
  /// An acquire failed, and its lock id must not be used again: it was released or broken before, or the
  /// engine has granted it and taken it back (LockOptions::min_replicas). Use a new one.
  id_is_spent,
};

/// An error with its code, message and cause. All functions of the library that throw, throw this type.
///
/// Copies share their text, so copying is cheap and does not throw. A moved-from Error may only be destroyed
/// or assigned to. No text contains a lock id or a password, except lock_id(). References and pointers that
/// the functions return are valid while a copy of this error lives.
///
/// @code
/// try {
///   auto guard = hf.locks().lock("orders:42", {.wait = 5s});
/// } catch (const holdfast::Error& error) {
///   if (error.code() == holdfast::ErrorCode::AcquisitionTimeout) return busy();
///   if (error.transient()) return retry_later();
///   throw;
/// }
/// @endcode
class HOLDFAST_EXPORT Error : public std::exception {
 public:
  /// Constructs an error. `cause` is the engine's own message, if there is one.
  Error(ErrorCode code, std::string message, std::string cause = {});

  /// Returns the kind of the error.
  [[nodiscard]] ErrorCode code() const noexcept;
  /// Returns the code as a std::error_code, without message and cause.
  [[nodiscard]] std::error_code std_code() const noexcept { return make_error_code(code()); }
  /// Returns whether the same call may succeed later: see is_transient().
  [[nodiscard]] bool transient() const noexcept { return is_transient(code()); }
  /// Returns code, message and cause as one line: "CODE: MESSAGE (CAUSE)".
  [[nodiscard]] const char* what() const noexcept override;
  /// Returns what failed, for which object, and what to do.
  [[nodiscard]] const std::string& message() const noexcept;
  /// Returns the engine's own message (of errno, SQLite or the server); empty if there is none.
  [[nodiscard]] const std::string& cause() const noexcept;
  /// Returns the lock key or the task id of the failed operation (of a claim: the key of the task's lock);
  /// empty if it has none.
  [[nodiscard]] const std::string& key() const noexcept;
  /// Returns the lock id of the failed operation; empty if it has none. Do not log it: see LockId.
  [[nodiscard]] const std::string& lock_id() const noexcept;

  /// With AcquisitionTimeout, returns the label of the lock's holder as it is stored; empty if it has none.
  /// Chosen by the holder: use printable() where it is shown. The message contains the printable form.
  [[nodiscard]] const std::string& holder() const noexcept;
  /// With InvalidTransition, returns the status that the task is in. Empty with other codes.
  [[nodiscard]] const std::string& from() const noexcept;
  /// With InvalidTransition, returns the status that the task was to change to; empty if only its data was to
  /// change. Empty with other codes.
  [[nodiscard]] const std::string& to() const noexcept;

  /// Returns what is known about the effect of the failed change.
  [[nodiscard]] Effect effect() const noexcept;

  /// Returns a copy of this error with this effect.
  [[nodiscard]] Error with(Effect effect) const;
  /// Returns a copy of this error with this key and lock id.
  [[nodiscard]] Error about(std::string_view key, std::string_view lock_id) const;
  /// Returns a copy of this error with this label of the lock's holder.
  [[nodiscard]] Error held_by(std::string_view holder) const;
  /// Returns a copy of this error with the transition that was refused.
  [[nodiscard]] Error between(std::string_view from, std::string_view to) const;

 private:
  struct Detail;
  template <class Change>
  [[nodiscard]] Error changed(const Change& change) const;

  std::shared_ptr<const Detail> detail_;
};

}  // namespace holdfast

/// @cond INTERNAL
/// Makes an ErrorCode convert to std::error_code and comparable with it.
template <>
struct std::is_error_code_enum<holdfast::ErrorCode> : std::true_type {};
/// @endcond
