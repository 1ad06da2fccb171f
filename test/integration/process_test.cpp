// What must hold across fork and at the end of a process.

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <holdfast/holdfast.hpp>
#include <holdfast/memory.hpp>
#include <string>
#include <thread>

#include "os/random.hpp"
#include "support/calls.hpp"
#include "support/in_child.hpp"
#include "support/temp_dir.hpp"

namespace holdfast::test {
namespace {

TEST(Fork, TheChildsCopyOfAGuardIsInert) {
  Locks locks(make_memory_lock_backend());
  auto guard = locks.lock("k", {.ttl = 300ms});
  EXPECT_TRUE(in_child([&] {
    const bool inert = !guard.still_held() && guard.remaining() == 0ns && !guard.loss_reason();
    guard = Guard();  // its destructor must neither release nor wait for threads that are not here
    return inert;
  }));
  std::this_thread::sleep_for(500ms);
  EXPECT_TRUE(guard.still_held()) << "the parent goes on renewing";
  EXPECT_TRUE(guard.release());
}

TEST(Fork, OperationsInTheChildFailAtOnceAndSayWhy) {
  Locks locks(make_memory_lock_backend());
  auto guard = locks.lock("k");
  const auto fails_clearly = [](auto&& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code() == ErrorCode::ServiceUnavailable &&
             error.message().find("fork") != std::string::npos;
    }
    return false;
  };
  EXPECT_TRUE(in_child([&] {
    const BootTime before = BootClock::now();
    return fails_clearly([&] { (void)locks.lock("other"); }) &&
           fails_clearly([&] { (void)locks.is_locked("k"); }) &&
           fails_clearly([&] { (void)locks.acquire("x"); }) && fails_clearly([&] { guard.extend(1s); }) &&
           fails_clearly([&] { guard.release(); }) && BootClock::now() - before < 2s;
  }));
}

TEST(Fork, WhatNoThreadWaitsForFailsAtOnceInTheChildToo) {
  const TempDir dir;
  for (const auto& url : {std::string("memory:"), "sqlite:" + (dir / "holdfast.db").string()}) {
    auto holdfast = open(url);
    auto& locks = holdfast.locks();
    auto guard = locks.lock("k");
    const std::string id(guard.id().str());
    locks.start(operation::IsLocked{"k"}, {},
                [](Result<bool>) {});  // the threads it needs are there, but not in the child
    EXPECT_TRUE(in_child([&] {
      int refused = 0;
      const auto count = [&](const auto& result) {
        if (!result && result.error().code() == ErrorCode::ServiceUnavailable) ++refused;
      };
      locks.start(operation::Lock{"other"}, {}, [&](const Result<Guard>& result) { count(result); });
      locks.start(operation::IsLocked{"k"}, {}, [&](const Result<bool>& result) { count(result); });
      locks.start(operation::Release{id}, {}, [&](const Result<bool>& result) { count(result); });
      guard.extend(1s, {}, [&](const Result<bool>& result) { count(result); });
      guard.release({}, [&](const Result<bool>& result) { count(result); });
      return refused == 5;
    })) << url;
  }
}

TEST(Fork, TheChildCanDestroyEverythingItInherited) {
  auto holdfast = std::make_unique<Holdfast>(open("memory:"));
  auto guard = std::make_unique<Guard>(holdfast->locks().lock("k", {.ttl = 200ms}));
  std::this_thread::sleep_for(100ms);  // all threads are running
  EXPECT_TRUE(in_child([&] {
    holdfast.reset();
    guard.reset();
    return true;
  }));
  EXPECT_TRUE(guard->still_held());
}

/// Not under ThreadSanitizer (see the tsan preset): its list of threads comes along into the child, where the
/// C library gives the first new thread the stack, and so the id, of one that stayed behind. It then ends the
/// child with "dup thread with used id".
TEST(Fork, TheChildCanOpenItsOwn) {
  Locks locks(make_memory_lock_backend());
  const auto guard = locks.lock("k");
  EXPECT_TRUE(in_child([] {
    auto own = open("memory:");
    return own.locks().lock("k").still_held();
  }));
}

TEST(Fork, AChildWithItsParentsPidIsStillAnother) {
  // A process that makes a pid namespace gets a child that is pid 1 there; so does that child in turn. All of
  // it in a child of ours: whoever made such a namespace cannot fork any more once its pid 1 is gone.
  const auto pid_one = [](auto&& body) { return unshare(CLONE_NEWPID) == 0 && in_child(body); };
  if (!in_child([] { return unshare(CLONE_NEWPID) == 0; })) {
    GTEST_SKIP() << "needs the right to make a pid namespace";
  }
  EXPECT_TRUE(in_child([&] {
    return pid_one([&] {
      Locks locks(make_memory_lock_backend());
      const auto guard = locks.lock("k", {.auto_renew = false});
      return getpid() == 1 && pid_one([&] { return getpid() == 1 && !guard.still_held(); });
    });
  }));
}

TEST(Fork, TheLogInAChildDoesNotWait) {
  Log log;
  log.set_sink([](LogLevel, std::string_view) {});
  log.write(LogLevel::warning, "parent");
  log.flush();
  EXPECT_TRUE(in_child([&] {
    log.write(LogLevel::warning, "child");
    log.flush();
    return true;
  }));
}

TEST(Fork, TheChildNeverSeesItsParentsRandomBytes) {
  const auto take = [] {
    std::array<unsigned char, 16> bytes{};
    os::random_bytes(bytes);
    return bytes;
  };
  (void)take();  // the buffer is filled
  int channel[2];
  ASSERT_EQ(pipe(channel), 0);
  ASSERT_TRUE(in_child([&] {
    const auto bytes = take();
    return write(channel[1], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  }));
  std::array<unsigned char, 16> childs{};
  ASSERT_EQ(read(channel[0], childs.data(), childs.size()), 16);
  EXPECT_NE(take(), childs);
  close(channel[0]);
  close(channel[1]);
}

/// A guard and an engine that only static destruction ends, in the worst order.
int exit_with_static_objects() {
  static Guard guard;
  static Holdfast holdfast = open("memory:");
  guard = holdfast.locks().lock("k", {.ttl = 100ms});
  std::this_thread::sleep_for(60ms);
  std::exit(0);  // NOLINT(concurrency-mt-unsafe): that is the case under test
}

TEST(Shutdown, StaticGuardsAndEnginesEndQuietly) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(exit_with_static_objects(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace holdfast::test
