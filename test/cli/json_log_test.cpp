// --log-format json: every line on stderr is an object with stable fields.

#include <csignal>
#include <nlohmann/json.hpp>
#include <regex>

#include "http_get.hpp"
#include "program.hpp"
#include "rpc_client.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

using nlohmann::json;

class JsonLog : public RpcTest {
 protected:
  /// Every line, checked for what all have.
  static std::vector<json> lines_of(const std::string& err) {
    std::vector<json> lines;
    std::istringstream input(err);
    for (std::string line; std::getline(input, line);) {
      const auto object = json::parse(line, nullptr, false);
      EXPECT_TRUE(object.is_object()) << line;
      if (!object.is_object()) continue;
      static const std::regex time(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)");
      EXPECT_TRUE(std::regex_match(object.value("time", ""), time)) << line;
      EXPECT_TRUE((std::set<std::string>{"info", "warning", "error"}.contains(object.value("level", ""))))
          << line;
      EXPECT_NE(object.value("event", ""), "") << line;
      lines.push_back(object);
    }
    return lines;
  }
  static json event(const std::vector<json>& lines, const std::string& name) {
    for (const auto& line : lines) {
      if (line["event"] == name) return line;
    }
    return nullptr;
  }
  Finished run(std::vector<std::string> typed, std::vector<std::string> options = {}) const {
    options.insert(options.begin(), {"--log-format", "json"});
    typed.insert(typed.begin(), options.begin(), options.end());
    return holdfast(typed);
  }
};

TEST_F(JsonLog, ARunIsItsLockItsCommandAndItsRelease) {
  const auto result = run({"run", "deploy", "--", "sh", "-c", "exit 3"}, {"--holder", "alice@web-3"});
  EXPECT_EQ(result.code, 3);
  const auto lines = lines_of(result.err);
  ASSERT_EQ(lines.size(), 3U) << result.err;
  EXPECT_EQ(lines[0]["event"], "lock_acquired");
  EXPECT_EQ(lines[1]["event"], "command_exited");
  EXPECT_EQ(lines[1]["exit_code"], 3);
  EXPECT_EQ(lines[2]["event"], "lock_released");
  for (const auto& line : lines) {
    EXPECT_EQ(line["command"], "run");
    EXPECT_EQ(line["key_hash"].get<std::string>().size(), 24U);
    EXPECT_EQ(line["fence"], "000000000000001");
    EXPECT_EQ(line["holder"], "alice@web-3");
    EXPECT_TRUE(line["duration_ms"].is_number_integer());
  }
  EXPECT_EQ(result.err.find("deploy"), std::string::npos) << "keys are hashed";
  EXPECT_NE(run({"run", "deploy", "--", "true"}, {"--log-keys"}).err.find("\"key\":\"deploy\""),
            std::string::npos);
}

TEST_F(JsonLog, ARefusalNamesTheHolderAndNotTheKey) {
  EXPECT_EQ(run({"lock", "acquire", "-n", "deploy"}, {"--holder", "alice\x1B[2J\u202E\n"}).code, 0);
  const auto refused = run({"run", "-n", "deploy", "--", "true"});
  EXPECT_EQ(refused.code, 75);
  const auto lines = lines_of(refused.err);
  ASSERT_EQ(lines.size(), 1U) << refused.err;
  EXPECT_EQ(lines[0]["event"], "lock_refused");
  EXPECT_EQ(lines[0]["level"], "warning");
  EXPECT_EQ(lines[0]["code"], "AcquisitionTimeout");
  EXPECT_EQ(lines[0]["holder"], "alice\x1B[2J\u202E\n");
  EXPECT_EQ(refused.err.find('\x1B'), std::string::npos) << "escaped: a terminal may show the log";
  EXPECT_EQ(refused.err.find("\u202E"), std::string::npos);
  EXPECT_EQ(refused.err.find("deploy"), std::string::npos) << refused.err;

  const auto shown = run({"lock", "break", "deploy", "--reason", "a test"});
  EXPECT_EQ(shown.code, 0);
  const auto broken = event(lines_of(shown.err), "lock_broken");
  EXPECT_EQ(broken["level"], "warning") << shown.err;
  EXPECT_EQ(shown.err.find("deploy"), std::string::npos) << shown.err;
}

TEST_F(JsonLog, ErrorsOfAnyCommandAreLinesOfTheLog) {
  const auto last = [](const Finished& result) {
    const auto lines = lines_of(result.err);
    return lines.size() == 1 ? lines[0] : json();
  };
  EXPECT_EQ(last(run({"lock", "show"}))["code"], "InvalidArgument");
  EXPECT_EQ(last(run({"no-such-command"}))["code"], "InvalidArgument");
  EXPECT_EQ(last(run({"lock", "list"}, {"--url", "sqlite:/no/such/dir/x.db"}))["event"], "error");
  const auto json_too = run({"run", "-n", "k", "--", "no-such-command"}, {"--json", "--log-level", "error"});
  EXPECT_EQ(last(json_too)["level"], "error") << json_too.err;
  EXPECT_EQ(
      last(holdfast({"lock", "show"},
                    {.environment = {"HOLDFAST_LOG_FORMAT=json"}, .input = {}, .before_exec = {}}))["event"],
      "error");
  EXPECT_EQ(holdfast({"--log-format", "xml", "lock", "list"}).code, 64);
  EXPECT_EQ(holdfast({"--log-level", "loud", "lock", "list"}).code, 64);
  EXPECT_EQ(
      holdfast({"lock", "list"}, {.environment = {"HOLDFAST_LOG_FORMAT=xml"}, .input = {}, .before_exec = {}})
          .code,
      64);
  // The options of the command are not ours.
  EXPECT_EQ(holdfast({"run", "k", "--", "echo", "--log-format", "json"}).out, "--log-format json\n");
}

TEST_F(JsonLog, ALostLockIsAnErrorWithItsReason) {
  const auto running = start({"--log-format", "json", "run", "--ttl", "1", "deploy", "--", "sleep", "60"});
  ASSERT_TRUE(eventually([&] { return holdfast({"lock", "show", "deploy"}).code == 0; }));
  EXPECT_EQ(holdfast({"lock", "break", "deploy", "--reason", "a test"}).code, 0);
  const auto ended = running->wait();
  EXPECT_EQ(ended.code, 79);
  const auto lost = event(lines_of(ended.err), "lock_lost");
  EXPECT_EQ(lost["level"], "error") << ended.err;
  EXPECT_EQ(lost["reason"], "gone");
  EXPECT_EQ(lost["fence"], "000000000000001");
  EXPECT_EQ(ended.err.find("deploy"), std::string::npos) << ended.err;
}

TEST_F(JsonLog, APoolNamesTheTaskOfEachOutcome) {
  const auto add = [&] {
    return json::parse(run({"task", "add", "q", "--attempts", "1"}, {"--json"}).out)["task"]["taskId"];
  };
  const auto good = add();
  const auto completed = run({"task", "work", "q", "--once", "--", "true"});
  EXPECT_EQ(event(lines_of(completed.err), "task_completed")["task_id"], good) << completed.err;
  const auto bad = add();
  const auto failed = run({"task", "work", "q", "--once", "--", "sh", "-c", "exit 3"});
  const auto line = event(lines_of(failed.err), "attempt_failed");
  EXPECT_EQ(line["level"], "warning") << failed.err;
  EXPECT_EQ(line["task_id"], bad);
  EXPECT_EQ(line["queue"], "q");
  EXPECT_EQ(line["attempt"], 1);
  EXPECT_EQ(line["fence"].get<std::string>().size(), 15U);
  EXPECT_NE(line["message"].get<std::string>().find("exited with 3. The task is failed"), std::string::npos)
      << line;
}

TEST_F(JsonLog, ATaskRunHasItsTask) {
  const auto lines = lines_of(run({"task", "run", "--", "true"}).err);
  const auto task = event(lines, "task");
  ASSERT_FALSE(task.is_null());
  EXPECT_EQ(event(lines, "lock_acquired")["task_id"], task["task_id"]);
  EXPECT_EQ(event(lines, "command_exited")["exit_code"], 0);
  EXPECT_FALSE(event(lines, "lock_released").is_null());
}

TEST_F(JsonLog, ASidecarReportsTheLocksOfItsClients) {
  const auto sidecar =
      listening({.environment = {"HOLDFAST_LOG_FORMAT=json"}, .input = {}, .before_exec = {}});
  {
    auto client = connect();
    EXPECT_TRUE(client.result("lock.lock", {{"key", "deploy"}, {"holder", "job 7"}})["ok"]);
    EXPECT_EQ(client.error("lock.lock", {{"key", "deploy"}, {"waitMs", 500}})["data"]["code"],
              "AcquisitionTimeout");
  }
  ASSERT_TRUE(
      eventually([&] { return contents(sidecar->err()).find("lock_released") != std::string::npos; }));
  sidecar->signal(SIGTERM);
  const auto ended = sidecar->wait();
  EXPECT_EQ(ended.code, 0);
  const auto lines = lines_of(ended.err);
  EXPECT_EQ(event(lines, "listening")["command"], "rpc");
  EXPECT_EQ(event(lines, "lock_acquired")["backend"], "sqlite");
  EXPECT_EQ(event(lines, "lock_acquired")["fence"], "000000000000001");
  EXPECT_EQ(event(lines, "lock_refused")["holder"], "job 7");
  EXPECT_EQ(event(lines, "lock_released")["holder"], "job 7");
  EXPECT_EQ(ended.err.find("deploy"), std::string::npos) << ended.err;
}

TEST_F(JsonLog, AServerReportsItsAddress) {
  const auto where = file("serve.sock").string();
  const auto server =
      start({"--log-format", "json", "serve", "--listen", "unix:" + where, "--allow-actions"});
  EXPECT_EQ(http_get(where, "/healthz").status, 200);
  server->signal(SIGTERM);
  const auto ended = server->wait();
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(event(lines_of(ended.err), "listening")["address"], "unix:" + where);
}

TEST_F(JsonLog, AKeyThatHoldsAnotherKindOfValueIsHashed) {
  if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  const RedisServer server;
  server.raw().text({"HSET", "syncguard:deploy", "a", "b"});
  const auto result = run({"run", "deploy", "--", "true"}, {"--url", server.url()});
  EXPECT_NE(result.err.find("another type"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("deploy"), std::string::npos) << result.err;
}

TEST_F(JsonLog, AServerThatStaysAwayIsOneLine) {
  if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  std::optional<RedisServer> server(std::in_place);
  const auto running = start(
      {"--url", server->url(), "--log-format", "json", "run", "--ttl", "3", "deploy", "--", "sleep", "60"});
  ASSERT_TRUE(
      eventually([&] { return contents(running->err()).find("lock_acquired") != std::string::npos; }));
  server.reset();
  const auto ended = running->wait();
  EXPECT_EQ(ended.code, 79);
  int failed = 0;
  for (const auto& line : lines_of(ended.err)) failed += line["event"] == "reconnect_failed" ? 1 : 0;
  EXPECT_EQ(failed, 1) << ended.err;
}

TEST_F(JsonLog, TextStaysTheDefault) {
  EXPECT_EQ(holdfast({"run", "k", "--", "true"}).err, "");
  EXPECT_TRUE(holdfast({"lock", "show"}).err.starts_with("holdfast: "));
}

}  // namespace
}  // namespace holdfast::test
