#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "embedded/scripts.hpp"
#include "engine/redis/layout.hpp"
#include "engine/redis/rights.hpp"
#include "engine/redis/wire/command.hpp"
#include "holdfast/redis.hpp"

namespace holdfast::redis {
namespace {

RedisAcl acl_of(std::string_view url) {
  return redis_acl(url).value_or_throw();
}

std::set<std::string> names_of(const RedisAcl& acl) {
  std::set<std::string> names;
  for (const auto& command : acl.commands) names.insert(command.name);
  return names;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const RedisAcl::Command& right_to(const RedisAcl& acl, const std::string& name) {
  const auto found = std::ranges::find(acl.commands, name, &RedisAcl::Command::name);
  if (found == acl.commands.end()) throw std::runtime_error("there is no right to " + name);
  return *found;
}

TEST(RedisRights, AreThoseOfEveryScriptAndOfEveryCommandThatIsSent) {
  const auto names = names_of(acl_of("redis://h/3"));
  const auto in_acl = [](std::string_view name) {
    return CommandRight{.name = std::string(name)}.acl_name();
  };
  const auto native_names = names_of(acl_of("redis://h/3?layout=native"));
  for (const auto& called : embedded::script_commands) {
    if (called.command == "SPUBLISH") continue;  // for clusters
    const bool is_native = called.script.starts_with("native_");
    if (!is_native) {
      EXPECT_TRUE(names.contains(in_acl(called.command))) << called.command;
    }
    if (is_native || called.script.starts_with("task_") || called.script.starts_with("queue_")) {
      EXPECT_TRUE(native_names.contains(in_acl(called.command))) << called.command;
    }
  }
  EXPECT_FALSE(names.contains("hgetall")) << "only the native layout uses it";
  EXPECT_FALSE(native_names.contains("incr")) << "only the documented layout uses it";
  const std::set<std::string_view> of_sharded{"SPUBLISH", "SSUBSCRIBE", "SUNSUBSCRIBE", "PUBSUB SHARDNUMSUB"};
  for (const auto& sent : sent_commands) {
    if (of_sharded.contains(sent.name)) continue;
    const bool granted =
        sent.right != SentCommand::Right::every_user && sent.right != SentCommand::Right::of_sentinels &&
        sent.right != SentCommand::Right::in_cluster && sent.right != SentCommand::Right::to_examine;
    EXPECT_EQ(names.contains(in_acl(sent.name)), granted) << sent.name;
  }
  const auto in_cluster = names_of(acl_of("redis+cluster://h?lock_prefix={a}&task_prefix={b}"));
  for (const char* name : {"asking", "cluster|nodes", "cluster|slots"}) {
    EXPECT_TRUE(in_cluster.contains(name)) << name;
    EXPECT_FALSE(names.contains(name)) << name;
  }
  const auto native_cluster = acl_of("redis+cluster://h");
  const auto in_native_cluster = names_of(native_cluster);
  for (const auto name : of_sharded) {
    EXPECT_TRUE(in_native_cluster.contains(in_acl(name))) << name;
    EXPECT_FALSE(names.contains(in_acl(name)) || native_names.contains(in_acl(name))) << name;
  }
  for (const auto* name : {"publish", "unsubscribe", "psubscribe", "punsubscribe", "pubsub|numsub"}) {
    EXPECT_FALSE(in_native_cluster.contains(name)) << name;
  }
  EXPECT_EQ(right_to(native_cluster, "subscribe").severity, Severity::note) << "only live views need it";
  EXPECT_EQ(native_cluster.channels,
            (std::vector<std::string>{"syncguard:*", "pmcp:*", "__redis__:invalidate"}))
      << "a sharded channel has the name of its key";
  // What once was missing.
  for (const char* name :
       {"hmget", "exists", "zcard", "zadd", "hset", "pexpireat", "zrevrange", "client|setname"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(RedisRights, OfAnEmptyPrefixCoverAllKeysAndNameNoOthersBesideThem) {
  const auto acl = acl_of("redis://h?lock_prefix=");
  EXPECT_EQ(acl.keys, std::vector<std::string>{"*"});
  EXPECT_EQ(acl.channels, (std::vector<std::string>{":wake:*", "pmcp:changed:*", "__redis__:invalidate"}));
  EXPECT_TRUE(says(acl.line(), " '~*' '&:wake:*'")) << acl.line();
}

TEST(RedisRights, AreNoMoreThanNeeded) {
  const auto names = names_of(acl_of("redis://h"));
  // Those that show, or change, more than a store's own data.
  for (const char* name :
       {"select", "config|get", "memory|usage", "acl|whoami", "keys", "flushall", "eval_ro"}) {
    EXPECT_FALSE(names.contains(name)) << name;
  }
  EXPECT_TRUE(names_of(acl_of("redis://h/1")).contains("select")) << "another database than 0";
}

TEST(RedisRights, EachSaysWhatIsLostWithoutIt) {
  const auto acl = acl_of("redis://h/3");
  EXPECT_TRUE(std::ranges::is_sorted(acl.commands, {}, &RedisAcl::Command::name));
  for (const auto& command : acl.commands) {
    EXPECT_NE(command.without, "") << command.name;
    EXPECT_NE(command.severity, Severity::ok) << command.name;
  }
  EXPECT_EQ(right_to(acl, "incr").without, "locks cannot be acquired");
  EXPECT_EQ(right_to(acl, "incr").severity, Severity::problem);
  EXPECT_EQ(right_to(acl, "zrank").without, "tasks cannot be queued, claimed, created or listed");
  EXPECT_EQ(right_to(acl, "hincrby").without, "tasks cannot be claimed or queued");
  EXPECT_EQ(right_to(acl, "hincrby").severity, Severity::warning) << "a store may have no queues";
  EXPECT_EQ(right_to(acl, "time").without, "locks cannot be used; tasks cannot be used");
  // Called by redis.pcall alone.
  EXPECT_EQ(right_to(acl, "publish").severity, Severity::warning);
  EXPECT_TRUE(says(right_to(acl, "publish").without, "poll"));
  EXPECT_EQ(right_to(acl, "psubscribe").severity, Severity::note);
  EXPECT_EQ(right_to(acl, "pttl").severity, Severity::note);
  EXPECT_TRUE(says(right_to(acl, "pexpireat").without, "locks cannot be renewed while the server is out of"));
  EXPECT_EQ(right_to(acl, "client|setname").severity, Severity::note);
}

TEST(RedisRights, AreForTheUserAndThePrefixesOfTheUrl) {
  const auto acl = acl_of("redis://locks:sesame@h?lock_prefix=a:&task_prefix=b");
  EXPECT_EQ(acl.user, "locks");
  EXPECT_EQ(acl.keys, (std::vector<std::string>{"a:*", "b:*"}));
  EXPECT_EQ(acl.channels, (std::vector<std::string>{"a:wake:*", "b:changed:*", "__redis__:invalidate"}));
  EXPECT_TRUE(
      acl.line().starts_with("ACL SETUSER locks resetkeys resetchannels -@all '~a:*' '~b:*' '&a:wake:*' "
                             "'&b:changed:*' '&__redis__:invalidate' '+client|id' '+client|setname' "
                             "'+client|tracking' +"))
      << acl.line();
  EXPECT_FALSE(says(acl.line(), "sesame"));
  EXPECT_TRUE(acl_of("redis://h").line().starts_with("ACL SETUSER USER "));
  EXPECT_EQ(acl_of("redis://h?lock_prefix=").keys[0], "*");
}

TEST(RedisRights, APatternMatchesItsPrefixAndCanBeWrittenInOneWord) {
  const auto acl = acl_of("redis://h?lock_prefix=a%5Bb%5D*&task_prefix=it%27s%20mine");
  EXPECT_EQ(acl.keys, (std::vector<std::string>{"a\\[b]\\*:*", "it?s?mine:*"}));
  EXPECT_TRUE(says(acl.line(), " '~a\\[b]\\*:*' '~it?s?mine:*' ")) << acl.line();
  for (const char* user : {"a%20b", "it%27s"}) {
    EXPECT_EQ(redis_acl("redis://" + std::string(user) + "@h").error().code(), ErrorCode::InvalidArgument)
        << user;
  }
}

TEST(RedisRights, OnlyARedisHasThem) {
  for (const char* url : {"memory:", "sqlite:", "sqlite:/a", "http://h", ""}) {
    EXPECT_EQ(redis_acl(url).error().code(), ErrorCode::InvalidArgument) << url;
  }
  EXPECT_EQ(redis_acl("redis://h?lock_prefix=fence").error().code(), ErrorCode::InvalidArgument);
}

TEST(RedisRights, ACommandOfTwoWordsIsSentAsTwo) {
  EXPECT_EQ(Command("CLIENT SETNAME", "x").bytes(), "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$1\r\nx\r\n");
  EXPECT_EQ(Command("PING").bytes(), "*1\r\n$4\r\nPING\r\n");
}

TEST(NestedPrefixes, APrefixIsKnownByItsCountersAndItsAuthority) {
  EXPECT_EQ(prefix_of_counter("a:fence:a:x"), "a");
  EXPECT_EQ(prefix_of_counter("a:fence:a:"), "a");
  EXPECT_EQ(prefix_of_counter("a:b:fence:a:b:x"), "a:b");
  EXPECT_EQ(prefix_of_counter("a:b:fence:a:b:"), "a:b");
  EXPECT_EQ(prefix_of_counter("fence:x"), "") << "of the empty prefix";
  EXPECT_EQ(prefix_of_counter("a:fence:a:b:fence:a:b:x"), "a") << "of a's key b:fence:a:b:x";
  for (const char* name :
       {"a:x", "a:fence:b:x", "a:fence:x", "a:offence:a:x", "a:id:0123456789012345678901", ""}) {
    EXPECT_EQ(prefix_of_counter(name), std::nullopt) << name;
  }
}

TEST(NestedPrefixes, NestIfOneContainsTheNamesOfTheOther) {
  EXPECT_TRUE(prefixes_nest("a", "a:b"));
  EXPECT_TRUE(prefixes_nest("a:b:c", "a"));
  EXPECT_TRUE(prefixes_nest("", "a"));
  EXPECT_FALSE(prefixes_nest("a", "a"));
  EXPECT_FALSE(prefixes_nest("a", "ab"));
  EXPECT_FALSE(prefixes_nest("a:b", "a:c"));
}

TEST(NestedPrefixes, TheOuterOnesEndAtColons) {
  EXPECT_EQ(outer_prefixes("a:b:c"), (std::vector<std::string>{"a:b", "a", ""}));
  EXPECT_EQ(outer_prefixes("a::b"), (std::vector<std::string>{"a", ""}));
  EXPECT_EQ(outer_prefixes("a"), (std::vector<std::string>{""}));
  EXPECT_TRUE(outer_prefixes("").empty());
}

}  // namespace
}  // namespace holdfast::redis
