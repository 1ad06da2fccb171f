// Who holds a lock, as the command line shows it.

#include <unistd.h>

#include <holdfast/lock_types.hpp>
#include <nlohmann/json.hpp>
#include <optional>

#include "output_parts.hpp"
#include "program.hpp"
#include "rpc_client.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

using nlohmann::json;

/// On an engine whose locks several processes share.
class Holders : public CliTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() != std::string("redis")) return;
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
  }
  [[nodiscard]] std::string where() const { return server ? server->url() : url(); }
  [[nodiscard]] Program::Options there(std::vector<std::string> more = {}) const {
    more.push_back("HOLDFAST_URL=" + where());
    return {.environment = std::move(more), .input = {}, .before_exec = {}};
  }
  Finished run(std::vector<std::string> typed, std::vector<std::string> environment = {}) const {
    return holdfast(std::move(typed), there(std::move(environment)));
  }
  void acquire(const std::string& key, std::vector<std::string> options = {},
               std::vector<std::string> environment = {}) const {
    options.insert(options.end(), {"lock", "acquire", "-n", "--ttl", "10m", key});
    const auto result = run(std::move(options), std::move(environment));
    EXPECT_EQ(result.code, 0) << result.err;
  }
  [[nodiscard]] json holder_of(const std::string& key) const {
    const auto shown = json::parse(run({"--json", "lock", "show", key}).out, nullptr, false);
    return shown.is_object() ? shown.value("holder", json()) : json("(not held)");
  }

  std::optional<RedisServer> server;
};

INSTANTIATE_TEST_SUITE_P(Engines, Holders, testing::Values("sqlite", "redis"),
                         [](const auto& parameter) { return std::string(parameter.param); });

TEST_P(Holders, ARunningCommandIsNamedWithoutItsArguments) {
  const auto ready = file("ready").string();
  const auto script = "touch " + ready + "; exec sleep 60 # --password=secret";
  const auto running = start({"run", "deploy", "--", "/bin/sh", "-c", script}, there());
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(ready); }));
  const std::string label = holder_of("deploy");
  const auto own = LockHolder::of_this_process()->str();
  EXPECT_EQ(label, own.substr(0, own.rfind(':')) + ":" + std::to_string(running->pid()) + " sh");

  const auto refused = run({"run", "-n", "deploy", "--", "true"});
  EXPECT_EQ(refused.code, 75);
  EXPECT_TRUE(refused.err.starts_with("holdfast: \"deploy\" is held by " + label + " (lease "))
      << refused.err;
  EXPECT_NE(refused.err.find("). Omit -n to wait"), std::string::npos) << refused.err;
  EXPECT_NE(run({"lock", "list"}).out.find("  " + label + "  "), std::string::npos);
  EXPECT_NE(run({"lock", "show", "deploy"}).out.find(label + "\n"), std::string::npos);
  const auto broken = run({"lock", "break", "deploy", "--reason", "a test"});
  EXPECT_NE(broken.out.find(label + "\n"), std::string::npos) << broken.out;
  EXPECT_NE(broken.err.find("the lock \"deploy\", held by " + label + ", was broken: a test"),
            std::string::npos)
      << broken.err;
  running->signal(SIGTERM);
  (void)running->wait();
}

/// Processes of two machines, as far as a label tells them apart.
TEST_P(Holders, OfTwoMachinesAreToldApart) {
  const auto runs_on = [&](const std::string& host, const std::string& key) {
    const auto ready = file(host).string();
    auto running = start({"run", key, "--", "sh", "-c", "touch " + ready + "; exec sleep 60"},
                         there({"HOLDFAST_HOLDER=deploy@" + host + ":812 make"}));
    EXPECT_TRUE(eventually([&] { return std::filesystem::exists(ready); }));
    return running;
  };
  const auto one = runs_on("web-3", "deploy:web");
  const auto other = runs_on("db-1", "deploy:db");
  const auto listed = run({"lock", "list"}).out;
  EXPECT_NE(listed.find("deploy@web-3:812 make"), std::string::npos) << listed;
  EXPECT_NE(listed.find("deploy@db-1:812 make"), std::string::npos) << listed;

  // Each is refused the lock of the other, and told whose it is.
  const auto refused =
      run({"run", "-n", "deploy:db", "--", "true"}, {"HOLDFAST_HOLDER=deploy@web-3:900 make"});
  EXPECT_EQ(refused.code, 75);
  EXPECT_TRUE(refused.err.starts_with("holdfast: \"deploy:db\" is held by deploy@db-1:812 make (lease "))
      << refused.err;
  const auto as_json = run({"--json", "run", "-n", "deploy:web", "--", "true"});
  EXPECT_EQ(json::parse(as_json.err)["error"]["holder"], "deploy@web-3:812 make") << as_json.err;
  EXPECT_EQ(json::parse(as_json.err)["error"]["code"], "AcquisitionTimeout");
  const auto claimed = run({"--json", "lock", "acquire", "-n", "deploy:web"});
  EXPECT_EQ(json::parse(claimed.out)["holder"], "deploy@web-3:812 make");

  const auto broken = run({"lock", "break", "deploy:web", "--reason", "its machine is down"});
  EXPECT_EQ(broken.code, 0);
  EXPECT_NE(broken.out.find("deploy@web-3:812 make\n"), std::string::npos) << broken.out;
  EXPECT_NE(broken.err.find("held by deploy@web-3:812 make, was broken: its machine is down"),
            std::string::npos)
      << broken.err;
  EXPECT_EQ(holder_of("deploy:db"), "deploy@db-1:812 make") << "the other one is still held";
  for (const auto& running : {&one, &other}) {
    (*running)->signal(SIGTERM);
    (void)(*running)->wait();
  }
}

/// The process that acquires a lock ends at once: its caller is who an operator looks for.
TEST_P(Holders, OfADetachedLockAreTheCallersOfTheCommand) {
  acquire("deploy");
  EXPECT_EQ(holder_of("deploy"), LockHolder::of_this_process()->str());
}

TEST_P(Holders, AreShownWithTheNumberOfProcessesThatWait) {
  acquire("deploy");
  const auto waiters = [&] {
    return json::parse(run({"--json", "lock", "show", "deploy"}).out, nullptr, false)
        .value("waiters", json());
  };
  EXPECT_EQ(waiters(), 0);
  const auto one = start({"lock", "acquire", "-w", "60", "deploy"}, there());
  const auto other = start({"lock", "acquire", "-w", "60", "deploy"}, there());
  EXPECT_TRUE(eventually([&] { return waiters() == 2; })) << waiters();
  EXPECT_EQ(json::parse(run({"--json", "lock", "list"}).out).at("waiters"), 2);
  EXPECT_NE(run({"lock", "list"}).out.find("  2  "), std::string::npos);
  EXPECT_NE(run({"lock", "show", "deploy"}).out.find("waiters     2\n"), std::string::npos);
  for (const auto& waiting : {&one, &other}) {
    (*waiting)->signal(SIGKILL);
    (void)(*waiting)->wait();
  }
  EXPECT_TRUE(eventually([&] { return waiters() == 0; })) << "killed waiters do not count";
}

TEST_P(Holders, AreChosenByOptionUrlOrEnvironmentInThisOrder) {
  acquire("environment", {}, {"HOLDFAST_HOLDER=pod-7"});
  EXPECT_EQ(holder_of("environment"), "pod-7");
  const auto in_url =
      where() + (where().find('?') == std::string::npos ? "?" : "&") + "holder=from%20the%20url";
  acquire("url", {"--url", in_url}, {"HOLDFAST_HOLDER=pod-7"});
  EXPECT_EQ(holder_of("url"), "from the url");
  acquire("option", {"--url", in_url, "--holder", "nightly job"}, {"HOLDFAST_HOLDER=pod-7"});
  EXPECT_EQ(holder_of("option"), "nightly job");
  acquire("none", {"--holder", "none"}, {"HOLDFAST_HOLDER=pod-7"});
  EXPECT_EQ(holder_of("none"), nullptr);
  EXPECT_NE(run({"lock", "list"}).out.find("  -  "), std::string::npos);
  const auto refused = run({"lock", "acquire", "-n", "none"});
  EXPECT_NE(refused.err.find("\"none\" is already held (lease "), std::string::npos) << refused.err;
  for (const auto& bad : {std::string(257, 'x'), std::string("\xFF"), std::string()}) {
    EXPECT_EQ(run({"--holder", bad, "lock", "acquire", "-n", "bad"}).code, 64);
  }
  EXPECT_EQ(run({"lock", "acquire", "-n", "bad"}, {"HOLDFAST_HOLDER=" + std::string(257, 'x')}).code, 64);
}

TEST_P(Holders, AHostileLabelCannotForgeOutput) {
  const std::string evil = "\nholdfast: all is well\x1B[2J\u202E\u2028";
  const std::string shown = "\\x0aholdfast: all is well\\x1b[2J\\xe2\\x80\\xae\\xe2\\x80\\xa8";
  acquire("k", {"--holder", evil});
  for (const auto& typed :
       std::vector<std::vector<std::string>>{{"lock", "list"},
                                             {"lock", "show", "k"},
                                             {"lock", "acquire", "-n", "k"},
                                             {"run", "-n", "k", "--", "true"},
                                             {"lock", "break", "k", "--reason", "a test"}}) {
    const auto result = run(typed);
    const auto all = result.out + result.err;
    EXPECT_NE(all.find(shown), std::string::npos) << all;
    EXPECT_EQ(all.find('\x1B'), std::string::npos) << all;
    EXPECT_EQ(all.find("\xE2\x80"), std::string::npos) << all;
    EXPECT_EQ(all.find("\nholdfast: all"), std::string::npos) << all;
  }
}

class RpcHolders : public RpcTest {};

TEST_F(RpcHolders, AreTheClientsNotTheSidecars) {
  auto process = piped();
  auto& client = process.client();
  const auto own = LockHolder::of_this_process()->str();
  EXPECT_TRUE(client.result("lock.acquire", {{"key", "k"}, {"ttlMs", 30000}})["ok"]);
  EXPECT_EQ(client.result("lock.lookup", {{"key", "k"}})["holder"], own) << "the process that started it";
  EXPECT_EQ(client.result("lock.acquire", {{"key", "k"}, {"ttlMs", 30000}}),
            (json{{"ok", false}, {"reason", "locked"}, {"holder", own}}));
  const auto error = client.error("lock.lock", {{"key", "k"}, {"waitMs", 10}});
  EXPECT_EQ(error["data"]["code"], "AcquisitionTimeout");
  EXPECT_EQ(error["data"]["holder"], own);

  EXPECT_TRUE(client.result("lock.lock", {{"key", "chosen"}, {"holder", "job 7"}})["ok"]);
  EXPECT_EQ(client.result("lock.lookup", {{"key", "chosen"}})["holder"], "job 7");
  EXPECT_TRUE(client.result("lock.lock", {{"key", "none"}, {"holder", "none"}})["ok"]);
  EXPECT_FALSE(client.result("lock.lookup", {{"key", "none"}}).contains("holder"));
  EXPECT_EQ(client.error("lock.lock", {{"key", "long"}, {"holder", std::string(257, 'x')}})["data"]["code"],
            "InvalidArgument");

  const auto task = client.result("task.create", {{"ownerId", "alice"}});
  const auto claim = client.result(
      "task.claim", {{"ownerId", "alice"}, {"taskId", task["task"]["taskId"]}, {"holder", "worker 3"}});
  EXPECT_EQ(client.result("lock.lookup", {{"lockId", claim["lockId"]}})["holder"], "worker 3");
}

TEST_F(RpcHolders, OfASocketAreThoseOfTheConnectedProcess) {
  const auto sidecar = listening();
  auto client = connect();
  EXPECT_TRUE(client.result("lock.lock", {{"key", "k"}})["ok"]);
  EXPECT_EQ(client.result("lock.lookup", {{"key", "k"}})["holder"], LockHolder::of_this_process()->str());
}

TEST_F(RpcHolders, AreTheSidecarsIfItWasGivenOne) {
  const auto sidecar = listening({.environment = {"HOLDFAST_HOLDER=pod-7"}, .input = {}, .before_exec = {}});
  auto client = connect();
  EXPECT_TRUE(client.result("lock.lock", {{"key", "k"}})["ok"]);
  EXPECT_EQ(client.result("lock.lookup", {{"key", "k"}})["holder"], "pod-7");
}

}  // namespace
}  // namespace holdfast::test
