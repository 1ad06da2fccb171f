#pragma once

#include <condition_variable>
#include <holdfast/sqlite.hpp>
#include <mutex>

#include "engine/sqlite/database.hpp"
#include "os/process.hpp"
#include "runtime/operation.hpp"
#include "waiting/wake_table.hpp"

namespace holdfast::sqlite {

/// Lets one thread at a time use the connection. (Not std::timed_mutex: ThreadSanitizer of g++ 12 does not
/// support its timed wait.)
class ConnectionMutex {
 public:
  class Lock {
   public:
    explicit Lock(ConnectionMutex& mutex) noexcept : mutex_(mutex) {}
    ~Lock() { mutex_.unlock(); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    ConnectionMutex& mutex_;
  };

  /// Throws when the limit is reached, before the operation has begun.
  [[nodiscard]] Lock lock(const WaitLimit& limit, const std::string& file) {
    constexpr std::chrono::nanoseconds check_limit_every = std::chrono::milliseconds(20);
    if (limit.stopped() || limit.deadline_passed()) throw limit.error(file);
    std::unique_lock lock(mutex_);
    while (locked_) {
      if (limit.reached()) throw limit.error(file);
      unlocked_.wait_for(lock, check_limit_every);
    }
    locked_ = true;
    return Lock(*this);
  }

 private:
  void unlock() noexcept {
    {
      const std::lock_guard lock(mutex_);
      locked_ = false;
    }
    unlocked_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable unlocked_;
  bool locked_ = false;
};

/// The common part of both backends: one thread at a time uses the connection, an exception becomes a result,
/// waiters sleep on the file beside the database, and a forked child does not touch the file. `Table` is the
/// SQL, constructed from a Connection.
template <class Table>
class Access {
 public:
  Access(const std::filesystem::path& file, const SqliteOptions& options, std::shared_ptr<Log> log,
         Clock clock, const WaitLimit& limit)
      : options_(options),
        log_(std::move(log)),
        clock_(std::move(clock)),
        database_(std::make_unique<Database>(file, clock_, limit)),
        table_(std::make_unique<Table>(database_->connection())),
        file_(file.string()) {
    if (const auto exposure = exposure_of(file); log_ && exposure >= Exposure::to_sticky) {
      log_->write(LogLevel::warning, "every user can create files in the directory of " + file_ +
                                         "; use a directory that only the users of the store can write to");
    }
    // Every user of the file may wake and be woken, as with SQLite's own side files.
    const auto trust = os::FileTrust::of(file);
    auto wake = trust ? waiting::WakeTable::in_file(file_ + "-wake", *trust) : trust.error();
    if (wake) {
      wake_ = *std::move(wake);
    } else if (log_) {
      log_->write(LogLevel::debug, std::string("waiters will poll: ") + wake.error().what());
    }
  }

  ~Access() {
    if (process_.is_current()) return;
    // Closing would act on the parent's files: leak the child's copy untouched.
    static_cast<void>(table_.release());
    static_cast<void>(database_.release());
  }
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

  /// The key and the lock id of an operation, for its error.
  struct ErrorContext {
    std::string key, id;
  };

  /// Runs one operation while no other thread uses the connection, and returns a thrown Error as its result.
  /// Only the operation may use database() and table(). If the disk was full, it is retried after the log was
  /// copied.
  template <class T, class Body>
  Result<T> operate(BootTime deadline, std::stop_token stop, const ErrorContext& about, Body body) {
    if (!process_.is_current()) return os::used_after_fork().about(about.key, about.id);
    const WaitLimit limit(deadline, options_.busy_timeout, std::move(stop));
    try {
      const auto lock = mutex_.lock(limit, file_);
      const Connection::WaitScope waiting(database_->connection(), limit);
      try {
        return T(body());
      } catch (const Error& error) {
        // A full disk has no room for a longer log, but a copied log starts again from its beginning.
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

  /// For an operation that uses neither the database nor a table.
  [[nodiscard]] std::optional<Error> refuse_early(BootTime deadline, const std::stop_token& stop) const {
    if (!process_.is_current()) return os::used_after_fork();
    return runtime::refuse_before_start(deadline, stop);
  }

  [[nodiscard]] Database& database() noexcept { return *database_; }
  [[nodiscard]] Table& table() noexcept { return *table_; }
  [[nodiscard]] const Clock& clock() const noexcept { return clock_; }
  [[nodiscard]] const std::string& file() const noexcept { return file_; }
  [[nodiscard]] Log* log() const noexcept { return log_.get(); }
  /// Null if there is none, or it is not usable in this process: then waiters poll.
  [[nodiscard]] waiting::WakeTable* wake() const noexcept {
    return process_.is_current() ? wake_.get() : nullptr;
  }

 private:
  const SqliteOptions options_;
  const std::shared_ptr<Log> log_;
  const Clock clock_;
  ConnectionMutex mutex_;  // of the next two
  std::unique_ptr<Database> database_;
  std::unique_ptr<Table> table_;
  const std::string file_;
  std::shared_ptr<waiting::WakeTable> wake_;
  const os::ProcessIdentity process_;
};

/// Opens a backend that is constructed like an Access.
template <class Backend, class Contract>
Result<std::shared_ptr<Contract>> open_backend(const std::filesystem::path& file,
                                               const SqliteOptions& options, std::shared_ptr<Log> log,
                                               Clock clock) {
  try {
    const auto resolved = resolve(file);
    if (!resolved) return resolved.error();
    const WaitLimit limit(never, options.busy_timeout, {});
    return std::shared_ptr<Contract>(
        std::make_shared<Backend>(*resolved, options, std::move(log), std::move(clock), limit));
  } catch (const Error& error) {
    // A file that is damaged when it is opened has broken no promise yet: it is merely unusable.
    if (error.code() != ErrorCode::Internal) return error;
    return Error(ErrorCode::ServiceUnavailable, error.message(), error.cause());
  } catch (const std::exception& error) {
    return Error(ErrorCode::Internal, "cannot open " + file.string(), error.what());
  }
}

}  // namespace holdfast::sqlite
