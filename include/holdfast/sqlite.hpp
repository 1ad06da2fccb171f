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

/// The properties of the SQLite engine, at compile time. Its operations block: they access the file on the
/// thread that starts them.
inline constexpr Capabilities sqlite_capabilities{
    .backend = "sqlite", .supports_fencing = true, .blocks = true};

/// The time limit of the SQLite engine.
struct SqliteOptions {
  /// How long one operation may wait for other writers of the file before it fails with ServiceUnavailable.
  std::chrono::milliseconds busy_timeout = std::chrono::seconds(5);
};

/// Opens a backend that keeps locks in a file, which the processes of one machine share.
///
/// Creates the file (0600) if it is missing, never its directory. Waits for at most `options.busy_timeout`
/// while other processes keep the file busy. `log` may be null.
///
/// Fails immediately, with a message that names the file, if the file cannot be used safely:
/// - ServiceUnavailable: missing directory, foreign or corrupt file, newer schema, network file system, mount
///   point, several hard links, side files of another user, file of another machine;
/// - AuthFailed: missing permissions, read-only file or file system;
/// - RateLimited: the disk is full;
/// - InvalidArgument: the path is empty.
///
/// A forked child must not open a file that its parent has open, except after `exec`.
[[nodiscard]] HOLDFAST_EXPORT Result<std::shared_ptr<LockBackend>> make_sqlite_lock_backend(
    const std::filesystem::path& file, const SqliteOptions& options = {}, std::shared_ptr<Log> log = {});

/// Opens a backend that keeps tasks in a file, which may be the file of the locks. Every change is on disk
/// before it is answered. Fails as make_sqlite_lock_backend() does.
[[nodiscard]] HOLDFAST_EXPORT Result<std::shared_ptr<StorageBackend>> make_sqlite_storage_backend(
    const std::filesystem::path& file, const SqliteOptions& options = {}, std::shared_ptr<Log> log = {});

/// Returns the file of the URL `sqlite:`: `$XDG_STATE_HOME/holdfast/holdfast.db`, or `holdfast/holdfast.db`
/// in `$HOME/.local/state`. Creates nothing. A variable that is not an absolute path is ignored;
/// InvalidArgument if neither is usable.
[[nodiscard]] HOLDFAST_EXPORT Result<std::filesystem::path> default_sqlite_file();

/// The file of the URL `system:`.
inline constexpr std::string_view system_sqlite_file = "/var/lib/holdfast/holdfast.db";

/// Prepares system_sqlite_file for sharing, and returns its path. Changes nothing if it is ready.
///
/// - The directory must belong to root and must not be writable by others. If its group can write to it, it
///   must be set-group-ID (mode 2770).
/// - A missing file is created: for the directory's group (0660, regardless of the umask) if that can write
///   to the directory, otherwise for root only (0600).
/// - A missing directory is created if this process is root: for the group `holdfast` if that exists,
///   otherwise for root only.
///
/// ServiceUnavailable if the directory or the file does not satisfy this, AuthFailed if this process may not
/// use it; both messages contain what to do. RateLimited if the disk is full.
[[nodiscard]] HOLDFAST_EXPORT Result<std::filesystem::path> prepare_system_sqlite_file();

}  // namespace holdfast
