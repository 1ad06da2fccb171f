#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <holdfast/memory.hpp>
#include <holdfast/telemetry.hpp>
#include <latch>

#include "support/calls.hpp"
#include "support/event_log.hpp"
#include "support/eventually.hpp"
#include "support/faulty_backend.hpp"
#include "support/in_child.hpp"
#include "support/storage_calls.hpp"
#include "support/times.hpp"

namespace holdfast {
namespace {

using namespace test;

using Mode = decltype(TelemetryOptions::include_raw);

/// Both halves of the memory engine, told to one telemetry.
class Events : public testing::Test {
 protected:
  void observe(Mode include_raw = false) {
    telemetry = std::make_shared<Telemetry>(
        TelemetryOptions{.on_event = log.listener(), .include_raw = std::move(include_raw)});
    locks = with_observer(make_memory_lock_backend({.clock = read, .clock_context = this}), telemetry);
    storage = with_observer(make_memory_storage_backend(), telemetry);
  }

  /// The one event since it was last asked.
  TelemetryEvent event() {
    telemetry->flush();
    auto events = log.take();
    EXPECT_EQ(events.size(), 1U);
    return events.empty() ? TelemetryEvent{} : std::move(events.back());
  }
  void forget() {
    telemetry->flush();
    (void)log.take();
  }

  static WallTime read(void* self) { return from_ms(static_cast<Events*>(self)->now_ms); }
  std::atomic<std::int64_t> now_ms{1'700'000'000'000};

  EventLog log;
  std::shared_ptr<Telemetry> telemetry;
  std::shared_ptr<LockBackend> locks;
  std::shared_ptr<StorageBackend> storage;
  const LockId id = LockId::generate();
  const LockId other = LockId::generate();
};

void expect(const TelemetryEvent& event, Activity type, EventResult result, Reason reason = Reason::none) {
  EXPECT_EQ(to_string(event.type), to_string(type));
  EXPECT_EQ(subject_of(event.type), subject_of(type));
  EXPECT_EQ(to_string(event.result), to_string(result));
  EXPECT_EQ(to_string(event.reason), to_string(reason));
  EXPECT_FALSE(event.error);
}

TEST_F(Events, AGrantedAcquireTellsItsHashesAndItsFence) {
  observe();
  const auto before = std::chrono::system_clock::now();
  const auto granted = acquire(*locks, id, "orders:42");
  const auto told = event();
  expect(told, Activity::acquire, EventResult::ok);
  EXPECT_EQ(told.key_hash, key_hash("orders:42"));
  EXPECT_EQ(told.lock_id_hash, key_hash(id.str()));
  EXPECT_EQ(told.fence, granted->fence);
  EXPECT_EQ(told.backend, "memory");
  EXPECT_GE(told.duration.count(), 0);
  EXPECT_GE(told.at, before - 1s);
  EXPECT_LE(told.at, std::chrono::system_clock::now() + 1s);
}

TEST_F(Events, ARefusedAcquireSaysLocked) {
  observe();
  acquire(*locks, id, "k");
  forget();
  EXPECT_FALSE(acquire(*locks, other, "k"));
  const auto told = event();
  expect(told, Activity::acquire, EventResult::fail, Reason::locked);
  EXPECT_EQ(to_string(told.reason), "locked");
  EXPECT_FALSE(told.fence);
}

TEST_F(Events, TellWhoHoldsTheLock) {
  observe();
  const auto label = [](std::string_view text) { return LockHolder::from_setting(text).value_or_throw(); };
  const auto ask_for = [&](const LockId& who, std::string_view name) {
    return try_acquire(*locks, {.id = who, .key = key("k"), .ttl = ttl(30s), .holder = label(name)});
  };
  EXPECT_TRUE(ask_for(id, "alice"));
  EXPECT_EQ(event().holder, "alice");
  EXPECT_TRUE(ask_for(other, "bob"));
  EXPECT_EQ(event().holder, "alice") << "not the one that was refused";
  EXPECT_TRUE(lookup(*locks, "k"));
  EXPECT_EQ(event().holder, "alice");
  EXPECT_TRUE(try_release(
      *locks,
      {.lock = {.id = id, .key = key("k")}, .broken_because = "its host is gone", .holder = label("alice")}));
  EXPECT_EQ(event().holder, "alice");
  acquire(*locks, id, "k");
  EXPECT_EQ(event().holder, "");
  EXPECT_TRUE(ask_for(other, "bob"));
  EXPECT_EQ(event().holder, "") << "the holder has no label";
}

TEST_F(Events, OfWaitsHoldsAndBreaksTellWhoHoldsTheLock) {
  observe();
  const Locks alices(locks, {}, telemetry, LockHolder::from_setting("alice").value_or_throw());
  const Locks bobs(locks, {}, telemetry, LockHolder::from_setting("bob").value_or_throw());
  {
    const auto guard = alices.lock("k");
    EXPECT_FALSE(bobs.try_lock("k"));
    EXPECT_TRUE(bobs.break_lock("k", "a test"));
  }
  telemetry->flush();
  const auto events = log.take();
  for (const auto activity : {Activity::wait, Activity::hold, Activity::break_lock}) {
    EXPECT_TRUE(std::ranges::any_of(events, [&](const auto& event) { return event.type == activity; }));
  }
  for (const auto& event : events) {
    // A release knows the id alone.
    EXPECT_EQ(event.holder, event.type == Activity::release ? "" : "alice") << to_string(event.type);
  }
}

TEST_F(Events, AReleaseTellsExpiredFromNotFound) {
  observe();
  acquire(*locks, id, "k", 100ms);
  forget();
  EXPECT_FALSE(release(*locks, id, "k"));
  expect(event(), Activity::release, EventResult::ok);
  EXPECT_TRUE(release(*locks, id, "k"));
  expect(event(), Activity::release, EventResult::fail, Reason::not_found);

  acquire(*locks, other, "k", 100ms);
  forget();
  EXPECT_TRUE(release(*locks, id, "k"));  // another's
  expect(event(), Activity::release, EventResult::fail, Reason::not_found);
  now_ms += 200;
  EXPECT_EQ(release(*locks, other, "k"), Absence::expired);
  expect(event(), Activity::release, EventResult::fail, Reason::expired);
}

TEST_F(Events, AnExtendSaysWhetherThereWasALock) {
  observe();
  acquire(*locks, id, "k", 100ms);
  forget();
  extend(*locks, id, "k", 200ms);
  expect(event(), Activity::extend, EventResult::ok);
  extend(*locks, other, "k", 200ms);
  expect(event(), Activity::extend, EventResult::fail, Reason::not_found);
  now_ms += 300;
  extend(*locks, id, "k", 200ms);
  expect(event(), Activity::extend, EventResult::fail, Reason::expired);
}

TEST_F(Events, IsLockedFailsWhereNobodyHoldsTheLock) {
  observe();
  EXPECT_FALSE(is_locked(*locks, "k"));
  expect(event(), Activity::is_locked, EventResult::fail, Reason::not_found);
  acquire(*locks, id, "k");
  forget();
  EXPECT_TRUE(is_locked(*locks, "k"));
  const auto told = event();
  expect(told, Activity::is_locked, EventResult::ok);
  EXPECT_EQ(told.key_hash, key_hash("k"));
  EXPECT_EQ(told.lock_id_hash, "");
}

TEST_F(Events, ALookupTellsWhatItFound) {
  observe();
  EXPECT_FALSE(lookup(*locks, id));
  const auto absent = event();
  expect(absent, Activity::lookup, EventResult::fail, Reason::not_found);
  EXPECT_EQ(absent.key_hash, "");
  EXPECT_EQ(absent.lock_id_hash, key_hash(id.str()));

  const auto granted = acquire(*locks, id, "k");
  forget();
  EXPECT_TRUE(lookup(*locks, "k"));
  const auto found = event();
  expect(found, Activity::lookup, EventResult::ok);
  EXPECT_EQ(found.lock_id_hash, key_hash(id.str()));
  EXPECT_EQ(found.fence, granted->fence);
}

TEST_F(Events, AListIsAnEventWithoutAKey) {
  observe();
  EXPECT_TRUE(list(*locks));
  const auto told = event();
  expect(told, Activity::list_locks, EventResult::ok);
  EXPECT_EQ(told.key_hash, "");
}

TEST_F(Events, ABrokenLockIsAnEventOfItsOwnWithTheOperatorsReason) {
  observe();
  acquire(*locks, id, "k");
  forget();
  EXPECT_TRUE(
      try_release(*locks, {.lock = {.id = id, .key = key("k")}, .broken_because = "its host is gone"}));
  const auto told = event();
  expect(told, Activity::break_lock, EventResult::ok);
  EXPECT_EQ(to_string(told.type), "break");
  EXPECT_EQ(told.broken_because, "its host is gone");
}

TEST_F(Events, AnErrorIsToldByItsCode) {
  auto faulty = std::make_shared<FaultyBackend>(make_memory_lock_backend());
  observe();
  locks = with_observer(faulty, telemetry);
  faulty->plan(FaultyBackend::Operation::acquire, FaultyBackend::Fault::refused_auth);
  EXPECT_FALSE(try_acquire(*locks, id, "k"));
  const auto told = event();
  EXPECT_EQ(told.result, EventResult::fail);
  EXPECT_EQ(told.reason, Reason::none);
  EXPECT_EQ(told.error, ErrorCode::AuthFailed);
  EXPECT_EQ(told.key_hash, key_hash("k"));
}

TEST_F(Events, OfRecordsSayWhyAWriteWasRefused) {
  observe();
  create(*storage, "me:a");
  const auto created = event();
  expect(created, Activity::create_record, EventResult::ok);
  EXPECT_EQ(created.key_hash, key_hash("me:a"));
  EXPECT_EQ(created.lock_id_hash, "");
  EXPECT_EQ(created.backend, "memory");

  EXPECT_TRUE(call(*storage, CreateRecord{.key = record_key("me:a"), .data = record_data("{}")}));
  expect(event(), Activity::create_record, EventResult::fail, Reason::exists);
  EXPECT_TRUE(call(*storage, CreateRecord{.key = record_key("me:b"), .data = record_data("{}"), .quota = 1}));
  expect(event(), Activity::create_record, EventResult::fail, Reason::quota);

  const auto put_with = [&](std::string_view at, std::optional<ExpectedVersion> expected,
                            std::optional<FencingToken> fence) {
    EXPECT_TRUE(call(*storage, PutRecord{.key = record_key(at),
                                         .data = record_data("{}"),
                                         .expected = std::move(expected),
                                         .fence = std::move(fence)}));
    return event();
  };
  expect(put_with("me:a", ExpectedVersion{.version = 7}, {}), Activity::put_record, EventResult::fail,
         Reason::conflict);
  expect(put_with("me:none", ExpectedVersion{.version = 7}, {}), Activity::put_record, EventResult::fail,
         Reason::not_found);
  const auto fenced = put_with("me:a", {}, token(5));
  expect(fenced, Activity::put_record, EventResult::ok);
  EXPECT_EQ(fenced.fence, *Fence::of(5));
  const auto stale = put_with("me:a", {}, token(4));
  expect(stale, Activity::put_record, EventResult::fail, Reason::stale_fence);
  EXPECT_EQ(stale.fence, *Fence::of(4));
  expect(put_with("me:a", {}, token(9, "another")), Activity::put_record, EventResult::fail,
         Reason::wrong_lock);
}

TEST_F(Events, ThereIsOneForEveryOperationOfRecords) {
  observe();
  create(*storage, "me:a");
  forget();
  EXPECT_TRUE(get(*storage, "me:a"));
  expect(event(), Activity::get_record, EventResult::ok);
  EXPECT_FALSE(get(*storage, "me:none"));
  expect(event(), Activity::get_record, EventResult::fail, Reason::not_found);
  EXPECT_TRUE(call(*storage, BindRecord{.key = record_key("me:a"), .fence = token(3)}));
  expect(event(), Activity::bind_record, EventResult::ok);
  EXPECT_TRUE(call(*storage, RebindRecord{.key = record_key("me:a")}));
  expect(event(), Activity::rebind_record, EventResult::ok);
  EXPECT_TRUE(call(*storage, ListRecords{.prefix = "me:"}));
  const auto listed = event();
  expect(listed, Activity::list_records, EventResult::ok);
  EXPECT_EQ(listed.key_hash, key_hash("me:"));
  Slot<OwnerPage> owners;
  storage->submit(ListOwners{}, {}, Done<OwnerPage>::into(owners));
  storage->wait(owners.completion);
  expect(event(), Activity::list_owners, EventResult::ok);
  EXPECT_TRUE(call(*storage, CleanupRecords{}));
  expect(event(), Activity::cleanup_records, EventResult::ok);
  EXPECT_TRUE(remove(*storage, "me:a"));
  expect(event(), Activity::remove_record, EventResult::ok);
  EXPECT_FALSE(remove(*storage, "me:a"));
  expect(event(), Activity::remove_record, EventResult::fail, Reason::not_found);
}

TEST_F(Events, CarryNoRawKeyOrIdUnlessAsked) {
  observe();
  acquire(*locks, id, "k");
  const auto told = event();
  EXPECT_FALSE(told.key);
  EXPECT_FALSE(told.lock_id);
}

TEST_F(Events, CarryTheRawKeyAndIdIfTheFlagSaysSo) {
  observe(true);
  acquire(*locks, id, "k");
  const auto told = event();
  EXPECT_EQ(told.key, "k");
  EXPECT_EQ(told.lock_id, std::string(id.str()));
  EXPECT_EQ(told.key_hash, key_hash("k"));
  EXPECT_TRUE(list(*locks));
  EXPECT_FALSE(event().key);  // there is none
}

TEST_F(Events, CarryThemWhereThePredicateSaysSo) {
  observe([](const TelemetryEvent& event) {
    EXPECT_FALSE(event.key);
    return event.result == EventResult::fail;
  });
  acquire(*locks, id, "k");
  EXPECT_FALSE(event().key);
  EXPECT_FALSE(acquire(*locks, other, "k"));
  const auto refused = event();
  EXPECT_EQ(refused.key, "k");
  EXPECT_EQ(refused.lock_id, std::string(other.str()));
}

TEST_F(Events, CarryThemNotIfThePredicateThrows) {
  observe([](const TelemetryEvent&) -> bool { throw std::runtime_error("undecided"); });
  acquire(*locks, id, "k");
  const auto told = event();
  expect(told, Activity::acquire, EventResult::ok);
  EXPECT_FALSE(told.key);
}

TEST(Telemetry, ACallbackThatThrowsDisturbsNeitherTheOperationNorTheNextEvent) {
  int calls = 0;
  const auto telemetry = std::make_shared<Telemetry>(TelemetryOptions{.on_event = [&](const TelemetryEvent&) {
    ++calls;
    throw std::runtime_error("no room for events");
  }});
  const auto locks = with_observer(make_memory_lock_backend(), telemetry);
  const auto id = LockId::generate();
  EXPECT_TRUE(acquire(*locks, id, "k"));
  EXPECT_FALSE(release(*locks, id, "k"));
  telemetry->flush();
  EXPECT_EQ(calls, 2);
}

TEST(Telemetry, OperationsGoOnWhileACallbackBlocks) {
  std::latch blocked(1);
  std::latch go_on(1);
  std::atomic<int> seen = 0;
  const auto telemetry = std::make_shared<Telemetry>(TelemetryOptions{.on_event = [&](const TelemetryEvent&) {
    if (seen++ == 0) {
      blocked.count_down();
      go_on.wait();
    }
  }});
  const auto locks = with_observer(make_memory_lock_backend(), telemetry);
  const auto id = LockId::generate();
  EXPECT_TRUE(acquire(*locks, id, "k"));
  blocked.wait();
  for (int i = 0; i < 100; ++i) {  // each waits for its answer, none for the callback
    EXPECT_FALSE(release(*locks, id, "k"));
    EXPECT_TRUE(acquire(*locks, id, "k"));
  }
  EXPECT_EQ(seen, 1);
  go_on.count_down();
  telemetry->flush();
  EXPECT_EQ(seen, 201);
}

TEST(Telemetry, WhatIsTooMuchIsDroppedAndCounted) {
  std::latch blocked(1);
  std::latch go_on(1);
  EventLog log;
  auto metrics = std::make_shared<Metrics>();
  const auto telemetry =
      std::make_shared<Telemetry>(TelemetryOptions{.on_event =
                                                       [&](const TelemetryEvent& event) {
                                                         log.listener()(event);
                                                         if (event.type != Activity::is_locked) return;
                                                         blocked.count_down();
                                                         go_on.wait();
                                                       },
                                                   .max_queued = 3},
                                  metrics);
  const auto locks = with_observer(make_memory_lock_backend(), telemetry);
  EXPECT_FALSE(is_locked(*locks, "k"));
  blocked.wait();
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(lookup(*locks, "k"));  // two of them find room
  EXPECT_NE(metrics->prometheus().find("holdfast_telemetry_events_dropped_total 8\n"), std::string::npos);
  go_on.count_down();
  telemetry->flush();
  EXPECT_FALSE(lookup(*locks, "k"));
  telemetry->flush();
  const auto events = log.take();
  ASSERT_EQ(events.size(), 4U);
  std::uint64_t dropped = 0;
  for (const auto& event : events) dropped += event.dropped_before;
  EXPECT_EQ(dropped, 8U);
  EXPECT_EQ(events.back().dropped_before, 0U);
}

TEST(Telemetry, ItsEndWaitsForTheLastEvent) {
  EventLog log;
  {
    const auto locks = with_telemetry(make_memory_lock_backend(), {.on_event = log.listener()});
    EXPECT_TRUE(acquire(*locks, LockId::generate(), "k"));
  }
  EXPECT_EQ(log.take().size(), 1U);
}

TEST(Telemetry, MayEndInItsOwnCallback) {
  std::promise<void> ended;
  std::shared_ptr<LockBackend> locks;
  std::latch ready(1);
  locks = with_telemetry(make_memory_lock_backend(), {.on_event = [&](const TelemetryEvent&) {
                           ready.wait();
                           locks.reset();
                           ended.set_value();
                         }});
  EXPECT_FALSE(is_locked(*locks, "k"));
  ready.count_down();
  ended.get_future().wait();
}

TEST(Telemetry, AForkedChildsEventsGoNowhere) {
  EventLog log;
  const auto telemetry = std::make_shared<Telemetry>(TelemetryOptions{.on_event = log.listener()});
  auto locks = with_observer(make_memory_lock_backend(), telemetry);
  EXPECT_FALSE(is_locked(*locks, "k"));
  telemetry->flush();
  EXPECT_EQ(log.take().size(), 1U);
  EXPECT_TRUE(in_child([&] {
    const auto answer = try_acquire(*locks, LockId::generate(), "k");
    telemetry->flush();
    const bool silent = log.take().empty();
    locks.reset();
    return !answer && answer.error().code() == ErrorCode::ServiceUnavailable && silent;
  }));
  EXPECT_FALSE(is_locked(*locks, "k"));
  telemetry->flush();
  EXPECT_EQ(log.take().size(), 1U);
}

TEST(Telemetry, WithoutAnObserverABackendIsItself) {
  const auto locks = make_memory_lock_backend();
  EXPECT_EQ(with_observer(locks, observers({nullptr, nullptr})), locks);
  const auto storage = make_memory_storage_backend();
  EXPECT_EQ(with_observer(storage, nullptr), storage);
}

/// An engine that says what it was asked with, and answers when the test says so.
class Asked final : public Intercepting<Asked, LockBackend> {
 public:
  bool awaited = false;
  std::optional<Done<bool>> pending;

  Capabilities capabilities() const noexcept override { return {.backend = "asked", .blocks = true}; }
  std::string authority() const override { return "authority"; }
  template <class Request>
  void intercept(Request, std::stop_token, Done<typename Request::Outcome> done) {
    if constexpr (std::is_same_v<Request, IsLockedRequest>) {
      awaited = done.is_awaited();
      pending.emplace(std::move(done));
    }
  }
  void wait(Completion& completion) override {
    (*std::exchange(pending, std::nullopt))(true);
    EXPECT_TRUE(completion.finished());
  }
};

class Nobody final : public Observer {
 public:
  void ended(const Occurrence&) noexcept override {}
};

TEST(ObservedLocks, AnAwaitedOperationIsAwaitedByTheEngineToo) {
  const auto engine = std::make_shared<Asked>();
  const auto locks = with_observer(engine, std::make_shared<Nobody>());
  EXPECT_TRUE(locks->capabilities().blocks);
  EXPECT_EQ(locks->authority(), "authority");
  EXPECT_TRUE(test::is_locked(*locks, "k"));
  EXPECT_TRUE(engine->awaited);
  bool answered = false;
  locks->submit(IsLockedRequest{.key = key("k")}, {},
                [&](Result<bool> locked) { answered = locked && *locked; });
  EXPECT_FALSE(engine->awaited);
  (*engine->pending)(true);
  EXPECT_TRUE(answered);
}

TEST(ObservedLocks, ACompletionMayWaitForAnotherOperation) {
  const auto engine = std::make_shared<Asked>();
  const auto locks = with_observer(engine, std::make_shared<Nobody>());
  bool nested = false;
  locks->submit(IsLockedRequest{.key = key("k")}, {}, [&](const Result<bool>&) {
    nested = test::is_locked(*locks, "k");  // its answer must not be put off until this one has ended
  });
  (*std::exchange(engine->pending, std::nullopt))(true);
  EXPECT_TRUE(nested);
}

}  // namespace
}  // namespace holdfast
