#include "support/in_child.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace holdfast::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool is_sanitized = true;
#elif defined(__has_feature)
constexpr bool is_sanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool is_sanitized = false;
#endif

bool is_asleep(const std::filesystem::path& thread) {
  std::ifstream file(thread / "stat");
  std::string line;
  std::getline(file, line);
  const auto end_of_name = line.rfind(')');
  return end_of_name == std::string::npos || line.compare(end_of_name, 3, ") S") == 0;
}

/// The sanitizers' allocators, unlike the C library's, are not made for fork: a thread that allocates at that
/// moment, as one does while it starts, leaves them locked in the child forever.
void wait_until_other_threads_sleep() {
  // Not gettid(): in another pid namespace it differs from the thread's number in /proc.
  const auto self = std::filesystem::read_symlink("/proc/thread-self").filename();
  for (int calm = 0; calm < 5; std::this_thread::sleep_for(std::chrono::milliseconds(2))) {
    bool all_asleep = true;
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
      all_asleep = all_asleep && (thread.path().filename() == self || is_asleep(thread.path()));
    }
    calm = all_asleep ? calm + 1 : 0;
  }
}

}  // namespace

void get_ready_to_fork() {
  if (is_sanitized) wait_until_other_threads_sleep();
}

}  // namespace holdfast::test
