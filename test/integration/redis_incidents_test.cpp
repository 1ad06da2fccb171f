// What a server must not do: lose fences, or let its clock jump. The client notices, reports, and repeats no
// fence.

#include <gtest/gtest.h>

#include <atomic>
#include <holdfast/holdfast.hpp>
#include <mutex>

#include "support/calls.hpp"
#include "support/event_log.hpp"
#include "support/eventually.hpp"
#include "support/fake_redis.hpp"
#include "support/prometheus_page.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

class RedisIncidents : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  }
  [[nodiscard]] Instruments instruments() {
    return {.metrics = metrics,
            .telemetry = {.on_event = events.listener()},
            .log_sink = [this](LogLevel, std::string_view line) {
              const std::lock_guard lock(mutex);
              told.append(line).append("\n");
            }};
  }
  [[nodiscard]] double counted(const std::string& name) const {
    return PrometheusPage(metrics->prometheus()).value(name + "{backend=\"redis\"}");
  }
  [[nodiscard]] std::string log_of(const Holdfast& hf) {
    hf.log().flush();
    const std::lock_guard lock(mutex);
    return told;
  }
  static std::uint64_t grant(const Holdfast& hf, const std::string& name) {
    auto guard = hf.locks().lock(name);
    return guard.fence().value();
  }

  const std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>();
  EventLog events;
  std::mutex mutex;
  std::string told;
};

TEST_F(RedisIncidents, ACounterThatLostItsLastStepsRepeatsNoFenceAndIsReported) {
  RedisServer server;
  auto hf = holdfast::open(server.url(), instruments());
  std::uint64_t last = 0;
  for (int i = 0; i < 5; ++i) last = grant(hf, "secret-key");
  EXPECT_EQ(last, 5U);
  EXPECT_EQ(counted("holdfast_fence_regressions_total"), 0);
  server.raw().text({"SET", "syncguard:fence:syncguard:secret-key", "2"});
  EXPECT_EQ(grant(hf, "secret-key"), 6U) << "above all that this process was granted";
  EXPECT_EQ(server.raw().text({"GET", "syncguard:fence:syncguard:secret-key"}), "6")
      << "for other processes too";
  EXPECT_EQ(counted("holdfast_fence_regressions_total"), 1);
  EXPECT_EQ(grant(hf, "secret-key"), 7U);
  EXPECT_EQ(counted("holdfast_fence_regressions_total"), 1) << "once";

  const auto log = log_of(hf);
  EXPECT_NE(log.find(key_hash("secret-key")), std::string::npos) << log;
  EXPECT_NE(log.find("it was 2 although this process was granted 5"), std::string::npos) << log;
  EXPECT_EQ(log.find("secret-key"), std::string::npos) << "raw keys are not logged";
  std::vector<TelemetryEvent> regressions;
  ASSERT_TRUE(eventually([&] {
    for (auto& event : events.take()) {
      if (event.type == Activity::fence_regression) regressions.push_back(event);
    }
    return !regressions.empty();
  }));
  ASSERT_EQ(regressions.size(), 1U);
  EXPECT_EQ(regressions[0].key_hash, key_hash("secret-key"));
  EXPECT_EQ(regressions[0].fence->value(), 6U);
}

TEST_F(RedisIncidents, ACounterThatOtherProcessesMovedOnIsNoRegression) {
  RedisServer server;
  auto hf = holdfast::open(server.url(), instruments());
  auto other = holdfast::open(server.url());
  EXPECT_EQ(grant(hf, "k"), 1U);
  for (int i = 0; i < 3; ++i) (void)grant(other, "k");
  EXPECT_EQ(grant(hf, "k"), 5U);
  EXPECT_EQ(counted("holdfast_fence_regressions_total"), 0);
  EXPECT_EQ(log_of(hf), "");
}

TEST_F(RedisIncidents, AStoreThatLostEverythingIsReportedOnce) {
  RedisServer server;
  auto hf = holdfast::open(server.url(), instruments());
  for (const auto* name : {"a", "b", "c"}) (void)grant(hf, name);
  server.raw().text({"FLUSHALL"});
  for (const auto* name : {"a", "b", "c"}) (void)grant(hf, name);
  EXPECT_EQ(counted("holdfast_fence_regressions_total"), 1);
  EXPECT_NE(log_of(hf).find("another authority"), std::string::npos);
}

TEST_F(RedisIncidents, AFullCounterThatWentBackStillGrantsNothing) {
  RedisServer server;
  const auto backend = make_redis_lock_backend(server.tcp()).value_or_throw();
  const auto counter = std::string("syncguard:fence:syncguard:k");
  server.raw().text({"SET", counter, std::to_string(Fence::max_issued - 1)});
  const auto id = LockId::generate();
  ASSERT_EQ(acquire(*backend, id, "k")->fence.value(), Fence::max_issued);
  ASSERT_EQ(release(*backend, id, "k"), std::nullopt);
  server.raw().text({"SET", counter, "7"});
  const auto refused = try_acquire(*backend, LockId::generate(), "k");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::Internal);
  EXPECT_FALSE(is_locked(*backend, "k"));
}

TEST_F(RedisIncidents, FencesMayBeNoLowerThanTheClock) {
  RedisServer server;
  const auto clock = [&] { return static_cast<std::uint64_t>(server.raw().now_ms() / 1000 - 1'735'689'600); };
  auto hf = holdfast::open(server.url() + "?fence_floor=clock");
  const auto before = clock();
  const auto first = grant(hf, "k");
  EXPECT_GE(first, before);
  EXPECT_LE(first, clock() + 1);
  EXPECT_GT(grant(hf, "k"), first) << "a second grant in that second";
  server.raw().text({"SET", "syncguard:fence:syncguard:k", "1"});
  EXPECT_GE(grant(holdfast::open(server.url() + "?fence_floor=clock"), "k"), before) << "another process";
  EXPECT_EQ(server.raw().integer({"TTL", "syncguard:fence:syncguard:k"}), -1) << "counters are kept";
}

TEST_F(RedisIncidents, FencesMayBeAboveThoseOfTheStoreThatTheLocksCameFrom) {
  for (const std::string layout : {"documented", "native"}) {
    SCOPED_TRACE(layout);
    RedisServer server;
    const auto url = server.url() + "?layout=" + layout;
    {
      auto moved = holdfast::open(url + "&fence_floor=000000000000041", instruments());
      EXPECT_EQ(grant(moved, "nightly"), 42U);
      EXPECT_EQ(grant(moved, "nightly"), 43U) << "a floor, not an offset";
      EXPECT_EQ(grant(moved, "another"), 42U);
      EXPECT_EQ(log_of(moved), "") << "a floor that is configured is no regression";
    }
    EXPECT_EQ(grant(holdfast::open(url), "nightly"), 44U) << "the counter stays";
    EXPECT_EQ(grant(holdfast::open(url + "&fence_floor=7"), "nightly"), 45U) << "and is never lowered";
  }
  EXPECT_EQ(counted("holdfast_fence_regressions_total"), 0);
}

/// A server that grants and extends every lock, at a time that the test sets.
class ServerWithAClock {
 public:
  [[nodiscard]] std::string url() const { return "redis://127.0.0.1:" + std::to_string(fake.port()); }
  void set(std::int64_t ahead_ms) { ahead = ahead_ms; }

 private:
  FakeRedis::Answer answer(const FakeRedis::Words& command) {
    if (command[0] == "GET") return {FakeRedis::bulk("authority")};
    if (command[0] != "EVALSHA") return FakeRedis::politely(command);
    const auto now = std::chrono::duration_cast<milliseconds>(BootClock::now().time_since_epoch()).count();
    const auto time = 1'800'000'000'000 + now + ahead;
    if (command[2] == "4") {  // an acquire, by its keys
      const auto expires = time + std::stoll(command[8]);
      return {"*4\r\n:1\r\n" + FakeRedis::bulk("000000000000001") + ":" + std::to_string(expires) + "\r\n" +
              FakeRedis::bulk("authority")};
    }
    if (command.size() == 7) return {":1\r\n"};  // a release
    return {"*2\r\n:1\r\n:" + std::to_string(time + std::stoll(command.back())) + "\r\n"};
  }

  std::atomic<std::int64_t> ahead = 0;
  FakeRedis fake{[this](const FakeRedis::Words& command) { return answer(command); }};
};

TEST_F(RedisIncidents, AJumpOfTheServersClockIsReportedOnceAndEndsNoGuard) {
  ServerWithAClock server;
  auto hf = holdfast::open(server.url(), instruments());
  auto guard = hf.locks().lock("k", {.ttl = 60s});
  EXPECT_EQ(counted("holdfast_clock_jumps_total"), 0);
  server.set(-7'000);
  auto second = hf.locks().lock("l", {.ttl = 60s});
  EXPECT_EQ(counted("holdfast_clock_jumps_total"), 1);
  auto third = hf.locks().lock("m", {.ttl = 60s});
  EXPECT_EQ(counted("holdfast_clock_jumps_total"), 1) << "the same jump";
  EXPECT_NE(log_of(hf).find("jumped back by"), std::string::npos) << log_of(hf);
  EXPECT_TRUE(guard.still_held());
  EXPECT_GT(guard.remaining(), 30s) << "the holder's deadline is its own clock's";
}

}  // namespace
}  // namespace holdfast::test
