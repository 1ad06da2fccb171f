#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

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
  guard_record,
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
[[nodiscard]] std::string_view to_string(Activity activity) noexcept;
/// "lock", "task" or "connection".
[[nodiscard]] std::string_view subject_of(Activity activity) noexcept;

}  // namespace holdfast
