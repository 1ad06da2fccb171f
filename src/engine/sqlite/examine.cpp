#include "engine/sqlite/backends.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <holdfast/sqlite.hpp>
#include <limits>

#include "engine/sqlite/database.hpp"
#include "engine/sqlite/fences.hpp"
#include "engine/sqlite/file_clock.hpp"
#include "engine/sqlite/lock_table.hpp"

namespace holdfast::sqlite {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t megabyte = 1'000'000;
/// The log alone grows to 8 MiB before it is copied into the file.
constexpr std::uint64_t enough_room = 50 * megabyte;
constexpr std::uint64_t long_log = 100 * megabyte;

std::string mode_text(mode_t mode) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "%04o", static_cast<unsigned>(mode & 07777U));
  return text.data();
}

Finding directory(const fs::path& file) {
  const auto parent = file.parent_path().string();
  const std::string move = "use a directory that only the users of the store can write to";
  switch (exposure_of(file)) {
    case Exposure::none:
      break;
    case Exposure::to_group:
      return {Severity::note, "directory",
              parent + ": its group can replace the file and the files next to it", "chmod g-w " + parent};
    case Exposure::to_sticky:
      return {Severity::warning, "directory",
              parent + ": every user can create files in it and so block the store", move};
    case Exposure::to_everyone:
      return {Severity::problem, "directory",
              parent + ": every user can replace the file and the files next to it, and so all locks", move};
  }
  return {Severity::ok, "directory", "only the users of the store can create files in it", {}};
}

Finding clock_of(Connection& connection, const ClockIdentity& clock) {
  const std::string own_boot_id = "this container has its own boot id";
  if (!current_clock(connection).is(clock)) {
    return {Severity::note,
            "clock",
            "leases run on the clock of another boot" + (clock.is_kernels ? "" : "; " + own_boot_id) +
                "; the next change moves them to this clock, unless other processes use the file",
            {}};
  }
  if (!clock.is_kernels) {
    return {
        Severity::note,
        "clock",
        own_boot_id + ": after a restart of the container, unexpired locks are kept and fences skip numbers",
        {}};
  }
  return {Severity::ok, "clock", "leases run on this machine's boot clock", {}};
}

Finding permissions(const fs::path& file, mode_t mode) {
  const auto found = "mode " + mode_text(mode);
  if ((mode & S_IWOTH) != 0) {
    return {Severity::warning, "permissions",
            found + ": every user of this machine can acquire and break every lock",
            "chmod o-w " + file.string()};
  }
  if ((mode & S_IWGRP) != 0) {
    return {Severity::note,
            "permissions",
            found + ": members of its group share the locks and must trust each other",
            {}};
  }
  return {Severity::ok, "permissions", found + ": only its owner can write to it", {}};
}

Finding room(const fs::path& file) {
  struct statvfs info{};
  if (::statvfs(file.c_str(), &info) != 0) return {Severity::note, "disk", "free space unknown", {}};
  const auto free = static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  const auto found = std::to_string(free / megabyte) + " MB free";
  if (free >= enough_room) return {Severity::ok, "disk", found, {}};
  return {Severity::warning, "disk", found + ": no lock can be acquired when the disk is full",
          "free some space"};
}

Finding journal(Connection& connection, const fs::path& file) {
  const auto mode = connection.text("PRAGMA journal_mode");
  if (mode != "wal") {
    return {Severity::problem, "journal", "journal mode is " + mode + ", not wal (write-ahead log)",
            "use a local file system"};
  }
  if (log_is_empty(connection) && !was_closed_cleanly(connection)) {
    return {Severity::note, "journal",
            "the write-ahead log was removed before the last process closed the file: its last changes are "
            "lost, and fences skip numbers",
            "never remove a -wal file by hand"};
  }
  std::error_code missing;
  const auto bytes = fs::file_size(file.string() + "-wal", missing);
  if (!missing && bytes > long_log) {
    return {Severity::note, "journal",
            "write-ahead log of " + std::to_string(bytes / megabyte) +
                " MB: a process has been reading the file for very long",
            "find a forgotten sqlite3 shell or backup"};
  }
  return {Severity::ok, "journal", "write-ahead log", {}};
}

Finding integrity(Connection& connection) {
  const auto verdict = connection.text("PRAGMA quick_check(1)");
  if (verdict == "ok") return {Severity::ok, "integrity", "no damage found", {}};
  return {Severity::problem, "integrity", "the file is damaged: " + verdict,
          "stop all processes that use it, then move it away with its -wal, -shm and -wake files; a new file "
          "has a new authority, and fences start again"};
}

Finding locks(Connection& connection) {
  constexpr std::size_t rows_at_once = 1000;
  const LockTable table(connection);
  std::size_t count = 0;
  try {
    for (std::string after;;) {
      const auto page = table.page(after, std::numeric_limits<std::int64_t>::min(), rows_at_once);
      count += page.size();
      if (page.size() < rows_at_once) break;
      after = page.back().key.str();
    }
  } catch (const Error& error) {
    return {Severity::problem, "locks", error.message(),
            "delete the row with sqlite3 if no process holds that lock"};
  }
  return {Severity::ok, "locks", std::to_string(count) + " lock rows, all valid", {}};
}

/// For a missing file: whether this user can create it.
std::vector<Finding> missing(const fs::path& file) {
  const auto parent = file.parent_path();
  if (::faccessat(AT_FDCWD, parent.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    const std::string why = std::strerror(errno);
    return {
        {Severity::problem, "file",
         file.string() + " does not exist, and this user cannot create it in " + parent.string() + ": " + why,
         "use a file in a directory that this user can write to"}};
  }
  if (const auto taken = check_not_taken_away(file); !taken) {
    return {{Severity::problem, "file", taken.error().message(), {}}};
  }
  return {{Severity::note, "file", file.string() + " does not exist yet; it is created on first use", {}},
          room(parent)};
}

Finding fences(Connection& connection) {
  const auto last = static_cast<std::uint64_t>(connection.integer("SELECT fence_last FROM meta"));
  const auto found = "the last fence granted is " + std::to_string(last);
  if (last <= Fence::warn_above) return {Severity::ok, "fences", found + "; one counter for all keys", {}};
  return {Severity::warning, "fences", found + ", near the end of the counter",
          "switch to a new file before it is exhausted"};
}

}  // namespace

Result<std::vector<Finding>> examine_file(const fs::path& file) {
  try {
    const auto resolved = resolve(file);
    if (!resolved) return resolved.error();
    if (!identity_of(resolved->c_str())) {
      return missing(*resolved);
    }
    if (const auto usable = check_usable(*resolved); !usable) return usable.error();
    struct stat info{};
    if (::stat(resolved->c_str(), &info) != 0) return std::vector<Finding>{};
    const auto clock = machine_clock();
    if (!clock) return clock.error();
    const WaitLimit limit(never, SqliteOptions().busy_timeout, {});
    Database database(*resolved, *clock, limit);
    auto& connection = database.connection();
    const Connection::WaitScope waiting(connection, limit);
    return std::vector<Finding>{
        {Severity::ok, "file", resolved->string() + ", a regular file without other hard links", {}},
        {Severity::ok, "file system", "local: file locks and shared memory work between all processes", {}},
        permissions(*resolved, info.st_mode),
        directory(*resolved),
        room(*resolved),
        clock_of(connection, clock->identity),
        journal(connection, *resolved),
        integrity(connection),
        fences(connection),
        locks(connection),
    };
  } catch (const Error& error) {
    // As in opening: a damaged file is unusable.
    if (error.code() != ErrorCode::Internal) return error;
    return Error(ErrorCode::ServiceUnavailable, error.message(), error.cause());
  }
}

}  // namespace holdfast::sqlite
