#include "tasks/watched_tasks.hpp"

#include <algorithm>
#include <tuple>

#include "os/random.hpp"
#include "tasks/operations.hpp"
#include "tasks/wait_for_task.hpp"

namespace holdfast {

using runtime::Flow;
using runtime::Op;
using std::chrono::milliseconds;

namespace tasks {
namespace {

/// Equal for two states that a watch need not distinguish.
std::string stamp_of(const Task& task) {
  auto stamp = task.incarnation + ' ' + std::to_string(task.version) + ' ';
  if (task.bound_to)
    stamp += task.bound_to->authority + task.bound_to->lock_key + task.bound_to->fence.to_string();
  if (task.queue) {
    stamp += ' ' + std::to_string(static_cast<int>(task.queue->place)) + ' ' +
             std::to_string(task.queue->attempts) + ' ' + std::to_string(task.queue->deaths);
  }
  return stamp;
}

}  // namespace

void WatchState::read(const std::string& id, std::optional<Task> task) {
  reported_.erase(id);
  const auto known = known_.find(id);
  if (!task) {
    if (known == known_.end()) return;
    known_.erase(known);
  } else {
    auto stamp = stamp_of(*task);
    if (known != known_.end() && known->second == stamp) return;
    known_.insert_or_assign(id, std::move(stamp));
  }
  changes_.insert_or_assign(id, TaskChange{.id = id, .task = std::move(task)});
}

void WatchState::listed(Task task) {
  auto id = task.id;
  listed_.insert(id);
  read(id, std::move(task));
}

void WatchState::end_listing() {
  std::vector<std::string> gone;
  for (const auto& [id, stamp] : known_) {
    if (!listed_.contains(id)) gone.push_back(id);
  }
  for (const auto& id : gone) read(id, std::nullopt);
  listed_.clear();
  all_ = false;
}

void WatchState::report(std::string id) {
  if (all_) return;
  reported_.insert(std::move(id));
  if (reported_.size() > most_reported) report_all();
}

std::optional<std::string> WatchState::next_to_read() const {
  return reported_.empty() ? std::nullopt : std::optional(*reported_.begin());
}

std::vector<TaskChange> WatchState::take_changes() {
  std::vector<TaskChange> taken;
  taken.reserve(changes_.size());
  for (auto& [id, change] : changes_) taken.push_back(std::move(change));
  changes_.clear();
  return taken;
}

}  // namespace tasks

namespace {

constexpr std::size_t listed_at_once = 200;
/// How often all tasks are listed, if changes are reported and if they are not.
constexpr milliseconds list_again{2000}, list_without_feed{500};
constexpr milliseconds list_at_last = std::chrono::minutes(1);
/// Of the time, this part is spent on lists.
constexpr int list_share = 20;
/// A watch survives a store that is unreachable for up to this long.
constexpr milliseconds longest_away = std::chrono::minutes(1);
constexpr milliseconds read_again{500};

/// Whether the watch is used already; not if this is true.
class UsedOnce {
 public:
  explicit UsedOnce(std::atomic<bool>& used) : used_(used), is_second_(used.exchange(true)) {}
  ~UsedOnce() {
    if (!is_second_) used_ = false;
  }
  UsedOnce(const UsedOnce&) = delete;
  UsedOnce& operator=(const UsedOnce&) = delete;
  [[nodiscard]] bool is_second() const noexcept { return is_second_; }

 private:
  std::atomic<bool>& used_;
  const bool is_second_;
};

}  // namespace

Op<std::vector<TaskChange>> WatchedTasks::perform(Flow flow, Self self, operation::NextTaskChanges what,
                                                  std::stop_token stop) {
  const UsedOnce use(self->is_used_);
  if (use.is_second()) {
    co_return Error(ErrorCode::InvalidArgument, "another call of this watch is not finished; wait for that");
  }
  const auto deadline = saturating_add(BootClock::now(), what.timeout);
  auto call = self->call_;
  call.flow = std::move(flow);
  call.stop = std::move(stop);
  auto changes = self->next(std::move(call), deadline);
  co_return co_await std::move(changes);
}

/// The subscription comes before the first read, and each report before the read that it causes: so the last
/// state that was read is that after the last change that was reported.
Op<std::vector<TaskChange>> WatchedTasks::next(tasks::Call call, BootTime deadline) {
  const runtime::Unfinished::Piece waiter(call.store->waiters);
  std::optional<BootTime> away_since;
  for (;;) {
    if (call.stop.stop_requested()) {
      co_return Error(ErrorCode::Aborted, "the watch was stopped");
    }
    const auto asked = BootClock::now();
    auto subscribing = subscribe(call, deadline);
    const auto subscribed = co_await std::move(subscribing);
    if (!subscribed) co_return subscribed.error();
    auto reading = read(call);
    const auto done = co_await std::move(reading);
    // Also what was read before an error.
    if (state_.has_changes()) co_return state_.take_changes();
    if (!done) {
      if (!done.error().transient()) co_return done.error();
      away_since = away_since.value_or(asked);
      if (BootClock::now() >= std::min(deadline, saturating_add(*away_since, longest_away))) {
        co_return done.error();
      }
    } else {
      away_since.reset();
    }
    const auto now = BootClock::now();
    if (now >= deadline) co_return Changes();
    if (id_) {
      const auto pause =
          tasks::look_again_after(call.store->waiters.count(), watch_ != nullptr, os::jitter_fraction());
      const auto look_again = std::min(deadline, now + pause);
      (void)co_await call.flow.wait(watch_.get(), look_again, look_again, call.stop);
      continue;
    }
    const auto look_again = std::min(deadline, done ? list_at_ : now + read_again);
    if (feed_ && done) {
      const auto reported = co_await call.flow.listen(*feed_, look_again, call.stop);
      if (reported) take(*reported);
    } else {
      (void)co_await call.flow.sleep_until(look_again, call.stop);
    }
  }
}

Op<Ok> WatchedTasks::subscribe(tasks::Call call, BootTime deadline) {
  if (is_subscribed_) co_return Ok{};
  const auto address = call.address(owner_, id_.value_or(""));
  if (!address) co_return address.error();
  prefix_ = std::string(address->key.owner()) + ":";
  if (id_) {
    WatchRecord request{.key = address->key, .deadline = deadline};
    auto watching = co_await call.ask(std::move(request));
    if (watching) watch_ = *std::move(watching);
  } else {
    auto following = co_await call.ask(FollowRecords{.deadline = deadline});
    if (following) feed_ = *std::move(following);
  }
  is_subscribed_ = true;
  co_return Ok{};
}

Op<Ok> WatchedTasks::read(tasks::Call call) {
  if (id_) {
    operation::GetTask get{owner_, *id_};
    auto getting = tasks::perform(call, std::move(get));
    auto task = co_await std::move(getting);
    if (task) {
      state_.read(*id_, *std::move(task));
      co_return Ok{};
    }
    if (task.error().code() != ErrorCode::NotFound) co_return task.error();
    state_.read(*id_, std::nullopt);
    if (state_.has_changes()) co_return Ok{};
    co_return task.error();
  }
  if (BootClock::now() >= list_at_) state_.report_all();
  if (state_.must_list()) {
    auto listing = list(std::move(call));
    co_return co_await std::move(listing);
  }
  while (const auto id = state_.next_to_read()) {
    operation::GetTask get{owner_, *id};
    auto getting = tasks::perform(call, std::move(get));
    auto task = co_await std::move(getting);
    if (task) {
      state_.read(*id, *std::move(task));
    } else if (task.error().transient() || task.error().code() == ErrorCode::Aborted) {
      co_return task.error();
    } else {
      state_.read(*id, std::nullopt);  // it is gone, or cannot be read, as tasks that a list leaves out
    }
  }
  co_return Ok{};
}

Op<Ok> WatchedTasks::list(tasks::Call call) {
  const auto begun = BootClock::now();
  state_.begin_listing();
  std::string cursor;
  do {
    operation::ListTasksOfOwner what{owner_,
                                     detail::owned(ListTasks{.cursor = cursor, .limit = listed_at_once})};
    auto listing = tasks::perform(call, std::move(what));
    auto page = co_await std::move(listing);
    if (!page) co_return page.error();
    for (auto& task : page->tasks) state_.listed(std::move(task));
    cursor = page->cursor;
  } while (!cursor.empty());
  state_.end_listing();
  const auto ended = BootClock::now();
  const auto least = BootClock::duration(feed_ ? list_again : list_without_feed);
  list_at_ = ended + std::clamp<BootClock::duration>((ended - begun) * list_share, least, list_at_last);
  co_return Ok{};
}

void WatchedTasks::take(const std::vector<Change>& reported) {
  for (const auto& change : reported) {
    if (change.kind == Change::Kind::anything) {
      state_.report_all();
    } else if (change.key.starts_with(prefix_)) {
      state_.report(change.key.substr(prefix_.size()));
    }
  }
}

TaskWatch::TaskWatch() noexcept = default;
TaskWatch::TaskWatch(TaskWatch&& other) noexcept = default;
TaskWatch& TaskWatch::operator=(TaskWatch&& other) noexcept = default;
TaskWatch::~TaskWatch() = default;
TaskWatch::TaskWatch(std::shared_ptr<WatchedTasks> watched) noexcept : watched_(std::move(watched)) {}

namespace {

Error empty_watch() {
  return {ErrorCode::InvalidArgument, "this TaskWatch is empty: Tasks::watch or Queue::watch makes one"};
}

}  // namespace

template <class Operation>
typename Operation::Answer TaskWatch::run(Operation operation, std::stop_token stop) {
  if (!watched_) throw empty_watch();
  return tasks::run(WatchedTasks::perform(Flow::blocking(), watched_, operation, std::move(stop)));
}

template <class Operation>
void TaskWatch::start(Operation operation, std::stop_token stop, Done<typename Operation::Answer> done) {
  if (!watched_) return done(empty_watch());
  const auto& store = watched_->store();
  tasks::start(*store.threads,
               WatchedTasks::perform(store.completing(), watched_, operation, std::move(stop)),
               std::move(done));
}

/// Makes the compiler emit both forms of each operation.
template <class... Operations>
struct WatchOperations {
  static constexpr auto forms = std::tuple{&TaskWatch::run<Operations>..., &TaskWatch::start<Operations>...};
};
template struct WatchOperations<operation::NextTaskChanges>;

}  // namespace holdfast
