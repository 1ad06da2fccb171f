#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "program.hpp"
#include "support/in_child.hpp"
#include "support/paths.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr uid_t somebody = 65534;

/// In a mount namespace of its own, with processes hidden as `hidepid` says, and as another user than root.
bool enter(const char* hidepid) {
  return unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("proc", "/proc", "proc", 0, hidepid) == 0 && setgroups(0, nullptr) == 0 &&
         setresgid(somebody, somebody, somebody) == 0 && setresuid(somebody, somebody, somebody) == 0;
}

/// `holdfast run` as a user whose command becomes root, where /proc shows only that user's own processes.
class RunHidden : public CliTest {
 protected:
  void SetUp() override {
    if (geteuid() != 0 || !in_child([] { return enter("hidepid=2"); })) {
      GTEST_SKIP() << "no other user, mount namespace or /proc to be had (needs root); not covered here";
    }
    // Where that user can get at them, wherever the tree is.
    fs::copy_file(holdfast_program(), file("holdfast"));
    fs::copy_file("/usr/bin/setpriv", file("setpriv"));
    for (const char* name : {"holdfast", "setpriv"}) fs::permissions(file(name), fs::perms(0755));
    fs::permissions(file("setpriv"), fs::perms(04755));
    ASSERT_EQ(chown(directory().c_str(), somebody, somebody), 0);
  }

  /// `script` is sh's, in the other user's name and surroundings. $SHORT is a `run` that soon
  /// loses its lock. $ROOT before a command makes it root's
  /// altogether, $SETUID only a program that runs with root's rights, as any setuid program does.
  [[nodiscard]] std::unique_ptr<Program> shell(const std::string& script,
                                               const char* hidepid = "hidepid=2") const {
    const auto setpriv = file("setpriv").string();
    return std::make_unique<Program>(
        directory(), std::vector<std::string>{"sh", "-c", script},
        Program::Options{
            .environment = {"HOLDFAST_URL=" + url(), "DIR=" + directory().string(),
                            "RUN=" + file("holdfast").string() + " run --ttl 6",
                            "SHORT=" + file("holdfast").string() + " run --ttl 6 --max-hold 2",
                            "SETUID=" + setpriv, "ROOT=" + setpriv + " --reuid 0 --regid 0 --clear-groups"},
            .before_exec = [hidepid] {
              if (!enter(hidepid)) _exit(126);
            }});
  }
  /// The pid that a process wrote there before it became a `sleep`: it has become root by then.
  [[nodiscard]] pid_t sleeper_in(const std::string& name) const {
    const auto pid = pid_in(file(name));
    const auto comm = "/proc/" + std::to_string(pid) + "/comm";
    EXPECT_TRUE(eventually([&] { return contents(comm) == "sleep\n"; })) << name;
    return pid;
  }
  [[nodiscard]] Finished lock(const std::string& what, const std::string& key) const {
    return holdfast({"lock", what, key});
  }
};

constexpr const char* cannot_be_ended =
    "holdfast: at least 1 process of the command runs as another user and cannot be stopped; /proc is "
    "mounted "
    "with hidepid and hides it. The lock is not released";

TEST_F(RunHidden, ACommandThatBecameRootIsNotReportedAsEnded) {
  for (const char* hidepid : {"hidepid=1", "hidepid=2"}) {
    const std::string key = hidepid;
    auto program =
        shell("exec $SHORT " + key + " -- sh -c 'echo $$ > $DIR/" + key + "; exec $ROOT sleep 60'", hidepid);
    const auto command = sleeper_in(key);
    const auto result = program->wait();
    EXPECT_EQ(result.code, 79);
    EXPECT_TRUE(alive(command)) << "else this test shows nothing";
    EXPECT_TRUE(result.err.starts_with(cannot_be_ended)) << result.err;
    EXPECT_TRUE(
        result.err.ends_with("it was held for the --max-hold of 2 s; the command could not be stopped\n"))
        << result.err;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 2) << result.err;
    EXPECT_EQ(lock("show", key).code, 0) << "its lease keeps the next holder out";
    kill(command, SIGKILL);
  }
}

TEST_F(RunHidden, ASetuidProgramIsEndedThoughItIsHidden) {
  auto program = shell("exec $SHORT k -- sh -c 'echo $$ > $DIR/command; exec $SETUID sleep 60'");
  const auto command = sleeper_in("command");
  const auto result = program->wait();
  EXPECT_EQ(result.code, 79);
  EXPECT_FALSE(alive(command));
  EXPECT_TRUE(result.err.ends_with("; the command was stopped\n")) << result.err;
  EXPECT_EQ(lock("show", "k").code, 1);
}

TEST_F(RunHidden, WhatIsBelowAndBesideAHiddenProcessIsEnded) {
  auto program = shell(
      "exec $SHORT k -- sh -c '\n"
      "($ROOT sh -c \"setpriv --reuid 65534 --regid 65534 --clear-groups setsid sleep 60 & echo \\$! > "
      "$DIR/below\n"
      "  echo \\$\\$ > $DIR/orphan; exec sleep 60\" &)\n"
      "setsid sleep 60 & echo $! > $DIR/beside; wait'");
  const auto orphan = sleeper_in("orphan"), below = sleeper_in("below"), beside = sleeper_in("beside");
  const auto result = program->wait();
  EXPECT_EQ(result.code, 79);
  EXPECT_FALSE(alive(below) || alive(beside));
  EXPECT_TRUE(alive(orphan)) << "else this test shows nothing";
  EXPECT_TRUE(result.err.starts_with(cannot_be_ended)) << result.err;
  kill(orphan, SIGKILL);
}

TEST_F(RunHidden, WithoutItsKeeperHoldfastSaysWhatItCannotEnd) {
  auto program = shell(
      "exec $RUN k -- sh -c 'echo $$ > $DIR/command; echo $PPID > $DIR/keeper; "
      "exec $ROOT sleep 60'");
  const auto command = sleeper_in("command");
  kill(pid_in(file("keeper")), SIGKILL);
  const auto result = program->wait();
  EXPECT_EQ(result.code, 70);
  EXPECT_TRUE(alive(command)) << "else this test shows nothing";
  EXPECT_TRUE(result.err.starts_with(cannot_be_ended)) << result.err;
  EXPECT_TRUE(result.err.ends_with("was killed; the command could not be stopped\n")) << result.err;
  EXPECT_EQ(lock("show", "k").code, 0);
  kill(command, SIGKILL);
}

TEST_F(RunHidden, WithoutHoldfastTheKeeperSaysWhatItCannotEnd) {
  auto program = shell("exec $SHORT k -- sh -c 'echo $$ > $DIR/command; exec $ROOT sleep 60' 2>$DIR/err");
  const auto command = sleeper_in("command");
  program->signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return contents(file("err")).ends_with('\n'); }));
  EXPECT_TRUE(contents(file("err"))
                  .starts_with("holdfast: the holdfast process died; at least 1 process of the command "))
      << contents(file("err"));
  EXPECT_TRUE(alive(command)) << "else this test shows nothing";
  kill(command, SIGKILL);
}

TEST_F(RunHidden, ChildrenThatHoldfastHadBeforeAreNotItsCommands) {
  auto program = shell(
      "$ROOT sleep 60 >/dev/null 2>&1 & echo $! > $DIR/stranger\n"
      "until grep -q sleep /proc/$!/comm; do [ -e /proc/$!/comm ] || break; done\n"
      "exec $RUN k -- sh -c 'kill -9 $PPID; sleep 60'");
  const auto result = program->wait();
  EXPECT_EQ(result.code, 70);
  EXPECT_TRUE(result.err.ends_with("was killed; the command was stopped\n")) << result.err;
  const auto stranger = pid_in(file("stranger"));
  EXPECT_TRUE(alive(stranger));
  kill(stranger, SIGKILL);
}

TEST_F(RunHidden, ASignalThatCannotBeForwardedIsReported) {
  auto program = shell("exec $RUN k -- sh -c 'echo $$ > $DIR/command; exec $ROOT sleep 60' 2>$DIR/err");
  const auto command = sleeper_in("command");
  ASSERT_TRUE(
      eventually([&] { return contents("/proc/" + std::to_string(command) + "/comm") == "sleep\n"; }));
  program->signal(SIGTERM);
  EXPECT_TRUE(eventually([&] { return contents(file("err")).ends_with('\n'); }));
  EXPECT_EQ(contents(file("err")),
            "holdfast: SIGTERM was not forwarded: the command runs as another user. The command continues, "
            "and the lock is kept\n");
  kill(command, SIGKILL);
  EXPECT_EQ(program->wait().code, 137);
}

TEST_F(RunHidden, DoctorHintsAtIt) {
  const auto hidden = shell("exec $DIR/holdfast doctor")->wait();
  EXPECT_EQ(hidden.code, 0);
  EXPECT_NE(hidden.out.find("/proc is mounted with hidepid="), std::string::npos) << hidden.out;
  EXPECT_EQ(shell("exec $DIR/holdfast doctor", "hidepid=0")->wait().out.find("hidepid"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::test
