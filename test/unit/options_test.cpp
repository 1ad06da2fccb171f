#include <gtest/gtest.h>

#include <holdfast/locks.hpp>
#include <holdfast/memory.hpp>
#include <holdfast/sqlite.hpp>
#include <type_traits>

namespace holdfast {
namespace {

// g++ 12 destroys an aggregate in a co_await expression twice: options must not mind.
static_assert(std::is_trivially_destructible_v<LockOptions> && std::is_aggregate_v<LockOptions>);
static_assert(std::is_trivially_destructible_v<MemoryOptions> && std::is_aggregate_v<MemoryOptions>);
static_assert(std::is_trivially_destructible_v<SqliteOptions> && std::is_aggregate_v<SqliteOptions>);

// What an engine can do is known at compile time where the engine is.
static_assert(memory_capabilities.supports_fencing && sqlite_capabilities.supports_fencing);
static_assert(memory_capabilities.time_authority == TimeAuthority::server);

static_assert(std::is_nothrow_move_constructible_v<Guard> && !std::is_copy_constructible_v<Guard>);

TEST(LockOptions, HaveTheDocumentedDefaults) {
  const LockOptions options;
  EXPECT_EQ(options.ttl, std::chrono::seconds(30));
  EXPECT_EQ(options.base_delay, std::chrono::milliseconds(100));
  EXPECT_EQ(options.max_delay, std::chrono::seconds(1));
  EXPECT_EQ(options.backoff, Backoff::exponential);
  EXPECT_EQ(options.jitter, Jitter::equal);
  EXPECT_TRUE(options.auto_renew);
}

TEST(Capabilities, AreTheSameAtRunTime) {
  const auto engine = make_memory_lock_backend();
  EXPECT_EQ(engine->capabilities().backend, memory_capabilities.backend);
}

}  // namespace
}  // namespace holdfast
