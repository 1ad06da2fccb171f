// How operations begin and end, watches, and fork.

#include <pthread.h>

#include <atomic>
#include <thread>

#include "contract/storage_contract.hpp"
#include "support/begun_wait.hpp"
#include "support/calls.hpp"
#include "support/eventually.hpp"
#include "support/in_child.hpp"
#include "support/queue_calls.hpp"

namespace holdfast::test {
namespace {

class StorageOperations : public StorageContract {
 protected:
  /// One request of each kind, on a record that is there.
  template <class Visitor>
  static void for_each_request(BootTime deadline, Visitor&& visit) {
    const auto key = record_key("o:t");
    visit(GetRecord{.key = key, .deadline = deadline});
    visit(CreateRecord{.key = record_key("o:new"), .data = record_data("{}"), .deadline = deadline});
    visit(PutRecord{.key = key, .data = record_data("changed"), .deadline = deadline});
    visit(RemoveRecord{.key = key, .deadline = deadline});
    visit(BindRecord{.key = key, .fence = token(9), .deadline = deadline});
    visit(RebindRecord{.key = key, .fence = token(9), .deadline = deadline});
    visit(ListRecords{.prefix = "o:", .deadline = deadline});
    visit(ListOwners{.deadline = deadline});
    visit(CleanupRecords{.deadline = deadline});
    if (!GetParam().has_queues) return;
    visit(ClaimNext{.owner = "o", .terms = claim_terms(), .deadline = deadline});
    visit(ClaimRecord{.key = key, .terms = claim_terms(), .deadline = deadline});
    visit(RenewLeases{.owner = "o", .leases = {}, .lease = 1s, .deadline = deadline});
    visit(EndLease{
        .key = key, .incarnation = "x", .token = token(9), .end = LeaseEnd::retried, .deadline = deadline});
    visit(CountQueue{.owner = "o", .deadline = deadline});
    visit(ConfigureQueue{.owner = "o", .paused = false, .deadline = deadline});
    // In steps: as one expression it crashes g++ 12.
    AppendOutput append{.key = key, .fence = token(9)};
    append.deadline = deadline;
    visit(std::move(append));
    visit(ReadOutput{.key = key, .deadline = deadline});
  }
};

TEST_P(StorageOperations, TheEngineHasAName) {
  EXPECT_EQ(mine->name(), GetParam().name.substr(0, GetParam().name.find('_')));
}

TEST_P(StorageOperations, WhatIsStoppedIsAbortedAndDoesNothing) {
  const auto created = create(*mine, "o:t", "data");
  std::stop_source stop;
  stop.request_stop();
  for_each_request(never, [&](auto request) {
    const auto result = call(*mine, std::move(request), stop.get_token());
    ASSERT_FALSE(result) << typeid(request).name();
    EXPECT_EQ(result.error().code(), ErrorCode::Aborted) << typeid(request).name();
  });
  expect_record("o:t", {.data = "data", .version = 1, .incarnation = created.incarnation});
  EXPECT_FALSE(get(*mine, "o:new"));
}

TEST_P(StorageOperations, WhatIsPastItsDeadlineTimesOut) {
  create(*mine, "o:t", "data");
  for_each_request(BootClock::now() - 1ms, [&](auto request) {
    const auto result = call(*mine, std::move(request));
    ASSERT_FALSE(result) << typeid(request).name();
    EXPECT_EQ(result.error().code(), ErrorCode::NetworkTimeout) << typeid(request).name();
  });
}

TEST_P(StorageOperations, ADeadlineThatIsFarAwayDisturbsNothing) {
  create(*mine, "o:t", "data");
  for_each_request(BootClock::now() + 60s, [&](auto request) {
    const auto result = call(*mine, std::move(request));
    EXPECT_TRUE(result) << typeid(request).name() << ": " << result.error().what();
  });
}

TEST_P(StorageOperations, AnErrorNamesTheRecord) {
  const auto result = call(*mine, GetRecord{.key = record_key("o:t"), .deadline = BootClock::now() - 1ms});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().key(), "o:t");
}

TEST_P(StorageOperations, ClientsOfOneStoreSeeEachOthersWritesAtOnce) {
  for (std::uint64_t version = 1; version <= 20; ++version) {
    EXPECT_EQ(put(*mine, "o:t", std::to_string(version)).version, version);
    EXPECT_EQ(get(*theirs, "o:t")->data, std::to_string(version));
  }
}

TEST_P(StorageOperations, AStoreIsNotAnothers) {
  create(*mine, "o:t");
  const auto elsewhere = GetParam().make_world();
  EXPECT_FALSE(get(*elsewhere->open(), "o:t"));
}

/// Each completion starts the next operation; without a trampoline this needs megabytes of stack.
struct GetChain {
  StorageBackend& backend;
  int links_left;
  std::atomic<bool> finished{false};

  void next() {
    if (links_left-- == 0) {
      finished = true;
      finished.notify_all();
      return;
    }
    backend.submit(GetRecord{.key = record_key("o:t")}, {},
                   [this](const Result<std::optional<StoredRecord>>&) { next(); });
  }
};

TEST_P(StorageOperations, ManyChainedCompletionsFitASmallStack) {
  GetChain chain{*mine, GetParam().name == "memory" ? 100'000 : 10'000};
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, std::size_t{256} * 1024);
  pthread_t thread{};
  ASSERT_EQ(pthread_create(
                &thread, &attributes,
                [](void* context) -> void* {
                  static_cast<GetChain*>(context)->next();
                  return nullptr;
                },
                &chain),
            0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  chain.finished.wait(false);
  EXPECT_EQ(chain.links_left, -1);
}

class StorageWatches : public StorageContract {
 protected:
  /// Watches of both clients see the change, which comes before they wait.
  template <class Change>
  void expect_everyone_woken_by(const char* what, Change&& change) const {
    SCOPED_TRACE(what);
    const auto key = record_key("o:t");
    std::vector<std::unique_ptr<Watch>> watches;
    for (const auto& client : {mine, theirs, mine, theirs}) watches.push_back(watch_of(*client, key));
    change();
    for (const auto& watch : watches) {
      ASSERT_TRUE(watch);
      EXPECT_TRUE(wait_until(*watch, BootClock::now() + 10s, {}));
    }
  }
};

TEST_P(StorageWatches, EveryWatchSeesEveryKindOfChangeThatCameBeforeTheWait) {
  const auto key = record_key("o:t");
  expect_everyone_woken_by("create", [&] { create(*mine, "o:t"); });
  expect_everyone_woken_by("put", [&] { put(*theirs, "o:t"); });
  expect_everyone_woken_by("conditional put", [&] {
    outcome(*mine, PutRecord{.key = key, .data = record_data("{}"), .expected = ExpectedVersion{2}});
  });
  expect_everyone_woken_by("guard", [&] { outcome(*theirs, BindRecord{.key = key, .fence = token(3)}); });
  expect_everyone_woken_by("fenced put", [&] {
    outcome(*mine, PutRecord{.key = key, .data = record_data("{}"), .fence = token(4)});
  });
  expect_everyone_woken_by("rebind", [&] { outcome(*mine, RebindRecord{.key = key}); });
  expect_everyone_woken_by("remove", [&] { remove(*theirs, "o:t"); });
  expect_everyone_woken_by("put that creates", [&] { put(*theirs, "o:t"); });
}

TEST_P(StorageWatches, AWatchWakesForEachOfSeveralChanges) {
  const auto watch = watch_of(*theirs, record_key("o:t"));
  ASSERT_TRUE(watch);
  for (int i = 0; i < 5; ++i) {
    put(*mine, "o:t");
    EXPECT_TRUE(wait_until(*watch, BootClock::now() + 10s, {})) << i;
  }
}

TEST_P(StorageWatches, AChangeWakesAllSleepers) {
  create(*mine, "o:t", "before");
  std::atomic<int> watching{0}, saw{0};
  std::vector<std::jthread> sleepers;
  for (int i = 0; i < 4; ++i) {
    sleepers.emplace_back([&, client = i % 2 == 0 ? theirs : world->open()] {
      const auto watch = watch_of(*client, record_key("o:t"));
      ++watching;
      const auto deadline = BootClock::now() + 20s;
      while (get(*client, "o:t")->data == "before") {
        if (!wait_until(*watch, deadline, {})) return;
      }
      ++saw;
    });
  }
  while (watching < 4) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(50ms);
  put(*mine, "o:t", "after");
  sleepers.clear();
  EXPECT_EQ(saw, 4);
}

TEST_P(StorageWatches, AnyRecordCanBeWatched) {
  for (const std::string& name : {std::string("é:鍵 \"*?[]{}\n"), std::string(":"), std::string("a%3Ab:c:d"),
                                  std::string("o:a\0b", 5), "o:" + std::string(1022, 'x')}) {
    const auto watch = watch_of(*theirs, record_key(name));
    ASSERT_TRUE(watch);
    put(*mine, name);
    EXPECT_TRUE(wait_until(*watch, BootClock::now() + 10s, {})) << name;
  }
}

TEST_P(StorageWatches, AWatchEndsAtItsDeadlineAndWhenStopped) {
  const auto watch = watch_of(*mine, record_key("o:t"));
  ASSERT_TRUE(watch);
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

TEST_P(StorageWatches, AWatchThatIsGoneDisturbsNobody) {
  auto gone = watch_of(*mine, record_key("o:t"));
  const auto stays = watch_of(*mine, record_key("o:t"));
  ASSERT_TRUE(gone && stays);
  gone.reset();
  put(*theirs, "o:t");
  EXPECT_TRUE(wait_until(*stays, BootClock::now() + 10s, {}));
}

/// The same without a thread that sleeps.
class StorageIdleWaits : public StorageContract {
 protected:
  const RecordKey key = record_key("o:t");
};

TEST_P(StorageIdleWaits, AChangeWakesAllThatWaitAndAllThatWillWait) {
  create(*mine, "o:t");
  for (const auto& [writer, reader] : {std::pair(mine, theirs), std::pair(theirs, mine)}) {
    std::vector<std::unique_ptr<Watch>> watches;
    for (int i = 0; i < 4; ++i) {
      watches.push_back(begun_watch(*reader, key));
      ASSERT_TRUE(watches.back());
    }
    const BegunWait first(*watches[0]), second(*watches[1]);
    put(*writer, "o:t");
    const BegunWait third(*watches[2]), fourth(*watches[3]);
    for (const auto* wait : {&first, &second, &third, &fourth}) EXPECT_EQ(wait->end(), true);
  }
}

TEST_P(StorageIdleWaits, AWatchWakesForEachOfSeveralChanges) {
  const auto watch = begun_watch(*theirs, key);
  ASSERT_TRUE(watch);
  for (int i = 0; i < 5; ++i) {
    const BegunWait wait(*watch);
    put(*mine, "o:t");
    EXPECT_EQ(wait.end(), true) << i;
  }
}

TEST_P(StorageIdleWaits, EveryoneLooksAgainForItselfAndEndsAtItsDeadlineAndWhenStopped) {
  const auto first = begun_watch(*theirs, key), second = begun_watch(*theirs, key);
  ASSERT_TRUE(first && second);
  std::stop_source stop;
  const BegunWait waiting(*first, never, never, stop.get_token());
  const auto ends_after = [&](BootTime look_again_at, BootTime deadline) {
    for (;;) {
      const auto end = BegunWait(*second, look_again_at, deadline).end();
      if (end != true) return end == false && BootClock::now() >= std::min(look_again_at, deadline);
      if (!GetParam().asks_again) return false;
    }
  };
  EXPECT_TRUE(ends_after(BootClock::now() + 20ms, never)) << "though it is not the first";
  EXPECT_TRUE(ends_after(never, BootClock::now() + 20ms));
  if (!GetParam().asks_again) {
    EXPECT_EQ(waiting.ended(), std::nullopt);
  }
  stop.request_stop();
  ASSERT_TRUE(waiting.end());
  if (!GetParam().asks_again) {
    EXPECT_EQ(waiting.end(), false);
  }
  EXPECT_EQ(BegunWait(*second, never, never, stop.get_token()).end(), false);
}

TEST_P(StorageIdleWaits, TwoThousandWaitersOfARecordAreAllWokenByOneChange) {
  constexpr int many = 2000;
  std::vector<std::unique_ptr<Watch>> watches(many);
  std::atomic<int> watching = 0;
  for (auto& place : watches) {
    begin_watch(*theirs, key, never, {}, [&](Result<std::unique_ptr<Watch>> watch) {
      place = std::move(watch).value_or_throw();
      ++watching;
    });
  }
  ASSERT_TRUE(eventually([&] { return watching == many; }));
  std::vector<BegunWait> waits;
  for (const auto& watch : watches) waits.emplace_back(*watch);
  put(*mine, "o:t");
  for (const auto& wait : waits) ASSERT_EQ(wait.end(), true);
}

INSTANTIATE_TEST_SUITE_P(Engines, StorageIdleWaits, testing::ValuesIn(storage_engines()), engine_name);

INSTANTIATE_TEST_SUITE_P(Engines, StorageOperations, testing::ValuesIn(storage_engines()), engine_name);
INSTANTIATE_TEST_SUITE_P(Engines, StorageWatches, testing::ValuesIn(storage_engines()), engine_name);

class StorageFork : public StorageContract {};

TEST_P(StorageFork, OperationsInTheChildFailAtOnceAndSayWhy) {
  create(*mine, "o:t", "data");
  EXPECT_TRUE(in_child([&] {
    const auto key = record_key("o:t");
    const auto fails = [](const auto& result) {
      return !result.ok() && result.error().code() == ErrorCode::ServiceUnavailable &&
             result.error().message().find("fork") != std::string::npos;
    };
    return fails(call(*mine, GetRecord{.key = key})) &&
           fails(call(*mine, CreateRecord{.key = key, .data = record_data("{}")})) &&
           fails(call(*mine, PutRecord{.key = key, .data = record_data("{}")})) &&
           fails(call(*mine, RemoveRecord{.key = key})) &&
           fails(call(*mine, BindRecord{.key = key, .fence = token(1)})) &&
           fails(call(*mine, RebindRecord{.key = key})) && fails(call(*mine, ListRecords{.prefix = "o:"})) &&
           fails(call(*mine, CleanupRecords{}));
  }));
  EXPECT_EQ(get(*mine, "o:t")->data, "data");
  EXPECT_EQ(put(*mine, "o:t").version, 2U) << "the parent goes on";
}

TEST_P(StorageFork, TheChildCanDestroyWhatItInherited) {
  create(*mine, "o:t");
  auto watch = watch_of(*mine, record_key("o:t"));
  EXPECT_TRUE(in_child([&] {
    watch.reset();
    mine.reset();
    theirs.reset();
    return true;
  }));
  put(*theirs, "o:t");
  ASSERT_TRUE(watch);
  EXPECT_TRUE(wait_until(*watch, BootClock::now() + 10s, {}));
}

INSTANTIATE_TEST_SUITE_P(Engines, StorageFork, testing::ValuesIn(undisturbed_storage_engines()), engine_name);

}  // namespace
}  // namespace holdfast::test
