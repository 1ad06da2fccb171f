#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "program.hpp"
#include "rpc/posix/descriptor.hpp"
#include "support/in_child.hpp"
#include "support/paths.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

/// The rest of this process is process 1 of a new pid namespace, whose /proc is still the outer one.
void enter_pid_namespace() {
  if (unshare(CLONE_NEWPID) != 0) _exit(126);
  const pid_t first = fork();
  if (first < 0) _exit(126);
  if (first == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return;
  }
  int status = 0;
  waitpid(first, &status, 0);
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 127);
}

/// `holdfast run` where /proc has the pids of another namespace: `unshare --pid --fork`, some containers.
class RunNamespace : public CliTest {
 protected:
  void SetUp() override {
    if (!in_child([] { return unshare(CLONE_NEWPID) == 0; })) {
      GTEST_SKIP() << "no pid namespace to be had (needs root); not covered here";
    }
  }
  [[nodiscard]] std::unique_ptr<Program> shell(const std::string& script) const {
    return std::make_unique<Program>(
        directory(), std::vector<std::string>{"sh", "-c", script},
        // LeakSanitizer needs a /proc of the same namespace: without one it ends the process.
        Program::Options{.environment = {"HOLDFAST_URL=" + url(), "DIR=" + directory().string(),
                                         "HOLDFAST=" + holdfast_program(), "LSAN_OPTIONS=detect_leaks=0"},
                         .before_exec = enter_pid_namespace});
  }
  /// Its pid would be that of the other namespace, so a process is known by the file that it has locked.
  [[nodiscard]] bool has_locked(const std::string& name) const {
    const posix::Descriptor descriptor(::open(file(name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    return flock(descriptor.get(), LOCK_EX | LOCK_NB) != 0;
  }
};

TEST_F(RunNamespace, TheKeeperStopsDescendantsThatItCannotList) {
  // Both in sessions of their own, one below the other.
  std::ofstream(file("upper.sh")) << "trap '' TERM; setsid sh $DIR/lower.sh & exec flock $DIR/upper sleep 60";
  std::ofstream(file("lower.sh")) << "trap '' TERM; exec flock $DIR/lower sleep 60";
  const auto program = shell(
      "$HOLDFAST run --ttl 3 --grace 0.2 k -- sh -c 'setsid sh $DIR/upper.sh & sleep 60' 2>$DIR/err &\n"
      "until [ -e $DIR/go ]; do sleep 0.02; done; kill -9 $!; sleep 60");
  ASSERT_TRUE(eventually([&] { return has_locked("upper") && has_locked("lower"); }));
  std::ofstream(file("go")) << "\n";
  EXPECT_TRUE(eventually([&] { return !has_locked("upper") && !has_locked("lower"); }));
}

TEST_F(RunNamespace, WithoutItsKeeperHoldfastStopsItsCommandAndNoOtherProcess) {
  const auto program = shell(
      "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 60 & strangers=\"$strangers $!\"; done\n"
      "$HOLDFAST run --ttl 3 --grace 0.2 k -- sh -c "
      "'setsid flock $DIR/alive sleep 60 & echo $PPID > $DIR/keeper; sleep 60' 2>/dev/null & run=$!\n"
      "until [ -s $DIR/keeper ]; do sleep 0.02; done\n"
      "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 60 & strangers=\"$strangers $!\"; done\n"
      "kill -9 $(cat $DIR/keeper); wait $run; echo $?\n"
      "for one in $strangers; do kill -0 $one && echo lives; kill -9 $one; done");
  const auto result = program->wait();
  std::string expected = "70\n";
  for (int i = 0; i < 20; ++i) expected += "lives\n";
  EXPECT_EQ(result.out, expected) << result.err;
  EXPECT_FALSE(has_locked("alive"));
}

TEST_F(RunNamespace, ChildrenThatHoldfastHadBeforeAreNotTouchedEither) {
  // Without a list holdfast cannot tell that only they are left, so it keeps the lock until they have ended.
  const auto result = shell(
                          "sh -c '(sleep 1; echo lived > $DIR/stranger) & exec $HOLDFAST run k -- sh -c "
                          "\"kill -9 \\$PPID; sleep 60\"' 2>/dev/null; echo $?")
                          ->wait();
  EXPECT_EQ(result.out, "70\n") << result.err;
  EXPECT_EQ(contents(file("stranger")), "lived\n");
}

TEST_F(RunNamespace, DoctorHintsAtIt) {
  const auto result = shell("$HOLDFAST doctor; :")->wait();
  EXPECT_NE(result.out.find("/proc shows another pid namespace"), std::string::npos) << result.out;
  EXPECT_EQ(holdfast({"doctor"}).out.find("pid namespace"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::test
