#include <fcntl.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <holdfast/open.hpp>
#include <holdfast/queue.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "program.hpp"
#include "support/redis_server.hpp"
#include "support/tcp_proxy.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;
using nlohmann::ordered_json;

class QueueCommands : public CliTest {
 protected:
  [[nodiscard]] std::string add(std::vector<std::string> options = {}) const {
    options.insert(options.begin(), {"task", "add", "q"});
    const auto result = holdfast(options);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out.substr(0, result.out.find('\n'));
  }
  /// Works on all tasks that there are.
  Finished work(const std::string& script, std::vector<std::string> options = {}) const {
    return holdfast(work_arguments(script, std::move(options)));
  }
  static std::vector<std::string> work_arguments(const std::string& script,
                                                 std::vector<std::string> options = {"--until-empty"}) {
    if (options.empty()) options = {"--until-empty"};
    options.insert(options.begin(), {"task", "work", "q"});
    for (const char* word : {"--", "sh", "-c"}) options.emplace_back(word);
    options.push_back(script);
    return options;
  }
  [[nodiscard]] ordered_json get(const std::string& id) const {
    const auto result = holdfast({"--json", "queue", "get", "q", id});
    EXPECT_EQ(result.code, 0) << result.err;
    return ordered_json::parse(result.out, nullptr, false);
  }
};

TEST_F(QueueCommands, ACommandGetsItsTaskAndItsOutputBecomesTheResult) {
  const auto id =
      add({"--method", "m", "--variables", R"({"n":[],"big":12345678901234567890})", "--requester", "ann"});
  const auto ran = work(
      "cat > $DIR/stdin; echo \"$HOLDFAST_TASK_ID $HOLDFAST_TASK_QUEUE $HOLDFAST_TASK_ATTEMPT "
      "$HOLDFAST_TASK_REQUESTER\" > $DIR/env; echo progress=0.5 >&3; echo '{\"pages\": [7]}'");
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(contents(file("env")), id + " q 1 ann\n");
  const auto given = ordered_json::parse(contents(file("stdin")));
  EXPECT_EQ(given["task"]["taskId"], id);
  EXPECT_EQ(given["variables"].dump(), R"({"n":[],"big":12345678901234567890})");
  EXPECT_EQ(given["queue"]["attempts"], 1);
  const auto task = get(id);
  EXPECT_EQ(task["task"]["status"], "completed");
  EXPECT_EQ(task["result"].dump(), R"({"pages":[7]})");
  EXPECT_EQ(task["variables"]["progress"], 0.5);
  EXPECT_EQ(task["queue"]["place"], "finished");
}

TEST_F(QueueCommands, TheExitCodeIsTheOutcome) {
  const auto text = add();
  ASSERT_EQ(work("echo not json").code, 0);
  EXPECT_EQ(get(text)["result"].dump(), R"({"output":"not json"})");
  const auto final = add();
  ASSERT_EQ(work("exit 65").code, 0);
  EXPECT_EQ(get(final)["task"]["status"], "failed");
  const auto later = add();
  ASSERT_EQ(work("exit 75").code, 0);
  EXPECT_EQ(get(later)["queue"]["place"], "delayed");
  const auto killed = add({"--attempts", "1"});
  ASSERT_EQ(work("kill -9 $$").code, 0);
  EXPECT_EQ(get(killed)["task"]["statusMessage"], "the command died of signal 9; no attempts left (1 of 1)");
}

TEST_F(QueueCommands, AResultThatIsTooDeepIsAFailedAttempt) {
  const auto id = add();
  const auto deep = std::string(150, '[') + std::string(150, ']');
  ASSERT_EQ(work("echo x >> $DIR/runs; echo '" + deep + "'").code, 0);
  EXPECT_EQ(contents(file("runs")), "x\n");
  const auto later = get(id);
  EXPECT_EQ(later["queue"]["place"], "delayed");
  EXPECT_EQ(later["queue"]["attempts"], 1);
  EXPECT_NE(later["task"]["statusMessage"].get<std::string>().find("its result was refused"),
            std::string::npos);
  const auto final = add();
  ASSERT_EQ(work("echo '" + deep + "'; exit 65").code, 0);
  EXPECT_EQ(get(final)["task"]["status"], "failed");
}

TEST_F(QueueCommands, AllFailedTasksAreRetriedOnceInTheirOrder) {
  std::vector<std::string> failed;
  for (const char* method : {"a", "b", "c"}) failed.push_back(add({"--attempts", "1", "--method", method}));
  const auto worked = holdfast({"--json", "task", "work", "q", "--until-empty", "--", "false"});
  ASSERT_EQ(worked.code, 0) << worked.err;
  EXPECT_EQ(ordered_json::parse(worked.out.substr(0, worked.out.find('\n')))["message"],
            "the command exited with 1; no attempts left (1 of 1)");
  const auto waiting = add();
  const auto retried = holdfast({"queue", "retry", "q", "--all"});
  ASSERT_EQ(retried.code, 0) << retried.err;
  EXPECT_EQ(retried.err, "holdfast: 3 of 3 failed tasks have a retry\n");
  EXPECT_EQ(holdfast({"queue", "retry", "q", "--all"}).out, retried.out);
  std::istringstream ids(retried.out);
  std::string id;
  for (const auto& old : failed) {
    ASSERT_TRUE(std::getline(ids, id));
    const auto shown = holdfast({"queue", "get", "q", id});
    EXPECT_NE(shown.out.find("retry of   " + old), std::string::npos) << shown.out;
    EXPECT_EQ(get(old)["queue"]["place"], "dead");
  }
  EXPECT_FALSE(std::getline(ids, id));
  EXPECT_EQ(ordered_json::parse(holdfast({"--json", "queue", "list"}).out)["ready"], 4);
  EXPECT_EQ(get(waiting)["queue"]["attempts"], 0);
}

TEST_F(QueueCommands, LimitKeysAndDeadLettersAreShown) {
  const auto first = add({"--limit-key", "ann", "--failed-retention", "3d", "--attempts", "1"});
  const auto added = holdfast({"task", "add", "q", "-", "--limit", "2"},
                              {.input = R"({"limitKey":"bob","limit":3,"failedRetention":"1h"})"
                                        "\n"});
  ASSERT_EQ(added.code, 0) << added.err;
  const auto second = get(added.out.substr(0, added.out.find('\n')));
  EXPECT_EQ(second["queue"]["limitKey"], "bob");
  EXPECT_EQ(second["queue"]["limit"], 3);
  EXPECT_EQ(second["queue"]["failedRetentionMs"], 3'600'000);
  EXPECT_EQ(get(first)["queue"]["limit"], 1);
  ASSERT_EQ(work("exit 65").code, 0);
  EXPECT_EQ(get(first)["queue"]["place"], "dead");
  const auto shown = holdfast({"--json", "queue", "show", "q", "--status", "failed"});
  ASSERT_EQ(shown.code, 0) << shown.err;
  const auto counts = ordered_json::parse(shown.out.substr(0, shown.out.find('\n')));
  EXPECT_EQ(counts["dead"], 2);
  EXPECT_EQ(counts["parked"], 0);
  EXPECT_EQ(std::ranges::count(shown.out, '\n'), 3);
  EXPECT_NE(holdfast({"queue", "list"}).out.find("PARKED"), std::string::npos);
  const auto table = holdfast({"queue", "show", "q", "--status", "failed"}).out;
  EXPECT_NE(table.find("the command exited with 65"), std::string::npos) << table;
  EXPECT_EQ(holdfast({"task", "add", "q", "--limit", "0"}).code, 64);
}

TEST_F(QueueCommands, ATaskIsRemovedAlsoIfItCannotBeRead) {
  if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  const RedisServer server;
  const Program::Options redis{.environment = {"HOLDFAST_URL=" + server.url()}};
  const auto added = holdfast({"task", "add", "q"}, redis).out;
  const auto id = added.substr(0, added.find('\n'));
  std::ignore = server.raw().command({"HSET", "pmcp:tasks:%queue%25q:" + id, "data", "garbage"});
  EXPECT_NE(holdfast({"queue", "get", "q", id}, redis).code, 0);
  EXPECT_EQ(holdfast({"queue", "rm", "q", id}, redis).code, 0);
  EXPECT_EQ(holdfast({"queue", "rm", "q", id}, redis).code, 1);
  EXPECT_EQ(holdfast({"queue", "show", "q"}, redis).code, 1) << "nothing of the queue is left";
}

TEST_F(QueueCommands, APurgeNamesTasksThatCannotBeReadAndWithAllRemovesThem) {
  if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  RedisServer server;
  const Program::Options redis{.environment = {"HOLDFAST_URL=" + server.url()}};
  const auto added = holdfast({"task", "add", "q"}, redis).out;
  const auto id = added.substr(0, added.find('\n'));
  auto raw = server.raw();
  raw.text({"HSET", "pmcp:tasks:%queue%25q:" + id, "queue", std::string(120, 'z')});

  const auto read = holdfast({"queue", "get", "q", id}, redis);
  EXPECT_EQ(read.code, 70);
  for (const auto& part :
       {id, std::string("the field \"queue\""), std::string("holdfast queue rm QUEUE ID")}) {
    EXPECT_NE(read.err.find(part), std::string::npos) << read.err;
  }
  EXPECT_EQ(read.err.find("proxy"), std::string::npos) << read.err;

  const auto finished = holdfast({"queue", "purge", "q"}, redis);
  EXPECT_EQ(finished.code, 70);
  EXPECT_NE(finished.err.find(id), std::string::npos) << finished.err;
  EXPECT_NE(finished.err.find("not removed, because they cannot be read: 1"), std::string::npos)
      << finished.err;

  const auto all = holdfast({"queue", "purge", "q", "--all"}, redis);
  EXPECT_EQ(all.code, 0);
  EXPECT_NE(all.err.find(id), std::string::npos) << all.err;
  EXPECT_NE(all.err.find("removed 1 task of"), std::string::npos) << all.err;
  EXPECT_EQ(holdfast({"queue", "get", "q", id}, redis).code, 1);
}

TEST_F(QueueCommands, ALimitWithoutItsKeyIsRefused) {
  const auto added = holdfast({"task", "add", "q", "--limit", "3"});
  EXPECT_EQ(added.code, 64);
  EXPECT_NE(added.err.find("add --limit-key KEY. For the whole queue use: holdfast queue limit q 3"),
            std::string::npos)
      << added.err;
  const auto line = holdfast({"task", "add", "q", "-"}, {.input = R"({"limit":3})"});
  EXPECT_EQ(line.code, 64);
  EXPECT_NE(line.err.find("line 1: limit is the limit of a key; add limitKey"), std::string::npos)
      << line.err;
  EXPECT_EQ(holdfast({"task", "add", "q", "-", "--limit", "3"}, {.input = R"({"limitKey":"bob"})"}).code, 0);
}

TEST_F(QueueCommands, WrongArgumentsAreRefusedBeforeAnythingIsDone) {
  const auto id = add();
  const auto shown = holdfast({"queue", "show", "q", "--status", "bogus"});
  EXPECT_EQ(shown.code, 64);
  EXPECT_EQ(shown.out, "");
  const auto purged = holdfast({"queue", "purge", "q", "--status", "working"});
  EXPECT_EQ(purged.code, 64);
  EXPECT_NE(purged.err.find("\"working\" is not finished; add --all"), std::string::npos) << purged.err;
  EXPECT_NE(holdfast({"queue", "purge", "q", "--all"}).err.find("removed 1 task of the queue \"q\""),
            std::string::npos);
  for (const char* command : {"logs", "watch"}) {
    const auto missing = holdfast({"task", command, "--queue", "q", id});
    EXPECT_EQ(missing.code, 1);
    EXPECT_NE(missing.err.find("there is no task \"" + id + "\" in the queue \"q\""), std::string::npos)
        << missing.err;
  }
}

TEST_F(QueueCommands, LinesOfStandardInputAreAddedAndWorkedOnByPriority) {
  const auto added = holdfast({"task", "add", "q", "-"}, {.input = R"({"method":"low"})"
                                                                   "\n"
                                                                   R"({"method":"high","priority":5})"
                                                                   "\n"});
  ASSERT_EQ(added.code, 0) << added.err;
  EXPECT_EQ(std::ranges::count(added.out, '\n'), 2);
  ASSERT_EQ(work("cat >> $DIR/order").code, 0);
  std::istringstream order(contents(file("order")));
  std::string line;
  std::getline(order, line);
  EXPECT_EQ(ordered_json::parse(line)["requestMethod"], "high");
  EXPECT_EQ(holdfast({"task", "add", "q", "-"}, {.input = "nonsense\n"}).code, 64);
}

TEST_F(QueueCommands, AnInputThatCannotBeReadIsAnErrorAndNotItsEnd) {
  const auto from_directory = [&](const std::vector<std::string>& words) {
    return holdfast(words, {.before_exec = [directory = directory().string()] {
                      const int fd = ::open(directory.c_str(), O_RDONLY);
                      if (fd < 0 || dup2(fd, 0) < 0) _exit(125);
                    }});
  };
  const auto lines = from_directory({"task", "add", "q", "-"});
  EXPECT_EQ(lines.code, 70);
  EXPECT_NE(lines.err.find("task add: standard input cannot be read to its end (Is a directory)"),
            std::string::npos)
      << lines.err;
  const auto variables = from_directory({"task", "add", "q", "--variables", "-"});
  EXPECT_EQ(variables.code, 70);
  EXPECT_NE(variables.err.find("--variables: standard input cannot be read"), std::string::npos)
      << variables.err;
  const auto closed = holdfast({"task", "add", "q", "-"}, {.before_exec = [] { close(0); }});
  EXPECT_EQ(closed.code, 70) << closed.err;
  EXPECT_EQ(holdfast({"task", "add", "q", "-", "--variables", "-"}, {.input = "{}\n"}).code, 64);
}

TEST_F(QueueCommands, ARequesterCannotSetVariablesOfTheCommand) {
  const auto refused =
      holdfast({"task", "add", "q", "-"}, {.input = R"({"requester":"bob\u0000EVIL=injected"})"});
  EXPECT_EQ(refused.code, 64);
  EXPECT_NE(refused.err.find("without NUL bytes"), std::string::npos) << refused.err;
  // As other software may store it.
  const auto id = add({"--requester", "placeholder"});
  const auto next = add();
  sqlite3* store = nullptr;
  ASSERT_EQ(sqlite3_open(file("locks.db").c_str(), &store), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(store,
                         R"(UPDATE records SET data = CAST(replace(CAST(data AS TEXT), 'placeholder',
                            'bob\u0000EVIL=injected') AS BLOB))",
                         nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(store);
  const auto worked = work("echo \"$HOLDFAST_TASK_ID ${EVIL-}\" >> $DIR/ran");
  EXPECT_EQ(worked.code, 0) << worked.err;
  EXPECT_EQ(contents(file("ran")), next + " \n");
  const auto task = get(id);
  EXPECT_EQ(task["queue"]["requester"], std::string("bob\0EVIL=injected", 17)) << task;
  EXPECT_EQ(task["task"]["status"], "failed");
  EXPECT_EQ(task["task"]["statusMessage"],
            "its command cannot be run: HOLDFAST_TASK_REQUESTER would contain a NUL byte");
  EXPECT_EQ(holdfast({"queue", "retry", "q", id}).code, 64);
  // It does not keep others from their retries.
  const auto other = add({"--attempts", "1"});
  ASSERT_EQ(work("false").code, 0);
  const auto all = holdfast({"queue", "retry", "q", "--all"});
  EXPECT_EQ(all.code, 70);
  EXPECT_NE(all.err.find("the task \"" + id + "\" is not retried: "), std::string::npos) << all.err;
  EXPECT_NE(all.err.find("1 of 2 failed tasks have a retry"), std::string::npos) << all.err;
  EXPECT_EQ(get(all.out.substr(0, all.out.find('\n')))["queue"]["retryOf"], other);
}

TEST_F(QueueCommands, AFullQueueEndsTheRetriesAndSaysHowManyThereAre) {
  for (int i = 0; i < 3; ++i) static_cast<void>(add({"--attempts", "1"}));
  ASSERT_EQ(work("false").code, 0);
  const auto full = holdfast({"--url", "sqlite:" + file("locks.db").string() + "?queue_max_tasks=5", "queue",
                              "retry", "q", "--all"});
  EXPECT_EQ(full.code, 75);
  EXPECT_EQ(std::ranges::count(full.out, '\n'), 2);
  EXPECT_NE(full.err.find("2 of 3 failed tasks have a retry"), std::string::npos) << full.err;
  EXPECT_NE(full.err.find("$HOLDFAST_QUEUE_MAX_TASKS"), std::string::npos) << full.err;
  const auto rest = holdfast({"queue", "retry", "q", "--all"});
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_TRUE(rest.out.starts_with(full.out)) << rest.out;
}

TEST_F(QueueCommands, TheLastLineOfTheProgressNeedNotBeEnded) {
  const auto id = add();
  ASSERT_EQ(work("echo first=1 >&3; printf last=2 >&3").code, 0);
  EXPECT_EQ(get(id)["variables"].dump(), R"({"first":1,"last":2})");
}

/// The descriptors that a child may open.
std::function<void()> limited_descriptors(rlim_t soft, rlim_t hard) {
  return [soft, hard] {
    const rlimit limit{.rlim_cur = soft, .rlim_max = hard};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(125);
  };
}

TEST_F(QueueCommands, EachVariableThatIsRefusedIsNamedAndTheOthersAreStored) {
  const auto id = add();
  const auto ran = work(
      R"(long=$(printf '%070000d' 0); for i in $(seq 60); do echo "bad$i=\"$long\""; echo "good$i=$i"; done >&3)");
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto variables = get(id)["variables"];
  EXPECT_EQ(variables.size(), 60U);
  for (int i = 1; i <= 60; ++i) {
    const auto number = std::to_string(i);
    EXPECT_EQ(variables.value("good" + number, 0), i);
    EXPECT_NE(
        ran.err.find("\"bad" + number + "\": the variable bad" + number + " contains a string of 70000"),
        std::string::npos)
        << number;
  }
}

TEST_F(QueueCommands, ManyCommandsNeedNoHigherLimitOfDescriptorsAndKeepTheirs) {
  for (int i = 0; i < 12; ++i) (void)add();
  const auto ran = holdfast(
      work_arguments("ulimit -n >> $DIR/limits; while [ $(wc -l < $DIR/limits) -lt 12 ]; do sleep 0.05; done",
                     {"--until-empty", "-j", "12"}),
      {.before_exec = limited_descriptors(64, 1024)});
  EXPECT_EQ(ran.code, 0) << ran.err;
  std::istringstream limits(contents(file("limits")));
  for (std::string limit; std::getline(limits, limit);) EXPECT_EQ(limit, "64");
  const auto refused = holdfast({"task", "work", "q", "-j", "200", "--until-empty", "--", "true"},
                                {.before_exec = limited_descriptors(1024, 1024)});
  EXPECT_EQ(refused.code, 64);
  EXPECT_NE(refused.err.find("at most 1024 are allowed. Raise the limit (ulimit -n)"), std::string::npos)
      << refused.err;
}

TEST_F(QueueCommands, ALineThatCannotBeAddedIsNamedAndAddsNothing) {
  const auto refusal_of = [&](const std::string& line) {
    const auto added = holdfast({"task", "add", "q", "-"}, {.input = "{}\n" + line + "\n"});
    EXPECT_NE(added.code, 0) << line;
    EXPECT_EQ(std::ranges::count(added.out, '\n'), 1) << line;
    return added.err;
  };
  EXPECT_NE(refusal_of(R"({"priority":18446744073709551615})").find("line 2: priority must be"),
            std::string::npos);
  EXPECT_NE(refusal_of(R"({"delay":5})").find("line 2: delay must be a duration in quotes, such as \"30s\""),
            std::string::npos);
  EXPECT_NE(refusal_of(R"({"requestKey":""})").find("line 2: requestKey must be"), std::string::npos);
  EXPECT_NE(refusal_of(R"({"variables":[]})").find("line 2: variables must be"), std::string::npos);
}

TEST_F(QueueCommands, ACommandThatCannotBeRunGivesItsTaskBack) {
  const auto id = add();
  const auto ran = holdfast({"task", "work", "q", "--once", "--", "/does/not/exist"});
  EXPECT_EQ(ran.code, 127) << ran.err;
  EXPECT_EQ(get(id)["queue"]["attempts"], 0);
  EXPECT_EQ(holdfast({"task", "work", "empty", "--once", "--", "true"}).code, 1);
  EXPECT_EQ(holdfast({"task", "work", "q"}).code, 64);
}

TEST_F(QueueCommands, SeveralCommandsRunAtOnce) {
  (void)add();
  (void)add();
  // Each waits for the other.
  const auto ran = work(
      "touch $DIR/$HOLDFAST_TASK_ID.here; while [ $(ls $DIR/*.here | wc -l) -lt 2 ]; do sleep 0.05; done",
      {"--until-empty", "-j", "2"});
  EXPECT_EQ(ran.code, 0) << ran.err;
}

TEST_F(QueueCommands, ACancelledTaskStopsItsCommandAndDescendants) {
  const auto id = add();
  const auto worker = start(work_arguments("sleep 60 & echo $! > $DIR/child; wait", {"--lease", "3"}));
  const auto child = pid_in(file("child"));
  EXPECT_EQ(holdfast({"queue", "cancel", "q", id}).code, 0);
  EXPECT_TRUE(eventually([&] { return !alive(child); }));
  worker->signal(SIGTERM);
  EXPECT_EQ(worker->wait().code, 0);
  EXPECT_EQ(get(id)["task"]["status"], "cancelled");
}

TEST_F(QueueCommands, TermDrainsAndASecondOneGivesBack) {
  const auto id = add();
  const auto worker = start(work_arguments("echo $$ > $DIR/started; sleep 60", {"--lease", "10"}));
  const auto command = pid_in(file("started"));
  worker->signal(SIGTERM);
  EXPECT_TRUE(eventually([&] { return contents(worker->err()).find("draining") != std::string::npos; }));
  EXPECT_FALSE(worker->finished());
  EXPECT_TRUE(alive(command)) << "it may finish";
  worker->signal(SIGTERM);
  const auto ended = worker->wait();
  EXPECT_EQ(ended.code, 0);
  EXPECT_NE(ended.err.find("drained: all commands have ended; tasks given back: 1\n"), std::string::npos)
      << ended.err;
  EXPECT_FALSE(alive(command));
  const auto task = get(id);
  EXPECT_EQ(task["queue"]["place"], "ready");
  EXPECT_EQ(task["queue"]["attempts"], 0) << "the attempt does not count";
}

TEST_F(QueueCommands, AnOutcomeThatWasNotAnsweredIsReportedAsUnknown) {
  if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  const RedisServer server;
  TcpProxy proxy(server.port());
  const auto url = "redis://127.0.0.1:" + std::to_string(proxy.port()) + "?command_timeout=300ms";
  const Program::Options there{.environment = {"HOLDFAST_URL=" + url}};
  ASSERT_EQ(holdfast({"task", "add", "q"}, there).code, 0);
  const auto worker = start(
      work_arguments("echo $$ > $DIR/started; until test -e $DIR/go; do sleep 0.02; done", {"--lease", "60"}),
      there);
  const auto command = pid_in(file("started"));
  proxy.swallow(TcpProxy::Way::to_client);
  std::ofstream(file("go")).close();
  EXPECT_TRUE(eventually([&] { return !alive(command); }));
  worker->signal(SIGTERM);
  EXPECT_TRUE(eventually([&] { return contents(worker->err()).find("draining") != std::string::npos; }));
  worker->signal(SIGTERM);
  const auto ended = worker->wait();
  EXPECT_NE(ended.err.find("(attempt 1) is unknown: "), std::string::npos) << ended.err;
}

TEST_F(QueueCommands, AfterTermACommandMayFinish) {
  const auto id = add();
  const auto worker = start(work_arguments(
      "echo $$ > $DIR/started; while [ ! -e $DIR/go ]; do sleep 0.05; done; echo 1", {"--lease", "10"}));
  (void)pid_in(file("started"));
  worker->signal(SIGTERM);
  std::ofstream(file("go")) << "go";
  EXPECT_EQ(worker->wait().code, 0);
  EXPECT_EQ(get(id)["result"], 1);
}

TEST_F(QueueCommands, AKilledWorkersTaskIsDoneByTheNextOnceItsCommandIsGone) {
  const auto id = add();
  // Of a length that this test does not wait for.
  const std::vector<std::string> lease{"--lease", "600", "--grace", "60"};
  const auto worker =
      start(work_arguments("trap 'touch $DIR/told; while [ ! -e $DIR/go ]; do sleep 0.05; done; exit' TERM; "
                           "echo $$ > $DIR/started; "
                           "sleep 60 & wait; wait",
                           lease));
  const auto command = pid_in(file("started"));
  worker->signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return std::filesystem::exists(file("told")); }));
  const auto next = start(work_arguments(
      "kill -0 $(cat $DIR/started) && echo '\"overlap\"' || echo $HOLDFAST_TASK_ATTEMPT", lease));
  EXPECT_EQ(holdfast({"queue", "wait", "q", id, "--timeout", "2"}).code, 1) << "the command still cleans up";
  EXPECT_TRUE(alive(command));
  std::ofstream(file("go")) << "go";
  EXPECT_EQ(holdfast({"queue", "wait", "q", id, "--timeout", "30"}).code, 0);
  next->signal(SIGTERM);
  EXPECT_EQ(next->wait().code, 0);
  const auto task = get(id);
  EXPECT_EQ(task["result"], 2) << "the second attempt";
  EXPECT_EQ(task["queue"]["deaths"], 1);
}

TEST_F(QueueCommands, AWorkerReportsFailedAttemptsAndTheTasksThatAreLeft) {
  const auto id = add();
  const auto failed = work("exit 3");
  EXPECT_EQ(failed.code, 0);
  EXPECT_NE(failed.err.find("task \"" + id +
                            "\" of \"q\", attempt 1: the command exited with 3. It is tried again in "),
            std::string::npos)
      << failed.err;
  EXPECT_NE(failed.err.find("unfinished tasks in \"q\": 1; 1 delayed, the next due in "), std::string::npos)
      << failed.err;
  (void)add();
  EXPECT_EQ(holdfast({"queue", "pause", "q"}).code, 0);
  const auto paused = work("true");
  EXPECT_NE(paused.err.find("the queue is paused (holdfast queue resume q)"), std::string::npos)
      << paused.err;
}

TEST_F(QueueCommands, QueuesAreListedPausedResumedAndPurged) {
  const auto id = add({"--attempts", "1"});
  EXPECT_EQ(holdfast({"queue", "pause", "q"}).code, 0);
  EXPECT_EQ(holdfast({"task", "work", "q", "--once", "--", "true"}).code, 1);
  const auto listed = ordered_json::parse(holdfast({"--json", "queue", "list"}).out);
  EXPECT_EQ(listed["queue"], "q");
  EXPECT_EQ(listed["ready"], 1);
  EXPECT_TRUE(listed["paused"]);
  EXPECT_EQ(holdfast({"queue", "resume", "q"}).code, 0);
  ASSERT_EQ(work("exit 1").code, 0);
  EXPECT_EQ(holdfast({"queue", "wait", "q", id}).code, 80);
  const auto again = holdfast({"queue", "retry", "q", id});
  ASSERT_EQ(again.code, 0) << again.err;
  ASSERT_EQ(work("true").code, 0);
  EXPECT_NE(holdfast({"queue", "show", "q"}).out.find("completed"), std::string::npos);
  EXPECT_EQ(ordered_json::parse(holdfast({"--json", "queue", "purge", "q"}).out)["removed"], 2);
  EXPECT_EQ(holdfast({"queue", "get", "q", id}).code, 1);
}

TEST_F(QueueCommands, AMistypedQueueIsRefusedAndTheNearestNameShown) {
  (void)holdfast({"task", "add", "render"});
  (void)holdfast({"task", "add", "mail"});
  for (const std::vector<std::string>& command : {std::vector<std::string>{"queue", "show", "rendr"},
                                                  {"queue", "pause", "rendr"},
                                                  {"queue", "resume", "rendr"},
                                                  {"queue", "limit", "rendr", "3"}}) {
    const auto refused = holdfast(command);
    EXPECT_EQ(refused.code, 1) << command[1];
    EXPECT_EQ(refused.out, "") << command[1];
    EXPECT_NE(refused.err.find("there is no queue \"rendr\""), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find("Did you mean \"render\"?"), std::string::npos) << refused.err;
    auto with_json = command;
    with_json.insert(with_json.begin(), "--json");
    const auto answer = holdfast(with_json);
    EXPECT_EQ(answer.code, 1);
    EXPECT_EQ(answer.out, "");
    EXPECT_EQ(ordered_json::parse(answer.err)["error"]["code"], "NotFound") << answer.err;
  }
  const auto unlike = holdfast({"queue", "pause", "nightly-reports"});
  EXPECT_EQ(unlike.code, 1);
  EXPECT_EQ(unlike.err.find("Did you mean"), std::string::npos) << unlike.err;
  EXPECT_NE(unlike.err.find("--create"), std::string::npos) << unlike.err;
  const auto listed = holdfast({"queue", "list"}).out;
  EXPECT_EQ(listed.find("rendr"), std::string::npos) << "nothing was made: " << listed;
  EXPECT_EQ(listed.find("paused"), std::string::npos) << listed;
}

TEST_F(QueueCommands, AQueueCanBeSetUpBeforeItsFirstTask) {
  EXPECT_EQ(holdfast({"queue", "pause", "later", "--create"}).code, 0);
  EXPECT_EQ(holdfast({"queue", "limit", "later", "2"}).code, 0) << "it is there now";
  const auto shown = holdfast({"--json", "queue", "show", "later"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_TRUE(ordered_json::parse(shown.out)["paused"]);
  EXPECT_EQ(holdfast({"queue", "resume", "later"}).code, 0);
  EXPECT_EQ(holdfast({"queue", "limit", "other", "2", "--create"}).code, 0);
}

TEST_F(QueueCommands, AnAttemptThatTakesLongerThanItsLimitCountsAndIsRetriedLater) {
  const auto id = open(url()).queue("q").add({.max_attempts = 3, .attempt_limit = 2s}).id;
  const auto worked = work("sleep 30", {"--once", "--lease", "3s", "--grace", "100ms"});
  EXPECT_EQ(worked.code, 0) << worked.err;
  const auto task = get(id);
  EXPECT_EQ(task["queue"]["attempts"], 1) << task;
  EXPECT_EQ(task["queue"]["place"], "delayed") << task;
  EXPECT_NE(task.dump().find("took longer than its time limit"), std::string::npos) << task;
}

TEST_F(QueueCommands, ATimeLimitThatLeavesACommandNoTimeIsRefused) {
  const auto refused = holdfast({"task", "add", "q", "--time-limit", "9s"});
  EXPECT_EQ(refused.code, 64);
  EXPECT_NE(refused.err.find("use at least 10"), std::string::npos) << refused.err;
  EXPECT_NE(add({"--time-limit", "10s"}), "");
}

}  // namespace
}  // namespace holdfast::test
