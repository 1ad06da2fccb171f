// The story that fences are for: a worker is stopped past its lease, another one takes over and finishes, the
// first one wakes up and goes on as if nothing had happened.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <holdfast/holdfast.hpp>

#include "support/eventually.hpp"
#include "support/redis_server.hpp"
#include "support/temp_dir.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

Json json(std::string_view text) {
  return Json::parse(text).value_or_throw();
}

/// Lines between two processes.
class Pipe {
 public:
  Pipe() {
    if (::pipe(ends_) != 0) throw std::runtime_error("no pipe");
  }
  void say(const std::string& line) const {
    const auto text = line + "\n";
    if (::write(ends_[1], text.data(), text.size()) != static_cast<ssize_t>(text.size())) ::_exit(9);
  }
  [[nodiscard]] std::string hear() const {
    std::string line;
    for (char c = 0; ::read(ends_[0], &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }

 private:
  int ends_[2]{};
};

/// Claims a task of its own making and, when told, writes to it; says what came of that.
[[noreturn]] void work(const std::string& url, const Pipe& to_parent, const Pipe& from_parent) {
  try {
    auto holdfast = open(url);
    auto tasks = holdfast.tasks();
    const auto task = tasks.create("alice", {.variables = json(R"({"by":"nobody"})")});
    auto claim = tasks.claim("alice", task.id, {.ttl = 500ms});
    to_parent.say(task.id);
    to_parent.say(claim.fence().to_string());
    (void)from_parent.hear();
    try {
      (void)claim.set_variables(json(R"({"by":"the late one"})"));
      to_parent.say("written");
    } catch (const Error& error) {
      to_parent.say(error.what());
    }
    // Without the rules of a claim in the way: the fence alone must do.
    try {
      (void)tasks.with_fence(claim.token()).complete_with_result("alice", task.id, json("\"late\""));
      to_parent.say("written");
    } catch (const Error& error) {
      to_parent.say(error.what());
    }
    const bool told = eventually([&] { return claim.stopped().stop_requested(); });
    to_parent.say(told ? "told to stop" : "not told to stop");
  } catch (const std::exception& error) {
    to_parent.say(error.what());
  }
  ::_exit(0);
}

void tell_the_story(const std::string& url) {
  const Pipe from_worker;
  const Pipe to_worker;
  const pid_t worker = ::fork();
  ASSERT_GE(worker, 0);
  if (worker == 0) work(url, from_worker, to_worker);

  const auto id = from_worker.hear();
  const auto first_fence = from_worker.hear();
  ASSERT_EQ(first_fence.size(), 15U) << id << ": " << first_fence;
  ASSERT_EQ(::kill(worker, SIGSTOP), 0);

  auto holdfast = open(url);
  auto tasks = holdfast.tasks();
  auto claim = tasks.claim("alice", id, {.wait = 30s});  // the lease of the stopped one runs out
  (void)claim.set_variables(json(R"({"by":"the second"})"));
  const auto second_fence = claim.fence().to_string();
  EXPECT_GT(second_fence, first_fence);
  EXPECT_EQ(claim.complete(json("\"by the second\"")).status, TaskStatus::completed);

  to_worker.say("go on");
  ASSERT_EQ(::kill(worker, SIGCONT), 0);
  const auto first_refusal = from_worker.hear();
  const auto second_refusal = from_worker.hear();
  const auto told = from_worker.hear();
  for (const auto& refusal : {first_refusal, second_refusal}) {
    EXPECT_EQ(refusal.find("StaleFence"), 0U) << refusal;
    EXPECT_NE(refusal.find(first_fence), std::string::npos) << refusal;
    EXPECT_NE(refusal.find(second_fence), std::string::npos) << refusal;
  }
  int status = 0;
  ASSERT_EQ(::waitpid(worker, &status, 0), worker);
  EXPECT_EQ(status, 0);

  const auto task = tasks.get("alice", id);
  EXPECT_EQ(task.variables.str(), R"({"by":"the second"})") << "nothing of it is lost";
  EXPECT_EQ(task.result.str(), "\"by the second\"");
  EXPECT_EQ(told, "told to stop");
}

TEST(LateWorker, IsShutOutOnSqlite) {
  const TempDir directory;
  tell_the_story("sqlite:" + (directory.path() / "story.db").string());
}

TEST(LateWorker, IsShutOutOnRedis) {
  if (auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  const RedisServer server;
  tell_the_story(server.url());
}

}  // namespace
}  // namespace holdfast::test
