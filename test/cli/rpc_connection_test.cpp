#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "rpc_client.hpp"
#include "support/paths.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

/// What a client may do wrong, and how the connection lives on.
class RpcConnection : public RpcTest {
 protected:
  static void expect_alive(RpcClient& client) {
    EXPECT_EQ(client.result("lock.isLocked", {{"key", "k"}}), false);
  }
  static json next(RpcClient& client) {
    const auto line = client.line();
    EXPECT_TRUE(line) << "no line came";
    return line ? json::parse(*line, nullptr, false) : json();
  }
  /// Sends requests without reading their answers until the sidecar takes no more; how many.
  static std::size_t fill(RpcClient& slow) {
    // Each answer is much longer than its request.
    const std::string request = R"({"jsonrpc":"2.0","id":1,"method":")" + std::string(90, 'x') +
                                R"("})"
                                "\n";
    std::string many;
    for (int i = 0; i < 500; ++i) many += request;
    std::size_t sent = 0;
    constexpr std::size_t enough = 64UL * 1024 * 1024;
    while (sent < enough) {
      const auto some = slow.send_some(std::string_view(many).substr(sent % request.size()));
      if (some == 0) break;
      sent += some;
    }
    EXPECT_LT(sent, enough) << "the sidecar took everything and keeps the answers";
    return sent / request.size();
  }
};

TEST_F(RpcConnection, BadLinesAreAnsweredAndItLivesOn) {
  auto sidecar = piped();
  auto& client = sidecar.client();
  for (const auto& [line, code] : std::vector<std::pair<std::string, int>>{
           {"hello", -32700},
           {"{\"jsonrpc\":\"2.0\",", -32700},
           {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}", -32700},
           {std::string("{\0}", 3), -32700},
           {"[]", -32600},
           {"{}", -32600},
           {"42", -32600}}) {
    client.send(line + "\n");
    const auto answer = next(client);
    EXPECT_EQ(answer["error"]["code"], code) << line;
    EXPECT_EQ(answer["id"], nullptr) << line;
  }
  expect_alive(client);
}

TEST_F(RpcConnection, EveryMethodIsInTheReference) {
  auto sidecar = piped();
  const auto reference = contents(source_dir() + "/docs/reference/rpc.md");
  const auto version = sidecar.client().result("holdfast.version");
  EXPECT_EQ(version["methods"].size(), 52U);
  for (const std::string method : version["methods"]) {
    EXPECT_NE(reference.find("| `" + method + "`"), std::string::npos) << method;
  }
}

TEST_F(RpcConnection, AnUnknownMethodIsNotFound) {
  auto sidecar = piped();
  auto& client = sidecar.client();
  EXPECT_EQ(client.error("lock.steal", {{"key", "k"}})["code"], -32601);
  client.notify("lock.steal", {{"key", "k"}});
  expect_alive(client);
}

TEST_F(RpcConnection, PositionalParametersAreRefusedByMethodsThatThereAre) {
  auto sidecar = piped();
  auto& client = sidecar.client();
  EXPECT_EQ(client.error("lock.isLocked", {"k"})["code"], -32602);
  EXPECT_EQ(client.error("lock.steal", {"k"})["code"], -32601);
  EXPECT_EQ(client.result("holdfast.version", json::array())["backend"], "sqlite");
  client.notify("lock.isLocked", {"k"});  // is not answered
  client.send(R"({"jsonrpc":"2.0","id":"next","method":"lock.isLocked","params":{"key":"k"}})"
              "\n");
  EXPECT_EQ(next(client)["id"], "next");
}

TEST_F(RpcConnection, AnOversizedLineIsAnsweredAndPassedOver) {
  auto sidecar = piped();
  auto& client = sidecar.client();
  const std::string part(1024 * 1024, 'x');
  client.send(R"({"jsonrpc":"2.0","id":1,"method":"lock.acquire","params":{"key":")");
  for (int i = 0; i < 20; ++i) client.send(part);
  client.send("\"}}\n");
  const auto answer = next(client);
  EXPECT_EQ(answer["error"]["code"], -32600);
  EXPECT_EQ(answer["id"], nullptr);
  expect_alive(client);
}

TEST_F(RpcConnection, IdsComeBackAsTheyWere) {
  auto sidecar = piped();
  auto& client = sidecar.client();
  for (const std::string id : {"1.50", "\"\\u00e9\"", "null", "123456789012345678901234567890", "\"\""}) {
    client.send(R"({"jsonrpc":"2.0","method":"lock.isLocked","params":{"key":"k"},"id":)" + id + "}\r\n\n");
    EXPECT_EQ(client.line(), R"({"jsonrpc":"2.0","id":)" + id + R"(,"result":false})");
  }
}

TEST_F(RpcConnection, ABatchIsAnsweredTogether) {
  auto sidecar = piped();
  auto& client = sidecar.client();
  client.send(R"([{"jsonrpc":"2.0","id":"a","method":"lock.isLocked","params":{"key":"k"}},)"
              R"({"jsonrpc":"2.0","method":"lock.isLocked","params":{"key":"k"}},)"
              R"({"jsonrpc":"2.0","id":"b","method":"nothing"},7])"
              "\n");
  const auto answers = next(client);
  ASSERT_TRUE(answers.is_array()) << answers;
  ASSERT_EQ(answers.size(), 3U);
  std::map<std::string, json> by_id;
  for (const auto& answer : answers) by_id[answer["id"].dump()] = answer;
  EXPECT_EQ(by_id["\"a\""]["result"], false);
  EXPECT_EQ(by_id["\"b\""]["error"]["code"], -32601);
  EXPECT_EQ(by_id["null"]["error"]["code"], -32600);
  // Notifications alone get no answer at all.
  client.send(R"([{"jsonrpc":"2.0","method":"lock.isLocked","params":{"key":"k"}}])"
              "\n");
  expect_alive(client);
}

TEST_F(RpcConnection, ABatchIsCarriedOutNoFasterThanSingleRequests) {
  if (auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  RedisServer redis;
  const auto server = start({"--url", redis.url(), "rpc", "--listen", socket().string()});
  auto client = connect();
  expect_alive(client);
  json batch = json::array();
  for (int i = 0; i < 200; ++i) {
    batch.push_back({{"jsonrpc", "2.0"}, {"id", i}, {"method", "lock.isLocked"}, {"params", {{"key", "k"}}}});
  }
  redis.pause();
  client.send(batch.dump() + "\n");
  ASSERT_TRUE(client.all_taken());
  server->signal(SIGTERM);
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(socket()); }));  // so it begins nothing new
  redis.resume();
  const auto answers = next(client);
  ASSERT_EQ(answers.size(), batch.size()) << answers;
  int carried_out = 0;
  for (const auto& answer : answers) {
    if (answer.contains("result")) {
      ++carried_out;
    } else {
      EXPECT_EQ(answer["error"]["data"]["code"], "Aborted") << answer;
    }
  }
  EXPECT_EQ(carried_out, 64);
  EXPECT_EQ(server->wait().code, 0);
}

TEST_F(RpcConnection, TheAnswersOfABatchHaveALimit) {
  auto sidecar = piped();
  auto& client = sidecar.client();
  const json variables{{"a", std::string(60'000, 'x')}, {"b", std::string(60'000, 'x')}};
  const auto task = client.result("task.create", {{"ownerId", "o"}, {"variables", variables}});
  const json get{{"jsonrpc", "2.0"},
                 {"id", 1},
                 {"method", "task.get"},
                 {"params", {{"ownerId", "o"}, {"taskId", task["task"]["taskId"]}}}};
  client.send(json(400, get).dump() + "\n");
  const auto answers = next(client);
  ASSERT_EQ(answers.size(), 400U);
  std::size_t refused = 0;
  for (const auto& answer : answers) {
    if (!answer.contains("error")) continue;
    ++refused;
    EXPECT_EQ(answer["error"]["data"]["code"], "RateLimited") << answer;
  }
  // 16 MiB, and what was under way then.
  EXPECT_GE(refused, 400U - 140 - 64);
  EXPECT_LT(refused, 400U - 130);
  EXPECT_EQ(client.result("task.get", get["params"])["variables"], variables);
}

TEST_F(RpcConnection, ManyRequestsAreUnderWayAtOnce) {
  auto sidecar = piped();
  auto& client = sidecar.client();
  const auto held = client.result("lock.lock", {{"key", "gate"}});
  std::vector<int> waiting;
  for (int i = 0; i < 300; ++i)
    waiting.push_back(client.request("lock.lock", {{"key", "gate"}, {"waitMs", 60000}}));
  EXPECT_EQ(client.result("lock.isLocked", {{"key", "gate"}}), true);
  for (const int id : waiting) client.notify("$/cancelRequest", {{"id", id}});
  for (const int id : waiting) EXPECT_EQ(client.answer(id)["error"]["data"]["code"], "Aborted");
  EXPECT_EQ(client.result("lock.release", {{"lockId", held["lockId"]}})["ok"], true);
  expect_alive(client);
}

TEST_F(RpcConnection, TooManyWaitsAreRefusedAndWhatEndsThemStillArrives) {
  auto sidecar = piped();
  auto& client = sidecar.client();
  const auto held = client.result("lock.lock", {{"key", "gate"}});
  std::vector<int> waiting;
  for (int i = 0; i < 1000; ++i)
    waiting.push_back(client.request("lock.lock", {{"key", "gate"}, {"waitMs", 60000}}));
  const auto error = client.error("lock.lock", {{"key", "gate"}, {"waitMs", 60000}});
  EXPECT_EQ(error["data"]["code"], "RateLimited");
  client.notify("$/cancelRequest", {{"id", waiting.back()}});
  EXPECT_EQ(client.answer(waiting.back())["error"]["data"]["code"], "Aborted");
  EXPECT_EQ(client.result("lock.release", {{"lockId", held["lockId"]}})["ok"], true);
}

TEST_F(RpcConnection, AClientThatDoesNotReadIsNotReadFrom) {
  const auto server = listening();
  auto slow = connect();
  const auto answered = fill(slow);
  // Others are served meanwhile, and it is itself once it reads.
  auto other = connect();
  expect_alive(other);
  for (std::size_t i = 0; i < answered; ++i) ASSERT_TRUE(slow.line()) << i << " of " << answered;
}

TEST_F(RpcConnection, TheEndOfStdinFinishesWhatWasAskedForAndReleasesWhatIsRenewed) {
  auto sidecar = piped();
  auto& client = sidecar.client();
  EXPECT_EQ(client.result("lock.lock", {{"key", "renewed"}, {"ttlMs", 600000}})["ok"], true);
  const auto plain = client.request("lock.acquire", {{"key", "plain"}, {"ttlMs", 600000}});
  const auto again = client.request("lock.lock", {{"key", "renewed"}, {"waitMs", 300}});
  client.stop_sending();
  EXPECT_EQ(client.answer(plain)["result"]["ok"], true);
  EXPECT_EQ(client.answer(again)["error"]["data"]["code"], "AcquisitionTimeout");
  EXPECT_TRUE(client.ended());
  const auto finished = sidecar.program().wait();
  EXPECT_EQ(finished.code, 0);
  EXPECT_EQ(finished.err, "");
  EXPECT_EQ(holdfast({"lock", "show", "renewed"}).code, 1);
  EXPECT_EQ(holdfast({"lock", "show", "plain"}).code, 0);
}

TEST_F(RpcConnection, WhenNobodyReadsStdoutItEnds) {
  auto sidecar = piped();
  auto& client = sidecar.client();
  EXPECT_EQ(client.result("lock.lock", {{"key", "k"}, {"ttlMs", 600000}})["ok"], true);
  client.request("lock.lock", {{"key", "k"}, {"waitMs", 3'600'000}});
  EXPECT_EQ(client.result("lock.isLocked", {{"key", "k"}}), true);
  client.close();
  EXPECT_EQ(sidecar.program().wait().code, 0);
  EXPECT_EQ(holdfast({"lock", "show", "k"}).code, 1);
}

TEST_F(RpcConnection, WhenNobodyReadsStdoutItEndsThoughStdinDoesNot) {
  Program pipeline(
      directory(),
      {"bash", "-c",
       R"(yes '{"jsonrpc":"2.0","id":1,"method":"lock.acquire","params":{"key":"k","ttlMs":60000}}' |
          "$HOLDFAST" rpc | head -n 1; exit "${PIPESTATUS[1]}")"},
      {.environment = {"HOLDFAST_URL=" + url(), "HOLDFAST=" + holdfast_program()}});
  EXPECT_EQ(pipeline.wait().code, 0);
  if (!pipeline.finished()) kill(-pipeline.pid(), SIGKILL);  // all of it
}

TEST_F(RpcConnection, StdinAndStdoutStayBlockingForWhoeverSharesThem) {
  auto sidecar = piped();
  expect_alive(sidecar.client());
  for (const char* fd : {"0", "1"}) {
    std::ifstream info("/proc/" + std::to_string(sidecar.program().pid()) + "/fdinfo/" + fd);
    std::string name;
    int flags = -1;
    while (info >> name && name != "flags:") {
    }
    ASSERT_TRUE(info >> std::oct >> flags);
    EXPECT_EQ(flags & O_NONBLOCK, 0) << "of the descriptor " << fd;
  }
}

TEST_F(RpcConnection, StdinAndStdoutMayBeFiles) {
  const auto result =
      holdfast({"rpc"}, {.input = R"({"jsonrpc":"2.0","id":1,"method":"lock.isLocked","params":{"key":"k"}})"
                                  "\n"
                                  R"({"jsonrpc":"2.0","id":2,"method":"holdfast.version"})"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_NE(result.out.find(R"({"jsonrpc":"2.0","id":1,"result":false})"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find(R"("backend":"sqlite")"), std::string::npos) << result.out;
}

TEST_F(RpcConnection, AFullDiskIsNoSuccess) {
  auto program = start({"rpc"}, {.input = "x\n", .before_exec = [] {
                                   const int full = ::open("/dev/full", O_WRONLY);
                                   dup2(full, STDOUT_FILENO);
                                 }});
  const auto result = program->wait();
  EXPECT_EQ(result.code, 70);
  EXPECT_NE(result.err.find("cannot write responses"), std::string::npos) << result.err;
}

TEST_F(RpcConnection, ASignalReleasesWhatIsRenewedAndEndsIt) {
  for (const int signal : {SIGTERM, SIGINT}) {
    auto sidecar = piped();
    auto& client = sidecar.client();
    EXPECT_EQ(client.result("lock.lock", {{"key", "k"}, {"ttlMs", 600000}})["ok"], true);
    const auto waiting = client.request("lock.lock", {{"key", "k"}, {"waitMs", 3'600'000}});
    EXPECT_EQ(client.result("lock.isLocked", {{"key", "k"}}), true);
    sidecar.program().signal(signal);
    EXPECT_EQ(client.answer(waiting)["error"]["data"]["code"], "Aborted");
    EXPECT_EQ(sidecar.program().wait().code, 0);
    EXPECT_EQ(holdfast({"lock", "show", "k"}).code, 1);
  }
}

/// The socket itself.
using RpcSocket = RpcConnection;

TEST_F(RpcSocket, IsForItsOwnerOnlyWhateverTheUmask) {
  for (const mode_t mask : {0U, 022U, 0777U}) {
    const auto server = start({"--url", "memory:", "rpc", "--listen", socket().string()},
                              {.before_exec = [mask] { umask(mask); }});
    auto client = connect();
    expect_alive(client);
    struct stat status{};
    ASSERT_EQ(lstat(socket().c_str(), &status), 0);
    EXPECT_TRUE(S_ISSOCK(status.st_mode));
    EXPECT_EQ(status.st_mode & 07777U, 0600U) << mask;
  }
}

TEST_F(RpcSocket, IsRemovedAtTheEnd) {
  const auto server = listening();
  auto client = connect();
  EXPECT_EQ(client.result("lock.lock", {{"key", "k"}, {"ttlMs", 600000}})["ok"], true);
  server->signal(SIGTERM);
  EXPECT_TRUE(client.ended());
  const auto finished = server->wait();
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_FALSE(std::filesystem::exists(socket()));
  EXPECT_EQ(holdfast({"lock", "show", "k"}).code, 1);
}

TEST_F(RpcSocket, ASignalEndsItThoughAClientDoesNotRead) {
  const auto server = listening();
  auto client = connect();
  EXPECT_EQ(client.result("lock.lock", {{"key", "renewed"}, {"ttlMs", 600000}})["ok"], true);
  fill(client);
  server->signal(SIGTERM);
  const auto finished = server->wait();
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(holdfast({"lock", "show", "renewed"}).code, 1);
}

TEST_F(RpcSocket, ASignalEndsASidecarThatNobodyUses) {
  const auto server = listening();
  server->signal(SIGTERM);
  EXPECT_EQ(server->wait().code, 0);
  EXPECT_FALSE(std::filesystem::exists(socket()));
}

TEST_F(RpcSocket, ADeadOneIsReplaced) {
  {
    const auto server = listening();
    server->signal(SIGKILL);
    (void)server->wait();
  }
  ASSERT_TRUE(std::filesystem::exists(socket()));
  const auto server = start({"rpc", "--listen", socket().string()});
  auto client = connect();
  expect_alive(client);
}

TEST_F(RpcSocket, MayBeWrittenAsTheAddressThatOtherOptionsTake) {
  const auto server = start({"rpc", "--listen", "unix:" + socket().string()});
  auto client = connect();
  expect_alive(client);
}

TEST_F(RpcSocket, OneThatSomebodyListensOnIsNotTakenOver) {
  const auto server = listening();
  const auto second = holdfast({"rpc", "--listen", socket().string()});
  EXPECT_EQ(second.code, 64);
  EXPECT_NE(second.err.find("another process already listens there"), std::string::npos) << second.err;
  auto client = connect();
  expect_alive(client);
}

TEST_F(RpcSocket, WhatIsNoSocketIsLeftAlone) {
  std::ofstream(socket()) << "precious";
  const auto result = holdfast({"rpc", "--listen", socket().string()});
  EXPECT_EQ(result.code, 64);
  EXPECT_NE(result.err.find("is not a socket"), std::string::npos) << result.err;
  EXPECT_EQ(contents(socket()), "precious");
}

TEST_F(RpcSocket, APathThatCannotBeOneIsRefusedWithTheReason) {
  EXPECT_EQ(holdfast({"rpc", "--listen", file(std::string(120, 'x')).string()}).code, 64);
  EXPECT_EQ(holdfast({"rpc", "--listen", file("no/such/directory").string()}).code, 64);
  EXPECT_EQ(holdfast({"rpc", "--listen", ""}).code, 64);
}

TEST_F(RpcSocket, OfManyThatStartAtOnceOneServes) {
  std::vector<std::unique_ptr<Program>> starters;
  for (int i = 0; i < 6; ++i) starters.push_back(start({"rpc", "--listen", socket().string()}));
  EXPECT_TRUE(eventually([&] {
    int refused = 0;
    for (const auto& starter : starters) refused += starter->finished() ? 1 : 0;
    return refused == 5;
  }));
  auto client = connect();
  expect_alive(client);
}

TEST_F(RpcSocket, MoreClientsThanItMayHaveAreTurnedAwayWithTheReason) {
  const auto server = listening();
  std::vector<RpcClient> clients;
  while (clients.size() < 200) {
    clients.push_back(connect());
    expect_alive(clients.back());
  }
  auto one_more = connect();
  EXPECT_EQ(next(one_more)["error"]["data"]["code"], "RateLimited");
  EXPECT_TRUE(one_more.ended());
  clients.pop_back();
  EXPECT_TRUE(eventually([&] {
    auto another = connect();
    another.send(R"({"jsonrpc":"2.0","id":1,"method":"holdfast.version"})"
                 "\n");
    return another.has_answer(1, milliseconds(2000));
  }));
}

}  // namespace
}  // namespace holdfast::test
