#pragma once

#include <sqlite3.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <holdfast/error.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/sqlite/patience.hpp"

namespace holdfast::sqlite {

/// Inside this engine failures are thrown as holdfast::Error, so that leaving a scope rolls back; the
/// backend's operations catch them and return them as values.

/// One SQLite connection. Not thread-safe.
class Connection {
 public:
  /// Opens an existing file. `file` is resolved.
  explicit Connection(const std::filesystem::path& file);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Runs statements that yield no rows. Waits for other users as long as the current patience allows.
  void execute(const char* sql);
  /// The first column of the first row; Internal if there is none.
  [[nodiscard]] std::int64_t integer(const char* sql);
  [[nodiscard]] std::string text(const char* sql);

  /// Lets other users of the file go on for a moment; throws if the current patience is over. `attempt`
  /// counts from 0.
  void pause(int attempt) const;

  [[nodiscard]] const std::string& file() const noexcept { return file_; }
  [[nodiscard]] sqlite3* handle() const noexcept { return handle_.get(); }
  [[nodiscard]] bool in_transaction() const noexcept { return sqlite3_get_autocommit(handle()) == 0; }

  /// The error SQLite just reported, in our words. `result` is what the call returned.
  [[nodiscard]] Error error(int result) const;

  /// While this lives, waiting for other users ends when the patience is over; without one it does not wait.
  class Waiting {
   public:
    Waiting(Connection& connection, const Patience& patience) noexcept
        : connection_(connection), before_(std::exchange(connection.patience_, &patience)) {}
    ~Waiting() { connection_.patience_ = before_; }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    Connection& connection_;
    const Patience* before_;
  };

 private:
  struct Close {
    void operator()(sqlite3* handle) const noexcept { sqlite3_close(handle); }
  };
  static int on_busy(void* self, int attempt) noexcept;

  std::string file_;
  std::unique_ptr<sqlite3, Close> handle_;
  const Patience* patience_ = nullptr;
};

/// A prepared statement, kept as long as its connection.
class Statement {
 public:
  Statement(Connection& connection, std::string_view sql);

  /// One execution: ends, whatever it had got to, with the object.
  class Run {
   public:
    explicit Run(const Statement& statement) noexcept : statement_(statement) {}
    ~Run() { sqlite3_reset(statement_.handle_.get()); }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    /// The next row, if there is one.
    [[nodiscard]] bool next();
    [[nodiscard]] bool is_null(int column) const noexcept;
    [[nodiscard]] std::int64_t integer(int column) const noexcept;
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
