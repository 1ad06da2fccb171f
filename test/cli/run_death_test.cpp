#include <sched.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <holdfast/clock.hpp>
#include <sstream>
#include <thread>

#include "process/stop_count.hpp"
#include "program.hpp"
#include "support/in_child.hpp"
#include "support/paths.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// A command with everything that a simple kill would miss: a child, a grandchild whose parent has died, and
/// one in a session of its own. `$1` is put in front of each sleep (a trap, say).
constexpr const char* family =
    "sh -c 'echo $$ > $DIR/child; exec sleep 60' &\n"
    "sh -c 'sh -c \"echo \\$\\$ > $DIR/orphan; exec sleep 60\" & exit 0'\n"
    "setsid sh -c 'echo $$ > $DIR/session; exec sleep 60' &\n"
    "sh -c 'trap \"\" TERM; echo $$ > $DIR/stubborn; while :; do sleep 0.05; done' &\n"
    "echo $$ > $DIR/command\n"
    "echo $PPID > $DIR/keeper\n"
    "sleep 60 & wait\n";

class RunDeath : public CliTest {
 protected:
  [[nodiscard]] std::unique_ptr<Program> start_family(const std::string& ttl) {
    auto program = start({"run", "--ttl", ttl, "k", "--", "sh", "-c", family});
    for (const char* who : {"child", "orphan", "session", "stubborn", "command"})
      members_.push_back(pid_in(file(who)));
    keeper_ = pid_in(file("keeper"));
    return program;
  }
  [[nodiscard]] bool family_is_gone() const {
    for (const auto pid : members_) {
      if (alive(pid)) return false;
    }
    return true;
  }
  /// A waiter that notes when it got the lock, and whether somebody of the family was still there.
  [[nodiscard]] std::unique_ptr<Program> start_waiter() const {
    std::string look;
    for (const auto pid : members_) {
      look += "grep -sq '^State:.[^Z]' /proc/" + std::to_string(pid) + "/status && echo " +
              std::to_string(pid) + " lives;";
    }
    return start({"run", "k", "--", "sh", "-c", look + " echo got"});
  }
  pid_t keeper_ = -1;

 private:
  std::vector<pid_t> members_;
};

TEST_F(RunDeath, KilledHoldfastTakesItsCommandAndAllDescendantsAlongBeforeTheLeaseEnds) {
  auto victim = start_family("2");
  auto waiter = start_waiter();
  std::this_thread::sleep_for(100ms);
  const auto killed_at = Clock::now();
  victim->signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return family_is_gone(); }, 1900ms));
  const auto result = waiter->wait();
  EXPECT_LE(Clock::now() - killed_at, 3s) << "ttl + 1 s";
  EXPECT_EQ(result.out, "got\n") << "nobody may outlive the lease";
  EXPECT_EQ(result.code, 0);
  EXPECT_TRUE(eventually([&] { return !alive(keeper_); })) << "the keeper must not stay behind";
}

TEST_F(RunDeath, KilledHoldfastTakesItsCommandAlongAtOnceHoweverLongTheLease) {
  auto program =
      start({"run", "--ttl", "1h", "k", "--", "sh", "-c", "echo $$ > $DIR/command; exec sleep 60"});
  const auto command = pid_in(file("command"));
  program->signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return !alive(command); }, 3s));
}

TEST_F(RunDeath, StoppedHoldfastLosesTheLockAndItsCommandIsGoneBefore) {
  auto victim = start_family("2");
  auto waiter = start_waiter();
  std::this_thread::sleep_for(100ms);
  const auto stopped_at = Clock::now();
  victim->signal(SIGSTOP);
  const auto result = waiter->wait();
  EXPECT_LE(Clock::now() - stopped_at, 3s);
  EXPECT_EQ(result.out, "got\n");
  victim->signal(SIGCONT);
  const auto end = victim->wait();
  EXPECT_EQ(end.code, 79);
  EXPECT_NE(end.err.find("lost the lock \"k\""), std::string::npos) << end.err;
}

TEST_F(RunDeath, AShortStopOfHoldfastDoesNoHarm) {
  auto program =
      start({"run", "--ttl", "3", "k", "--", "sh", "-c", "echo $$ > $DIR/pid; sleep 3.5; echo done"});
  (void)pid_in(file("pid"));
  program->signal(SIGSTOP);
  std::this_thread::sleep_for(300ms);
  program->signal(SIGCONT);
  const auto result = program->wait();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "done\n");
}

TEST_F(RunDeath, AServerThatHangsKeepsNobodyLongAfterTheLockWasLost) {
  if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  RedisServer server;
  const Program::Options there{.environment = {"HOLDFAST_URL=" + server.url()}};
  const auto run = start(
      {"run", "--ttl", "1500ms", "k", "--", "sh", "-c", "echo $$ > $DIR/command; exec sleep 60"}, there);
  const auto task_run = start({"task", "run", "--owner", "alice", "--lease", "1500ms", "--", "sh", "-c",
                               "echo $$ > $DIR/task; exec sleep 60"},
                              there);
  const auto command = pid_in(file("command")), task = pid_in(file("task"));
  server.pause();
  const auto stopped_at = Clock::now();
  for (const auto& program : {run.get(), task_run.get()}) {
    const auto result = program->wait();
    EXPECT_EQ(result.code, 79) << result.err;
    EXPECT_NE(result.err.find("could not be renewed in time"), std::string::npos) << result.err;
  }
  EXPECT_LT(Clock::now() - stopped_at, 8s) << "a release has two command timeouts, of 5 s each";
  EXPECT_FALSE(alive(command) || alive(task));
  server.resume();
}

TEST_F(RunDeath, WhatTheServerRefusedTheLastRenewalForIsReported) {
  if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  RedisServer server;
  const auto program =
      start({"run", "--ttl", "1500ms", "k", "--", "sh", "-c", "echo $$ > $DIR/command; exec sleep 60"},
            {.environment = {"HOLDFAST_URL=" + server.url()}});
  (void)pid_in(file("command"));
  server.raw().text({"CONFIG", "SET", "min-replicas-to-write", "1"});
  const auto result = program->wait();
  EXPECT_EQ(result.code, 79) << result.err;
  EXPECT_NE(result.err.find("could not be renewed in time (ServiceUnavailable: "), std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("NOREPLICAS"), std::string::npos) << result.err;
}

TEST_F(RunDeath, WithoutItsKeeperTheCommandIsEnded) {
  auto program = start_family("6");
  kill(keeper_, SIGKILL);
  const auto result = program->wait();
  EXPECT_EQ(result.code, 70);
  EXPECT_TRUE(family_is_gone());
  EXPECT_NE(result.err.find("was killed"), std::string::npos) << result.err;
  EXPECT_EQ(holdfast({"lock", "show", "k"}).code, 1);
}

TEST_F(RunDeath, WithoutItsKeeperNoCommandBegins) {
  auto holder = start({"run", "k", "--", "sh", "-c", "echo $$ > $DIR/holder; exec sleep 60"});
  (void)pid_in(file("holder"));
  auto program = start({"run", "k", "--", "touch", file("ran").string()});
  const auto task = "/proc/" + std::to_string(program->pid()) + "/task/" + std::to_string(program->pid());
  pid_t keeper = -1;
  ASSERT_TRUE(
      eventually([&] { return (std::istringstream(contents(task + "/children")) >> keeper).good(); }));
  kill(keeper, SIGKILL);
  holder->signal(SIGTERM);
  const auto result = program->wait();
  EXPECT_EQ(result.code, 70);
  EXPECT_NE(result.err.find("supervises the command"), std::string::npos) << result.err;
  EXPECT_FALSE(std::filesystem::exists(file("ran")));
  EXPECT_EQ(holdfast({"lock", "show", "k"}).code, 1);
}

/// From now on it cannot open anything, /proc included.
void take_descriptors_away(pid_t pid) {
  const rlimit none{.rlim_cur = 0, .rlim_max = 0};
  EXPECT_EQ(prlimit(pid, RLIMIT_NOFILE, &none, nullptr), 0);
}

TEST_F(RunDeath, AKeeperThatCannotReadProcEndsTheCommandAllTheSame) {
  auto program = start({"run", "--grace", "0.5", "k", "--", "sh", "-c",
                        "trap '' TERM; sh -c 'echo $$ > $DIR/child; while :; do sleep 0.05; done' &\n"
                        "trap - TERM; echo $PPID > $DIR/keeper; echo $$ > $DIR/command; wait"});
  const auto child = pid_in(file("child"));
  const auto command = pid_in(file("command"));
  const auto keeper = pid_in(file("keeper"));
  take_descriptors_away(keeper);
  program->signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return !alive(command) && !alive(child) && !alive(keeper); }));
  if (alive(command)) kill(-command, SIGKILL);  // a failure must not stay behind
}

TEST_F(RunDeath, HoldfastThatCannotReadProcEndsTheCommandAllTheSame) {
  // A leak check at its end would need descriptors too.
  auto program = start({"run", "--ttl", "3", "k", "--", "sh", "-c",
                        "setsid sh -c 'setsid sleep 60 & echo $! > $DIR/lower; exec sleep 60' &\n"
                        "echo $! > $DIR/upper; echo $PPID > $DIR/keeper; echo $$ > $DIR/command; wait"},
                       {.environment = {"ASAN_OPTIONS=detect_leaks=0"}});
  const auto upper = pid_in(file("upper")), lower = pid_in(file("lower")), command = pid_in(file("command"));
  take_descriptors_away(program->pid());
  kill(pid_in(file("keeper")), SIGKILL);
  const auto result = program->wait();
  EXPECT_EQ(result.code, 70);
  EXPECT_FALSE(alive(command) || alive(upper) || alive(lower)) << "not even in sessions of their own";
  EXPECT_EQ(holdfast({"lock", "show", "k"}).code, 1);
}

TEST_F(RunDeath, NoSignalThatCanBeIgnoredEndsTheKeeper) {
  auto program = start({"run", "k", "--", "sh", "-c",
                        "echo $PPID > $DIR/keeper; while [ ! -e $DIR/go ]; do sleep 0.01; done; exit 7"});
  const auto keeper = pid_in(file("keeper"));
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGALRM, SIGUSR1, SIGTSTP, SIGIO,
                           SIGPWR, SIGRTMIN, SIGRTMIN + 1, SIGRTMAX}) {
    kill(keeper, signal);
  }
  std::ofstream(file("go")) << "\n";
  EXPECT_EQ(program->wait().code, 7);
}

TEST_F(RunDeath, KilledTogetherHoldfastAndKeeperTakeTheCommandAlong) {
  auto program = start(
      {"run", "k", "--", "sh", "-c", "echo $PPID > $DIR/keeper; echo $$ > $DIR/command; exec sleep 60"});
  const auto command = pid_in(file("command"));
  const auto keeper = pid_in(file("keeper"));
  program->signal(SIGSTOP);  // so that it cannot step in
  kill(keeper, SIGKILL);
  EXPECT_TRUE(eventually([&] { return !alive(command); }, 2s));
}

TEST_F(RunDeath, AStoppedKeeperDoesNotSaveACommandWhoseLockIsLost) {
  auto program = start({"run", "--ttl", "2", "--max-hold", "2", "k", "--", "sh", "-c",
                        "echo $PPID > $DIR/keeper; echo $$ > $DIR/command; exec sleep 60"});
  const auto command = pid_in(file("command"));
  kill(pid_in(file("keeper")), SIGSTOP);
  EXPECT_EQ(program->wait().code, 79);
  EXPECT_FALSE(alive(command));
}

/// Keeps every other user of a lock file from writing while it lives, so that nothing is renewed.
class BlockedFile {
 public:
  explicit BlockedFile(const std::filesystem::path& path) {
    EXPECT_EQ(sqlite3_open(path.c_str(), &connection_), SQLITE_OK);
    sqlite3_busy_timeout(connection_, 5000);
    EXPECT_EQ(sqlite3_exec(connection_, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  }
  ~BlockedFile() { sqlite3_close(connection_); }
  BlockedFile(const BlockedFile&) = delete;
  BlockedFile& operator=(const BlockedFile&) = delete;

  [[nodiscard]] BootTime lease_end(const std::string& key) const {
    sqlite3_stmt* query = nullptr;
    const auto text = "SELECT deadline_ms FROM locks WHERE key = CAST('" + key + "' AS BLOB)";
    EXPECT_EQ(sqlite3_prepare_v2(connection_, text.c_str(), -1, &query, nullptr), SQLITE_OK);
    EXPECT_EQ(sqlite3_step(query), SQLITE_ROW);
    const BootTime end{std::chrono::milliseconds(sqlite3_column_int64(query, 0))};
    sqlite3_finalize(query);
    return end;
  }

 private:
  sqlite3* connection_ = nullptr;
};

TEST_F(RunDeath, AStoppedKeeperDoesNotLetTheCommandOutliveTheLease) {
  const auto start_one = [&](const std::string& key) {
    auto program = start({"run", "--ttl", "15", key, "--", "sh", "-c",
                          "echo $PPID > $DIR/keeper-$HOLDFAST_KEY; echo $$ > $DIR/command-$HOLDFAST_KEY; "
                          "exec sleep 60"});
    kill(pid_in(file("keeper-" + key)), SIGSTOP);
    return program;
  };
  auto quiet = start_one("quiet");
  auto busy = start_one("busy");
  {
    const BlockedFile blocked(file("locks.db"));
    busy->signal(SIGCONT);  // it wants to prove its lease at once, and gets no answer
    for (const std::string key : {"quiet", "busy"}) {
      const auto command = pid_in(file("command-" + key));
      std::this_thread::sleep_for(blocked.lease_end(key) - BootClock::now());
      EXPECT_FALSE(alive(command)) << key;
    }
  }
  EXPECT_EQ(quiet->wait().code, 79);
  EXPECT_EQ(busy->wait().code, 79);
}

TEST_F(RunDeath, ACommandIsKilledEarlierIfMuchElseIsToBeStopped) {
  if (!in_child([] { return unshare(CLONE_NEWIPC) == 0; })) {
    GTEST_SKIP() << "no IPC namespace to be had (needs root); not covered here";
  }
  // Stands for some hundred other commands, which share a counter with this one.
  auto program = start({"run", "--ttl", "4", "--grace", "0", "k", "--", "sh", "-c",
                        "trap '' TERM; echo $$ > $DIR/command; sleep 60"},
                       {.before_exec = [] {
                         if (unshare(CLONE_NEWIPC) != 0) _exit(126);
                         static cli::StopCount others;
                         others.set(4000);  // which the process keeps when it becomes holdfast
                       }});
  const auto command = pid_in(file("command"));
  {
    const BlockedFile blocked(file("locks.db"));
    // Alone it is killed 200 ms before the lease expires.
    std::this_thread::sleep_for(blocked.lease_end("k") - BootClock::now() - 700ms);
    EXPECT_FALSE(alive(command));
  }
  EXPECT_EQ(program->wait().code, 79);
}

TEST_F(RunDeath, AStoppedKeeperDoesNotSaveACommandWhoseLockWasTakenAwayHoweverLongTheLease) {
  auto program = start(
      {"run", "--ttl", "1h", "--grace", "0.1", "k", "--", "sh", "-c",
       "echo $PPID > $DIR/keeper; echo $$ > $DIR/command; echo $HOLDFAST_LOCK_ID > $DIR/id; exec sleep 60"});
  const auto command = pid_in(file("command"));
  ASSERT_TRUE(eventually([&] { return contents(file("id")).ends_with('\n'); }));
  kill(pid_in(file("keeper")), SIGSTOP);
  EXPECT_EQ(holdfast({"lock", "release", contents(file("id")).substr(0, 22)}).code, 0);
  program->signal(SIGCONT);  // now it looks after its lease
  EXPECT_EQ(program->wait().code, 79);
  EXPECT_FALSE(alive(command));
}

TEST_F(RunDeath, ChildrenThatHoldfastHadBeforeAreNotTouched) {
  const auto result = Program(directory(),
                              {"sh", "-c",
                               "sleep 60 >/dev/null 2>&1 & echo $! > $DIR/stranger\n"
                               "exec $HOLDFAST run k -- sh -c 'kill -9 $PPID; sleep 60'"},
                              {.environment = {"HOLDFAST_URL=" + url(), "DIR=" + directory().string(),
                                               "HOLDFAST=" + holdfast_program()}})
                          .wait();
  EXPECT_EQ(result.code, 70);
  const auto stranger = pid_in(file("stranger"));
  EXPECT_TRUE(alive(stranger));
  kill(stranger, SIGKILL);
}

TEST_F(RunDeath, SignalsAreForwarded) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1}) {
    const auto ready = "ready" + std::to_string(signal);
    auto program = start({"run", "k", "--", "sh", "-c",
                          "trap 'exit 40' " + std::to_string(signal) + "; echo $$ > $DIR/" + ready +
                              "; while :; do sleep 0.02; done"});
    (void)pid_in(file(ready));
    program->signal(signal);
    EXPECT_EQ(program->wait().code, 40) << signal;
  }
}

TEST_F(RunDeath, ASignalTheCommandDoesNotCatchEndsIt) {
  auto program = start({"run", "k", "--", "sh", "-c", "echo $$ > $DIR/ready; sleep 60"});
  (void)pid_in(file("ready"));
  program->signal(SIGTERM);
  EXPECT_EQ(program->wait().code, 143);
}

TEST_F(RunDeath, ASignalIsNotLostWhileTheCommandIsBeingStarted) {
  for (int i = 0; i < 120; ++i) {
    auto program = start({"run", "k", "--", "sleep", "60"});
    const auto task = "/proc/" + std::to_string(program->pid()) + "/task/" + std::to_string(program->pid());
    // From the moment that the keeper has a child, in steps that cover what the child does until exec.
    std::string keeper;
    ASSERT_TRUE(eventually([&] {
      if (keeper.empty()) std::istringstream(contents(task + "/children")) >> keeper;
      return !keeper.empty() && !contents("/proc/" + keeper + "/task/" + keeper + "/children").empty();
    }));
    const auto until = Clock::now() + std::chrono::microseconds(20) * (i % 40);
    while (Clock::now() < until) {
    }
    program->signal(SIGTERM);
    ASSERT_EQ(program->wait(5s).code, 143) << "round " << i;
  }
}

TEST_F(RunDeath, ASignalThatComesBeforeTheCommandKeepsItFromStarting) {
  ASSERT_EQ(holdfast({"run", "k", "--", "true"}).code, 0);
  std::unique_ptr<Program> program;
  {
    const BlockedFile blocked(file("locks.db"));
    program = start({"run", "k", "--", "touch", file("ran").string()});
    program->wait_until_it_handles(SIGTERM);
    std::this_thread::sleep_for(500ms);  // it waits for the file, not for the lock
    program->signal(SIGTERM);
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_EQ(program->wait().code, 143);
  EXPECT_FALSE(std::filesystem::exists(file("ran")));
  EXPECT_EQ(holdfast({"lock", "show", "k"}).code, 1);
}

TEST_F(RunDeath, ALongCommandKeepsItsLock) {
  ASSERT_EQ(mkfifo(file("go").c_str(), 0600), 0);
  auto program = start(
      {"run", "--ttl", "3", "k", "--", "sh", "-c", "echo $$ > $DIR/ready; read x < $DIR/go; echo done"});
  (void)pid_in(file("ready"));
  const auto began = Clock::now();
  while (Clock::now() - began < 7s) {  // more than two leases; the command ends only when it is told to
    // Without its command, the fifo below would have no reader.
    ASSERT_EQ(holdfast({"lock", "acquire", "-n", "k"}).code, 75);
    std::this_thread::sleep_for(200ms);
  }
  std::ofstream(file("go")) << "\n";
  const auto result = program->wait();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "done\n");
}

TEST_F(RunDeath, TheLongestHoldEndsTheCommand) {
  const auto began = Clock::now();
  const auto result = holdfast({"run", "--ttl", "10", "--max-hold", "1", "k", "--", "sleep", "60"});
  EXPECT_EQ(result.code, 79);
  EXPECT_LE(Clock::now() - began, 5s);
  EXPECT_NE(result.err.find("--max-hold of 1 s"), std::string::npos) << result.err;
}

TEST_F(RunDeath, ALockTakenAwayEndsTheCommand) {
  auto program =
      start({"run", "--ttl", "1", "k", "--", "sh", "-c", "echo $HOLDFAST_LOCK_ID > $DIR/id; exec sleep 60"});
  ASSERT_TRUE(eventually([&] { return contents(file("id")).ends_with('\n'); }));
  EXPECT_EQ(holdfast({"lock", "release", contents(file("id")).substr(0, 22)}).code, 0);
  const auto result = program->wait();
  EXPECT_EQ(result.code, 79);
  EXPECT_NE(result.err.find("it was released, broken or acquired by another holder"), std::string::npos)
      << result.err;
}

TEST_F(RunDeath, ALockTakenAwayUnnoticedShowsInTheExitCode) {
  const auto result = holdfast({"run", "k", "--", "sh", "-c", "$HOLDFAST lock release $HOLDFAST_LOCK_ID"});
  EXPECT_EQ(result.code, 79);
  EXPECT_NE(result.err.find("while the command ran"), std::string::npos) << result.err;
}

TEST_F(RunDeath, TheCommandHasItsGraceToCleanUp) {
  const auto result = holdfast({"run", "--ttl", "6", "--max-hold", "3", "--grace", "1", "k", "--", "sh", "-c",
                                "trap 'sleep 0.1; echo cleaned; exit 0' TERM; while :; do sleep 0.02; done"});
  EXPECT_EQ(result.code, 79);
  EXPECT_EQ(result.out, "cleaned\n");
}

TEST_F(RunDeath, AStoppedCommandIsEndedToo) {
  auto program =
      start({"run", "--ttl", "2", "k", "--", "sh", "-c", "echo $$ > $DIR/command; kill -STOP $$; sleep 60"});
  const auto command = pid_in(file("command"));
  std::this_thread::sleep_for(2300ms);
  EXPECT_TRUE(alive(command)) << "without a terminal a stop is somebody's wish, and the lock is renewed";
  program->signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return !alive(command); }, 900ms));
}

TEST_F(RunDeath, AContinueReachesMembersOfTheGroupThatWereStoppedAlone) {
  auto program =
      start({"run", "k", "--", "sh", "-c", "sleep 60 & kill -STOP $!; echo $! > $DIR/child; wait"});
  const auto stat = "/proc/" + std::to_string(pid_in(file("child"))) + "/stat";
  ASSERT_TRUE(eventually([&] { return contents(stat).find(") T ") != std::string::npos; }));
  program->signal(SIGCONT);
  EXPECT_TRUE(eventually([&] { return contents(stat).find(") S ") != std::string::npos; }));
  program->signal(SIGTERM);
  EXPECT_EQ(program->wait().code, 143);
}

TEST_F(RunDeath, AForkBombIsEnded) {
  // Each generation forks the next and ends, ignoring TERM: a hunt by pid alone is always one behind.
  auto program = start({"run", "--ttl", "1", "k", "--", "sh", "-c",
                        "trap '' TERM; echo $$ > $DIR/ready; f() { f2; }; f2() { f & }; "
                        "for i in 1 2 3 4; do f & done; sleep 60"});
  (void)pid_in(file("ready"));
  const auto any_left = [&] {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const auto environment = contents(entry.path() / "environ");
      const auto pid = entry.path().filename().string();
      if (environment.find("DIR=" + directory().string()) != std::string::npos &&
          pid != std::to_string(program->pid()) && pid != "self" && pid != "thread-self" &&
          alive(std::stoi(pid))) {
        return true;
      }
    }
    return false;
  };
  EXPECT_TRUE(any_left());
  program->signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return !any_left(); }, 3s));
}

}  // namespace
}  // namespace holdfast::test
