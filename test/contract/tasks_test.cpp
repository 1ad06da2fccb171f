// The task rules, through the blocking interface and through Asio, on an engine of each kind.

#include <gtest/gtest.h>

#include <atomic>
#include <holdfast/holdfast.hpp>
#include <set>
#include <thread>

#include "contract/tasks_on.hpp"
#include "support/eventually.hpp"
#include "support/storage_calls.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

TEST_P(TasksOn, AListNamesWhatItCannotReadOnceAndGivesTheRest) {
  auto store = tasks();
  const auto all = holdfast->tasks();
  auto& storage = all.storage();
  const auto text = [](int created, const std::string& task) {
    return R"({"task":{"taskId":")" + task + R"(","status":")" + (created % 2 == 0 ? "working" : "failed") +
           R"(","createdAt":"2020-01-01T00:00:0)" + std::to_string(created) +
           R"(Z"},"ownerId":"alice","variables":{}})";
  };
  for (int i = 0; i < 8; ++i) {
    const auto task = "t" + std::to_string(i);
    auto data = text(i, task);
    if (i == 3 || i == 6) data.replace(data.find("taskId"), 6, "taskIt");
    (void)put(storage, "alice:" + task, data);
  }
  for (const std::size_t limit : {1U, 2U, 3U, 50U}) {
    for (const auto status : {std::optional<TaskStatus>(), std::optional(TaskStatus::working)}) {
      std::vector<std::string> seen;
      std::multiset<std::string> unreadable;
      std::string cursor;
      do {
        const auto page = store.list("alice", {.cursor = cursor, .status = status, .limit = limit});
        for (const auto& task : page.tasks) seen.push_back(task.id);
        for (const auto& error : page.unreadable) {
          EXPECT_EQ(error.code(), ErrorCode::Internal);
          unreadable.insert(error.key());
        }
        cursor = page.cursor;
      } while (!cursor.empty());
      EXPECT_EQ(seen, status ? (std::vector<std::string>{"t4", "t2", "t0"})
                             : (std::vector<std::string>{"t7", "t5", "t4", "t2", "t1", "t0"}));
      EXPECT_EQ(unreadable, (std::multiset<std::string>{"t3", "t6"})) << limit;
    }
  }
}

TEST_P(TasksOn, AreCreatedAndFoundAgain) {
  auto store = tasks();
  const auto made =
      store.create("alice", {.method = "tools/call", .ttl = 60s, .variables = json(R"({"n":1})")});
  EXPECT_EQ(made.status, TaskStatus::working);
  EXPECT_EQ(made.version, 1U);
  const auto found = store.get("alice", made.id);
  EXPECT_EQ(found.record.str(), made.record.str());
  EXPECT_EQ(found.expires_at, found.created_at + 60s);
  EXPECT_EQ(found.poll_interval, 500ms);
  EXPECT_EQ(found.variables.str(), R"({"n":1})");
}

TEST_P(TasksOn, AreTheirOwnersAlone) {
  auto store = tasks();
  const auto task = store.create("alice");
  EXPECT_EQ(code_of([&] { (void)store.get("bob", task.id); }), ErrorCode::NotFound);
  EXPECT_EQ(code_of([&] { (void)store.cancel("bob", task.id); }), ErrorCode::NotFound);
  EXPECT_FALSE(store.remove("bob", task.id));
  EXPECT_TRUE(store.list("bob").tasks.empty());
  EXPECT_EQ(store.list("alice").tasks.size(), 1U);
}

TEST_P(TasksOn, AnOwnerWithAColonLeaksNothing) {
  auto store = tasks({.max_tasks_per_owner = 2});
  const auto one = store.create("a:b");
  EXPECT_EQ(store.get("a:b", one.id).owner, "a:b");
  EXPECT_EQ(code_of([&] { (void)store.get("a", "b:" + one.id); }), ErrorCode::NotFound);
  EXPECT_TRUE(store.list("a").tasks.empty());
  (void)store.create("a:b");
  EXPECT_EQ(code_of([&] { (void)store.create("a:b"); }), ErrorCode::QuotaExceeded);
  (void)store.create("a");
  EXPECT_EQ(store.list("a:b").tasks.size(), 2U);
}

TEST_P(TasksOn, NobodyInParticularMustBeAllowed) {
  EXPECT_EQ(code_of([&] { (void)tasks().create(""); }), ErrorCode::AnonymousOwner);
  auto open_to_all = tasks({.allow_anonymous = true});
  const auto task = open_to_all.create("");
  EXPECT_EQ(open_to_all.get("local", task.id).owner, "local");
}

TEST_P(TasksOn, StatesMoveAsDocumented) {
  auto store = tasks();
  const auto id = store.create("alice").id;
  EXPECT_EQ(code_of([&] { (void)store.update_status("alice", id, TaskStatus::working); }),
            ErrorCode::InvalidTransition);
  const auto asking = store.update_status("alice", id, TaskStatus::input_required, "which?");
  EXPECT_EQ(asking.status_message, "which?");
  EXPECT_EQ(asking.version, 2U);
  (void)store.update_status("alice", id, TaskStatus::working);
  (void)store.complete_with_result("alice", id, json("[1]"), "done");
  EXPECT_EQ(code_of([&] { (void)store.cancel("alice", id); }), ErrorCode::InvalidTransition);
}

TEST_P(TasksOn, AFinalTaskChangesNoMore) {
  auto store = tasks();
  const auto id = store.create("alice").id;
  (void)store.fail("alice", id, "broke");
  EXPECT_EQ(code_of([&] { (void)store.set_variables("alice", id, json(R"({"a":1})")); }),
            ErrorCode::InvalidTransition);
  EXPECT_EQ(code_of([&] { (void)store.set_result("alice", id, json("1")); }), ErrorCode::InvalidTransition);
  EXPECT_EQ(code_of([&] { (void)store.complete_with_result("alice", id, json("1")); }),
            ErrorCode::InvalidTransition);
  EXPECT_EQ(store.get("alice", id).version, 2U);
}

TEST_P(TasksOn, AResultIsReadyAtTheEndAndMayBeNone) {
  auto store = tasks();
  const auto id = store.create("alice").id;
  (void)store.set_result("alice", id, json(R"({"ok":true})"));
  EXPECT_EQ(code_of([&] { (void)store.get_result("alice", id); }), ErrorCode::NotReady);
  (void)store.update_status("alice", id, TaskStatus::completed);
  EXPECT_EQ(store.get_result("alice", id)->str(), R"({"ok":true})");
  const auto cancelled = store.create("alice").id;
  (void)store.cancel("alice", cancelled);
  EXPECT_FALSE(store.get_result("alice", cancelled)) << "ended without one, which is an answer";
}

TEST_P(TasksOn, VariablesAreMergedAndCheckedBeforeTheyAreKept) {
  auto store = tasks({.max_variables_bytes = 100});
  const auto id = store.create("alice", {.variables = json(R"({"a":1,"b":2})")}).id;
  const auto merged = store.set_variables("alice", id, json(R"({"b":null,"c":[3]})"));
  EXPECT_EQ(merged.variables.str(), R"({"a":1,"c":[3]})");
  EXPECT_EQ(code_of([&] { (void)store.set_variables("alice", id, json("[]")); }), ErrorCode::InvalidArgument);
  const auto large = json("{\"d\":\"" + std::string(100, 'x') + "\"}");
  EXPECT_EQ(code_of([&] { (void)store.set_variables("alice", id, large); }), ErrorCode::TooLarge);
  EXPECT_EQ(store.get("alice", id).variables.str(), merged.variables.str());
}

TEST_P(TasksOn, ManyWritersAtOnceLoseNothing) {
  auto store = tasks();
  const auto id = store.create("alice").id;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&, writer] {
      for (int i = 0; i < 10; ++i) {
        const auto name = std::to_string(writer * 10 + i);
        (void)store.set_variables("alice", id, json("{\"" + name + "\":1}"));
      }
    });
  }
  for (auto& writer : writers) writer.join();
  const auto task = store.get("alice", id);
  EXPECT_EQ(task.version, 41U);
  for (int i = 0; i < 40; ++i) {
    EXPECT_NE(task.variables.str().find("\"" + std::to_string(i) + "\":1"), std::string::npos) << i;
  }
}

TEST_P(TasksOn, TtlsOverTheMaximumAreRefusedNotClamped) {
  auto store = tasks();
  EXPECT_EQ(store.create("alice").ttl, 1h);
  EXPECT_EQ(store.create("alice", {.ttl = 24h}).ttl, 24h);
  EXPECT_EQ(code_of([&] { (void)store.create("alice", {.ttl = 24h + 1ms}); }), ErrorCode::TtlTooLong);
  EXPECT_EQ(code_of([&] { (void)store.create("alice", {.ttl = 0ms}); }), ErrorCode::InvalidArgument);
}

TEST_P(TasksOn, AShortTtlIsKeptToTheMillisecond) {
  auto store = tasks();
  const auto task = store.create("alice", {.ttl = 800ms});
  EXPECT_EQ(store.get("alice", task.id).id, task.id) << "a ttl below a second does not vanish at once";
  EXPECT_TRUE(eventually([&] {
    try {
      (void)store.get("alice", task.id);
      return false;
    } catch (const Error& error) {
      return error.code() == ErrorCode::NotFound;
    }
  }));
  EXPECT_GE(now_ms(store.storage()) + 50, to_ms(*task.expires_at));
}

TEST_P(TasksOn, TheSameRequestGivesTheSameTask) {
  auto store = tasks();
  const auto variables = json(R"({"a":1,"b":2})");
  const NewTask request{.method = "m", .ttl = 60s, .variables = variables, .request_key = "r1"};
  const auto first = store.create("alice", request);
  (void)store.set_variables("alice", first.id, json(R"({"a":5})"));
  auto again = request;
  const auto in_another_order = json(R"({"b":2,"a":1})");
  again.variables = in_another_order;
  const auto second = store.create("alice", again);
  EXPECT_EQ(second.id, first.id);
  EXPECT_EQ(second.version, 2U) << "as it is now";
  EXPECT_NE(store.create("bob", request).id, first.id);
  again.method = "other";
  EXPECT_EQ(code_of([&] { (void)store.create("alice", again); }), ErrorCode::RequestKeyConflict);
  EXPECT_TRUE(store.remove("alice", first.id));
  EXPECT_EQ(store.create("alice", again).version, 1U) << "the key is free with its task";
}

TEST_P(TasksOn, TheQuotaIsExactWhoeverCreates) {
  auto store = tasks({.max_tasks_per_owner = 10});
  std::atomic<int> made = 0;
  std::atomic<int> refused = 0;
  std::vector<std::thread> creators;
  for (int i = 0; i < 5; ++i) {
    creators.emplace_back([&] {
      for (int k = 0; k < 4; ++k) {
        try {
          (void)store.create("alice");
          ++made;
        } catch (const Error& error) {
          if (error.code() == ErrorCode::QuotaExceeded) ++refused;
        }
      }
    });
  }
  for (auto& creator : creators) creator.join();
  EXPECT_EQ(made, 10);
  EXPECT_EQ(refused, 10);
  EXPECT_EQ(store.list("alice").tasks.size(), 10U);
}

TEST_P(TasksOn, AreListedNewestFirstPageByPage) {
  auto store = tasks();
  std::vector<std::string> made;
  for (int i = 0; i < 25; ++i) made.push_back(store.create("alice").id);
  std::set<std::string> seen;
  std::string cursor;
  std::int64_t last = std::numeric_limits<std::int64_t>::max();
  int pages = 0;
  do {
    const auto page = store.list("alice", {.cursor = cursor, .limit = 10});
    for (const auto& task : page.tasks) {
      EXPECT_LE(to_ms(task.created_at), last);
      last = to_ms(task.created_at);
      EXPECT_TRUE(seen.insert(task.id).second) << "listed twice";
    }
    // What is removed, the place where the page ended included, and what is added, disturbs nothing.
    if (pages == 0) {
      (void)store.remove("alice", page.tasks.back().id);
      (void)store.create("alice");
    }
    cursor = page.cursor;
    ++pages;
  } while (!cursor.empty());
  EXPECT_EQ(pages, 3);
  for (const auto& id : made) EXPECT_TRUE(seen.contains(id));
  EXPECT_EQ(code_of([&] { (void)store.list("alice", {.cursor = "nonsense"}); }), ErrorCode::BadCursor);
}

TEST_P(TasksOn, AreListedOldestFirstOnRequest) {
  auto store = tasks();
  for (int i = 0; i < 7; ++i) (void)store.create("alice");
  std::vector<std::string> newest_first;
  for (const auto& task : store.list("alice").tasks) newest_first.push_back(task.id);
  std::vector<std::string> oldest_first;
  std::string cursor;
  do {
    const auto page = store.list("alice", {.cursor = cursor, .limit = 3, .oldest_first = true});
    for (const auto& task : page.tasks) oldest_first.push_back(task.id);
    cursor = page.cursor;
  } while (!cursor.empty());
  EXPECT_EQ(oldest_first, std::vector<std::string>(newest_first.rbegin(), newest_first.rend()));
}

TEST_P(TasksOn, CanBeListedByAge) {
  auto store = tasks();
  auto& storage = holdfast->tasks().storage();
  const auto old = store.create("alice");
  while (storage.now() < old.created_at + 200ms) std::this_thread::sleep_for(10ms);
  const auto young = store.create("alice");
  const auto gap = young.created_at - old.created_at;
  for (const bool oldest_first : {false, true}) {
    EXPECT_TRUE(store.list("alice", {.older_than = 1h, .oldest_first = oldest_first}).tasks.empty());
    const auto page = store.list("alice", {.older_than = gap, .oldest_first = oldest_first});
    const bool was_in_time = storage.now() < young.created_at + gap;  // else both are old enough
    ASSERT_FALSE(page.tasks.empty());
    EXPECT_EQ((oldest_first ? page.tasks.front() : page.tasks.back()).id, old.id);
    if (was_in_time) {
      EXPECT_EQ(page.tasks.size(), 1U);
      EXPECT_TRUE(page.cursor.empty());
    }
  }
}

TEST_P(TasksOn, ThoseThatNoWorkerHasCanBeListed) {
  auto store = tasks();
  const auto never_claimed = store.create("alice").id;
  const auto claimed = store.create("alice").id;
  const auto released = store.create("alice").id;
  const auto finished = store.create("alice").id;
  const auto waits = store.create("alice").id;
  const auto claim = store.claim("alice", claimed);
  EXPECT_TRUE(store.claim("alice", released).release());
  (void)store.complete_with_result("alice", finished, json("1"));
  (void)store.update_status("alice", waits, TaskStatus::input_required);
  std::set<std::string> listed;
  for (const auto& task : store.list("alice", {.unclaimed = true}).tasks) listed.insert(task.id);
  EXPECT_EQ(listed, (std::set<std::string>{never_claimed, released}));
}

TEST_P(TasksOn, TheirOwnersAreListedByTheNamesTheyGave) {
  auto store = tasks();
  const std::set<std::string> owners{"alice", "a:b", "100%", "50%25", "ü"};
  for (const auto& owner : owners) (void)store.create(owner);
  const auto lock = holdfast->locks().lock("leader");
  (void)TestedRegister(asio, holdfast->fenced_register("state")).put("x", lock);
  std::multiset<std::string> seen;
  std::string cursor;
  do {
    const auto page = store.owners({.cursor = cursor, .limit = 2});
    seen.insert(page.owners.begin(), page.owners.end());
    cursor = page.cursor;
  } while (!cursor.empty());
  EXPECT_EQ(seen, std::multiset<std::string>(owners.begin(), owners.end())) << "registers have no owner";
}

TEST_P(TasksOn, CanBeListedByStatus) {
  auto store = tasks();
  std::set<std::string> failed;
  for (int i = 0; i < 30; ++i) {
    const auto id = store.create("alice").id;
    if (i % 10 == 0) {
      (void)store.fail("alice", id);
      failed.insert(id);
    }
  }
  const auto first = store.list("alice", {.status = TaskStatus::failed, .limit = 2});
  ASSERT_EQ(first.tasks.size(), 2U);
  const auto second = store.list("alice", {.cursor = first.cursor, .status = TaskStatus::failed, .limit = 2});
  ASSERT_EQ(second.tasks.size(), 1U);
  EXPECT_TRUE(second.cursor.empty());
  for (const auto& task : first.tasks) failed.erase(task.id);
  for (const auto& task : second.tasks) failed.erase(task.id);
  EXPECT_TRUE(failed.empty());
}

TEST_P(TasksOn, AFencedWriteShutsOutTheOlderOne) {
  auto store = tasks();
  const auto id = store.create("alice").id;
  auto& locks = holdfast->locks();
  auto first = locks.lock("job");
  auto old_writer = store.with_fence(first);
  (void)old_writer.set_variables("alice", id, json(R"({"by":"first"})"));
  ASSERT_TRUE(first.release());
  const auto second = locks.lock("job");
  (void)store.with_fence(second).set_variables("alice", id, json(R"({"by":"second"})"));
  try {
    (void)old_writer.set_variables("alice", id, json(R"({"by":"late"})"));
    FAIL() << "a late write got through";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::StaleFence);
    const auto& old_fence = old_writer.token()->fence.to_string();
    EXPECT_NE(error.message().find(old_fence), std::string::npos) << error.message();
    EXPECT_NE(error.message().find(second.fence().to_string()), std::string::npos) << error.message();
  }
  const auto task = store.get("alice", id);
  EXPECT_EQ(task.variables.str(), R"({"by":"second"})");
  EXPECT_EQ(task.bound_to->fence, second.fence());
  EXPECT_EQ(task.bound_to->lock_key, "job");
  EXPECT_EQ(code_of([&] { (void)old_writer.remove("alice", id); }), ErrorCode::StaleFence);
  EXPECT_EQ(store.cancel("alice", id).status, TaskStatus::cancelled) << "whoever asked may call it off";
}

TEST_P(TasksOn, AnotherLocksFenceIsNotCompared) {
  auto store = tasks();
  const auto id = store.create("alice").id;
  const auto deploy = holdfast->locks().lock("deploy");
  (void)store.with_fence(deploy).set_variables("alice", id, json(R"({"a":1})"));
  const FencingToken other{
      .authority = deploy.authority(), .lock_key = "backup", .fence = *Fence::of(999'999)};
  const FencingToken elsewhere{
      .authority = "another store", .lock_key = "deploy", .fence = *Fence::of(999'999)};
  for (const auto& token : {other, elsewhere}) {
    EXPECT_EQ(code_of([&] { (void)store.with_fence(token).fail("alice", id); }), ErrorCode::WrongLock);
  }
  (void)store.rebind("alice", id, other);
  EXPECT_EQ(store.with_fence(other).fail("alice", id).status, TaskStatus::failed);
}

TEST_P(TasksOn, AfterTheLossOfAnAuthorityItsTasksCanBeClaimedAgain) {
  auto store = tasks();
  const auto id = store.create("alice").id;
  FencingToken guard{.authority = "lost", .lock_key = Tasks::lock_key("alice", id), .fence = *Fence::of(7)};
  (void)store.bind("alice", id, guard);
  EXPECT_EQ(code_of([&] { (void)store.claim("alice", id); }), ErrorCode::WrongLock);
  guard.authority = holdfast->locks().authority(), guard.fence = *Fence::of(1);
  EXPECT_EQ(store.rebind_from("lost", "alice", id, guard).bound_to, guard);
  const auto claim = store.claim("alice", id);
  EXPECT_EQ(store.rebind_from("lost", "alice", id, {}).bound_to, claim.token());
}

TEST_P(TasksOn, AStoreMayWantAFenceWithEveryChange) {
  auto strict = tasks({.require_fence = true});
  const auto id = strict.create("alice").id;
  EXPECT_EQ(code_of([&] { (void)strict.fail("alice", id); }), ErrorCode::WrongLock);
  EXPECT_EQ(code_of([&] { (void)strict.cancel("alice", id); }), ErrorCode::WrongLock);
  EXPECT_EQ(code_of([&] { (void)strict.remove("alice", id); }), ErrorCode::WrongLock);
  auto claim = strict.claim("alice", id);
  EXPECT_EQ(claim.complete(json("1")).status, TaskStatus::completed);
}

TEST_P(TasksOn, AClaimGuardsTheTaskFromItsFirstMoment) {
  auto store = tasks();
  const auto id = store.create("alice").id;
  const LockOptions brief{.ttl = 300ms, .auto_renew = false};
  auto first = store.claim("alice", id, brief);
  // Its lease runs out, and nobody told it yet.
  auto second = store.claim("alice", id, {.wait = 10s});
  EXPECT_GT(second.token().fence, first.token().fence);
  EXPECT_EQ(code_of([&] { (void)first.set_variables(json(R"({"late":true})")); }), ErrorCode::StaleFence)
      << "shut out by the claim, before the new one's first write";
  EXPECT_EQ(second.complete(json(R"({"by":"second"})"), "done").status, TaskStatus::completed);
  EXPECT_FALSE(second);
  EXPECT_EQ(code_of([&] { (void)first.complete(json("1")); }), ErrorCode::StaleFence);
  EXPECT_TRUE(first.stopped().stop_requested());
  EXPECT_EQ(store.get_result("alice", id)->str(), R"({"by":"second"})");
}

TEST_P(TasksOn, AWorkersClaimIsNotOnTheTaskThatGotItsIdLater) {
  auto store = tasks();
  const NewTask request{.method = "m", .request_key = "r"};
  const auto id = store.create("alice", request).id;
  auto claim = store.claim("alice", id);
  ASSERT_TRUE(store.remove("alice", id));
  ASSERT_EQ(store.create("alice", request).id, id);
  EXPECT_EQ(code_of([&] { (void)claim.set_variables(json(R"({"late":1})")); }), ErrorCode::NotFound);
  EXPECT_EQ(code_of([&] { (void)claim.complete(json("\"of the dead\"")); }), ErrorCode::NotFound);
  EXPECT_TRUE(claim.stopped().stop_requested());
  const auto successor = store.get("alice", id);
  EXPECT_EQ(successor.version, 1U);
  EXPECT_FALSE(successor.bound_to);
}

TEST_P(TasksOn, NothingIsWrittenThroughAClaimThatWasReleased) {
  auto store = tasks();
  const auto id = store.create("alice").id;
  auto claim = store.claim("alice", id);
  EXPECT_TRUE(claim);
  EXPECT_TRUE(claim.release());
  EXPECT_FALSE(claim);
  EXPECT_EQ(code_of([&] { (void)claim.complete(json("1")); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(store.get("alice", id).version, 1U);
}

TEST_P(TasksOn, ACancelThatWinsTheRaceWithTheEndIsKnownAsOne) {
  auto store = tasks();
  for (int round = 0; round < 20; ++round) {
    const auto id = store.create("alice").id;
    auto claim = store.claim("alice", id);
    std::thread canceller([&] {
      try {
        (void)store.cancel("alice", id);
      } catch (const Error&) {  // it came second
      }
    });
    bool completed = true;
    try {
      (void)claim.complete(json("1"));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidTransition);
      completed = false;
    }
    canceller.join();
    if (!completed) {
      EXPECT_TRUE(claim.stopped().stop_requested());
      EXPECT_TRUE(eventually([&] { return claim.cancelled(); }));
    }
    EXPECT_TRUE(store.remove("alice", id));
  }
}

TEST_P(TasksOn, AWideObjectCostsNoMoreThanItsSize) {
  auto store = tasks();
  const auto id = store.create("alice").id;
  std::string wide = "{";
  for (int i = 0; i < 40'000; ++i) wide += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":1";
  wide += '}';
  (void)store.set_variables("alice", id, json(wide));
  EXPECT_EQ(store.complete_with_result("alice", id, json(wide)).result.str(), wide);
  EXPECT_EQ(store.list("alice").tasks.front().variables.str(), wide);
}

TEST_P(TasksOn, OnlyOneCanClaimATaskAtATime) {
  auto store = tasks();
  const auto id = store.create("alice").id;
  auto claim = store.claim("alice", id);
  EXPECT_EQ(code_of([&] { (void)store.claim("alice", id, {.wait = 0ms}); }), ErrorCode::AcquisitionTimeout);
  EXPECT_TRUE(claim.release());
  EXPECT_TRUE(store.claim("alice", id, {.wait = 0ms}));
}

TEST_P(TasksOn, AClaimCanBeTriedAndItsWorkerIsKnown) {
  auto store = tasks();
  const auto id = store.create("alice").id;
  const auto who = [&] { return holdfast->tasks().worker(store.get("alice", id)); };
  EXPECT_FALSE(who());
  auto claim = store.try_claim("alice", id, {.holder = "worker 7"});
  ASSERT_TRUE(claim);
  EXPECT_FALSE(store.try_claim("alice", id));
  const auto worker = who();
  ASSERT_TRUE(worker && worker->holder);
  EXPECT_EQ(worker->holder->str(), "worker 7");
  EXPECT_EQ(worker->fence, claim->token().fence);
  EXPECT_TRUE(claim->release());
  EXPECT_FALSE(who());
  EXPECT_TRUE(store.try_claim("alice", id));
  EXPECT_EQ(code_of([&] { (void)store.try_claim("alice", "none"); }), ErrorCode::NotFound);
  (void)store.cancel("alice", id);
  EXPECT_EQ(code_of([&] { (void)store.try_claim("alice", id); }), ErrorCode::InvalidTransition);
}

TEST_P(TasksOn, WhatIsOverOrAbsentCannotBeClaimed) {
  auto store = tasks();
  const auto id = store.create("alice").id;
  (void)store.cancel("alice", id);
  EXPECT_EQ(code_of([&] { (void)store.claim("alice", id); }), ErrorCode::InvalidTransition);
  EXPECT_EQ(code_of([&] { (void)store.claim("alice", "none"); }), ErrorCode::NotFound);
  EXPECT_FALSE(holdfast->locks().is_locked(Tasks::lock_key("alice", id)));
}

TEST_P(TasksOn, AWorkerIsStoppedWhenItsTaskIsCancelledElsewhere) {
  auto store = tasks();
  const auto id = store.create("alice").id;
  auto claim = store.claim("alice", id);
  EXPECT_FALSE(claim.stopped().stop_requested());
  (void)claim.set_variables(json(R"({"progress":0.5})"));
  auto elsewhere = GetParam().engine == "memory" ? tasks() : TestedTasks(asio, open(own->url()).tasks());
  (void)elsewhere.cancel("alice", id, "no longer needed");
  EXPECT_TRUE(eventually([&] { return claim.stopped().stop_requested(); }));
  EXPECT_TRUE(claim.cancelled());
  EXPECT_EQ(code_of([&] { (void)claim.complete(json("1")); }), ErrorCode::InvalidTransition);
  EXPECT_TRUE(claim.release());
}

TEST_P(TasksOn, AWorkersOwnEndIsNoReasonToStopIt) {
  auto store = tasks();
  const auto id = store.create("alice").id;
  auto claim = store.claim("alice", id);
  const auto stopped = claim.stopped();
  (void)claim.complete(json("1"));
  std::this_thread::sleep_for(100ms);
  EXPECT_FALSE(stopped.stop_requested());
  EXPECT_FALSE(holdfast->locks().is_locked(Tasks::lock_key("alice", id)));
}

TEST_P(TasksOn, WaitingEndsWithTheTask) {
  auto store = tasks();
  const auto id = store.create("alice").id;
  EXPECT_FALSE(store.wait("alice", id, 50ms));
  std::optional<Task> ended;
  std::thread waiter([&] { ended = store.wait("alice", id, 30s); });
  (void)store.set_variables("alice", id, json(R"({"progress":1})"));
  (void)store.complete_with_result("alice", id, json("42"));
  waiter.join();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->result.str(), "42");
  EXPECT_TRUE(store.wait("alice", id, 0ms)) << "it has ended already";
  const auto changed =
      store.wait("alice", id, 1s, [](const Task& task) { return task.status != TaskStatus::working; });
  EXPECT_TRUE(changed);
  EXPECT_EQ(code_of([&] { (void)store.wait("alice", "none", 1s); }), ErrorCode::NotFound);
}

TEST_P(TasksOn, WaitingCanBeStopped) {
  auto store = tasks();
  const auto id = store.create("alice").id;
  std::stop_source stop;
  std::atomic<bool> aborted = false;
  std::thread waiter([&] {
    aborted =
        code_of([&] { (void)store.wait("alice", id, 60s, {}, stop.get_token()); }) == ErrorCode::Aborted;
  });
  std::this_thread::sleep_for(50ms);
  stop.request_stop();
  waiter.join();
  EXPECT_TRUE(aborted);
}

TEST_P(TasksOn, ARegisterRefusesALateWriter) {
  TestedRegister state(asio, holdfast->fenced_register("leader-state"));
  EXPECT_FALSE(state.get());
  auto& locks = holdfast->locks();
  auto first = locks.lock("leader");
  EXPECT_EQ(state.put("first", first), 1U);
  const FencingToken late{.authority = first.authority(), .lock_key = first.key(), .fence = first.fence()};
  ASSERT_TRUE(first.release());
  const auto second = locks.lock("leader");
  EXPECT_EQ(state.put(R"({"expiresAt":"2001-01-01T00:00:00Z"})", second), 2U);
  EXPECT_EQ(code_of([&] { (void)state.put("late", late); }), ErrorCode::StaleFence);
  const auto value = state.get();
  ASSERT_TRUE(value);
  EXPECT_EQ(value->text, R"({"expiresAt":"2001-01-01T00:00:00Z"})") << "the user's text is only text";
  EXPECT_EQ(value->written_by.fence, second.fence());
  const auto other = locks.lock("other");
  EXPECT_EQ(code_of([&] { (void)state.put("x", other); }), ErrorCode::WrongLock);
  EXPECT_EQ(code_of([&] { (void)state.put("\xff", second); }), ErrorCode::InvalidArgument);
  EXPECT_TRUE(holdfast->tasks({.allow_anonymous = true}).list("").tasks.empty()) << "registers are no tasks";
}

TEST_P(TasksOn, BadTextIsRefusedBeforeAnythingIsWritten) {
  auto store = tasks();
  const auto id = store.create("alice").id;
  EXPECT_EQ(code_of([&] { (void)store.create("alice", {.method = "\xff"}); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of([&] { (void)store.fail("alice", id, "\xff"); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of([&] { (void)store.create("\xff"); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(code_of([&] {
              (void)store.set_result("alice", id,
                                     Json::unchecked(std::string(100'000, '[') + std::string(100'000, ']')));
            }),
            ErrorCode::TooDeep);
  EXPECT_EQ(store.get("alice", id).version, 1U);
}

/// The variants' names in CONTRIBUTING.md.
INSTANTIATE_TEST_SUITE_P(Engine, TasksOn, testing::ValuesIn(ways_to_tasks()), way_name);

}  // namespace
}  // namespace holdfast::test
