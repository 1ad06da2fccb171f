#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "program.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;
using nlohmann::ordered_json;

class TaskLogs : public CliTest {
 protected:
  /// The id on stderr of `task run`.
  static std::string id_in(const std::string& err) {
    const auto at = err.find("task ") + 5;
    return err.substr(at, err.find('\n', at) - at);
  }
  [[nodiscard]] std::string add(std::vector<std::string> options = {}) const {
    options.insert(options.begin(), {"task", "add", "q"});
    const auto result = holdfast(options);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out.substr(0, result.out.find('\n'));
  }
  [[nodiscard]] Finished logs(const std::string& id, std::vector<std::string> options = {}) const {
    options.insert(options.begin(), {"task", "logs", id});
    return holdfast(options);
  }
};

TEST_F(TaskLogs, ShowTheOutputOfARunOnTheSameStreams) {
  const auto ran =
      holdfast({"task", "run", "--", "sh", "-c", "echo out; echo err >&2; printf '\\033[1m\\377'"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto shown = logs(id_in(ran.err));
  EXPECT_EQ(shown.code, 0);
  EXPECT_EQ(shown.out, "out\n\033[1m\377");
  EXPECT_EQ(shown.err, "err\n");
}

TEST_F(TaskLogs, KeepTheEndAndSayHowMuchWasDropped) {
  const auto ran = holdfast({"task", "run", "--keep-output", "100", "--", "sh", "-c",
                             "i=0; while [ $i -lt 20000 ]; do echo 123456789; i=$((i+1)); done; echo end"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto shown = logs(id_in(ran.err));
  EXPECT_TRUE(shown.out.ends_with("123456789\nend\n"));
  EXPECT_LT(shown.out.size(), 9000U);
  const auto dropped = std::to_string(200004 - shown.out.size()) + " bytes of stdout were dropped";
  EXPECT_NE(shown.err.find(dropped), std::string::npos) << shown.err;
}

TEST_F(TaskLogs, AreNotKeptOnRequest) {
  const auto ran = holdfast({"task", "run", "--keep-output", "0", "--", "echo", "out"});
  const auto shown = logs(id_in(ran.err));
  EXPECT_EQ(shown.code, 0);
  EXPECT_EQ(shown.out, "");
  EXPECT_NE(shown.err.find("no output is kept"), std::string::npos);
  EXPECT_EQ(logs("none").code, 1);
}

TEST_F(TaskLogs, AreFollowedUntilTheTaskEnds) {
  const auto id = add();
  const auto worker =
      start({"task", "work", "q", "--once", "--", "sh", "-c",
             "echo one; echo oops >&2; while [ ! -e $DIR/go ]; do sleep 0.02; done; echo two"},
            {.environment = {"DIR=" + directory().string()}});
  const auto follower = start({"task", "logs", "-f", "--queue", "q", id});
  // The first line arrives while the command runs.
  ASSERT_TRUE(eventually([&] { return logs(id, {"--queue", "q"}).out == "one\n"; }));
  EXPECT_FALSE(follower->finished());
  std::ofstream(file("go")) << "";
  EXPECT_EQ(worker->wait().code, 0);
  const auto shown = follower->wait();
  EXPECT_EQ(shown.code, 0);
  EXPECT_EQ(shown.out, "one\ntwo\n");
  EXPECT_EQ(shown.err, "oops\n");
}

TEST_F(TaskLogs, TellAttemptsApart) {
  const auto id = add({"--attempts", "2"});
  const std::vector<std::string> work{"task", "work", "q",  "--until-empty",
                                      "--",   "sh",   "-c", "echo try $HOLDFAST_TASK_ATTEMPT; exit 65"};
  const std::vector<std::string> give_up{"task", "work", "q",  "--once",
                                         "--",   "sh",   "-c", "echo try $HOLDFAST_TASK_ATTEMPT; exit 1"};
  ASSERT_EQ(holdfast(give_up).code, 0);
  ASSERT_TRUE(eventually([&] {
    (void)holdfast(work);
    return logs(id, {"--queue", "q"}).out == "try 2\n";
  }));
  EXPECT_EQ(logs(id, {"--queue", "q", "--attempt", "1"}).out, "try 1\n");
  EXPECT_EQ(logs(id, {"--queue", "q", "--attempt", "3"}).code, 1);
  const auto shown = ordered_json::parse(holdfast({"--json", "task", "logs", "--queue", "q", id}).out);
  EXPECT_EQ(shown.dump(), R"({"stream":"stdout","text":"try 2\n","attempt":2})");
}

TEST_F(TaskLogs, AWatchShowsEachTaskAndEndsWithIt) {
  const auto id = add();
  const auto watch = start({"--json", "task", "watch", "--queue", "q", id});
  ASSERT_EQ(holdfast({"task", "work", "q", "--once", "--", "true"}).code, 0);
  const auto shown = watch->wait();
  EXPECT_EQ(shown.code, 0) << shown.err;
  std::istringstream lines(shown.out);
  std::string line, last;
  while (std::getline(lines, line)) last = line;
  EXPECT_EQ(ordered_json::parse(last)["task"]["status"], "completed");
  const auto plain = holdfast({"task", "watch", "--queue", "q", id});
  EXPECT_NE(plain.out.find(id + "  completed"), std::string::npos) << plain.out;
  EXPECT_EQ(holdfast({"task", "watch", "none"}).code, 1);
}

}  // namespace
}  // namespace holdfast::test
