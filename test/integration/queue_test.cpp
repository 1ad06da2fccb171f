// The policies of queues, on engines that need no server.

#include <gtest/gtest.h>

#include <atomic>
#include <holdfast/holdfast.hpp>
#include <set>
#include <thread>

#include "support/eventually.hpp"
#include "support/storage_calls.hpp"
#include "support/temp_dir.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

Json value_of(std::string_view text) {
  return Json::parse(text).value_or_throw();
}

ErrorCode refusal_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  throw std::runtime_error("it was not refused");
}

class Queues : public testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] std::string url() const {
    return GetParam() == "memory" ? "memory:" : "sqlite:" + (directory / "queue.db").string();
  }
  const TempDir directory;
  const Holdfast holdfast = open(url());
  const Queue queue = holdfast.queue("render");
};

TEST_P(Queues, ATaskIsAddedClaimedAndCompleted) {
  const auto variables = value_of(R"({"frame":7,"empty":[],"long":12345678901234567890})");
  const auto added = queue.add({.method = "thumbnail", .variables = variables, .requester = "alice"});
  EXPECT_EQ(queue_of(added), "render");
  EXPECT_EQ(added.requester, "alice");
  EXPECT_FALSE(added.ttl);
  EXPECT_FALSE(added.expires_at);
  auto job = queue.claim_next({.worker = "w1"});
  ASSERT_TRUE(job);
  EXPECT_EQ(job->id(), added.id);
  EXPECT_EQ(job->queue(), "render");
  EXPECT_EQ(job->attempt(), 1U);
  EXPECT_EQ(job->task().variables, variables);
  EXPECT_GT(job->remaining(), 20s);
  const auto working = queue.get(added.id);
  EXPECT_EQ(working.queue->place, QueuePlace::leased);
  EXPECT_EQ(working.queue->worker, "w1");
  EXPECT_EQ(job->set_variables(value_of(R"({"progress":0.5})")).version, 2U);
  const auto done = job->complete(value_of(R"({"pages":[]})"));
  EXPECT_EQ(done.status, TaskStatus::completed);
  EXPECT_FALSE(*job);
  const auto after = queue.get(added.id);
  EXPECT_EQ(after.result.str(), R"({"pages":[]})");
  EXPECT_EQ(after.queue->place, QueuePlace::finished);
  ASSERT_TRUE(after.expires_at);
  EXPECT_EQ(*after.expires_at - after.created_at, after.ttl);
  EXPECT_GT(*after.ttl, 23h);
  EXPECT_FALSE(queue.claim_next());
  EXPECT_EQ(queue.get_result(added.id)->str(), R"({"pages":[]})");
}

TEST_P(Queues, TheTasksOfAQueueBelongToNoOwner) {
  const auto added = queue.add();
  const auto tasks = holdfast.tasks();
  for (const std::string& owner : {std::string("render"), std::string("%queue%25render"), added.owner}) {
    EXPECT_TRUE(tasks.list(owner).tasks.empty()) << owner;
    EXPECT_EQ(refusal_of([&] { (void)tasks.get(owner, added.id); }), ErrorCode::NotFound) << owner;
  }
  EXPECT_TRUE(tasks.owners().owners.empty());
  EXPECT_TRUE(tasks.owners().unreadable.empty());
  EXPECT_EQ(holdfast.queues().queues, std::vector<std::string>{"render"});
  const auto odd = holdfast.queue("a:b%25");
  const auto id = odd.add().id;
  EXPECT_EQ(odd.claim_next()->queue(), "a:b%25");
  EXPECT_EQ(refusal_of([&] { (void)queue.get(id); }), ErrorCode::NotFound);
  EXPECT_EQ(refusal_of([&] { (void)holdfast.queue(""); }), ErrorCode::InvalidArgument);
}

TEST_P(Queues, PriorityComesFirstAndThenTheOrderOfAdding) {
  const auto low = queue.add({.priority = -1}).id;
  const auto first = queue.add().id;
  const auto second = queue.add().id;
  const auto high = queue.add({.priority = 5}).id;
  auto jobs = queue.claim_batch(10);
  std::vector<std::string> order;
  for (const auto& job : jobs) order.push_back(job.id());
  EXPECT_EQ(order, (std::vector{high, first, second, low}));
}

TEST_P(Queues, ARequestKeyAddsOnce) {
  const NewQueueTask request{.method = "m", .priority = 3, .request_key = "k"};
  const auto id = queue.add(request).id;
  EXPECT_EQ(queue.add(request).id, id);
  EXPECT_EQ(queue.counts().records, 1U);
  EXPECT_EQ(refusal_of([&] { (void)queue.add({.method = "m", .priority = 4, .request_key = "k"}); }),
            ErrorCode::RequestKeyConflict);
  EXPECT_NE(holdfast.queue("other").add(request).id, id);
}

TEST_P(Queues, ATaskThatHasTheIdOfTheOneThatWasMeantIsNotRemoved) {
  const NewQueueTask what{.request_key = "order-42"};
  const auto first = queue.add(what);
  queue.remove(first.id);
  const auto second = queue.add(what);
  ASSERT_EQ(second.id, first.id);
  EXPECT_FALSE(queue.run(operation::RemoveTask{{}, first.id, first.incarnation}));
  EXPECT_TRUE(queue.run(operation::RemoveTask{{}, second.id, second.incarnation}));
}

TEST_P(Queues, AFullQueueRefusesFurtherTasks) {
  const auto small = holdfast.queue("small", {.max_tasks = 1});
  (void)small.add();
  EXPECT_EQ(refusal_of([&] { (void)small.add(); }), ErrorCode::QuotaExceeded);
}

TEST_P(Queues, AJobThatIsDroppedGivesItsTaskBackAndTheAttemptDoesNotCount) {
  const auto id = queue.add().id;
  (void)queue.claim_next()->id();
  std::optional<Job> job;
  EXPECT_TRUE(eventually([&] { return (job = queue.claim_next()).has_value(); }));
  EXPECT_EQ(job->id(), id);
  EXPECT_EQ(job->attempt(), 1U);
  EXPECT_EQ(job->give_back().queue->attempts, 0U);
  EXPECT_EQ(queue.claim_next()->attempt(), 1U);
}

TEST_P(Queues, ARetriedTaskComesBackAndIsFailedAfterItsLastAttempt) {
  const auto id = queue.add({.max_attempts = 2}).id;
  auto job = queue.claim_next();
  const auto retried = job->retry({.delay = 0ms, .message = "disk full"});
  EXPECT_EQ(retried.status, TaskStatus::working);
  job = queue.claim_next();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->attempt(), 2U);
  EXPECT_EQ(job->task().status_message, "disk full");
  const auto failed = job->retry({.delay = 0ms, .message = "disk full again"});
  EXPECT_EQ(failed.status, TaskStatus::failed);
  EXPECT_EQ(queue.get(id).status_message, "disk full again; no attempts left (2 of 2)");
  EXPECT_FALSE(queue.claim_next());
}

TEST_P(Queues, AMessageIsStoredWhateverItContains) {
  const auto added = queue.add();
  auto job = queue.claim_next();
  ASSERT_TRUE(job);
  job->retry({.delay = 0ms, .message = "cannot open caf\xE9"});
  EXPECT_EQ(queue.get(added.id).status_message, "cannot open caf\xEF\xBF\xBD");
  job = queue.claim_next();
  ASSERT_TRUE(job) << "the task can still be read";
  EXPECT_EQ(job->attempt(), 2U);
  const auto limit = TaskOptions{}.max_string_bytes;
  job->fail(std::string(limit - 1, 'x') + "\xC3\xA9");
  EXPECT_EQ(queue.get(added.id).status_message, std::string(limit - 1, 'x')) << "no half of a character";
}

TEST_P(Queues, AnAttemptWhoseResultCannotBeStoredCounts) {
  const std::string deep = std::string(150, '[') + std::string(150, ']');
  const std::string large = '"' + std::string(RecordData::max_bytes, 'x') + '"';
  for (const auto& [result, code] :
       {std::pair(value_of(deep), ErrorCode::TooDeep), std::pair(value_of(large), ErrorCode::TooLarge)}) {
    const auto added = queue.add({.max_attempts = 2});
    {
      auto job = queue.claim_next();
      ASSERT_TRUE(job);
      EXPECT_EQ(refusal_of([&] { job->complete(result); }), code);
      EXPECT_TRUE(*job) << "it can still be ended otherwise";
    }
    EXPECT_TRUE(eventually([&] { return queue.get(added.id).queue->place == QueuePlace::delayed; }));
    EXPECT_EQ(queue.get(added.id).queue->attempts, 1U);
    {
      auto job = queue.try_claim(added.id);
      ASSERT_TRUE(job);
      EXPECT_EQ(refusal_of([&] { (void)job->complete_and_claim(result); }), code);
      job->give_back();
    }
    const auto failed = queue.get(added.id);
    EXPECT_EQ(failed.status, TaskStatus::failed);
    EXPECT_EQ(failed.status_message, "its outcome could not be stored; no attempts left (2 of 2)");
  }
}

TEST_P(Queues, ADelayedTaskIsClaimedByAWorkerThatWaits) {
  const auto delay = 200ms;
  std::string id;
  for (;;) {
    const auto added_after = BootClock::now();
    id = queue.add({.delay = delay}).id;
    const auto early = queue.claim_next();
    const auto place = queue.get(id).queue->place;
    if (BootClock::now() < added_after + delay) {
      EXPECT_FALSE(early);
      EXPECT_EQ(place, QueuePlace::delayed);
      break;
    }
    queue.remove(id);  // looked too late to see the delay: the machine was busy
  }
  const auto job = queue.claim_next({.wait = 10s});
  ASSERT_TRUE(job);
  EXPECT_EQ(job->id(), id);
}

TEST_P(Queues, AWaitingWorkerIsWokenByANewTask) {
  std::optional<Job> job;
  std::thread worker([&] { job = queue.claim_next({.wait = 20s}); });
  const auto id = queue.add().id;
  worker.join();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->id(), id);
}

TEST_P(Queues, AWorkerOfSeveralQueuesTriesThemInOrderAndIsWokenByEach) {
  const auto other = holdfast.queue("other");
  const auto second = other.add().id;
  const auto first = queue.add().id;
  auto job = holdfast.claim_next({"render", "other"});
  EXPECT_EQ(job->id(), first);
  auto next = holdfast.claim_next({"render", "other"});
  EXPECT_EQ(next->id(), second);
  std::optional<Job> woken;
  std::thread worker([&] { woken = holdfast.claim_next({"render", "other"}, {.wait = 20s}); });
  const auto third = other.add().id;
  worker.join();
  ASSERT_TRUE(woken);
  EXPECT_EQ(woken->id(), third);
  EXPECT_EQ(refusal_of([&] { (void)holdfast.claim_next({}); }), ErrorCode::InvalidArgument);
}

TEST_P(Queues, AWaitIsStoppedByItsTokenAndEndsAfterItsTime) {
  EXPECT_FALSE(queue.claim_next({.wait = 20ms}));
  std::stop_source stop;
  std::optional<ErrorCode> code;
  std::thread worker(
      [&] { code = refusal_of([&] { (void)queue.claim_next({.wait = no_time_limit}, stop.get_token()); }); });
  stop.request_stop();
  worker.join();
  EXPECT_EQ(code, ErrorCode::Aborted);
}

TEST_P(Queues, TryClaimAnswersInsteadOfThrowing) {
  const auto id = queue.add({.delay = 1h}).id;
  auto job = queue.try_claim(id);
  ASSERT_TRUE(job);
  EXPECT_FALSE(queue.try_claim(id)) << "it is claimed already";
  EXPECT_FALSE(queue.claim_next());
  job->complete();
  EXPECT_FALSE(queue.try_claim(id)) << "it is final";
  EXPECT_FALSE(queue.try_claim("nothing"));
}

TEST_P(Queues, ALateOutcomeIsStaleAndItsWorkerIsStopped) {
  const auto id = queue.add().id;
  auto late = queue.claim_next({.lease = 600ms});
  // As if its lease had expired.
  const auto tasks = holdfast.tasks();
  (void)outcome(tasks.storage(), EndLease{.key = RecordKey::of(late->task().owner, id).value_or_throw(),
                                          .incarnation = late->task().incarnation,
                                          .token = late->token(),
                                          .end = LeaseEnd::given_back});
  auto next = queue.claim_next();
  ASSERT_TRUE(next);
  EXPECT_GT(next->fence(), late->fence());
  EXPECT_EQ(refusal_of([&] { late->set_variables(value_of(R"({"late":1})")); }), ErrorCode::StaleFence);
  EXPECT_EQ(refusal_of([&] { late->complete(value_of("1")); }), ErrorCode::StaleFence);
  EXPECT_TRUE(eventually([&] { return late->stopped().stop_requested(); }));
  next->complete(value_of("2"));
  EXPECT_EQ(refusal_of([&] { late->complete(value_of("1")); }), ErrorCode::StaleFence);
  EXPECT_EQ(queue.get(id).result.str(), "2");
}

TEST_P(Queues, AWorkerThatWasStoppedBecauseTheNextOneFinishedIsStale) {
  const auto id = queue.add().id;
  auto late = queue.claim_next({.lease = 600ms});
  // As if its lease had expired.
  (void)outcome(holdfast.tasks().storage(),
                EndLease{.key = RecordKey::of(late->task().owner, id).value_or_throw(),
                         .incarnation = late->task().incarnation,
                         .token = late->token(),
                         .end = LeaseEnd::given_back});
  queue.claim_next()->complete(value_of("2"));
  EXPECT_TRUE(eventually([&] { return late->stopped().stop_requested(); }));
  EXPECT_EQ(refusal_of([&] { late->complete(value_of("1")); }), ErrorCode::StaleFence);
  EXPECT_EQ(queue.get(id).result.str(), "2");
}

TEST_P(Queues, ACancelledTaskStopsItsWorkerAndIsNeverOverwritten) {
  const auto id = queue.add().id;
  auto job = queue.claim_next({.lease = 600ms});
  EXPECT_FALSE(job->stopped().stop_requested());
  const auto cancelled = queue.cancel(id, "not needed");
  EXPECT_EQ(cancelled.status, TaskStatus::cancelled);
  EXPECT_EQ(cancelled.queue->place, QueuePlace::finished);
  EXPECT_EQ(cancelled.queue->lease_expires_at, WallTime{});
  EXPECT_TRUE(eventually([&] { return job->stopped().stop_requested(); }));
  EXPECT_TRUE(job->cancelled());
  EXPECT_FALSE(job->loss_reason());
  EXPECT_EQ(refusal_of([&] { job->complete(value_of("1")); }), ErrorCode::InvalidTransition);
  const auto task = queue.get(id);
  EXPECT_EQ(task.status, TaskStatus::cancelled);
  EXPECT_EQ(task.status_message, "not needed");
  EXPECT_TRUE(task.expires_at) << "it is kept for its retention";
  EXPECT_FALSE(queue.claim_next());
}

TEST_P(Queues, ATaskThatWasCancelledIsNeitherRetriedNorGivenBack) {
  for (const bool gives_back : {false, true}) {
    const auto id = queue.add().id;
    auto job = queue.claim_next();
    queue.cancel(id);
    EXPECT_EQ(refusal_of([&] { gives_back ? job->give_back() : job->retry(); }),
              ErrorCode::InvalidTransition);
    EXPECT_TRUE(job->stopped().stop_requested() ||
                eventually([&] { return job->stopped().stop_requested(); }));
    EXPECT_EQ(queue.get(id).status, TaskStatus::cancelled);
  }
}

TEST_P(Queues, ATaskThatIsRetriedHasWhatOtherClientsWroteMeanwhile) {
  const auto id = queue.add().id;
  auto job = queue.claim_next();
  queue.run(operation::SetTaskVariables{{}, id, value_of(R"({"hint":1})")});
  const auto task = job->retry({.delay = 0ms});
  EXPECT_EQ(task.variables.str(), R"({"hint":1})");
  EXPECT_EQ(task.version, queue.get(id).version);
}

TEST_P(Queues, ARemovedTaskStopsItsWorker) {
  const auto id = queue.add().id;
  auto job = queue.claim_next({.lease = 600ms});
  EXPECT_TRUE(queue.remove(id));
  EXPECT_TRUE(eventually([&] { return job->stopped().stop_requested(); }));
  EXPECT_TRUE(job->gone());
  EXPECT_EQ(refusal_of([&] { job->complete(); }), ErrorCode::NotFound);
}

TEST_P(Queues, LeasesAreRenewedAsLongAsTheirJobsLive) {
  for (int i = 0; i < 5; ++i) (void)queue.add();
  auto jobs = queue.claim_batch(5, {.lease = 300ms});
  ASSERT_EQ(jobs.size(), 5U);
  std::this_thread::sleep_for(1s);  // several leases long
  for (auto& job : jobs) {
    EXPECT_FALSE(job.stopped().stop_requested());
    EXPECT_GT(job.remaining(), 0ms);
    EXPECT_EQ(job.complete().status, TaskStatus::completed);
  }
}

TEST_P(Queues, ALeaseIsRenewedBesideAJobThatHasLostItsOwn) {
  const auto id = queue.add().id;
  (void)queue.add();
  auto lost = queue.claim_next({.lease = 300ms});
  queue.cancel(id);
  EXPECT_TRUE(eventually([&] { return lost->stopped().stop_requested(); }));
  std::this_thread::sleep_for(300ms);  // until the next renewal was due
  auto job = queue.claim_next({.lease = 300ms});
  ASSERT_TRUE(job);
  std::this_thread::sleep_for(600ms);
  EXPECT_FALSE(job->stopped().stop_requested());
  EXPECT_GT(job->remaining(), 0ms);
}

TEST_P(Queues, AnAttemptThatTakesTooLongIsStopped) {
  (void)queue.add({.attempt_limit = 300ms});
  auto job = queue.claim_next();
  EXPECT_TRUE(eventually([&] { return job->stopped().stop_requested(); }));
  EXPECT_EQ(job->loss_reason(), LossReason::max_hold);
  EXPECT_EQ(job->retry({.delay = 0ms}).status, TaskStatus::working);
}

TEST_P(Queues, ATaskThatIsTooOldIsFailedByTheNextReader) {
  const auto id = queue.add({.max_age = 1ms}).id;
  EXPECT_TRUE(eventually([&] { return queue.get(id).status == TaskStatus::failed; }));
  const auto task = queue.get(id);
  EXPECT_EQ(task.status_message, "too old");
  EXPECT_TRUE(task.expires_at);
  EXPECT_FALSE(queue.claim_next());
}

TEST_P(Queues, ATaskWhoseLastWorkerDiedIsFailedByTheNextReader) {
  const auto tasks = holdfast.tasks();
  for (const std::string_view how : {"get", "list", "wait"}) {
    const auto added = queue.add({.max_attempts = 1});
    const ClaimTerms terms{.worker = "w", .lease = 100ms};
    ASSERT_EQ(outcome(tasks.storage(), ClaimNext{.owner = added.owner, .terms = terms}).claimed.size(), 1U);
    // No other worker comes.
    if (how == "get") {
      EXPECT_TRUE(eventually([&] { return queue.get(added.id).status == TaskStatus::failed; }));
    } else if (how == "list") {
      EXPECT_TRUE(eventually([&] { return queue.list().tasks.at(0).status == TaskStatus::failed; }));
    } else {
      ASSERT_TRUE(queue.wait(added.id, 20s));
    }
    EXPECT_EQ(queue.get(added.id).status_message, "no attempts left (1 of 1; 1 worker died)");
    EXPECT_EQ(queue.get(added.id).queue->place, QueuePlace::dead);
    queue.remove(added.id);
  }
  // One with an attempt left stays as it is.
  const auto added = queue.add({.max_attempts = 2});
  const ClaimTerms terms{.worker = "w", .lease = 1ms};
  ASSERT_EQ(outcome(tasks.storage(), ClaimNext{.owner = added.owner, .terms = terms}).claimed.size(), 1U);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(queue.get(added.id).queue->attempts, 1U);
  EXPECT_EQ(queue.get(added.id).queue->place, QueuePlace::leased);
}

TEST_P(Queues, AWorkerThatOutlivesTheLeaseOfTheLastAttemptDoesNotFailItsOwnTask) {
  const auto id = queue.add({.max_attempts = 1}).id;
  auto job = queue.claim_next({.lease = 600ms});
  // As if a claim had removed its expired lease, and its process had died before it failed the task.
  (void)outcome(holdfast.tasks().storage(),
                EndLease{.key = RecordKey::of(job->task().owner, id).value_or_throw(),
                         .incarnation = job->task().incarnation,
                         .token = job->token(),
                         .end = LeaseEnd::retried});
  EXPECT_TRUE(eventually([&] { return job->stopped().stop_requested(); }));
  EXPECT_EQ(job->complete(value_of("1")).status, TaskStatus::completed);
  EXPECT_EQ(queue.get(id).result.str(), "1");
}

TEST_P(Queues, AFailedTaskIsRetriedByANewOneOnce) {
  const auto parameters = value_of(R"({"n":1})");
  const auto id = queue.add({.method = "m", .variables = parameters, .priority = 7, .request_key = "k"}).id;
  EXPECT_EQ(refusal_of([&] { (void)queue.retry(id); }), ErrorCode::InvalidTransition);
  queue.claim_next()->fail("broken");
  const auto again = queue.retry(id);
  EXPECT_NE(again.id, id);
  EXPECT_EQ(again.retry_of, id);
  EXPECT_EQ(queue.retry(id).id, again.id);
  const auto job = queue.claim_next();
  EXPECT_EQ(job->id(), again.id);
  EXPECT_EQ(job->task().request_method, "m");
  EXPECT_EQ(job->task().variables, parameters);
  EXPECT_EQ(job->task().queue->terms.priority, 7);
  EXPECT_GT(job->task().queue->terms.retention, 13 * 24h) << "it outlives the old one, which is retried once";
  EXPECT_EQ(queue.get(id).status, TaskStatus::failed);
}

TEST_P(Queues, ManyRetriesOfOneTaskAddOneTask) {
  const auto id = queue.add().id;
  queue.claim_next()->fail("broken");
  std::vector<std::string> ids(8);
  {
    std::vector<std::jthread> clients;
    for (auto& found : ids) clients.emplace_back([&] { found = queue.retry(id).id; });
  }
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), 1U);
  EXPECT_EQ(queue.counts().ready, 1U);
  EXPECT_EQ(queue.counts().dead, 1U) << "the old one stays";
}

TEST_P(Queues, AFailedTaskIsADeadLetter) {
  const auto few = holdfast.queue("render", {.max_dead = 2});
  std::vector<std::string> failed;
  for (int i = 0; i < 4; ++i) {
    failed.push_back(few.add({.retention = 1h, .failed_retention = 48h}).id);
    const auto task = few.claim_next()->fail("broken");
    EXPECT_EQ(task.queue->place, QueuePlace::dead);
    EXPECT_GT(*task.expires_at - task.created_at, 47h);
    std::this_thread::sleep_for(2ms);  // they are ordered by the millisecond
  }
  const auto done = few.add({.retention = 1h}).id;
  EXPECT_LT(*few.claim_next()->complete().expires_at - few.get(done).created_at, 2h);
  EXPECT_EQ(few.counts().dead, 2U);
  EXPECT_EQ(few.counts().records, 3U);
  const auto page = few.list({.status = TaskStatus::failed, .limit = 1});
  ASSERT_EQ(page.tasks.size(), 1U);
  EXPECT_EQ(page.tasks[0].id, failed[3]) << "the last one first";
  const auto rest = few.list({.cursor = page.cursor, .status = TaskStatus::failed});
  ASSERT_EQ(rest.tasks.size(), 1U);
  EXPECT_EQ(rest.tasks[0].id, failed[2]);
  EXPECT_EQ(refusal_of([&] { (void)few.get(failed[0]); }), ErrorCode::NotFound);
  const auto old = few.add({.max_age = 1ms, .failed_retention = 48h}).id;
  EXPECT_TRUE(eventually([&] { return few.get(old).status == TaskStatus::failed; }));
  EXPECT_EQ(few.get(old).queue->place, QueuePlace::dead);
}

TEST_P(Queues, OneTaskAtATimeForEachCustomer) {
  (void)queue.add({.limit_key = "ann"});
  const auto second = queue.add({.limit_key = "ann"}).id;
  const auto other = queue.add({.limit_key = "bob"}).id;
  auto first = queue.claim_next();
  const auto of_another = queue.claim_next();
  ASSERT_TRUE(of_another);
  EXPECT_EQ(of_another->id(), other);
  EXPECT_FALSE(queue.claim_next());
  EXPECT_FALSE(queue.try_claim(second));
  EXPECT_EQ(queue.get(second).queue->place, QueuePlace::parked);
  EXPECT_EQ(queue.counts().parked, 1U);
  std::optional<Job> job;
  std::thread worker([&] { job = queue.claim_next({.wait = 20s}); });
  (void)first->complete();
  worker.join();
  ASSERT_TRUE(job);
  EXPECT_EQ(job->id(), second);
  EXPECT_EQ(refusal_of([&] { (void)queue.add({.limit = 0}); }), ErrorCode::InvalidArgument);
}

TEST_P(Queues, APausedQueueGivesNothingUntilItIsResumed) {
  (void)queue.add();
  EXPECT_TRUE(queue.pause().paused);
  EXPECT_FALSE(queue.claim_next());
  std::optional<Job> job;
  std::thread worker([&] { job = queue.claim_next({.wait = 20s}); });
  EXPECT_FALSE(queue.resume().paused);
  worker.join();
  EXPECT_TRUE(job);
}

TEST_P(Queues, ALimitKeepsFurtherTasksBack) {
  (void)queue.add();
  (void)queue.add();
  EXPECT_EQ(queue.limit(1).max_leased, 1U);
  auto job = queue.claim_next();
  ASSERT_TRUE(job);
  EXPECT_FALSE(queue.claim_next());
  job->complete();
  EXPECT_TRUE(queue.claim_next());
}

TEST_P(Queues, AnOutcomeAndTheNextClaimAreOneCall) {
  (void)queue.add();
  const auto second = queue.add().id;
  auto job = queue.claim_next();
  auto next = job->complete_and_claim(value_of("1"));
  ASSERT_TRUE(next);
  EXPECT_EQ(next->id(), second);
  EXPECT_FALSE(next->complete_and_claim(value_of("2")));
  EXPECT_FALSE(*next);
}

TEST_P(Queues, AnEndedJobRefusesFurtherWrites) {
  (void)queue.add();
  auto job = queue.claim_next();
  job->complete();
  EXPECT_EQ(refusal_of([&] { job->complete(); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(refusal_of([&] { job->set_variables(value_of("{}")); }), ErrorCode::InvalidArgument);
  Job moved = std::move(*job);
  EXPECT_EQ(refusal_of([&] { (void)job->id(); }), ErrorCode::InvalidArgument);
}

TEST_P(Queues, ManyWorkersFinishEveryTaskOnce) {
  constexpr int tasks = 60;
  for (int i = 0; i < tasks; ++i) (void)queue.add();
  std::atomic<int> attempts = 0;
  std::mutex mutex;
  std::set<std::string> done;
  std::vector<std::thread> workers;
  for (int i = 0; i < 4; ++i) {
    workers.emplace_back([&] {
      while (auto job = queue.claim_next()) {
        ++attempts;
        const auto id = job->complete().id;
        const std::lock_guard lock(mutex);
        EXPECT_TRUE(done.insert(id).second);
      }
    });
  }
  for (auto& worker : workers) worker.join();
  EXPECT_EQ(done.size(), static_cast<std::size_t>(tasks));
  EXPECT_EQ(attempts, tasks);
  const auto counts = queue.counts();
  EXPECT_EQ(counts.ready + counts.delayed + counts.leased + counts.exhausted, 0U);
}

TEST_P(Queues, JobsAreCompletedWithoutBlocking) {
  (void)queue.add();
  std::optional<Job> job;
  Slot<Task> completed;
  Slot<std::optional<Job>> claimed;
  queue.start(operation::ClaimNextTask{detail::owned(ClaimOptions{.wait = 20s})}, {},
              [&](Result<std::optional<Job>> result) {
                claimed.result.emplace(std::move(result));
                claimed.completion.finish();
              });
  claimed.completion.wait();
  job = (*std::move(claimed.result)).value_or_throw();
  ASSERT_TRUE(job);
  job->start(operation::EndJob{.how = operation::EndJob::How::completed, .result = value_of("1")}, {},
             [&](Result<Task> result) {
               completed.result.emplace(std::move(result));
               completed.completion.finish();
             });
  completed.completion.wait();
  EXPECT_EQ((*std::move(completed.result)).value_or_throw().status, TaskStatus::completed);
}

INSTANTIATE_TEST_SUITE_P(Engines, Queues, testing::Values("memory", "sqlite"),
                         [](const auto& engine) { return engine.param; });

}  // namespace
}  // namespace holdfast::test
