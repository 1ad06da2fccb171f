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

/// A checked, migrated file. Its deadlines run on this machine's clock, at the latest from the first change
/// on. Not thread-safe. Functions throw holdfast::Error.
class Database {
 public:
  /// `file` is resolved; it is created if missing.
  Database(const std::filesystem::path& file, Clock clock, const WaitLimit& limit);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  [[nodiscard]] Connection& connection() noexcept { return connection_; }
  [[nodiscard]] const std::string& authority() const noexcept { return authority_; }

  /// Where the path leads now: to the open files, or to others or none; users of those do not see the locks
  /// in the open files. `unknown`: the path cannot be followed at the moment.
  enum class Place : std::uint8_t { same, unknown, another };
  [[nodiscard]] Place place() const noexcept;
  [[nodiscard]] Error moved() const;

  /// Throws ServiceUnavailable if the file's deadlines no longer run on our clock. Called inside every
  /// transaction, with `meta.clock` as read there.
  void check_clock(std::int64_t stored) const;

  /// Copies the log into the file, as far as other users allow, without waiting long for them. True if the
  /// whole log is copied and on disk. Copies nothing after the files were moved.
  [[nodiscard]] bool copy_log() noexcept;

  /// How much a scope for reading reads: several statements need a transaction to see one state of the file.
  enum class Reads : std::uint8_t { one_statement, several };
  /// A scope for reading. It shows the locks with deadlines on our clock. If the file's deadlines run on
  /// another clock, the conversion is computed and rolled back, because reading does not move a file to
  /// another clock.
  class View {
   public:
    explicit View(Database& database, Reads reads = Reads::one_statement);
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

    /// The place when this transaction began.
    [[nodiscard]] Place place() const noexcept { return place_; }
    /// Throws moved() unless that is `same`. Call it before an answer that depends on the file's content.
    void check_unmoved() const;
    /// Throws moved(), and commits nothing, if the files were moved.
    void commit();
    /// Returns once the data that this transaction read is on disk: for an answer that depends on it, without
    /// a change. See the constructor for why it might not be on disk.
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
  /// The database file and its two side files, which exist while it is open anywhere.
  struct Files {
    std::string database, log, shared_memory;
    FileIdentity database_identity, log_identity, shared_memory_identity;
  };

  Database(const PinnedFile& judged, const std::filesystem::path& file, Clock clock, const WaitLimit& limit);
  /// Creates the file if it is missing, and checks it.
  [[nodiscard]] static PinnedFile prepared(const std::filesystem::path& file);
  /// Throws unless SQLite has the checked file open, not another that had its name for a moment.
  void check_opened(const PinnedFile& judged) const;
  [[nodiscard]] Error replaced_while_opening() const;
  [[nodiscard]] FileIdentity identity_of_open_file() const;
  void roll_back() noexcept;
  void sync_commits(bool full);
  void checkpoint_if_due() noexcept;
  /// True if the file's deadlines run on our clock; then they keep doing so as long as this object lives.
  [[nodiscard]] bool try_join_clock();
  /// Returns once they run on our clock: adopts it if no process uses the file under another clock.
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
  Statement begin_, begin_reading_, commit_, rollback_;
  std::optional<Statement> count_synced_commit_;
};

}  // namespace holdfast::sqlite
