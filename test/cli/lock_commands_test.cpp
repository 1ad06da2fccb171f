#include <fstream>
#include <holdfast/lock_types.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "output_parts.hpp"
#include "program.hpp"
#include "pty.hpp"
#include "support/paths.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

using nlohmann::json;

class LockCommands : public CliTest {
 protected:
  json acquire(const std::string& key, const std::string& ttl = "30") {
    const auto result = holdfast({"--json", "lock", "acquire", "-n", "--ttl", ttl, key});
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out);
  }
};

TEST_F(LockCommands, AcquirePrintsWhatReleaseAndExtendNeed) {
  const auto lock = acquire("orders:42");
  EXPECT_EQ(member_names(lock), (std::vector<std::string>{"expiresAtMs", "fence", "key", "lockId"}));
  EXPECT_EQ(lock["key"], "orders:42");
  EXPECT_EQ(lock["fence"].get<std::string>().size(), 15U);
  const auto id = lock["lockId"].get<std::string>();

  const auto extended = holdfast({"--json", "lock", "extend", id, "--ttl", "5m"});
  EXPECT_EQ(extended.code, 0);
  const auto answer = json::parse(extended.out);
  EXPECT_EQ(member_names(answer), (std::vector<std::string>{"expiresAtMs", "ok"}));
  EXPECT_EQ(answer["ok"], true);
  EXPECT_GT(answer["expiresAtMs"].get<std::int64_t>(), lock["expiresAtMs"].get<std::int64_t>() + 200'000);

  const auto released = holdfast({"--json", "lock", "release", id});
  EXPECT_EQ(released.code, 0);
  EXPECT_EQ(json::parse(released.out), json({{"ok", true}}));
  const auto again = holdfast({"--json", "lock", "release", id});
  EXPECT_EQ(again.code, 1);
  EXPECT_EQ(json::parse(again.out), json({{"ok", false}, {"reason", "not-found"}}));
}

TEST_F(LockCommands, AHeldLockIsNotAcquiredTwice) {
  const auto first = acquire("k");
  const auto second = holdfast({"--json", "lock", "acquire", "-n", "k"});
  EXPECT_EQ(second.code, 75);
  const auto refusal = json::parse(second.out);
  EXPECT_EQ(member_names(refusal), (std::vector<std::string>{"holder", "ok", "reason"}));
  EXPECT_EQ(refusal["ok"], false);
  EXPECT_EQ(refusal["reason"], "locked");
  EXPECT_EQ(holdfast({"lock", "acquire", "-w", "0", "k"}).code, 75);
  EXPECT_EQ(holdfast({"lock", "acquire", "-w", "0.2", "-E", "9", "k"}).code, 9);
}

TEST_F(LockCommands, AcquireWaitsUntilTheLockIsReleased) {
  const auto first = acquire("k");
  auto waiter = start({"--json", "lock", "acquire", "-w", "60", "k"});
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(waiter->finished());
  EXPECT_EQ(holdfast({"lock", "release", first["lockId"]}).code, 0);
  const auto second = json::parse(waiter->wait().out);
  EXPECT_GT(second["fence"].get<std::string>(), first["fence"].get<std::string>());
}

TEST_F(LockCommands, AcquirePrintsTheIdAloneWhereNobodyReadsATable) {
  const auto acquired = holdfast({"lock", "acquire", "-n", "k"});
  EXPECT_EQ(acquired.code, 0) << acquired.err;
  EXPECT_EQ(acquired.err, "");
  ASSERT_EQ(acquired.out.size(), LockId::length + 1) << acquired.out;
  EXPECT_EQ(holdfast({"lock", "release", acquired.out.substr(0, LockId::length)}).code, 0);
}

TEST_F(LockCommands, AcquireOnATerminalShowsMoreUnlessItIsToBeQuiet) {
  const std::vector<std::string> environment{"HOLDFAST_URL=" + url(), "TERM=dumb"};
  Pty table({holdfast_program(), "lock", "acquire", "-n", "k"}, environment);
  EXPECT_TRUE(table.shows("fence    000000000000001")) << table.screen();
  Pty quiet({holdfast_program(), "lock", "acquire", "-n", "--quiet", "other"}, environment);
  EXPECT_TRUE(quiet.shows("\n")) << quiet.screen();
  EXPECT_EQ(quiet.screen().find("fence"), std::string::npos) << quiet.screen();
  EXPECT_EQ(quiet.screen().size(), LockId::length + 2) << quiet.screen();
}

TEST_F(LockCommands, AcquireTellsWhatItWaitsForAndGivesUp) {
  const auto first = acquire("k");
  auto told = start({"lock", "acquire", "-w", "4", "k"});
  auto quiet = start({"lock", "acquire", "-w", "4", "-q", "k"});
  const auto result = told->wait();
  EXPECT_EQ(result.code, 75);
  EXPECT_TRUE(result.err.starts_with("holdfast: waiting for \"k\", held by ")) << result.err;
  EXPECT_NE(result.err.find("Use -w DURATION to wait longer"), std::string::npos) << result.err;
  EXPECT_EQ(quiet->wait().err.find("waiting for"), std::string::npos);
  EXPECT_NE(holdfast({"lock", "acquire", "--help"}).out.find("Default: 5 s"), std::string::npos);
}

TEST_F(LockCommands, AWaitIncludesThatForAServerBehindASocket) {
  if (auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  RedisServer server;
  const auto url = "unix:" + server.unix_socket().unix_socket;
  server.stop();
  auto waiting = start({"--url", url, "lock", "acquire", "-w", "60", "k"});
  EXPECT_TRUE(
      eventually([&] { return contents(waiting->err()).find("; trying again") != std::string::npos; }));
  server.start();
  const auto result = waiting->wait();
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST_F(LockCommands, IdsNeedNotBeArguments) {
  const std::string a = acquire("a")["lockId"];
  const auto with_input = [&](std::vector<std::string> typed, const std::string& input) {
    return holdfast(std::move(typed), {.environment = {}, .input = input, .before_exec = {}});
  };
  EXPECT_EQ(with_input({"lock", "extend", "-", "--ttl", "60"}, a + "\n").code, 0);
  EXPECT_EQ(with_input({"lock", "owns", "a", "-"}, "  " + a).code, 0);
  EXPECT_EQ(with_input({"lock", "show", "--id", "-"}, a).code, 0);
  std::ofstream(file("id")) << a << "\n";
  EXPECT_EQ(holdfast({"lock", "owns", "a", "--id-file", file("id").string()}).code, 0);
  EXPECT_EQ(holdfast({"lock", "release", "--id-file", file("id").string()}).code, 0);
  EXPECT_EQ(with_input({"lock", "release", "-"}, a).code, 1);
  EXPECT_EQ(with_input({"lock", "release", "-"}, "").code, 64);
  EXPECT_EQ(with_input({"lock", "release", "-"}, "no id").code, 64);
  EXPECT_EQ(holdfast({"lock", "release"}).code, 64);
  EXPECT_EQ(holdfast({"lock", "release", a, "--id-file", "x"}).code, 64);
  EXPECT_EQ(holdfast({"lock", "release", "--id-file", file("none").string()}).code, 64);
}

TEST_F(LockCommands, AKeyCannotTurnTheDirectionOfWriting) {
  (void)acquire("a\u202Eb\u2066c\u061Cd\u200Fe");
  const auto listed = holdfast({"lock", "list"}).out;
  EXPECT_NE(listed.find("a\\xe2\\x80\\xaeb\\xe2\\x81\\xa6c\\xd8\\x9cd\\xe2\\x80\\x8fe"), std::string::npos)
      << listed;
  const auto as_json = holdfast({"--json", "lock", "list"}).out;
  EXPECT_NE(as_json.find(R"("a\u202eb\u2066c\u061cd\u200fe")"), std::string::npos) << as_json;
}

TEST_F(LockCommands, AnInterruptedWaitHoldsNothing) {
  const auto first = acquire("k");
  auto waiter = start({"--json", "lock", "acquire", "-w", "60", "k"});
  waiter->wait_until_it_handles(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // it waits by now, most likely
  waiter->signal(SIGTERM);
  const auto result = waiter->wait();
  EXPECT_EQ(result.code, 128 + SIGTERM);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(holdfast({"lock", "release", first["lockId"]}).code, 0);
  EXPECT_EQ(holdfast({"lock", "show", "k"}).code, 1);
}

TEST_F(LockCommands, ALockWhoseIdCannotBePrintedIsReleased) {
  const auto result =
      start({"lock", "acquire", "k"}, {.environment = {}, .input = {}, .before_exec = [] { close(1); }})
          ->wait();
  EXPECT_EQ(result.code, 70) << result.err;
  EXPECT_EQ(holdfast({"lock", "show", "k"}).code, 1);
}

TEST_F(LockCommands, ShowHasTheSanitisedFieldsOnlyAndRawOnesIfAsked) {
  const auto lock = acquire("secret:key");
  std::vector<std::string> sanitised{"acquiredAtMs", "expiresAtMs", "fence",      "holder",
                                     "key",          "keyHash",     "lockIdHash", "waiters"};
  const std::string id = lock["lockId"];
  for (const auto& which : {std::vector<std::string>{"secret:key"}, std::vector<std::string>{"--id", id}}) {
    std::vector<std::string> typed{"--json", "lock", "show"};
    typed.insert(typed.end(), which.begin(), which.end());
    const auto shown = holdfast(typed);
    EXPECT_EQ(shown.code, 0) << shown.err;
    EXPECT_EQ(member_names(json::parse(shown.out)), sanitised);
    std::erase(sanitised, "key");  // of a lock that is found by its id, the key is hidden
    EXPECT_EQ(shown.out.find(id), std::string::npos);

    typed.emplace_back("--raw");
    const auto raw = json::parse(holdfast(typed).out);
    EXPECT_EQ(raw["key"], "secret:key");
    EXPECT_EQ(raw["lockId"], id);
  }
  const auto text = holdfast({"lock", "show", "secret:key"}).out;
  EXPECT_EQ(text.find(id), std::string::npos);
  EXPECT_TRUE(text.starts_with("key         secret:key\n")) << text;
  EXPECT_EQ(holdfast({"lock", "show", "--id", id}).out.find("secret:key"), std::string::npos);
}

TEST_F(LockCommands, ListShowsEveryLockOnceAndHidesTheIds) {
  const auto a = acquire("a");
  const auto b = acquire("b\nb");
  const auto listed = holdfast({"--json", "lock", "list"});
  std::set<std::string> keys;
  std::istringstream lines(listed.out);
  for (std::string line; std::getline(lines, line);) {
    const auto object = json::parse(line);
    EXPECT_TRUE(keys.insert(object["key"]).second);
    EXPECT_FALSE(object.contains("lockId"));
  }
  EXPECT_EQ(keys, (std::set<std::string>{"a", "b\nb"}));
  EXPECT_NE(holdfast({"--json", "lock", "list", "--raw"}).out.find(a["lockId"].get<std::string>()),
            std::string::npos);
  const auto table = holdfast({"lock", "list"}).out;
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 3) << table;
  EXPECT_NE(table.find("b\\x0ab"), std::string::npos) << table;
}

TEST_F(LockCommands, OwnsTellsWhetherThatIdHoldsThatKey) {
  const std::string a = acquire("a")["lockId"];
  const std::string b = acquire("b")["lockId"];
  const auto owns = holdfast({"--json", "lock", "owns", "a", a});
  EXPECT_EQ(owns.code, 0);
  EXPECT_EQ(json::parse(owns.out), json({{"owns", true}}));
  const auto other = holdfast({"--json", "lock", "owns", "a", b});
  EXPECT_EQ(other.code, 1);
  EXPECT_EQ(json::parse(other.out), json({{"owns", false}}));
  EXPECT_EQ(holdfast({"lock", "owns", "a", a}).out, "");
  ASSERT_EQ(holdfast({"lock", "release", a}).code, 0);
  EXPECT_EQ(holdfast({"lock", "owns", "a", a}).code, 1);
}

TEST_F(LockCommands, AnEmptyListIsEmpty) {
  const auto people = holdfast({"lock", "list"});
  EXPECT_EQ(people.out, "");
  EXPECT_EQ(people.err, "holdfast: no lock is held\n");
  const auto machines = holdfast({"--json", "lock", "list"});
  EXPECT_EQ(machines.out, "");
  EXPECT_EQ(machines.err, "");
}

TEST_F(LockCommands, AnIdThatBeginsWithADashIsNoOption) {
  for (const std::string id :
       {"-AAAAAAAAAAAAAAAAAAAAA", "--AAAAAAAAAAAAAAAAAAAA", "-nhw_AAAAAAAAAAAAAAAAA"}) {
    ASSERT_EQ(id.size(), 22U);
    EXPECT_EQ(holdfast({"lock", "release", id}).code, 1) << id;
    EXPECT_EQ(holdfast({"lock", "extend", id, "--ttl", "5"}).code, 1) << id;
    EXPECT_EQ(holdfast({"lock", "extend", "--ttl", "5", id}).code, 1) << id;
    EXPECT_EQ(holdfast({"lock", "show", "--id", id}).code, 1) << id;
    EXPECT_EQ(holdfast({"lock", "owns", "k", id}).code, 1) << id;
  }
}

TEST_F(LockCommands, AnExpiredLockIsGone) {
  const auto lock = acquire("k", "50ms");
  EXPECT_TRUE(eventually([&] { return holdfast({"lock", "show", "k"}).code == 1; }));
  EXPECT_EQ(holdfast({"lock", "extend", lock["lockId"], "--ttl", "5"}).code, 1);
}

}  // namespace
}  // namespace holdfast::test
