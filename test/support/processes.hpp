#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace holdfast::test {

/// fork(), or std::runtime_error: a failed one that went unnoticed would later be kill(-1), which ends every
/// process of the machine.
[[nodiscard]] inline pid_t checked_fork() {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
  return child;
}

/// Runs `body(i)` in `count` processes that start together; each must return true.
inline void in_processes(int count, const std::function<bool(int)>& body) {
  void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto& ready = *new (page) std::atomic<int>(0);
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    const pid_t child = checked_fork();
    if (child == 0) {
      ++ready;
      while (ready < count) std::this_thread::yield();
      bool good = false;
      try {
        good = body(i);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "process %d: %s\n", i, error.what());
      }
      ::_exit(good ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  }
  ::munmap(page, 4096);
}

/// Memory that processes forked later share.
template <class T>
class Shared {
 public:
  Shared() : at_(new(map()) T) {}
  ~Shared() { ::munmap(at_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  T* operator->() const { return at_; }
  T& operator*() const { return *at_; }

 private:
  static void* map() {
    void* memory = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return memory;
  }
  T* at_;
};

}  // namespace holdfast::test
