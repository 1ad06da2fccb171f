#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "output_parts.hpp"
#include "program.hpp"
#include "support/paths.hpp"

namespace holdfast::test {
namespace {

using nlohmann::ordered_json;

class TaskCommands : public CliTest {
 protected:
  std::string create(std::vector<std::string> options = {}) const {
    options.insert(options.begin(), {"task", "create"});
    const auto result = holdfast(options);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out.substr(0, result.out.find('\n'));
  }
  /// With --json; must succeed.
  ordered_json json(std::vector<std::string> typed) const {
    typed.insert(typed.begin(), {"--json", "task"});
    const auto result = holdfast(typed);
    EXPECT_EQ(result.code, 0) << result.err;
    return ordered_json::parse(result.out, nullptr, false);
  }
  Finished task(std::vector<std::string> typed) const {
    typed.insert(typed.begin(), "task");
    return holdfast(typed);
  }
  /// A script under `holdfast run KEY`; $HOLDFAST is the program.
  Finished under_lock(const std::string& key, const std::string& script) const {
    return holdfast({"run", key, "--", "sh", "-c", script});
  }
};

TEST_F(TaskCommands, CreatePrintsTheIdAloneSoThatAScriptCanKeepIt) {
  const auto result = task({"create", "--method", "report", "--ttl", "2h"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(lines_of(result.out).size(), 1U);
  const auto record = json({"get", lines_of(result.out).front()});
  EXPECT_EQ(record["requestMethod"], "report");
  EXPECT_EQ(record["task"]["ttl"], 7'200'000);
  EXPECT_EQ(record["ownerId"], "local");
}

TEST_F(TaskCommands, JsonIsTheRecordWithVersionIncarnationAndFenceAtItsEnd) {
  const auto created = json({"create", "--owner", "alice", "progress=0.5", "who=\"me\""});
  EXPECT_EQ(member_names(created),
            (std::vector<std::string>{"task", "ownerId", "variables", "result", "requestMethod", "expiresAt",
                                      "version", "incarnation", "fence"}));
  EXPECT_EQ(
      member_names(created["task"]),
      (std::vector<std::string>{"taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"}));
  EXPECT_EQ(created["ownerId"], "alice");
  EXPECT_EQ(created["variables"], ordered_json::parse(R"({"progress":0.5,"who":"me"})"));
  EXPECT_EQ(created["result"], nullptr);
  EXPECT_EQ(created["version"], 1);
  EXPECT_EQ(created["fence"], nullptr);
  EXPECT_EQ(json({"get", "--owner", "alice", created["task"]["taskId"]}), created);
}

TEST_F(TaskCommands, TheFenceInJsonSaysWhichLockGuardsTheTask) {
  const auto id = create();
  const auto bound = json({"bind", id, "--fence", "42", "--fence-key", "nightly"});
  EXPECT_EQ(member_names(bound["fence"]), (std::vector<std::string>{"fence", "key", "authority"}));
  EXPECT_EQ(bound["fence"]["fence"], "000000000000042");
  EXPECT_EQ(bound["fence"]["key"], "nightly");
  EXPECT_EQ(bound["fence"]["authority"].get<std::string>().size(), 36U);
}

TEST_F(TaskCommands, GetIsForPeopleToo) {
  const auto id = create({"--method", "re\x1bport", "progress=0.5"});
  const auto shown = task({"get", id});
  EXPECT_EQ(shown.code, 0) << shown.err;
  for (const char* part : {"status     working", "re\\x1bport", "progress", "(in 59.", "fence      none"}) {
    EXPECT_NE(shown.out.find(part), std::string::npos) << part << "\n" << shown.out;
  }
}

TEST_F(TaskCommands, AnotherOwnersTaskIsNotThere) {
  const auto id = create({"--owner", "alice"});
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"get", id},
                                             {"update", id, "failed"},
                                             {"set", id, "a=1"},
                                             {"result", id},
                                             {"complete", id},
                                             {"fail", id},
                                             {"cancel", id},
                                             {"wait", id},
                                             {"bind", id, "--fence", "1", "--fence-key", "k"},
                                             {"rebind", id, "--none"},
                                             {"rm", id}}) {
    const auto result = task(command);
    EXPECT_EQ(result.code, 1) << command.front() << result.err;
    EXPECT_TRUE(result.err.starts_with("holdfast: there is no task \"" + id + "\" of the owner \"local\""))
        << command.front() << ": " << result.err;
  }
  EXPECT_EQ(task({"list"}).out, "");
  EXPECT_EQ(json({"get", id, "--owner", "alice"})["version"], 1) << "nothing was changed";
}

TEST_F(TaskCommands, TheOwnerIsThatOfTheEnvironmentUnlessItIsSaid) {
  const Program::Options alice{.environment = {"HOLDFAST_TASK_OWNER=alice"}};
  const auto created = holdfast({"task", "create"}, alice);
  const auto id = created.out.substr(0, created.out.find('\n'));
  EXPECT_EQ(json({"get", id, "--owner", "alice"})["ownerId"], "alice");
  EXPECT_EQ(holdfast({"task", "get", id}, alice).code, 0);
  EXPECT_EQ(holdfast({"task", "get", id, "--owner", "local"}, alice).code, 1);
  EXPECT_EQ(holdfast({"task", "create"}, {.environment = {"HOLDFAST_TASK_OWNER="}}).code, 0) << "as unset";
}

TEST_F(TaskCommands, AnEmptyOwnerOrIdIsAnUnsetVariableAndRefused) {
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"get", ""},
                                             {"create", "--owner", ""},
                                             {"list", "--owner", ""},
                                             {"cancel", "", "--owner", "alice"}}) {
    const auto result = task(command);
    EXPECT_EQ(result.code, 64) << command.front() << result.err;
    EXPECT_NE(result.err.find("is empty"), std::string::npos) << result.err;
  }
}

TEST_F(TaskCommands, AnEmptyListIsToldBesideTheOutput) {
  const auto none = task({"list"});
  EXPECT_EQ(none.code, 0);
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(none.err, "holdfast: the owner \"local\" has no tasks\n");
  create();
  EXPECT_EQ(task({"list"}).err, "");
  EXPECT_EQ(task({"list", "--status", "failed"}).err,
            "holdfast: the owner \"local\" has no tasks with the status failed\n");
  const auto as_json = holdfast({"--json", "task", "list", "--owner", "bob"});
  EXPECT_EQ(as_json.out + as_json.err, "");
}

TEST_F(TaskCommands, ATaskInMemoryIsWarnedOf) {
  const auto created = holdfast({"--url", "memory:", "task", "create"});
  EXPECT_EQ(created.code, 0);
  EXPECT_NE(created.err.find("gone when this command exits"), std::string::npos) << created.err;
}

TEST_F(TaskCommands, ErrorsAreJsonIfAskedFor) {
  const auto missing = holdfast({"--json", "task", "get", "no-such-task"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_EQ(missing.out, "");
  EXPECT_EQ(ordered_json::parse(missing.err)["error"]["code"], "NotFound");
}

TEST_F(TaskCommands, ARequestKeyGivesTheSameTaskAndRefusesAnotherRequest) {
  const auto id = create({"--request-key", "order-42", "--method", "ship"});
  EXPECT_EQ(create({"--request-key", "order-42", "--method", "ship"}), id);
  const auto other = task({"create", "--request-key", "order-42", "--method", "refund"});
  EXPECT_EQ(other.code, 65) << other.err;
  EXPECT_EQ(task({"create", "--request-key", ""}).code, 64) << "an unset variable of a script";
}

TEST_F(TaskCommands, ATtlOverTheMaximumIsRefused) {
  EXPECT_EQ(task({"create", "--ttl", "25h"}).code, 65);
  EXPECT_EQ(task({"create", "--ttl", "0"}).code, 64);
  EXPECT_EQ(task({"create", "--ttl", "soon"}).code, 64);
}

TEST_F(TaskCommands, UpdateFollowsTheStates) {
  const auto id = create();
  const auto asked = json({"update", id, "input_required", "--message", "Which region?"});
  EXPECT_EQ(asked["task"]["status"], "input_required");
  EXPECT_EQ(asked["task"]["statusMessage"], "Which region?");
  EXPECT_EQ(asked["version"], 2);
  const auto quiet = task({"update", id, "working"});
  EXPECT_EQ(quiet.code, 0) << quiet.err;
  EXPECT_EQ(quiet.out + quiet.err, "");
  EXPECT_FALSE(json({"get", id})["task"].contains("statusMessage")) << "without a message the old one goes";
  EXPECT_EQ(task({"update", id, "working"}).code, 65);
  const auto odd = task({"update", id, "done"});
  EXPECT_EQ(odd.code, 64);
  EXPECT_NE(odd.err.find("input_required"), std::string::npos) << odd.err;
}

TEST_F(TaskCommands, SetMergesAndNullDeletes) {
  const auto id = create();
  EXPECT_EQ(task({"set", id, "a=1", "b=\"x=y\"", "c=[1,{\"d\":null}]", "e={}"}).code, 0);
  const auto changed = json({"set", id, "a=null", "b=-2.5"});
  EXPECT_EQ(changed["variables"], ordered_json::parse(R"({"b":-2.5,"c":[1,{"d":null}],"e":{}})"));
}

TEST_F(TaskCommands, WhatIsNestedTooDeepIsRefusedAndNotFatal) {
  const auto deep = std::string(60'000, '[') + std::string(60'000, ']');
  const auto id = create();
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"set", id, "good=1", "x=" + deep}, {"create", "x=" + deep}, {"complete", id, "--result", deep}}) {
    const auto result = task(command);
    EXPECT_EQ(result.code, 65) << command.front() << result.err;
    EXPECT_NE(result.err.find("nests more than"), std::string::npos) << result.err;
  }
  const auto record = json({"get", id});
  EXPECT_EQ(record["version"], 1);
  EXPECT_EQ(lines_of(task({"list"}).out).size(), 2U) << "none was created";
}

TEST_F(TaskCommands, ANameThatIsNoTextIsAUsageError) {
  EXPECT_EQ(task({"create", "\xff=1"}).code, 64);
}

TEST_F(TaskCommands, AProgressOfAnyFormIsShown) {
  create({R"(progress={"done": [1, 2]})", "other=1"});
  create({R"(first={"progress":0.1})", "progress=null"});
  create({"progress=-1"});
  const auto lines = lines_of(task({"list"}).out);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_NE(lines[1].find("-1"), std::string::npos) << lines[1];
  EXPECT_EQ(lines[2].find('%'), std::string::npos) << "not one of the variable's own\n" << lines[2];
  EXPECT_NE(lines[3].find(R"({"done":[1,2]})"), std::string::npos) << lines[3];
}

TEST_F(TaskCommands, SetSaysHowToQuoteText) {
  const auto id = create();
  const auto result = task({"set", id, "phase=it's up"});
  EXPECT_EQ(result.code, 64);
  EXPECT_NE(result.err.find(R"('"it'\''s up"')"), std::string::npos) << result.err;
  EXPECT_EQ(task({"set", id, "phase"}).code, 64);
  EXPECT_EQ(task({"set", id, "=1"}).code, 64);
  EXPECT_EQ(task({"set", id}).code, 64);
  EXPECT_EQ(task({"set", id, "a=1", "a=2"}).code, 64) << "twice is a mistake";
  EXPECT_EQ(json({"get", id})["version"], 1);
}

TEST_F(TaskCommands, WhatIsMeantToBeAnObjectIsNotTakenForText) {
  const auto id = create();
  const auto object = task({"set", id, R"(a={"x":})"});
  EXPECT_EQ(object.code, 64);
  EXPECT_NE(object.err.find("is not valid JSON; error at line 1, column 6;"), std::string::npos)
      << object.err;
  EXPECT_EQ(object.err.find("for a string"), std::string::npos) << object.err;
  const auto array = holdfast({"task", "complete", id, "--result", "-"}, {.input = "\n [1,"});
  EXPECT_EQ(array.code, 64);
  EXPECT_EQ(array.err.find("line"), std::string::npos) << "it would count from the [: " << array.err;
  for (const auto& empty : {task({"set", id, "a="}), task({"complete", id, "--result", "-"})}) {
    EXPECT_EQ(empty.code, 64);
    EXPECT_NE(empty.err.find("is empty, which is not valid JSON"), std::string::npos) << empty.err;
  }
}

TEST_F(TaskCommands, CompleteWritesTheResultAndResultPrintsIt) {
  const auto id = create();
  const auto early = task({"result", id});
  EXPECT_EQ(early.code, 1);
  EXPECT_NE(early.err.find("working"), std::string::npos) << early.err;
  const auto done = json({"complete", id, "--result", R"([{"rows":42},"é"])", "--message", "fine"});
  EXPECT_EQ(done["task"]["status"], "completed");
  EXPECT_EQ(done["task"]["statusMessage"], "fine");
  EXPECT_EQ(holdfast({"--json", "task", "result", id}).out, "[{\"rows\":42},\"é\"]\n");
  EXPECT_EQ(ordered_json::parse(task({"result", id}).out), done["result"]);
}

TEST_F(TaskCommands, AResultMayComeFromStandardInput) {
  const auto id = create();
  const auto done = holdfast({"task", "complete", id, "--result", "-"}, {.input = "{\"rows\": 42}\n"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(holdfast({"--json", "task", "result", id}).out, "{\"rows\":42}\n");
  EXPECT_EQ(holdfast({"task", "complete", create(), "--result", "-"}, {.input = "oops"}).code, 64);
  EXPECT_EQ(task({"complete", create(), "--result", "-5"}).code, 0) << "a number";
}

TEST_F(TaskCommands, ATaskThatEndedWithoutAResultHasNull) {
  const auto id = create();
  EXPECT_EQ(task({"fail", id, "--message", "no disk"}).code, 0);
  const auto result = holdfast({"--json", "task", "result", id});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "null\n");
  const auto record = json({"get", id});
  EXPECT_EQ(record["task"]["status"], "failed");
  EXPECT_EQ(record["task"]["statusMessage"], "no disk");
}

TEST_F(TaskCommands, AFinalTaskChangesNoMore) {
  const auto id = create();
  EXPECT_EQ(task({"cancel", id, "--message", "not needed"}).code, 0);
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"update", id, "working"}, {"set", id, "a=1"}, {"complete", id}, {"fail", id}, {"cancel", id}}) {
    const auto result = task(command);
    EXPECT_EQ(result.code, 65) << command.front() << result.err;
    EXPECT_NE(result.err.find("cancelled"), std::string::npos) << result.err;
  }
  EXPECT_EQ(json({"get", id})["version"], 2);
}

TEST_F(TaskCommands, RmRemovesOnce) {
  const auto id = create();
  EXPECT_EQ(json({"rm", id}), ordered_json::parse(R"({"ok":true})"));
  const auto again = holdfast({"--json", "task", "rm", id});
  EXPECT_EQ(again.code, 1);
  EXPECT_EQ(again.out, "{\"ok\":false,\"reason\":\"not-found\"}\n");
  EXPECT_EQ(task({"get", id}).code, 1);
}

TEST_F(TaskCommands, WaitReturnsWhenTheTaskHasEnded) {
  const auto id = create();
  auto waiter = start({"--json", "task", "wait", id});
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(waiter->finished());
  EXPECT_EQ(task({"complete", id, "--result", "7"}).code, 0);
  const auto result = waiter->wait();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(ordered_json::parse(result.out)["result"], 7);
  EXPECT_EQ(result.err, "") << "no progress line without a terminal";
  EXPECT_EQ(task({"wait", id}).out, "completed\n");
}

TEST_F(TaskCommands, WaitGivesUpAfterItsTimeout) {
  const auto id = create();
  const auto result = task({"wait", id, "--timeout", "0.1"});
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("100 ms"), std::string::npos) << result.err;
  EXPECT_EQ(result.out, "");
}

TEST_F(TaskCommands, WaitMayBeForAStateAndSaysIfItCannotComeAnyMore) {
  const auto id = create();
  auto waiter = start({"task", "wait", id, "--status", "input_required"});
  EXPECT_EQ(task({"update", id, "input_required"}).code, 0);
  EXPECT_EQ(waiter->wait().code, 0);
  EXPECT_EQ(task({"fail", id}).code, 0);
  const auto never = task({"wait", id, "--status", "completed"});
  EXPECT_EQ(never.code, 1);
  EXPECT_NE(never.err.find("has ended as failed"), std::string::npos) << never.err;
  EXPECT_EQ(task({"wait", id, "--status", "well"}).code, 64);
}

TEST_F(TaskCommands, ListIsATableForPeople) {
  EXPECT_EQ(task({"list"}).out, "");
  const auto a = create({"--method", "bad\x1b[2J", "progress=0.256"});
  const auto b = create({"progress=80"});
  const auto c = create({"progress=\"phase 2\""});
  EXPECT_EQ(task({"complete", a}).code, 0);
  const auto lines = lines_of(task({"list"}).out);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_TRUE(lines[0].starts_with("ID"));
  EXPECT_NE(lines[0].find("STATUS     AGE"), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("TTL LEFT"), std::string::npos) << lines[0];
  EXPECT_TRUE(lines[1].starts_with(c)) << "newest first";
  EXPECT_NE(lines[1].find("phase 2"), std::string::npos) << lines[1];
  EXPECT_NE(lines[2].find("80 %"), std::string::npos) << lines[2];
  EXPECT_NE(lines[3].find("completed"), std::string::npos) << lines[3];
  EXPECT_NE(lines[3].find("26 %"), std::string::npos) << lines[3];
  EXPECT_NE(lines[3].find("bad\\x1b[2J"), std::string::npos) << lines[3];
  const auto working = lines_of(task({"list", "--status", "working"}).out);
  EXPECT_EQ(working.size(), 3U);
}

TEST_F(TaskCommands, ListTellsHowToGetTheNextPage) {
  std::vector<std::string> created;
  for (int i = 0; i < 5; ++i) created.push_back(create({"--owner", "alice"}));
  const auto people = task({"list", "--owner", "alice", "--limit", "2"});
  EXPECT_EQ(lines_of(people.out).size(), 3U);
  EXPECT_NE(people.err.find("holdfast task list --owner alice --limit 2 --cursor "), std::string::npos)
      << people.err;

  std::vector<std::string> seen;
  std::string cursor;
  int pages = 0;
  do {
    const auto page =
        holdfast({"--json", "task", "list", "--owner", "alice", "--limit", "2", "--cursor", cursor});
    EXPECT_EQ(page.code, 0) << page.err;
    EXPECT_EQ(page.err, "");
    cursor.clear();
    for (const auto& line : lines_of(page.out)) {
      const auto object = ordered_json::parse(line);
      if (object.contains("task")) {
        EXPECT_EQ(object.items().begin().key(), "task");
        seen.push_back(object["task"]["taskId"]);
      } else {
        cursor = object.at("cursor");
      }
    }
  } while (!cursor.empty() && ++pages < 10);
  EXPECT_EQ(seen, std::vector<std::string>(created.rbegin(), created.rend()));
}

TEST_F(TaskCommands, TheHintForTheNextPageCanBePasted) {
  const std::string owner = "it's $HOME; \x1b*";
  const auto elsewhere = "sqlite:" + file("else where.db").string();
  std::vector<std::string> created;
  for (int i = 0; i < 3; ++i) {
    const auto result = holdfast({"--url", elsewhere, "task", "create", "--owner", owner});
    EXPECT_EQ(result.code, 0) << result.err;
    created.push_back(result.out.substr(0, result.out.find('\n')));
  }
  const auto page =
      holdfast({"--url", elsewhere, "task", "list", "--owner", owner, "--status", "working", "--limit", "2"});
  EXPECT_EQ(page.code, 0) << page.err;
  const std::string start = "holdfast: more tasks: holdfast ";
  ASSERT_TRUE(page.err.starts_with(start)) << page.err;
  const auto options = page.err.substr(start.size());
  EXPECT_NE(options.find("--status working"), std::string::npos) << options;
  EXPECT_NE(options.find("--limit 2"), std::string::npos) << options;
  const auto next = Program(directory(), {"bash", "-c", holdfast_program() + " " + options}, {}).wait();
  EXPECT_EQ(next.code, 0) << next.err;
  ASSERT_EQ(lines_of(next.out).size(), 2U) << next.out;
  EXPECT_TRUE(lines_of(next.out)[1].starts_with(created.front())) << next.out;
}

TEST_F(TaskCommands, ABadCursorLimitOrStatusIsRefused) {
  EXPECT_EQ(task({"list", "--cursor", "nonsense"}).code, 65);
  EXPECT_EQ(task({"list", "--limit", "0"}).code, 64);
  EXPECT_EQ(task({"list", "--status", "done"}).code, 64);
}

TEST_F(TaskCommands, CleanupSaysWhatItRemoved) {
  create({"--ttl", "1ms"});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto result = json({"cleanup"});
  EXPECT_EQ(member_names(result), (std::vector<std::string>{"removed"}));
  EXPECT_EQ(result["removed"], 1);
  EXPECT_EQ(task({"cleanup"}).out, "0 expired tasks removed\n");
}

TEST_F(TaskCommands, TheQuotaIsSaidAndNothingIsEvicted) {
  for (int i = 0; i < 3; ++i) create();
  const auto more = task({"create", "--max-tasks", "3"});
  EXPECT_EQ(more.code, 75) << more.err;
  EXPECT_NE(more.err.find("has 3 tasks, finished ones included, and 3 are allowed"), std::string::npos)
      << more.err;
  create({"--owner", "somebody-else", "--max-tasks", "3"});
  create();
  EXPECT_NE(task({"--help"}).out.find("default 100"), std::string::npos);
}

// Fences.

TEST_F(TaskCommands, AnExplicitFenceBindsAndAnOldOneIsRefusedWithBothNumbers) {
  const auto id = create();
  const auto bound = json({"set", id, "a=1", "--fence", "000000000000042", "--fence-key", "nightly"});
  EXPECT_EQ(bound["fence"]["fence"], "000000000000042");
  EXPECT_EQ(bound["fence"]["key"], "nightly");
  const auto stale = task({"set", id, "a=2", "--fence", "41", "--fence-key", "nightly"});
  EXPECT_EQ(stale.code, 79);
  EXPECT_NE(stale.err.find("000000000000041"), std::string::npos) << stale.err;
  EXPECT_NE(stale.err.find("000000000000042"), std::string::npos) << stale.err;
  const auto wrong = task({"complete", id, "--fence", "99", "--fence-key", "hourly"});
  EXPECT_EQ(wrong.code, 79);
  EXPECT_NE(wrong.err.find("nightly"), std::string::npos) << wrong.err;
  EXPECT_EQ(task({"rm", id, "--fence", "41", "--fence-key", "nightly"}).code, 79);
  EXPECT_EQ(task({"set", id, "a=3", "--fence", "42", "--fence-key", "nightly"}).code, 0)
      << "equal is allowed";
  EXPECT_EQ(json({"set", id, "a=4"})["variables"]["a"], 4) << "an operator needs none";
}

TEST_F(TaskCommands, CreateMayBindAtOnce) {
  const auto created = json({"create", "--fence", "7", "--fence-key", "k"});
  EXPECT_EQ(created["fence"]["fence"], "000000000000007");
  EXPECT_EQ(task({"fail", created["task"]["taskId"], "--fence", "6", "--fence-key", "k"}).code, 79);
}

TEST_F(TaskCommands, AFenceNeedsItsLockAndALockItsFence) {
  const auto id = create();
  const auto no_key = task({"set", id, "a=1", "--fence", "1"});
  EXPECT_EQ(no_key.code, 64);
  EXPECT_NE(no_key.err.find("--fence-key"), std::string::npos) << no_key.err;
  EXPECT_EQ(task({"set", id, "a=1", "--fence-key", "k"}).code, 64);
  for (const char* odd : {"", "x", "-1", "1.5", "1000000000000000", "+4"}) {
    EXPECT_EQ(task({"set", id, "a=1", "--fence", odd, "--fence-key", "k"}).code, 64) << odd;
  }
  EXPECT_EQ(
      holdfast({"task", "set", id, "a=1", "--fence", "3"}, {.environment = {"HOLDFAST_KEY=env-key"}}).code,
      0);
  EXPECT_EQ(json({"get", id})["fence"]["key"], "env-key");
}

TEST_F(TaskCommands, UnderRunAWriteToATaskOfThatLockCarriesTheFence) {
  const auto id = create();
  EXPECT_EQ(under_lock("nightly", "$HOLDFAST task bind " + id).code, 0);
  EXPECT_EQ(json({"get", id})["fence"]["fence"], "000000000000001");
  EXPECT_EQ(under_lock("nightly", "$HOLDFAST task set " + id + " a=1").code, 0);
  EXPECT_EQ(json({"get", id})["fence"]["fence"], "000000000000002") << "the second run's fence";
  // A script of the first run that comes late.
  const auto authority = json({"get", id})["fence"]["authority"].get<std::string>();
  const Program::Options late{.environment = {"HOLDFAST_KEY=nightly", "HOLDFAST_FENCE=000000000000001",
                                              "HOLDFAST_AUTHORITY=" + authority}};
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"task", "set", id, "a=2"},
                                             {"task", "update", id, "failed"},
                                             {"task", "complete", id},
                                             {"task", "fail", id},
                                             {"task", "rm", id}}) {
    const auto result = holdfast(command, late);
    EXPECT_EQ(result.code, 79) << command[1];
    EXPECT_NE(result.err.find("000000000000001"), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("000000000000002"), std::string::npos) << result.err;
  }
  EXPECT_EQ(json({"get", id})["variables"]["a"], 1);
  EXPECT_EQ(holdfast({"task", "cancel", id}, late).code, 0) << "a cancel is never fenced";
}

TEST_F(TaskCommands, UnderRunATaskOfNoLockOrAnotherIsWrittenWithoutAFence) {
  const auto unbound = create();
  EXPECT_EQ(under_lock("nightly", "$HOLDFAST task set " + unbound + " a=1").code, 0);
  EXPECT_EQ(json({"get", unbound})["fence"], nullptr) << "the environment alone binds nothing";
  const auto other = create({"--fence", "5", "--fence-key", "hourly"});
  EXPECT_EQ(under_lock("nightly", "$HOLDFAST task set " + other + " a=1").code, 0);
  EXPECT_EQ(json({"get", other})["fence"]["fence"], "000000000000005");
  const auto created = under_lock("nightly", "$HOLDFAST --json task create");
  EXPECT_EQ(created.code, 0) << created.err;
  EXPECT_EQ(ordered_json::parse(created.out)["fence"], nullptr);
  // The same key in another store is another lock.
  const auto elsewhere = create({"--fence", "5", "--fence-key", "nightly"});
  const Program::Options foreign{.environment = {"HOLDFAST_KEY=nightly", "HOLDFAST_FENCE=000000000000001",
                                                 "HOLDFAST_AUTHORITY=another-store"}};
  EXPECT_EQ(holdfast({"task", "set", elsewhere, "a=1"}, foreign).code, 0);
  EXPECT_EQ(json({"get", elsewhere})["fence"]["fence"], "000000000000005");
}

TEST_F(TaskCommands, BindNeedsALockAndRefusesAnother) {
  const auto id = create();
  const auto nothing = task({"bind", id});
  EXPECT_EQ(nothing.code, 64);
  EXPECT_NE(nothing.err.find("holdfast run"), std::string::npos) << nothing.err;
  EXPECT_EQ(task({"bind", id, "--fence", "5", "--fence-key", "a"}).code, 0);
  EXPECT_EQ(task({"bind", id, "--fence", "4", "--fence-key", "a"}).code, 79);
  EXPECT_EQ(task({"bind", id, "--fence", "9", "--fence-key", "b"}).code, 79);
  EXPECT_EQ(json({"get", id})["version"], 1) << "binding writes no data";
}

TEST_F(TaskCommands, RebindIsTheOperators) {
  const auto id = create({"--fence", "50", "--fence-key", "a"});
  EXPECT_EQ(task({"rebind", id}).code, 64);
  EXPECT_EQ(task({"rebind", id, "--none", "--fence", "1", "--fence-key", "b"}).code, 64);
  const auto moved = json({"rebind", id, "--fence", "1", "--fence-key", "b"});
  EXPECT_EQ(moved["fence"]["key"], "b");
  EXPECT_EQ(moved["fence"]["fence"], "000000000000001");
  EXPECT_EQ(task({"set", id, "a=1", "--fence", "50", "--fence-key", "a"}).code, 79);
  EXPECT_EQ(json({"rebind", id, "--none"})["fence"], nullptr);
  EXPECT_EQ(json({"set", id, "a=1", "--fence", "50", "--fence-key", "a"})["fence"]["key"], "a")
      << "the help warns of that";
  EXPECT_EQ(
      holdfast({"task", "rebind", id}, {.environment = {"HOLDFAST_KEY=k", "HOLDFAST_FENCE=000000000000001"}})
          .code,
      64)
      << "an operator says what he means";
}

TEST_F(TaskCommands, CancelTakesNoFence) {
  EXPECT_EQ(task({"cancel", create(), "--fence", "1", "--fence-key", "k"}).code, 64);
}

}  // namespace
}  // namespace holdfast::test
