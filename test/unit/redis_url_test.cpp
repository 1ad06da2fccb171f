#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <holdfast/redis.hpp>

#include "support/seeded.hpp"
#include "support/temp_dir.hpp"

namespace holdfast {
namespace {

using namespace std::chrono_literals;

RedisOptions parsed(const std::string& url) {
  return parse_redis_url(url).value_or_throw();
}

/// A variable that is set, or not, as long as this lives.
class Variable {
 public:
  explicit Variable(const char* value) {
    if (value != nullptr) {
      ::setenv(name, value, 1);
    } else {
      ::unsetenv(name);
    }
  }
  ~Variable() { ::unsetenv(name); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  static constexpr const char* name = "HOLDFAST_REDIS_PASSWORD";
};

class RedisUrl : public ::testing::Test {
 protected:
  Variable no_password_{nullptr};
  test::TempDir dir_;
  std::string write(const std::string& text) {
    std::ofstream(dir_ / "password") << text;
    return dir_ / "password";
  }
};

TEST_F(RedisUrl, AHostIsEnough) {
  const auto options = parsed("redis://cache");
  EXPECT_EQ(options.host, "cache");
  EXPECT_EQ(options.port, 6379);
  EXPECT_EQ(options.db, 0U);
  EXPECT_EQ(options.user, "");
  EXPECT_EQ(options.password, "");
  EXPECT_FALSE(options.tls);
  EXPECT_EQ(options.lock_prefix, "syncguard");
  EXPECT_EQ(options.client_name, std::nullopt);
  EXPECT_EQ(options.holder, "");
  EXPECT_EQ(options.connect_timeout, 5s);
  EXPECT_EQ(options.command_timeout, 5s);
  EXPECT_FALSE(options.cleanup_in_is_locked);
  EXPECT_FALSE(options.layout);
  EXPECT_EQ(options.min_replicas, 0U);
  EXPECT_EQ(options.replica_timeout, 1s);
  EXPECT_FALSE(options.fence_floor_clock);
}

TEST_F(RedisUrl, WithoutAHostItIsThisMachine) {
  for (const char* url : {"redis://", "redis:///", "redis://:6379", "redis://@", "redis://?", "redis:///?"}) {
    EXPECT_EQ(parsed(url).host, "127.0.0.1") << url;
  }
  EXPECT_EQ(parsed("redis://:1").port, 1);
  EXPECT_EQ(parsed("redis:///7").db, 7U);
}

TEST_F(RedisUrl, EveryPartOfTheAddressIsUnderstood) {
  const auto options = parsed("redis://app:s3cret@db.example.com:7000/12");
  EXPECT_EQ(options.user, "app");
  EXPECT_EQ(options.password, "s3cret");
  EXPECT_EQ(options.host, "db.example.com");
  EXPECT_EQ(options.port, 7000);
  EXPECT_EQ(options.db, 12U);
  EXPECT_EQ(parsed("redis://:s3cret@h").user, "");
  EXPECT_EQ(parsed("redis://:s3cret@h").password, "s3cret");
  EXPECT_EQ(parsed("redis://app@h").user, "app");
  EXPECT_EQ(parsed("redis://h:65535/2147483647").port, 65535);
  EXPECT_EQ(parsed("redis://h:65535/2147483647").db, 2147483647U);
}

TEST_F(RedisUrl, PercentEncodingWorksEverywhere) {
  const auto options =
      parsed("redis://a%40b%3Ac:p%2Fw%3F%23%25%20+@h%6Fst:6379/%31?lock_prefix=%C3%A9%26%3D&name=x%21");
  EXPECT_EQ(options.user, "a@b:c");
  EXPECT_EQ(options.password, "p/w?#% +");
  EXPECT_EQ(options.host, "host");
  EXPECT_EQ(options.db, 1U);
  EXPECT_EQ(options.lock_prefix, "\xC3\xA9&=");
  EXPECT_EQ(options.client_name, "x!");
  EXPECT_EQ(parsed("unix:/tmp/a%20b%3Fc").unix_socket, "/tmp/a b?c");
}

TEST_F(RedisUrl, AnIpv6AddressGoesInBrackets) {
  EXPECT_EQ(parsed("redis://[::1]").host, "::1");
  EXPECT_EQ(parsed("redis://[2001:DB8::1]:7000").host, "2001:DB8::1");
  EXPECT_EQ(parsed("redis://[2001:db8::1]:7000").port, 7000);
  EXPECT_EQ(parsed("redis://u:p@[::ffff:10.0.0.1]:7000/3").host, "::ffff:10.0.0.1");
  EXPECT_EQ(parsed("redis://[fe80::1%25eth0]").host, "fe80::1%eth0");
}

TEST_F(RedisUrl, APasswordMayContainAnAtSignAndColons) {
  const auto options = parsed("redis://u:p@:ss:@host");
  EXPECT_EQ(options.password, "p@:ss:");
  EXPECT_EQ(options.host, "host");
}

TEST_F(RedisUrl, TlsHasParametersOfItsOwn) {
  const auto options = parsed(
      "rediss://h:6380?tls_ca=/etc/ca.pem&tls_cert=/c.pem&tls_key=/k.pem&tls_server_name=redis.internal");
  EXPECT_TRUE(options.tls);
  EXPECT_EQ(options.port, 6380);
  EXPECT_EQ(options.tls_ca_file, "/etc/ca.pem");
  EXPECT_EQ(options.tls_cert_file, "/c.pem");
  EXPECT_EQ(options.tls_key_file, "/k.pem");
  EXPECT_EQ(options.tls_server_name, "redis.internal");
  EXPECT_TRUE(parsed("rediss://h").tls);
}

TEST_F(RedisUrl, AUnixSocketHasItsDatabaseAndUserInTheQuery) {
  const Variable password("from-environment");
  for (const char* start : {"unix:", "unix://"}) {
    const auto options = parsed(start + std::string("/run/redis/redis.sock?db=3&user=app"));
    EXPECT_EQ(options.unix_socket, "/run/redis/redis.sock");
    EXPECT_EQ(options.db, 3U);
    EXPECT_EQ(options.user, "app");
    EXPECT_EQ(options.password, "from-environment");
  }
}

TEST_F(RedisUrl, EveryParameterArrives) {
  const auto options = parsed(
      "redis://"
      "h?db=5&user=u&lock_prefix=p&connect_timeout=1.5&command_timeout=500ms&name=worker-7&cleanup_in_is_"
      "locked=true");
  EXPECT_EQ(options.db, 5U);
  EXPECT_EQ(options.user, "u");
  EXPECT_EQ(options.lock_prefix, "p");
  EXPECT_EQ(options.connect_timeout, 1500ms);
  EXPECT_EQ(options.command_timeout, 500ms);
  EXPECT_EQ(options.client_name, "worker-7");
  EXPECT_TRUE(options.cleanup_in_is_locked);
  EXPECT_FALSE(parsed("redis://h?cleanup_in_is_locked=0").cleanup_in_is_locked);
  EXPECT_EQ(parsed("redis://h?layout=native").layout, RedisLayout::native);
  EXPECT_EQ(parsed("redis://h?layout=documented").layout, RedisLayout::documented);
  const auto replicas = parsed("redis://h?min_replicas=2&replica_timeout=250ms&fence_floor=clock");
  EXPECT_EQ(replicas.min_replicas, 2U);
  EXPECT_EQ(replicas.replica_timeout, 250ms);
  EXPECT_TRUE(replicas.fence_floor_clock);
  EXPECT_FALSE(parsed("redis://h?fence_floor=none").fence_floor_clock);
  EXPECT_EQ(parsed("redis://h?fence_floor=none").fence_floor, 0U);
  EXPECT_EQ(parsed("redis://h?fence_floor=000000000000041").fence_floor, 41U) << "as fences are printed";
  EXPECT_EQ(parsed("redis://h?fence_floor=89999999999999").fence_floor, RedisOptions::highest_fence_floor);
  EXPECT_EQ(parsed("redis://h?name=").client_name, "");
  EXPECT_EQ(parsed("redis://h?holder=caf%C3%A9%20bar").holder, "caf\u00e9 bar");
  EXPECT_EQ(redis_url(parsed("redis://h?holder=caf%C3%A9%20bar")), "redis://h?holder=caf%C3%A9%20bar");
  EXPECT_EQ(parsed("redis://h?holder=none").holder, "none");
}

TEST_F(RedisUrl, ThePasswordComesFromTheUrlElseTheFileElseTheEnvironment) {
  const auto file = write("from-file\n");
  {
    const Variable password("from-environment");
    EXPECT_EQ(parsed("redis://h").password, "from-environment");
    EXPECT_EQ(parsed("redis://:from-url@h").password, "from-url");
    EXPECT_EQ(parsed("redis://h?password_file=" + file).password, "from-file");
  }
  EXPECT_EQ(parsed("redis://h").password, "");
  EXPECT_EQ(parsed("redis://u@h?password_file=" + file).password, "from-file");
  EXPECT_EQ(parsed("redis://u@h?password_file=" + file).password_file, file);
  EXPECT_EQ(parse_redis_url("redis://:pw@h?password_file=" + file).error().code(),
            ErrorCode::InvalidArgument);
}

TEST_F(RedisUrl, APasswordFileIsOneLine) {
  for (const char* text : {"se cret", "se cret\n", "se cret\r\n"}) {
    EXPECT_EQ(parsed("redis://h?password_file=" + write(text)).password, "se cret");
  }
  for (const std::string& text : {std::string(), std::string("\n"), std::string("two\nlines\n"),
                                  std::string("a\0b", 3), std::string(5000, 'x')}) {
    const auto result = parse_redis_url("redis://h?password_file=" + write(text));
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.error().code(), ErrorCode::InvalidArgument);
    EXPECT_NE(result.error().message().find("password_file " + (dir_ / "password").string()),
              std::string::npos)
        << result.error().what();
    EXPECT_EQ(std::string(result.error().what()).find("two"), std::string::npos);
  }
  for (const auto& wrong : {dir_ / "missing", dir_.path()}) {
    const auto result = parse_redis_url("redis://h?password_file=" + wrong.string());
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code(), ErrorCode::InvalidArgument);
    EXPECT_NE(result.error().message().find(wrong.string()), std::string::npos) << result.error().what();
  }
}

TEST_F(RedisUrl, SentinelsAreAListAndLeadToAService) {
  const auto options = parsed("redis+sentinel://app:s3cret@s1,s2:26380,[::1]:7/orders/3?sentinel_user=watch");
  EXPECT_EQ(options.sentinels, (std::vector<RedisAddress>{{"s1", 26379}, {"s2", 26380}, {"::1", 7}}));
  EXPECT_EQ(options.sentinel_service, "orders");
  EXPECT_EQ(options.db, 3U);
  EXPECT_EQ(options.user, "app");
  EXPECT_EQ(options.password, "s3cret");
  EXPECT_EQ(options.sentinel_user, "watch");
  EXPECT_EQ(options.sentinel_password, "") << "the master's credentials are not sent to sentinels";
  EXPECT_FALSE(options.tls);
  EXPECT_TRUE(parsed("rediss+sentinel://s/m").tls);
  EXPECT_EQ(parsed("redis+sentinel://s/my%2Fmaster").sentinel_service, "my/master");
  EXPECT_EQ(redis_url(parsed("redis+sentinel://s/m")), "redis+sentinel://s/m");
  EXPECT_EQ(redis_url(options), "redis+sentinel://app@s1,s2:26380,[::1]:7/orders/3?sentinel_user=watch");
}

TEST_F(RedisUrl, TheSentinelsPasswordComesFromItsFileElseTheEnvironment) {
  const auto file = write("from-file\n");
  ::setenv("HOLDFAST_SENTINEL_PASSWORD", "from-environment", 1);
  EXPECT_EQ(parsed("redis+sentinel://s/m").sentinel_password, "from-environment");
  EXPECT_EQ(parsed("redis+sentinel://s/m").password, "");
  EXPECT_EQ(parsed("redis+sentinel://s/m?sentinel_password_file=" + file).sentinel_password, "from-file");
  EXPECT_EQ(parsed("redis://s").sentinel_password, "");
  ::unsetenv("HOLDFAST_SENTINEL_PASSWORD");
  const auto missing = parse_redis_url("redis+sentinel://s/m?sentinel_password_file=/missing");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message().find("sentinel_password_file /missing"), std::string::npos);
}

TEST_F(RedisUrl, NamesOfFilesBecomeAbsolute) {
  const auto here = std::filesystem::current_path().string();
  EXPECT_EQ(parsed("rediss://h?tls_ca=ca.pem").tls_ca_file, here + "/ca.pem");
}

struct Bad {
  std::string url;
  std::string said;
};

TEST_F(RedisUrl, WhatIsWrongIsRefusedAndNamed) {
  const std::vector<Bad> table{
      {"", "redis://"},
      {"redis", "redis://"},
      {"redis:", "redis://"},
      {"redis:/h", "redis://"},
      {"REDIS://h", "redis://"},
      {"http://h", "redis://"},
      {" redis://h", "space"},
      {"redis://h ", "space"},
      {"redis://h\n", "control"},
      {std::string("redis://h\0", 10), "control"},
      {"redis://h\x7f", "control"},
      {"redis://h#x", "%23"},
      {"redis://h:", "the port"},
      {"redis://h:0", "the port must be a number from 1 to 65535"},
      {"redis://h:65536", "the port"},
      {"redis://h:99999999999", "the port"},
      {"redis://h:+1", "the port"},
      {"redis://h:-1", "the port"},
      {"redis://h:6379x", "the port"},
      {"redis://h:0x10", "the port"},
      {"redis://h:63:79", "more than one colon"},
      {"redis://::1", "brackets"},
      {"redis://[::1", "not closed"},
      {"redis://[::1]x", "may follow the address"},
      {"redis://[::1]:", "the port"},
      {"redis://[]", "IPv6"},
      {"redis://[localhost]", "IPv6"},
      {"redis://h st", "space"},
      {"redis://h%20st", "the host"},
      {"redis://h%2Fst", "the host"},
      {"redis://h\\st", "the host"},
      {"redis://[h]st", "IPv6"},
      {"redis://" + std::string(254, 'h'), "the host"},
      {"redis://h/x", "the database"},
      {"redis://h/-1", "the database"},
      {"redis://h/2147483648", "the database"},
      {"redis://h/1/2", "the database"},
      {"redis://h/%31%", "the database"},
      {"redis://h?db=x", "the database"},
      {"redis://h?db=", "the database"},
      {"redis://h/1?db=1", "db is given twice"},
      {"redis://h/0?db=3", "db is given twice"},
      {"redis://u@h?user=u", "user is given twice"},
      {"redis://h?db=1&db=1", "db is given twice"},
      {"redis://h?colour=red", "unknown parameter \"colour\""},
      {"redis://h?DB=1", "unknown parameter;"},
      {"redis://h?=1", "unknown parameter;"},
      {"redis://h?db=1&&name=x", "unknown parameter;"},
      {"redis://h?name", "name has no value"},
      {"redis://h?password=secret", "password_file"},
      {"redis://h?name=a%20b", "name must be"},
      {"redis://h?name=%C3%A9", "name must be"},
      {"redis://h?name=%00", "name contains a control"},
      {"redis://h?lock_prefix=%0A", "lock_prefix contains a control"},
      {"redis://h?lock_prefix=%4", "lock_prefix: %"},
      {"redis://h?lock_prefix=%G0", "lock_prefix: %"},
      {"redis://h?connect_timeout=0", "connect_timeout must be more than zero"},
      {"redis://h?connect_timeout=", "connect_timeout is not a duration"},
      {"redis://h?connect_timeout=-1", "connect_timeout is negative"},
      {"redis://h?command_timeout=soon", "command_timeout is not a duration"},
      {"redis://h?command_timeout=0.0001", "command_timeout is not a whole number"},
      {"redis://h?command_timeout=40000d", "command_timeout is too long"},
      {"redis://h?layout=own", "documented or native"},
      {"redis://h?layout=", "documented or native"},
      {"redis://h?cleanup_in_is_locked=yes", "true or false"},
      {"redis://h?cleanup_in_is_locked=", "true or false"},
      {"redis://h?min_replicas=-1", "min_replicas must be a number from 0 to 1000"},
      {"redis://h?min_replicas=1001", "min_replicas must be a number from 0 to 1000"},
      {"redis://h?replica_timeout=0", "more than zero"},
      {"redis://h?fence_floor=yes", "clock, none, or a fence"},
      {"redis://h?fence_floor=", "clock, none, or a fence"},
      {"redis://h?fence_floor=-1", "clock, none, or a fence"},
      {"redis://h?fence_floor=12x", "clock, none, or a fence"},
      {"redis://h?fence_floor=90000000000000", "at most 89999999999999"},
      {"redis://h?tls_ca=/x", "rediss://"},
      {"unix:/s?tls_ca=/x", "rediss://"},
      {"rediss://h?tls_cert=/x", "both or neither"},
      {"rediss://h?tls_key=/x", "both or neither"},
      {"rediss://h?tls_ca=", "tls_ca is empty"},
      {"redis://h?password_file=", "password_file is empty"},
      {"redis://u:@h", "the password is empty"},
      {"redis://:@h", "the password is empty"},
      {"redis://u%@h", "the user"},
      {"redis://u%00@h", "the user contains a control"},
      {"redis://u:p%0@h", "the password: %"},
      {"redis://u:p%00w@h", "the password contains a control"},
      {"redis+sentinel://s", "the service is missing"},
      {"redis+sentinel://s/", "the service is missing"},
      {"redis+sentinel:///m", "a host is missing"},
      {"redis+sentinel://s,/m", "a host is missing"},
      {"redis+sentinel://,s/m", "a host is missing"},
      {"redis+sentinel://:1/m", "a host is missing"},
      {"redis+sentinel://s,s/m", "twice"},
      {"redis+sentinel://s,t:x/m", "the port"},
      {"redis+sentinel://s/m/x", "the database"},
      {"redis+sentinel://s/m/1?db=1", "db is given twice"},
      {"redis+sentinel://s/m?sentinel_password=x", "sentinel_password_file"},
      {"redis://s,t", "the host"},
      {"redis://h?sentinel_user=x", "redis+sentinel://"},
      {"unix:/s?sentinel_password_file=/x", "redis+sentinel://"},
      {"unix:", "absolute"},
      {"unix:run/s", "absolute"},
      {"unix://run/s", "unix:/path"},
      {"unix://u:secret@/run/s", "unix:/path"},
      {"unix:/s%00x", "the path of the socket contains a control"},
  };
  for (const auto& [url, said] : table) {
    const auto result = parse_redis_url(url);
    ASSERT_FALSE(result.ok()) << url;
    EXPECT_EQ(result.error().code(), ErrorCode::InvalidArgument) << url;
    EXPECT_NE(result.error().message().find(said), std::string::npos) << url << "\n" << result.error().what();
  }
}

TEST_F(RedisUrl, NoErrorContainsThePasswordHoweverTheUrlIsMistyped) {
  // Each contains one word of the password's: it must not come back.
  for (const std::string url : {"redis://u:sesame/open@h",
                                "redis://u:sesame?open@h",
                                "redis://u:sesame#open@h",
                                "redis://u:sesame open@h",
                                "redis://u:sesame%zz@h",
                                "redis://u:sesame%00@h",
                                "redis://u:sesame",
                                "redis://u:sesame/open",
                                "redis://u:sesame:open@h:x",
                                "redis://:x?sesame@h",
                                "redis://:x?sesame=1@h",
                                "redis://u:1/sesame@h",
                                "redis://u:pw@h:sesame",
                                "redis:/u:sesame@h",
                                "redis:u:sesame@h",
                                "rediss//u:sesame@h",
                                "unix://u:sesame@/s",
                                "redis+sentinel://u:sesame@s",
                                "redis+sentinel://u:sesame,s/m",
                                "redis+sentinel://u:pw@s:sesame/m",
                                "redis+sentinel://s/m?sentinel_password=sesame",
                                "redis+cluster://u:sesame/open@h,h2",
                                "redis+cluster://u:sesame@h,h2/1",
                                "redis+cluster://u:sesame@h,,h2",
                                "redis+cluster://u:sesame@h?connect_to=x",
                                "rediss+cluster://u:sesame,open@h:x",
                                "unix:u:sesame@/s",
                                "redis://h?password=sesame",
                                "redis://h?PASSWORD=sesame",
                                "redis://h?pass=sesame",
                                "redis://u:sesame@h?db=x",
                                "redis://u:sesame@h:0",
                                "redis://u:sesame@h/x",
                                "redis://u:sesame@[h]",
                                "redis://u:sesame@h?tls_ca=/x",
                                "redis://u:sesame@h?password_file=/x",
                                "redis://u:sesame\n@h"}) {
    const auto result = parse_redis_url(url);
    ASSERT_FALSE(result.ok()) << url;
    EXPECT_EQ(std::string(result.error().what()).find("sesame"), std::string::npos) << url << "\n"
                                                                                    << result.error().what();
  }
}

void expect_same(const RedisOptions& a, const RedisOptions& b, const std::string& where) {
  EXPECT_EQ(a.host, b.host) << where;
  EXPECT_EQ(a.port, b.port) << where;
  EXPECT_EQ(a.unix_socket, b.unix_socket) << where;
  EXPECT_EQ(a.sentinels, b.sentinels) << where;
  EXPECT_EQ(a.sentinel_service, b.sentinel_service) << where;
  EXPECT_EQ(a.sentinel_user, b.sentinel_user) << where;
  EXPECT_EQ(a.sentinel_password_file, b.sentinel_password_file) << where;
  EXPECT_EQ(a.cluster_nodes, b.cluster_nodes) << where;
  EXPECT_EQ(a.cluster_connect_to, b.cluster_connect_to) << where;
  EXPECT_EQ(a.user, b.user) << where;
  EXPECT_EQ(a.password_file, b.password_file) << where;
  EXPECT_EQ(a.db, b.db) << where;
  EXPECT_EQ(a.client_name, b.client_name) << where;
  EXPECT_EQ(a.holder, b.holder) << where;
  EXPECT_EQ(a.tls, b.tls) << where;
  EXPECT_EQ(a.tls_ca_file, b.tls_ca_file) << where;
  EXPECT_EQ(a.tls_cert_file, b.tls_cert_file) << where;
  EXPECT_EQ(a.tls_key_file, b.tls_key_file) << where;
  EXPECT_EQ(a.tls_server_name, b.tls_server_name) << where;
  EXPECT_EQ(a.connect_timeout, b.connect_timeout) << where;
  EXPECT_EQ(a.command_timeout, b.command_timeout) << where;
  EXPECT_EQ(a.lock_prefix, b.lock_prefix) << where;
  EXPECT_EQ(a.cleanup_in_is_locked, b.cleanup_in_is_locked) << where;
  EXPECT_EQ(a.layout, b.layout) << where;
  EXPECT_EQ(a.min_replicas, b.min_replicas) << where;
  EXPECT_EQ(a.replica_timeout, b.replica_timeout) << where;
  EXPECT_EQ(a.fence_floor_clock, b.fence_floor_clock) << where;
  EXPECT_EQ(a.fence_floor, b.fence_floor) << where;
}

TEST_F(RedisUrl, OptionsPrintedAndReadAgainAreTheSameButForThePassword) {
  test::Seeded random;
  const auto text = [&](std::string_view from) {
    std::string result;
    for (auto n = random.below(12); n > 0; --n) result += from[random.below(from.size())];
    return result;
  };
  const std::string any = "abzABZ019-._~:/?#[]@!$&'()*+,;=%\"<>\\^`{|} \xC3\xA9";
  const auto password_file = write("secret\n");
  for (int i = 0; i < 2000; ++i) {
    RedisOptions options;
    const auto address = [&](std::size_t lowest_port) {
      return RedisAddress{
          .host = random.pick(std::vector<std::string>{"h", "127.0.0.1", "::1", "fe80::1%eth0", "a-b.c_d"}),
          .port = static_cast<std::uint16_t>(lowest_port + random.below(65535))};
    };
    const auto kind = random.below(4);
    options.tls = kind != 0 && random.below(2) == 0;
    if (kind == 0) {
      options.unix_socket = "/" + text(any);
    } else if (kind == 3) {
      for (std::uint16_t port = 1; port < 4; ++port) {
        options.sentinels.push_back({random.pick(std::vector<std::string>{"s", "10.0.0.1", "::1"}), port});
      }
      options.sentinel_service = "m" + text(any);
      options.sentinel_user = text(any);
      options.sentinel_password = "secret";
      if (random.below(2) == 0) options.sentinel_password_file = password_file;
    } else if (kind == 1) {
      const auto server = address(1);
      options.host = server.host;
      options.port = server.port;
    } else {
      for (auto n = 1 + random.below(3); n > 0; --n) options.cluster_nodes.push_back(address(1));
      for (auto n = random.below(3); n > 0; --n)
        options.cluster_connect_to.push_back({address(0), address(0)});
    }
    options.user = text(any);
    options.password = "secret" + text(any);
    if (random.below(2) == 0) options.password_file = password_file;
    if (kind != 2) options.db = static_cast<std::uint32_t>(random.below(3));
    options.client_name = text("abz!~-=&%?#@");
    options.lock_prefix = text(any);
    options.connect_timeout = std::chrono::milliseconds(1 + random.below(100000));
    options.command_timeout = std::chrono::milliseconds(1 + random.below(100000));
    options.cleanup_in_is_locked = random.below(2) == 0;
    if (random.below(2) == 0)
      options.layout = random.below(2) == 0 ? RedisLayout::native : RedisLayout::documented;
    options.min_replicas = static_cast<std::uint32_t>(random.below(4));
    options.replica_timeout = std::chrono::milliseconds(1 + random.below(100'000));
    options.fence_floor_clock = random.below(2) == 0;
    if (!options.fence_floor_clock) options.fence_floor = random.below(3) * 29'999'999'999'999;
    if (options.tls) {
      options.tls_server_name = text(any);
      if (random.below(2) == 0) options.tls_ca_file = "/" + text("ab%&=? ");
      if (random.below(2) == 0)
        options.tls_cert_file = "/c" + text(any), options.tls_key_file = "/k" + text(any);
    }
    const auto url = redis_url(options);
    EXPECT_EQ(url.find("secret"), std::string::npos);
    const auto again = parse_redis_url(url);
    ASSERT_TRUE(again.ok()) << random.seed() << " " << url << "\n" << again.error().what();
    expect_same(*again, options, random.seed() + " " + url);
    EXPECT_EQ(again->password, options.password_file.empty() ? "" : "secret");
    EXPECT_EQ(redis_url(*again), url);
    if (HasFailure()) return;
  }
}

TEST_F(RedisUrl, AnUrlIsPrintedWithoutWhatIsTheDefault) {
  EXPECT_EQ(redis_url({}), "redis://127.0.0.1");
  EXPECT_EQ(redis_url(parsed("redis://u:p@h:6379/0?name=holdfast&lock_prefix=syncguard")), "redis://u@h");
  EXPECT_EQ(redis_url(parsed("redis://[::1]:7000/2?connect_timeout=90")),
            "redis://[::1]:7000/2?connect_timeout=90s");
  EXPECT_EQ(redis_url(parsed("unix:///run/s?db=2&user=u")), "unix:/run/s?db=2&user=u");
}

TEST_F(RedisUrl, NamesTheNodesOfACluster) {
  const auto options = parsed("redis+cluster://app:s3cret@a,b:7001,[::1]:7002/?lock_prefix={x}");
  EXPECT_EQ(options.cluster_nodes, (std::vector<RedisAddress>{{"a", 6379}, {"b", 7001}, {"::1", 7002}}));
  EXPECT_EQ(options.user, "app");
  EXPECT_EQ(options.password, "s3cret");
  EXPECT_EQ(options.lock_prefix, "{x}");
  EXPECT_FALSE(options.tls);
  EXPECT_EQ(redis_url(options), "redis+cluster://app@a,b:7001,[::1]:7002?lock_prefix=%7Bx%7D");
  EXPECT_TRUE(parsed("rediss+cluster://a?tls_server_name=x").tls);
  EXPECT_EQ(parsed("redis+cluster://a/0").db, 0U);
  const auto mapped = parsed("redis+cluster://a?connect_to=10.0.0.1:7000=localhost:17000,node-b=[::1]");
  EXPECT_EQ(mapped.cluster_connect_to,
            (std::vector<RedisAnnouncement>{{{"10.0.0.1", 7000}, {"localhost", 17000}},
                                            {{"node-b", 0}, {"::1", 0}}}));
  EXPECT_EQ(redis_url(mapped), "redis+cluster://a?connect_to=10.0.0.1:7000=localhost:17000,node-b=%5B::1%5D");
  for (const auto& [url, said] : std::vector<std::pair<std::string, std::string>>{
           {"redis+cluster://", "a host is missing"},
           {"redis+cluster://a,", "a host is missing"},
           {"redis+cluster://a,a", "given twice"},
           {"redis+cluster://a/1", "only database 0"},
           {"redis+cluster://a?db=2", "only database 0"},
           {"redis+cluster://a?connect_to=b", "ANNOUNCED=REACHED_AT"},
           {"redis+cluster://a?connect_to=b=", "both sides"},
           {"redis+cluster://a?connect_to==b", "both sides"},
           {"redis+cluster://a?connect_to=b:x=c", "the port"},
           {"redis://a?connect_to=b=c", "rediss+cluster:// only"},
           {"redis://a,b", "the host must be"},
           {"redis+cluster://a?tls_ca=/x", "rediss://"}}) {
    const auto result = parse_redis_url(url);
    ASSERT_FALSE(result.ok()) << url;
    EXPECT_NE(result.error().message().find(said), std::string::npos) << url << "\n" << result.error().what();
  }
}

TEST_F(RedisUrl, AnyBytesAreReadOrRefusedAndNothingElse) {
  test::Seeded random;
  const std::vector<std::string> pieces{"redis://",
                                        "rediss://",
                                        "unix:",
                                        "/",
                                        "//",
                                        "@",
                                        ":",
                                        "?",
                                        "&",
                                        "=",
                                        "%",
                                        "%2",
                                        "%41",
                                        "[",
                                        "]",
                                        "#",
                                        ".",
                                        "h",
                                        "6379",
                                        "db",
                                        "0",
                                        "99",
                                        "user",
                                        "name",
                                        ",",
                                        "redis+sentinel://",
                                        "redis+cluster://",
                                        "connect_to",
                                        "sentinel_user",
                                        "tls_ca",
                                        "tls_key",
                                        "\xff",
                                        " ",
                                        "+",
                                        "::1",
                                        "%00",
                                        "-1",
                                        "1s",
                                        "\0x"};
  std::size_t read = 0;
  for (int i = 0; i < 50000; ++i) {
    std::string url = random.below(4) == 0 ? "" : "redis://";
    for (auto n = random.below(8); n > 0; --n) url += random.pick(pieces);
    const auto result = parse_redis_url(url);
    if (!result.ok()) {
      ASSERT_EQ(result.error().code(), ErrorCode::InvalidArgument) << random.seed() << " " << url;
      continue;
    }
    ++read;
    const auto again = parse_redis_url(redis_url(*result));
    ASSERT_TRUE(again.ok()) << random.seed() << " " << url << " " << redis_url(*result);
    expect_same(*again, *result, random.seed() + " " + url);
    if (HasFailure()) return;
  }
  EXPECT_GT(read, 1000U);
}

}  // namespace
}  // namespace holdfast
