#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "program.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

class Run : public CliTest {
 protected:
  Finished shell(const std::string& script, std::vector<std::string> options = {}) const {
    options.insert(options.begin(), "run");
    for (const char* word : {"k", "--", "sh", "-c"}) options.emplace_back(word);
    options.push_back(script);
    return holdfast(options);
  }
  /// Another `run` that holds the key until it is killed.
  [[nodiscard]] std::unique_ptr<Program> holder(const std::string& key = "k") const {
    auto program = start({"run", key, "--", "sh", "-c", "echo $$ > $DIR/holder; exec sleep 60"});
    (void)pid_in(file("holder"));
    return program;
  }
};

TEST_F(Run, TheExitCodeIsTheCommands) {
  EXPECT_EQ(shell("exit 0").code, 0);
  EXPECT_EQ(shell("exit 7").code, 7);
  EXPECT_EQ(shell("exit 255").code, 255);
}

TEST_F(Run, LeavesNoProcessBehindThatSomebodyElseMustReap) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // as a container's first process is, often one that does not reap
  EXPECT_EQ(shell("exit 3").code, 3);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "there is a child that is not ours";
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_F(Run, ACommandThatDiedOfASignalGives128AndItsNumber) {
  EXPECT_EQ(shell("kill -TERM $$").code, 143);
  EXPECT_EQ(shell("kill -KILL $$").code, 137);
  EXPECT_EQ(shell("kill -INT $$").code, 130);
}

TEST_F(Run, ACommandThatCannotBeRunGives126Or127) {
  EXPECT_EQ(holdfast({"run", "k", "--", "no-such-command-anywhere"}).code, 127);
  EXPECT_EQ(holdfast({"run", "k", "--", "/no/such/file"}).code, 127);
  EXPECT_EQ(holdfast({"run", "k", "--", ""}).code, 127);
  EXPECT_EQ(holdfast({"run", "k", "--", directory().string()}).code, 126);
  std::ofstream(file("plain")) << "echo hi\n";
  EXPECT_EQ(holdfast({"run", "k", "--", file("plain").string()}).code, 126);
  std::filesystem::permissions(file("plain"), std::filesystem::perms::owner_all);
  const auto no_shell = holdfast({"run", "k", "--", file("plain").string()});
  EXPECT_EQ(no_shell.code, 126) << "a script without #! must not be run by an implicit shell";
  EXPECT_NE(no_shell.err.find("plain"), std::string::npos);
  EXPECT_EQ(holdfast({"lock", "show", "k"}).code, 1) << "the lock must be free again";
}

TEST_F(Run, TheLockIsHeldMeanwhileAndFreeAfterwards) {
  EXPECT_EQ(shell("$HOLDFAST lock show k").code, 0);
  EXPECT_EQ(holdfast({"lock", "show", "k"}).code, 1);
}

TEST_F(Run, TheEnvironmentDescribesTheLock) {
  const auto result = holdfast({"run", "--ttl", "20", "caf\x65\xcc\x81", "--", "env"});
  std::map<std::string, std::string> found;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);)
    found[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
  EXPECT_EQ(found["HOLDFAST_KEY"], "caf\xc3\xa9") << "normalised";
  EXPECT_EQ(found["HOLDFAST_LOCK_ID"].size(), 22U);
  EXPECT_EQ(found["HOLDFAST_FENCE"], "000000000000001");
  EXPECT_EQ(found["HOLDFAST_AUTHORITY"].size(), 36U);
  EXPECT_EQ(found["HOLDFAST_URL"], url());
  const auto left = std::chrono::milliseconds(std::stoll(found["HOLDFAST_EXPIRES_AT_MS"])) -
                    std::chrono::system_clock::now().time_since_epoch();
  EXPECT_GT(left, 0s);
  EXPECT_LE(left, 20s);
}

TEST_F(Run, ARelativeUrlIsAbsoluteForTheCommand) {
  const auto where = directory();
  const auto result =
      holdfast({"--url", "sqlite:rel.db", "run", "k", "--", "sh", "-c", "cd / && $HOLDFAST lock show k"},
               {.before_exec = [where] { (void)!chdir(where.c_str()); }});
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST_F(Run, ArgumentsReachTheCommandExactly) {
  const std::vector<std::string> odd{"-n",    "--ttl",  "--",     "",    "a b",        "{}",
                                     "[a,b]", "--help", "--json", "%%",  "\"quoted\"", "$HOME",
                                     "*",     "\n",     "lock",   "run", "-w=5",       "\xff"};
  for (const bool marked : {true, false}) {
    std::vector<std::string> typed{"run", "k"};
    if (marked) typed.emplace_back("--");
    typed.insert(typed.end(), {"printf", "<%s>"});
    typed.insert(typed.end(), odd.begin(), odd.end());
    std::string expected;
    for (const auto& one : odd) expected += "<" + one + ">";
    EXPECT_EQ(holdfast(typed).out, expected);
  }
}

TEST_F(Run, AKeyThatLooksLikeAnOptionWorksAfterTwoDashes) {
  EXPECT_EQ(holdfast({"run", "--", "-n", "printenv", "HOLDFAST_KEY"}).out, "-n\n");
  EXPECT_EQ(holdfast({"run", "--", "-n", "--", "printenv", "HOLDFAST_KEY"}).out, "-n\n");
}

TEST_F(Run, StandardInputAndOutputsAreTheCallers) {
  const auto result = holdfast({"run", "k", "--", "sh", "-c", "cat; echo oops >&2"}, {.input = "through\n"});
  EXPECT_EQ(result.out, "through\n");
  EXPECT_EQ(result.err, "oops\n");
}

/// The numbers in a listing of /proc/self/fd by `ls -l`, without the directory that ls itself has open.
std::vector<int> descriptors(const std::string& listing) {
  std::vector<int> result;
  std::istringstream lines(listing);
  for (std::string line; std::getline(lines, line);) {
    const auto arrow = line.find(" -> ");
    if (arrow == std::string::npos || line.find(" -> /proc/") != std::string::npos) continue;
    result.push_back(std::stoi(line.substr(line.rfind(' ', arrow - 1) + 1)));
  }
  return result;
}

TEST_F(Run, NoDescriptorOfOursIsInherited) {
  const auto result = holdfast({"run", "k", "--", "ls", "-l", "/proc/self/fd"}, {.before_exec = [] {
                                 close_range(3, ~0U, 0);
                                 // One that the caller passes on purpose, as `7>file` does.
                                 if (::open("/dev/null", O_WRONLY) != 3 || dup2(3, 7) != 7 || close(3) != 0)
                                   _exit(99);
                               }});
  EXPECT_EQ(descriptors(result.out), (std::vector<int>{0, 1, 2, 7})) << result.out;
}

TEST_F(Run, ClosedStandardDescriptorsStayClosedForTheCommand) {
  const auto result = holdfast({"run", "k", "--", "ls", "-l", "/proc/self/fd"}, {.before_exec = [] {
                                 close_range(3, ~0U, 0);
                                 close(0);
                                 close(2);
                               }});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(descriptors(result.out), (std::vector<int>{1})) << result.out;
}

TEST_F(Run, APipeOfTheCallerEndsWhenTheCommandClosesIt) {
  // holdfast itself keeps what it was given; the keeper must not, or a reader waits for the keeper too. It
  // closes them once it has started the command, so the command may be faster.
  const auto result = shell(
      "for i in $(seq 500); do kept=$(ls -l /proc/$PPID/fd | grep -c 'out$\\|in$');"
      " [ $kept = 0 ] && break; sleep 0.02; done; echo $kept");
  EXPECT_EQ(result.out, "0\n");
}

TEST_F(Run, IgnoredAndBlockedSignalsAreInheritedUnchanged) {
  const auto status = [&](const std::string& name, const std::string& text) {
    const auto at = text.find(name + ":\t");
    return at == std::string::npos ? std::string() : text.substr(at + name.size() + 2, 16);
  };
  const auto prepare = [] {
    for (int signal = 1; signal < 32; ++signal) std::signal(signal, SIG_DFL);
    std::signal(SIGHUP, SIG_IGN);
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGCHLD, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_SETMASK, &set, nullptr);
  };
  const auto direct = Program(directory(), {"cat", "/proc/self/status"}, {.before_exec = prepare}).wait();
  const auto through = holdfast({"run", "k", "--", "cat", "/proc/self/status"}, {.before_exec = prepare});
  ASSERT_EQ(through.code, 0) << through.err;
  EXPECT_NE(status("SigIgn", direct.out), "0000000000000000");
  EXPECT_EQ(status("SigIgn", through.out), status("SigIgn", direct.out));
  EXPECT_EQ(status("SigBlk", through.out), status("SigBlk", direct.out));
}

TEST_F(Run, TheSecondWaitsAndThenRunsWithAHigherFence) {
  auto first = start(
      {"run", "k", "--", "sh", "-c",
       "echo $HOLDFAST_FENCE; echo $$ > $DIR/one; while [ ! -e $DIR/go ]; do sleep 0.01; done; echo end"});
  (void)pid_in(file("one"));
  auto second = start({"run", "k", "--", "sh", "-c", "[ -e $DIR/go ] && echo $HOLDFAST_FENCE"});
  std::this_thread::sleep_for(200ms);
  EXPECT_FALSE(second->finished());
  std::ofstream(file("go")) << "\n";
  const auto one = first->wait();
  const auto two = second->wait();
  EXPECT_EQ(one.code, 0);
  EXPECT_EQ(two.code, 0) << two.err;
  EXPECT_GT(two.out.substr(0, 15), one.out.substr(0, 15));
}

TEST_F(Run, WithoutPatienceItExitsAtOnceAndSaysWhy) {
  const auto other = holder();
  for (const auto& how : {std::vector<std::string>{"-n"}, {"--no-wait"}, {"-w", "0"}, {"--wait=0"}}) {
    const auto result = shell("echo ran", how);
    EXPECT_EQ(result.code, 75);
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find("\"k\" is held by "), std::string::npos) << result.err;
  }
  EXPECT_EQ(shell("true", {"-n", "-E", "3"}).code, 3);
  EXPECT_EQ(shell("true", {"-n", "-E", "0"}).code, 0);
  const auto refused = holdfast({"--json", "run", "-n", "k", "--", "true"});
  EXPECT_EQ(refused.out, "") << "standard output is the command's";
  EXPECT_EQ(nlohmann::json::parse(refused.err)["error"]["code"], "AcquisitionTimeout");
}

TEST_F(Run, WithSomePatienceItWaitsThatLong) {
  const auto other = holder();
  const auto began = std::chrono::steady_clock::now();
  const auto result = shell("echo ran", {"-w", "300ms"});
  EXPECT_EQ(result.code, 75);
  EXPECT_GE(std::chrono::steady_clock::now() - began, 300ms);
  EXPECT_NE(result.err.find("gave up after 300 ms"), std::string::npos) << result.err;
}

TEST_F(Run, SaysWhatItWaitsForIfAsked) {
  const auto other = holder();
  const auto silent = start({"run", "-w", "1m", "k", "--", "true"});
  const auto told = start({"run", "-w", "1m", "--verbose", "k", "--", "true"});
  EXPECT_TRUE(eventually([&] {
    return contents(told->err()).starts_with("holdfast: waiting for \"k\", held by ");
  })) << contents(told->err());
  EXPECT_EQ(contents(silent->err()), "") << "not without a terminal";
}

TEST_F(Run, ASignalEndsTheWait) {
  const auto other = holder();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    auto waiter = start({"run", "k", "--", "sh", "-c", "echo ran"});
    waiter->wait_until_it_handles(signal);
    waiter->signal(signal);
    const auto result = waiter->wait();
    EXPECT_EQ(result.code, 128 + signal);
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(Run, NestedOnAKeyItHoldsItIsRefusedAtOnce) {
  const auto result = shell("$HOLDFAST run k -- echo ran");
  EXPECT_EQ(result.code, 75);
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("\"k\" is already held by the `holdfast run` that started this command"),
            std::string::npos)
      << result.err;
  EXPECT_EQ(shell("$HOLDFAST run -E 5 k -- echo ran").code, 5);
  EXPECT_EQ(shell("$HOLDFAST lock acquire k").code, 75);
}

TEST_F(Run, NestedUnderAGrandparentItIsRefusedToo) {
  const auto result =
      shell("$HOLDFAST run other -- sh -c '$HOLDFAST run third -- $HOLDFAST run k -- echo ran'");
  EXPECT_EQ(result.code, 75);
  EXPECT_EQ(result.out, "");
}

TEST_F(Run, NestedAndWaitingWithoutALimitItWarnsOfADeadlock) {
  const auto other = holder();
  const std::string warning = "If the holder waits for that one, neither wait ever ends";
  const auto nested = [&](const std::string& outer, const std::string& options) {
    return start({"run", outer, "--", "sh", "-c", "exec $HOLDFAST run " + options + " k -- true"});
  };
  const auto limited = nested("outer 1", "-w 1m"), quiet = nested("outer 2", "-q");
  const auto unlimited = nested("outer 3", "");
  EXPECT_TRUE(eventually([&] { return contents(unlimited->err()).find(warning) != std::string::npos; }))
      << contents(unlimited->err());
  EXPECT_TRUE(contents(unlimited->err()).starts_with("holdfast: waiting for \"k\", held by "));
  for (const auto& program : {limited.get(), quiet.get()}) {
    program->signal(SIGTERM);
    EXPECT_EQ(program->wait().err.find(warning), std::string::npos);
  }
  unlimited->signal(SIGTERM);
  (void)unlimited->wait();
}

TEST_F(Run, NestedOnAnotherKeyItRuns) {
  const auto result = shell("$HOLDFAST run other -- sh -c 'echo $HOLDFAST_KEY'; echo $HOLDFAST_KEY");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "other\nk\n");
}

TEST_F(Run, BackgroundProcessesOfACommandThatEndedAreLeftAlone) {
  const auto result = shell("sleep 30 >/dev/null 2>&1 & echo $! > $DIR/left");
  EXPECT_EQ(result.code, 0);
  const auto left = pid_in(file("left"));
  std::this_thread::sleep_for(100ms);
  EXPECT_TRUE(alive(left));
  kill(left, SIGKILL);
}

TEST_F(Run, QuietlyItSaysNothingIfTheLockIsTaken) {
  const auto other = holder();
  const auto result = shell("true", {"-n", "-q", "-E", "0"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  auto told = start({"run", "-w", "1m", "-q", "--verbose", "k", "--", "true"});
  EXPECT_TRUE(eventually([&] {
    return contents(told->err()).starts_with("holdfast: waiting for \"k\", held by ");
  })) << contents(told->err());
  told->signal(SIGTERM);
  const auto all = told->wait().err;
  EXPECT_EQ(std::ranges::count(all, '\n'), 1) << all;
}

TEST_F(Run, ALockInMemoryComesWithAWarning) {
  const auto result = holdfast({"--url", "memory:", "run", "k", "--", "echo", "ran"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "ran\n");
  EXPECT_NE(result.err.find("private to this process"), std::string::npos);
  EXPECT_NE(holdfast({"--url", "memory:", "lock", "acquire", "k"}).err.find("private to this process"),
            std::string::npos);
}

}  // namespace
}  // namespace holdfast::test
