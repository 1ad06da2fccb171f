#pragma once

#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "core/wall_time.hpp"

namespace holdfast::sqlite {

/// Inside this engine failures are thrown as holdfast::Error, so that leaving a scope rolls back; the
/// backend's operations catch them and return them as values.

/// The pause before the next attempt to lock the file; `random` is from 0 to 1.
///
/// A pause is random and about as long as a few transactions: a writer that retries at random does not
/// starve, where SQLite's own backoff, which grows with the time waited, starves it for seconds. Pauses grow
/// only after a longer wait than busy writers ever cause (some 50 ms: then some transaction stays open), and
/// to 0.15 s if it stays open for two seconds: many processes may wait then, and the waiting alone must not
/// keep the machine busy.
[[nodiscard]] std::chrono::nanoseconds busy_pause(int attempt, double random) noexcept;

/// How long one operation may wait for other users of the file.
class WaitLimit {
 public:
  WaitLimit(BootTime deadline, std::chrono::milliseconds busy_timeout, std::stop_token stop);

  [[nodiscard]] bool stopped() const noexcept { return stop_.stop_requested(); }
  [[nodiscard]] bool deadline_passed() const noexcept { return BootClock::now() >= deadline_; }
  [[nodiscard]] bool reached() const noexcept {
    return stopped() || BootClock::now() >= std::min(deadline_, give_up_at_);
  }
  /// Sleeps for this long, or a sixteenth of the time that is left if that is less: the nearer the limit, the
  /// more often is it worth trying. A stop does not end it.
  void sleep_for(std::chrono::nanoseconds pause) const;
  /// Requires reached(): Aborted, NetworkTimeout or ServiceUnavailable.
  [[nodiscard]] Error error(const std::string& file) const;

 private:
  BootTime deadline_;
  std::chrono::milliseconds busy_timeout_;
  BootTime give_up_at_;
  std::stop_token stop_;
};

/// One SQLite connection. Not thread-safe.
class Connection {
 public:
  /// Opens an existing file. `file` is resolved.
  explicit Connection(const std::filesystem::path& file);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Runs statements that yield no rows. Waits for other users up to the current limit.
  void execute(const char* sql);
  /// Whether SQLite, if this is the last connection to the file, copies the log into it on close and deletes
  /// the log. The default is yes.
  void copy_log_on_close(bool copy) noexcept;
  /// The first column of the first row; Internal if there is none.
  [[nodiscard]] std::int64_t integer(const char* sql);
  [[nodiscard]] std::string text(const char* sql);

  /// Pauses so that other users of the file can proceed; throws if the current limit is reached. `attempt`
  /// counts from 0.
  void pause(int attempt) const;

  [[nodiscard]] const std::string& file() const noexcept { return file_; }
  [[nodiscard]] sqlite3* handle() const noexcept { return handle_.get(); }
  [[nodiscard]] bool in_transaction() const noexcept { return sqlite3_get_autocommit(handle()) == 0; }

  /// The error that SQLite just reported; `result` is what the call returned.
  [[nodiscard]] Error error(int result) const;

  /// Sets the limit of waiting for other users while it lives. Without one the connection does not wait.
  class WaitScope {
   public:
    WaitScope(Connection& connection, const WaitLimit& limit) noexcept
        : connection_(connection), before_(std::exchange(connection.wait_limit_, &limit)) {
      connection.waits_on_ = std::exchange(connection.waited_in_vain_, false);
    }
    ~WaitScope() { connection_.wait_limit_ = before_; }
    WaitScope(const WaitScope&) = delete;
    WaitScope& operator=(const WaitScope&) = delete;

   private:
    Connection& connection_;
    const WaitLimit* before_;
  };

 private:
  struct Close {
    void operator()(sqlite3* handle) const noexcept { sqlite3_close(handle); }
  };
  static int on_busy(void* self, int attempt) noexcept;

  std::string file_;
  std::unique_ptr<sqlite3, Close> handle_;
  const WaitLimit* wait_limit_ = nullptr;
  bool waited_in_vain_ = false;  ///< the wait of the last scope was given up
  bool waits_on_ = false;        ///< this scope follows one whose wait was given up
};

/// Internal: the file holds a value that Holdfast does not write.
[[nodiscard]] Error damaged(const Connection& connection, const std::string& what);

/// A prepared statement, kept as long as its connection.
class Statement {
 public:
  Statement(Connection& connection, std::string_view sql);

  /// One execution, which ends with the object, finished or not.
  class Run {
   public:
    explicit Run(const Statement& statement) noexcept : statement_(statement) {}
    ~Run() { sqlite3_reset(statement_.handle_.get()); }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    /// The next row, if there is one.
    [[nodiscard]] bool next();
    /// The row of a table that always has one; Internal if it is missing.
    void only_row(const char* table);
    [[nodiscard]] bool is_null(int column) const noexcept;
    [[nodiscard]] std::int64_t integer(int column) const noexcept;
    /// Milliseconds since the epoch.
    [[nodiscard]] WallTime time(int column) const noexcept { return core::from_ms(integer(column)); }
    /// The bytes of a text or blob, until the next call of next().
    [[nodiscard]] std::string_view bytes(int column) const noexcept;

   private:
    const Statement& statement_;
  };

  /// Binds ?1, ?2, … and starts. Texts and blobs must outlive the Run.
  template <class... Values>
  [[nodiscard]] Run run(const Values&... values) const {
    [[maybe_unused]] int at = 0;
    (bind(++at, values), ...);
    return Run(*this);
  }
  /// For statements that yield no rows.
  template <class... Values>
  void execute(const Values&... values) const {
    for (auto running = run(values...); running.next();) {
    }
  }

  struct Blob {
    std::string_view bytes;
  };

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* handle) const noexcept { sqlite3_finalize(handle); }
  };
  void bind(int at, std::int64_t value) const;
  void bind(int at, WallTime value) const { bind(at, core::to_ms(value)); }
  void bind(int at, std::string_view value) const;
  void bind(int at, Blob value) const;
  void bind(int at, std::nullptr_t) const;
  template <class T>
  void bind(int at, const std::optional<T>& value) const {
    if (value) {
      bind(at, *value);
    } else {
      bind(at, nullptr);
    }
  }
  void check(int result) const;

  Connection& connection_;
  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
};

}  // namespace holdfast::sqlite
