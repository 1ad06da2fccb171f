#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <holdfast/doctor.hpp>

#include "integration/sqlite_fixture.hpp"
#include "support/calls.hpp"
#include "support/processes.hpp"

namespace holdfast::sqlite {
namespace {

constexpr uid_t another_user = 54'321;
constexpr gid_t group = 54'322;

/// Files that another user puts beside the database. Only root can make some.
class SqliteNeighbours : public SqliteTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "this user may not give files away (needs root); not covered here";
    open().grant(LockId::generate(), "k");
  }
  void put(const std::string& suffix, uid_t owner, gid_t owners_group, mode_t mode) const {
    const auto path = file.string() + suffix;
    std::ofstream(path).flush();
    ASSERT_EQ(::chown(path.c_str(), owner, owners_group), 0);
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
  }
  void set_mode(const std::filesystem::path& path, mode_t mode) const {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
  }
  [[nodiscard]] Severity found(const std::string& topic) const {
    for (const auto& finding : examine("sqlite:" + file.string()).value_or_throw()) {
      if (finding.topic == topic) return finding.severity;
    }
    ADD_FAILURE() << topic;
    return Severity::ok;
  }
};

TEST_F(SqliteNeighbours, OfAnotherUserAreRefused) {
  for (const auto* suffix : {"-wal", "-shm", "-journal"}) {
    put(suffix, another_user, 0, 0666);
    const auto error = refusal();
    ASSERT_TRUE(error) << suffix;
    EXPECT_EQ(error->code(), ErrorCode::ServiceUnavailable);
    EXPECT_NE(error->message().find(file.string() + suffix), std::string::npos) << error->message();
    EXPECT_FALSE(examine("sqlite:" + file.string()).ok()) << "nor does the doctor look inside";
    std::filesystem::remove(file.string() + suffix);
    std::filesystem::create_symlink("elsewhere", file.string() + suffix);
    EXPECT_TRUE(refusal()) << suffix;
    std::filesystem::remove(file.string() + suffix);
  }
  EXPECT_TRUE(*open().is_locked("k"));
}

TEST_F(SqliteNeighbours, OfTheOwnerAndOfRootAreTaken) {
  ASSERT_EQ(::chown(file.c_str(), another_user, 0), 0);
  put("-wal", another_user, 0, 0600);
  EXPECT_TRUE(*open().is_locked("k"));
  put("-wal", 0, 0, 0600);
  EXPECT_TRUE(*open().is_locked("k"));
}

TEST_F(SqliteNeighbours, OfTheGroupAreTakenWhereItSharesTheFile) {
  ASSERT_EQ(::chown(file.c_str(), 0, group), 0);
  set_mode(file, 0660);
  set_mode(directory.path(), 02770);
  put("-wal", another_user, group, 0660);
  EXPECT_FALSE(refusal());
  put("-wal", another_user, group, 0600);
  EXPECT_TRUE(refusal()) << "another mode";
  put("-wal", another_user, 0, 0660);
  EXPECT_TRUE(refusal()) << "another group";
  put("-wal", another_user, group, 0660);
  set_mode(directory.path(), 02777);
  EXPECT_TRUE(refusal()) << "anyone may have put it there";
}

TEST_F(SqliteNeighbours, AWakeFileOfAnotherUserIsNotMapped) {
  std::filesystem::remove(file.string() + "-wake");
  put("-wake", another_user, 0, 0666);
  auto client = open();
  EXPECT_EQ(test::watch_of(client.backend(), *LockKey::parse("k")), nullptr) << "waiters poll";
  std::filesystem::resize_file(file.string() + "-wake", 0);
  const auto id = LockId::generate();
  client.grant(id, "another");
  EXPECT_TRUE(released(client.release(id, "another"))) << "nothing of it was touched";
}

TEST_F(SqliteNeighbours, ThoseOfAUserThatRootHelpsOutStayTheUsers) {
  ASSERT_EQ(::chown(file.c_str(), another_user, group), 0);
  std::filesystem::remove(file.string() + "-wake");
  auto client = open();
  for (const auto* suffix : {"-wal", "-shm", "-wake"}) {
    struct stat info{};
    ASSERT_EQ(::stat((file.string() + suffix).c_str(), &info), 0);
    EXPECT_EQ(info.st_uid, another_user) << suffix;
    EXPECT_EQ(info.st_gid, group) << suffix;
  }
}

TEST_F(SqliteNeighbours, ADirectoryThatOthersCanWriteToIsWarnedAbout) {
  const auto warnings = [&] {
    auto log = std::make_shared<Log>();
    std::string lines;
    log->set_sink([&](LogLevel level, std::string_view message) {
      if (level == LogLevel::warning) lines += message;
    });
    open({}, log);
    log->flush();
    return lines;
  };
  EXPECT_EQ(warnings(), "");
  EXPECT_EQ(found("directory"), Severity::ok);
  set_mode(directory.path(), 0770);
  EXPECT_EQ(found("directory"), Severity::note) << "the group may be the owner's own";
  EXPECT_EQ(warnings(), "");
  set_mode(directory.path(), 01777);
  EXPECT_NE(warnings().find(file.string()), std::string::npos);
  EXPECT_EQ(found("directory"), Severity::warning);
  set_mode(directory.path(), 0777);
  EXPECT_NE(warnings(), "");
  EXPECT_EQ(found("directory"), Severity::problem);
  ASSERT_EQ(::chown(file.c_str(), another_user, 0), 0);
  EXPECT_TRUE(refusal()) << "where anyone may have put it";
}

TEST_F(SqliteNeighbours, ALinkThatAnotherUserMayHavePutThereIsNotFollowed) {
  const auto link = directory.path() / "link.db", victim = directory.path() / "empty";
  std::ofstream(victim).flush();
  std::filesystem::create_symlink(victim, link);
  ASSERT_EQ(::lchown(link.c_str(), another_user, group), 0);
  set_mode(directory.path(), 02770);
  const auto error = refusal(link);
  ASSERT_TRUE(error);
  EXPECT_NE(error->message().find("is a symbolic link of uid 54321"), std::string::npos) << error->message();
  EXPECT_FALSE(examine("sqlite:" + link.string()).ok());
  EXPECT_EQ(std::filesystem::file_size(victim), 0U);
  ASSERT_EQ(::lchown(link.c_str(), 0, group), 0);
  EXPECT_FALSE(refusal(link)) << "one's own";
  ASSERT_EQ(::lchown(link.c_str(), another_user, group), 0);
  set_mode(directory.path(), 0755);
  EXPECT_FALSE(refusal(link)) << "put there by the directory's owner";
}

/// A user of the directory's group who exchanges the file with another, again and again.
class SqliteExchanged : public SqliteNeighbours {
 protected:
  /// Opens the file many times; calls `check` with each backend that could be opened.
  void exchange_with(const std::filesystem::path& other, const std::function<void(LockBackend&)>& check) {
    set_mode(directory.path(), 02770);
    const pid_t parent = ::getpid(), child = test::checked_fork();
    if (child == 0) {
      while (::getppid() == parent) {
        if (::renameat2(AT_FDCWD, file.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) != 0) ::_exit(1);
      }
      ::_exit(0);
    }
    for (int i = 0; i < 400; ++i) {
      const auto opened = make_sqlite_lock_backend(file);
      if (opened) check(**opened);
    }
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "nothing was exchanged";
  }
};

TEST_F(SqliteExchanged, WithALinkLeadsToNoOtherFile) {
  const auto link = directory.path() / "link", victim = directory.path() / "empty";
  std::ofstream(victim).flush();
  std::filesystem::create_symlink(victim, link);
  ASSERT_EQ(::lchown(link.c_str(), another_user, group), 0);
  exchange_with(link, [](LockBackend&) {});
  EXPECT_EQ(std::filesystem::file_size(victim), 0U);
}

TEST_F(SqliteExchanged, WithAnotherNameOfAFileElsewhereIsRefused) {
  const test::TempDir elsewhere;
  const auto victim = elsewhere.path() / "theirs.db", name = directory.path() / "name";
  const auto authority = make_sqlite_lock_backend(victim).value_or_throw()->authority();
  std::filesystem::create_hard_link(victim, name);
  int led_there = 0;
  exchange_with(name, [&](LockBackend& opened) { led_there += opened.authority() == authority ? 1 : 0; });
  EXPECT_EQ(led_there, 0);
}

}  // namespace
}  // namespace holdfast::sqlite
