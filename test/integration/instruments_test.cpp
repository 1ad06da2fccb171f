// What an opened engine tells its instruments: all that happens, once.

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <holdfast/holdfast.hpp>
#include <holdfast/instruments.hpp>
#include <thread>

#include "integration/guard_fixture.hpp"
#include "support/event_log.hpp"
#include "support/hooked_backend.hpp"
#include "support/prometheus_page.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

class Instrumented : public testing::Test {
 protected:
  [[nodiscard]] Instruments instruments() {
    return {.metrics = metrics, .telemetry = {.on_event = events.listener()}};
  }
  [[nodiscard]] double metric(const std::string& series) const {
    return PrometheusPage(metrics->prometheus()).value(series);
  }
  [[nodiscard]] bool reaches(const std::string& series, double value) const {
    return eventually([&] {
      const PrometheusPage page(metrics->prometheus());
      return page.has(series) && page.value(series) >= value;
    });
  }
  /// The events of one type, once there are that many.
  std::vector<TelemetryEvent> wait_for(Activity type, std::size_t count) {
    std::vector<TelemetryEvent> found;
    EXPECT_TRUE(eventually([&] {
      for (auto& event : events.take()) {
        if (event.type == type) found.push_back(std::move(event));
      }
      return found.size() >= count;
    })) << to_string(type);
    return found;
  }

  std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>();
  EventLog events;
};

TEST_F(Instrumented, ALockIsWaitedForAndHeld) {
  auto hf = open("memory:", instruments());
  auto guard = hf.locks().lock("k");
  EXPECT_EQ(metric("holdfast_locks_held{backend=\"memory\"}"), 1);
  std::thread waiter([&] { EXPECT_TRUE(hf.locks().lock("k", {.wait = 60s}).release()); });
  EXPECT_TRUE(reaches("holdfast_locks_waiting{backend=\"memory\"}", 1));
  guard.release();
  waiter.join();
  EXPECT_EQ(metric("holdfast_locks_waiting{backend=\"memory\"}"), 0);
  EXPECT_EQ(metric("holdfast_locks_held{backend=\"memory\"}"), 0);
  EXPECT_EQ(metric("holdfast_lock_waits_total{backend=\"memory\",result=\"ok\"}"), 2);
  EXPECT_EQ(metric("holdfast_lock_hold_seconds_count{backend=\"memory\"}"), 2);
  const auto found = wait_for(Activity::wait, 2);
  EXPECT_EQ(found[0].attempts, 1U);
  EXPECT_GE(found[1].attempts, 2U);
  EXPECT_EQ(found[1].key_hash, key_hash("k"));
}

TEST_F(Instrumented, SoIsOneThatNoThreadWaitsFor) {
  auto hf = open("memory:", instruments());
  std::promise<Result<Guard>> locked;
  hf.locks().start(operation::Lock{"k"}, {},
                   [&](Result<Guard> guard) { locked.set_value(std::move(guard)); });
  auto guard = locked.get_future().get().value_or_throw();
  EXPECT_EQ(metric("holdfast_locks_held{backend=\"memory\"}"), 1);
  std::promise<void> released;
  guard.release({}, [&](const Result<bool>&) { released.set_value(); });
  released.get_future().wait();
  EXPECT_EQ(metric("holdfast_locks_held{backend=\"memory\"}"), 0);
  EXPECT_EQ(metric("holdfast_lock_waits_total{backend=\"memory\",result=\"ok\"}"), 1);
}

TEST_F(Instrumented, AWaitInVainIsToldWithItsError) {
  auto hf = open("memory:", instruments());
  const auto guard = hf.locks().lock("k");
  EXPECT_THROW((void)hf.locks().lock("k", {.wait = 1ms}), Error);
  EXPECT_FALSE(hf.locks().try_lock("k"));
  EXPECT_EQ(metric("holdfast_lock_wait_failures_total{backend=\"memory\",reason=\"AcquisitionTimeout\"}"), 1);
  EXPECT_EQ(metric("holdfast_lock_wait_failures_total{backend=\"memory\",reason=\"locked\"}"), 1);
  const auto waits = wait_for(Activity::wait, 3);
  EXPECT_EQ(waits[1].error, ErrorCode::AcquisitionTimeout);
}

TEST_F(Instrumented, RenewalsAreCounted) {
  auto hf = open("memory:", instruments());
  const auto guard = hf.locks().lock("k", {.ttl = 600ms});
  EXPECT_TRUE(reaches("holdfast_lock_renewals_total{backend=\"memory\",result=\"ok\"}", 2));
  EXPECT_EQ(wait_for(Activity::renew, 2)[0].result, EventResult::ok);
}

TEST_F(Instrumented, ALostLockIsToldOnceAndIsNotHeld) {
  auto hf = open("memory:", instruments());
  auto guard = hf.locks().lock("k", {.ttl = 30ms, .auto_renew = false});
  EXPECT_TRUE(reaches("holdfast_lock_losses_total{backend=\"memory\",reason=\"unproven\"}", 1));
  EXPECT_EQ(metric("holdfast_locks_held{backend=\"memory\"}"), 0);
  guard.release();
  EXPECT_EQ(metric("holdfast_lock_hold_seconds_count{backend=\"memory\"}"), 1);
  const auto holds = wait_for(Activity::hold, 1);
  EXPECT_EQ(holds[0].reason, Reason::unproven);
}

TEST_F(Instrumented, ABrokenLockIsToldToTheOperatorsAndLostByItsHolder) {
  auto hf = open("memory:", instruments());
  const auto guard = hf.locks().lock("k", {.ttl = 900ms});
  EXPECT_TRUE(hf.locks().break_lock("k", "its host is gone"));
  EXPECT_EQ(wait_for(Activity::break_lock, 1)[0].broken_because, "its host is gone");
  EXPECT_TRUE(reaches("holdfast_lock_losses_total{backend=\"memory\",reason=\"gone\"}", 1));
}

TEST_F(Instrumented, OneWhoseLossOnlyItsReleaseFindsIsLostToo) {
  auto hf = open("memory:", instruments());
  auto guard = hf.locks().lock("k", {.auto_renew = false});
  EXPECT_TRUE(hf.locks().break_lock("k", "its host is gone"));
  EXPECT_FALSE(guard.release());
  EXPECT_EQ(metric("holdfast_lock_losses_total{backend=\"memory\",reason=\"gone\"}"), 1);
  EXPECT_EQ(wait_for(Activity::hold, 1)[0].reason, Reason::gone);
}

TEST_F(Instrumented, AReasonForBreakingIsOneLine) {
  auto hf = open("memory:", instruments());
  const auto guard = hf.locks().lock("k");
  EXPECT_THROW((void)hf.locks().break_lock("k", "x\nholdfast: error: all is lost"), Error);
  EXPECT_THROW((void)hf.locks().break_lock("k", ""), Error);
  EXPECT_TRUE(hf.locks().is_locked("k"));
}

/// Sixteen renewals at a time: so the next, which is due, waits for its thread.
TEST_F(Instrumented, ARenewalThatWasNotSentIsNotToldOf) {
  const auto wire = std::make_shared<FaultyBackend>(make_memory_lock_backend());
  auto observer = observer_of(instruments());
  std::optional<Locks> locks(std::in_place, with_observer(wire, observer), std::shared_ptr<Log>{}, observer);
  observer.reset();
  wire->plan(FaultyBackend::Operation::extend, FaultyBackend::Fault::hangs_for_a_second, 16);
  std::vector<Guard> renewed;
  // Renewed after 200 ms: on a busy machine there is time left for each to be sent before its lease is lost.
  for (int i = 0; i < 16; ++i) renewed.push_back(locks->lock(std::to_string(i), {.ttl = 600ms}));
  ASSERT_TRUE(eventually([&] { return wire->calls(FaultyBackend::Operation::extend) == 16; }));
  auto last = locks->lock("last", {.ttl = 600ms});
  std::this_thread::sleep_for(300ms);
  EXPECT_TRUE(last.release());
  renewed.clear();
  locks.reset();  // waits for all of it
  std::size_t told = 0;
  for (const auto& event : events.take()) {
    if (event.type != Activity::renew) continue;
    ++told;
    if (event.key_hash != key_hash("last")) continue;
    EXPECT_EQ(event.result, EventResult::ok) << "it ran before the release, on a slow machine";
  }
  EXPECT_GE(told, 16U);
}

/// What may still be under way when the last of the user's handles goes: its observers hear of it before.
class LastUser : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const auto send = [this](const std::function<void()>& operation) {
      if (slow) std::this_thread::sleep_for(300ms);
      operation();
    };
    auto engine = std::make_shared<HookedBackend>(memory, send, HookedBackend::Options{.blocks = GetParam()});
    auto observer = observer_of({.telemetry = {.on_event = [this](const TelemetryEvent& event) {
                                   EXPECT_TRUE(in_use);
                                   if (event.type == Activity::release) ++releases;
                                 }}});
    locks.emplace(with_observer(std::move(engine), observer), std::shared_ptr<Log>{}, observer);
  }
  void end() {
    locks.reset();
    in_use = false;
  }

  std::shared_ptr<LockBackend> memory = make_memory_lock_backend();
  std::atomic<bool> slow = false, in_use = true;
  std::atomic<int> releases = 0;
  std::optional<Locks> locks;
};

TEST_P(LastUser, WaitsForAReleaseInTheBackground) {
  auto guard = locks->lock("k");
  slow = GetParam();  // one that does not block is sent by this thread
  guard.release_in_background();
  end();
  EXPECT_EQ(releases, 1);
  EXPECT_FALSE(is_locked(*memory, "k"));
}

TEST_P(LastUser, WaitsForOneWhoseFailureSomebodyWantsToHear) {
  auto guard = locks->lock("k");
  guard.on_release_error([](const Error&) { ADD_FAILURE(); });
  slow = GetParam();
  guard.release_in_background();
  end();
  EXPECT_EQ(releases, 1);
  EXPECT_FALSE(is_locked(*memory, "k"));
}

TEST_P(LastUser, WaitsForARenewalUnderWay) {
  auto guard = locks->lock("k", {.ttl = 300ms});
  slow = true;
  std::this_thread::sleep_for(150ms);
  slow = false;
  guard.release();
  end();
  EXPECT_EQ(releases, 1);
}

INSTANTIATE_TEST_SUITE_P(Blocks, LastUser, testing::Bool());

TEST(LastUser, WaitsForAnAnswerFromElsewhere) {
  Gate gate;
  const auto memory = make_memory_lock_backend();
  std::atomic<bool> opened = false;
  std::jthread opener;
  {
    Locks locks(std::make_shared<HookedBackend>(memory, gate.hook()));
    auto guard = locks.lock("k");
    gate.close();
    guard.release_in_background();
    opener = std::jthread([&] {
      std::this_thread::sleep_for(50ms);
      opened = true;
      gate.open();
    });
  }
  EXPECT_TRUE(opened);
  EXPECT_FALSE(is_locked(*memory, "k"));
}

TEST(LastUser, WaitsForARenewalThatIsAnsweredElsewhere) {
  std::atomic<bool> hold_next = false, answered = false;
  std::promise<std::function<void()>> renewal;
  std::jthread answerer;
  {
    Locks locks(std::make_shared<HookedBackend>(make_memory_lock_backend(), [&](std::function<void()> send) {
      if (!hold_next.exchange(false)) return send();
      renewal.set_value(std::move(send));
    }));
    auto guard = locks.lock("k", {.ttl = 600ms});
    hold_next = true;
    auto held_up = renewal.get_future().get();
    answerer = std::jthread([&answered, answer = std::move(held_up)] {
      std::this_thread::sleep_for(50ms);
      answered = true;
      answer();
    });
    EXPECT_TRUE(guard.release());
  }
  EXPECT_TRUE(answered);
}

TEST(LastUser, DoesNotWaitForWhatSomebodyElseStillHas) {
  Guard released, detached, held;
  Claim claim;
  {
    auto hf = open("memory:");
    released = hf.locks().lock("released");
    released.release({}, [](const Result<bool>&) {});
    detached = hf.locks().lock("detached");
    detached.detach({}, [](const Result<std::optional<Lease>>&) {});
    held = hf.locks().lock("held");
    auto tasks = hf.tasks();
    claim = tasks.claim("me", tasks.create("me").id);
    (void)claim.complete(*Json::parse("1"));
  }
  EXPECT_TRUE(held.release());
}

TEST_F(Instrumented, ADetachedLockIsHeldNoMore) {
  auto hf = open("memory:", instruments());
  auto guard = hf.locks().lock("k");
  EXPECT_TRUE(guard.detach());
  EXPECT_EQ(metric("holdfast_locks_held{backend=\"memory\"}"), 0);
}

TEST_F(Instrumented, TasksAreObservedInTheSameWay) {
  auto hf = open("memory:", instruments());
  auto tasks = hf.tasks();
  (void)tasks.create("me");
  EXPECT_EQ(metric("holdfast_operations_total"
                   "{backend=\"memory\",operation=\"create\",result=\"ok\",subject=\"task\"}"),
            1);
  EXPECT_EQ(wait_for(Activity::create_record, 1)[0].result, EventResult::ok);
}

TEST_F(Instrumented, TheLogSinkHearsWhatIsSaid) {
  std::promise<std::string> said;
  auto all = instruments();
  all.log_sink = [&](LogLevel, std::string_view message) { said.set_value(std::string(message)); };
  auto hf = open("memory:", all);
  hf.log().write(LogLevel::warning, "a test");
  EXPECT_EQ(said.get_future().get(), "a test");
}

TEST_F(Instrumented, AGuardMayOutliveEverythingElse) {
  Guard guard;
  {
    auto hf = open("memory:", instruments());
    guard = hf.locks().lock("k");
  }
  EXPECT_TRUE(guard.release());
  EXPECT_EQ(metric("holdfast_lock_hold_seconds_count{backend=\"memory\"}"), 1);
}

TEST_F(Instrumented, AReconnectIsCounted) {
  if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  RedisServer server;
  auto hf = open(server.url(), instruments());
  EXPECT_FALSE(hf.locks().is_locked("k"));
  EXPECT_EQ(metric("holdfast_reconnects_total{backend=\"redis\",result=\"ok\"}"), 0) << "the first is none";
  server.raw().command({"CLIENT", "KILL", "TYPE", "normal"});
  EXPECT_FALSE(hf.locks().is_locked("k"));
  EXPECT_EQ(metric("holdfast_reconnects_total{backend=\"redis\",result=\"ok\"}"), 1);
  EXPECT_EQ(wait_for(Activity::reconnect, 1)[0].backend, "redis");
}

TEST_F(Instrumented, SoIsAFailureTo) {
  if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  RedisServer server;
  auto hf = open(server.url() + "?command_timeout=60s", instruments());
  server.kill();
  std::thread asker([&] { EXPECT_FALSE(hf.locks().is_locked("k")); });
  EXPECT_TRUE(reaches("holdfast_reconnects_total{backend=\"redis\",result=\"fail\"}", 1));
  EXPECT_EQ(metric("holdfast_operations_in_flight{backend=\"redis\",subject=\"lock\"}"), 1);
  server.start();
  asker.join();
  EXPECT_EQ(metric("holdfast_reconnects_total{backend=\"redis\",result=\"ok\"}"), 1);
  EXPECT_EQ(metric("holdfast_operations_in_flight{backend=\"redis\",subject=\"lock\"}"), 0);
}

/// The attempt and whoever wants the connection give up at the same moment.
TEST_F(Instrumented, SoIsOneToASilentServer) {
  if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  RedisServer server;
  auto hf = open(server.url() + "?command_timeout=200ms&connect_timeout=200ms", instruments());
  EXPECT_FALSE(hf.locks().is_locked("k"));
  server.pause();
  EXPECT_TRUE(eventually([&] {
    EXPECT_THROW((void)hf.locks().is_locked("k"), Error);
    return metric("holdfast_reconnects_total{backend=\"redis\",result=\"fail\"}") > 0;
  }));
  server.resume();
}

}  // namespace
}  // namespace holdfast::test
