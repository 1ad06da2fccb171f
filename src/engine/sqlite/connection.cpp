#include "engine/sqlite/connection.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <thread>
#include <utility>

#include "engine/sqlite/shared_memory.hpp"
#include "os/random.hpp"

namespace holdfast::sqlite {
namespace {

/// The extended result code of SQLite and, with SQLITE_IOERR and SQLITE_CANTOPEN, the errno behind it.
struct Failure {
  int extended = 0;
  int system = 0;
  [[nodiscard]] bool has_cause(int number) const noexcept {
    const int primary = extended & 0xFF;
    return (primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN) && system == number;
  }
  [[nodiscard]] bool is_full() const noexcept {
    // After a sync that failed it is not known what is on the disk.
    if (extended == SQLITE_IOERR_FSYNC || extended == SQLITE_IOERR_DIR_FSYNC) return false;
    return (extended & 0xFF) == SQLITE_FULL || has_cause(ENOSPC) || has_cause(EDQUOT);
  }
};

ErrorCode code_for(const Failure& failure) {
  const int extended = failure.extended;
  if (failure.is_full()) return ErrorCode::RateLimited;
  if (extended == SQLITE_READONLY_DBMOVED) return ErrorCode::ServiceUnavailable;
  switch (extended & 0xFF) {
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return ErrorCode::AuthFailed;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_NOMEM:
      return ErrorCode::ServiceUnavailable;
    default:  // SQLITE_CORRUPT, SQLITE_NOTADB, and errors that only a bug of ours could cause
      return ErrorCode::Internal;
  }
}

/// Which of the files needs space is known for the shared memory alone.
std::string full_text(int extended, const std::string& file) {
  const auto which = extended == SQLITE_IOERR_SHMSIZE
                         ? file + "-shm (32 KiB) cannot be created"
                         : "there is no room in " + file + " or " + file + "-wal";
  return "the disk or quota is full: " + which + ", and nothing was changed; free 1 MiB or more and retry";
}

std::string_view advice_for(const Failure& failure) {
  if (failure.has_cause(EMFILE))
    return "too many files are open; raise this process's limit of open files (ulimit -n)";
  if (failure.has_cause(ENFILE))
    return "too many files are open; raise the machine's limit of open files (sysctl fs.file-max)";
  switch (failure.extended & 0xFF) {
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return "it is not writable; check the owner and mode of the file and its directory";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      return "other processes keep it busy; retry";
    case SQLITE_IOERR:
      return "read or write error; check the disk";
    case SQLITE_CANTOPEN:
      return "it or a file next to it cannot be opened; check its directory";
    case SQLITE_NOTADB:
      return "it is not a database, or its header is damaged; use another file, or restore this one";
    case SQLITE_CORRUPT:
      return "its contents are damaged; stop all processes that use it, then restore the file or move it "
             "away";
    default:
      return "unexpected SQLite error";
  }
}

/// With short pauses: some 50 ms.
constexpr int attempts_of_busy_writers = 400;
/// After these, pauses are as long as they get.
constexpr int attempts_of_a_long_wait = 230;

}  // namespace

std::chrono::nanoseconds busy_pause(int attempt, double random) noexcept {
  constexpr double shortest_us = 5, spread_us = 60, longest_spread_us = 150'000, attempts_until_twice = 20;
  const double doublings = std::max(0, attempt - attempts_of_busy_writers) / attempts_until_twice;
  const double spread = std::min(spread_us * std::exp2(doublings), longest_spread_us);
  return std::chrono::nanoseconds(static_cast<std::int64_t>((shortest_us + spread * random) * 1000));
}

WaitLimit::WaitLimit(BootTime deadline, std::chrono::milliseconds busy_timeout, std::stop_token stop)
    : deadline_(deadline),
      busy_timeout_(busy_timeout),
      give_up_at_(saturating_add(BootClock::now(), busy_timeout)),
      stop_(std::move(stop)) {}

void WaitLimit::sleep_for(std::chrono::nanoseconds pause) const {
  const std::chrono::nanoseconds left = std::min(deadline_, give_up_at_) - BootClock::now();
  const auto longest = std::max<std::chrono::nanoseconds>(left / 16, std::chrono::microseconds(100));
  std::this_thread::sleep_for(std::min({pause, longest, left}));
}

Error WaitLimit::error(const std::string& file) const {
  if (stopped()) return {ErrorCode::Aborted, "stopped while waiting for " + file};
  if (deadline_passed()) {
    return {ErrorCode::NetworkTimeout,
            "the deadline passed while waiting for other processes that use " + file};
  }
  return {ErrorCode::ServiceUnavailable,
          "other processes kept " + file + " busy for " + std::to_string(busy_timeout_.count()) +
              " ms; retry, or find the process that holds a transaction open on it"};
}

Error damaged(const Connection& connection, const std::string& what) {
  return {ErrorCode::Internal, "cannot use " + connection.file() + ": " + what +
                                   "; stop all processes that use it, then restore the file or move it away"};
}

Connection::Connection(const std::filesystem::path& file) : file_(file.string()) {
  sqlite3* opened = nullptr;
  // NOFOLLOW: the path was resolved; a link now would lead to another file than the checked one.
  const int result = sqlite3_open_v2(
      file_.c_str(), &opened, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, "unix");
  handle_.reset(opened);
  if (result != SQLITE_OK) throw error(result);
  reserve_shared_memory_of(opened);
  sqlite3_extended_result_codes(opened, 1);
  sqlite3_busy_handler(opened, &Connection::on_busy, this);
}

Error Connection::error(int result) const {
  if ((result & 0xFF) == SQLITE_BUSY && wait_limit_ != nullptr && wait_limit_->reached()) {
    return wait_limit_->error(file_);
  }
  Failure failure{.extended = result};
  if (handle() != nullptr) {
    failure = {.extended = sqlite3_extended_errcode(handle()), .system = sqlite3_system_errno(handle())};
  }
  std::string cause = "SQLite " + std::to_string(failure.extended);
  if (handle() != nullptr) cause += std::string(": ") + sqlite3_errmsg(handle());
  return {code_for(failure),
          "cannot use " + file_ + ": " +
              (failure.is_full() ? full_text(failure.extended, file_) : std::string(advice_for(failure))),
          std::move(cause)};
}

int Connection::on_busy(void* self, int attempt) noexcept {
  auto& connection = *static_cast<Connection*>(self);
  const auto* limit = connection.wait_limit_;
  if (limit == nullptr || limit->reached()) {
    connection.waited_in_vain_ = limit != nullptr;
    return 0;
  }
  // At the first attempt, another writer may have committed while we began (BUSY_SNAPSHOT): no reason to
  // wait.
  if (attempt == 0) {
    sched_yield();
  } else {
    // A wait that was given up goes on in the next one: the transaction that was open then most likely still
    // is.
    const int waited = connection.waits_on_ ? attempts_of_busy_writers + attempts_of_a_long_wait : 0;
    limit->sleep_for(busy_pause(attempt + waited, os::jitter_fraction()));
  }
  return 1;
}

void Connection::pause(int attempt) const {
  if (wait_limit_ == nullptr)
    throw Error(ErrorCode::ServiceUnavailable, "other processes keep " + file_ + " busy");
  if (wait_limit_->reached()) throw wait_limit_->error(file_);
  wait_limit_->sleep_for(busy_pause(attempt, os::jitter_fraction()));
}

void Connection::execute(const char* sql) {
  if (const int result = sqlite3_exec(handle(), sql, nullptr, nullptr, nullptr); result != SQLITE_OK) {
    throw error(result);
  }
}

void Connection::copy_log_on_close(bool copy) noexcept {
  sqlite3_db_config(handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, copy ? 0 : 1, nullptr);
}

std::int64_t Connection::integer(const char* sql) {
  const Statement statement(*this, sql);
  auto row = statement.run();
  if (!row.next()) throw Error(ErrorCode::Internal, "cannot use " + file_ + ": no answer to " + sql);
  return row.integer(0);
}

std::string Connection::text(const char* sql) {
  const Statement statement(*this, sql);
  auto row = statement.run();
  if (!row.next()) throw Error(ErrorCode::Internal, "cannot use " + file_ + ": no answer to " + sql);
  return std::string(row.bytes(0));
}

Statement::Statement(Connection& connection, std::string_view sql) : connection_(connection) {
  sqlite3_stmt* prepared = nullptr;
  const int result = sqlite3_prepare_v3(connection.handle(), sql.data(), static_cast<int>(sql.size()),
                                        SQLITE_PREPARE_PERSISTENT, &prepared, nullptr);
  handle_.reset(prepared);
  check(result);
}

void Statement::check(int result) const {
  if (result != SQLITE_OK) throw connection_.error(result);
}

void Statement::bind(int at, std::int64_t value) const {
  check(sqlite3_bind_int64(handle_.get(), at, value));
}
void Statement::bind(int at, std::string_view value) const {
  check(sqlite3_bind_text(handle_.get(), at, value.data(), static_cast<int>(value.size()), SQLITE_STATIC));
}
void Statement::bind(int at, Blob value) const {
  // A null pointer would bind NULL instead of an empty blob.
  const char* data = value.bytes.empty() ? "" : value.bytes.data();
  check(sqlite3_bind_blob(handle_.get(), at, data, static_cast<int>(value.bytes.size()), SQLITE_STATIC));
}
void Statement::bind(int at, std::nullptr_t) const {
  check(sqlite3_bind_null(handle_.get(), at));
}

bool Statement::Run::next() {
  const int result = sqlite3_step(statement_.handle_.get());
  if (result == SQLITE_ROW) return true;
  if (result != SQLITE_DONE) throw statement_.connection_.error(result);
  return false;
}
void Statement::Run::only_row(const char* table) {
  if (!next()) throw damaged(statement_.connection_, "its " + std::string(table) + " row is missing");
}
bool Statement::Run::is_null(int column) const noexcept {
  return sqlite3_column_type(statement_.handle_.get(), column) == SQLITE_NULL;
}
std::int64_t Statement::Run::integer(int column) const noexcept {
  return sqlite3_column_int64(statement_.handle_.get(), column);
}
std::string_view Statement::Run::bytes(int column) const noexcept {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_.handle_.get(), column));
  return {data == nullptr ? "" : data,
          static_cast<std::size_t>(sqlite3_column_bytes(statement_.handle_.get(), column))};
}

}  // namespace holdfast::sqlite
