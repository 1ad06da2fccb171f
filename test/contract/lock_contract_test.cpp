#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "support/calls.hpp"
#include "support/engines.hpp"

namespace holdfast::test {
namespace {

class LockContract : public testing::TestWithParam<LockEngine> {
 protected:
  void SetUp() override {
    if (const auto why = GetParam().missing(); !why.empty()) GTEST_SKIP() << why;
    world = GetParam().make_world();
    mine = world->open();
    theirs = world->open();
  }
  /// A release did nothing, for this reason if one is named. Where answers get lost, that may be all that is
  /// known.
  static void expect_absent(std::optional<Absence> answer, std::optional<Absence> why = {}) {
    EXPECT_TRUE(answer) << "reported as released, though there was nothing to release";
    if (answer && why && !GetParam().asks_again) {
      EXPECT_EQ(answer, why);
    }
  }
  /// This id, or another where one may not be used again once it was released.
  static LockId again(const LockId& id) { return GetParam().asks_again ? LockId::generate() : id; }

  std::unique_ptr<LockWorld> world;
  std::shared_ptr<LockBackend> mine;
  std::shared_ptr<LockBackend> theirs;
  const LockId id = LockId::generate();
  const LockId other = LockId::generate();
};

void expire(milliseconds length) {
  std::this_thread::sleep_for(length + 5ms);
}

std::int64_t wall_ms() {
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

TEST_P(LockContract, AcquireGrantsAFreeLock) {
  const auto before = wall_ms();
  const auto granted = acquire(*mine, id, "k", 30s);
  ASSERT_TRUE(granted);
  EXPECT_GE(granted->fence.value(), 1U);
  EXPECT_GE(to_ms(granted->expires_at), before + 30'000 - 5);
  EXPECT_LE(to_ms(granted->expires_at), wall_ms() + 30'000 + 5);
}

TEST_P(LockContract, AHeldLockIsRefusedToOthersAndSaysForHowLong) {
  ASSERT_TRUE(acquire(*mine, id, "k", 30s));
  const auto outcome = try_acquire(*theirs, other, "k").value_or_throw();
  const auto* refused = std::get_if<Refused>(&outcome);
  ASSERT_NE(refused, nullptr);
  ASSERT_TRUE(refused->free_in);
  EXPECT_GT(*refused->free_in, 25s);
  EXPECT_LE(*refused->free_in, 30s);
}

TEST_P(LockContract, DifferentKeysDoNotMeet) {
  EXPECT_TRUE(acquire(*mine, id, "a"));
  EXPECT_TRUE(acquire(*theirs, other, "b"));
}

TEST_P(LockContract, AcquireRepeatedWithTheSameIdAnswersAsTheFirstTime) {
  const auto first = acquire(*mine, id, "k", 30s);
  const auto second = acquire(*theirs, id, "k", 60s);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(second->fence, first->fence);
  EXPECT_EQ(second->expires_at, first->expires_at);
  EXPECT_EQ(lookup(*mine, "k")->expires_at, first->expires_at);
}

TEST_P(LockContract, AcquireRepeatedAfterAnExtendShowsTheNewExpiry) {
  const auto first = acquire(*mine, id, "k", 30s);
  const auto extended = extend(*mine, id, "k", 60s);
  const auto again = acquire(*mine, id, "k", 30s);
  ASSERT_TRUE(first && again);
  EXPECT_EQ(again->fence, first->fence);
  EXPECT_EQ(again->expires_at, std::get<Extended>(extended).expires_at);
}

TEST_P(LockContract, AnIdThatHoldsAnotherKeyIsInvalidArgument) {
  ASSERT_TRUE(acquire(*mine, id, "a"));
  const auto result = try_acquire(*mine, id, "b");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), ErrorCode::InvalidArgument);
  EXPECT_EQ(result.error().key(), "b");
  EXPECT_EQ(result.error().lock_id(), id.str());
  EXPECT_FALSE(is_locked(*mine, "b"));
  EXPECT_TRUE(lookup(*mine, id));
}

TEST_P(LockContract, AnIdMayTakeAnotherKeyOnceItsLockIsReleasedOrExpired) {
  ASSERT_TRUE(acquire(*mine, id, "a"));
  ASSERT_FALSE(release(*mine, id, "a"));
  const auto same = again(id);
  ASSERT_TRUE(acquire(*mine, same, "b", 20ms));
  expire(20ms);
  EXPECT_TRUE(acquire(*mine, same, "c"));
  EXPECT_EQ(lookup(*mine, same)->key.str(), "c");
}

TEST_P(LockContract, ReleaseFreesTheLock) {
  ASSERT_TRUE(acquire(*mine, id, "k"));
  EXPECT_EQ(release(*mine, id, "k"), std::nullopt);
  EXPECT_FALSE(is_locked(*theirs, "k"));
  EXPECT_FALSE(lookup(*theirs, id));
  EXPECT_TRUE(acquire(*theirs, other, "k"));
}

TEST_P(LockContract, ReleaseByIdAloneFreesTheLock) {
  ASSERT_TRUE(acquire(*mine, id, "k"));
  EXPECT_EQ(release(*theirs, id), std::nullopt);
  EXPECT_FALSE(is_locked(*mine, "k"));
}

TEST_P(LockContract, ASecondReleaseFindsNothing) {
  ASSERT_TRUE(acquire(*mine, id, "k"));
  ASSERT_EQ(release(*mine, id, "k"), std::nullopt);
  expect_absent(release(*mine, id, "k"), Absence::not_found);
  expect_absent(release(*mine, id), Absence::not_found);
}

TEST_P(LockContract, OnlyTheOwnerReleases) {
  ASSERT_TRUE(acquire(*mine, id, "k"));
  expect_absent(release(*theirs, other, "k"), Absence::other_owner);
  expect_absent(release(*theirs, other), Absence::not_found);
  EXPECT_TRUE(is_locked(*mine, "k"));
}

TEST_P(LockContract, ReleaseWithAWrongKeyLeavesTheLock) {
  ASSERT_TRUE(acquire(*mine, id, "k"));
  expect_absent(release(*mine, id, "another"), Absence::not_found);
  EXPECT_TRUE(lookup(*mine, id));
}

TEST_P(LockContract, ReleaseAfterExpiryIsNotOkAndLeavesTheNextHolderAlone) {
  ASSERT_TRUE(acquire(*mine, id, "k", 20ms));
  expire(20ms);
  expect_absent(release(*mine, id, "k"));
  const auto same = again(id);
  ASSERT_TRUE(acquire(*mine, same, "k", 20ms));
  expire(20ms);
  ASSERT_TRUE(acquire(*theirs, other, "k"));
  expect_absent(release(*mine, same, "k"));
  expect_absent(release(*mine, same));
  EXPECT_EQ(lookup(*mine, "k")->id, other);
}

TEST_P(LockContract, ExtendReplacesWhatWasLeftLongerOrShorter) {
  const auto granted = acquire(*mine, id, "k", 30s);
  const auto longer = std::get<Extended>(extend(*mine, id, "k", 90s));
  EXPECT_GT(to_ms(longer.expires_at), to_ms(granted->expires_at) + 50'000);
  EXPECT_EQ(lookup(*theirs, "k")->fence, granted->fence);
  const auto shorter = std::get<Extended>(extend(*mine, id, std::nullopt, 20ms));
  EXPECT_LT(shorter.expires_at, granted->expires_at);
  expire(20ms);
  EXPECT_TRUE(acquire(*theirs, other, "k"));
}

TEST_P(LockContract, ExtendAfterExpiryFails) {
  ASSERT_TRUE(acquire(*mine, id, "k", 20ms));
  expire(20ms);
  EXPECT_TRUE(std::holds_alternative<Absence>(extend(*mine, id, "k", 60s)));
  EXPECT_TRUE(std::holds_alternative<Absence>(extend(*mine, id, std::nullopt, 60s)));
  EXPECT_FALSE(is_locked(*mine, "k"));
}

TEST_P(LockContract, OnlyTheOwnerExtends) {
  const auto granted = acquire(*mine, id, "k", 30s);
  EXPECT_EQ(std::get<Absence>(extend(*theirs, other, "k", 90s)), Absence::other_owner);
  EXPECT_EQ(std::get<Absence>(extend(*theirs, other, std::nullopt, 90s)), Absence::not_found);
  EXPECT_EQ(lookup(*mine, "k")->expires_at, granted->expires_at);
}

TEST_P(LockContract, AtItsExpiryALockIsGoneForEveryone) {
  ASSERT_TRUE(acquire(*mine, id, "k", 20ms));
  expire(20ms);
  EXPECT_FALSE(is_locked(*theirs, "k"));
  EXPECT_FALSE(lookup(*theirs, "k"));
  EXPECT_FALSE(lookup(*theirs, id));
  EXPECT_TRUE(list(*theirs)->locks.empty());
  EXPECT_TRUE(acquire(*theirs, other, "k"));
}

TEST_P(LockContract, ALockIsNotGrantedToASecondHolderBeforeItsExpiry) {
  for (int round = 0; round < 5; ++round) {
    const auto first = LockId::generate();
    auto second = LockId::generate();
    const BootTime sent = BootClock::now();
    ASSERT_TRUE(acquire(*mine, first, "k", 30ms));
    while (!acquire(*theirs, second, "k")) second = again(second);
    // The engine counts whole milliseconds, so it may end a lease within the last one.
    EXPECT_GE(BootClock::now() - sent, 29ms);
    ASSERT_EQ(release(*theirs, second, "k"), std::nullopt);
  }
}

TEST_P(LockContract, FencesRiseWithEveryGrantOfAKey) {
  Fence last;
  for (int i = 0; i < 20; ++i) {
    const auto next_id = LockId::generate();
    const auto granted = acquire(i % 2 == 0 ? *mine : *theirs, next_id, "k", i % 5 == 4 ? 10ms : 60'000ms);
    ASSERT_TRUE(granted);
    EXPECT_GT(granted->fence, last);
    last = granted->fence;
    if (i % 5 == 4) {
      expire(10ms);
    } else {
      ASSERT_EQ(release(*mine, next_id, "k"), std::nullopt);
    }
  }
}

TEST_P(LockContract, FencesRiseHoweverLongTheirCounterIsNeeded) {
  const std::array lifetimes{std::optional<CounterLifetime>(),
                             std::optional(CounterLifetime{.until = from_ms(1)}),
                             std::optional(CounterLifetime{})};
  Fence last;
  for (std::size_t i = 0; i < 9; ++i) {
    const AcquireRequest request{.id = LockId::generate(),
                                 .key = key("k"),
                                 .ttl = ttl(60s),
                                 .counter_lifetime = lifetimes[i % lifetimes.size()]};
    const auto outcome = try_acquire(i % 2 == 0 ? *mine : *theirs, request).value_or_throw();
    const auto* granted = std::get_if<Granted>(&outcome);
    ASSERT_NE(granted, nullptr);
    EXPECT_GT(granted->fence, last);
    last = granted->fence;
    ASSERT_EQ(release(*mine, request.id, "k"), std::nullopt);
  }
}

TEST_P(LockContract, LookupTellsWhatTheGrantSaid) {
  const auto granted = acquire(*mine, id, "k", 30s);
  for (const auto& found : {lookup(*theirs, "k"), lookup(*theirs, id)}) {
    ASSERT_TRUE(found);
    EXPECT_EQ(found->key.str(), "k");
    EXPECT_EQ(found->id, id);
    EXPECT_EQ(found->fence, granted->fence);
    EXPECT_EQ(found->expires_at, granted->expires_at);
    EXPECT_EQ(to_ms(found->acquired_at), to_ms(granted->expires_at) - 30'000);
  }
  EXPECT_FALSE(lookup(*mine, "other"));
  EXPECT_FALSE(lookup(*mine, other));
}

TEST_P(LockContract, AcquiredAtStaysWhenTheLockIsExtended) {
  const auto granted = acquire(*mine, id, "k", 30s);
  std::this_thread::sleep_for(5ms);
  ASSERT_TRUE(std::holds_alternative<Extended>(extend(*mine, id, "k", 30s)));
  EXPECT_EQ(to_ms(lookup(*mine, "k")->acquired_at), to_ms(granted->expires_at) - 30'000);
}

TEST_P(LockContract, ListShowsEveryHeldLockOnceOverPages) {
  std::set<std::string> expected;
  for (int i = 0; i < 25; ++i) {
    const auto name = "key-" + std::to_string(i);
    ASSERT_TRUE(acquire(*mine, LockId::generate(), name));
    expected.insert(name);
  }
  std::multiset<std::string> listed;
  std::string cursor;
  int pages = 0;
  do {
    const auto page = list(*theirs, {.cursor = cursor, .limit = 10}).value_or_throw();
    EXPECT_LE(page.locks.size(), 10U);
    for (const auto& lock : page.locks) listed.insert(lock.key.str());
    cursor = page.cursor;
    ++pages;
  } while (!cursor.empty() && pages < 10);
  EXPECT_EQ(pages, 3);
  EXPECT_TRUE(std::ranges::equal(listed, expected));
  // Some keys alone.
  const auto some =
      list(*theirs, {.cursor = {}, .limit = 1, .only = {key("key-3"), key("free"), key("key-7")}})
          .value_or_throw();
  listed.clear();
  for (const auto& lock : some.locks) listed.insert(lock.key.str());
  EXPECT_EQ(listed, (std::multiset<std::string>{"key-3", "key-7"}));
  EXPECT_EQ(some.cursor, "");
}

TEST_P(LockContract, AForeignListCursorIsInvalidArgument) {
  EXPECT_EQ(list(*mine, {.cursor = "\xff\xfe"}).error().code(), ErrorCode::InvalidArgument);
}

TEST_P(LockContract, AwkwardKeysAreTheirOwn) {
  using namespace std::string_literals;
  std::vector<std::string> keys = {"a",
                                   "A",
                                   "a ",
                                   " a",
                                   "a\nb",
                                   "a\0b"s,
                                   "'; DROP TABLE locks; --",
                                   "%",
                                   "_",
                                   "{\"expiresAtMs\":1}",
                                   "ключ",
                                   "鍵",
                                   "\xF0\x9F\x94\x92",
                                   "fence:x",
                                   std::string(512, 'x'),
                                   std::string(511, 'x') + "y"};
  if (!GetParam().reserves_names) keys.push_back("id:" + std::string(22, 'A'));
  std::vector<LockId> ids;
  for (const auto& name : keys) {
    ids.push_back(LockId::generate());
    ASSERT_TRUE(acquire(*mine, ids.back(), name)) << name;
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(lookup(*theirs, keys[i])->id, ids[i]) << keys[i];
    EXPECT_EQ(lookup(*theirs, ids[i])->key.str(), keys[i]);
    EXPECT_EQ(release(*theirs, ids[i], keys[i]), std::nullopt) << keys[i];
  }
}

TEST_P(LockContract, KeysThatAreEqualInNormalFormAreOneLock) {
  ASSERT_TRUE(acquire(*mine, id, "caf\xC3\xA9"));
  EXPECT_FALSE(acquire(*theirs, other, "cafe\xCC\x81"));
}

TEST_P(LockContract, TheLongestTtlWorks) {
  const auto granted = acquire(*mine, id, "k", std::chrono::days(366));
  ASSERT_TRUE(granted);
  EXPECT_NEAR(static_cast<double>(to_ms(granted->expires_at) - wall_ms()), 366.0 * 86'400'000, 1000);
}

TEST_P(LockContract, AStoppedOperationIsAbortedAndDoesNothing) {
  std::stop_source stop;
  stop.request_stop();
  const auto result = try_acquire(*mine, {.id = id, .key = key("k"), .ttl = ttl(60s)}, stop.get_token());
  EXPECT_EQ(result.error().code(), ErrorCode::Aborted);
  EXPECT_FALSE(is_locked(*mine, "k"));
  ASSERT_TRUE(acquire(*mine, id, "k"));
  EXPECT_EQ(try_release(*mine, {.lock = {.id = id, .key = key("k")}}, stop.get_token()).error().code(),
            ErrorCode::Aborted);
  EXPECT_EQ(try_extend(*mine, {.lock = {.id = id, .key = key("k")}, .ttl = ttl(60s)}, stop.get_token())
                .error()
                .code(),
            ErrorCode::Aborted);
  EXPECT_TRUE(is_locked(*mine, "k"));
}

TEST_P(LockContract, AnOperationPastItsDeadlineTimesOut) {
  const auto result =
      try_acquire(*mine, {.id = id, .key = key("k"), .ttl = ttl(60s), .deadline = BootClock::now() - 1ms});
  EXPECT_EQ(result.error().code(), ErrorCode::NetworkTimeout);
}

TEST_P(LockContract, CapabilitiesAndAuthorityAreTold) {
  EXPECT_FALSE(mine->capabilities().backend.empty());
  EXPECT_TRUE(mine->capabilities().supports_fencing);
  EXPECT_FALSE(mine->authority().empty());
  EXPECT_EQ(mine->authority(), theirs->authority());
  EXPECT_NE(mine->authority(), GetParam().make_world()->open()->authority());
}

TEST_P(LockContract, AWatchSeesAReleaseThatCameBeforeTheWait) {
  ASSERT_TRUE(acquire(*mine, id, "k"));
  const auto watch = watch_of(*theirs, key("k"));
  ASSERT_TRUE(watch);
  ASSERT_EQ(release(*mine, id, "k"), std::nullopt);
  EXPECT_TRUE(wait_until(*watch, BootClock::now() + 5s, {}));
}

TEST_P(LockContract, AWatchWakesASleeper) {
  ASSERT_TRUE(acquire(*mine, id, "k"));
  const auto watch = watch_of(*theirs, key("k"));
  std::jthread releaser([&] {
    std::this_thread::sleep_for(30ms);
    release(*mine, id, "k");
  });
  EXPECT_TRUE(wait_until(*watch, BootClock::now() + 10s, {}));
  while (GetParam().asks_again && is_locked(*theirs, "k")) {
    EXPECT_TRUE(wait_until(*watch, BootClock::now() + 10s, {}));
  }
  EXPECT_TRUE(acquire(*theirs, other, "k"));
}

TEST_P(LockContract, AWatchEndsAtItsDeadlineAndWhenStopped) {
  const auto watch = watch_of(*mine, key("k"));
  const BootTime before = BootClock::now();
  while (wait_until(*watch, before + 30ms, {})) ASSERT_TRUE(GetParam().asks_again);
  EXPECT_GE(BootClock::now() - before, 30ms);
  std::stop_source stop;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(20ms);
    stop.request_stop();
  });
  while (wait_until(*watch, BootClock::now() + 30s, stop.get_token())) ASSERT_TRUE(GetParam().asks_again);
  EXPECT_TRUE(stop.stop_requested());
  EXPECT_FALSE(wait_until(*watch, BootClock::now() + 30s, stop.get_token()));
}

TEST_P(LockContract, OneReleaseWakesOneOfSeveralSleepersAndItCanPassTheWakeUpOn) {
  ASSERT_TRUE(acquire(*mine, id, "k"));
  std::atomic<int> watching{0}, woken{0};
  std::vector<std::jthread> sleepers;
  for (int i = 0; i < 3; ++i) {
    sleepers.emplace_back([&, client = world->open()] {
      const auto watch = watch_of(*client, key("k"));
      ++watching;
      if (!wait_until(*watch, BootClock::now() + 10s, {})) return;
      ++woken;
      watch->pass_on();
    });
  }
  while (watching < 3) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(50ms);
  ASSERT_EQ(release(*mine, id, "k"), std::nullopt);
  sleepers.clear();
  EXPECT_EQ(woken, 3);
}

TEST_P(LockContract, ThreadsNeverHoldTheSameLockTogether) {
  std::atomic<int> inside{0}, grants{0};
  std::atomic<bool> overlap{false}, fell{false};
  std::atomic<std::uint64_t> last_fence{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, client = t % 2 == 0 ? mine : theirs] {
      for (int done = 0; done < 50;) {
        const auto own = LockId::generate();
        const auto granted = acquire(*client, own, "k");
        if (!granted) {
          std::this_thread::yield();
          continue;
        }
        if (inside.fetch_add(1) != 0) overlap = true;
        if (granted->fence.value() <= last_fence) fell = true;
        last_fence = granted->fence.value();
        inside.fetch_sub(1);
        release(*client, own, "k");
        ++done;
        ++grants;
      }
    });
  }
  threads.clear();
  EXPECT_FALSE(overlap);
  EXPECT_FALSE(fell);
  EXPECT_EQ(grants, 400);
}

/// Each completion starts the next operation; without a trampoline this needs megabytes of stack.
struct AcquireChain {
  LockBackend& backend;
  int links_left;
  std::atomic<bool> finished{false};

  void next() {
    if (links_left-- == 0) {
      finished = true;
      finished.notify_all();
      return;
    }
    const auto id = LockId::generate();
    backend.submit(
        AcquireRequest{.id = id, .key = key("k"), .ttl = ttl(60s), .durability = Durability::process}, {},
        [this, id](Result<AcquireOutcome>) {
          backend.submit(
              ReleaseRequest{.lock = {.id = id, .key = key("k")}, .durability = Durability::process}, {},
              [this](Result<ReleaseOutcome>) { next(); });
        });
  }
};

/// Engines with I/O run fewer links: 10,000 that each leave a frame overflow the stack as well. Which wire a
/// Redis is reached by makes no difference to the completions: there it is enough that a chain goes on.
int links_of_a_chain(const std::string& engine) {
  if (engine == "memory") return 100'000;
  for (const char* wire : {"redis_tls", "redis_unix", "redis_disturbed", "redis_restarting"}) {
    if (engine == wire) return 1'000;
  }
  return 10'000;
}

TEST_P(LockContract, AHundredThousandChainedCompletionsFitASmallStack) {
  AcquireChain chain{*mine, links_of_a_chain(GetParam().name)};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, std::size_t{256} * 1024);
  pthread_t thread{};
  ASSERT_EQ(pthread_create(
                &thread, &attributes,
                [](void* context) -> void* {
                  static_cast<AcquireChain*>(context)->next();
                  return nullptr;
                },
                &chain),
            0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  chain.finished.wait(false);
  EXPECT_EQ(chain.links_left, -1);
}

INSTANTIATE_TEST_SUITE_P(Engines, LockContract, testing::ValuesIn(lock_engines()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace holdfast::test
