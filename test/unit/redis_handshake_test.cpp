#include <gtest/gtest.h>

#include "engine/redis/conn/handshake_fsm.hpp"
#include "support/replies.hpp"

namespace holdfast::redis {
namespace {

using test::reply_of;

/// The replies of a server without a password to a connection with a name.
const std::vector<std::string> usual{
    "*4\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n", "+OK\r\n", "+PONG\r\n"};

std::string mode(const std::string& name) {
  return "*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$4\r\nmode\r\n$" + std::to_string(name.size()) + "\r\n" +
         name + "\r\n";
}

/// How it ends with these replies.
Result<bool> end_with(const std::vector<std::string>& replies, const RedisOptions& options = {},
                      Servers servers = Servers::standalone) {
  Handshake handshake(options, servers);
  Result<bool> ready = false;
  for (const auto& bytes : replies) {
    ready = handshake.on_reply(*reply_of(bytes));
    if (!ready) break;
  }
  return ready;
}

/// The usual replies but for one.
std::vector<std::string> with(std::size_t at, const std::string& bytes) {
  auto replies = usual;
  replies.at(at) = bytes;
  return replies;
}

TEST(RedisHandshake, IsReadyAfterTheUsualReplies) {
  const auto ready = end_with(usual);
  ASSERT_TRUE(ready);
  EXPECT_TRUE(*ready);
}

TEST(RedisHandshake, BelievesNobodyWhoDoesNotAnswerAsRedisDoes) {
  for (const auto& replies :
       {with(2, "+OK\r\n"), with(2, "*1\r\n$4\r\nPING\r\n"), with(1, "+PONG\r\n"), with(1, "$-1\r\n")}) {
    const auto ready = end_with(replies);
    ASSERT_FALSE(ready);
    EXPECT_EQ(ready.error().code(), ErrorCode::ServiceUnavailable) << "another may listen there soon";
  }
}

TEST(RedisHandshake, AReplicaInPlaceOfTheMasterIsLeftForNow) {
  const auto as = [](const std::string& role) {
    return "*4\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$" + std::to_string(role.size()) + "\r\n" +
           role + "\r\n";
  };
  const auto refused = end_with(with(0, as("replica")), {}, Servers::master);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::ServiceUnavailable);
  EXPECT_TRUE(end_with(with(0, as("master")), {}, Servers::master));
  EXPECT_TRUE(end_with(with(0, as("replica")))) << "one fixed address: its errors show it";
  EXPECT_TRUE(end_with(with(0, mode("standalone")), {}, Servers::master)) << "a proxy may not know";
}

TEST(RedisHandshake, ASentinelIsASentinelAndHasCredentialsOfItsOwn) {
  EXPECT_TRUE(end_with(with(0, mode("sentinel")), {}, Servers::sentinel));
  const auto server = end_with(with(0, mode("standalone")), {}, Servers::sentinel);
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code(), ErrorCode::InvalidArgument);
  const auto locked = end_with({"-NOAUTH HELLO must be called with the client already authenticated\r\n"}, {},
                               Servers::sentinel);
  ASSERT_FALSE(locked);
  EXPECT_EQ(locked.error().code(), ErrorCode::AuthFailed);
  EXPECT_NE(locked.error().message().find("HOLDFAST_SENTINEL_PASSWORD"), std::string::npos);
}

TEST(RedisHandshake, ExplainsServersThatCannotHoldLocks) {
  for (const auto& [name, word] : {std::pair("cluster", "cluster"), std::pair("sentinel", "Sentinel")}) {
    const auto refused = end_with(with(0, mode(name)));
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code(), ErrorCode::InvalidArgument);
    EXPECT_NE(refused.error().message().find(word), std::string::npos) << refused.error().what();
    EXPECT_TRUE(end_with(with(0, mode(name)), {}, Servers::any)) << "to examine it";
  }
}

TEST(RedisHandshake, AcceptsMembersOfAClusterWhereOneIsMeant) {
  EXPECT_TRUE(end_with(with(0, mode("cluster")), {}, Servers::cluster));
  const auto refused = end_with(with(0, mode("standalone")), {}, Servers::cluster);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::InvalidArgument);
  EXPECT_FALSE(end_with(with(0, mode("sentinel")), {}, Servers::cluster));
}

TEST(RedisHandshake, DoesWithoutWhatIsOnlyGoodToKnow) {
  for (const auto& replies :
       {with(0, "-ERR unknown command 'HELLO'\r\n"), with(0, "-NOPERM no\r\n"), with(0, "+OK\r\n"),
        with(1, "-NOPERM no\r\n"), with(1, "-ERR Client names cannot contain spaces\r\n"),
        with(2, "-NOPERM no\r\n"), with(2, "-MISCONF cannot save\r\n")}) {
    const auto ready = end_with(replies);
    ASSERT_TRUE(ready) << ready.error().what();
    EXPECT_TRUE(*ready);
  }
}

TEST(RedisHandshake, FailsByWhatTheServerSays) {
  EXPECT_EQ(end_with(with(0, "-NOAUTH HELLO must be called with the client already authenticated\r\n"))
                .error()
                .code(),
            ErrorCode::AuthFailed);
  EXPECT_EQ(end_with(with(0, "-ERR max number of clients reached\r\n")).error().code(),
            ErrorCode::ServiceUnavailable);
  EXPECT_EQ(end_with(with(2, "-LOADING\r\n")).error().code(), ErrorCode::ServiceUnavailable);
}

TEST(RedisHandshake, SaysThatAUserHasNoPassword) {
  const std::vector<std::string> refusal{"-WRONGPASS invalid username-password pair\r\n"};
  RedisOptions options;
  options.user = "locks";
  const auto without = end_with(refusal, options);
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().code(), ErrorCode::AuthFailed);
  for (const auto* word : {"requires a password", "password_file", "HOLDFAST_REDIS_PASSWORD"}) {
    EXPECT_NE(without.error().message().find(word), std::string::npos) << without.error().what();
  }
  options.password = "wrong";
  EXPECT_EQ(end_with(refusal, options).error().message().find("without"), std::string::npos);
}

TEST(RedisHandshake, ARefusalNamesTheUserAndTheFileButNotThePassword) {
  const auto refused = end_with({"-WRONGPASS invalid username-password pair\r\n"},
                                {.user = "alice", .password = "sesame", .password_file = "/etc/pw"});
  ASSERT_FALSE(refused);
  const std::string what = refused.error().what();
  EXPECT_NE(what.find("alice"), std::string::npos) << what;
  EXPECT_NE(what.find("/etc/pw"), std::string::npos) << what;
  EXPECT_EQ(what.find("sesame"), std::string::npos) << what;
}

}  // namespace
}  // namespace holdfast::redis
