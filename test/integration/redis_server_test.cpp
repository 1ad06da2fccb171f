// The test servers themselves: a fault test proves nothing if its fault does not happen.
#include "support/redis_server.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <future>

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

class TestRedis : public ::testing::Test {
 protected:
  void SetUp() override {
    if (auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(TestRedis, AnswersOverTcpAndAUnixSocket) {
  const RedisServer server;
  EXPECT_EQ(RawRedis(server.tcp()).text({"PING"}), "PONG");
  EXPECT_EQ(RawRedis(server.unix_socket()).text({"ECHO", std::string("a\0b", 3)}), std::string("a\0b", 3));
}

TEST_F(TestRedis, KeepsItsPortAndForgetsItsDataOverARestart) {
  RedisServer server;
  server.raw().text({"SET", "k", "v"});
  const auto port = server.port();
  server.restart();
  EXPECT_EQ(server.port(), port);
  EXPECT_EQ(RawRedis(server.tcp()).text({"GET", "k"}), "(nil)");
}

TEST_F(TestRedis, KeepsItsDataIfPersistentEvenWhenKilled) {
  RedisServer server({.persistent = true});
  server.raw().text({"SET", "k", "v"});
  server.restart();
  EXPECT_EQ(server.raw().text({"GET", "k"}), "v");
  server.raw().text({"SET", "k", "w"});
  server.kill();
  EXPECT_THROW((void)server.raw(), std::runtime_error);
  server.start();
  EXPECT_EQ(server.raw().text({"GET", "k"}), "w");
}

TEST_F(TestRedis, CanBeSeenWhileItLoads) {
  RedisServer server({.persistent = true});
  server.raw().text({"SET", "k", "v"});
  server.restart_into_loading();
  const auto reply = server.raw().command({"GET", "k"});
  EXPECT_TRUE(redis::is_error(*reply) && redis::text_of(*reply).starts_with("LOADING"))
      << redis::text_of(*reply);
  server.kill();
  server.start();
  EXPECT_EQ(server.raw().text({"GET", "k"}), "v");
}

TEST_F(TestRedis, AnswersNothingWhilePausedAndEverythingAfterwards) {
  RedisServer server;
  auto raw = server.raw();
  server.pause();
  raw.send({"INCR", "n"});
  auto answer = std::async(std::launch::async, [&] { return raw.receive()->integer; });
  EXPECT_EQ(answer.wait_for(100ms), std::future_status::timeout);
  server.resume();
  EXPECT_EQ(answer.get(), 1);
}

TEST_F(TestRedis, IsGoneWithItsObjectEvenWhenPaused) {
  pid_t pid = 0;
  {
    RedisServer server;
    pid = server.pid();
    server.pause();
  }
  EXPECT_EQ(::kill(pid, 0), -1);
}

TEST_F(TestRedis, IsGoneWithItsTestHoweverThatEnds) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // so that we see the orphan's end
  int pipe_ends[2];
  ASSERT_EQ(::pipe2(pipe_ends, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const RedisServer server;
    const pid_t pid = server.pid();
    (void)!::write(pipe_ends[1], &pid, sizeof pid);
    ::raise(SIGKILL);
  }
  pid_t server = 0;
  ASSERT_EQ(::read(pipe_ends[0], &server, sizeof server), static_cast<ssize_t>(sizeof server));
  ::waitpid(child, nullptr, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(server, &status, 0), server);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
}

TEST_F(TestRedis, CanHaveAPasswordUsersAndAnyConfiguration) {
  const RedisServer server(
      {.password = "secret", .config = {"user alice on >wonder ~a:* +get", "maxmemory 100mb"}});
  EXPECT_EQ(server.raw().text({"CONFIG", "GET", "maxmemory"}), "maxmemory\n104857600");
  auto alice = server.tcp();
  alice.user = "alice";
  alice.password = "wonder";
  EXPECT_EQ(RawRedis(alice).text({"GET", "a:1"}), "(nil)");
  EXPECT_TRUE(redis::text_of(*RawRedis(alice).command({"GET", "b"})).starts_with("NOPERM"));
  auto nobody = server.tcp();
  nobody.password.clear();
  EXPECT_TRUE(redis::text_of(*RawRedis(nobody).command({"GET", "b"})).starts_with("NOAUTH"));
}

TEST_F(TestRedis, SaysWhyItDoesNotStart) {
  try {
    const RedisServer server({.config = {"no-such-setting 1"}});
    FAIL() << "it started";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("no-such-setting"), std::string::npos) << error.what();
  }
}

TEST_F(TestRedis, SpeaksTlsWithACertificateOfItsOwnAuthority) {
  const RedisServer server({.tls = true});
  const auto client = server.client_certificate();
  const auto check =
      "printf 'PING\\r\\nQUIT\\r\\n' | timeout 10 openssl s_client -quiet -verify_return_error -connect "
      "127.0.0.1:" +
      std::to_string(server.tls_port()) + " -verify_ip 127.0.0.1 -CAfile '" +
      server.authority().file().string() + "' -cert '" + client.certificate.string() + "' -key '" +
      client.key.string() + "' 2>&1 | grep -q PONG";
  EXPECT_EQ(std::system(check.c_str()), 0);
}

}  // namespace
}  // namespace holdfast::test
