#pragma once

#include <holdfast/sqlite.hpp>

#include "engine/sqlite/database.hpp"
#include "engine/sqlite/turn.hpp"
#include "sys/process.hpp"
#include "sys/wake_table.hpp"

namespace holdfast::sqlite {

/// A backend's use of a file, whatever it keeps there: its threads take turns on one connection, what is
/// thrown becomes a result, those who wait sleep beside the file, and a forked child keeps its hands off.
/// `Table` is the SQL, made from a Connection.
template <class Table>
class Access {
 public:
  Access(const std::filesystem::path& file, const SqliteOptions& options, std::shared_ptr<Log> log,
         Clock clock, const Patience& patience)
      : options_(options),
        log_(std::move(log)),
        clock_(std::move(clock)),
        database_(std::make_unique<Database>(file, clock_, patience)),
        table_(std::make_unique<Table>(database_->connection())),
        file_(file.string()) {
    if (const auto exposure = exposure_of(file); log_ && exposure >= Exposure::to_sticky) {
      log_->write(LogLevel::warning, "every user can put files into the directory of " + file_ +
                                         "; use one that only its users can write to");
    }
    // Whoever may use the file may wake and be woken, as with SQLite's own side files.
    const auto trust = sys::FileTrust::of(file);
    auto wake = trust ? sys::WakeTable::in_file(file_ + "-wake", *trust) : trust.error();
    if (wake) {
      wake_ = *std::move(wake);
    } else if (log_) {
      log_->write(LogLevel::debug, std::string("waiters will poll: ") + wake.error().what());
    }
  }

  ~Access() {
    if (birthplace_.is_here()) return;
    // Closing would act on the parent's files: leave the child's copy alone.
    static_cast<void>(table_.release());
    static_cast<void>(database_.release());
  }
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

  /// What an operation was about, for its error.
  struct Subject {
    std::string key, id;
  };

  /// Runs one operation in this thread's turn and turns what it throws into its result. Inside, and only
  /// there, database() and table() may be used. It is run again if there was no room on the disk for it.
  template <class T, class Body>
  Result<T> operate(BootTime deadline, std::stop_token stop, const Subject& about, Body body) {
    if (!birthplace_.is_here()) return sys::used_after_fork().about(about.key, about.id);
    const Patience patience(deadline, options_.busy_timeout, std::move(stop));
    try {
      const auto turn = turn_.take(patience, file_);
      const Connection::Waiting waiting(database_->connection(), patience);
      try {
        return T(body());
      } catch (const Error& error) {
        // A full disk has no room for a longer log, but the log has: once copied, it begins anew.
        if (error.code() != ErrorCode::RateLimited || !database_->copy_log()) throw;
      }
      return T(body());
    } catch (const Error& error) {
      return error.about(about.key, about.id);
    } catch (const std::exception& error) {
      return Error(ErrorCode::Internal, "an operation on " + file_ + " failed unexpectedly", error.what())
          .about(about.key, about.id);
    }
  }

  [[nodiscard]] Database& database() noexcept { return *database_; }
  [[nodiscard]] Table& table() noexcept { return *table_; }
  [[nodiscard]] const Clock& clock() const noexcept { return clock_; }
  [[nodiscard]] const std::string& file() const noexcept { return file_; }
  [[nodiscard]] Log* log() const noexcept { return log_.get(); }
  /// Null if there is none, or not for this process: then waiters poll.
  [[nodiscard]] sys::WakeTable* wake() const noexcept {
    return birthplace_.is_here() ? wake_.get() : nullptr;
  }

 private:
  const SqliteOptions options_;
  const std::shared_ptr<Log> log_;
  const Clock clock_;
  Turn turn_;  // guards the next two
  std::unique_ptr<Database> database_;
  std::unique_ptr<Table> table_;
  const std::string file_;
  std::shared_ptr<sys::WakeTable> wake_;
  const sys::Birthplace birthplace_;
};

/// Opens a backend that is made as an Access is.
template <class Backend, class Contract>
Result<std::shared_ptr<Contract>> open_backend(const std::filesystem::path& file,
                                               const SqliteOptions& options, std::shared_ptr<Log> log,
                                               Clock clock) {
  try {
    const auto resolved = resolve(file);
    if (!resolved) return resolved.error();
    const Patience patience(never, options.busy_timeout, {});
    return std::shared_ptr<Contract>(
        std::make_shared<Backend>(*resolved, options, std::move(log), std::move(clock), patience));
  } catch (const Error& error) {
    // What is damaged when it is opened has broken no promise yet: it simply cannot be used.
    if (error.code() != ErrorCode::Internal) return error;
    return Error(ErrorCode::ServiceUnavailable, error.message(), error.cause());
  } catch (const std::exception& error) {
    return Error(ErrorCode::Internal, "cannot open " + file.string(), error.what());
  }
}

}  // namespace holdfast::sqlite
