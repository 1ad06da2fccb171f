#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <holdfast/doctor.hpp>
#include <holdfast/holdfast.hpp>
#include <thread>

#include "engine/sqlite/database.hpp"
#include "engine/sqlite/migrations.hpp"
#include "integration/sqlite_fixture.hpp"
#include "support/calls.hpp"
#include "support/peer.hpp"

namespace holdfast::sqlite {
namespace {

namespace fs = std::filesystem;

mode_t mode_of(const fs::path& path) {
  struct stat info{};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}
std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A mount that is undone when the test ends.
class Mount {
 public:
  Mount(const char* what, fs::path where, const char* type, unsigned long flags, const char* data)
      : where_(std::move(where)), mounted_(::mount(what, where_.c_str(), type, flags, data) == 0) {}
  ~Mount() {
    if (mounted_) ::umount2(where_.c_str(), MNT_DETACH);
  }
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;
  explicit operator bool() const { return mounted_; }

 private:
  fs::path where_;
  bool mounted_;
};
constexpr const char* no_mounts = "this user may not mount (needs root); the case is not covered here";

/// Runs the test's body in a child without root's exemption from permissions.
void as_nobody(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && (::setegid(65534) != 0 || ::seteuid(65534) != 0)) ::_exit(2);
    ::_exit(body() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

class SqliteFile : public SqliteTest {
 protected:
  /// The opening was refused like this, with a message that names the file, and the file is as it was.
  void expect_refused(ErrorCode code, const std::string& reason, const fs::path& path) {
    const auto error = refusal(path);
    ASSERT_TRUE(error.has_value()) << path;
    EXPECT_EQ(error->code(), code) << error->what();
    EXPECT_NE(error->message().find(path.filename().string()), std::string::npos) << error->what();
    EXPECT_NE(std::string(error->what()).find(reason), std::string::npos) << error->what();
  }
  void expect_refused(ErrorCode code, const std::string& reason) { expect_refused(code, reason, file); }
};

TEST_F(SqliteFile, AndItsSideFilesAreForTheirOwnerOnly) {
  const mode_t before = ::umask(0);
  auto client = open();
  ::umask(before);
  client.grant(LockId::generate(), "k");
  for (const char* suffix : {"", "-wal", "-shm", "-wake"}) {
    EXPECT_EQ(mode_of(file.string() + suffix), 0600U) << suffix;
  }
}

TEST_F(SqliteFile, MayExistEmpty) {
  write_file(file, "");
  EXPECT_TRUE(granted(open().acquire(LockId::generate(), "k")));
}

TEST_F(SqliteFile, IsUnderstoodAgainAfterEveryoneLeft) {
  const auto id = LockId::generate();
  const auto fence = open().grant(id, "k").fence;
  EXPECT_FALSE(fs::exists(file.string() + "-wal")) << "a file that nobody uses is one file";
  auto client = open();
  EXPECT_EQ((*client.lookup(id))->fence, fence);
}

TEST_F(SqliteFile, IsTheSameThroughASymbolicLink) {
  const auto link = directory.path() / "link.db";
  fs::create_symlink(file, link);
  expect_refused(ErrorCode::ServiceUnavailable, "broken symbolic link", link);
  auto client = open();
  client.grant(LockId::generate(), "k");
  Client linked(make_sqlite_lock_backend(link).value_or_throw());
  EXPECT_TRUE(*linked.is_locked("k"));
  EXPECT_FALSE(fs::exists(link.string() + "-wake"));
  EXPECT_FALSE(fs::exists(link.string() + "-wal"));
}

TEST_F(SqliteFile, IsRefusedWithoutItsDirectory) {
  const auto missing = directory.path() / "missing" / "locks.db";
  const auto error = refusal(missing);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::ServiceUnavailable);
  EXPECT_NE(error->message().find((directory.path() / "missing").string()), std::string::npos)
      << error->what();
  EXPECT_NE(error->message().find("create it"), std::string::npos) << error->what();
  EXPECT_FALSE(fs::exists(missing.parent_path()));
}

TEST_F(SqliteFile, IsRefusedIfItIsSomethingElse) {
  fs::create_directory(file);
  expect_refused(ErrorCode::ServiceUnavailable, "directory");
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  expect_refused(ErrorCode::ServiceUnavailable, "not a regular file");
  EXPECT_EQ(refusal("")->code(), ErrorCode::InvalidArgument);
}

TEST_F(SqliteFile, IsRefusedIfItIsNoDatabase) {
  const std::string text(5000, 'x');
  write_file(file, text);
  expect_refused(ErrorCode::ServiceUnavailable, "damaged");
  EXPECT_EQ(read_file(file), text);
}

TEST_F(SqliteFile, IsRefusedIfItIsShortGarbage) {
  write_file(file, "hello");
  expect_refused(ErrorCode::ServiceUnavailable, "damaged");
  EXPECT_EQ(read_file(file), "hello");
}

TEST_F(SqliteFile, IsRefusedIfItIsDamaged) {
  open().grant(LockId::generate(), "k");
  {
    std::fstream raw(file, std::ios::binary | std::ios::in | std::ios::out);
    raw.seekp(100);
    raw << std::string(1024 * 3, '\xFF');
  }
  const auto damaged = read_file(file);
  expect_refused(ErrorCode::ServiceUnavailable, "damaged");
  EXPECT_EQ(read_file(file), damaged);
}

TEST_F(SqliteFile, IsRefusedIfItIsAnotherProgramsDatabase) {
  sql(file, "CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)");
  const auto before = read_file(file);
  expect_refused(ErrorCode::ServiceUnavailable, "another program");
  EXPECT_EQ(read_file(file), before) << "not even switched to a write-ahead log";
  sql(file, "PRAGMA application_id=7");
  expect_refused(ErrorCode::ServiceUnavailable, "another program");
}

TEST_F(SqliteFile, IsRefusedIfItsFormatIsNewer) {
  open().grant(LockId::generate(), "k");
  sql(file, "PRAGMA user_version=99");
  const auto before = read_file(file);
  expect_refused(ErrorCode::ServiceUnavailable, "version 99");
  EXPECT_EQ(read_file(file), before);
}

TEST_F(SqliteFile, IsRefusedIfItsTablesAreNotOurs) {
  sql(file, "CREATE TABLE meta (x); PRAGMA application_id=" + std::to_string(application_id) +
                "; PRAGMA user_version=1");
  EXPECT_EQ(refusal()->code(), ErrorCode::ServiceUnavailable);
  EXPECT_NE(refusal()->message().find(file.string()), std::string::npos);
}

TEST_F(SqliteFile, IsRefusedWithTwoNames) {
  open();
  const auto other = directory.path() / "other.db";
  fs::create_hard_link(file, other);
  expect_refused(ErrorCode::ServiceUnavailable, "2 hard links");
  expect_refused(ErrorCode::ServiceUnavailable, "2 hard links", other);
  fs::remove(other);
  EXPECT_FALSE(refusal().has_value());
}

TEST_F(SqliteFile, IsRefusedAsAMountPoint) {
  open().grant(LockId::generate(), "k");
  const auto mounted = directory.path() / "mounted.db";
  write_file(mounted, "");
  {
    const Mount bind(file.c_str(), mounted, nullptr, MS_BIND, nullptr);
    if (!bind) GTEST_SKIP() << no_mounts;
    expect_refused(ErrorCode::ServiceUnavailable, "mount its directory instead", mounted);
  }
  EXPECT_EQ(fs::file_size(mounted), 0U);
}

TEST_F(SqliteFile, MayBeInADirectoryThatIsAMountPoint) {
  open().grant(LockId::generate(), "k");
  const test::TempDir elsewhere;
  const Mount bind(directory.path().c_str(), elsewhere.path(), nullptr, MS_BIND, nullptr);
  if (!bind) GTEST_SKIP() << no_mounts;
  Client client(make_sqlite_lock_backend(elsewhere.path() / "locks.db").value_or_throw());
  EXPECT_TRUE(*client.is_locked("k"));
}

TEST_F(SqliteFile, IsRefusedIfItMayNotBeWritten) {
  open();
  fs::permissions(directory.path(), fs::perms::all);
  fs::permissions(file, fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read);
  as_nobody([&] {
    const auto error = refusal();
    return error && error->code() == ErrorCode::AuthFailed &&
           error->message().find(file) != std::string::npos;
  });
}

TEST_F(SqliteFile, IsRefusedIfNothingMayBeCreatedBesideIt) {
  open();
  fs::permissions(file, fs::perms::all);
  fs::permissions(directory.path(), fs::perms::owner_all | fs::perms::group_exec | fs::perms::others_exec |
                                        fs::perms::group_read | fs::perms::others_read);
  if (::geteuid() != 0) fs::permissions(directory.path(), fs::perms::owner_read | fs::perms::owner_exec);
  as_nobody([&] {
    const auto error = refusal();
    const auto creation = refusal(directory.path() / "new.db");
    return error && error->code() == ErrorCode::AuthFailed && creation &&
           creation->code() == ErrorCode::AuthFailed;
  });
  fs::permissions(directory.path(), fs::perms::owner_all);
}

TEST_F(SqliteFile, IsRefusedOnAReadOnlyFileSystem) {
  open();
  const test::TempDir elsewhere;
  const Mount bind(directory.path().c_str(), elsewhere.path(), nullptr, MS_BIND, nullptr);
  if (!bind) GTEST_SKIP() << no_mounts;
  ASSERT_EQ(::mount(nullptr, elsewhere.path().c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr),
            0);
  expect_refused(ErrorCode::AuthFailed, "", elsewhere.path() / "locks.db");
  expect_refused(ErrorCode::AuthFailed, "", elsewhere.path() / "new.db");
}

TEST_F(SqliteFile, WorksWithoutTheWakeFile) {
  fs::create_directory(file.string() + "-wake");
  auto client = open();
  EXPECT_EQ(test::watch_of(client.backend(), *LockKey::parse("k")), nullptr);
  const auto id = LockId::generate();
  client.grant(id, "k");
  EXPECT_TRUE(released(client.release(id, "k")));
}

class SqliteOpenFile : public SqliteFile {
 protected:
  static void expect_unusable(Client& client, const LockId& held) {
    const auto acquired = client.acquire(LockId::generate(), "another");
    ASSERT_FALSE(acquired.ok());
    EXPECT_EQ(acquired.error().code(), ErrorCode::ServiceUnavailable) << acquired.error().what();
    EXPECT_EQ(absence(client.extend(held, "k", 30s)), Absence::not_found)
        << "it excludes nobody who comes now";
  }
};

TEST_F(SqliteOpenFile, GrantsNothingOnceItWasMoved) {
  auto client = open();
  const auto id = LockId::generate();
  client.grant(id, "k");
  fs::rename(file, directory.path() / "moved.db");
  expect_unusable(client, id);
  fs::rename(directory.path() / "moved.db", file);
  EXPECT_TRUE(granted(client.acquire(LockId::generate(), "another"))) << "back where it belongs";
}

TEST_F(SqliteOpenFile, LosesItsGuardsOnceItWasMoved) {
  auto hf = holdfast::open("sqlite:" + file.string(), {.log_sink = [](LogLevel, std::string_view) {}});
  auto kept = hf.locks().lock("kept"), extended = hf.locks().lock("extended"),
       brief = hf.locks().lock("brief");
  EXPECT_TRUE(kept.extend(1h));
  fs::rename(file, directory.path() / "moved.db");
  EXPECT_FALSE(extended.extend(1h));
  EXPECT_EQ(extended.loss_reason(), LossReason::gone) << "at the first renewal, not when the lease ends";
  EXPECT_FALSE(brief.release()) << "for how long it excluded others is not known";
  fs::rename(directory.path() / "moved.db", file);
  EXPECT_TRUE(kept.extend(1h)) << "that did not notice";
}

TEST_F(SqliteOpenFile, IsNotMadeAnewBesideItsLog) {
  auto client = open();
  client.grant(LockId::generate(), "k");
  const auto moved = directory.path() / "moved.db";
  fs::rename(file, moved);
  expect_refused(ErrorCode::ServiceUnavailable, "moved or removed while in use");
  EXPECT_FALSE(fs::exists(file)) << "it would be another store, with fences that begin again";
  const auto findings = examine("sqlite:" + file.string()).value_or_throw();
  EXPECT_TRUE(std::ranges::any_of(findings, [](const Finding& finding) {
    return finding.severity == Severity::problem &&
           finding.found.find("moved or removed") != std::string::npos;
  }));
  fs::rename(moved, file);
  EXPECT_FALSE(granted(open().acquire(LockId::generate(), "k"))) << "it is held still";
}

TEST_F(SqliteOpenFile, GrantsNothingOnceItWasReplaced) {
  auto client = open();
  const auto id = LockId::generate();
  client.grant(id, "k");
  write_file(directory.path() / "new.db", "");
  fs::rename(directory.path() / "new.db", file);
  expect_unusable(client, id);
}

TEST_F(SqliteOpenFile, GrantsNothingOnceItsLogOrSharedMemoryWasRemoved) {
  for (const char* suffix : {"-wal", "-shm"}) {
    file = directory.path() / (std::string("locks") + suffix + ".db");
    auto client = open();
    const auto id = LockId::generate();
    client.grant(id, "k");
    fs::rename(file.string() + suffix, directory.path() / "aside");
    expect_unusable(client, id);
    fs::rename(directory.path() / "aside", file.string() + suffix);
  }
}

/// Without its -shm a process does not see what others write to the log: a commit would overwrite theirs, and
/// a close would copy the log as the process knows it, and delete the rest.
TEST_F(SqliteOpenFile, WithoutItsSharedMemoryWritesNothingNeitherAtReleaseNorAtClose) {
  for (const auto& removed : {std::vector<std::string>{"-shm"}, std::vector<std::string>{"-wal", "-shm"}}) {
    SCOPED_TRACE(removed.size());
    file = directory.path() / (std::to_string(removed.size()) + ".db");
    open().grant(LockId::generate(), "warm-up");
    const auto elsewhere = [&] { return Client(test::open_in_another_process("sqlite:" + file.string())); };
    std::optional<Client> client = open();
    std::vector<LockId> ids;
    for (int i = 0; i < 6; ++i) client->grant(ids.emplace_back(LockId::generate()), "k" + std::to_string(i));
    for (const auto& suffix : removed) fs::remove(file.string() + suffix);

    const auto id = LockId::generate();
    std::optional<Client> another = elsewhere();
    const auto fence = another->grant(id, "theirs").fence;
    for (const auto& held : ids) {
      EXPECT_EQ(absence(client->release(held)), Absence::not_found) << "its lock is lost, not released";
    }
    EXPECT_TRUE(refused(elsewhere().acquire(LockId::generate(), "theirs")));
    EXPECT_TRUE(extended(another->extend(id, "theirs", 30s)));

    another.reset();
    client.reset();  // the last one
    EXPECT_TRUE(refused(elsewhere().acquire(LockId::generate(), "theirs")));
    EXPECT_EQ(elsewhere().grant(LockId::generate(), "next").fence.value(), fence.value() + 1);
    EXPECT_EQ(sql(file, "PRAGMA integrity_check"), "ok");
  }
}

TEST_F(SqliteOpenFile, IsNotChangedByALogThatWasRemoved) {
  const WaitLimit limit(never, 1s, {});
  std::optional<Database> database(std::in_place, file, machine_clock().value_or_throw(), limit);
  const auto set_last_fence = [&](int fence) {
    const Connection::WaitScope waiting(database->connection(), limit);
    Database::Change change(*database, Durability::process);
    database->connection().execute(("UPDATE meta SET fence_last = " + std::to_string(fence)).c_str());
    change.commit();
  };
  set_last_fence(7);
  const auto before = read_file(file);
  fs::rename(file.string() + "-wal", directory.path() / "aside");
  EXPECT_FALSE(database->copy_log());
  EXPECT_THROW(set_last_fence(8), Error);
  database.reset();
  EXPECT_EQ(read_file(file), before) << "neither by a copy of the log nor by the close";
}

TEST_F(SqliteOpenFile, GrantsNothingOnceSomethingWasMountedOverItsDirectory) {
  auto client = open();
  const auto id = LockId::generate();
  client.grant(id, "k");
  const Mount over("none", directory.path(), "tmpfs", 0, "size=1m");
  if (!over) GTEST_SKIP() << no_mounts;
  expect_unusable(client, id);
}

TEST_F(SqliteOpenFile, OnAFullDiskFailsClearlyAndLosesNothing) {
  const test::TempDir small;
  const Mount disk("none", small.path(), "tmpfs", 0, "size=512k");
  if (!disk) GTEST_SKIP() << no_mounts;
  file = small.path() / "locks.db";
  auto client = open();
  const auto id = LockId::generate();
  const auto fence = client.grant(id, "k").fence;
  {
    std::ofstream filler(small.path() / "filler");
    while (filler << std::string(4096, 'x') << std::flush) {
    }
  }
  std::optional<Error> full;
  for (int i = 0; i < 1000 && !full; ++i) {
    const auto outcome = client.acquire(LockId::generate(), "k" + std::to_string(i));
    if (!outcome.ok()) full = outcome.error();
  }
  ASSERT_TRUE(full.has_value());
  EXPECT_EQ(full->code(), ErrorCode::RateLimited) << full->what();
  EXPECT_NE(full->message().find(file.string()), std::string::npos);
  EXPECT_FALSE(full->key().empty());
  EXPECT_FALSE(*client.is_locked(full->key())) << "what failed is not held";
  EXPECT_EQ((*client.lookup(id))->fence, fence);
  fs::remove(small.path() / "filler");
  EXPECT_GT(client.grant(LockId::generate(), "room again").fence, fence);
}

TEST_F(SqliteOpenFile, OnAFullDiskUsesTheRoomItsLogHas) {
  const test::TempDir small;
  const Mount disk("none", small.path(), "tmpfs", 0, "size=1m");
  if (!disk) GTEST_SKIP() << no_mounts;
  file = small.path() / "locks.db";
  open().grant(LockId::generate(), "warm-up");
  auto client = open();
  const auto id = LockId::generate();
  client.grant(id, "k");
  EXPECT_TRUE(extended(client.extend(id, "k", 30s)));
  {
    std::ofstream filler(small.path() / "filler");
    while (filler << std::string(4096, 'x') << std::flush) {
    }
  }
  for (int i = 0; i < 2000; ++i) {
    const auto renewed = client.extend(id, "k", std::chrono::milliseconds(30'000 + i));
    ASSERT_TRUE(extended(renewed)) << i << ": " << (renewed.ok() ? "" : renewed.error().what());
  }
  EXPECT_TRUE(released(client.release(id, "k")));
  EXPECT_TRUE(granted(client.acquire(LockId::generate(), "k")));
}

TEST_F(SqliteOpenFile, DamagedWhileOpenIsInternal) {
  auto client = open();
  client.grant(LockId::generate(), "k");
  sql(file, "PRAGMA writable_schema=ON; DELETE FROM meta");
  EXPECT_EQ(client.acquire(LockId::generate(), "another").error().code(), ErrorCode::Internal);
  sql(file, "UPDATE locks SET id = 'short'");
  EXPECT_FALSE(client.list().ok());
}

TEST_F(SqliteOpenFile, KeptBusyEndsTheWaitAtTheTimeoutOrTheDeadlineOrTheStop) {
  auto client = open({.busy_timeout = 50ms});
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);

  auto error = client.acquire(LockId::generate(), "k").error();
  EXPECT_EQ(error.code(), ErrorCode::ServiceUnavailable);
  EXPECT_NE(error.message().find(file.string()), std::string::npos);
  EXPECT_EQ(error.key(), "k");

  auto patient = open({.busy_timeout = 60s});
  const auto deadline = BootClock::now() + 20ms;
  error = patient.acquire(LockId::generate(), "k", 1s, Durability::process, deadline).error();
  EXPECT_EQ(error.code(), ErrorCode::NetworkTimeout);
  EXPECT_GE(BootClock::now(), deadline);

  std::stop_source stop;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(20ms);
    stop.request_stop();
  });
  error = patient.acquire(LockId::generate(), "k", 1s, Durability::process, never, stop.get_token()).error();
  EXPECT_EQ(error.code(), ErrorCode::Aborted);

  EXPECT_FALSE(*patient.is_locked("k")) << "readers do not wait for writers";
  EXPECT_EQ(sqlite3_exec(other, "ROLLBACK", nullptr, nullptr, nullptr), SQLITE_OK);
  // The other client may need more than its timeout on a busy machine.
  EXPECT_TRUE(granted(patient.acquire(LockId::generate(), "k")));
  sqlite3_close(other);
}

TEST_F(SqliteOpenFile, ADeadlineInThePastEndsEveryOperation) {
  auto client = open();
  const auto outcome =
      client.acquire(LockId::generate(), "k", 1s, Durability::process, BootClock::now() - 1ms);
  EXPECT_EQ(outcome.error().code(), ErrorCode::NetworkTimeout);
}

class SqliteMigration : public SqliteTest {
 protected:
  static void add_colour(Connection& connection) {
    connection.execute("ALTER TABLE locks ADD COLUMN colour TEXT");
  }
  static void fail(Connection& connection) {
    connection.execute("CREATE TABLE half_done (x)");
    connection.execute("not SQL");
  }
  /// What there is, and these behind it.
  static std::vector<Migration> and_then(std::initializer_list<void (*)(Connection&)> more) {
    std::vector<Migration> steps(migrations().begin(), migrations().end());
    for (const auto apply : more) steps.push_back({.version = steps.back().version + 1, .apply = apply});
    return steps;
  }
  const std::int64_t newest = migrations().back().version;
};

TEST_F(SqliteMigration, TakesAnOlderFileForwardAndKeepsWhatItHolds) {
  const auto id = LockId::generate();
  open().grant(id, "k");
  const auto steps = and_then({add_colour});
  {
    Connection connection(file);
    migrate(connection, steps);
    migrate(connection, steps);  // nothing left to do
    EXPECT_EQ(connection.integer("PRAGMA user_version"), newest + 1);
    EXPECT_EQ(connection.text("SELECT id FROM locks WHERE colour IS NULL"), id.str());
  }
  EXPECT_EQ(refusal()->code(), ErrorCode::ServiceUnavailable) << "newer than this program knows";
}

TEST_F(SqliteMigration, ThatFailsChangesNothing) {
  open().grant(LockId::generate(), "k");
  const auto steps = and_then({add_colour, fail});
  {
    Connection connection(file);
    EXPECT_THROW(migrate(connection, steps), Error);
  }
  EXPECT_EQ(sql(file, "PRAGMA user_version; SELECT count(*) FROM sqlite_schema WHERE name = 'half_done'"),
            std::to_string(newest) + "|0");
  EXPECT_TRUE(*open().is_locked("k"));
}

TEST_F(SqliteMigration, GoesThroughEveryStepFromAnEmptyFile) {
  write_file(file, "");
  const auto steps = and_then({add_colour});
  Connection connection(file);
  migrate(connection, steps);
  EXPECT_EQ(connection.integer("SELECT count(*) FROM meta"), 1);
  EXPECT_EQ(connection.integer("PRAGMA application_id"), application_id);
}

class SqliteDefaultFile : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"XDG_STATE_HOME", "HOME"}) {
      const char* value = std::getenv(name);
      before_.emplace_back(name, value == nullptr ? std::optional<std::string>() : value);
    }
  }
  void TearDown() override {
    for (const auto& [name, value] : before_) set(name.c_str(), value ? value->c_str() : nullptr);
  }
  static void set(const char* name, const char* value) {
    if (value == nullptr) {
      ::unsetenv(name);
    } else {
      ::setenv(name, value, 1);
    }
  }

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

TEST_F(SqliteDefaultFile, IsInTheUsersStateDirectory) {
  set("HOME", "/home/x");
  set("XDG_STATE_HOME", "/state");
  EXPECT_EQ(*default_sqlite_file(), "/state/holdfast/holdfast.db");
  set("XDG_STATE_HOME", "relative");
  EXPECT_EQ(*default_sqlite_file(), "/home/x/.local/state/holdfast/holdfast.db");
  set("XDG_STATE_HOME", "");
  EXPECT_EQ(*default_sqlite_file(), "/home/x/.local/state/holdfast/holdfast.db");
  set("XDG_STATE_HOME", nullptr);
  EXPECT_EQ(*default_sqlite_file(), "/home/x/.local/state/holdfast/holdfast.db");
  set("HOME", nullptr);
  EXPECT_EQ(default_sqlite_file().error().code(), ErrorCode::InvalidArgument);
}

}  // namespace
}  // namespace holdfast::sqlite
