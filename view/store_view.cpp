#include "view/store_view.hpp"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stop_token>
#include <thread>

#include "view/following.hpp"
#include "view/rows.hpp"
#include "view/store_model.hpp"
#include "view/store_reader.hpp"

namespace holdfast::view {
namespace {

using std::chrono::milliseconds;

/// After which a feed that could not be opened is tried again.
constexpr std::chrono::seconds follow_again_after{5};
/// The same for a feed of grants, which most engines do not have.
constexpr std::chrono::minutes follow_grants_again_after{1};
/// How many expired leases are looked after with each reading.
constexpr std::size_t overdue_at_once = 50;

std::string text_of(const Error& error) {
  return error.cause().empty() ? error.message() : error.message() + " (" + error.cause() + ")";
}

}  // namespace

/// Everything but the interface: subscriptions outlive it, so they refer to it weakly.
class StoreView::Worker {
 public:
  Worker(Holdfast store, const Options& options)
      : store_(std::move(store)),
        options_(options),
        model_(std::string(store_.locks().capabilities().backend), options.limits),
        pace_(options.pace, BootClock::now()) {
    latest_ = std::make_shared<const Snapshot>(model_.snapshot(this_moment()));
  }

  void stop() noexcept {
    std::jthread ended;
    {
      const std::lock_guard guard(mutex_);
      thread_.request_stop();
      changed_.notify_all();
      ended = std::move(thread_);
    }
    if (ended.joinable()) ended.join();
  }

  std::shared_ptr<const Snapshot> latest() const {
    const std::lock_guard guard(mutex_);
    return latest_;
  }

  std::uint64_t subscribe(Callback callback) {
    const std::lock_guard guard(mutex_);
    if (!thread_.joinable()) {
      thread_ = std::jthread([this](const std::stop_token& stop) { read_until(stop); });
      reading_thread_ = thread_.get_id();
    }
    callbacks_.emplace(++last_id_, std::make_shared<const Callback>(std::move(callback)));
    viewers_changed();
    return last_id_;
  }

  void unsubscribe(std::uint64_t id) noexcept {
    bool is_reader = false;
    {
      const std::lock_guard guard(mutex_);
      callbacks_.erase(id);
      viewers_changed();
      is_reader = reading_thread_ == std::this_thread::get_id();
    }
    // It may be running now.
    if (!is_reader) const std::lock_guard guard(calling_);
  }

  void hear_break(std::string_view key) {
    const std::lock_guard guard(mutex_);
    broken_.push_back({.kind = Change::Kind::broken, .key = std::string(key)});
    news_ = true;
    changed_.notify_all();
  }

  void hint(const std::function<void(ReadPace&)>& give) {
    const std::lock_guard guard(mutex_);
    give(pace_);
    changed_.notify_all();
  }

 private:
  void viewers_changed() {
    pace_.set_viewers(callbacks_.size(), BootClock::now());
    changed_.notify_all();
  }

  void read_until(const std::stop_token& stop) noexcept {
    while (!stop.stop_requested()) {
      try {
        follow_if_watched(stop);
        hear_changes();
        if (const auto reading = wait_for_reading(stop)) read(*reading, stop);
        publish_if_due();
      } catch (const std::exception&) {
        // Out of memory, most likely: what is shown becomes old, which shows.
        pause(stop);
      }
    }
    end_feeds();
  }

  void end_feeds() noexcept {
    locks_feed_.reset();
    tasks_feed_.reset();
    grants_feed_.reset();
  }

  /// Empty when a snapshot is due or there is something to hear, or the thread is to stop.
  std::optional<Reading> wait_for_reading(const std::stop_token& stop) {
    std::unique_lock guard(mutex_);
    while (!stop.stop_requested()) {
      const auto now = BootClock::now();
      const auto at = pace_.next_at(now);
      if (std::exchange(news_, false)) return std::nullopt;
      if (at <= now) return pace_.next(now);
      if (callbacks_.empty() && (locks_feed_ || tasks_feed_ || grants_feed_))
        return std::nullopt;  // to end them
      if (is_changed_ && published_at_ + options_.between_snapshots <= now) return std::nullopt;
      const auto until = is_changed_ ? std::min(at, published_at_ + options_.between_snapshots) : at;
      if (until == never) {
        changed_.wait(guard);
      } else {
        changed_.wait_for(guard, until - now);
      }
    }
    return std::nullopt;
  }

  /// Feeds last as long as there are viewers.
  void follow_if_watched(const std::stop_token& stop) {
    const auto now = BootClock::now();
    if (!has_viewers()) {
      end_feeds();
      model_.set_unwatched(now);
      follow_at_ = follow_grants_at_ = {};
    } else if (!locks_feed_ && !tasks_feed_ && now >= follow_at_) {
      follow_at_ = now + follow_again_after;
      follow(stop);
    } else if (is_answered_ && !grants_feed_ && now >= follow_grants_at_) {
      follow_grants_at_ = now + follow_grants_again_after;
      follow_grants(stop);
    }
    model_.set_heard(locks_feed_ != nullptr);
    const std::lock_guard guard(mutex_);
    pace_.set_heard(locks_feed_ != nullptr, tasks_feed_ != nullptr);
  }

  std::unique_ptr<Following> following(std::unique_ptr<ChangeFeed> feed) {
    if (!feed) return nullptr;
    return std::make_unique<Following>(std::move(feed), [this] {
      const std::lock_guard guard(mutex_);
      news_ = true;
      changed_.notify_all();
    });
  }

  void follow(const std::stop_token& stop) {
    try {
      locks_feed_ = following(store_.locks().follow(stop));
      tasks_feed_ = following(reader_.tasks().follow(stop));
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): readings find the same error, and report it
    }
  }

  /// Only a store that answers: opening this feed waits for it.
  void follow_grants(const std::stop_token& stop) {
    try {
      grants_feed_ = following(store_.locks().follow_grants(stop));
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): readings find the same error, and report it
    }
    if (!grants_feed_) return;
    const std::lock_guard guard(mutex_);
    pace_.hint_grants();  // those of the page that is read already
  }

  void hear_changes() {
    const auto of_grants = grants_feed_ ? grants_feed_->take() : std::vector<Change>();
    const auto of_locks = locks_feed_ ? locks_feed_->take() : std::vector<Change>();
    const auto of_tasks = tasks_feed_ ? tasks_feed_->take() : std::vector<Change>();
    const auto now = this_moment();
    const std::lock_guard guard(mutex_);
    for (const auto& change : std::exchange(broken_, {})) hear_lock(change, now.boot);
    for (const auto& change : of_locks) hear_lock(change, now.boot);
    for (const auto& change : of_grants) hear_grant(change, now);
    for (const auto& change : of_tasks) hear_task(change, now);
  }

  void hear_lock(const Change& change, BootTime now) {
    if (change.kind == Change::Kind::anything) return pace_.hint_anything();
    if (change.kind == Change::Kind::broken) {
      model_.hear_break(change.key, now);
    } else {
      model_.hear_release(change.key, now);
    }
    pace_.hint_lock(change.key);
  }

  void hear_grant(const Change& change, const Moment& now) {
    if (change.kind == Change::Kind::anything) return pace_.hint_grants();
    // A renewal, most likely: the end of a lock that is known would be heard too.
    const bool is_known =
        change.kind == Change::Kind::written && locks_feed_ && model_.is_fresh(change.key, now);
    if (!is_known) pace_.hint_grant(change.key);
  }

  void hear_task(const Change& change, const Moment& now) {
    if (change.kind == Change::Kind::anything) return pace_.hint_anything();
    const auto queue = queue_name(change.key);
    auto [owner, id] = task_name(change.key);
    if (queue) {
      pace_.know_queue(*queue);
      if (change.kind != Change::Kind::stale_write) return;
      owner = queue_owner(*queue);
    }
    if (change.kind == Change::Kind::stale_write) {
      Event event;
      event.kind = EventKind::stale_write_refused;
      event.owner = owner;
      event.task_id = id;
      event.fence = change.refused;
      event.old_fence = change.highest;
      model_.report(std::move(event), now);
      is_changed_ = true;
    }
    if (!queue) pace_.hint_task(owner, id);
  }

  [[nodiscard]] bool has_viewers() const {
    const std::lock_guard guard(mutex_);
    return !callbacks_.empty();
  }

  void pause(const std::stop_token& stop) {
    std::unique_lock guard(mutex_);
    if (!stop.stop_requested()) changed_.wait_for(guard, milliseconds(200));
  }

  void read(const Reading& reading, const std::stop_token& stop) {
    const auto sent = BootClock::now();
    if (reading.begins_round) model_.begin_round(sent);
    ReadingResult result;
    try {
      reader_.read(reading, sent, result, stop);
      model_.set_reachable(this_moment());
      is_answered_ = true;
    } catch (const Error& error) {
      if (stop.stop_requested()) return;
      result.answered = false;
      model_.set_unreachable(error.code(), text_of(error), this_moment());
      is_answered_ = false;
      is_changed_ = true;
    }
    const auto now = this_moment();
    Completed completed{};
    {
      const std::lock_guard guard(mutex_);
      completed = pace_.finished(reading, result, now.boot);
      for (const auto& key : model_.take_overdue(now, overdue_at_once)) pace_.hint_lock(key);
    }
    if (completed == Completed::locks) model_.end_locks(now);
    if (completed == Completed::tasks) model_.end_tasks(now);
    if (completed == Completed::queues) model_.end_queues(reader_.queues_beyond());
    is_changed_ = is_changed_ || reading.what != Reading::What::probe;
    is_urgent_ = is_urgent_ || (completed == Completed::tasks && !latest_->whole) ||
                 (completed == Completed::queues && !latest_->queues_known());
  }

  void publish_if_due() {
    const auto now = this_moment();
    if (!is_changed_ || (!is_urgent_ && now.boot < published_at_ + options_.between_snapshots)) return;
    is_changed_ = is_urgent_ = false;
    published_at_ = now.boot;
    auto snapshot = std::make_shared<const Snapshot>(model_.snapshot(now));
    std::map<std::uint64_t, std::shared_ptr<const Callback>> callbacks;
    {
      const std::lock_guard guard(mutex_);
      latest_ = snapshot;
      callbacks = callbacks_;
    }
    for (const auto& [id, callback] : callbacks) call(id, *callback, snapshot);
  }

  void call(std::uint64_t id, const Callback& callback, const std::shared_ptr<const Snapshot>& snapshot) {
    if (!callback) return;
    const std::lock_guard running(calling_);
    {
      const std::lock_guard guard(mutex_);
      if (!callbacks_.contains(id)) return;
    }
    try {
      callback(snapshot);
    } catch (...) {  // NOLINT(bugprone-empty-catch): a viewer's problem is not the others'
    }
  }

  const Holdfast store_;
  const Options options_;

  // Of the reading thread alone.
  std::unique_ptr<Following> locks_feed_, tasks_feed_, grants_feed_;  ///< null: not followed
  BootTime follow_at_ = {}, follow_grants_at_ = {};
  bool is_answered_ = false;  ///< the last reading
  StoreModel model_;
  StoreReader reader_{store_, options_.pace.max_queues, model_};
  BootTime published_at_ = {};
  bool is_changed_ = false;
  bool is_urgent_ = false;

  /// Held while a callback runs; before `mutex_`.
  std::mutex calling_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  ReadPace pace_;
  std::shared_ptr<const Snapshot> latest_;
  std::vector<Change> broken_;  ///< by this process, not yet known to the model
  bool news_ = false;           ///< there is something to hear
  std::map<std::uint64_t, std::shared_ptr<const Callback>> callbacks_;
  std::uint64_t last_id_ = 0;
  std::jthread thread_;
  std::thread::id reading_thread_;
};

StoreView::Options StoreView::options_for(const Holdfast& store) {
  Options options;
  if (store.locks().capabilities().backend != "redis") {
    options.pace.share = 0.05;
    options.pace.first_share = 1;
  }
  return options;
}

StoreView::StoreView(Holdfast store, const Options& options)
    : worker_(std::make_shared<Worker>(std::move(store), options)) {}

StoreView::StoreView(Holdfast store) : StoreView(store, options_for(store)) {}

StoreView::~StoreView() {
  worker_->stop();
}

std::shared_ptr<const Snapshot> StoreView::latest() const {
  return worker_->latest();
}

StoreView::Subscription StoreView::subscribe(Callback callback) {
  const auto id = worker_->subscribe(std::move(callback));
  return {worker_, id};
}

void StoreView::refresh_lock(std::string_view key) {
  worker_->hint([&](ReadPace& pace) { pace.hint_lock(key); });
}

void StoreView::refresh_broken_lock(std::string_view key) {
  worker_->hear_break(key);
}

void StoreView::refresh_task(std::string_view owner, std::string_view id) {
  worker_->hint([&](ReadPace& pace) { pace.hint_task(owner, id); });
}

void StoreView::Subscription::end() noexcept {
  if (const auto worker = std::exchange(worker_, {}).lock()) worker->unsubscribe(id_);
}

StoreView::Subscription& StoreView::Subscription::operator=(Subscription&& other) noexcept {
  if (this != &other) {
    end();
    worker_ = std::move(other.worker_);
    id_ = other.id_;
  }
  return *this;
}

StoreView::Subscription::~Subscription() {
  end();
}

}  // namespace holdfast::view
