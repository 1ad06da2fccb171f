// The multiplexed connection: every call gets its own answer or an honest "unknown", whatever breaks.

#include "engine/redis/client.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <latch>
#include <thread>

#include "support/calls.hpp"
#include "support/fake_redis.hpp"
#include "support/redis_server.hpp"
#include "support/tcp_proxy.hpp"

namespace holdfast::test {
namespace {

using redis::Call;
using redis::Client;
using redis::Command;
using redis::Endpoint;
using redis::Reply;
using Way = TcpProxy::Way;

BootTime in(milliseconds length) {
  return BootClock::now() + length;
}

std::shared_ptr<Client> client_of(const RedisOptions& options) {
  return Client::make(Endpoint::from(options).value_or_throw()).value_or_throw();
}

RedisOptions at_port(std::uint16_t port) {
  RedisOptions options;
  options.port = port;
  return options;
}

Command echo_command(std::string_view text) {
  auto command = Command::begin_trial("ECHO", 1);
  command.add(text);
  return command;
}

std::string echo(Client& client, const std::string& text, milliseconds within = 10s) {
  const auto reply = client.call(echo_command(text), in(within)).value_or_throw();
  return std::string(redis::text_of(*reply));
}

/// A call whose end runs a function.
struct AsyncCall final : Call {
  using End = std::function<void(Result<Reply>, const AsyncCall&)>;
  AsyncCall(Command command, BootTime until, End on_end) : end(std::move(on_end)) {
    bytes = std::move(command).bytes();
    deadline = until;
  }
  void finish(std::unique_ptr<Call>, Result<Reply> answer) override { end(std::move(answer), *this); }
  End end;
};

class RedisClient : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
    proxy.emplace(server->port());
    client = client_of(at_port(proxy->port()));
  }
  std::optional<RedisServer> server;
  std::optional<TcpProxy> proxy;
  std::shared_ptr<Client> client;
};

TEST_F(RedisClient, AnswersOverTcpUnixSocketAndTls) {
  RedisServer secure({.tls = true});
  for (const auto& options : {secure.tcp(), secure.unix_socket(), secure.tls()}) {
    const auto own = client_of(options);
    EXPECT_EQ(echo(*own, "hello"), "hello");
    const std::string large(3 << 20, 'x');
    EXPECT_EQ(echo(*own, large), large);
  }
}

TEST_F(RedisClient, GivesEveryThreadItsOwnAnswers) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        const auto text = std::to_string(t) + ":" + std::to_string(i);
        ASSERT_EQ(echo(*client, text), text);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(proxy->accepted(), 1U);
}

/// Sends ECHO n, and from its end the next, until none is left.
struct Chain {
  std::shared_ptr<Client> client;
  std::atomic<int> next{0};
  std::atomic<int> wrong{0};
  std::latch left;
  explicit Chain(std::shared_ptr<Client> of, int count) : client(std::move(of)), left(count) {}
  void step(int count) {
    const int number = next.fetch_add(1);
    if (number >= count) return;
    const auto text = std::to_string(number);
    client->send(std::make_unique<AsyncCall>(echo_command(text), in(20s),
                                             [this, text, count](Result<Reply> answer, const AsyncCall&) {
                                               if (!answer || redis::text_of(**answer) != text) ++wrong;
                                               step(count);
                                               left.count_down();
                                             }),
                 {});
  }
};

TEST_F(RedisClient, AnswersCallsThatNoThreadWaitsFor) {
  Chain chain(client, 20'000);
  for (int i = 0; i < 256; ++i) chain.step(20'000);
  chain.left.wait();
  EXPECT_EQ(chain.wrong, 0);
}

TEST_F(RedisClient, MixesBlockingAndOtherCalls) {
  Chain chain(client, 5'000);
  for (int i = 0; i < 16; ++i) chain.step(5'000);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i)
        ASSERT_EQ(echo(*client, "b" + std::to_string(i)), "b" + std::to_string(i));
    });
  }
  threads.clear();
  chain.left.wait();
  EXPECT_EQ(chain.wrong, 0);
}

TEST_F(RedisClient, ReadsAnswersThatComeByteByByte) {
  proxy->drip(Way::to_client);
  EXPECT_EQ(echo(*client, "slowly"), "slowly");
}

TEST_F(RedisClient, HalfATlsRecordKeepsNobodyFromItsDeadline) {
  RedisServer secure({.tls = true});
  TcpProxy slow(secure.tls_port());
  auto options = secure.tls();
  options.port = slow.port();
  const auto own = client_of(options);
  ASSERT_EQ(echo(*own, "warm"), "warm");
  slow.drip(Way::to_client);
  const auto passed = slow.passed(Way::to_client);
  std::jthread stall([&] {
    while (slow.passed(Way::to_client) < passed + 10) std::this_thread::sleep_for(100us);
    slow.hold(Way::to_client);
  });
  const BootTime before = BootClock::now();
  const auto answer = own->call(echo_command(std::string(8000, 'x')), in(500ms));
  EXPECT_FALSE(answer);
  EXPECT_LT(BootClock::now() - before, 5s);
  stall.join();
  slow.forward();
}

TEST_F(RedisClient, TakesNoLimitForAnAnswer) {
  auto options = server->tcp();
  options.command_timeout = options.connect_timeout = milliseconds::max();
  EXPECT_EQ(echo(*client_of(options), "in time"), "in time");
}

TEST_F(RedisClient, ALateAnswerIsNeverTakenForAnothers) {
  ASSERT_EQ(echo(*client, "warm"), "warm");
  proxy->hold(Way::to_client);
  const auto late = client->call(echo_command("late"), in(50ms));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), ErrorCode::NetworkTimeout);
  EXPECT_NE(late.error().message().find("127.0.0.1:" + std::to_string(proxy->port())), std::string::npos);
  proxy->forward();
  EXPECT_EQ(echo(*client, "next"), "next");
  EXPECT_EQ(proxy->accepted(), 1U) << "one impatient caller is no reason to drop everyone's connection";
}

TEST_F(RedisClient, AConnectionThatOwesAnAnswerTooLongIsReplaced) {
  auto options = at_port(proxy->port());
  options.connect_timeout = 200ms;
  client = client_of(options);
  ASSERT_EQ(echo(*client, "warm"), "warm");
  proxy->swallow(Way::to_client);
  Slot<std::string> slot;
  auto done = Done<std::string>::into(slot);
  bool repeated = false;
  auto call = std::make_unique<AsyncCall>(
      echo_command("again"), in(10s), [&](Result<Reply> answer, const AsyncCall& self) {
        repeated = self.was_repeated();
        done(answer ? Result<std::string>(std::string(redis::text_of(**answer)))
                    : Result<std::string>(answer.error()));
      });
  call->answer_timeout = 50ms;
  call->awaited = true;
  client->send(std::move(call), {});
  std::jthread mender([&] {
    while (proxy->accepted() < 2) std::this_thread::sleep_for(1ms);
    proxy->forward();
  });
  client->wait(slot.completion);
  EXPECT_EQ((*std::move(slot.result)).value_or_throw(), "again");
  EXPECT_TRUE(repeated);
}

TEST_F(RedisClient, WhatABrokenConnectionLeftUnansweredIsAskedAgain) {
  for (const auto ending : {TcpProxy::Ending::rst, TcpProxy::Ending::fin}) {
    Chain chain(client, 3'000);
    for (int i = 0; i < 64; ++i) chain.step(3'000);
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(5ms);
      proxy->cut(ending);
    }
    proxy->cut_after(Way::to_server, 777, ending);
    chain.left.wait();
    EXPECT_EQ(chain.wrong, 0);
  }
  EXPECT_GT(proxy->accepted(), 2U);
}

/// Whether a call counts as repeated that is sent now.
bool is_repeated(Client& client) {
  Slot<std::string> slot;
  auto done = Done<std::string>::into(slot);
  bool repeated = false;
  auto call = std::make_unique<AsyncCall>(
      echo_command("x"), in(10s), [&](Result<Reply> answer, const AsyncCall& self) {
        repeated = self.was_repeated();
        EXPECT_TRUE(self.was_sent());
        done(answer ? Result<std::string>(std::string(redis::text_of(**answer)))
                    : Result<std::string>(answer.error()));
      });
  call->awaited = true;
  client.send(std::move(call), {});
  client.wait(slot.completion);
  EXPECT_EQ((*std::move(slot.result)).value_or_throw(), "x");
  return repeated;
}

TEST_F(RedisClient, AConnectionThatWasClosedWhileItWasIdleIsNotWrittenTo) {
  RedisServer secure({.tls = true});
  for (const bool tls : {false, true}) {
    TcpProxy way(tls ? secure.tls_port() : secure.port());
    auto options = tls ? secure.tls() : secure.tcp();
    options.port = way.port();
    const auto own = client_of(options);
    for (const auto ending : {TcpProxy::Ending::fin, TcpProxy::Ending::rst}) {
      ASSERT_EQ(echo(*own, "warm"), "warm");
      way.cut(ending);
      std::this_thread::sleep_for(150ms);
      EXPECT_FALSE(is_repeated(*own)) << (tls ? "TLS" : "TCP");
    }
    // By the server itself, which says goodbye where there is TLS.
    ASSERT_EQ(echo(*own, "warm"), "warm");
    secure.raw().text({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    std::this_thread::sleep_for(150ms);
    EXPECT_FALSE(is_repeated(*own)) << (tls ? "TLS" : "TCP");
  }
}

TEST_F(RedisClient, ACallOfWhichNoByteWasAcceptedIsNotRepeated) {
  ASSERT_EQ(echo(*client, "warm"), "warm");
  proxy->cut(TcpProxy::Ending::rst);
  EXPECT_FALSE(is_repeated(*client));
}

TEST_F(RedisClient, ACallThatWasAcceptedAndNotAnsweredIsRepeated) {
  ASSERT_EQ(echo(*client, "warm"), "warm");
  proxy->cut_after(Way::to_server, 1);
  EXPECT_TRUE(is_repeated(*client));
}

TEST_F(RedisClient, AServerThatBecameAReplicaIsLeftForTheOneBehindTheSameAddress) {
  const RedisServer successor;
  struct Refusal {
    const char* word;
    const char* serves_stale_data;
    Command question;
  };
  for (const auto& [word, serves_stale_data, question] :
       {Refusal{"READONLY", "yes", {"SET", "k", "v"}}, Refusal{"MASTERDOWN", "no", {"GET", "k"}}}) {
    SCOPED_TRACE(word);
    proxy->lead_to(server->port());
    client = client_of(at_port(proxy->port()));
    ASSERT_EQ(echo(*client, "warm"), "warm");
    server->raw().text({"CONFIG", "SET", "replica-serve-stale-data", serves_stale_data});
    server->raw().text({"REPLICAOF", "127.0.0.1", "1"});
    proxy->lead_to(successor.port());
    const auto refused = client->call(question, in(10s)).value_or_throw();
    EXPECT_TRUE(redis::text_of(*refused).starts_with(word)) << "the answer is delivered";
    const auto answer = client->call(question, in(10s)).value_or_throw();
    EXPECT_FALSE(redis::is_error(*answer)) << redis::text_of(*answer);
    server->raw().text({"REPLICAOF", "NO", "ONE"});
  }
}

TEST_F(RedisClient, AReplicaThatStaysOneIsNotHammered) {
  FakeRedis fake([](const FakeRedis::Words& command) -> FakeRedis::Answer {
    if (command[0] == "SET") return {"-READONLY You can't write against a read only replica.\r\n"};
    return FakeRedis::politely(command);
  });
  const auto own = client_of(at_port(fake.port()));
  const BootTime end = in(400ms);
  while (BootClock::now() < end) {
    ASSERT_TRUE(own->call({"SET", "k", "v"}, in(10s)));
    ASSERT_TRUE(own->call({"GET", "k"}, in(10s))) << "which it answers";
  }
  EXPECT_GT(fake.accepted(), 1U);
  EXPECT_LT(fake.accepted(), 30U);
}

TEST_F(RedisClient, CallsThatAReplicaWasAskedAlreadyAreAnsweredByIt) {
  std::atomic<int> sets = 0;
  FakeRedis fake([&](const FakeRedis::Words& command) -> FakeRedis::Answer {
    if (command[0] != "SET") return FakeRedis::politely(command);
    // All answers at once, when the last of them has come.
    if (++sets < 8) return {""};
    std::string refusals;
    for (int i = 0; i < 8; ++i) refusals += "-READONLY You can't write against a read only replica.\r\n";
    return {refusals};
  });
  const auto own = client_of(at_port(fake.port()));
  ASSERT_TRUE(own->call({"GET", "k"}, in(10s)));
  std::latch ended(8);
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 8; ++i) {
    own->send(std::make_unique<AsyncCall>(Command{"SET", "k", "v"}, in(10s),
                                          [&](Result<Reply> answer, const AsyncCall& self) {
                                            if (!answer || self.was_repeated()) ++wrong;
                                            ended.count_down();
                                          }),
              {});
  }
  ended.wait();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(sets, 8) << "none was asked twice";
}

TEST_F(RedisClient, CallsOutliveARestartOfTheServer) {
  const auto direct = client_of(server->tcp());
  ASSERT_EQ(echo(*direct, "before"), "before");
  server->stop();
  std::jthread caller([&] { EXPECT_EQ(echo(*direct, "after"), "after"); });
  std::this_thread::sleep_for(100ms);
  server->start();
}

TEST_F(RedisClient, SaysWhyItCannotConnect) {
  server->stop();
  const auto direct = client_of(server->tcp());
  const BootTime before = BootClock::now();
  const auto at_once = direct->call({"PING"}, in(10s), true);
  ASSERT_FALSE(at_once);
  EXPECT_EQ(at_once.error().code(), ErrorCode::ServiceUnavailable);
  EXPECT_LT(BootClock::now() - before, 5s);
  EXPECT_NE(std::string(at_once.error().what()).find("127.0.0.1:" + std::to_string(server->port())),
            std::string::npos);
  EXPECT_NE(std::string(at_once.error().what()).find("refused"), std::string::npos);

  const auto in_time = direct->call({"PING"}, in(100ms));
  ASSERT_FALSE(in_time);
  EXPECT_EQ(in_time.error().code(), ErrorCode::ServiceUnavailable) << "the reason, not just \"timeout\"";
}

TEST_F(RedisClient, AHostThatDoesNotExistIsSaidSo) {
  RedisOptions options;
  options.host = "no-such-host.invalid";
  options.connect_timeout = 5s;
  const auto answer = client_of(options)->call({"PING"}, in(10s), true);
  ASSERT_FALSE(answer);
  EXPECT_TRUE(answer.error().transient());
  EXPECT_NE(answer.error().message().find("no-such-host.invalid"), std::string::npos);
}

TEST_F(RedisClient, AWrongPasswordEndsEveryCallAtOnceAndIsNotShown) {
  RedisServer locked({.password = "right"});
  auto options = locked.tcp();
  options.password = "wr0ng-secret";
  const auto own = client_of(options);
  const BootTime before = BootClock::now();
  const auto answer = own->call({"PING"}, in(30s));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), ErrorCode::AuthFailed);
  EXPECT_LT(BootClock::now() - before, 10s);
  EXPECT_EQ(std::string(answer.error().what()).find("wr0ng"), std::string::npos);

  options.password = "";
  EXPECT_EQ(client_of(options)->call({"PING"}, in(30s)).error().code(), ErrorCode::AuthFailed);
  EXPECT_EQ(echo(*client_of(locked.tcp()), "in"), "in");
}

TEST_F(RedisClient, KeepsToItsDatabaseAndName) {
  auto options = server->tcp();
  options.db = 5;
  options.client_name = "orders";
  const auto own = client_of(options);
  ASSERT_TRUE(own->call({"SET", "k", "v"}, in(5s)));
  EXPECT_EQ(server->raw().text({"EXISTS", "k"}), "0");
  auto raw = server->raw();
  raw.text({"SELECT", "5"});
  EXPECT_EQ(raw.text({"GET", "k"}), "v");
  EXPECT_NE(raw.text({"CLIENT", "LIST"}).find("name=orders"), std::string::npos);

  options.db = 99;
  const auto refused = client_of(options)->call({"PING"}, in(5s), true);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("database 99"), std::string::npos);
}

TEST_F(RedisClient, AServerThatBreaksTheProtocolIsNotBelieved) {
  using Words = FakeRedis::Words;
  using Answer = FakeRedis::Answer;
  const auto lies = [](std::string bytes) {
    return [bytes = std::move(bytes)](const Words& command) -> Answer {
      return command[0] == "ECHO" ? Answer{bytes} : FakeRedis::politely(command);
    };
  };
  for (const std::string bytes :
       {"garbage\r\n", "$-7\r\n", "*99999999999999999999\r\n", "$5\r\nabc", "*2\r\n+only one\r\n", ""}) {
    FakeRedis fake(lies(bytes));
    const auto answer = client_of(at_port(fake.port()))->call(echo_command("x"), in(150ms));
    ASSERT_FALSE(answer) << bytes;
    EXPECT_TRUE(answer.error().transient() || answer.error().code() == ErrorCode::Internal) << bytes;
  }
}

TEST_F(RedisClient, WhatSendsOurOwnWordsBackIsNoServer) {
  FakeRedis mirror([](const FakeRedis::Words& command) -> FakeRedis::Answer {
    auto same = Command::begin_trial(command[0], command.size() - 1);
    for (std::size_t i = 1; i < command.size(); ++i) same.add(command[i]);
    return {same.bytes()};
  });
  const auto answer = client_of(at_port(mirror.port()))->call({"PING"}, in(10s), true);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), ErrorCode::ServiceUnavailable) << answer.error().what();
  EXPECT_NE(answer.error().message().find("is not Redis"), std::string::npos);
}

TEST_F(RedisClient, AConnectionToItselfIsNoConnection) {
  // Where nobody listens, in the range that the kernel takes ports of connections from: sooner or later one
  // gets the port that it connects to. The kernel takes every second port first, goes through the range in
  // steps of random length, of which about one in eight rounds meets ours: so it may take many rounds.
  std::ifstream range("/proc/sys/net/ipv4/ip_local_port_range");
  int first = 0, last = 0;
  ASSERT_TRUE(range >> first >> last);
  auto port = static_cast<std::uint16_t>(first + (last - first) / 4 * 2);
  const auto is_taken = [&] {
    try {
      (void)listen_on_loopback(port);
      return false;
    } catch (const std::runtime_error&) {
      return true;
    }
  };
  while (is_taken()) port = static_cast<std::uint16_t>(port + 2);
  const auto here = redis::resolve("127.0.0.1", port, true).value_or_throw().front();
  std::string reached_itself;
  for (int attempt = 0; attempt < 20 * (last - first) && reached_itself.empty(); ++attempt) {
    auto stream = redis::Stream::connect(here, nullptr);
    if (!stream) continue;  // refused at once
    const auto end = (*stream)->establish();
    ASSERT_FALSE(end) << "connected to nobody";
    if (end.error().cause().find("reached itself") != std::string::npos) reached_itself = end.error().what();
  }
  EXPECT_FALSE(reached_itself.empty());
}

TEST_F(RedisClient, AnAnswerTooManyBreaksTheConnection) {
  FakeRedis fake([](const FakeRedis::Words& command) -> FakeRedis::Answer {
    return command[0] == "ECHO" ? FakeRedis::Answer{"+one\r\n+two\r\n"} : FakeRedis::politely(command);
  });
  const auto own = client_of(at_port(fake.port()));
  EXPECT_EQ(echo(*own, "x"), "one");
  // "two" must not become the answer of this one.
  EXPECT_EQ(echo(*own, "y"), "one");
  EXPECT_EQ(fake.accepted(), 2U);
}

TEST_F(RedisClient, AServerThatKnowsNoScriptNotEvenByItsTextIsNotAskedForever) {
  std::atomic<int> scripts = 0;
  FakeRedis fake([&](const FakeRedis::Words& command) -> FakeRedis::Answer {
    if (command[0] == "GET") return {FakeRedis::bulk("authority")};
    if (command[0] == "SCAN") {
      return {"*2\r\n" + FakeRedis::bulk("0") + "*1\r\n" + FakeRedis::bulk("syncguard:k")};
    }
    if (command[0] != "EVALSHA" && command[0] != "EVAL") return FakeRedis::politely(command);
    if (++scripts > 100) return {"", FakeRedis::Then::close};
    return {"-NOSCRIPT No matching script. Please use EVAL.\r\n"};
  });
  auto options = at_port(fake.port());
  options.command_timeout = 5s;
  const auto backend = make_redis_lock_backend(options).value_or_throw();
  EXPECT_EQ(test::list(*backend).error().code(), ErrorCode::Internal);
  EXPECT_EQ(scripts, 2) << "by its name, and by its text";
  EXPECT_EQ(try_acquire(*backend, LockId::generate(), "k").error().code(), ErrorCode::Internal);
  EXPECT_EQ(scripts, 4);
}

/// How a call ends that is stopped while it is under way.
ErrorCode stopped(Client& client) {
  std::stop_source stop;
  std::optional<Result<Reply>> answer;
  std::latch ended(1);
  client.send(std::make_unique<AsyncCall>(Command{"PING"}, in(30s),
                                          [&](Result<Reply> result, const AsyncCall&) {
                                            answer.emplace(std::move(result));
                                            ended.count_down();
                                          }),
              stop.get_token());
  stop.request_stop();
  ended.wait();
  return answer->error().code();
}

TEST_F(RedisClient, AStopEndsACallThatWasNotWrittenAsAborted) {
  proxy->refuse();
  EXPECT_EQ(stopped(*client), ErrorCode::Aborted);
}

TEST_F(RedisClient, AStopEndsACallThatWasWrittenAsUnknown) {
  ASSERT_EQ(echo(*client, "warm"), "warm");
  proxy->hold(Way::to_client);
  EXPECT_EQ(stopped(*client), ErrorCode::NetworkTimeout);
}

TEST_F(RedisClient, WhenALeaderLeavesAFollowerTakesOver) {
  ASSERT_EQ(echo(*client, "warm"), "warm");
  proxy->hold(Way::to_client);
  std::atomic<bool> first_left = false;
  std::jthread first([&] {
    EXPECT_FALSE(client->call(echo_command("first"), in(100ms)));
    first_left = true;
  });
  std::this_thread::sleep_for(30ms);  // it leads
  std::vector<std::jthread> others;
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&, i] { EXPECT_EQ(echo(*client, std::to_string(i)), std::to_string(i)); });
  }
  while (!first_left) std::this_thread::sleep_for(1ms);
  proxy->forward();
}

TEST_F(RedisClient, ACompletionMayBlockOnAnotherCall) {
  std::latch ended(1);
  std::string inner;
  client->send(std::make_unique<AsyncCall>(Command{"PING"}, in(10s),
                                           [&](Result<Reply>, const AsyncCall&) {
                                             inner = echo(*client, "inner");
                                             ended.count_down();
                                           }),
               {});
  ended.wait();
  EXPECT_EQ(inner, "inner");
}

TEST_F(RedisClient, ClosingWaitsForWhatIsUnderWay) {
  std::atomic<int> told = 0;
  for (int i = 0; i < 500; ++i) {
    client->send(std::make_unique<AsyncCall>(
                     echo_command("x"), in(10s),
                     [&](Result<Reply> answer, const AsyncCall&) { told += answer.ok() ? 1 : 0; }),
                 {});
  }
  client->close();
  EXPECT_EQ(told, 500);
}

TEST_F(RedisClient, ACompletionMayDropTheLastOwner) {
  std::latch ended(1);
  auto own = client_of(server->tcp());
  auto* raw = own.get();
  raw->send(
      std::make_unique<AsyncCall>(Command{"PING"}, in(10s),
                                  [&ended, own = std::move(own)](Result<Reply>, const AsyncCall&) mutable {
                                    own->close();
                                    own.reset();
                                    ended.count_down();
                                  }),
      {});
  ended.wait();
}

TEST_F(RedisClient, AServerThatHangsUpOnEveryCommandIsNotHammered) {
  FakeRedis fake([](const FakeRedis::Words& command) -> FakeRedis::Answer {
    return command[0] == "ECHO" ? FakeRedis::Answer{"", FakeRedis::Then::close}
                                : FakeRedis::politely(command);
  });
  EXPECT_FALSE(client_of(at_port(fake.port()))->call(echo_command("x"), in(400ms)));
  EXPECT_GT(fake.accepted(), 1U);
  EXPECT_LT(fake.accepted(), 30U);
}

}  // namespace
}  // namespace holdfast::test
