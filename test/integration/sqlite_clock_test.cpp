#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "engine/sqlite/file_clock.hpp"
#include "integration/sqlite_fixture.hpp"
#include "support/in_child.hpp"
#include "support/times.hpp"

namespace holdfast::sqlite {
namespace {

class SqliteClock : public SqliteTest {
 protected:
  /// Opening on that clock is refused; returns what is said.
  std::string refused_opening(FakeClock& on) {
    auto opened = open_lock_backend(file, {}, {}, on.clock());
    if (opened.ok()) return {};
    EXPECT_EQ(opened.error().code(), ErrorCode::ServiceUnavailable);
    return opened.error().message();
  }
  FakeClock time;
};

TEST_F(SqliteClock, AWallClockJumpNeitherFreesNorProlongsALock) {
  for (const auto jump : {std::chrono::milliseconds(1h), std::chrono::milliseconds(-1h)}) {
    auto client = open(time);
    const auto id = LockId::generate();
    client.grant(id, "k", 30s);
    time.wall_ms += jump.count();
    time.pass(29'999ms);
    EXPECT_TRUE(*client.is_locked("k"));
    EXPECT_TRUE(refused(open(time).acquire(LockId::generate(), "k"))) << "a new process sees it too";
    time.pass(1ms);
    EXPECT_FALSE(*client.is_locked("k"));
    EXPECT_EQ(absence(client.extend(id, "k", 30s)), Absence::expired);
  }
}

TEST_F(SqliteClock, ExtendShowsTheNewWallTime) {
  auto client = open(time);
  const auto id = LockId::generate();
  client.grant(id, "k", 30s);
  time.wall_ms += 3'600'000;
  EXPECT_TRUE(extended(client.extend(id, "k", 30s)));
  EXPECT_EQ(test::to_ms((*client.lookup("k"))->expires_at), time.wall_ms + 30'000);
}

TEST_F(SqliteClock, AfterARebootWhatIsLeftOfADurableLockIsLeft) {
  const auto id = LockId::generate();
  const auto before = open(time).grant(id, "k", 60s, Durability::machine);
  time.reboot_after(20s);
  auto client = open(time);
  const auto record = *client.lookup("k");
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->fence, before.fence);
  EXPECT_EQ(record->expires_at, before.expires_at);
  time.pass(39'999ms);
  EXPECT_TRUE(*client.is_locked("k"));
  EXPECT_TRUE(extended(client.extend(id, {}, 1s)));
  time.pass(1s);
  EXPECT_FALSE(*client.is_locked("k"));
}

TEST_F(SqliteClock, AfterARebootALockThatEndedMeanwhileIsGone) {
  const auto id = LockId::generate();
  open(time).grant(id, "k", 60s, Durability::machine);
  time.reboot_after(60s);
  auto client = open(time);
  EXPECT_FALSE(*client.is_locked("k"));
  EXPECT_EQ(absence(client.release(id)), Absence::not_found);
}

TEST_F(SqliteClock, ARebootWithTheWallClockSetBackNeverGivesMoreThanTheTtl) {
  open(time).grant(LockId::generate(), "k", 60s, Durability::machine);
  time.reboot_after(-24h);
  auto client = open(time);
  EXPECT_EQ(test::to_ms((*client.lookup("k"))->expires_at), time.wall_ms + 60'000);
  client.grant(LockId::generate(), "another");
  time.pass(59'999ms);
  EXPECT_TRUE(*client.is_locked("k"));
  time.pass(1ms);
  EXPECT_FALSE(*client.is_locked("k"));
}

TEST_F(SqliteClock, RestampsOnlyOnce) {
  open(time).grant(LockId::generate(), "k", 60s, Durability::machine);
  time.reboot_after(20s);
  open(time).grant(LockId::generate(), "another");
  time.wall_ms -= 30'000;  // a second restamp would prolong
  auto client = open(time);
  time.pass(40s);
  EXPECT_FALSE(*client.is_locked("k"));
}

TEST_F(SqliteClock, ARebootEndsTheLocksOfGuards) {
  {
    auto client = open(time);
    client.grant(LockId::generate(), "guarded", 60s, Durability::process);
    const auto detached = LockId::generate();
    client.grant(detached, "detached", 60s, Durability::process);
    EXPECT_TRUE(extended(client.extend(detached, "detached", 60s, Durability::machine)));
    EXPECT_TRUE(extended(
        client.extend(detached, "detached", 60s, Durability::process)));  // adopted again: stays durable
  }
  time.reboot_after(1s);
  auto client = open(time);
  EXPECT_FALSE(*client.is_locked("guarded"));
  EXPECT_TRUE(*client.is_locked("detached"));
}

TEST_F(SqliteClock, ARepeatedAcquireThatAsksForMoreDurabilityGetsIt) {
  {
    auto client = open(time);
    const auto id = LockId::generate();
    client.grant(id, "k", 60s, Durability::process);
    client.grant(id, "k", 60s, Durability::machine);
  }
  time.reboot_after(1s);
  EXPECT_TRUE(*open(time).is_locked("k"));
}

/// Older builds read the clock of their own time namespace; this one reads the same clock in all of them.
TEST_F(SqliteClock, AnOlderBuildsTimeNamespaceNeverFreesALockWhateverTheWallClockSays) {
  open(time).grant(LockId::generate(), "k", 60s, Durability::process);
  time.identity.time_namespace = 2;
  time.boot_ms += 1'000'000'000;
  time.wall_ms += 3'600'000;
  auto client = open(time);
  EXPECT_TRUE(*client.is_locked("k"));
  client.grant(LockId::generate(), "another");
  time.pass(59s);
  EXPECT_TRUE(*client.is_locked("k")) << "for its whole ttl from now on: its holder may be alive";
  time.pass(1s);
  EXPECT_FALSE(*client.is_locked("k"));
}

TEST_F(SqliteClock, FencesGoOnAcrossTimeNamespacesAndReboots) {
  auto fence = open(time).grant(LockId::generate(), "a").fence;
  for (int i = 0; i < 4; ++i) {
    if (i % 2 == 0) {
      ++time.identity.time_namespace;
    } else {
      time.reboot_after(1s);
    }
    const auto next = open(time).grant(LockId::generate(), "a" + std::to_string(i)).fence;
    EXPECT_GT(next, fence);
    fence = next;
  }
}

TEST_F(SqliteClock, TwoMachinesInTurnAreRefused) {
  FakeClock other = time;
  other.identity.boot_id = "another machine";
  open(time).grant(LockId::generate(), "a");
  open(other).grant(LockId::generate(), "b");
  const auto message = refused_opening(time);
  EXPECT_NE(message.find(file.string()), std::string::npos) << message;
  EXPECT_NE(message.find("Two machines"), std::string::npos) << message;
  open(other).grant(LockId::generate(), "c");  // the one that has it keeps it
}

TEST_F(SqliteClock, AMachineThatSeesAnothersLocksOnTheFileIsRefused) {
  auto client = open(time);
  client.grant(LockId::generate(), "k");
  FakeClock other = time;
  other.identity.boot_id = "another machine";
  EXPECT_NE(refused_opening(other).find("another boot"), std::string::npos);
  EXPECT_TRUE(granted(client.acquire(LockId::generate(), "another")));
}

TEST_F(SqliteClock, AnOpenBackendNoticesThatAnotherClockTookOver) {
  auto client = open(time);
  const auto id = LockId::generate();
  client.grant(id, "k");
  sql(file, "UPDATE meta SET clock = clock + 1");  // as a build would that asks nobody
  EXPECT_EQ(client.acquire(LockId::generate(), "x").error().code(), ErrorCode::ServiceUnavailable);
  EXPECT_EQ(client.extend(id, "k", 30s).error().code(), ErrorCode::ServiceUnavailable);
  EXPECT_EQ(client.release(id, "k").error().code(), ErrorCode::ServiceUnavailable);
  EXPECT_EQ(client.release(id).error().code(), ErrorCode::ServiceUnavailable);
  EXPECT_EQ(client.is_locked("k").error().code(), ErrorCode::ServiceUnavailable);
  EXPECT_EQ(client.lookup("k").error().code(), ErrorCode::ServiceUnavailable);
  EXPECT_EQ(client.lookup(id).error().code(), ErrorCode::ServiceUnavailable);
  EXPECT_EQ(client.list().error().code(), ErrorCode::ServiceUnavailable);
}

TEST_F(SqliteClock, ReadingMovesNoFileToAnotherClock) {
  const auto id = LockId::generate();
  open(time).grant(id, "k", 60s, Durability::machine);
  open(time).grant(LockId::generate(), "guarded", 60s);
  const auto before =
      sql(file, "SELECT * FROM clocks; SELECT * FROM locks; SELECT clock, fence_last FROM meta");
  FakeClock rebooted = time, container = time;
  rebooted.reboot_after(20s);
  container.start_container("c");
  for (auto* clock : {&rebooted, &container}) {
    auto client = open(*clock);
    EXPECT_TRUE(*client.is_locked("k"));
    EXPECT_EQ(*client.is_locked("guarded"), clock == &container) << "what a change would leave of it";
    EXPECT_EQ((*client.lookup(id))->key.str(), "k");
    EXPECT_EQ(client.list()->locks.size(), clock == &container ? 2U : 1U);
  }
  EXPECT_EQ(sql(file, "SELECT * FROM clocks; SELECT * FROM locks; SELECT clock, fence_last FROM meta"),
            before);
  EXPECT_TRUE(extended(open(time).extend(id, "k", 60s))) << "it is where it was";
}

class SqliteContainer : public SqliteClock {
 protected:
  SqliteContainer() { container.start_container("container"); }
  /// Both clocks go on.
  void pass(std::chrono::milliseconds while_) {
    time.pass(while_);
    container.pass(while_);
  }
  FakeClock container = time;
};

TEST_F(SqliteContainer, TakesNoLockFromAHolderOutsideAndTheOtherWayRound) {
  auto host = open(time);
  const auto id = LockId::generate();
  const auto fence = host.grant(id, "k", 30s).fence;
  {
    auto guest = open(container);
    EXPECT_TRUE(*guest.is_locked("k"));
    EXPECT_TRUE(refused(guest.acquire(LockId::generate(), "k")));
    const auto theirs = LockId::generate();
    EXPECT_EQ(guest.grant(theirs, "theirs", 30s).fence.value(), fence.value() + 1) << "one sequence";
    EXPECT_TRUE(refused(host.acquire(LockId::generate(), "theirs")));
    pass(29s);
    EXPECT_TRUE(extended(host.extend(id, "k", 30s)));
    pass(1s);
    EXPECT_TRUE(granted(host.acquire(LockId::generate(), "theirs"))) << "it was not renewed";
    EXPECT_TRUE(refused(guest.acquire(LockId::generate(), "k")));
  }
  EXPECT_TRUE(released(host.release(id, "k")));
}

TEST_F(SqliteContainer, DropsNoLockOfAHolderThatHasClosedTheFile) {
  // A detached lock, or the command of a killed `run`.
  const auto id = LockId::generate();
  open(time).grant(id, "k", 30s, Durability::process);
  pass(10s);
  auto guest = open(container);
  EXPECT_TRUE(refused(guest.acquire(LockId::generate(), "k")));
  pass(19'999ms);
  EXPECT_TRUE(refused(guest.acquire(LockId::generate(), "k")));
  pass(1ms);
  EXPECT_TRUE(granted(guest.acquire(LockId::generate(), "k"))) << "both clocks agree on when it expires";
}

TEST_F(SqliteContainer, RevivesNoExpiredLock) {
  open(time).grant(LockId::generate(), "k", 30s, Durability::machine);
  pass(30s);
  auto guest = open(container);
  EXPECT_FALSE(*guest.is_locked("k"));
  EXPECT_TRUE(granted(guest.acquire(LockId::generate(), "k")));
}

TEST_F(SqliteContainer, RevivesNoLockThatExpiredWhileTheMachineRebootedUnderIt) {
  open(container).grant(LockId::generate(), "k", 8h, Durability::machine);
  container.pass(9h);
  container.boot_ms = 5'000;
  container.start_container("container, started again");
  EXPECT_FALSE(*open(container).is_locked("k"));
  EXPECT_TRUE(granted(open(container).acquire(LockId::generate(), "k")));
}

TEST_F(SqliteContainer, FreesNoLockBecauseTheWallClockJumped) {
  open(time).grant(LockId::generate(), "k", 30s, Durability::machine);
  pass(10s);
  container.wall_ms += 3'600'000;
  auto guest = open(container);
  EXPECT_TRUE(refused(guest.acquire(LockId::generate(), "k")));
  pass(20s);
  EXPECT_TRUE(granted(guest.acquire(LockId::generate(), "k")));
}

TEST_F(SqliteContainer, GivesALockItsWholeTtlWhereTheClocksDisagree) {
  open(time).grant(LockId::generate(), "k", 30s, Durability::machine);
  pass(10s);
  container.boot_ms += 7'777'000;  // the kernel may be another
  auto guest = open(container);
  EXPECT_TRUE(refused(guest.acquire(LockId::generate(), "k")));
  pass(29'999ms);
  EXPECT_TRUE(refused(guest.acquire(LockId::generate(), "k")));
  pass(1ms);
  EXPECT_TRUE(granted(guest.acquire(LockId::generate(), "k")));
}

TEST_F(SqliteContainer, GoesOnWithItsFileWhenItIsStartedAgain) {
  Fence fence;
  for (int start = 0; start < 5; ++start) {
    container.start_container("start " + std::to_string(start));
    auto guest = open(container);
    const auto next = guest.grant(LockId::generate(), "k" + std::to_string(start)).fence;
    EXPECT_GT(next, fence);
    fence = next;
    pass(1s);
  }
  EXPECT_EQ(sql(file, "SELECT count(*) FROM clocks"), "1") << "they leave nothing behind";
}

TEST_F(SqliteContainer, LeavesTheFileToTheHostWhenItIsDone) {
  Fence fence;
  for (int turn = 0; turn < 3; ++turn) {
    for (auto* clock : {&time, &container}) {
      const auto id = LockId::generate();
      auto client = open(*clock);
      const auto next = client.grant(id, "k").fence;
      EXPECT_GT(next, fence);
      fence = next;
      EXPECT_TRUE(released(client.release(id, "k")));
    }
  }
}

TEST_F(SqliteContainer, OfAnOlderBuildIsNotTakenForAReboot) {
  open(time).grant(LockId::generate(), "k", 60s, Durability::process);
  sql(file, "UPDATE clocks SET is_kernels = NULL, boot_id = 'who knows whose'");
  EXPECT_TRUE(refused(open(time).acquire(LockId::generate(), "k")));
}

TEST(SqliteClockChange, IsARebootOnlyIfBothBootIdsAreTheKernelsOwn) {
  const ClockIdentity host{.boot_id = "a", .time_namespace = 1, .is_kernels = true};
  const ClockIdentity guest{.boot_id = "a", .time_namespace = 1, .is_kernels = false};
  const FileClock of_host{.number = 1, .boot_id = "b", .time_namespace = 1, .is_kernels = true};
  const FileClock of_guest{.number = 1, .boot_id = "b", .time_namespace = 1, .is_kernels = false};
  const FileClock of_older_build{.number = 1, .boot_id = "b", .time_namespace = 1, .is_kernels = {}};
  const FileClock elsewhere{.number = 1, .boot_id = "a", .time_namespace = 2, .is_kernels = {}};
  EXPECT_EQ(change_of({}, host, false), ClockChange::first);
  EXPECT_EQ(change_of(elsewhere, host, false), ClockChange::time_namespace);
  EXPECT_EQ(change_of(of_host, host, false), ClockChange::reboot);
  EXPECT_EQ(change_of(of_host, host, true), ClockChange::two_machines);
  EXPECT_EQ(change_of(of_host, guest, false), ClockChange::container);
  EXPECT_EQ(change_of(of_guest, host, false), ClockChange::container);
  EXPECT_EQ(change_of(of_guest, host, true), ClockChange::container);
  EXPECT_EQ(change_of(of_guest, guest, true), ClockChange::container);
  EXPECT_EQ(change_of(of_older_build, host, false), ClockChange::container);
  // A process at work under the file's clock shows that it is ours, unless both boot ids are kernels' own.
  EXPECT_TRUE(may_be_ours(of_host, guest));
  EXPECT_TRUE(may_be_ours(of_guest, host));
  EXPECT_FALSE(may_be_ours(of_host, host));
  EXPECT_FALSE(may_be_ours(of_older_build, host));
  EXPECT_FALSE(may_be_ours(elsewhere, host));
}

TEST(SqliteClockChange, ReadsTheOffsetOfATimeNamespace) {
  EXPECT_EQ(boot_time_offset("monotonic           0         0\nboottime       86400         7\n"), 24h + 7ns);
  EXPECT_EQ(boot_time_offset("monotonic 5 0\nboottime -5 999999999\n"), -5s + 999'999'999ns);
  EXPECT_EQ(boot_time_offset("monotonic 5 0\n"), std::nullopt);
  EXPECT_EQ(boot_time_offset(""), std::nullopt);
}

TEST(SqliteMachineClock, IsThisBootsAndRuns) {
  const auto clock = machine_clock();
  ASSERT_TRUE(clock.ok());
  EXPECT_EQ(clock->identity.boot_id.size(), 36U);
  EXPECT_EQ(clock->identity, machine_clock()->identity);
  const auto boot = clock->boot_ms();
  EXPECT_GT(boot, 0);
  EXPECT_LE(boot, clock->boot_ms());
  EXPECT_GT(clock->wall_ms(), 1'700'000'000'000);
}

/// Runs a body in a child that has left the caller's namespaces; nothing if this user may not.
template <class F>
std::optional<bool> unshared(int namespaces, F body) {
  enum : int { yes, no, forbidden };
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(namespaces) != 0) ::_exit(forbidden);
    ::_exit(body() ? yes : no);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == forbidden) return std::nullopt;
  return WIFEXITED(status) && WEXITSTATUS(status) == yes;
}
constexpr const char* no_namespaces = "this user may not make namespaces (needs root); not covered here";

TEST(SqliteMachineClock, IsTheSameInEveryTimeNamespace) {
  const auto here = machine_clock();
  const auto before = here->boot_ms();
  const auto same = unshared(CLONE_NEWTIME, [&] {
    if (!(std::ofstream("/proc/self/timens_offsets") << "boottime 7000000 5\n")) return false;
    return test::in_child([&] {
      const auto there = machine_clock();
      const auto shifted = BootClock::now().time_since_epoch() > 6'000'000s;
      return shifted && there->identity == here->identity && there->boot_ms() >= before - 1 &&
             there->boot_ms() < before + 3'600'000;
    });
  });
  if (!same) GTEST_SKIP() << no_namespaces;
  EXPECT_TRUE(*same);
}

TEST(SqliteMachineClock, KnowsABootIdThatIsNotTheKernels) {
  ASSERT_TRUE(machine_clock().ok());
  EXPECT_TRUE(machine_clock()->identity.is_kernels);
  const auto machines = machine_clock()->identity.boot_id;
  const test::TempDir directory;
  const auto boot_id = directory / "boot_id";
  std::ofstream(boot_id) << "11111111-2222-4333-8444-555555555555\n";
  for (const auto& mounted : {boot_id, std::filesystem::path("/proc/sys/kernel/ostype")}) {
    const auto known = unshared(CLONE_NEWNS, [&] {
      // Not "/", which in a plain chroot is no mount point.
      if (::mount(nullptr, "/proc", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          ::mount(mounted.c_str(), "/proc/sys/kernel/random/boot_id", nullptr, MS_BIND, nullptr) != 0) {
        return false;
      }
      const auto clock = machine_clock();
      return clock->identity.boot_id != machines && !clock->identity.is_kernels;
    });
    if (!known) GTEST_SKIP() << no_namespaces;
    EXPECT_TRUE(*known) << mounted;
  }
}

}  // namespace
}  // namespace holdfast::sqlite
