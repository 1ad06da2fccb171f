#pragma once

#include <cstdint>
#include <exception>
#include <holdfast/export.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

namespace holdfast {

/// What went wrong, in the words every engine shares. Contention and absence are results, not errors.
enum class ErrorCode : std::uint8_t {
  ServiceUnavailable = 1,  ///< the engine cannot be reached or used now
  NetworkTimeout,          ///< no answer before the deadline: whether it took effect is unknown
  RateLimited,             ///< the engine is out of room
  AuthFailed,              ///< the engine refuses us: credentials, permissions
  InvalidArgument,         ///< the caller's input; nothing was sent
  AcquisitionTimeout,      ///< the lock helper's retries or wait are used up
  Aborted,                 ///< the caller's stop token was triggered
  Internal,                ///< a promise of the engine or of the stored data is broken

  // Of tasks. What the caller can mend:
  NotFound = 16,       ///< no such task, or another owner's
  InvalidTransition,   ///< a state that cannot follow the present one; a final task changes no more
  NotReady,            ///< the task has not ended, so it has no result yet
  TooLarge,            ///< variables, strings or records over the limit
  TooDeep,             ///< values nested beyond the limit
  TtlTooLong,          ///< over the longest ttl of this store
  BadCursor,           ///< not from a page of this list
  RequestKeyConflict,  ///< another request was made under this key
  AnonymousOwner,      ///< this store wants to know whose task it is
  // What the caller cannot:
  QuotaExceeded,     ///< the owner has as many tasks as it may
  ConcurrentChange,  ///< somebody else changed it meanwhile, again and again
  StaleFence,        ///< the write carries an older fence than the record has seen
  WrongLock,         ///< the record is guarded by another lock, or the store wants a fence and there is none
};

[[nodiscard]] HOLDFAST_EXPORT std::string_view to_string(ErrorCode code) noexcept;

/// True for the codes that only operations on tasks and registers give.
[[nodiscard]] constexpr bool is_task_code(ErrorCode code) noexcept {
  return code >= ErrorCode::NotFound;
}

/// The category of an ErrorCode as a std::error_code; its name is "holdfast". Of the codes with an equivalent
/// in std::errc, `code == std::errc::timed_out` and the like are true: NetworkTimeout and AcquisitionTimeout
/// (timed_out), Aborted (operation_canceled), InvalidArgument (invalid_argument), AuthFailed
/// (permission_denied), ServiceUnavailable and RateLimited (resource_unavailable_try_again).
[[nodiscard]] HOLDFAST_EXPORT const std::error_category& error_category() noexcept;
[[nodiscard]] HOLDFAST_EXPORT std::error_code make_error_code(ErrorCode code) noexcept;

/// How JSON-RPC tells of it: -32602 for what the caller can mend, -32603 for the rest.
[[nodiscard]] HOLDFAST_EXPORT int json_rpc_code(ErrorCode code) noexcept;

/// True for the three codes after which the same call may succeed.
[[nodiscard]] constexpr bool is_transient(ErrorCode code) noexcept {
  return code == ErrorCode::ServiceUnavailable || code == ErrorCode::NetworkTimeout ||
         code == ErrorCode::RateLimited;
}

/// What an engine knows of a change that failed, beyond its code.
enum class Effect : std::uint8_t {
  unknown,      ///< by the code: after a transient one it may have been carried out, or may be yet
  none,         ///< it was not carried out and will not be
  id_is_spent,  ///< of an acquire: its lock id was released or broken and is never granted again; take
                ///< another
};

/// One failure. Cheap to copy and safe to throw (copies share the text). `what()` names the code, what
/// happened and the cause; it never contains a lock id or a password.
class HOLDFAST_EXPORT Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message, std::string cause = {});

  [[nodiscard]] ErrorCode code() const noexcept;
  /// The code alone, for callers that work with std::error_code.
  [[nodiscard]] std::error_code std_code() const noexcept { return make_error_code(code()); }
  [[nodiscard]] bool transient() const noexcept { return is_transient(code()); }
  [[nodiscard]] const char* what() const noexcept override;
  [[nodiscard]] const std::string& message() const noexcept;
  /// The engine's own words (an errno, an SQLite or server message); empty if there are none.
  [[nodiscard]] const std::string& cause() const noexcept;
  /// The key and lock id the operation was about; empty where there is none.
  [[nodiscard]] const std::string& key() const noexcept;
  [[nodiscard]] const std::string& lock_id() const noexcept;

  /// With InvalidTransition: the state that the task is in, and the one it was to move to; `to` is empty if
  /// only its data was to change. Empty with other codes.
  [[nodiscard]] const std::string& from() const noexcept;
  [[nodiscard]] const std::string& to() const noexcept;

  [[nodiscard]] Effect effect() const noexcept;

  /// This error, with its effect filled in.
  [[nodiscard]] Error with(Effect effect) const;
  /// This error, with what it was about filled in.
  [[nodiscard]] Error about(std::string_view key, std::string_view lock_id) const;
  /// This error, with the transition that was refused filled in.
  [[nodiscard]] Error between(std::string_view from, std::string_view to) const;

 private:
  struct Detail;
  std::shared_ptr<const Detail> detail_;
};

}  // namespace holdfast

template <>
struct std::is_error_code_enum<holdfast::ErrorCode> : std::true_type {};
