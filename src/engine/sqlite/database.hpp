#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <holdfast/lock_backend.hpp>
#include <optional>
#include <string>

#include "engine/sqlite/clock.hpp"
#include "engine/sqlite/connection.hpp"
#include "engine/sqlite/file_checks.hpp"
#include "engine/sqlite/open_files.hpp"

namespace holdfast::sqlite {

/// A checked, migrated file whose deadlines run on this machine's clock. Not thread-safe. Functions throw
/// holdfast::Error.
class Database {
 public:
  /// `file` is resolved; it is created if missing.
  Database(const std::filesystem::path& file, const Clock& clock, const Patience& patience);

  [[nodiscard]] Connection& connection() noexcept { return connection_; }
  /// The permissions of the file.
  [[nodiscard]] mode_t mode() const noexcept;
  [[nodiscard]] const std::string& authority() const noexcept { return authority_; }

  /// ServiceUnavailable if the path no longer leads to the open files. To be asked inside each transaction
  /// that says "you hold this lock": users of whatever is at the path now know nothing of it.
  void check_unmoved() const;

  /// ServiceUnavailable if the file's deadlines no longer run on our clock. To be asked inside every
  /// transaction, with `meta.clock` as read there.
  void check_clock(std::int64_t stored) const;

  /// A transaction that changes the file. Rolled back unless committed.
  class Change {
   public:
    /// Waits for other writers.
    Change(Database& database, Durability durability);
    ~Change();
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

    /// Whether its commit will wait for the disk.
    [[nodiscard]] bool is_synced() const noexcept { return database_.full_; }
    void commit();
    /// For an answer that rests on what this transaction found rather than on a change of its own: returns
    /// once that is on disk. See the constructor for why it might not be.
    void keep_what_was_found();

   private:
    Database& database_;
  };

 private:
  /// The database file and, as long as anyone has it open, two more without which it means nothing.
  struct Files {
    std::string database, log, shared_memory;
    FileIdentity database_identity, log_identity, shared_memory_identity;
  };

  [[nodiscard]] static std::filesystem::path prepared(const std::filesystem::path& file);
  [[nodiscard]] FileIdentity identity_of_open_file() const;
  void sync_commits(bool full);
  void checkpoint_if_due() noexcept;

  Connection connection_;
  OpenFile open_file_;
  Files files_;
  std::int64_t clock_ = 0;
  std::string authority_;
  bool full_ = false;
  bool synced_once_ = false;
  int log_frames_ = 0;     // after our last commit
  int checkpoint_at_ = 0;  // frames
  Statement begin_, commit_, rollback_;
  std::optional<Statement> count_synced_commit_;
};

}  // namespace holdfast::sqlite
