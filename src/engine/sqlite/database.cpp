#include "engine/sqlite/database.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <thread>

#include "engine/sqlite/fences.hpp"
#include "engine/sqlite/migrations.hpp"
#include "os/random.hpp"

namespace holdfast::sqlite {
namespace {

/// Small pages: a commit writes whole ones, and a lock changes about 200 bytes on each of three. The log is a
/// quarter as long as with SQLite's default; the time per commit is the same within noise.
constexpr int page_bytes = 1024;
/// The commit that brings the log to this many pages (8 MiB) copies it into the file: two waits for the disk,
/// so not often.
constexpr int checkpoint_after_frames = 8192;
constexpr std::chrono::milliseconds checkpoint_timeout(20);

void throw_if_failed(const Status& status) {
  if (!status.ok()) throw status.error();
}

/// Needs exclusive access for a moment. SQLite does not always call the busy handler then (two readers would
/// wait for each other), so this retries.
void switch_to_wal(Connection& connection, const WaitLimit& limit) {
  while (true) {
    try {
      if (connection.text("PRAGMA journal_mode=WAL") == "wal") return;
      throw Error(ErrorCode::ServiceUnavailable,
                  "cannot use " + connection.file() +
                      ": SQLite cannot use a write-ahead log there; use a local file system");
    } catch (const Error&) {
      const bool busy = (sqlite3_errcode(connection.handle()) & 0xFF) == SQLITE_BUSY;
      if (!busy || limit.reached()) throw;
    }
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(0.1 + os::jitter_fraction()));
  }
}

Database::Place place_of(const std::string& path, const FileIdentity& opened) noexcept {
  if (const auto found = identity_of(path.c_str())) {
    return *found == opened ? Database::Place::same : Database::Place::another;
  }
  return errno == ENOENT || errno == ENOTDIR ? Database::Place::another : Database::Place::unknown;
}

}  // namespace

PinnedFile Database::prepared(const std::filesystem::path& file) {
  throw_if_failed(create_if_missing(file));
  auto judged = PinnedFile::at(file).value_or_throw();
  throw_if_failed(check_usable(file, judged));
  throw_if_failed(check_neighbours(file));
  if (OpenFile::inherited(judged.identity())) {
    throw Error(ErrorCode::ServiceUnavailable,
                "cannot use " + file.string() +
                    ": this process was forked from one that has it open, and SQLite's locks do not "
                    "survive a fork; open it only after the fork, or start a new program in the child");
  }
  return judged;
}

void Database::check_opened(const PinnedFile& judged) const {
  const auto& path = connection_.file();
  struct stat directory{};
  const bool others_write_there =
      ::stat(std::filesystem::path(path).parent_path().c_str(), &directory) != 0 ||
      (directory.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  // SQLite compares its file with the path's file at that moment, so the path must lead to the checked file
  // then. An attacker that keeps swapping files would have to win the race in every check.
  for (int looks = others_write_there ? 16 : 1; looks > 0; --looks) {
    int moved = 1;
    sqlite3_file_control(connection_.handle(), "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    if (moved != 0 || !judged.is_at(path.c_str())) throw replaced_while_opening();
  }
}

Error Database::replaced_while_opening() const {
  return {ErrorCode::ServiceUnavailable,
          "cannot use " + connection_.file() + ": it was moved or replaced while it was opened. Retry"};
}

FileIdentity Database::identity_of_open_file() const {
  // Looked up by name: SQLite checks whether the name still leads to its open file.
  const auto identity = identity_of(connection_.file().c_str());
  int moved = 1;
  sqlite3_file_control(connection_.handle(), "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  if (!identity || moved != 0) throw replaced_while_opening();
  return *identity;
}

Database::Database(const std::filesystem::path& file, Clock clock, const WaitLimit& limit)
    : Database(prepared(file), file, std::move(clock), limit) {}

Database::Database(const PinnedFile& judged, const std::filesystem::path& file, Clock clock,
                   const WaitLimit& limit)
    : connection_(file),
      open_file_(identity_of_open_file()),
      clock_(std::move(clock)),
      begin_(connection_, "BEGIN IMMEDIATE"),
      begin_reading_(connection_, "BEGIN DEFERRED"),
      commit_(connection_, "COMMIT"),
      rollback_(connection_, "ROLLBACK") {
  check_opened(judged);
  const Connection::WaitScope waiting(connection_, limit);
  if (sqlite3_db_readonly(connection_.handle(), "main") != 0) {
    throw Error(ErrorCode::AuthFailed,
                "cannot write " + connection_.file() + "; check the owner and mode of the file");
  }
  connection_.execute("PRAGMA trusted_schema=OFF");
  connection_.execute(("PRAGMA page_size=" + std::to_string(page_bytes)).c_str());  // of a new file only
  refuse_others(connection_, migrations());
  // Off until ~Database has checked the files: otherwise a log put there by another user would be copied too.
  connection_.copy_log_on_close(false);
  switch_to_wal(connection_, limit);
  // New tables that exist only in the log need room in the file when the log is copied. On a full disk there
  // is none, and the first holder could not renew. Copying now costs three waits for the disk, once per file.
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
    throw Error(
        ErrorCode::ServiceUnavailable,
        "cannot use " + connection_.file() + ": a file next to it was removed while it was opened. Retry");
  }
  files_.log_identity = *log;
  files_.shared_memory_identity = *shared;
  throw_if_failed(check_neighbours(files_.database));  // again: they may have been put there meanwhile
  clock_lock_.emplace(files_.log);
  static_cast<void>(try_join_clock());
}

Database::~Database() {
  const auto is_unmoved = [this] { return place() == Place::same; };
  if (!is_unmoved()) return;
  bool may_copy = true;
  try {
    sync_commits(false);  // SQLite syncs when it copies the log
    may_copy = mark_closed_cleanly(connection_, is_unmoved);
  } catch (const Error&) {
    // Same as after a kill: at worst the next user leaves a gap in the fences.
  }
  connection_.copy_log_on_close(may_copy && is_unmoved());
}

bool Database::try_join_clock() {
  if (clock_number_ != 0) return true;
  for (int attempt = 0;; connection_.pause(attempt++)) {
    // The order matters: a process that has the lock now uses the clock that is read next, or a later one of
    // this kernel.
    const auto others = clock_lock_->others();
    const auto current = current_clock(connection_);
    const bool is_ours = current.is(clock_.identity);
    if (!is_ours && others == ClockLock::Others::none) return false;
    if (others == ClockLock::Others::exclusive) continue;  // a clock is being adopted
    // File locks do not reach beyond the kernel. So a process that uses the file's clock reads the same boot
    // clock as this one, whatever boot id each of them sees.
    if (!is_ours && !may_be_ours(current, clock_.identity)) {
      throw Error(ErrorCode::ServiceUnavailable,
                  "cannot use " + files_.database + ": it is in use on the clock of another boot (" +
                      current.boot_id + "; this is " + clock_.identity.boot_id +
                      "); stop the processes that use it there, or use one file per machine");
    }
    if (!clock_lock_->try_lock_shared()) continue;
    if (current_clock(connection_).number == current.number) {
      clock_number_ = current.number;
      return true;
    }
    clock_lock_->unlock();
  }
}

Database& Database::join_or_adopt_clock() {
  for (int attempt = 0; !try_join_clock(); connection_.pause(attempt++)) {
    if (!clock_lock_->try_lock()) continue;  // another process came first
    try {
      Change change(*this, Durability::machine, Change::OnAnyClock());
      const auto number = adopt_clock(connection_, clock_);
      change.commit();
      clock_number_ = number;
    } catch (...) {
      clock_lock_->unlock();
      throw;
    }
    static_cast<void>(clock_lock_->try_lock_shared());
  }
  return *this;
}

Database::Place Database::place() const noexcept {
  return std::max({place_of(files_.database, files_.database_identity),
                   place_of(files_.log, files_.log_identity),
                   place_of(files_.shared_memory, files_.shared_memory_identity)});
}

Error Database::moved() const {
  return {ErrorCode::ServiceUnavailable,
          "cannot use " + files_.database +
              ": it, its -wal or its -shm file was moved, removed or replaced while open, so other processes "
              "may use another file under this name. Stop all processes that use it, then restart them"};
}

void Database::check_clock(std::int64_t stored) const {
  if (stored == clock_number_) return;
  throw Error(ErrorCode::ServiceUnavailable,
              "cannot use " + files_.database +
                  ": its leases were moved to another clock since it was opened, by another machine or by an "
                  "older version in a container. Use one file per machine, and one version");
}

void Database::sync_commits(bool full) {
  if (full_ == full) return;
  // Not a kept statement: SQLite carries this pragma out when it is prepared, not when it is run.
  connection_.execute(full ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL");
  full_ = full;
}

Database::View::View(Database& database, Reads reads) : database_(database) {
  // A file without a clock has no locks yet: there is no need to exclude writers.
  if (database_.try_join_clock() || current_clock(database_.connection_).number == 0) {
    if (reads == Reads::several) database_.begin_reading_.execute();
    return;
  }
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
  database_.roll_back();
  if (computed_) database_.clock_number_ = 0;
}

Database::Change::Change(Database& database, Durability durability)
    : Change(database.join_or_adopt_clock(), durability, OnAnyClock()) {}

Database::Change::Change(Database& database, Durability durability, OnAnyClock) : database_(database) {
  // The first change always waits for the disk. The data read so far may come from the log of a process that
  // was killed after a write and before its sync. If fences reserved in that log were granted and the log
  // then lost, the fences would repeat. A sync covers the whole log.
  database_.sync_commits(durability == Durability::machine || !database_.synced_once_);
  database_.begin_.execute();
  place_ = database_.place();
  if (database_.synced_once_) return;
  try {
    ends_clean_state_ = was_closed_cleanly(database_.connection_);
    // The log of killed users was removed: the fences granted since its last copy are unknown.
    if (!ends_clean_state_ && log_is_empty(database_.connection_)) skip_lost_fences(database_.connection_);
  } catch (...) {
    database_.roll_back();
    throw;
  }
}

void Database::Change::commit() {
  // Without its -shm this process does not see what others wrote to the log, and would overwrite it. Another
  // check costs nothing compared to a sync, and such a transaction may have been long. For the remaining
  // window see docs/internals/sqlite.md, "One lock domain".
  if (database_.full_) place_ = std::max(place_, database_.place());
  check_unmoved();
  // SQLite drops an update that changes no byte, and a commit without a change syncs nothing: an extend
  // within the same millisecond as the previous one would be answered while that one is still in memory. So
  // every commit that must be on disk changes a counter.
  if (database_.full_) database_.count_synced_commit_->execute();
  bool copy_at_once = false;
  if (ends_clean_state_) {
    // A log that is not empty was about to be copied when its process was killed, or another program keeps it
    // open: then the new state can reach the file only through the log.
    copy_at_once = !log_is_empty(database_.connection_);
    mark_in_use(database_.connection_);
  }
  database_.commit_.execute();
  if (database_.full_) database_.synced_once_ = true;
  if (copy_at_once) static_cast<void>(database_.copy_log());
  database_.checkpoint_if_due();
}

void Database::Change::check_unmoved() const {
  if (place_ != Place::same) throw database_.moved();
}

void Database::Change::keep_what_was_found() {
  if (!database_.synced_once_) commit();
}

bool Database::copy_log() noexcept {
  const bool is_open = !files_.database.empty();  // the constructor copies before it has set them
  if (is_open && place() != Place::same) return false;
  const WaitLimit limit(never, checkpoint_timeout, {});
  const Connection::WaitScope waiting(connection_, limit);
  int frames = 0, copied = 0;
  sqlite3_wal_checkpoint_v2(connection_.handle(), "main", SQLITE_CHECKPOINT_RESTART, &frames, &copied);
  // Whether the log can restart from its beginning does not matter here.
  return frames >= 0 && copied >= frames;
}

void Database::checkpoint_if_due() noexcept {
  // SQLite's own checkpoints never exclude writers. With several busy writers the log is then never copied
  // completely, so it never restarts from its beginning: it grew by 40 MiB a second, and past the limit every
  // commit tried a copy and waited for the disk. RESTART excludes writers until the copy is complete. If a
  // long reader prevents it, the next attempt comes as many frames later.
  if (log_frames_ < checkpoint_after_frames) checkpoint_at_ = checkpoint_after_frames;
  if (log_frames_ < checkpoint_at_) return;
  checkpoint_at_ = log_frames_ + checkpoint_after_frames;
  // The change is committed, whatever happens here; a disk failure will show in the next one.
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
    // SQLite has rolled back automatically, or will when the file is next used.
  }
}

}  // namespace holdfast::sqlite
