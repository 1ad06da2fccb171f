// Jobs and claims of an engine that fails, throws or answers strangely.

#include <gtest/gtest.h>

#include <functional>
#include <holdfast/memory.hpp>
#include <optional>
#include <stdexcept>

#include "queue/claimed_job.hpp"
#include "queue/operations.hpp"
#include "support/eventually.hpp"
#include "support/no_new_threads.hpp"
#include "support/queue_calls.hpp"
#include "tasks/address.hpp"

namespace holdfast::test {
namespace {

/// The memory engine, with hooks. One that returns true has answered the request.
class HookedStorage final : public Intercepting<HookedStorage, StorageBackend> {
 public:
  template <class Request>
  using Hook = std::function<bool(Request&, Done<typename Request::Outcome>&)>;
  Hook<EndLease> on_end;
  Hook<ClaimNext> on_claim;
  Hook<WatchQueue> on_watch;

  [[nodiscard]] std::string_view name() const noexcept override { return inner_->name(); }
  [[nodiscard]] bool blocks() const noexcept override { return inner_->blocks(); }
  [[nodiscard]] WallTime now() const override { return inner_->now(); }
  [[nodiscard]] StorageBackend& inner() const noexcept { return *inner_; }

  template <class Request>
  void intercept(Request request, std::stop_token stop, Done<typename Request::Outcome> done) {
    if constexpr (std::is_same_v<Request, EndLease>) {
      if (on_end && on_end(request, done)) return;
    } else if constexpr (std::is_same_v<Request, ClaimNext>) {
      if (on_claim && on_claim(request, done)) return;
    } else if constexpr (std::is_same_v<Request, WatchQueue>) {
      if (on_watch && on_watch(request, done)) return;
    }
    inner_->submit(std::move(request), std::move(stop), std::move(done));
  }

 private:
  const std::shared_ptr<StorageBackend> inner_ = make_memory_storage_backend();
};

class QueueFaults : public testing::Test {
 protected:
  template <class Operation>
  [[nodiscard]] typename Operation::Answer run(Operation operation) const {
    queue::QueueCall call{.store = store, .owner = owner, .flow = runtime::Flow::blocking(), .stop = {}};
    return tasks::run(queue::perform(std::move(call), std::move(operation)));
  }
  std::string add() const { return run(operation::AddTask{detail::owned(NewQueueTask{})}).id; }
  [[nodiscard]] std::optional<Job> claim() const {
    return run(operation::ClaimNextTask{detail::owned(ClaimOptions{.lease = 600ms})});
  }
  [[nodiscard]] std::vector<Job> claim_three() const {
    return run(operation::ClaimNextTasks{.how = detail::owned(ClaimOptions{}), .limit = 3});
  }
  [[nodiscard]] QueueCounts counts() const { return count_queue(storage->inner(), owner); }
  [[nodiscard]] RecordKey key_of(const std::string& id) const {
    return RecordKey::of(owner, id).value_or_throw();
  }
  template <class Action>
  static std::optional<Error> error_of(Action action) {
    try {
      action();
      return std::nullopt;
    } catch (const Error& error) {
      return error;
    }
  }
  /// The next end of a lease throws.
  void throw_once() const {
    storage->on_end = [thrown = false](EndLease&, Done<EndedLease>&) mutable {
      if (std::exchange(thrown, true)) return false;
      throw std::runtime_error("as if no thread could be started");
    };
  }

  const std::string owner = tasks::owner_of_queue("work").value_or_throw();
  const std::shared_ptr<HookedStorage> storage = std::make_shared<HookedStorage>();
  const std::shared_ptr<runtime::Runtime> threads = std::make_shared<runtime::Runtime>();
  const std::shared_ptr<const QueueStore> store = std::make_shared<const QueueStore>(
      std::make_shared<TaskStore>(storage, TaskOptions{}, nullptr, threads),
      std::make_shared<queue::Renewals>(storage, threads, nullptr), "worker");
};

TEST_F(QueueFaults, AWaitForTheStopOfAJobThatIsGoneEndsAlthoughItsOutcomeFails) {
  (void)add();
  auto job = claim();
  ASSERT_TRUE(job);
  std::optional<Result<Ok>> stopped;
  job->wait_stopped({}, [&](Result<Ok> why) { stopped = std::move(why); });
  std::optional<Done<EndedLease>> answer;
  storage->on_end = [&](EndLease&, Done<EndedLease>& done) {
    answer.emplace(std::move(done));
    return true;
  };
  std::optional<Result<Task>> ended;
  job->start(operation::EndJob{.how = operation::EndJob::How::completed}, {},
             [&](Result<Task> task) { ended = std::move(task); });
  ASSERT_TRUE(answer);
  job.reset();
  EXPECT_FALSE(stopped) << "its outcome is under way";
  (*answer)(Error(ErrorCode::NetworkTimeout, "no answer"));
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->error().code(), ErrorCode::NetworkTimeout);
  ASSERT_TRUE(stopped);
  EXPECT_EQ(stopped->error().code(), ErrorCode::Aborted);
}

TEST_F(QueueFaults, AnEndThatThrowsLocallyCanBeRepeated) {
  (void)add();
  auto job = claim();
  ASSERT_TRUE(job);
  throw_once();
  EXPECT_EQ(error_of([&] { job->complete(); }).value().code(), ErrorCode::Internal);
  EXPECT_TRUE(*job);
  EXPECT_EQ(job->complete().status, TaskStatus::completed);
}

TEST_F(QueueFaults, AfterAnEndThatThrewLocallyTheWorkerIsStillStopped) {
  const auto id = add();
  auto job = claim();
  ASSERT_TRUE(job);
  throw_once();
  EXPECT_TRUE(error_of([&] { job->complete(); }));
  (void)outcome(storage->inner(), RemoveRecord{.key = key_of(id)});
  EXPECT_TRUE(eventually([&] { return job->stopped().stop_requested(); }));
  EXPECT_TRUE(job->gone());
}

TEST_F(QueueFaults, AfterAnEndThatThrewLocallyAJobThatIsDroppedIsGivenBack) {
  for (const bool blocks : {true, false}) {
    const auto id = add();
    auto job = claim();
    ASSERT_TRUE(job);
    throw_once();
    if (blocks) {
      EXPECT_TRUE(error_of([&] { job->complete(); }));
    } else {
      std::optional<Result<Task>> ended;
      job->start(operation::EndJob{.how = operation::EndJob::How::completed}, {},
                 [&](Result<Task> task) { ended = std::move(task); });
      ASSERT_TRUE(ended);
      EXPECT_EQ(ended->error().code(), ErrorCode::Internal);
    }
    job.reset();
    EXPECT_EQ(counts().ready, 1U);
    EXPECT_EQ(get(storage->inner(), key_of(id).str())->queue->attempts, 0U);
    (void)outcome(storage->inner(), RemoveRecord{.key = key_of(id)});
  }
}

TEST_F(QueueFaults, ARetryThatWasAbortedAfterItWasSentMayHaveBeenAccepted) {
  (void)add();
  auto job = claim();
  ASSERT_TRUE(job);
  storage->on_end = [&](EndLease& request, Done<EndedLease>& done) {
    (void)outcome(storage->inner(), request);
    done(Error(ErrorCode::Aborted, "the caller stopped the operation"));
    return true;
  };
  EXPECT_EQ(error_of([&] { job->retry({.delay = 0ms}); }).value().code(), ErrorCode::Aborted);
  storage->on_end = nullptr;
  finish(storage->inner(), claim_one(storage->inner(), claim_terms(), owner));
  const auto refused = error_of([&] { job->retry({.delay = 0ms}); }).value();
  EXPECT_EQ(refused.code(), ErrorCode::StaleFence);
  EXPECT_NE(refused.message().find("may have been accepted"), std::string::npos) << refused.what();
}

TEST_F(QueueFaults, ARetryThatSurelyHadNoEffectWasNotAccepted) {
  (void)add();
  auto job = claim();
  ASSERT_TRUE(job);
  storage->on_end = [](EndLease&, Done<EndedLease>& done) {
    done(Error(ErrorCode::ServiceUnavailable, "not sent").with(Effect::none));
    return true;
  };
  EXPECT_TRUE(error_of([&] { job->retry({.delay = 0ms}); }));
  storage->on_end = nullptr;
  // As if its lease had expired.
  (void)outcome(storage->inner(), EndLease{.key = key_of(job->id()),
                                           .incarnation = job->task().incarnation,
                                           .token = job->token(),
                                           .end = LeaseEnd::given_back});
  finish(storage->inner(), claim_one(storage->inner(), claim_terms(), owner));
  const auto refused = error_of([&] { job->retry({.delay = 0ms}); }).value();
  EXPECT_EQ(refused.code(), ErrorCode::StaleFence);
  EXPECT_EQ(refused.message().find("may have been accepted"), std::string::npos) << refused.what();
}

TEST_F(QueueFaults, TasksWhoseJobsCannotBeStartedAreGivenBack) {
  for (int i = 0; i < 3; ++i) (void)add();
  {
    const NoNewThreads exhausted;
    EXPECT_EQ(error_of([&] { (void)claim_three(); }).value().code(), ErrorCode::Internal);
  }
  EXPECT_EQ(counts().ready, 3U);
  EXPECT_EQ(claim_three().size(), 3U);
}

TEST_F(QueueFaults, ATaskWithoutAFenceDoesNotKeepTheOthersOfItsBatchLeased) {
  for (int i = 0; i < 3; ++i) (void)add();
  storage->on_claim = [&](ClaimNext& request, Done<ClaimedRecords>& done) {
    auto claimed = outcome(storage->inner(), request);
    claimed.claimed.at(1).record.bound_to.reset();
    done(std::move(claimed));
    return true;
  };
  EXPECT_EQ(error_of([&] { (void)claim_three(); }).value().code(), ErrorCode::Internal);
  EXPECT_EQ(counts().ready, 2U);
  EXPECT_EQ(counts().leased, 1U);
}

/// Is woken at once, each time.
class WokenWatch final : public Watch {
 public:
  explicit WokenWatch(int& passed_on) : passed_on_(passed_on) {}
  void wait(BootTime, BootTime, std::stop_token, Done<bool> woken) override { woken(true); }
  void pass_on() noexcept override { ++passed_on_; }

 private:
  int& passed_on_;
};

TEST_F(QueueFaults, AWorkerThatIsWokenAndFailsPassesTheWakeUpOn) {
  // The error that ends it, and the last answer before: an empty queue, or no answer.
  for (const bool failed_before : {false, true}) {
    int passed_on = 0, claims = 0;
    storage->on_watch = [&](WatchQueue&, Done<std::unique_ptr<Watch>>& done) {
      done(std::unique_ptr<Watch>(std::make_unique<WokenWatch>(passed_on)));
      return true;
    };
    storage->on_claim = [&](ClaimNext&, Done<ClaimedRecords>& done) {
      if (++claims == 1 && !failed_before) return false;
      const auto code = claims < 3 ? ErrorCode::ServiceUnavailable : ErrorCode::AuthFailed;
      done(Error(code, "refused"));
      return true;
    };
    const operation::ClaimNextTask wait{detail::owned(ClaimOptions{.wait = 20s})};
    EXPECT_EQ(error_of([&] { (void)run(wait); }).value().code(), ErrorCode::AuthFailed);
    EXPECT_EQ(claims, 3);
    EXPECT_EQ(passed_on, 1);
  }
}

}  // namespace
}  // namespace holdfast::test
