// One process acquires a lock and detaches it; another adopts and releases it. Both use one SQLite file.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <string>

using namespace std::chrono_literals;

namespace {

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The second process. A process that knows the lock id can release the lock, so the id must not be on the
/// command line, where others can read it.
int finish_the_job() {
  const auto fence = holdfast::Fence::parse(variable("JOB_FENCE")).value_or_throw();
  auto hf = holdfast::open(variable("JOB_URL"));
  auto guard = hf.locks().adopt({.key = variable("JOB_KEY"),
                                 .id = holdfast::LockId::parse(variable("JOB_LOCK_ID")).value_or_throw(),
                                 .ttl = 10s,
                                 .fence = fence},
                                {.ttl = 10s});
  if (!guard) {
    std::cout << "the lock ended before it was adopted\n";
    return 1;
  }
  const bool same_fence = guard->fence() == fence;
  std::cout << "adopted with fence " << guard->fence().to_string() << '\n';
  return same_fence && guard->release() ? 0 : 1;
}

bool run_second_process() {
  std::string program = "/proc/self/exe";
  std::string argument = "finish";
  char* arguments[] = {program.data(), argument.data(), nullptr};
  pid_t child = 0;
  int status = 0;
  return posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ) == 0 &&
         waitpid(child, &status, 0) == child && status == 0;
}

int start_the_job(const std::string& url) {
  auto hf = holdfast::open(url);
  auto guard = hf.locks().lock("upload", {.ttl = 10s});
  std::cout << "locked with fence " << guard.fence().to_string() << '\n' << std::flush;

  // From here on the lock is not renewed: the other process has 10 s to adopt it.
  const auto detached = guard.detach();
  if (!detached) return 1;
  setenv("JOB_URL", hf.url().c_str(), 1);
  setenv("JOB_KEY", detached->key.c_str(), 1);
  setenv("JOB_LOCK_ID", std::string(detached->id.str()).c_str(), 1);
  setenv("JOB_FENCE", detached->fence.to_string().c_str(), 1);
  if (!run_second_process()) return 1;

  const auto next = hf.locks().lock("upload", {.ttl = 10s});
  std::cout << "free again: fence " << next.fence().to_string() << '\n';
  return detached->fence < next.fence() ? 0 : 1;
}

}  // namespace

int main(int argc, char**) try {
  if (argc > 1) return finish_the_job();
  std::string directory = std::filesystem::temp_directory_path() / "holdfast-example-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) return 1;
  const int status = start_the_job("sqlite:" + directory + "/locks.db");
  std::filesystem::remove_all(directory);
  return status;
} catch (const holdfast::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
