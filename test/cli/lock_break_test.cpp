#include <nlohmann/json.hpp>
#include <optional>

#include "program.hpp"
#include "pty.hpp"
#include "support/paths.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

using nlohmann::json;

/// On an engine whose locks several processes share.
class LockBreak : public CliTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() != std::string("redis")) return;
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
  }
  [[nodiscard]] std::string where() const { return server ? server->url() : url(); }
  [[nodiscard]] Program::Options there() const {
    return {.environment = {"HOLDFAST_URL=" + where()}, .input = {}, .before_exec = {}};
  }
  Finished run(std::vector<std::string> typed) const { return holdfast(std::move(typed), there()); }
  [[nodiscard]] json acquire(const std::string& key) const {
    const auto result = run({"--json", "lock", "acquire", "-n", "--ttl", "10m", key});
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out, nullptr, false);
  }
  Finished break_lock(const std::string& key, std::vector<std::string> more = {}) const {
    std::vector<std::string> typed{"--json", "lock", "break", key, "--reason", "a test"};
    typed.insert(typed.end(), more.begin(), more.end());
    return run(typed);
  }
  [[nodiscard]] static std::uint64_t fence_of(const json& lock) {
    return std::stoull(lock.at("fence").get<std::string>());
  }

  std::optional<RedisServer> server;
};

TEST_P(LockBreak, TakesTheLockWithoutTouchingTheFenceCounter) {
  const auto first = acquire("k");
  const auto broken = break_lock("k");
  EXPECT_EQ(broken.code, 0) << broken.err;
  const auto told = json::parse(broken.out);
  EXPECT_EQ(told.at("ok"), true);
  EXPECT_EQ(told.at("fence"), first.at("fence"));
  EXPECT_EQ(told.at("expiresAtMs"), first.at("expiresAtMs"));
  EXPECT_EQ(told.at("key"), "k");
  for (const char* name : {"keyHash", "lockIdHash", "acquiredAtMs"}) EXPECT_TRUE(told.contains(name)) << name;
  EXPECT_FALSE(told.contains("lockId"));
  EXPECT_EQ((broken.out + broken.err).find(first.at("lockId").get<std::string>()), std::string::npos);
  EXPECT_NE(broken.err.find("a test"), std::string::npos) << "the log: " << broken.err;

  EXPECT_EQ(run({"lock", "show", "k"}).code, 1);
  EXPECT_EQ(run({"lock", "release", first.at("lockId")}).code, 1) << "it bounces";
  const auto second = acquire("k");
  EXPECT_EQ(fence_of(second), fence_of(first) + 1);
  EXPECT_EQ(run({"lock", "release", first.at("lockId")}).code, 1);
  EXPECT_EQ(run({"lock", "owns", "k", second.at("lockId")}).code, 0) << "the next holder is untouched";
}

TEST_P(LockBreak, AWaiterGetsTheLock) {
  const auto first = acquire("k");
  auto waiter = start({"--json", "lock", "acquire", "-w", "60", "k"}, there());
  ASSERT_EQ(break_lock("k").code, 0);
  const auto second = waiter->wait();
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(fence_of(json::parse(second.out)), fence_of(first) + 1);
}

TEST_P(LockBreak, ARunThatHeldItEndsItsCommand) {
  auto holder =
      start({"run", "--ttl", "1", "k", "--", "sh", "-c", "echo $$ > $DIR/holder; exec sleep 60"}, there());
  const auto command = pid_in(file("holder"));
  ASSERT_EQ(break_lock("k").code, 0);
  const auto ended = holder->wait();
  EXPECT_EQ(ended.code, 79) << ended.err;
  EXPECT_FALSE(alive(command));
}

TEST_P(LockBreak, BreaksOnlyTheLockWithTheFenceThatIsNamed) {
  const auto first = acquire("k");
  ASSERT_EQ(run({"lock", "release", first.at("lockId")}).code, 0);
  const auto second = acquire("k");
  const auto missed = break_lock("k", {"--fence", first.at("fence")});
  EXPECT_EQ(missed.code, 1);
  EXPECT_EQ(json::parse(missed.out), json({{"ok", false}, {"reason", "other-fence"}}));
  const auto in_words = run({"lock", "break", "k", "--reason", "a test", "--fence", first.at("fence")});
  EXPECT_NE(in_words.err.find("is now held with the fence " + second.at("fence").get<std::string>()),
            std::string::npos)
      << in_words.err;
  EXPECT_EQ(run({"lock", "owns", "k", second.at("lockId")}).code, 0);
  EXPECT_EQ(break_lock("k", {"--fence", std::to_string(fence_of(second))}).code, 0);
}

TEST_P(LockBreak, WhatNobodyHoldsIsNotBroken) {
  const auto result = break_lock("k");
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(json::parse(result.out), json({{"ok", false}, {"reason", "not-found"}}));
  EXPECT_EQ(result.err, "");
  const auto in_words = run({"lock", "break", "k", "--reason", "a test"});
  EXPECT_EQ(in_words.code, 1);
  EXPECT_EQ(in_words.err, "holdfast: \"k\" is not held\n");
}

INSTANTIATE_TEST_SUITE_P(Engines, LockBreak, testing::Values("sqlite", "redis"),
                         [](const auto& engine) { return std::string(engine.param); });

/// A person before a terminal.
class LockBreakTerminal : public CliTest {
 protected:
  [[nodiscard]] json acquire(const std::string& key) const {
    return json::parse(holdfast({"--json", "lock", "acquire", "-n", "--ttl", "10m", key}).out);
  }
  [[nodiscard]] Pty break_lock(std::vector<std::string> more = {}) const {
    std::vector<std::string> command{holdfast_program(), "lock", "break", "k", "--reason", "a test"};
    command.insert(command.end(), more.begin(), more.end());
    // So that the screen shows how it ended.
    std::string script;
    for (const auto& word : command) script += "'" + word + "' ";
    return Pty({"sh", "-c", script + "; echo code=$?."}, {"HOLDFAST_URL=" + url()});
  }
};

TEST_F(LockBreakTerminal, IsShownWhoHoldsTheLockAndAsked) {
  const auto lock = acquire("k");
  const auto shown = json::parse(holdfast({"--json", "lock", "show", "k"}).out);
  auto terminal = break_lock();
  EXPECT_TRUE(terminal.shows("with the fence " + lock.at("fence").get<std::string>())) << terminal.screen();
  EXPECT_TRUE(terminal.shows(shown.at("lockIdHash"))) << terminal.screen();
  EXPECT_TRUE(terminal.shows("[y/N] ")) << terminal.screen();
  EXPECT_EQ(holdfast({"lock", "show", "k"}).code, 0) << "not yet";
  terminal.type("y\n");
  EXPECT_TRUE(terminal.shows("code=0.")) << terminal.screen();
  EXPECT_EQ(holdfast({"lock", "show", "k"}).code, 1);
  EXPECT_EQ(terminal.screen().find(lock.at("lockId").get<std::string>()), std::string::npos);
}

TEST_F(LockBreakTerminal, AnythingButYesIsANo) {
  const auto lock = acquire("k");
  for (const std::string answer : {"n\n", "\n", "yes please\n", "\x04"}) {
    auto terminal = break_lock();
    ASSERT_TRUE(terminal.shows("[y/N] ")) << terminal.screen();
    terminal.type(answer);
    EXPECT_TRUE(terminal.shows("nothing was changed")) << answer << terminal.screen();
    EXPECT_TRUE(terminal.shows("code=1.")) << terminal.screen();
  }
  EXPECT_EQ(holdfast({"lock", "owns", "k", lock.at("lockId")}).code, 0);
}

TEST_F(LockBreakTerminal, TheAnswerIsAboutTheLockThatWasShown) {
  const auto first = acquire("k");
  auto terminal = break_lock();
  ASSERT_TRUE(terminal.shows("[y/N] ")) << terminal.screen();
  ASSERT_EQ(holdfast({"lock", "release", first.at("lockId")}).code, 0);
  const auto second = acquire("k");
  terminal.type("yes\n");
  EXPECT_TRUE(terminal.shows("is now held with the fence")) << terminal.screen();
  EXPECT_TRUE(terminal.shows("code=1.")) << terminal.screen();
  EXPECT_EQ(holdfast({"lock", "owns", "k", second.at("lockId")}).code, 0);
}

TEST_F(LockBreakTerminal, IsNotAskedWithYesNorAboutALockThatIsNotHeld) {
  auto nobodys = break_lock();
  EXPECT_TRUE(nobodys.shows("\"k\" is not held")) << nobodys.screen();
  EXPECT_TRUE(nobodys.shows("code=1.")) << nobodys.screen();
  (void)acquire("k");
  auto decided = break_lock({"--yes"});
  EXPECT_TRUE(decided.shows("code=0.")) << decided.screen();
  for (const auto* terminal : {&nobodys, &decided}) {
    EXPECT_EQ(terminal->screen().find("[y/N]"), std::string::npos) << terminal->screen();
  }
  EXPECT_EQ(holdfast({"lock", "show", "k"}).code, 1);
}

}  // namespace
}  // namespace holdfast::test
