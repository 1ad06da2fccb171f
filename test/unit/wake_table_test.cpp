// What the contract suites cannot see of waits without a thread: collisions, files of older builds, races.

#include "waiting/wake_table.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>
#include <vector>

#include "support/begun_wait.hpp"
#include "support/eventually.hpp"
#include "support/temp_dir.hpp"

namespace holdfast::waiting {
namespace {

using namespace std::chrono_literals;
using test::BegunWait;
using test::eventually;

/// A key other than this that shares its word and its bit.
std::string twin_of(const std::string& key) {
  const auto place = WakeWords::Place::of(key);
  for (int i = 0;; ++i) {
    const auto twin = "twin " + std::to_string(i);
    const auto other = WakeWords::Place::of(twin);
    if (other.word() == place.word() && other.bit() == place.bit()) return twin;
  }
}

TEST(WakeTables, KeysThatShareASlotDoNotTakeEachOthersWakeUps) {
  const auto table = WakeTable::in_process();
  const auto other = table->watch(twin_of("k"), Wakes::one);
  const auto watch = table->watch("k", Wakes::one);
  const BegunWait longer(*other), wait(*watch);
  table->wake_one("k");
  EXPECT_EQ(wait.end(), true);
  table->wake_one(twin_of("k"));
  EXPECT_EQ(longer.end(), true);
}

TEST(WakeTables, TheFirstOfAKeyLooksAgainForAllAndTheNextWhenItHasGone) {
  const auto table = WakeTable::in_process();
  auto first = table->watch("k", Wakes::one);
  const auto second = table->watch("k", Wakes::one);
  const BootTime soon = BootClock::now() + 20ms;
  const BegunWait next(*second, soon, BootClock::now() + 60s);
  {
    // It was first to watch, though not to wait.
    const BegunWait wait(*first, soon);
    EXPECT_EQ(wait.end(), false);
  }
  const BegunWait again(*first, never, BootClock::now() + 60ms);
  EXPECT_EQ(again.end(), false);
  first.reset();
  EXPECT_EQ(next.end(), false) << "its pause began anew, and has an end";
}

TEST(WakeTables, WhoIsWokenForAllLooksForItself) {
  const auto table = WakeTable::in_process();
  const auto first = table->watch("k", Wakes::all), second = table->watch("k", Wakes::all);
  const BegunWait waiting(*first);
  EXPECT_EQ(BegunWait(*second, BootClock::now() + 10ms).end(), false);
  EXPECT_EQ(waiting.ended(), std::nullopt);
  table->wake_all("k");
  EXPECT_EQ(waiting.end(), true);
}

TEST(WakeTables, SeveralReleasesAtOnceWakeAsMany) {
  const auto table = WakeTable::in_process();
  std::vector<std::unique_ptr<Watch>> watches;
  std::vector<BegunWait> waits;
  for (int i = 0; i < 5; ++i) {
    watches.push_back(table->watch("k", Wakes::one));
    waits.emplace_back(*watches.back());
  }
  for (int i = 0; i < 3; ++i) table->wake_one("k");
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(waits[i].end(), true) << i;
  EXPECT_EQ(waits[3].ended(), std::nullopt);
  for (int i = 0; i < 2; ++i) table->wake_one("k");
  for (const auto& wait : waits) EXPECT_EQ(wait.end(), true);
}

TEST(WakeTables, AFileOfAnOlderBuildGrowsAndServesBoth) {
  const test::TempDir dir;
  const auto file = dir / "wake";
  std::ofstream(file) << std::string(WakeWords::word_count * sizeof(WakeWords::Word), '\0');
  const auto mine = WakeTable::in_file(file, {.owner = ::geteuid()}).value_or_throw();
  const auto theirs = WakeTable::in_file(file, {.owner = ::geteuid()}).value_or_throw();
  EXPECT_EQ(std::filesystem::file_size(file), sizeof(WakeWords));
  const auto watch = mine->watch("k", Wakes::one);
  const BegunWait wait(*watch);
  theirs->wake_one("k");
  EXPECT_EQ(wait.end(), true);
}

TEST(WakeTables, AFileOfAnotherUserIsNotMapped) {
  const test::TempDir dir;
  const auto file = dir / "wake";
  std::ofstream(file) << "theirs";
  const auto refused = WakeTable::in_file(file, {.owner = ::geteuid() + 1});
  if (::geteuid() == 0) {
    EXPECT_TRUE(refused.ok()) << "root's";
  } else {
    EXPECT_EQ(refused.error().code(), ErrorCode::AuthFailed);
  }
  std::filesystem::remove(file);
  std::filesystem::create_symlink(dir / "elsewhere", file);
  EXPECT_FALSE(WakeTable::in_file(file, {.owner = ::geteuid()}).ok());
  std::filesystem::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_EQ(WakeTable::in_file(file, {.owner = ::geteuid()}).error().code(), ErrorCode::AuthFailed);
}

TEST(FileTrusts, TheFilesOfItsUsersOnly) {
  const auto file_of = [](uid_t owner, gid_t group, mode_t mode) {
    struct stat info{};
    info.st_mode = S_IFREG | mode;
    info.st_nlink = 1;
    info.st_uid = owner;
    info.st_gid = group;
    return info;
  };
  const os::FileTrust alone{.owner = 5, .group = 6, .mode = 0600};
  EXPECT_TRUE(alone.trusts(file_of(5, 9, 0644)));
  EXPECT_TRUE(alone.trusts(file_of(0, 0, 0600)));
  EXPECT_FALSE(alone.trusts(file_of(7, 6, 0600)));
  const os::FileTrust shared{.owner = 5, .group = 6, .mode = 0660};
  EXPECT_TRUE(shared.trusts(file_of(7, 6, 0660)));
  EXPECT_FALSE(shared.trusts(file_of(7, 6, 0666))) << "another mode";
  EXPECT_FALSE(shared.trusts(file_of(7, 7, 0660))) << "another group";
  os::FileTrust exposed = shared;
  exposed.anyone_can_write_there = true;
  EXPECT_FALSE(exposed.trusts(file_of(7, 6, 0660)));
  EXPECT_TRUE(exposed.trusts(file_of(5, 6, 0660)));
  const os::FileTrust everyones{.owner = 5, .group = 6, .mode = 0666, .anyone_can_write_there = true};
  EXPECT_TRUE(everyones.trusts(file_of(7, 7, 0600)));
  auto other = file_of(5, 6, 0600);
  other.st_nlink = 2;
  EXPECT_FALSE(alone.trusts(other));
  other = file_of(5, 6, 0600);
  other.st_mode = S_IFIFO | 0600;
  EXPECT_FALSE(alone.trusts(other));
}

TEST(WakeTables, TheTableCanGoInTheLastCompletion) {
  auto table = WakeTable::in_process();
  auto watch = table->watch("k", Wakes::one);
  Watch& waited_for = *watch;
  const BegunWait wait(waited_for, BootClock::now() + 20ms, never, {}, [&](bool) { watch.reset(); });
  table.reset();
  EXPECT_EQ(wait.end(), false);
}

/// Waiters that come and go, are stopped and time out, while others wake them: each passes on what it got and
/// has no use for. In the end one wake-up must still reach everybody, one after another.
TEST(WakeTables, AFeedReportsEachChangeOfAnyKeyAndNothingElse) {
  const auto table = WakeTable::in_process();
  table->wake_one("before it began");
  const auto feed = table->follow();
  const std::vector<Change> something{Change{}}, nothing;
  const auto now = [] { return BootClock::now(); };
  EXPECT_EQ(feed->next(now()), nothing);
  table->wake_one("while no thread listened");
  EXPECT_EQ(feed->next(now()), something) << "whatever the deadline";
  EXPECT_EQ(feed->next(now()), nothing);
  std::atomic<int> reports = 0;
  feed->wait(never, {}, [&](const Result<std::vector<Change>>& changes) {
    reports = static_cast<int>(changes->size());
  });
  table->wake_all("while one did");
  EXPECT_TRUE(eventually([&] { return reports == 1; }));
  EXPECT_EQ(feed->next(now()), nothing);
}

TEST(WakeTables, NoWakeUpIsLostInACrowd) {
  const auto table = WakeTable::in_process();
  constexpr int rounds = 300;
  std::atomic<bool> over = false;
  std::vector<std::jthread> crowd;
  for (int t = 0; t < 3; ++t) {
    crowd.emplace_back([&, t] {
      for (int i = 0; !over; ++i) {
        const auto watch = table->watch("k", Wakes::one);
        std::stop_source stop;
        const BootTime until = t == 0 ? BootClock::now() + 50us : never;
        const BegunWait wait(*watch, until, until, stop.get_token(), [&](bool woken) {
          if (woken) watch->pass_on();
        });
        if (i % 2 == 0) std::this_thread::yield();
        stop.request_stop();
        if (!wait.end()) std::terminate();
      }
    });
  }
  for (int round = 0; round < rounds; ++round) {
    const auto watch = table->watch("k", Wakes::one);
    const BegunWait wait(*watch);
    table->wake_one("k");
    ASSERT_EQ(wait.end(), true) << round;
  }
  over = true;
}

}  // namespace
}  // namespace holdfast::waiting
