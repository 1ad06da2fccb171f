#include <gtest/gtest.h>

#include <holdfast/memory.hpp>
#include <holdfast/open.hpp>
#include <holdfast/sqlite.hpp>
#include <type_traits>

namespace holdfast {
namespace {

// g++ 12 destroys an aggregate in a co_await expression twice: what is written there in braces must not mind
// (docs/adr/0006-arguments-are-views.md). The asynchronous functions check their own arguments as well.
template <class... Arguments>
constexpr bool may_be_written_in_braces =
    ((std::is_trivially_destructible_v<Arguments> && std::is_aggregate_v<Arguments>) && ...);
static_assert(may_be_written_in_braces<NewTask, ListTasks, ListTaskOwners, TaskOptions, FencingTokenView,
                                       LockOptions, ListLocks, LeaseView, MemoryOptions, SqliteOptions>);
static_assert(std::is_trivially_destructible_v<JsonView> && std::is_trivially_copyable_v<JsonView>);
static_assert(std::is_convertible_v<Json, JsonView> &&
              std::is_convertible_v<FencingToken, FencingTokenView> &&
              std::is_convertible_v<Lease, LeaseView>);

// What an engine can do is known at compile time where the engine is.
static_assert(memory_capabilities.supports_fencing && sqlite_capabilities.supports_fencing);

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

TEST(OwnedArguments, ConvertBackToWhatTheyAreACopyOf) {
  auto name = std::make_unique<std::string>("a name that is longer than a small string");
  auto variables =
      std::make_unique<Json>(Json::parse(R"({"a variable":"longer than a small string"})").value_or_throw());
  auto copy = detail::owned(NewTask{.method = *name,
                                    .ttl = std::chrono::seconds(1),
                                    .poll_interval = std::chrono::seconds(2),
                                    .variables = *variables,
                                    .request_key = *name});
  auto token = detail::owned(
      std::optional(FencingTokenView{.authority = *name, .lock_key = *name, .fence = *Fence::of(7)}));
  name.reset();
  variables.reset();
  const auto moved = std::move(copy);
  const NewTask task = moved;
  EXPECT_EQ(task.method, "a name that is longer than a small string");
  EXPECT_EQ(task.ttl, std::chrono::seconds(1));
  EXPECT_EQ(task.poll_interval, std::chrono::seconds(2));
  EXPECT_EQ(task.variables.str(), R"({"a variable":"longer than a small string"})");
  EXPECT_EQ(task.request_key, task.method);
  EXPECT_EQ(token->lock_key, task.method);
  EXPECT_EQ(token->fence.value(), 7U);
  EXPECT_FALSE(detail::owned(std::optional<FencingTokenView>()));
}

TEST(Capabilities, AreTheSameAtRunTime) {
  const auto engine = make_memory_lock_backend();
  EXPECT_EQ(engine->capabilities().backend, memory_capabilities.backend);
}

}  // namespace
}  // namespace holdfast
