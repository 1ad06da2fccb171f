// A lock taken in one process and finished in another: detach here, adopt there, over an SQLite file.
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

/// The second process: knows the URL and the detached lock (in earnest, from a job queue).
int finish_the_job(const std::string& url, const holdfast::DetachedLock& detached) {
  auto hf = holdfast::open(url);
  auto guard = hf.locks().adopt(detached, {.ttl = 10s});
  if (!guard) {
    std::cout << "the lock ended before it was adopted\n";
    return 1;
  }
  const bool same_fence = guard->fence() == detached.fence;
  std::cout << "adopted with fence " << guard->fence().to_string() << '\n' << std::flush;
  return same_fence && guard->release() ? 0 : 1;
}

int run(const std::string& url) {
  holdfast::DetachedLock detached = [&] {
    auto hf = holdfast::open(url);
    auto guard = hf.locks().lock("upload", {.ttl = 10s});
    std::cout << "locked with fence " << guard.fence().to_string() << '\n' << std::flush;
    return guard.detach();
  }();

  // After fork, objects opened before belong to the parent alone, so the child opens its own.
  const pid_t child = fork();
  if (child == 0) _exit(finish_the_job(url, detached));
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;

  auto hf = holdfast::open(url);
  const auto next = hf.locks().lock("upload", {.ttl = 10s});
  std::cout << "free again: fence " << next.fence().to_string() << '\n';
  return detached.fence < next.fence() ? 0 : 1;
}

}  // namespace

int main() {
  std::string directory = std::filesystem::temp_directory_path() / "holdfast-example-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) return 1;
  int status = 1;
  try {
    status = run("sqlite:" + directory + "/locks.db");
  } catch (const holdfast::Error& error) {
    std::cerr << error.what() << '\n';
  }
  std::filesystem::remove_all(directory);
  return status;
}
