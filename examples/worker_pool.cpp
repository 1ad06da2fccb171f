// A pool of worker processes on one queue. One of them crashes in the middle of a task: another one does that
// task again, and each task is completed once.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <string>
#include <vector>

using namespace std::chrono_literals;

namespace {

constexpr int tasks = 20;
constexpr int workers = 3;

/// One worker: works until it is terminated. (`holdfast task work` also finishes what it began.)
int work(const std::string& url) {
  const auto hf = holdfast::open(url);
  const auto queue = hf.queue("thumbnails");
  while (auto job = queue.claim_next({.lease = 2s, .wait = holdfast::no_time_limit})) {
    const auto variables = job->task().variables;
    // The crash: the first attempt at task 7 kills its process. Nothing is released or reported.
    if (variables.str() == R"({"picture":7})" && job->attempt() == 1) raise(SIGKILL);
    try {
      // ... the work; stop when job->stopped() is triggered, and pass job->fence() on to what it writes ...
      job->complete(variables);
    } catch (const holdfast::Error& refused) {  // cancelled, or another worker has the task: go on
      std::cerr << refused.what() << '\n';
    }
  }
  return 0;
}

pid_t start_worker(std::string url) {
  std::string program = "/proc/self/exe", role = "worker";
  char* arguments[] = {program.data(), role.data(), url.data(), nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ) != 0) std::abort();
  return child;
}

int run_pool(const std::string& url) {
  const auto hf = holdfast::open(url);
  const auto queue = hf.queue("thumbnails");
  std::vector<std::string> ids;
  for (int i = 0; i < tasks; ++i) {
    const auto text = "{\"picture\":" + std::to_string(i) + "}";
    ids.push_back(queue.add({.variables = holdfast::Json::parse(text).value_or_throw()}).id);
  }

  std::array<pid_t, workers> pool{};
  for (auto& worker : pool) worker = start_worker(url);
  int completed = 0, repeated = 0;
  for (const auto& id : ids) {
    const auto task = queue.wait(id, 30s);
    if (!task) return 1;
    if (task->status == holdfast::TaskStatus::completed) ++completed;
    if (task->queue->attempts > 1) ++repeated;
  }
  int crashed = 0;
  for (const pid_t worker : pool) {
    int status = 0;
    kill(worker, SIGTERM);
    waitpid(worker, &status, 0);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ++crashed;
  }

  std::cout << crashed << " of " << workers << " workers crashed; " << completed << " of " << tasks
            << " tasks completed, " << repeated << " at the second attempt\n";
  return crashed == 1 && completed == tasks && repeated >= 1 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc > 2) return work(argv[2]);
  std::string directory = std::filesystem::temp_directory_path() / "holdfast-example-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) return 1;
  const int status = run_pool("sqlite:" + directory + "/tasks.db");
  std::filesystem::remove_all(directory);
  return status;
} catch (const holdfast::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
