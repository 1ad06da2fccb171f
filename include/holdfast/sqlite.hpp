#pragma once

#include <chrono>
#include <filesystem>
#include <holdfast/export.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/log.hpp>
#include <holdfast/storage_backend.hpp>
#include <memory>
#include <string_view>

namespace holdfast {

inline constexpr Capabilities sqlite_capabilities{
    .backend = "sqlite", .supports_fencing = true, .blocks = true};

struct SqliteOptions {
  /// How long one operation may wait for other writers of the file before it ends as ServiceUnavailable.
  std::chrono::milliseconds busy_timeout = std::chrono::seconds(5);
};

/// Locks in a file that the processes of one machine share. Creates the file (0600) if it is missing, never
/// its directory. Fails at once, naming the file, if it cannot be used safely: ServiceUnavailable (missing
/// directory, foreign or corrupt file, newer schema, network file system, mount point, several hard links,
/// side files of another user, another machine's file), AuthFailed (permissions, read-only).
[[nodiscard]] HOLDFAST_EXPORT Result<std::shared_ptr<LockBackend>> make_sqlite_lock_backend(
    const std::filesystem::path& file, const SqliteOptions& options = {}, std::shared_ptr<Log> log = {});

/// Tasks in such a file, which may be the same one as the locks'. Every change is on disk before it is
/// answered.
[[nodiscard]] HOLDFAST_EXPORT Result<std::shared_ptr<StorageBackend>> make_sqlite_storage_backend(
    const std::filesystem::path& file, const SqliteOptions& options = {}, std::shared_ptr<Log> log = {});

/// `$XDG_STATE_HOME/holdfast/holdfast.db`, or the same below `~/.local/state`. InvalidArgument if neither
/// variable is set. Creates nothing.
[[nodiscard]] HOLDFAST_EXPORT Result<std::filesystem::path> default_sqlite_file();

/// Where `system:` keeps the locks of a machine.
inline constexpr std::string_view system_sqlite_file = "/var/lib/holdfast/holdfast.db";

/// Makes that file ready to be shared, and returns its path. The directory must belong to root and must not
/// be writable by others. A directory that its group can write to must be set-group-ID (mode 2770); the file
/// is then created for that group (0660, whatever the umask), else for root alone (0600). Root creates a
/// missing directory: for the group `holdfast`, if there is one, else for root alone. ServiceUnavailable if
/// the directory or the file is not as it should be, AuthFailed if this process may not use it; both say what
/// to do.
[[nodiscard]] HOLDFAST_EXPORT Result<std::filesystem::path> prepare_system_sqlite_file();

}  // namespace holdfast
