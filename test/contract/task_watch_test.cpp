// TaskWatch, of a task, an owner and a queue: blocking and through Asio.

#include <holdfast/asio.hpp>
#include <map>
#include <thread>

#include "contract/tasks_on.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

class TaskWatchOn : public TasksOn {
 protected:
  /// Either form of a watch.
  class Watching {
   public:
    Watching(std::shared_ptr<AsioThread> asio, TaskWatch watch) : asio_(std::move(asio)) {
      if (asio_) {
        async_ = AsyncTaskWatch(asio_->executor(), std::move(watch));
      } else {
        watch_ = std::move(watch);
      }
    }
    std::vector<TaskChange> next(std::chrono::milliseconds timeout = 20s, const std::stop_token& stop = {}) {
      if (!asio_) return watch_.next(timeout, stop);
      return asio_->await(stop, [&](auto token) { return async_.next(timeout, std::move(token)); });
    }
    /// The states of all tasks, once `done` is true for them.
    template <class Done>
    std::map<std::string, std::optional<Task>> until(Done done) {
      std::map<std::string, std::optional<Task>> seen;
      const auto give_up_at = BootClock::now() + 20s;
      while (!done(seen) && BootClock::now() < give_up_at) {
        for (auto& change : next(1s)) seen.insert_or_assign(change.id, std::move(change.task));
      }
      return seen;
    }

   private:
    std::shared_ptr<AsioThread> asio_;
    TaskWatch watch_;
    AsyncTaskWatch async_;
  };

  /// Another client of the store; memory: has but one.
  [[nodiscard]] Holdfast other_client() const {
    return GetParam().engine == "memory" ? *holdfast : open(own->url());
  }
  Watching watching(TaskWatch watch) { return {asio, std::move(watch)}; }
};

TEST_P(TaskWatchOn, ATaskIsReturnedAtOnceAndAfterEachChange) {
  const auto writer = other_client().tasks();
  const auto task = writer.create("o");
  auto watch = watching(holdfast->tasks().watch("o", task.id));
  EXPECT_EQ(watch.next().at(0).task->version, 1U);
  EXPECT_TRUE(watch.next(1ms).empty());
  writer.set_variables("o", task.id, json(R"({"n":1})"));
  const auto changed = watch.next();
  ASSERT_EQ(changed.size(), 1U);
  EXPECT_EQ(changed[0].task->version, 2U);
  writer.set_variables("o", task.id, json(R"({"n":2})"));
  writer.complete_with_result("o", task.id, json("7"));
  // The two may be one, and the last is never missed.
  const auto seen = watch.until(
      [&](const auto& all) { return all.contains(task.id) && is_final(all.at(task.id)->status); });
  EXPECT_EQ(seen.at(task.id)->version, 4U);
  writer.remove("o", task.id);
  EXPECT_FALSE(watch.next().at(0).task);
  EXPECT_EQ(code_of([&] { (void)watch.next(); }), ErrorCode::NotFound);
}

TEST_P(TaskWatchOn, AnOwnersTasksAreFollowed) {
  const auto writer = other_client().tasks();
  const auto there = writer.create("o:x");
  (void)writer.create("other");
  auto watch = watching(holdfast->tasks().watch("o:x"));
  EXPECT_EQ(watch.next().at(0).id, there.id);
  const auto added = writer.create("o:x");
  writer.cancel("o:x", added.id);
  writer.remove("o:x", there.id);
  const auto seen = watch.until([&](const auto& all) {
    return all.contains(there.id) && all.contains(added.id) && all.at(added.id) &&
           all.at(added.id)->status == TaskStatus::cancelled;
  });
  EXPECT_EQ(seen.size(), 2U);
  EXPECT_FALSE(seen.at(there.id));
  EXPECT_EQ(seen.at(added.id)->status, TaskStatus::cancelled);
}

TEST_P(TaskWatchOn, AQueueShowsClaimsAndOutcomes) {
  const auto queue = other_client().queue("q");
  auto watch = watching(holdfast->queue("q").watch());
  const auto task = queue.add();
  watch.until([&](const auto& all) { return all.contains(task.id); });
  auto job = queue.claim_next();
  ASSERT_TRUE(job);
  const auto claimed = watch.until([&](const auto& all) { return all.contains(task.id); });
  EXPECT_EQ(claimed.at(task.id)->queue->place, QueuePlace::leased);
  job->complete();
  const auto ended = watch.until([&](const auto& all) { return all.contains(task.id); });
  EXPECT_EQ(ended.at(task.id)->status, TaskStatus::completed);
  auto one = watching(holdfast->queue("q").watch(task.id));
  EXPECT_EQ(one.next().at(0).task->status, TaskStatus::completed);
}

TEST_P(TaskWatchOn, AStoppedWaitLosesNoChange) {
  const auto tasks = holdfast->tasks();
  const auto task = tasks.create("o");
  auto watch = watching(tasks.watch("o"));
  (void)watch.next();
  std::stop_source stop;
  const std::jthread stopper([&] {
    std::this_thread::sleep_for(20ms);
    stop.request_stop();
  });
  EXPECT_EQ(code_of([&] { (void)watch.next(20s, stop.get_token()); }), ErrorCode::Aborted);
  tasks.cancel("o", task.id);
  EXPECT_EQ(watch.next().at(0).task->status, TaskStatus::cancelled);
}

TEST_P(TaskWatchOn, AMissingTaskAndAnEmptyWatchAreErrors) {
  auto missing = watching(holdfast->tasks().watch("o", "none"));
  EXPECT_EQ(code_of([&] { (void)missing.next(); }), ErrorCode::NotFound);
  auto empty = watching({});
  EXPECT_EQ(code_of([&] { (void)empty.next(); }), ErrorCode::InvalidArgument);
}

TEST_P(TaskWatchOn, OutputIsAppendedAndReadThroughTheFacade) {
  const auto tasks = holdfast->tasks();
  const auto task = tasks.create("o");
  auto claim = tasks.claim("o", task.id);
  const auto token = claim.token();
  tasks.append_output("o", task.id,
                      {.token = token, .incarnation = task.incarnation, .out = "a", .err = "b"});
  const auto output = tasks.read_output("o", task.id);
  EXPECT_EQ(output.pieces[0].bytes, "a");
  EXPECT_EQ(output.pieces[1].bytes, "b");
  claim.complete(json("1"));
  EXPECT_EQ(tasks.read_output("o", task.id, {.out_from = 1}).pieces[0].bytes, "");
  EXPECT_EQ(code_of([&] { (void)tasks.read_output("o", "none"); }), ErrorCode::NotFound);
  auto next = token;
  next.fence = Fence::of(token.fence.value() + 1).value_or_throw();
  tasks.bind("o", task.id, next);
  EXPECT_EQ(code_of([&] { tasks.append_output("o", task.id, {.token = token, .out = "late"}); }),
            ErrorCode::StaleFence);
}

INSTANTIATE_TEST_SUITE_P(Engine, TaskWatchOn, testing::ValuesIn(ways_to_tasks()), way_name);

}  // namespace
}  // namespace holdfast::test
