#include "engine/sqlite/database.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <thread>

#include "engine/sqlite/adopt_clock.hpp"
#include "engine/sqlite/closing.hpp"
#include "engine/sqlite/migrations.hpp"
#include "sys/random.hpp"

namespace holdfast::sqlite {
namespace {

/// Small pages: a commit writes whole ones, and a lock changes about 200 bytes on each of three. It makes the
/// log a quarter as long as SQLite's default would; the time per commit is the same within noise.
constexpr int page_bytes = 1024;
/// A log of this many pages (8 MiB) is copied into the file, by whose commit reaches it, which costs two
/// waits for the disk; so not often.
constexpr int checkpoint_after_frames = 8192;
constexpr std::chrono::milliseconds checkpoint_patience(20);

void throw_if_failed(const Status& status) {
  if (!status.ok()) throw status.error();
}

/// Needs the file for itself for a moment. SQLite does not always ask the busy handler then (two who both
/// read would wait for each other), so this asks again.
void switch_to_wal(Connection& connection, const Patience& patience) {
  while (true) {
    try {
      if (connection.text("PRAGMA journal_mode=WAL") == "wal") return;
      throw Error(ErrorCode::ServiceUnavailable,
                  "cannot use " + connection.file() +
                      ": SQLite cannot keep a write-ahead log there; use a local file system");
    } catch (const Error&) {
      const bool busy = (sqlite3_errcode(connection.handle()) & 0xFF) == SQLITE_BUSY;
      if (!busy || patience.over()) throw;
    }
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(0.1 + sys::jitter_fraction()));
  }
}

Database::Place place_of(const std::string& path, const FileIdentity& opened) noexcept {
  if (const auto found = identity_of(path.c_str())) {
    return *found == opened ? Database::Place::same : Database::Place::another;
  }
  return errno == ENOENT || errno == ENOTDIR ? Database::Place::another : Database::Place::unknown;
}

}  // namespace

std::filesystem::path Database::prepared(const std::filesystem::path& file) {
  throw_if_failed(create_if_missing(file));
  throw_if_failed(check_usable(file));
  throw_if_failed(check_neighbours(file));
  const auto identity = identity_of(file.c_str());
  if (identity && OpenFile::inherited(*identity)) {
    throw Error(ErrorCode::ServiceUnavailable,
                "cannot use " + file.string() +
                    ": this process was forked from one that has it open, and SQLite's locks do not "
                    "survive a fork; open it only after the fork, or start a new program in the child");
  }
  return file;
}

FileIdentity Database::identity_of_open_file() const {
  // Looked up by name, so ask SQLite whether the name still leads to what it has open.
  const auto identity = identity_of(connection_.file().c_str());
  int moved = 1;
  sqlite3_file_control(connection_.handle(), "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  if (!identity || moved != 0) {
    throw Error(ErrorCode::ServiceUnavailable,
                "cannot use " + connection_.file() + ": it was moved or replaced while it was being opened");
  }
  return *identity;
}

Database::Database(const std::filesystem::path& file, Clock clock, const Patience& patience)
    : connection_(prepared(file)),
      open_file_(identity_of_open_file()),
      clock_(std::move(clock)),
      begin_(connection_, "BEGIN IMMEDIATE"),
      commit_(connection_, "COMMIT"),
      rollback_(connection_, "ROLLBACK") {
  const Connection::Waiting waiting(connection_, patience);
  if (sqlite3_db_readonly(connection_.handle(), "main") != 0) {
    throw Error(ErrorCode::AuthFailed,
                "cannot write " + connection_.file() + "; check the owner and mode of the file");
  }
  connection_.execute("PRAGMA trusted_schema=OFF");
  connection_.execute(("PRAGMA page_size=" + std::to_string(page_bytes)).c_str());  // of a new file only
  refuse_others(connection_, migrations());
  switch_to_wal(connection_, patience);
  // New tables that only the log has would need room in the file when the log is copied, and a full disk has
  // none: then the first holder could not renew. Costs three waits for the disk, once in the life of a file.
  if (migrate(connection_, migrations())) static_cast<void>(copy_log());
  checkpoint_at_ = checkpoint_after_frames;
  sqlite3_wal_hook(
      connection_.handle(),
      [](void* frames, sqlite3*, const char*, int count) {
        *static_cast<int*>(frames) = count;
        return SQLITE_OK;
      },
      &log_frames_);
  refuse_two_machines(connection_, clock_.identity);
  authority_ = connection_.text("SELECT authority FROM meta");
  count_synced_commit_.emplace(connection_, "UPDATE meta SET synced_commits = synced_commits + 1");

  files_.database = connection_.file();
  files_.log = files_.database + "-wal";
  files_.shared_memory = files_.database + "-shm";
  files_.database_identity = identity_of_open_file();
  const auto log = identity_of(files_.log.c_str()), shared = identity_of(files_.shared_memory.c_str());
  if (!log || !shared) {
    throw Error(ErrorCode::ServiceUnavailable,
                "cannot use " + connection_.file() + ": a file beside it was removed while it was opened");
  }
  files_.log_identity = *log;
  files_.shared_memory_identity = *shared;
  throw_if_failed(check_neighbours(files_.database));  // again: they may have been put there meanwhile
  working_.emplace(files_.log);
  static_cast<void>(settle());
}

Database::~Database() {
  try {
    sync_commits(false);  // SQLite syncs when it copies the log
  } catch (const Error&) {
    return;
  }
  mark_closed_cleanly(connection_);
}

bool Database::settle() {
  if (clock_number_ != 0) return true;
  for (int attempt = 0;; connection_.pause(attempt++)) {
    // In this order: who works now works under the clock that is read next, or a later one of this kernel.
    const auto others = working_->others();
    const auto current = current_clock(connection_);
    const bool is_ours = current.is(clock_.identity);
    if (!is_ours && others == WorkingLock::Others::none) return false;
    if (others == WorkingLock::Others::exclude) continue;  // a clock is being adopted
    // Locks of files do not reach beyond the kernel. So a process that works under the file's clock reads the
    // same boot clock as we do, whatever boot id each of us was shown.
    if (!is_ours && !may_be_ours(current, clock_.identity)) {
      throw Error(ErrorCode::ServiceUnavailable,
                  "cannot use " + files_.database + ": it is in use under the clock of another boot (" +
                      current.boot_id + "; this is " + clock_.identity.boot_id +
                      "); stop its users there, or give each its own file");
    }
    if (!working_->share()) continue;
    if (current_clock(connection_).number == current.number) {
      clock_number_ = current.number;
      return true;
    }
    working_->leave();
  }
}

Database& Database::settled() {
  for (int attempt = 0; !settle(); connection_.pause(attempt++)) {
    if (!working_->exclude()) continue;  // another process came first: look again
    try {
      Change change(*this, Durability::machine, Change::OnAnyClock());
      const auto number = adopt_clock(connection_, clock_);
      change.commit();
      clock_number_ = number;
    } catch (...) {
      working_->leave();
      throw;
    }
    static_cast<void>(working_->share());
  }
  return *this;
}

Database::Place Database::place_of_database() const noexcept {
  return place_of(files_.database, files_.database_identity);
}

Database::Place Database::place() const noexcept {
  return std::max({place_of_database(), place_of(files_.log, files_.log_identity),
                   place_of(files_.shared_memory, files_.shared_memory_identity)});
}

Error Database::moved() const {
  return {ErrorCode::ServiceUnavailable,
          "cannot use " + files_.database +
              ": it, its -wal or its -shm file was moved, removed or replaced while it was open, so others "
              "may use another file under this name; stop all its users, then start again"};
}

void Database::check_unmoved() const {
  if (place() != Place::same) throw moved();
}

void Database::check_clock(std::int64_t stored) const {
  if (stored == clock_number_) return;
  throw Error(ErrorCode::ServiceUnavailable,
              "cannot use " + files_.database +
                  ": its leases were moved to another clock since it was opened, by another machine or by an "
                  "older build in a container; give each its own file, or use one build");
}

void Database::sync_commits(bool full) {
  if (full_ == full) return;
  // Not a kept statement: SQLite carries this pragma out when it is prepared, not when it is run.
  connection_.execute(full ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
  full_ = full;
}

Database::View::View(Database& database) : database_(database) {
  // Without a clock there is no lock yet, and no need to keep writers out.
  if (database_.settle() || current_clock(database_.connection_).number == 0) return;
  database_.begin_.execute();
  computed_ = true;
  try {
    database_.clock_number_ = adopt_clock(database_.connection_, database_.clock_);
  } catch (...) {
    database_.roll_back();
    throw;
  }
}

Database::View::~View() {
  if (!computed_) return;
  database_.roll_back();
  database_.clock_number_ = 0;
}

Database::Change::Change(Database& database, Durability durability)
    : Change(database.settled(), durability, OnAnyClock()) {}

Database::Change::Change(Database& database, Durability durability, OnAnyClock) : database_(database) {
  // The first change waits for the disk whatever it is. What we have read so far may have been recovered
  // from the log of a process that was killed after it wrote and before it synced; granting fences that
  // such a log reserved, and then losing the log, would repeat them. A sync reaches all of the log.
  database_.sync_commits(durability == Durability::machine || !database_.synced_once_);
  database_.begin_.execute();
  if (database_.synced_once_) return;
  try {
    ends_clean_state_ = was_closed_cleanly(database_.connection_);
    // The log of users that were killed was removed: what they granted since it was last copied is not known.
    if (!ends_clean_state_ && log_is_empty(database_.connection_)) skip_lost_fences(database_.connection_);
  } catch (...) {
    database_.roll_back();
    throw;
  }
}

void Database::Change::commit() {
  // SQLite drops an update that changes no byte, and a commit without a change syncs nothing: an extend
  // within the same millisecond as the one before would be answered while that one is still in memory. So
  // whatever must be on disk changes something.
  if (database_.full_) database_.count_synced_commit_->execute();
  bool copy_at_once = false;
  if (ends_clean_state_) {
    // A log that has something to say already was about to be copied when its process was killed, or is kept
    // by another program: then the new state can only reach the file through it.
    copy_at_once = !log_is_empty(database_.connection_);
    mark_in_use(database_.connection_);
  }
  database_.commit_.execute();
  if (database_.full_) database_.synced_once_ = true;
  if (copy_at_once) static_cast<void>(database_.copy_log());
  database_.checkpoint_if_due();
}

void Database::Change::keep_what_was_found() {
  if (!database_.synced_once_) commit();
}

bool Database::copy_log() noexcept {
  const Patience patience(never, checkpoint_patience, {});
  const Connection::Waiting waiting(connection_, patience);
  int frames = 0, copied = 0;
  sqlite3_wal_checkpoint_v2(connection_.handle(), "main", SQLITE_CHECKPOINT_RESTART, &frames, &copied);
  // Whether the log can also begin anew is another matter.
  return frames >= 0 && copied >= frames;
}

void Database::checkpoint_if_due() noexcept {
  // SQLite's own checkpoints never keep writers out. With several busy ones the log is then never copied
  // completely, so it never starts again from its beginning: it grew by 40 MiB a second, and past the limit
  // every commit tried, and waited for the disk. RESTART keeps writers out for as long as it takes. Who
  // cannot have the file for itself soon (somebody reads it for long) tries again as many frames later.
  if (log_frames_ < checkpoint_after_frames) checkpoint_at_ = checkpoint_after_frames;
  if (log_frames_ < checkpoint_at_) return;
  checkpoint_at_ = log_frames_ + checkpoint_after_frames;
  // The change is committed, whatever becomes of this; what is wrong with the disk shows in the next one.
  static_cast<void>(copy_log());
}

Database::Change::~Change() {
  database_.roll_back();
}

void Database::roll_back() noexcept {
  if (!connection_.in_transaction()) return;
  try {
    rollback_.execute();
  } catch (const Error&) {
    // SQLite has rolled back by itself, or will when the file is next used.
  }
}

}  // namespace holdfast::sqlite
