#include <gtest/gtest.h>

#include "engine/redis/wire/errors.hpp"
#include "support/replies.hpp"

namespace holdfast::redis {
namespace {

using test::reply_of;

Error error(const std::string& text) {
  return error_of(*reply_of("-" + text + "\r\n"));
}

// What servers of other versions say; those of this machine's version are provoked in test/integration.
TEST(RedisErrorTexts, AreUnderstoodAsServersBefore7WrapThem) {
  const std::string wrap =
      "ERR Error running script (call to f_0123456789012345678901234567890123456789): @user_script:3: ";
  const std::string inner = wrap + "@user_script: 3: ";
  for (const auto& [text, code] : std::vector<std::pair<std::string, ErrorCode>>{
           {inner + "-OOM command not allowed when used memory > 'maxmemory'.", ErrorCode::RateLimited},
           {inner + "-READONLY You can't write against a read only replica.", ErrorCode::ServiceUnavailable},
           {inner + "-MISCONF Redis is configured to save RDB snapshots", ErrorCode::ServiceUnavailable},
           {inner + "-NOREPLICAS Not enough good replicas to write.", ErrorCode::ServiceUnavailable},
           {inner + "The user executing the script can't run this command or subcommand",
            ErrorCode::AuthFailed},
           {wrap + "WRONGTYPE Operation against a key holding the wrong kind of value",
            ErrorCode::InvalidArgument},
           {wrap + "ERR value is not an integer or out of range", ErrorCode::Internal},
           {wrap + "ERR invalid expire time in set", ErrorCode::InvalidArgument}}) {
    EXPECT_EQ(to_string(error(text).code()), to_string(code)) << text;
  }
}

TEST(RedisErrorTexts, OfAScriptThatLacksARightAreAuthFailedInTheWordsOfEachServer) {
  for (const auto* text : {
           // Redis 7.0
           "ERR The user executing the script can't run this command or subcommand script: on "
           "@user_script:1.",
           "ERR The user executing the script can't access at least one of the keys mentioned in the command "
           "arguments script: on @user_script:1.",
           // Redis 8.0, Valkey 8.1
           "ERR ACL failure in script: User app has no permissions to run the 'incr' command script: "
           "61636018f4e6b5817b89791bbed242f93fa089e3, on @user_script:1.",
           "ERR ACL failure in script: User app has no permissions to run the 'incr' command",
           "ERR ACL failure in script: No permissions to access a key script: "
           "66b7cfc9928de8295190f1e02f5fd98d95a37777, on @user_script:1.",
           "ERR ACL failure in script: No permissions to access a channel",
       }) {
    EXPECT_EQ(error(text).code(), ErrorCode::AuthFailed) << text;
    EXPECT_NE(error(text).message().find("doctor --acl"), std::string::npos) << error(text).what();
  }
}

TEST(RedisErrorTexts, ShowWhichRefusalsCameBeforeTheFirstWrite) {
  for (const auto* text :
       {"READONLY You can't write against a read only replica.", "NOAUTH Authentication required.",
        "LOADING Redis is loading the dataset in memory",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "MISCONF Redis is configured to save RDB snapshots", "BUSY Redis is busy running a script.",
        "ERR Error running script (call to f_01): @user_script:3: @user_script: 3: -OOM command not "
        "allowed"}) {
    EXPECT_TRUE(refused_before_writing(*reply_of("-" + std::string(text) + "\r\n"))) << text;
  }
  for (const auto* text : {"-ERR upstream failure\r\n", "-WRONGTYPE Operation against a key\r\n", ":0\r\n"}) {
    EXPECT_FALSE(refused_before_writing(*reply_of(text))) << text;
  }
}

TEST(RedisErrorTexts, OfAClusterSayHowToUseIt) {
  for (const auto* text : {"MOVED 3999 127.0.0.1:6381", "ASK 3999 127.0.0.1:6381",
                           "CROSSSLOT Keys in request don't hash to the same slot"}) {
    EXPECT_EQ(error(text).code(), ErrorCode::InvalidArgument) << text;
    EXPECT_NE(error(text).message().find("; use "), std::string::npos) << error(text).what();
  }
}

TEST(RedisErrorTexts, OfAReplicaAreRecognisedAlsoWhereAScriptMetThem) {
  for (const auto* text :
       {"READONLY You can't write against a read only replica.", "MASTERDOWN Link with MASTER is down",
        "ERR Error running script (call to f_0): @user_script: 3: -READONLY You can't write"}) {
    EXPECT_TRUE(is_from_replica(*reply_of("-" + std::string(text) + "\r\n"))) << text;
  }
  EXPECT_FALSE(is_from_replica(*reply_of("-LOADING\r\n")));
  EXPECT_FALSE(is_from_replica(*reply_of("-ERR about READONLY\r\n")));
  EXPECT_FALSE(is_from_replica(*reply_of("+READONLY\r\n")));
}

TEST(RedisErrorTexts, AreToldApartByTheirFirstWordOnly) {
  EXPECT_EQ(error("ERR something about OOM and LOADING").code(), ErrorCode::Internal);
  EXPECT_EQ(error("OOMPH no such thing").code(), ErrorCode::Internal);
  EXPECT_EQ(error("LOADING").code(), ErrorCode::ServiceUnavailable);
  EXPECT_EQ(error("").code(), ErrorCode::Internal);
}

TEST(RedisErrorTexts, AreTheCauseOfTheErrorWithoutTheArgumentsTheyQuote) {
  const auto quoted =
      error("ERR unknown command 'EVALSHA', with args beginning with: 'sha' 'p:id:AAAAAAAAAAAAAAAAAAAAAA' ");
  EXPECT_EQ(quoted.cause(), "ERR unknown command 'EVALSHA'");
  EXPECT_EQ(quoted.code(), ErrorCode::Internal);
  EXPECT_EQ(error("READONLY You can't write").cause(), "READONLY You can't write");
}

TEST(RedisErrorTexts, OnlyNoscriptAsksForTheScriptsText) {
  EXPECT_TRUE(is_noscript(*reply_of("-NOSCRIPT No matching script. Please use EVAL.\r\n")));
  EXPECT_FALSE(is_noscript(*reply_of("-ERR NOSCRIPT\r\n")));
  EXPECT_FALSE(is_noscript(*reply_of("+NOSCRIPT\r\n")));
  EXPECT_FALSE(is_noscript(*reply_of(":1\r\n")));
}

}  // namespace
}  // namespace holdfast::redis
