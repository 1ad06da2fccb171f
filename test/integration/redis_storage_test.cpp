// Records in Redis where answers get lost, scripts vanish and rights are missing: what was asked twice
// happens once, and what nobody knows is never told as "no".

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <thread>

#include "support/calls.hpp"
#include "support/eventually.hpp"
#include "support/redis_server.hpp"
#include "support/storage_calls.hpp"
#include "support/tcp_proxy.hpp"

namespace holdfast::test {
namespace {

using Way = TcpProxy::Way;

class RedisStorage : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
    proxy.emplace(server->port());
    direct = make_redis_storage_backend(server->tcp()).value_or_throw();
    // The prefix is marked, and the server knows the scripts: what follows is one question and one answer.
    put(*direct, "warm:t");
    RedisOptions options;
    options.port = proxy->port();
    proxied = make_redis_storage_backend(options).value_or_throw();
    create(*direct, "warm:u");
    outcome(*direct, PutRecord{.key = record_key("warm:t"),
                               .data = record_data("{}"),
                               .expected = ExpectedVersion{.version = 1}});
    outcome(*direct, BindRecord{.key = record_key("warm:t"), .fence = token(1)});
    remove(*direct, "warm:t");
  }
  /// The next answer to `proxied` is lost with its connection, after the server has carried out what was
  /// asked.
  void lose_the_next_answer() { proxy->cut_after(Way::to_client, 1); }

  std::int64_t versions(const std::string& name) {
    return std::stoll(server->raw().text({"HGET", "pmcp:tasks:" + name, "version"}));
  }

  std::optional<RedisServer> server;
  std::optional<TcpProxy> proxy;
  std::shared_ptr<StorageBackend> direct;   ///< undisturbed
  std::shared_ptr<StorageBackend> proxied;  ///< through the proxy
};

TEST_F(RedisStorage, ACreateWhoseAnswerIsLostRecognisesItsRecord) {
  lose_the_next_answer();
  const auto created = create(*proxied, "o:t");
  EXPECT_EQ(created.version, 1U);
  EXPECT_EQ(get(*direct, "o:t")->incarnation, created.incarnation);
  EXPECT_EQ(proxy->accepted(), 2U) << "it was asked twice";
}

TEST_F(RedisStorage, ACreateThatFilledTheQuotaIsNotRefusedByItWhenAskedAgain) {
  lose_the_next_answer();
  const auto answer =
      outcome(*proxied, CreateRecord{.key = record_key("o:t"), .data = record_data("{}"), .quota = 1});
  EXPECT_TRUE(std::holds_alternative<Written>(answer));
  EXPECT_EQ(proxy->accepted(), 2U);
}

TEST_F(RedisStorage, APutWhoseAnswerIsLostIsMadeOnce) {
  put(*direct, "o:t", "\"first\"");
  lose_the_next_answer();
  EXPECT_EQ(put(*proxied, "o:t", "\"second\"").version, 2U);
  EXPECT_EQ(versions("o:t"), 2);
  EXPECT_EQ(proxy->accepted(), 2U);
}

TEST_F(RedisStorage, AConditionalPutWhoseAnswerIsLostIsNoConflictWithItself) {
  const auto created = create(*direct, "o:t");
  lose_the_next_answer();
  const auto answer = outcome(
      *proxied, PutRecord{.key = record_key("o:t"),
                          .data = record_data("\"mine\""),
                          .expected = ExpectedVersion{.version = 1, .incarnation = created.incarnation}});
  ASSERT_TRUE(std::holds_alternative<Written>(answer));
  EXPECT_EQ(std::get<Written>(answer).version, 2U);
  EXPECT_EQ(versions("o:t"), 2);
}

TEST_F(RedisStorage, ARemoveWhoseAnswerIsLostIsDone) {
  create(*direct, "o:t");
  lose_the_next_answer();
  EXPECT_TRUE(remove(*proxied, "o:t"));
  EXPECT_FALSE(get(*direct, "o:t"));
}

/// Between the first copy of a request and the second, something happens.
class RedisStorageMeanwhile : public RedisStorage {
 protected:
  /// Sends it, loses the answer, keeps the second copy back until `meanwhile` is done.
  Result<PutOutcome> put_with(PutRecord request, const std::function<void()>& meanwhile) {
    const auto before = proxy->accepted();
    proxy->swallow(Way::to_client);
    std::optional<Result<PutOutcome>> answer;
    const auto key = "pmcp:tasks:" + request.key.str();
    const auto text = request.data.text();
    std::jthread caller([&] { answer = call(*proxied, std::move(request)); });
    EXPECT_TRUE(eventually([&] { return server->raw().text({"HGET", key, "data"}) == text; }))
        << "the first copy was carried out";
    proxy->refuse();
    proxy->cut();
    meanwhile();
    proxy->forward();
    proxy->listen_again();
    caller.join();
    EXPECT_GT(proxy->accepted(), before) << "it was asked again";
    return *answer;
  }
};

TEST_F(RedisStorageMeanwhile, ARepeatedPutDoesNotWriteOverWhatCameAfterIt) {
  create(*direct, "o:t");
  const auto answer = put_with({.key = record_key("o:t"), .data = record_data("\"mine\"")},
                               [&] { put(*direct, "o:t", "\"theirs\""); });
  ASSERT_TRUE(answer);
  EXPECT_EQ(std::get<Written>(*answer).version, 2U) << "the version it made";
  EXPECT_EQ(get(*direct, "o:t")->data, "\"theirs\"");
  EXPECT_EQ(versions("o:t"), 3);
}

TEST_F(RedisStorageMeanwhile, ARepeatedConditionalPutKnowsItselfBehindLaterWrites) {
  create(*direct, "o:t");
  const auto answer = put_with(
      {.key = record_key("o:t"), .data = record_data("\"mine\""), .expected = ExpectedVersion{.version = 1}},
      [&] {
        for (int i = 0; i < 3; ++i) put(*direct, "o:t", "\"theirs\"");
        // Other software counts on without leaving a name.
        server->raw().text({"HINCRBY", "pmcp:tasks:o:t", "version", "1"});
      });
  ASSERT_TRUE(answer);
  EXPECT_EQ(std::get<Written>(*answer).version, 2U);
}

TEST_F(RedisStorageMeanwhile, AConflictThatMayBeWithItselfIsUnknown) {
  create(*direct, "o:t");
  const auto answer = put_with(
      {.key = record_key("o:t"), .data = record_data("\"mine\""), .expected = ExpectedVersion{.version = 1}},
      [&] {
        for (int i = 0; i < 12; ++i) put(*direct, "o:t", "\"theirs\"");
      });
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), ErrorCode::NetworkTimeout) << answer.error().what();
  EXPECT_EQ(answer.error().key(), "o:t");
}

TEST_F(RedisStorageMeanwhile, ARepeatedFencedPutIsWrittenThoughTheFenceRoseSince) {
  create(*direct, "o:t");
  const auto answer =
      put_with({.key = record_key("o:t"), .data = record_data("\"mine\""), .fence = token(3)},
               [&] { outcome(*direct, BindRecord{.key = record_key("o:t"), .fence = token(4)}); });
  ASSERT_TRUE(answer);
  EXPECT_TRUE(std::holds_alternative<Written>(*answer)) << "it was, under its own fence";
}

TEST_F(RedisStorage, APlainConflictAfterALostAnswerIsAConflict) {
  create(*direct, "o:t");
  put(*direct, "o:t");
  lose_the_next_answer();
  const auto answer = outcome(*proxied, PutRecord{.key = record_key("o:t"),
                                                  .data = record_data("{}"),
                                                  .expected = ExpectedVersion{.version = 1}});
  ASSERT_TRUE(std::holds_alternative<VersionConflict>(answer));
  EXPECT_EQ(std::get<VersionConflict>(answer).actual, 2U);
  EXPECT_EQ(proxy->accepted(), 2U);
}

TEST_F(RedisStorage, ScriptsThatTheServerForgotAreTaughtAgain) {
  for (int round = 0; round < 2; ++round) {
    server->raw().text({"SCRIPT", "FLUSH", "SYNC"});
    const auto name = "o:" + std::to_string(round);
    create(*direct, name);
    put(*direct, name);
    EXPECT_EQ(get(*direct, name)->version, 2U);
    EXPECT_EQ(tasks_of(*direct, "o").size(), static_cast<std::size_t>(round) + 1);
    outcome(*direct, BindRecord{.key = record_key(name), .fence = token(1)});
    outcome(*direct, RebindRecord{.key = record_key(name)});
  }
  EXPECT_TRUE(remove(*direct, "o:0"));
}

TEST_F(RedisStorage, AQuotaIsExactWithManyCreators) {
  constexpr int creators = 50, attempts = 4;
  constexpr std::size_t quota = 100;
  std::atomic<int> created = 0, refused = 0;
  std::vector<std::shared_ptr<StorageBackend>> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(make_redis_storage_backend(server->tcp()).value_or_throw());
  std::latch go(creators);
  std::vector<std::jthread> threads;
  for (int i = 0; i < creators; ++i) {
    threads.emplace_back([&, i] {
      auto& client = *clients[static_cast<std::size_t>(i) % clients.size()];
      go.arrive_and_wait();
      for (int n = 0; n < attempts; ++n) {
        const auto answer = outcome(
            client, CreateRecord{.key = record_key("o:" + std::to_string(i) + "-" + std::to_string(n)),
                                 .data = record_data("{}"),
                                 .quota = quota});
        ++(std::holds_alternative<Written>(answer) ? created : refused);
        if (const auto* full = std::get_if<QuotaReached>(&answer)) {
          EXPECT_EQ(full->records, quota);
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(created, 100);
  EXPECT_EQ(refused, creators * attempts - 100);
  EXPECT_EQ(tasks_of(*direct, "o").size(), quota);
}

TEST_F(RedisStorage, AFullQuotaMakesRoomByWhatIsDeadInTheIndex) {
  auto raw = server->raw();
  const auto try_create = [&](const std::string& task) {
    return outcome(*direct,
                   CreateRecord{.key = record_key("o:" + task), .data = record_data("{}"), .quota = 300});
  };
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(std::holds_alternative<Written>(try_create(std::to_string(i))));
  EXPECT_TRUE(std::holds_alternative<QuotaReached>(try_create("one too many")));
  // Redis dropped one, far from the beginning; another lost its TTL and is past its time.
  raw.text({"DEL", "pmcp:tasks:o:299"});
  EXPECT_TRUE(std::holds_alternative<Written>(try_create("a")));
  EXPECT_TRUE(std::holds_alternative<QuotaReached>(try_create("b")));
  raw.text({"HSET", "pmcp:tasks:o:150", "expires_at", "1"});
  EXPECT_TRUE(std::holds_alternative<Written>(try_create("b")));
  EXPECT_EQ(raw.integer({"ZCARD", "pmcp:idx:o"}), 300);
  // One that cannot be read counts.
  raw.text({"DEL", "pmcp:tasks:o:7"});
  raw.text({"SET", "pmcp:tasks:o:7", "text"});
  EXPECT_TRUE(std::holds_alternative<QuotaReached>(try_create("c")));
}

TEST_F(RedisStorage, APageBehindThousandsOfDeadMembersIsFoundAndTheyAreGone) {
  auto raw = server->raw();
  std::vector<std::string> dead{"ZADD", "pmcp:idx:o"};
  for (int i = 0; i < 5000; ++i) {
    dead.emplace_back("1");
    dead.push_back("dead" + std::to_string(i));
  }
  raw.text(dead);
  create(*direct, "o:live", record_text({.created_at = 2}));
  create(*direct, "o:first", record_text({.created_at = 0}));
  EXPECT_EQ(tasks_of(*direct, "o", ListOrder::oldest_first, 1), (std::vector<std::string>{"first", "live"}));
  EXPECT_EQ(tasks_of(*direct, "o", ListOrder::newest_first, 1), (std::vector<std::string>{"live", "first"}));
  EXPECT_EQ(raw.integer({"ZCARD", "pmcp:idx:o"}), 2);
}

TEST_F(RedisStorage, AListWithoutTheRightToCleanUpIsAListAllTheSame) {
  RedisServer strict({.config = {"user reader on >pw ~pmcp:* &* +@all -zrem"}});
  auto raw = strict.raw();
  raw.text({"ZADD", "pmcp:idx:o", "1", "dead", "2", "live"});
  raw.text({"HSET", "pmcp:tasks:o:live", "version", "1", "data", "{}"});
  auto options = strict.tcp();
  options.user = "reader";
  options.password = "pw";
  const auto reader = make_redis_storage_backend(options).value_or_throw();
  EXPECT_EQ(tasks_of(*reader, "o"), std::vector<std::string>{"live"});
  EXPECT_EQ(raw.integer({"ZCARD", "pmcp:idx:o"}), 2);
}

TEST_F(RedisStorage, WithoutRightsToChannelsRecordsAreWrittenAndWatchersPoll) {
  RedisServer strict({.config = {"user silent on >pw ~pmcp:* resetchannels +@all"}});
  auto options = strict.tcp();
  options.user = "silent";
  options.password = "pw";
  auto log = std::make_shared<Log>();
  std::atomic<int> warnings = 0;
  log->set_sink([&](LogLevel level, std::string_view message) {
    if (level == LogLevel::warning && message.find("task prefix's channels") != std::string_view::npos)
      ++warnings;
  });
  const auto silent = make_redis_storage_backend(options, log).value_or_throw();
  create(*silent, "o:t");
  const auto watch = watch_of(*silent, record_key("o:t"));
  ASSERT_TRUE(watch);
  put(*silent, "o:t");
  EXPECT_FALSE(wait_until(*watch, BootClock::now() + 50ms, {}));
  EXPECT_TRUE(remove(*silent, "o:t"));
  log->flush();
  EXPECT_EQ(warnings, 1);
}

TEST_F(RedisStorage, EveryChangeIsAnnouncedOnAChannelThatNamesTheDatabase) {
  auto options = server->tcp();
  options.db = 3;
  const auto third = make_redis_storage_backend(options).value_or_throw();
  auto listener = server->raw();
  listener.send({"SUBSCRIBE", "pmcp:changed:3:o:t"});
  static_cast<void>(listener.receive());
  const auto expect_message = [&] {
    const auto message = listener.receive();
    ASSERT_EQ(redis::elements_of(*message).size(), 3U);
    EXPECT_EQ(redis::text_of(*redis::elements_of(*message)[1]), "pmcp:changed:3:o:t");
  };
  create(*third, "o:t");
  expect_message();
  put(*third, "o:t");
  expect_message();
  outcome(*third, BindRecord{.key = record_key("o:t"), .fence = token(1)});
  expect_message();
  outcome(*third, RebindRecord{.key = record_key("o:t")});
  expect_message();
  remove(*third, "o:t");
  expect_message();
}

TEST_F(RedisStorage, EveryWatcherOfARecordIsWokenByEveryChange) {
  create(*direct, "o:t");
  constexpr int watchers = 8;
  std::latch watching(watchers);
  std::atomic<int> woken = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < watchers; ++i) {
    threads.emplace_back([&] {
      const auto watch = watch_of(*direct, record_key("o:t"));
      watching.arrive_and_wait();
      if (wait_until(*watch, BootClock::now() + 30s, {})) ++woken;
    });
  }
  watching.wait();
  put(*direct, "o:t");
  threads.clear();
  EXPECT_EQ(woken, watchers);
}

TEST_F(RedisStorage, AWatcherIsToldToLookAfterItsConnectionWasLost) {
  create(*direct, "o:t");
  const auto watch = watch_of(*direct, record_key("o:t"));
  server->raw().text({"CLIENT", "KILL", "TYPE", "pubsub"});
  EXPECT_TRUE(wait_until(*watch, BootClock::now() + 30s, {}));
}

TEST_F(RedisStorage, TheServersClockIsKnown) {
  auto raw = server->raw();
  const auto before = raw.now_ms();
  const auto seen = now_ms(*direct);
  const auto after = raw.now_ms();
  // The estimate is as good as the round trip that made it.
  EXPECT_GE(seen, before - 2000);
  EXPECT_LE(seen, after + 2000);
}

TEST_F(RedisStorage, ARecordEndsAtItsMillisecondOnTheServersClock) {
  auto raw = server->raw();
  for (int round = 0; round < 5; ++round) {
    const auto ends = raw.now_ms() + 100 + 7 * round;
    put(*direct, "o:t", record_text({.expires_at = ends}));
    for (;;) {
      const auto before = raw.now_ms();
      const bool there = get(*direct, "o:t").has_value();
      const auto after = raw.now_ms();
      if (!there) {
        ASSERT_GE(after, ends);
        break;
      }
      ASSERT_LT(before, ends);
    }
  }
}

TEST_F(RedisStorage, OperationsOfAForkedChildFailAndTheParentsGoOn) {
  create(*direct, "o:t");
  const auto child = fork();
  if (child == 0) {
    const auto answer = call(*direct, GetRecord{.key = record_key("o:t")});
    const bool refused = !answer && answer.error().code() == ErrorCode::ServiceUnavailable &&
                         watch_of(*direct, record_key("o:t")) == nullptr;
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(put(*direct, "o:t").version, 2U);
}

TEST_F(RedisStorage, ADeadlineEndsAnOperationWhoseAnswerDoesNotCome) {
  proxy->swallow(Way::to_client);
  const auto answer =
      call(*proxied, GetRecord{.key = record_key("o:t"), .deadline = BootClock::now() + 100ms});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), ErrorCode::NetworkTimeout);
  EXPECT_EQ(answer.error().key(), "o:t");
}

}  // namespace
}  // namespace holdfast::test
