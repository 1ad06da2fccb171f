#include <csignal>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "bench/samples.hpp"
#include "program.hpp"
#include "pty.hpp"
#include "support/paths.hpp"
#include "support/raw_redis.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

TEST(BenchSamples, APercentileIsASampleThatWasMeasured) {
  cli::Samples samples;
  for (const auto us : {30us, 10us, 20us, 40us}) samples.add(us);
  EXPECT_EQ(samples.percentile(0.5), 20us);
  EXPECT_EQ(samples.percentile(0.75), 30us);
  EXPECT_EQ(samples.percentile(0.99), 40us);
  EXPECT_EQ(samples.percentile(0), 10us);
  cli::Samples more;
  more.add(5us);
  samples.add(more);
  EXPECT_EQ(samples.count(), 5U);
  EXPECT_EQ(samples.percentile(0.5), 20us);
}

TEST(BenchPace, ALatecomerCatchesUpByAFewCallsAndNotByThoseOfALongPause) {
  const cli::Pace::Clock::time_point start{};
  cli::Pace pace(1000, start);
  EXPECT_EQ(pace.next_turn(start), start);
  EXPECT_EQ(pace.next_turn(start), start + 1ms);
  EXPECT_EQ(pace.next_turn(start + 4ms), start + 2ms);
  EXPECT_EQ(pace.next_turn(start + 4ms), start + 3ms);
  EXPECT_EQ(pace.next_turn(start + 1h), start + 1h - 10ms);
}

class BenchCommand : public CliTest {
 protected:
  [[nodiscard]] static nlohmann::json parsed(const Finished& finished) {
    EXPECT_FALSE(finished.out.empty()) << finished.err;
    return nlohmann::json::parse(finished.out, nullptr, false);
  }
  void expect_no_locks(const std::vector<std::string>& store = {}) const {
    auto arguments = store;
    arguments.insert(arguments.end(), {"--json", "lock", "list"});
    EXPECT_EQ(holdfast(arguments).out, "");
  }
};

TEST_F(BenchCommand, MeasuresAFileAndLeavesNoLockInIt) {
  const auto done = holdfast({"--json", "bench", "--seconds", "1", "--rate", "500"});
  ASSERT_EQ(done.code, 0) << done.err;
  const auto report = parsed(done);
  EXPECT_EQ(report["engine"], "sqlite");
  EXPECT_EQ(report["interrupted"], false);
  EXPECT_EQ(report["keys"].size(), 8U);
  std::set<std::string> names;
  for (const auto& one : report["measurements"]) {
    names.insert(one["name"]);
    EXPECT_GT(one["count"], 0) << one;
    EXPECT_LE(one["p50Us"], one["p99Us"]) << one;
    EXPECT_LE(one["p99Us"], one["maxUs"]) << one;
    EXPECT_LE(one["perSecond"].is_null() ? 0.0 : one["perSecond"].get<double>(), 600) << one;
  }
  EXPECT_EQ(names,
            (std::set<std::string>{"read", "acquire", "release", "pair", "extend", "pair_8", "hand_off"}));
  EXPECT_NE(done.err.find("no record; the fences of the file rise"), std::string::npos) << done.err;
  expect_no_locks();
}

TEST_F(BenchCommand, LeavesEightKeysInRedisAndSaysSo) {
  if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  const RedisServer server;
  const auto done = holdfast({"--url", server.url(), "bench", "--seconds", "1", "--rate", "200"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("hand-off to a waiter"), std::string::npos) << done.out;
  EXPECT_NE(done.err.find("eight keys with a fence counter each"), std::string::npos) << done.err;
  RawRedis raw(server.tcp());
  EXPECT_EQ(raw.integer({"EVAL", "return #redis.call('KEYS', '*holdfast-bench*')", "0"}), 8);
  expect_no_locks({"--url", server.url()});
}

TEST_F(BenchCommand, DoesNotRunBesideAnotherOne) {
  ASSERT_EQ(holdfast({"--holder", "web-3", "lock", "acquire", "holdfast-bench:3"}).code, 0);
  const auto refused = holdfast({"bench"});
  EXPECT_EQ(refused.code, 75);
  EXPECT_EQ(refused.out, "");
  EXPECT_NE(refused.err.find("\"holdfast-bench:3\" is held by web-3. Another bench uses this store"),
            std::string::npos)
      << refused.err;
}

TEST_F(BenchCommand, ASignalEndsItAndLeavesNoLock) {
  const auto program = start({"--json", "bench", "--seconds", "60"});
  ASSERT_TRUE(
      eventually([&] { return contents(program->err()).find("for about 60 s") != std::string::npos; }));
  program->signal(SIGTERM);
  const auto done = program->wait();
  EXPECT_EQ(done.code, 128 + SIGTERM) << done.err;
  EXPECT_EQ(parsed(done)["interrupted"], true);
  expect_no_locks();
}

TEST_F(BenchCommand, CtrlCOnATerminalShowsWhatWasMeasured) {
  Pty terminal({holdfast_program(), "--url", url(), "bench", "--seconds", "60"}, {});
  // After the reads: then there is something to show.
  ASSERT_TRUE(terminal.shows("bench: round 1 of 60: acquire and release, one pair at a time"))
      << terminal.screen();
  terminal.type(ctrl_c);
  EXPECT_TRUE(terminal.shows("read: is a key locked?")) << terminal.screen();
  EXPECT_TRUE(terminal.shows("stopped early")) << terminal.screen();
}

TEST_F(BenchCommand, HasBounds) {
  EXPECT_EQ(holdfast({"bench", "--seconds", "61"}).code, 64);
  EXPECT_EQ(holdfast({"bench", "--rate", "99"}).code, 64);
}

}  // namespace
}  // namespace holdfast::test
