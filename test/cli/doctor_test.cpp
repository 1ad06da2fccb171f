#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "program.hpp"
#include "support/acl_user.hpp"
#include "support/fake_redis.hpp"
#include "support/paths.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

class DoctorCommand : public CliTest {
 protected:
  void SetUp() override {
    if (auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(DoctorCommand, ExitsWithZeroIfAllIsWell) {
  const RedisServer server({.persistent = true, .config = {"appendfsync everysec"}});
  const auto result = holdfast({"--url", server.url(), "doctor"});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_NE(result.out.find("ok    server"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("note  persistence"), std::string::npos) << result.out;
}

TEST_F(DoctorCommand, ExitsWithOneIfSomethingWouldHurtAndSaysWhatToDo) {
  const RedisServer server({.config = {"maxmemory 100mb", "maxmemory-policy volatile-lru"}});
  const auto result = holdfast({"--url", server.url(), "doctor"});
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_NE(result.out.find("problem  persistence"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("-> CONFIG SET maxmemory-policy noeviction"), std::string::npos) << result.out;
}

TEST_F(DoctorCommand, PrintsOneObjectForEachFindingIfAskedForJson) {
  const RedisServer server;
  const auto result = holdfast({"--json", "--url", server.unix_url(), "doctor"});
  EXPECT_EQ(result.code, 1);
  std::istringstream lines(result.out);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto finding = nlohmann::json::parse(line);
    EXPECT_TRUE(finding.contains("severity") && finding.contains("topic") && finding.contains("found") &&
                finding.contains("advice"))
        << line;
  }
  EXPECT_GE(count, 12U);
}

TEST_F(DoctorCommand, ExitsWith77IfItIsRefused) {
  const RedisServer server({.password = "sesame"});
  const auto result =
      holdfast({"--url", "redis://:wrong@127.0.0.1:" + std::to_string(server.port()), "doctor"});
  EXPECT_EQ(result.code, 77) << result.err;
  EXPECT_EQ(result.err.find("wrong"), std::string::npos) << result.err;
}

TEST_F(DoctorCommand, PrintsTheAclThatAUserNeedsInALineThatRedisTakes) {
  const RedisServer server;
  const auto url = "redis://app:sesame@127.0.0.1:" + std::to_string(server.port());
  const auto printed = holdfast({"--url", url + "?lock_prefix=it%27s%20mine", "doctor", "--acl"});
  EXPECT_EQ(printed.code, 0) << printed.err;
  EXPECT_TRUE(printed.out.starts_with("ACL SETUSER app resetkeys resetchannels -@all '~it?s?mine:*' "))
      << printed.out;
  EXPECT_EQ(printed.out.find("sesame"), std::string::npos);
  auto raw = server.raw();
  raw.text(words_of(printed.out.substr(0, printed.out.find('\n'))));
  raw.text({"ACL", "SETUSER", "app", "on", ">sesame"});
  const auto used = holdfast({"--url", url + "?lock_prefix=it%27s%20mine", "run", "k", "--", "true"});
  EXPECT_EQ(used.code, 0) << used.err;
  EXPECT_EQ(holdfast({"--url", url, "run", "k", "--", "true"}).code, 77) << "another prefix";
}

TEST_F(DoctorCommand, PrintsTheAclAsDataToo) {
  // Nobody is asked.
  const auto printed =
      holdfast({"--json", "--url", "redis://127.0.0.1:1/3?task_prefix=t", "doctor", "--acl"});
  EXPECT_EQ(printed.code, 0) << printed.err;
  const auto acl = nlohmann::json::parse(printed.out);
  EXPECT_EQ(acl.at("user"), "USER");
  EXPECT_EQ(acl.at("keys"), (nlohmann::json{"syncguard:*", "t:*"}));
  EXPECT_EQ(acl.at("channels"), (nlohmann::json{"syncguard:wake:*", "t:changed:*", "__redis__:invalidate"}));
  EXPECT_TRUE(acl.at("line").get<std::string>().starts_with("ACL SETUSER USER "));
  std::map<std::string, std::string> severities;
  for (const auto& command : acl.at("commands")) {
    EXPECT_NE(command.at("without"), "");
    severities[command.at("name")] = command.at("severity");
  }
  EXPECT_EQ(severities.at("zadd"), "problem");
  EXPECT_EQ(severities.at("select"), "problem");
  EXPECT_EQ(severities.at("publish"), "warning");
  EXPECT_EQ(holdfast({"doctor", "--acl"}).code, 64) << "a file has no ACL";
}

TEST_F(DoctorCommand, PrintsTheAclOfTheUserAtTheSentinelsInALineThatNoServerTakes) {
  // No server is asked.
  const std::string url = "redis+sentinel://app@127.0.0.1:1/orders";
  EXPECT_EQ(holdfast({"--url", url, "doctor", "--acl"}).out.find("sentinels:"), std::string::npos);
  const auto printed = holdfast({"--url", url + "?sentinel_user=watcher", "doctor", "--acl"});
  EXPECT_EQ(printed.code, 0) << printed.err;
  const auto second = printed.out.substr(printed.out.find('\n') + 1);
  EXPECT_EQ(second,
            "sentinels: ACL SETUSER watcher resetkeys resetchannels -@all '&+switch-master' "
            "'&+promoted-slave' '+client|setname' +ping '+sentinel|ckquorum' '+sentinel|master' "
            "'+sentinel|myid' +subscribe\n");
  const auto as_data = nlohmann::json::parse(
      holdfast({"--json", "--url", url + "?sentinel_user=watcher", "doctor", "--acl"}).out);
  EXPECT_EQ(as_data.at("user"), "app");
  EXPECT_EQ(as_data.at("sentinels").at("user"), "watcher");
  EXPECT_EQ("sentinels: " + as_data.at("sentinels").at("line").get<std::string>() + "\n", second);
}

TEST_F(DoctorCommand, ExaminesTheEmbeddedEngineToo) {
  EXPECT_EQ(holdfast({"doctor"}).code, 0);
  ASSERT_EQ(holdfast({"run", "k", "--", "true"}).code, 0);
  const auto result = holdfast({"doctor"});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_NE(result.out.find("journal"), std::string::npos) << result.out;
}

class RedisCommandLine : public DoctorCommand {};

TEST_F(RedisCommandLine, RunsACommandUnderALockThatOthersSee) {
  const RedisServer server;
  const auto url = server.url();
  const auto result =
      holdfast({"--url", url, "run", "k", "--", "sh", "-c",
                "\"$HOLDFAST\" lock show k --json; \"$HOLDFAST\" run -n k -- true; echo $?; env"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("\"fence\":\"000000000000001\""), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\n75\n"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("HOLDFAST_URL=" + url), std::string::npos) << result.out;
}

TEST_F(RedisCommandLine, HandsTheUrlOnWithoutThePasswordAndNestsWithOneFromTheEnvironment) {
  const RedisServer server({.password = "sesame"});
  const auto url = "redis://127.0.0.1:" + std::to_string(server.port());
  const auto nested = std::vector<std::string>{
      "run", "k", "--", "sh", "-c", "echo $HOLDFAST_URL; \"$HOLDFAST\" lock list --json"};
  const auto result =
      holdfast(nested, {.environment = {"HOLDFAST_URL=" + url, "HOLDFAST_REDIS_PASSWORD=sesame"}});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(result.out.starts_with(url + "\n{")) << result.out;
  const auto with_password = holdfast(nested, {.environment = {"HOLDFAST_URL=" + server.url()}});
  EXPECT_EQ(with_password.out.find("sesame"), std::string::npos) << with_password.out;
  EXPECT_EQ(with_password.code, 77) << "the command was not given the password";
}

TEST(ProcessList, DoesNotShowAPasswordForLong) {
  // A server that never answers keeps the program running.
  const FakeRedis silent([](const auto&) { return FakeRedis::Answer{}; });
  const TempDir dir;
  const auto there = "@127.0.0.1:" + std::to_string(silent.port()) + "/1?name=x";
  for (const std::string& url : {"redis://app:sesame" + there, "redis://:sesame" + there}) {
    for (const auto& option :
         {std::vector<std::string>{"--url", url}, std::vector<std::string>{"--url=" + url}}) {
      std::vector<std::string> command{holdfast_program()};
      command.insert(command.end(), option.begin(), option.end());
      command.insert(command.end(), {"run", "k", "--", "true"});
      Program program(dir.path(), command, {});
      const auto cmdline = "/proc/" + std::to_string(program.pid()) + "/cmdline";
      EXPECT_TRUE(eventually([&] {
        const auto text = contents(cmdline);
        return text.find("******" + there) != std::string::npos && text.find("sesame") == std::string::npos;
      })) << contents(cmdline);
      // And it was used all the same.
      EXPECT_TRUE(eventually([&] {
        for (const auto& words : silent.heard()) {
          if (words.front() == "AUTH" && words.back() == "sesame") return true;
        }
        return false;
      }));
    }
  }
}

}  // namespace
}  // namespace holdfast::test
