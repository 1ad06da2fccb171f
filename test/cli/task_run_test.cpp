#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <holdfast/open.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "program.hpp"
#include "pty.hpp"
#include "support/paths.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;
using nlohmann::ordered_json;

class TaskRun : public CliTest {
 protected:
  struct Ran : Finished {
    std::string id;  ///< what the first line on stderr told
  };
  static std::string told_id(const std::string& err) {
    const std::string start = "holdfast: task ";
    EXPECT_TRUE(err.starts_with(start)) << err;
    return err.substr(start.size(), err.find('\n') - start.size());
  }
  Ran shell(const std::string& script, std::vector<std::string> options = {}) const {
    options.insert(options.begin(), {"task", "run"});
    for (const char* word : {"--", "sh", "-c"}) options.emplace_back(word);
    options.push_back(script);
    const auto result = holdfast(options);
    return {result, told_id(result.err)};
  }
  ordered_json get(const std::string& id, const std::string& owner = "local") const {
    const auto result = holdfast({"--json", "task", "get", "--owner", owner, id});
    EXPECT_EQ(result.code, 0) << result.err;
    return ordered_json::parse(result.out, nullptr, false);
  }
  std::string create(std::vector<std::string> options = {}) const {
    options.insert(options.begin(), {"task", "create"});
    const auto result = holdfast(options);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out.substr(0, result.out.find('\n'));
  }
  /// A `task run` of that task whose command does `before`, writes its pid into DIR/started, and goes on.
  [[nodiscard]] std::unique_ptr<Program> worker(const std::string& id, std::vector<std::string> options = {},
                                                const std::string& script = "exec sleep 60",
                                                const std::string& before = ":") const {
    options.insert(options.begin(), {"task", "run", "--id", id});
    for (const char* word : {"--", "sh", "-c"}) options.emplace_back(word);
    options.push_back(before + "; echo $$ > $DIR/started; " + script);
    return start(options);
  }
};

TEST_F(TaskRun, ACommandThatExitsWithZeroCompletesItsTask) {
  const auto ran = shell("echo out; echo err >&2", {"--method", "backup", "--ttl", "2h"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "out\n") << "still ours to see";
  EXPECT_EQ(ran.err, "holdfast: task " + ran.id + "\nerr\n");
  const auto task = get(ran.id);
  EXPECT_EQ(task["task"]["status"], "completed");
  EXPECT_EQ(task["task"]["ttl"], 7'200'000);
  EXPECT_EQ(task["requestMethod"], "backup");
  EXPECT_EQ(task["result"].dump(), R"({"exitCode":0,"signal":null,"stdout":"out\n","stderr":"err\n"})");
  EXPECT_EQ(task["fence"]["fence"], "000000000000001") << "the record is guarded by the task's lock";
}

TEST_F(TaskRun, ACommandThatFailsFailsItsTask) {
  const auto ran = shell("exit 3");
  EXPECT_EQ(ran.code, 3);
  const auto task = get(ran.id);
  EXPECT_EQ(task["task"]["status"], "failed");
  EXPECT_EQ(task["task"]["statusMessage"], "the command exited with 3");
  EXPECT_EQ(task["result"]["exitCode"], 3);
}

TEST_F(TaskRun, ASignalIsRecordedAsSuch) {
  const auto ran = shell("kill -KILL $$");
  EXPECT_EQ(ran.code, 137);
  const auto task = get(ran.id);
  EXPECT_EQ(task["task"]["status"], "failed");
  EXPECT_EQ(task["result"]["exitCode"], nullptr);
  EXPECT_EQ(task["result"]["signal"], 9);
}

TEST_F(TaskRun, ACommandThatCannotBeRunFailsItsTask) {
  const auto result = holdfast({"task", "run", "--", "no-such-command-anywhere"});
  EXPECT_EQ(result.code, 127) << result.err;
  const auto id = told_id(result.err);
  EXPECT_NE(result.err.find("cannot run \"no-such-command-anywhere\" as the task \"" + id + "\""),
            std::string::npos)
      << result.err;
  const auto task = get(id);
  EXPECT_EQ(task["task"]["status"], "failed");
  EXPECT_EQ(task["result"]["exitCode"], 127);
}

TEST_F(TaskRun, TheFirstLineIsJsonIfAskedFor) {
  const auto result = holdfast({"--json", "task", "run", "true"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "");
  const auto told = ordered_json::parse(result.err);
  EXPECT_EQ(get(told.at("taskId"))["task"]["status"], "completed");
}

TEST_F(TaskRun, TheResultHasTheTailOfTheOutputRepaired) {
  const auto ran = shell(
      "head -c 100000 /dev/zero | tr '\\0' x; printf 'END\\377\\n'; i=0; "
      "while [ $i -lt 3000 ]; do printf 'é' >&2; i=$((i+1)); done; printf x >&2");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out.size(), 100'005U) << "all of it is passed on";
  const auto result = get(ran.id)["result"];
  const auto out = result["stdout"].get<std::string>();
  EXPECT_EQ(out, std::string(4096 - 5, 'x') + "END\xef\xbf\xbd\n");
  const auto err = result["stderr"].get<std::string>();
  EXPECT_EQ(err.size(), 4095U) << "no half of a character at its front";
  EXPECT_TRUE(err.starts_with("é"));
  EXPECT_TRUE(err.ends_with("éx"));
}

TEST_F(TaskRun, LinesOfDescriptorThreeBecomeVariables) {
  const auto ran = shell(
      "echo progress=0.25 >&3; echo 'phase=\"load\"' >&3; echo nonsense >&3; echo 'x=also bad' >&3; "
      "echo progress=0.5 >&3; printf 'last={\"a\":[1]}' >&3");
  EXPECT_EQ(ran.code, 0);
  const nlohmann::json variables = get(ran.id)["variables"];
  EXPECT_EQ(variables, nlohmann::json::parse(R"({"last":{"a":[1]},"phase":"load","progress":0.5})"));
  EXPECT_NE(ran.err.find("nonsense"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("not stored: \"x\": its value is not JSON"), std::string::npos) << ran.err;
}

TEST_F(TaskRun, AVariableThatIsRefusedDoesNotTakeTheOthersWithIt) {
  const auto ran = shell(R"(printf 'a=1\nb=[[[[[[[[[[[[1]]]]]]]]]]]]\nc=3\n' >&3)");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(get(ran.id)["variables"].dump(), R"({"a":1,"c":3})");
  EXPECT_NE(ran.err.find("the variable b nests more than"), std::string::npos) << ran.err;
}

TEST_F(TaskRun, ProgressIsSeenWhileTheCommandRuns) {
  const auto id = create();
  auto running = worker(id, {}, "echo progress=0.5 >&3; while [ ! -e $DIR/go ]; do sleep 0.05; done");
  EXPECT_TRUE(eventually([&] { return get(id)["variables"].value("progress", 0.0) == 0.5; }));
  const auto listed = holdfast({"task", "list"}).out;
  EXPECT_NE(listed.find("50 %"), std::string::npos) << listed;
  EXPECT_EQ(get(id)["task"]["status"], "working");
  close(::open(file("go").c_str(), O_CREAT | O_WRONLY, 0600));
  EXPECT_EQ(running->wait().code, 0);
  EXPECT_EQ(get(id)["task"]["status"], "completed");
}

TEST_F(TaskRun, TheEnvironmentNamesTheTaskAndScriptsWriteUnderItsFence) {
  const auto ran = shell(
      "$HOLDFAST task set --owner \"$HOLDFAST_TASK_OWNER\" \"$HOLDFAST_TASK_ID\" step=1 && "
      "$HOLDFAST --json task get --owner alice \"$HOLDFAST_TASK_ID\"; echo $HOLDFAST_FENCE",
      {"--owner", "alice"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  std::istringstream lines(ran.out);
  std::string record;
  std::string fence;
  std::getline(lines, record);
  std::getline(lines, fence);
  const auto seen = ordered_json::parse(record);
  EXPECT_EQ(seen["task"]["taskId"], ran.id);
  EXPECT_EQ(seen["variables"]["step"], 1);
  EXPECT_EQ(seen["fence"]["fence"], fence);
}

TEST_F(TaskRun, ACancelFromElsewhereEndsTheCommand) {
  const auto id = create();
  auto running = worker(id);
  const auto command = pid_in(file("started"));
  EXPECT_EQ(holdfast({"task", "cancel", id, "--message", "not needed"}).code, 0);
  const auto result = running->wait();
  EXPECT_EQ(result.code, 80) << result.err;
  EXPECT_NE(result.err.find("was cancelled (not needed)"), std::string::npos) << result.err;
  EXPECT_FALSE(alive(command));
  const auto task = get(id);
  EXPECT_EQ(task["task"]["status"], "cancelled");
  EXPECT_EQ(task["result"], nullptr);
  EXPECT_EQ(holdfast({"lock", "list"}).out, "") << "the lock is free";
}

TEST_F(TaskRun, ACancelAfterTheCommandsOwnEndIsToldAsSuch) {
  const auto id = create();
  auto running = worker(id, {}, "while [ ! -e $DIR/go ]; do sleep 0.05; done");
  const auto command = pid_in(file("started"));
  running->signal(SIGSTOP);
  close(::open(file("go").c_str(), O_CREAT | O_WRONLY, 0600));
  // Not even a zombie: the keeper, which is not stopped, knows of the end.
  EXPECT_TRUE(eventually([&] { return kill(command, 0) != 0; }));
  EXPECT_EQ(holdfast({"task", "cancel", id}).code, 0);
  running->signal(SIGCONT);
  const auto result = running->wait();
  EXPECT_EQ(result.code, 80) << result.err;
  EXPECT_NE(result.err.find("was cancelled; the command had already exited"), std::string::npos)
      << result.err;
  EXPECT_EQ(result.err.find("the command was stopped"), std::string::npos) << result.err;
}

TEST_F(TaskRun, ACommandThatIgnoresTheCancelIsKilled) {
  const auto id = create();
  auto running =
      worker(id, {"--lease", "3", "--grace", "0.2"}, "while :; do sleep 0.05; done", "trap '' TERM");
  const auto command = pid_in(file("started"));
  EXPECT_EQ(holdfast({"task", "cancel", id}).code, 0);
  EXPECT_EQ(running->wait().code, 80);
  EXPECT_FALSE(alive(command));
}

TEST_F(TaskRun, ATaskThatIsRemovedOrEndedByAnotherEndsTheCommandToo) {
  const auto removed = create();
  auto first = worker(removed);
  (void)pid_in(file("started"));
  EXPECT_EQ(holdfast({"task", "rm", removed}).code, 0);
  const auto gone = first->wait();
  EXPECT_EQ(gone.code, 80) << gone.err;
  EXPECT_NE(gone.err.find("the task \"" + removed + "\" was removed; the command was stopped"),
            std::string::npos)
      << gone.err;

  std::filesystem::remove(file("started"));
  const auto completed = create();
  auto second = worker(completed);
  (void)pid_in(file("started"));
  EXPECT_EQ(holdfast({"task", "complete", completed, "--result", "1"}).code, 0);
  const auto ended = second->wait();
  EXPECT_EQ(ended.code, 80) << ended.err;
  EXPECT_NE(ended.err.find("completed by another client"), std::string::npos) << ended.err;
  EXPECT_EQ(get(completed)["result"], 1);
}

TEST_F(TaskRun, TheEndOfItsTtlEndsTheCommandAndSaysWhichOptionThatIs) {
  auto running =
      start({"task", "run", "--ttl", "4", "--", "sh", "-c", "echo $$ > $DIR/started; exec sleep 60"});
  const auto command = pid_in(file("started"));
  const auto ended = running->wait();
  EXPECT_EQ(ended.code, 80) << ended.err;
  EXPECT_FALSE(alive(command));
  EXPECT_NE(ended.err.find("its ttl of 4 s has passed"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("--ttl"), std::string::npos) << ended.err;
}

TEST_F(TaskRun, ATaskDoesNotWaitForItself) {
  const auto ran = shell("$HOLDFAST task run --id $HOLDFAST_TASK_ID -- true");
  EXPECT_EQ(ran.code, 75) << ran.err;
  EXPECT_NE(ran.err.find("is the task that this command runs as"), std::string::npos) << ran.err;
}

TEST_F(TaskRun, TheCommandFindsItsTaskWhoeverOwnsIt) {
  const auto ran = shell("$HOLDFAST task set \"$HOLDFAST_TASK_ID\" progress=0.5", {"--owner", "alice"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(get(ran.id, "alice")["variables"]["progress"], 0.5);
}

TEST_F(TaskRun, TwoDoNotWorkOnOneTask) {
  const auto id = create();
  auto running = worker(id);
  (void)pid_in(file("started"));
  const auto refused = holdfast({"task", "run", "-n", "--id", id, "--", "true"});
  EXPECT_EQ(refused.code, 75) << refused.err;
  EXPECT_TRUE(refused.err.starts_with("holdfast: the task \"" + id + "\" is claimed by ")) << refused.err;
  const auto told = start({"task", "run", "-w", "1m", "--verbose", "--id", id, "--", "true"});
  EXPECT_TRUE(eventually([&] {
    return contents(told->err()).starts_with("holdfast: waiting for the task \"" + id + "\", held by ");
  })) << contents(told->err());
  EXPECT_EQ(holdfast({"task", "run", "-w", "0.1", "-E", "9", "--id", id, "--", "true"}).code, 9);
  EXPECT_FALSE(running->finished());
}

TEST_F(TaskRun, WhatADeadWorkerLeftIsTakenUpWithAHigherFence) {
  const auto id = create();
  auto first = worker(id, {"--lease", "3"});
  const auto command = pid_in(file("started"));
  const auto old_fence = get(id)["fence"];
  first->signal(SIGKILL);
  EXPECT_EQ(first->wait().code, -SIGKILL);
  EXPECT_TRUE(eventually([&] { return !alive(command); }));
  EXPECT_EQ(get(id)["task"]["status"], "working");

  const auto second = holdfast({"task", "run", "--id", id, "--", "true"});
  EXPECT_EQ(second.code, 0) << second.err;
  const auto task = get(id);
  EXPECT_EQ(task["task"]["status"], "completed");
  EXPECT_GT(task["fence"]["fence"].get<std::string>(), old_fence["fence"].get<std::string>());
}

TEST_F(TaskRun, ALostLockEndsTheCommandAndLeavesTheTask) {
  const auto id = create();
  auto running = worker(id, {"--lease", "3"});
  const auto command = pid_in(file("started"));
  const auto held = ordered_json::parse(holdfast({"--json", "lock", "list", "--raw"}).out);
  EXPECT_EQ(holdfast({"lock", "release", held.at("lockId")}).code, 0);
  const auto result = running->wait();
  EXPECT_EQ(result.code, 79) << result.err;
  EXPECT_NE(result.err.find("lost the task \"" + id + "\""), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("task:local"), std::string::npos) << result.err;
  EXPECT_FALSE(alive(command));
  EXPECT_EQ(get(id)["task"]["status"], "working") << "for the next";
}

TEST_F(TaskRun, AStoppedWorkerCannotSpoilWhatTheNextOneDid) {
  const auto id = create();
  auto first = worker(id, {"--lease", "3"}, "while [ ! -e $DIR/go ]; do sleep 0.05; done");
  (void)pid_in(file("started"));
  const auto token = get(id)["fence"];
  first->signal(SIGSTOP);
  const auto second = holdfast({"task", "run", "--id", id, "--", "sh", "-c", "echo second"});
  EXPECT_EQ(second.code, 0) << second.err;
  const auto after_second = get(id);
  first->signal(SIGCONT);
  const auto woken = first->wait();
  EXPECT_TRUE(woken.code == 79 || woken.code == 80) << woken.code << woken.err;
  EXPECT_EQ(get(id), after_second) << "nothing of the second's is lost";
  const auto late = holdfast({"task", "rm", id, "--fence", token["fence"], "--fence-key", token["key"]});
  EXPECT_EQ(late.code, 79);
  EXPECT_NE(late.err.find(token["fence"].get<std::string>()), std::string::npos) << late.err;
  EXPECT_NE(late.err.find(after_second["fence"]["fence"].get<std::string>()), std::string::npos) << late.err;
}

TEST_F(TaskRun, SignalsGoToTheCommand) {
  const auto id = create();
  auto running = worker(id, {}, "while :; do sleep 0.05; done", "trap 'exit 5' TERM");
  (void)pid_in(file("started"));
  running->signal(SIGTERM);
  EXPECT_EQ(running->wait().code, 5);
  EXPECT_EQ(get(id)["result"]["exitCode"], 5);
}

TEST_F(TaskRun, ATaskThatIsOverOrNotThereIsNotRun) {
  const auto id = create();
  EXPECT_EQ(holdfast({"task", "complete", id}).code, 0);
  const auto over = holdfast({"task", "run", "--id", id, "--", "touch", file("ran").string()});
  EXPECT_EQ(over.code, 65) << over.err;
  EXPECT_EQ(over.err.find("holdfast: task "), std::string::npos) << "no id as if it ran: " << over.err;
  const auto none = holdfast({"task", "run", "--id", "no-such-task", "--", "touch", file("ran").string()});
  EXPECT_EQ(none.code, 1) << none.err;
  EXPECT_TRUE(none.err.starts_with("holdfast: there is no task \"no-such-task\" of the owner \"local\""))
      << none.err;
  EXPECT_EQ(holdfast({"task", "run", "--id", "", "--", "touch", file("ran").string()}).code, 64);
  EXPECT_FALSE(std::filesystem::exists(file("ran")));
}

TEST_F(TaskRun, ARequestKeyRunsTheRequestOnce) {
  const std::vector<std::string> typed{"task", "run", "--request-key", "2026-01-31", "--", "true"};
  EXPECT_EQ(holdfast(typed).code, 0);
  const auto again = holdfast(typed);
  EXPECT_EQ(again.code, 65) << "it is done";
  EXPECT_NE(again.err.find("holdfast task rm"), std::string::npos) << again.err;
  EXPECT_EQ(holdfast({"task", "rm", told_id(again.err)}).code, 0);
  EXPECT_EQ(holdfast(typed).code, 0) << "as for the first time";
}

/// The signal comes as soon as the task is claimed, so most often before the command begins: which of the two
/// is not in the test's hands, so it is tried some times.
TEST_F(TaskRun, ASignalBeforeTheCommandBeginsLeavesATaskUnderARequestKeyToOthers) {
  auto store = ::holdfast::open(url());
  auto tasks = store.tasks();
  for (int round = 0; round < 10; ++round) {
    const auto key = std::to_string(round);
    const auto id = tasks.create("o", {.request_key = key}).id;  // another process's
    auto running = start({"task", "run", "--owner", "o", "--request-key", key, "--", "sleep", "60"});
    while (!tasks.get("o", id).bound_to) std::this_thread::yield();
    running->signal(SIGTERM);
    EXPECT_EQ(running->wait().code, 128 + SIGTERM);
    const auto task = tasks.get("o", id);
    EXPECT_NE(task.status, TaskStatus::cancelled) << task.status_message.value_or("");
  }
}

TEST_F(TaskRun, UsageIsChecked) {
  EXPECT_EQ(holdfast({"task", "run", "--owner", "nobody"}).code, 64);
  EXPECT_EQ(holdfast({"task", "run", "--id", create(), "--method", "m", "--", "true"}).code, 64);
  EXPECT_EQ(holdfast({"task", "run", "--owner", "nobody", "--lease", "0", "--", "true"}).code, 64);
  const auto grace =
      holdfast({"task", "run", "--owner", "nobody", "--lease", "3", "--grace", "2", "--", "true"});
  EXPECT_EQ(grace.code, 64);
  EXPECT_NE(grace.err.find("--lease"), std::string::npos) << grace.err;
  EXPECT_EQ(holdfast({"task", "list", "--owner", "nobody"}).out, "") << "a usage error creates no task";
}

TEST_F(TaskRun, ArgumentsReachTheCommandExactly) {
  const std::vector<std::string> odd{"-n", "--id", "--", "", "a b", "--json", "run", "task"};
  for (const bool marked : {true, false}) {
    std::vector<std::string> typed{"task", "run"};
    if (marked) typed.emplace_back("--");
    typed.insert(typed.end(), {"printf", "<%s>"});
    typed.insert(typed.end(), odd.begin(), odd.end());
    std::string expected;
    for (const auto& one : odd) expected += "<" + one + ">";
    EXPECT_EQ(holdfast(typed).out, expected);
  }
}

TEST_F(TaskRun, TheCommandHasThreePipesOfOursAndNothingElse) {
  const auto result = holdfast({"task", "run", "--", "ls", "-l", "/proc/self/fd"},
                               {.before_exec = [] { close_range(3, ~0U, 0); }});
  std::vector<std::string> found;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    const auto arrow = line.find(" -> ");
    if (arrow == std::string::npos || line.find(" -> /proc/") != std::string::npos) continue;
    const auto number = line.rfind(' ', arrow - 1) + 1;
    const bool is_pipe = line.find(" -> pipe:") != std::string::npos;
    found.push_back(line.substr(number, arrow - number) + (is_pipe ? " pipe" : " file"));
  }
  EXPECT_EQ(found, (std::vector<std::string>{"0 file", "1 pipe", "2 pipe", "3 pipe"})) << result.out;
}

TEST_F(TaskRun, AReaderThatWentAwayIsTheCommandsAffairAsEver) {
  const auto result =
      Program(directory(),
              {"bash", "-c",
               "\"$HOLDFAST\" task run -- sh -c 'trap \"\" PIPE; while echo y; do :; done 2>/dev/null; "
               "echo over >&2' | head -1"},
              {.environment = {"HOLDFAST=" + holdfast_program(), "HOLDFAST_URL=" + url()}})
          .wait();
  EXPECT_EQ(result.out, "y\n");
  EXPECT_NE(result.err.find("over"), std::string::npos) << result.err;
}

/// In a child: standard output is a pipe that is full, and that nobody will ever read.
void fill_standard_output() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_NONBLOCK) != 0) _exit(99);
  while (write(ends[1], "x", 1) == 1) {
  }
  if (fcntl(ends[1], F_SETFL, 0) != 0 || dup2(ends[1], STDOUT_FILENO) < 0) _exit(99);
}

TEST_F(TaskRun, AReaderThatTakesItsTimeDoesNotKeepTheTaskFromEnding) {
  const auto id = create();
  auto running =
      start({"task", "run", "--id", id, "--", "echo", "out"}, {.before_exec = fill_standard_output});
  EXPECT_TRUE(eventually([&] { return get(id)["task"]["status"] == "completed"; }));
  EXPECT_EQ(get(id)["result"]["stdout"], "out\n");
  EXPECT_TRUE(eventually([&] { return holdfast({"lock", "list"}).out.empty(); })) << "the lock is free";
  EXPECT_FALSE(running->finished()) << "what was written is not thrown away";
}

TEST_F(TaskRun, ASignalEndsTheWaitForAReader) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const auto id = create();
    auto running =
        start({"task", "run", "--id", id, "--", "echo", "out"}, {.before_exec = fill_standard_output});
    EXPECT_TRUE(eventually([&] { return get(id)["task"]["status"] == "completed"; }));
    EXPECT_TRUE(eventually([&] { return holdfast({"lock", "list"}).out.empty(); }));
    running->signal(signal);
    EXPECT_EQ(running->wait().code, 128 + signal);
    EXPECT_EQ(get(id)["result"]["exitCode"], 0) << "the task has its end";
  }
}

TEST_F(TaskRun, TheCommandReadsTheTerminal) {
  Pty terminal({holdfast_program(), "task", "run", "--", "sh", "-c", "echo ready; read x; echo got $x"},
               {"HOLDFAST_URL=" + url()});
  EXPECT_TRUE(terminal.shows("ready")) << terminal.screen();
  terminal.type("this\n");
  EXPECT_TRUE(terminal.shows("got this")) << terminal.screen();
}

TEST_F(TaskRun, WhatIsLeftBehindInTheBackgroundIsNotWaitedFor) {
  const auto ran = shell("sleep 60 & echo $! > $DIR/background; echo done");
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out, "done\n");
  kill(pid_in(file("background")), SIGKILL);
}

TEST_F(TaskRun, WaitShowsTheProgressOnATerminal) {
  const auto id = create({"progress=0.25"});
  Pty terminal({holdfast_program(), "task", "wait", id}, {"HOLDFAST_URL=" + url()});
  EXPECT_TRUE(terminal.shows("working  25 %")) << terminal.screen();
  EXPECT_TRUE(terminal.shows(" s)")) << terminal.screen();
  EXPECT_EQ(holdfast({"task", "set", id, "progress=0.75"}).code, 0);
  EXPECT_TRUE(terminal.shows("75 %")) << terminal.screen();
  EXPECT_EQ(holdfast({"task", "complete", id}).code, 0);
  EXPECT_TRUE(terminal.shows("completed")) << terminal.screen();
}

}  // namespace
}  // namespace holdfast::test
