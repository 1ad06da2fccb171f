#include <sys/stat.h>

#include <csignal>
#include <iostream>
#include <thread>

#include "program.hpp"
#include "pty.hpp"
#include "support/paths.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

/// Commands that are stopped or interrupted here do not fork meanwhile: dash's vfork loses a SIGINT, or keeps
/// its parent from stopping, and that would be dash's hang, not ours.
///
/// An interactive shell with job control. What is expected on the screen is never part of what is typed:
/// the terminal echoes that.
class RunTerminal : public CliTest {
 protected:
  [[nodiscard]] std::vector<std::string> environment() const {
    return {"HOLDFAST_URL=" + url(),
            "DIR=" + directory().string(),
            "HF=" + holdfast_program(),
            "PS1=ready> ",
            "TERM=dumb",
            "HISTFILE=",
            "LC_ALL=C"};
  }
  void SetUp() override { ASSERT_TRUE(shell_.shows("ready> ")) << shell_.screen(); }
  /// A hang shows in who is stopped and who has the terminal.
  void TearDown() override {
    if (!HasFailure()) return;
    const auto processes = Program(directory(),
                                   {"ps", "-o", "pid,ppid,pgid,tpgid,stat,wchan,pending,blocked,ignored,args",
                                    "-s", std::to_string(shell_.pid())},
                                   {})
                               .wait();
    std::cout << processes.out << processes.err;
  }
  void type(const std::string& text) { shell_.type(text); }
  void expect(const std::string& text) {
    ASSERT_TRUE(shell_.shows(text)) << text << "\nis not on:\n" << shell_.screen();
  }
  /// The exit code of the last command.
  void expect_code(int code) {
    type("echo code=$?.\n");
    expect("code=" + std::to_string(code) + ".");
  }

  Pty shell_{{"bash", "--norc", "--noprofile", "--noediting", "-i"}, environment()};
};

TEST_F(RunTerminal, CtrlCEndsTheCommand) {
  type("$HF run k -- sh -c 'echo started-$((1+1)); exec sleep 60'\n");
  expect("started-2");
  type(ctrl_c);
  expect("ready> ");
  expect_code(130);
  EXPECT_EQ(holdfast({"lock", "show", "k"}).code, 1);
}

TEST_F(RunTerminal, CtrlCIsTheCommandsToHandle) {
  type(
      "$HF run k -- sh -c 'trap \"echo trapped-\\$((1+1)); exit 5\" INT; echo started-$((1+1)); while :; do "
      "sleep 0.02; done'\n");
  expect("started-2");
  type(ctrl_c);
  expect("trapped-2");
  expect("ready> ");
  expect_code(5);
}

TEST_F(RunTerminal, CtrlBackslashEndsTheCommand) {
  type("$HF run k -- sh -c 'ulimit -c 0; echo started-$((1+1)); exec sleep 60'\n");
  expect("started-2");
  type(ctrl_backslash);
  expect("ready> ");
  expect_code(131);
}

TEST_F(RunTerminal, TheCommandReadsTheTerminalAndIsInItsForeground) {
  type("$HF run k -- sh -c 'ps -o stat= -p $$; read x; echo got-$x-'\n");
  expect("+");
  type("hello\n");
  expect("got-hello-");
  expect_code(0);
}

TEST_F(RunTerminal, TheShellHasItsTerminalBackAfterwards) {
  type("$HF run k -- true; $HF run k -- sh -c 'read x; echo got-$x-'\n");
  type("one\n");
  expect("got-one-");
  type("read y; echo shell-$y-\n");
  type("two\n");
  expect("shell-two-");
}

TEST_F(RunTerminal, CtrlZAndFgWithinTheLease) {
  type("$HF run --ttl 10 k -- sh -c 'echo started-$((1+1)); read x; echo got-$x-'\n");
  expect("started-2");
  type(ctrl_z);
  expect("Stopped");
  expect("ready> ");
  EXPECT_EQ(holdfast({"lock", "show", "k"}).code, 0) << "the lease goes on while it lasts";
  type("fg\n");
  type("hello\n");
  expect("got-hello-");
  expect_code(0);
}

TEST_F(RunTerminal, AfterAStopTheLeaseIsRenewedBeforeTheCommandGoesOn) {
  type("$HF run --ttl 4 k -- sh -c 'echo $$ > $DIR/pid; echo started-$((1+1)); read x; echo got-$x-'\n");
  expect("started-2");
  type(ctrl_z);
  expect("Stopped");
  std::this_thread::sleep_for(700ms);
  type("fg\n");
  std::this_thread::sleep_for(4500ms);  // longer than the ttl: renewal must go on
  EXPECT_EQ(holdfast({"lock", "show", "k"}).code, 0);
  type("hello\n");
  expect("got-hello-");
  expect_code(0);
}

TEST_F(RunTerminal, CtrlZPastTheLeaseEndsTheCommand) {
  type("$HF run --ttl 1 k -- sh -c 'echo $$ > $DIR/pid; echo started-$((1+1)); read x; echo got-$x-'\n");
  expect("started-2");
  const auto command = pid_in(file("pid"));
  type(ctrl_z);
  expect("Stopped");
  EXPECT_TRUE(eventually([&] { return holdfast({"lock", "show", "k"}).code == 1; }));
  EXPECT_FALSE(alive(command)) << "it must be gone before the lease ends, stopped or not";
  type("fg\n");
  expect("lost the lock \"k\"");
  expect("ready> ");
  expect_code(79);
}

TEST_F(RunTerminal, ACommandWhoseLockWasTakenDuringTheStopDoesNotGoOn) {
  type(
      "$HF run k -- sh -c 'echo $HOLDFAST_LOCK_ID > $DIR/id; echo started-$((1+1)); read x; echo got > "
      "$DIR/out'\n");
  expect("started-2");
  type(ctrl_z);
  expect("Stopped");
  EXPECT_EQ(holdfast({"lock", "release", contents(file("id")).substr(0, 22)}).code, 0);
  type("fg\n");
  type("hello\n");  // for the command, if it were let go on; for the shell otherwise
  expect("lost the lock \"k\"");
  expect("not found");
  EXPECT_EQ(contents(file("out")), "");
}

TEST_F(RunTerminal, AStoppedJobGoesOnInTheBackground) {
  ASSERT_EQ(mkfifo(file("go").c_str(), 0600), 0);
  type(
      "$HF run k -- sh -c 'echo started-$((1+1)); read x < $DIR/go; echo done > "
      "$DIR/out'\n");
  expect("started-2");
  type(ctrl_z);
  expect("Stopped");
  type("bg; echo > $DIR/go; wait; echo code=$?.\n");
  expect("code=0.");
  EXPECT_EQ(contents(file("out")), "done\n");
}

TEST_F(RunTerminal, ABackgroundCommandThatReadsIsStoppedAndGetsTheTerminalWithFg) {
  type("$HF run --ttl 10 k -- sh -c 'read x; echo got-$x-' &\n");
  EXPECT_TRUE(eventually([&] {
    type("jobs\n");
    return shell_.shows("Stopped", 200ms);
  })) << shell_.screen();
  type("fg\n");
  type("hello\n");
  expect("got-hello-");
  expect_code(0);
}

TEST_F(RunTerminal, CtrlZWhileWaitingForTheLock) {
  const auto holder = start({"run", "k", "--", "sh", "-c", "echo $$ > $DIR/held; exec sleep 60"});
  (void)pid_in(file("held"));
  type("$HF run k -- sh -c 'echo got-$((1+1))'\n");
  expect("waiting for \"k\"");
  type(ctrl_z);
  expect("Stopped");
  holder->signal(SIGTERM);
  EXPECT_EQ(holder->wait().code, 143);
  type("fg\n");
  expect("got-2");
}

TEST_F(RunTerminal, CtrlCWhileWaitingForTheLock) {
  const auto holder = start({"run", "k", "--", "sh", "-c", "echo $$ > $DIR/held; exec sleep 60"});
  (void)pid_in(file("held"));
  type("$HF run k -- true\n");
  expect("waiting for \"k\"");
  type(ctrl_c);
  expect("ready> ");
  expect_code(130);
}

TEST_F(RunTerminal, InAPipelineTheOthersKeepTheTerminal) {
  type("$HF run k -- sh -c 'echo one-$((1+1)); sleep 0.3' | (read a; read b </dev/tty; echo pipe-$a-$b-)\n");
  std::this_thread::sleep_for(100ms);
  type("key\n");
  expect("pipe-one-2-key-");
}

TEST_F(RunTerminal, InAPipelineACommandThatReadsTheTerminalGetsIt) {
  type("$HF run k -- sh -c 'echo started-$((1+1)) >&2; read x </dev/tty; echo got-$x-' | cat\n");
  expect("started-2");
  type("hello\n");
  expect("got-hello-");
}

TEST_F(RunTerminal, InAPipelineCtrlCAndCtrlZReachTheCommand) {
  type(
      "$HF run --ttl 10 k -- sh -c 'echo $$ > $DIR/pid; echo started-$((1+1)); exec sleep 60' "
      "| cat\n");
  expect("started-2");
  const auto command = pid_in(file("pid"));
  type(ctrl_z);
  expect("Stopped");
  EXPECT_TRUE(eventually([&] {
    return contents("/proc/" + std::to_string(command) + "/stat").find(") T ") != std::string::npos;
  }));
  type("fg\n");
  EXPECT_TRUE(eventually([&] {
    return contents("/proc/" + std::to_string(command) + "/stat").find(") T ") == std::string::npos;
  }));
  EXPECT_TRUE(alive(command));
  type(ctrl_c);
  expect("ready> ");
  EXPECT_TRUE(eventually([&] { return !alive(command); }));
  type("echo code=${PIPESTATUS[0]}.\n");
  expect("code=130.");
}

TEST_F(RunTerminal, AClosedTerminalEndsTheCommandAndFreesTheLock) {
  {
    Pty other({"bash", "--norc", "--noprofile", "--noediting", "-i"}, environment());
    ASSERT_TRUE(other.shows("ready> "));
    other.type("$HF run --ttl 2 h -- sh -c 'echo $$ > $DIR/pid; echo started-$((1+1)); sleep 60'\n");
    ASSERT_TRUE(other.shows("started-2"));
  }
  const auto command = pid_in(file("pid"));
  EXPECT_TRUE(eventually([&] { return !alive(command); }, 3s));
  EXPECT_EQ(holdfast({"run", "-w", "3", "h", "--", "true"}).code, 0);
}

/// Without a shell above it nobody could continue a stopped job, so the kernel does not stop one; neither do
/// we let the command stay stopped.
TEST_F(RunTerminal, WithoutAShellCtrlZDoesNotHang) {
  Pty alone({holdfast_program(), "run", "a", "--", "sh", "-c", "echo started-$((1+1)); read x; echo got-$x-"},
            environment());
  ASSERT_TRUE(alone.shows("started-2")) << alone.screen();
  alone.type(ctrl_z);
  std::this_thread::sleep_for(300ms);
  alone.type("hello\n");
  EXPECT_TRUE(alone.shows("got-hello-")) << alone.screen();
}

TEST_F(RunTerminal, TerminalModesAreRestoredAfterTheCommandWasKilled) {
  type("$HF run --ttl 3 --max-hold 1.5 k -- sh -c 'stty -echo -icanon; echo started-$((1+1)); sleep 60'\n");
  expect("started-2");
  expect("lost the lock");
  expect("ready> ");
  type("stty -a | tr ' ;' '\\n\\n' | grep -x -e '-*echo' -e '-*icanon' | tr '\\n' ','\n");
  expect("icanon,echo,");
}

}  // namespace
}  // namespace holdfast::test
