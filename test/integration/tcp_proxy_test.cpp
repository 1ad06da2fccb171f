// The faults themselves: a fault test proves nothing if its fault does not happen.
#include "support/tcp_proxy.hpp"

#include <gtest/gtest.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <future>
#include <string>

#include "support/fake_redis.hpp"
#include "support/raw_redis.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;
using Way = TcpProxy::Way;
using Ending = TcpProxy::Ending;

RedisOptions at(std::uint16_t port) {
  RedisOptions where;
  where.port = port;
  return where;
}

/// One end of a connection, to see what arrives and how it ends.
class Line {
 public:
  explicit Line(Socket socket) : socket_(std::move(socket)) {
    const timeval patience{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  void say(const std::string& text) const { ::send(socket_.fd(), text.data(), text.size(), MSG_NOSIGNAL); }
  /// What arrives until there are so many bytes or the other side ends; "<fin>" or "<rst>" marks its end.
  std::string hear(std::size_t bytes) const {
    std::string text;
    while (text.size() < bytes) {
      char c = 0;
      const auto n = ::recv(socket_.fd(), &c, 1, 0);
      if (n == 0) return text + "<fin>";
      if (n < 0) return text + (errno == ECONNRESET ? "<rst>" : "<silence>");
      text += c;
    }
    return text;
  }
  [[nodiscard]] bool is_silent() const {
    char c = 0;
    std::this_thread::sleep_for(30ms);
    return ::recv(socket_.fd(), &c, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }
  Socket& socket() { return socket_; }

 private:
  Socket socket_;
};

/// A client and a server with the proxy between them.
class Proxied : public ::testing::Test {
 protected:
  Line connect() const { return Line(connect_to_loopback(proxy.port())); }
  Line accept() const { return Line(accept_from(listener)); }
  bool eventually_held(Way way, std::size_t bytes) {
    for (int i = 0; i < 5000 && proxy.held(way) < bytes; ++i) std::this_thread::sleep_for(1ms);
    return proxy.held(way) == bytes;
  }

  std::uint16_t port = free_loopback_port();
  Socket listener = listen_on_loopback(port);
  TcpProxy proxy{port};
};

TEST_F(Proxied, PassesOnBytesBothWaysAndTheEnd) {
  auto client = connect();
  auto server = accept();
  client.say("hello");
  EXPECT_EQ(server.hear(5), "hello");
  server.say("welcome");
  EXPECT_EQ(client.hear(7), "welcome");
  client.say("bye");
  client.socket().close();
  EXPECT_EQ(server.hear(10), "bye<fin>");
  EXPECT_EQ(proxy.passed(Way::to_server), 8U);
  EXPECT_EQ(proxy.passed(Way::to_client), 7U);
  EXPECT_EQ(proxy.accepted(), 1U);
}

TEST_F(Proxied, PassesOnAReset) {
  auto client = connect();
  auto server = accept();
  client.say("x");
  EXPECT_EQ(server.hear(1), "x");
  client.socket().reset();
  EXPECT_EQ(server.hear(1), "<rst>");
}

TEST_F(Proxied, CutsAfterExactlySoManyBytesBothSides) {
  for (const auto ending : {Ending::rst, Ending::fin}) {
    const std::string end = ending == Ending::rst ? "<rst>" : "<fin>";
    auto client = connect();
    auto server = accept();
    proxy.cut_after(Way::to_server, 3, ending);
    client.say("abcdef");
    EXPECT_EQ(server.hear(6), "abc" + end);
    EXPECT_EQ(client.hear(1), end);
  }
  auto client = connect();
  auto server = accept();
  client.say("abcdef");
  EXPECT_EQ(server.hear(6), "abcdef") << "the cut happens once";
}

TEST_F(Proxied, CanCutBeforeTheFirstByteOfAnAnswer) {
  auto client = connect();
  auto server = accept();
  proxy.cut_after(Way::to_client, 0);
  client.say("ask");
  EXPECT_EQ(server.hear(3), "ask");
  server.say("answer");
  EXPECT_EQ(client.hear(1), "<rst>");
}

TEST_F(Proxied, SwallowsAnswersAndKeepsTheConnection) {
  auto client = connect();
  auto server = accept();
  proxy.swallow(Way::to_client);
  client.say("ask");
  EXPECT_EQ(server.hear(3), "ask");
  server.say("lost");
  EXPECT_TRUE(client.is_silent());
  proxy.forward();
  server.say("seen");
  EXPECT_EQ(client.hear(4), "seen");
}

TEST_F(Proxied, HoldsARequestAndDeliversItAfterItsSenderHasGone) {
  for (const auto ending : {Ending::rst, Ending::fin}) {
    auto client = connect();
    auto server = accept();
    proxy.hold(Way::to_server);
    client.say("late");
    ASSERT_TRUE(eventually_held(Way::to_server, 4));
    if (ending == Ending::rst) {
      client.socket().reset();
    } else {
      client.socket().close();
    }
    EXPECT_TRUE(server.is_silent());
    proxy.forward();
    EXPECT_EQ(server.hear(5), "late<fin>");
  }
}

TEST_F(Proxied, DelaysOneWay) {
  auto client = connect();
  auto server = accept();
  proxy.delay(Way::to_client, 60ms);
  client.say("ask");
  EXPECT_EQ(server.hear(3), "ask");
  const auto before = std::chrono::steady_clock::now();
  server.say("slow");
  EXPECT_EQ(client.hear(4), "slow");
  EXPECT_GE(std::chrono::steady_clock::now() - before, 60ms);
}

TEST_F(Proxied, DripsByteByByte) {
  auto client = connect();
  auto server = accept();
  proxy.drip(Way::to_client);
  server.say(std::string(50, 'x'));
  EXPECT_EQ(client.hear(50), std::string(50, 'x'));
  // Packets, not reads: on a busy machine a reader finds several bytes at once.
  tcp_info info{};
  socklen_t size = sizeof info;
  ASSERT_EQ(::getsockopt(client.socket().fd(), IPPROTO_TCP, TCP_INFO, &info, &size), 0);
  EXPECT_GT(info.tcpi_data_segs_in, 25U);
}

TEST_F(Proxied, ClosesOneWayOnly) {
  auto client = connect();
  auto server = accept();
  client.say("x");
  EXPECT_EQ(server.hear(1), "x");
  proxy.half_close(Way::to_client);
  EXPECT_EQ(client.hear(1), "<fin>");
  client.say("still here");
  EXPECT_EQ(server.hear(10), "still here");
}

TEST_F(Proxied, CutsEverythingNow) {
  auto one = connect();
  auto one_server = accept();
  auto two = connect();
  auto two_server = accept();
  one.say("x");
  two.say("x");
  EXPECT_EQ(one_server.hear(1) + two_server.hear(1), "xx");
  proxy.cut();
  EXPECT_EQ(one.hear(1) + two.hear(1) + one_server.hear(1) + two_server.hear(1), "<rst><rst><rst><rst>");
}

TEST_F(Proxied, RefusesAndListensAgainOnTheSamePort) {
  auto before = connect();
  auto server = accept();
  before.say("x");
  EXPECT_EQ(server.hear(1), "x");
  proxy.refuse();
  EXPECT_FALSE(connect_to_loopback(proxy.port()).is_open());
  before.say("y");
  EXPECT_EQ(server.hear(1), "y");
  proxy.listen_again();
  auto after = connect();
  auto other = accept();
  after.say("z");
  EXPECT_EQ(other.hear(1), "z");
}

TEST_F(Proxied, CarriesMoreThanAnyBufferHolds) {
  auto client = connect();
  auto server = accept();
  const std::string much(8'000'000, 'm');
  auto sender = std::async(std::launch::async, [&] { client.say(much); });
  std::size_t bytes = 0;
  std::string buffer(65536, '\0');
  while (bytes < much.size()) {
    const auto n = ::recv(server.socket().fd(), buffer.data(), buffer.size(), 0);
    ASSERT_GT(n, 0);
    bytes += static_cast<std::size_t>(n);
  }
  sender.get();
  EXPECT_EQ(bytes, much.size());
}

TEST(TcpProxy, ResetsItsClientsIfTheServerIsNotThere) {
  TcpProxy proxy(free_loopback_port());
  Line client(connect_to_loopback(proxy.port()));
  EXPECT_EQ(client.hear(1), "<rst>");
}

TEST(FakeRedis, AnswersWhatItsScriptSaysAndRemembersWhatItHeard) {
  FakeRedis fake([](const FakeRedis::Words& words) -> FakeRedis::Answer {
    if (words.front() == "GET") return {":1\r\n"};
    return FakeRedis::politely(words);
  });
  RawRedis raw(at(fake.port()));
  EXPECT_EQ(raw.text({"PING"}), "PONG");
  EXPECT_EQ(raw.text({"GET", "k"}), "1");
  EXPECT_EQ(raw.text({"SET", "k", "v"}), "OK");
  EXPECT_EQ(fake.heard(), (std::vector<FakeRedis::Words>{{"PING"}, {"GET", "k"}, {"SET", "k", "v"}}));
}

TEST(FakeRedis, EndsAConnectionInTheMiddleOfAnAnswer) {
  for (const auto then : {FakeRedis::Then::close, FakeRedis::Then::reset}) {
    FakeRedis fake([&](const auto&) { return FakeRedis::Answer{"$100\r\nhalf", then}; });
    Line client(connect_to_loopback(fake.port()));
    client.say("*1\r\n$4\r\nPING\r\n");
    EXPECT_EQ(client.hear(100),
              "$100\r\nhalf" + std::string(then == FakeRedis::Then::reset ? "<rst>" : "<fin>"));
  }
}

TEST(FakeRedis, CanSpeakFirstAndStaySilentLater) {
  FakeRedis fake([](const auto&) { return FakeRedis::Answer{}; }, "-ERR go away\r\n");
  Line client(connect_to_loopback(fake.port()));
  EXPECT_EQ(client.hear(14), "-ERR go away\r\n");
  client.say("*1\r\n$4\r\nPING\r\n");
  EXPECT_TRUE(client.is_silent());
}

}  // namespace
}  // namespace holdfast::test
