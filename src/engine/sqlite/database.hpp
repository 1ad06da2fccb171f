#pragma once

#include <chrono>
#include <filesystem>
#include <holdfast/lock_backend.hpp>
#include <optional>
#include <string>

#include "engine/sqlite/clock.hpp"
#include "engine/sqlite/connection.hpp"
#include "engine/sqlite/file_checks.hpp"
#include "engine/sqlite/file_clock.hpp"

namespace holdfast::sqlite {

/// A checked, migrated file. Its deadlines run on this machine's clock, or will from the first change on. Not
/// thread-safe. Functions throw holdfast::Error.
class Database {
 public:
  /// `file` is resolved; it is created if missing.
  Database(const std::filesystem::path& file, Clock clock, const WaitLimit& limit);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  [[nodiscard]] Connection& connection() noexcept { return connection_; }
  [[nodiscard]] const std::string& authority() const noexcept { return authority_; }

  /// Where the path leads now: to the open files, or to others or none, whose users do not see the locks in
  /// these. `unknown`: it cannot be followed at the moment.
  enum class Place : std::uint8_t { same, unknown, another };
  [[nodiscard]] Place place() const noexcept;
  [[nodiscard]] Error moved() const;

  /// Throws ServiceUnavailable if the file's deadlines no longer run on our clock. Called inside every
  /// transaction, with `meta.clock` as read there.
  void check_clock(std::int64_t stored) const;

  /// Copies the log into the file, as far as other users allow, without waiting long for them. True if all of
  /// it is copied and on disk. Copies nothing once the files were moved.
  [[nodiscard]] bool copy_log() noexcept;

  /// A scope for reading. In it the locks are as they will be once their deadlines run on our clock: if they
  /// do not yet, that is computed and rolled back, since reading moves no file to another clock.
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

    /// Where the path led when this transaction began.
    [[nodiscard]] Place place() const noexcept { return place_; }
    /// Throws moved() unless that is the same place: before an answer that rests on what the file says.
    void check_unmoved() const;
    /// Throws moved(), and commits nothing, if the files were moved.
    void commit();
    /// Returns once what this transaction found is on disk: for an answer that rests on that, without a
    /// change. See the constructor for why it might not be.
    void keep_what_was_found();

   private:
    friend class Database;
    struct OnAnyClock {};
    Change(Database& database, Durability durability, OnAnyClock);

    Database& database_;
    Place place_ = Place::unknown;
    bool ends_clean_state_ = false;
  };

 private:
  /// The database file and the two files beside it that belong to it while it is open anywhere.
  struct Files {
    std::string database, log, shared_memory;
    FileIdentity database_identity, log_identity, shared_memory_identity;
  };

  Database(const PinnedFile& judged, const std::filesystem::path& file, Clock clock, const WaitLimit& limit);
  /// Creates it if it is missing, and judges it.
  [[nodiscard]] static PinnedFile prepared(const std::filesystem::path& file);
  /// Throws unless SQLite has the judged file open, not another that had its name for a moment.
  void check_opened(const PinnedFile& judged) const;
  [[nodiscard]] Error replaced_while_opening() const;
  [[nodiscard]] FileIdentity identity_of_open_file() const;
  void roll_back() noexcept;
  void sync_commits(bool full);
  void checkpoint_if_due() noexcept;
  /// True if the file's deadlines run on our clock; then they do as long as this lives.
  [[nodiscard]] bool try_join_clock();
  /// Returns once they do: adopts our clock if no process uses the file under another.
  Database& join_or_adopt_clock();

  Connection connection_;
  OpenFile open_file_;
  Files files_;
  const Clock clock_;
  std::int64_t clock_number_ = 0;  // 0: not joined
  std::optional<ClockLock> clock_lock_;
  std::string authority_;
  bool full_ = false;
  bool synced_once_ = false;
  int log_frames_ = 0;     // after our last commit
  int checkpoint_at_ = 0;  // frames
  Statement begin_, commit_, rollback_;
  std::optional<Statement> count_synced_commit_;
};

}  // namespace holdfast::sqlite
