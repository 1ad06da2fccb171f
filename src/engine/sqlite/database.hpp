#pragma once

#include <chrono>
#include <filesystem>
#include <holdfast/lock_backend.hpp>
#include <optional>
#include <string>

#include "engine/sqlite/clock.hpp"
#include "engine/sqlite/connection.hpp"
#include "engine/sqlite/file_checks.hpp"
#include "engine/sqlite/open_files.hpp"
#include "engine/sqlite/working_lock.hpp"

namespace holdfast::sqlite {

/// A checked, migrated file. Its deadlines run on this machine's clock, or will from the first change on. Not
/// thread-safe. Functions throw holdfast::Error.
class Database {
 public:
  /// `file` is resolved; it is created if missing.
  Database(const std::filesystem::path& file, Clock clock, const Patience& patience);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  [[nodiscard]] Connection& connection() noexcept { return connection_; }
  [[nodiscard]] const std::string& authority() const noexcept { return authority_; }

  /// Where the path leads now: to the open files, or to others, or none, whose users know nothing of the
  /// locks in these. `unknown`: that cannot be told at the moment.
  enum class Place : std::uint8_t { same, unknown, another };
  [[nodiscard]] Place place() const noexcept;
  /// Of the database alone, without the files beside it.
  [[nodiscard]] Place place_of_database() const noexcept;
  [[nodiscard]] Error moved() const;
  /// Throws moved() unless it is the same place. To be asked inside each transaction that says "you hold this
  /// lock".
  void check_unmoved() const;

  /// ServiceUnavailable if the file's deadlines no longer run on our clock. To be asked inside every
  /// transaction, with `meta.clock` as read there.
  void check_clock(std::int64_t stored) const;

  /// Copies the log into the file, as far as other users let it, without waiting for them for long. True if
  /// all of it is copied, and on disk.
  [[nodiscard]] bool copy_log() noexcept;

  /// For what only reads: while it lives, the locks are as they will be once their deadlines run on our
  /// clock. If they do not yet, that is computed and thrown away: reading moves no file to another clock.
  class View {
   public:
    explicit View(Database& database);
    ~View();
    View(const View&) = delete;
    View& operator=(const View&) = delete;

   private:
    Database& database_;
    bool computed_ = false;
  };

  /// A transaction that changes the file. Rolled back unless committed.
  class Change {
   public:
    /// Waits for other writers. The first one moves the file's deadlines to our clock.
    Change(Database& database, Durability durability);
    ~Change();
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

    void commit();
    /// For an answer that rests on what this transaction found rather than on a change of its own: returns
    /// once that is on disk. See the constructor for why it might not be.
    void keep_what_was_found();

   private:
    friend class Database;
    struct OnAnyClock {};
    Change(Database& database, Durability durability, OnAnyClock);

    Database& database_;
    bool ends_clean_state_ = false;
  };

 private:
  /// The database file and, as long as anyone has it open, two more without which it means nothing.
  struct Files {
    std::string database, log, shared_memory;
    FileIdentity database_identity, log_identity, shared_memory_identity;
  };

  [[nodiscard]] static std::filesystem::path prepared(const std::filesystem::path& file);
  [[nodiscard]] FileIdentity identity_of_open_file() const;
  void roll_back() noexcept;
  void sync_commits(bool full);
  void checkpoint_if_due() noexcept;
  /// True if the file's deadlines run on our clock; then they do as long as this lives.
  [[nodiscard]] bool settle();
  /// Returns once they do.
  Database& settled();

  Connection connection_;
  OpenFile open_file_;
  Files files_;
  const Clock clock_;
  std::int64_t clock_number_ = 0;  // 0: not settled
  std::optional<WorkingLock> working_;
  std::string authority_;
  bool full_ = false;
  bool synced_once_ = false;
  int log_frames_ = 0;     // after our last commit
  int checkpoint_at_ = 0;  // frames
  Statement begin_, commit_, rollback_;
  std::optional<Statement> count_synced_commit_;
};

}  // namespace holdfast::sqlite
