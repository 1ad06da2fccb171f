#include <csignal>
#include <nlohmann/json.hpp>

#include "program.hpp"
#include "pty.hpp"
#include "support/paths.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

class TopCommand : public CliTest {
 protected:
  void make_a_lock_and_a_task(const std::vector<std::string>& store) const {
    const auto with = [&](std::vector<std::string> arguments) {
      arguments.insert(arguments.begin(), store.begin(), store.end());
      const auto done = holdfast(std::move(arguments));
      EXPECT_EQ(done.code, 0) << done.err;
    };
    with({"--holder", "alice@web-3:812 make", "lock", "acquire", "deploy", "--ttl", "60"});
    with({"task", "create", "--owner", "bob", "--method", "report"});
  }
  void expect_shown(const std::vector<std::string>& store, const std::string& engine) const {
    auto arguments = store;
    arguments.emplace_back("top");
    arguments.emplace_back("--once");
    const auto plain = holdfast(arguments);
    EXPECT_EQ(plain.code, 0) << plain.err;
    EXPECT_NE(plain.out.find("deploy  alice@web-3:812 make  "), std::string::npos) << plain.out;
    EXPECT_NE(plain.out.find("report"), std::string::npos) << plain.out;
    EXPECT_EQ(plain.out.find('\x1b'), std::string::npos);

    arguments = store;
    arguments.emplace_back("--json");
    arguments.emplace_back("top");
    const auto as_json = holdfast(arguments);
    EXPECT_EQ(as_json.code, 0) << as_json.err;
    const auto snapshot = nlohmann::json::parse(as_json.out);
    EXPECT_EQ(snapshot["engine"], engine);
    EXPECT_EQ(snapshot["lockCount"], 1);
    EXPECT_EQ(snapshot["tasksByStatus"]["working"], 1);
    EXPECT_EQ(snapshot["locks"][0]["key"], "deploy");
    EXPECT_EQ(snapshot["locks"][0]["holder"], "alice@web-3:812 make");
    EXPECT_EQ(snapshot["locks"][0]["fence"], "000000000000001");
    EXPECT_EQ(snapshot["tasks"][0]["ownerId"], "bob");
    EXPECT_EQ(snapshot["tasks"][0]["requestMethod"], "report");
    EXPECT_EQ(snapshot["tasks"][0]["hasWorker"], false);
  }
};

TEST_F(TopCommand, PrintsAFileOnceWithoutATerminal) {
  make_a_lock_and_a_task({});
  expect_shown({}, "sqlite");
}

TEST_F(TopCommand, PrintsARedisServerOnceWithoutATerminal) {
  const RedisServer server;
  const std::vector<std::string> store{"--url", server.url()};
  make_a_lock_and_a_task(store);
  expect_shown(store, "redis");
}

TEST_F(TopCommand, AnEmptyStoreIsNotAnError) {
  const auto done = holdfast({"top"});
  EXPECT_EQ(done.code, 0);
  EXPECT_EQ(done.out, "");
  EXPECT_NE(done.err.find("no lock is held"), std::string::npos) << done.err;
}

TEST_F(TopCommand, ShowsWhatAUserOfRedisMayRead) {
  RedisServer::Options options;
  options.config = {"user locks on >sesame ~syncguard:* &* +@all",
                    "user stranger on >sesame ~other:* &* +@all"};
  const RedisServer server(options);
  make_a_lock_and_a_task({"--url", server.url()});
  const auto url_of = [&](const std::string& user) {
    return "redis://" + user + ":sesame@127.0.0.1:" + std::to_string(server.port());
  };
  const auto plain = holdfast({"--url", url_of("locks"), "top", "--once"});
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_NE(plain.out.find("deploy"), std::string::npos) << plain.out;
  EXPECT_NE(plain.err.find("may not read tasks"), std::string::npos) << plain.err;
  const auto as_json = holdfast({"--url", url_of("locks"), "--json", "top"});
  EXPECT_EQ(as_json.code, 0) << as_json.err;
  EXPECT_TRUE(nlohmann::json::parse(as_json.out).at("taskCount").is_null()) << as_json.out;
  EXPECT_EQ(holdfast({"--url", url_of("stranger"), "top", "--once"}).code, 77);
}

TEST_F(TopCommand, AnIntervalThatIsTooShortIsRefused) {
  EXPECT_EQ(holdfast({"top", "--interval", "0.01"}).code, 64);
}

TEST_F(TopCommand, OnATerminalItShowsBreaksAndLeavesTheScreenAsItWas) {
  make_a_lock_and_a_task({});
  Pty terminal({holdfast_program(), "--url", url(), "top"}, {"TERM=xterm", "LC_ALL=C.UTF-8", "NO_COLOR=1"});
  ASSERT_TRUE(terminal.shows("\x1b[?1049h")) << terminal.screen();
  ASSERT_TRUE(terminal.shows("deploy")) << terminal.screen();
  ASSERT_TRUE(terminal.shows("alice@web-3:812 make")) << terminal.screen();
  terminal.type("b");
  ASSERT_TRUE(terminal.shows("Reason: ")) << terminal.screen();
  terminal.type("web-3 is down\r");
  // The view may hear of the break before the break is answered.
  ASSERT_TRUE(terminal.shows_all({"broken: \"deploy\", fence 1", "no lock is held"})) << terminal.screen();
  terminal.type("2c");
  ASSERT_TRUE(terminal.shows("Cancel it?")) << terminal.screen();
  terminal.type("y");
  ASSERT_TRUE(terminal.shows("cancelled")) << terminal.screen();
  terminal.type("q");
  ASSERT_TRUE(terminal.shows("\x1b[?1049l")) << terminal.screen();
  // What the library logged while the screen was in use.
  ASSERT_TRUE(terminal.shows("was broken: web-3 is down")) << terminal.screen();
  EXPECT_EQ(terminal.screen().find("\x1b[32m"), std::string::npos);
  EXPECT_EQ(holdfast({"lock", "show", "deploy"}).code, 1);
}

TEST_F(TopCommand, ASignalLeavesTheScreenAsItWas) {
  Pty terminal({holdfast_program(), "--url", url(), "top"}, {"TERM=xterm"});
  ASSERT_TRUE(terminal.shows("no lock is held")) << terminal.screen();
  kill(terminal.pid(), SIGTERM);
  ASSERT_TRUE(terminal.shows("\x1b[?25h\x1b[?1049l")) << terminal.screen();
}

}  // namespace
}  // namespace holdfast::test
