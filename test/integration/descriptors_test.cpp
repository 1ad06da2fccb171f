// A process or a machine without free descriptors: every function that fails says so with an Error.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdio>
#include <holdfast/holdfast.hpp>
#include <new>
#include <string>

#include "support/in_child.hpp"
#include "support/own_store.hpp"
#include "support/redis_server.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

class NoDescriptors : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "redis") {
      if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
    }
  }
};

bool says_what_to_do(const Error& error) {
  return error.message().find("ulimit -n") != std::string::npos ||
         error.cause().find("Too many open files") != std::string::npos;
}

/// Uses locks, tasks and their subscriptions; true if that succeeded, false if it failed with a clear Error.
bool is_usable(const std::string& url) {
  try {
    const auto holdfast = open(url);
    auto guard = holdfast.locks().lock("k", {.ttl = 10s, .wait = 100ms});
    const auto tasks = holdfast.tasks({.allow_anonymous = true});
    const auto task = tasks.create("alice", {.method = "m"});
    static_cast<void>(tasks.wait("alice", task.id, 1ms));
    static_cast<void>(holdfast.locks().follow());
    static_cast<void>(holdfast.locks().follow_grants());
    tasks.remove("alice", task.id);
    return guard.release();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::ServiceUnavailable || !says_what_to_do(error)) {
      std::fprintf(stderr, "not clear: %s\n", error.what());
      throw;
    }
    return false;
  }
}

TEST_P(NoDescriptors, AreAnErrorThatSaysSoWhereverTheyRunOut) {
  OwnStore own(GetParam());
  ASSERT_TRUE(in_child([&] { return is_usable(own.url()); }));
  void* const shared = mmap(nullptr, sizeof(bool), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  bool& usable = *new (shared) bool(false);
  rlim_t limit = 3;
  for (; limit < 40 && !usable; ++limit) {
    EXPECT_TRUE(in_child([&] {
      const rlimit descriptors{.rlim_cur = limit, .rlim_max = limit};
      if (setrlimit(RLIMIT_NOFILE, &descriptors) != 0) return false;
      usable = is_usable(own.url());
      return true;
    })) << "something else escaped, with "
        << limit << " descriptors";
  }
  EXPECT_TRUE(usable);
  EXPECT_GT(limit, 4U) << "some were refused";
  munmap(shared, sizeof(bool));
}

INSTANTIATE_TEST_SUITE_P(Engines, NoDescriptors, testing::Values("memory", "sqlite", "redis"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace holdfast::test
