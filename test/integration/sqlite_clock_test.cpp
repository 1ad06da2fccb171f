#include "integration/sqlite_fixture.hpp"

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
  EXPECT_EQ((*client.lookup("k"))->expires_at_ms, time.wall_ms + 30'000);
}

TEST_F(SqliteClock, AfterARebootWhatIsLeftOfADurableLockIsLeft) {
  const auto id = LockId::generate();
  const auto before = open(time).grant(id, "k", 60s, Durability::machine);
  time.reboot_after(20s);
  auto client = open(time);
  const auto record = *client.lookup("k");
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->fence, before.fence);
  EXPECT_EQ(record->expires_at_ms, before.expires_at_ms);
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
  EXPECT_EQ((*client.lookup("k"))->expires_at_ms, time.wall_ms + 60'000);
  time.pass(59'999ms);
  EXPECT_TRUE(*client.is_locked("k"));
  time.pass(1ms);
  EXPECT_FALSE(*client.is_locked("k"));
}

TEST_F(SqliteClock, RestampsOnlyOnce) {
  open(time).grant(LockId::generate(), "k", 60s, Durability::machine);
  time.reboot_after(20s);
  open(time);
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

TEST_F(SqliteClock, AnotherTimeNamespaceNeverFreesALockWhateverTheWallClockSays) {
  open(time).grant(LockId::generate(), "k", 60s, Durability::process);
  time.identity.time_namespace = 2;
  time.boot_ms += 1'000'000'000;
  time.wall_ms += 3'600'000;
  auto client = open(time);
  EXPECT_TRUE(*client.is_locked("k"));
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

TEST_F(SqliteClock, TwoClocksInTurnAreRefused) {
  FakeClock other = time;
  other.identity.time_namespace = 2;
  open(time);
  open(other);
  const auto message = refused_opening(time);
  EXPECT_NE(message.find(file.string()), std::string::npos) << message;
  EXPECT_NE(message.find("time namespace"), std::string::npos) << message;
  open(other);  // the one that has it keeps it
}

TEST_F(SqliteClock, AnOpenBackendNoticesThatAnotherClockTookOver) {
  auto client = open(time);
  const auto id = LockId::generate();
  client.grant(id, "k");
  FakeClock other = time;
  other.identity.time_namespace = 2;
  auto usurper = open(other);
  EXPECT_TRUE(*usurper.is_locked("k"));
  EXPECT_EQ(client.acquire(LockId::generate(), "x").error().code(), ErrorCode::ServiceUnavailable);
  EXPECT_EQ(client.extend(id, "k", 30s).error().code(), ErrorCode::ServiceUnavailable);
  EXPECT_EQ(client.release(id, "k").error().code(), ErrorCode::ServiceUnavailable);
  EXPECT_EQ(client.release(id).error().code(), ErrorCode::ServiceUnavailable);
  EXPECT_EQ(client.is_locked("k").error().code(), ErrorCode::ServiceUnavailable);
  EXPECT_EQ(client.lookup("k").error().code(), ErrorCode::ServiceUnavailable);
  EXPECT_EQ(client.lookup(id).error().code(), ErrorCode::ServiceUnavailable);
  EXPECT_EQ(client.list().error().code(), ErrorCode::ServiceUnavailable);
  EXPECT_FALSE(*usurper.is_locked("x"));
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

}  // namespace
}  // namespace holdfast::sqlite
