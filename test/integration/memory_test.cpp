#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <holdfast/memory.hpp>
#include <mutex>
#include <thread>

#include "support/calls.hpp"

namespace holdfast::test {
namespace {

struct HandClock {
  std::atomic<std::int64_t> ms{1'000'000};
  static WallTime read(void* self) { return from_ms(static_cast<HandClock*>(self)->ms); }
};

TEST(Memory, TheClockDecidesToTheMillisecond) {
  HandClock clock;
  const auto engine = make_memory_lock_backend({.clock = HandClock::read, .clock_context = &clock});
  const auto first = LockId::generate(), second = LockId::generate();
  const auto granted = acquire(*engine, first, "k", 100ms);
  ASSERT_TRUE(granted);
  EXPECT_EQ(to_ms(granted->expires_at), 1'000'100);
  clock.ms += 99;
  EXPECT_FALSE(acquire(*engine, second, "k"));
  EXPECT_TRUE(is_locked(*engine, "k"));
  clock.ms += 1;
  EXPECT_FALSE(is_locked(*engine, "k"));
  EXPECT_TRUE(acquire(*engine, second, "k"));
}

TEST(Memory, ExpiredLocksDoNotPileUp) {
  HandClock clock;
  const auto engine = make_memory_lock_backend({.clock = HandClock::read, .clock_context = &clock});
  for (int i = 0; i < 50'000; ++i) {
    ASSERT_TRUE(acquire(*engine, LockId::generate(), "key-" + std::to_string(i), 10ms));
    clock.ms += 1;
  }
  EXPECT_LE(list(*engine)->locks.size(), 10U);
}

TEST(Memory, AFullFenceCounterFailsAndLeavesNothingHeld) {
  const auto engine = make_memory_lock_backend({.last_fence = Fence::max_issued - 1});
  const auto last = LockId::generate();
  EXPECT_EQ(acquire(*engine, last, "k")->fence.value(), Fence::max_issued);
  ASSERT_EQ(release(*engine, last, "k"), std::nullopt);
  for (int i = 0; i < 3; ++i) {
    const auto refused = try_acquire(*engine, LockId::generate(), "k");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ErrorCode::Internal);
    EXPECT_FALSE(is_locked(*engine, "k"));
  }
}

TEST(Memory, AHighFenceWarnsWithTheKeysHashOnly) {
  const auto log = std::make_shared<Log>();
  std::mutex mutex;
  std::vector<std::string> warnings;
  log->set_sink([&](LogLevel level, std::string_view message) {
    const std::lock_guard lock(mutex);
    if (level == LogLevel::warning) warnings.emplace_back(message);
  });
  const auto engine = make_memory_lock_backend({.last_fence = Fence::warn_above - 1}, log);
  ASSERT_TRUE(acquire(*engine, LockId::generate(), "first-key"));
  log->flush();
  EXPECT_TRUE(warnings.empty()) << "at the threshold, not above it";
  ASSERT_TRUE(acquire(*engine, LockId::generate(), "second-key"));
  log->flush();
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find(key_hash("second-key")), std::string::npos);
  EXPECT_EQ(warnings[0].find("second-key"), std::string::npos);
}

TEST(Log, ASinkThatThrowsOrBlocksDisturbsNobody) {
  Log log;
  std::atomic<int> seen{0};
  log.set_sink([&](LogLevel, std::string_view) {
    ++seen;
    throw std::runtime_error("sink");
  });
  log.write(LogLevel::warning, "one");
  log.write(LogLevel::warning, "two");
  log.flush();
  EXPECT_EQ(seen, 2);
}

TEST(Log, MayEndOnItsOwnThreadWithMessagesWaiting) {
  auto log = std::make_unique<Log>();
  std::atomic<int> seen{0};
  std::atomic<bool> written{false};  // before that the log must not go: it is written to
  Log& writer = *log;
  writer.set_sink(
      [&, owned = std::make_shared<std::unique_ptr<Log>>(std::move(log))](LogLevel, std::string_view) {
        while (!written) std::this_thread::sleep_for(1ms);
        owned->reset();
        ++seen;
      });
  writer.write(LogLevel::warning, "one");
  writer.write(LogLevel::warning, "two");
  written = true;
  while (seen < 2) std::this_thread::sleep_for(1ms);
}

TEST(Log, ASlowSinkLosesMessagesAndSaysHowMany) {
  Log log;
  std::atomic<bool> open{false};
  std::mutex mutex;
  std::vector<std::string> lines;
  log.set_sink([&](LogLevel, std::string_view message) {
    while (!open) std::this_thread::sleep_for(1ms);
    const std::lock_guard lock(mutex);
    lines.emplace_back(message);
  });
  for (int i = 0; i < 1500; ++i) log.write(LogLevel::warning, "line");
  open = true;
  log.flush();
  log.write(LogLevel::warning, "last");
  log.flush();
  int told = 0, dropped = 0;
  for (const auto& line : lines) {
    if (line.find("dropped") != std::string::npos) dropped += std::stoi(line);
    if (line == "line") ++told;
  }
  EXPECT_GE(dropped, 500);
  EXPECT_EQ(told + dropped, 1500);
  EXPECT_EQ(lines.back(), "last");
}

}  // namespace
}  // namespace holdfast::test
