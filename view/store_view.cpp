#include "view/store_view.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <ctime>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <stop_token>
#include <thread>
#include <type_traits>

#include "view/following.hpp"
#include "view/rows.hpp"
#include "view/store_model.hpp"

namespace holdfast::view {
namespace {

using std::chrono::milliseconds;

/// Costs the store next to nothing, and is not a key that is in use.
constexpr std::string_view probed_key = "holdfast-view-probe";
/// As many as one task page may have: their data travels with them.
constexpr std::size_t tasks_per_page = 100;
/// How often waiters are counted, where no lock has to be read.
constexpr std::chrono::seconds count_interval{2};
/// After which a page that is not answered means that the store is unreachable.
constexpr std::chrono::seconds page_patience{2};
/// After which a feed that could not be opened is tried again.
constexpr std::chrono::seconds follow_again_after{5};
/// The same for a feed of grants, which most engines do not have.
constexpr std::chrono::minutes follow_grants_again_after{1};
/// How many expired leases are looked after with each reading.
constexpr std::size_t overdue_at_once = 50;

/// Processor time of this thread.
BootClock::duration own_time() noexcept {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

Moment this_moment() {
  return {.boot = BootClock::now(),
          .wall = std::chrono::floor<milliseconds>(std::chrono::system_clock::now())};
}

std::string text_of(const Error& error) {
  return error.cause().empty() ? error.message() : error.message() + " (" + error.cause() + ")";
}

}  // namespace

/// Everything but the interface: subscriptions outlive it, so they refer to it weakly.
class StoreView::Reader {
 public:
  Reader(Holdfast store, const Options& options)
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
      tasks_feed_ = following(tasks().follow(stop));
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
      owner = "queue " + *queue;
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
    spent_ = {};
    try {
      ask(reading, sent, result, stop);
      model_.set_reachable(this_moment());
      is_answered_ = true;
    } catch (const Error& error) {
      if (stop.stop_requested()) return;
      result.answered = false;
      model_.set_unreachable(text_of(error), this_moment());
      is_answered_ = false;
      is_changed_ = true;
    }
    const auto now = this_moment();
    result.took = spent_;
    Completed completed{};
    {
      const std::lock_guard guard(mutex_);
      completed = pace_.finished(reading, result, now.boot);
      for (const auto& key : model_.take_overdue(now, overdue_at_once)) pace_.hint_lock(key);
    }
    if (completed == Completed::locks) model_.end_locks(now);
    if (completed == Completed::tasks) model_.end_tasks(now);
    if (completed == Completed::queues) model_.end_queues(queues_beyond_);
    is_changed_ = is_changed_ || reading.what != Reading::What::probe;
    is_urgent_ = is_urgent_ || (completed == Completed::tasks && !latest_->whole) ||
                 (completed == Completed::queues && !latest_->queues_known());
  }

  void ask(const Reading& reading, BootTime sent, ReadingResult& result, const std::stop_token& stop) {
    const auto& locks = store_.locks();
    switch (reading.what) {
      case Reading::What::probe:
        static_cast<void>(timed([&] { return locks.is_locked(probed_key, stop); }));
        return;
      case Reading::What::lock_page:
        return read_locks(reading, sent, result, stop);
      case Reading::What::owners: {
        const auto& all = tasks();
        auto page =
            timed([&] { return all.owners({.cursor = reading.cursor, .limit = max_list_limit}, stop); });
        result.cursor = std::move(page.cursor);
        result.owners = std::move(page.owners);
        return;
      }
      case Reading::What::task_page:
        return read_tasks(reading, sent, result, stop);
      case Reading::What::locks:
        return read_single_locks(reading.keys, sent, result, stop);
      case Reading::What::task:
        return read_task(reading, sent, stop);
      case Reading::What::queues:
      case Reading::What::queue:
        return read_queues(reading, sent, result, stop);
    }
  }

  void read_queues(const Reading& reading, BootTime sent, ReadingResult& result,
                   const std::stop_token& stop) {
    try {
      if (reading.what == Reading::What::queue) return count_queue(reading.key, sent, stop);
      auto page = timed([&] { return store_.queues(reading.cursor, max_list_limit, stop); });
      if (reading.cursor.empty()) queues_found_ = 0;
      queues_found_ += page.queues.size();
      queues_beyond_ = queues_found_ - std::min(queues_found_, options_.pace.max_queues);
      result.cursor = std::move(page.cursor);
      result.owners = std::move(page.queues);
    } catch (const Error& error) {
      // A user without the rights that queues need, or invalid data, does not hide locks and tasks.
      if (error.transient() || stop.stop_requested()) throw;
    }
  }

  void count_queue(const std::string& name, BootTime sent, const std::stop_token& stop) {
    const auto queue = store_.queue(name);
    const auto counts = timed([&] { return queue.counts(stop); });
    // One whose tasks are all gone may still be found.
    const bool is_there = counts.records > 0 || counts.paused || counts.max_leased;
    model_.set_queue(name, is_there ? std::optional(row_of(name, counts)) : std::nullopt, sent);
  }

  /// Calls the store. A server works while this thread sleeps; an embedded store is this thread.
  template <class Call>
  std::invoke_result_t<const Call&> timed(const Call& call) {
    const auto begin = BootClock::now();
    const auto own = is_server_ ? own_time() : BootClock::duration();
    auto answer = call();
    spent_ += BootClock::now() - begin;
    if (is_server_) spent_ -= own_time() - own;
    return answer;
  }

  /// Locks that need not be read, as the model knows them. The model does not change while they are listed.
  class FreshLocks final : public KnownLocks {
   public:
    FreshLocks(const StoreModel& model, const Moment& now, const KeyWindow& due)
        : model_(model), now_(now), due_(due) {}
    [[nodiscard]] bool knows(std::string_view key) const noexcept override {
      return !due_.contains(key) && model_.is_fresh(key, now_);
    }

   private:
    const StoreModel& model_;
    const Moment now_;
    const KeyWindow due_;
  };

  void read_locks(const Reading& reading, BootTime sent, ReadingResult& result, const std::stop_token& stop) {
    const FreshLocks fresh(model_, this_moment(), reading.due);
    const ListLocks what{.cursor = reading.cursor,
                         .limit = max_list_limit,
                         .deadline = sent + page_patience,
                         .order = LockOrder::as_found,
                         .known = reading.all_locks ? nullptr : &fresh};
    const auto page = timed([&] { return store_.locks().list_raw(what, stop); });
    const auto answered = this_moment();
    std::vector<LockRow> rows;
    std::vector<LockKey> keys;
    rows.reserve(page.locks.size());
    keys.reserve(page.locks.size() + page.seen.size());
    for (const auto& record : page.locks) {
      rows.push_back(row_of(record));
      keys.push_back(record.key);
    }
    if (reading.begins_round) {
      counts_all_ = sent >= counted_at_ + count_interval;
      if (counts_all_) counted_at_ = sent;
    }
    for (const auto& key : page.seen) {
      if (!counts_all_) break;
      if (auto stored = LockKey::stored(key)) keys.push_back(*std::move(stored));
    }
    model_.add_locks(rows, {.sent = sent, .answered = answered});
    model_.see_locks(page.seen, sent);
    result.cursor = page.cursor;
    result.round_trips = 1 + (page.locks.empty() ? 0 : 1);
    count_waiters(keys, result, stop);
  }

  void read_single_locks(std::span<const std::string> hinted, BootTime sent, ReadingResult& result,
                         const std::stop_token& stop) {
    std::vector<LockKey> keys;
    keys.reserve(hinted.size());
    for (const auto& key : hinted) {
      if (auto stored = LockKey::stored(key)) keys.push_back(*std::move(stored));
    }
    if (keys.empty()) return;
    const ListLocks what{.deadline = sent + page_patience, .only = keys};
    const auto page = timed([&] { return store_.locks().list_raw(what, stop); });
    const Exchange exchange{.sent = sent, .answered = this_moment()};
    std::set<std::string_view> gone(hinted.begin(), hinted.end());
    std::vector<LockKey> held;
    held.reserve(page.locks.size());
    for (const auto& record : page.locks) {
      gone.erase(record.key.str());
      model_.set_lock(record.key.str(), row_of(record), exchange);
      held.push_back(record.key);
    }
    for (const auto key : gone) model_.set_lock(key, std::nullopt, exchange);
    if (!held.empty()) count_waiters(held, result, stop);
  }

  /// A user without the right to count sees the locks all the same.
  void count_waiters(std::span<const LockKey> keys, ReadingResult& result, const std::stop_token& stop) {
    try {
      // A page as found may be longer than a request to count.
      for (; !keys.empty() && may_count_; keys = keys.subspan(std::min(keys.size(), max_list_limit))) {
        const auto some = keys.first(std::min(keys.size(), max_list_limit));
        const auto counts = timed([&] { return store_.locks().count_waiters(some, stop); });
        ++result.round_trips;
        for (std::size_t i = 0; i < std::min(counts.size(), some.size()); ++i) {
          model_.set_waiters(some[i].str(), counts[i]);
        }
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::AuthFailed) throw;
      may_count_ = false;
    }
  }

  void read_tasks(const Reading& reading, BootTime sent, ReadingResult& result, const std::stop_token& stop) {
    try {
      const auto& all = tasks();
      const ListTasks what{.cursor = reading.cursor, .limit = tasks_per_page};
      const auto page = timed([&] { return all.list(reading.owner, what, stop); });
      std::vector<TaskRow> rows;
      rows.reserve(page.tasks.size());
      for (const auto& task : page.tasks) rows.push_back(row_of(task));
      model_.add_tasks(rows, {.sent = sent, .answered = this_moment()});
      model_.add_unreadable_tasks(page.unreadable.size());
      result.cursor = page.cursor;
    } catch (const Error& error) {
      // Invalid data of one owner does not hide the others.
      if (error.transient() || error.code() == ErrorCode::AuthFailed || stop.stop_requested()) throw;
      model_.keep_tasks_of(reading.owner, sent);
      model_.add_unreadable_tasks(1);
    }
  }

  void read_task(const Reading& reading, BootTime sent, const std::stop_token& stop) {
    std::optional<TaskRow> row;
    try {
      const auto& all = tasks();
      row = row_of(timed([&] { return all.get(reading.owner, reading.key, stop); }));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::Internal) return;  // unreadable: the next round counts it
      if (error.code() != ErrorCode::NotFound) throw;
    }
    model_.set_task(reading.owner, reading.key, row, {.sent = sent, .answered = this_moment()});
  }

  /// Opening the task store may fail, and is retried with the next reading that needs it.
  const Tasks& tasks() {
    if (!tasks_) tasks_.emplace(store_.tasks({.allow_anonymous = true}));
    return *tasks_;
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
  const bool is_server_ = store_.locks().capabilities().backend == "redis";

  // Of the reading thread alone.
  std::optional<Tasks> tasks_;
  std::unique_ptr<Following> locks_feed_, tasks_feed_, grants_feed_;  ///< null: not followed
  BootTime follow_at_ = {}, follow_grants_at_ = {};
  bool is_answered_ = false;  ///< the last reading
  StoreModel model_;
  BootClock::duration spent_ = {};  ///< by the store, for this reading
  BootTime published_at_ = {};
  bool is_changed_ = false;
  bool is_urgent_ = false;
  bool may_count_ = true;
  std::size_t queues_found_ = 0, queues_beyond_ = 0;  ///< names, in this round; how many are not counted
  bool counts_all_ = true;                            ///< waiters of locks that were not read, in this round
  BootTime counted_at_ = {};

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
    : reader_(std::make_shared<Reader>(std::move(store), options)) {}

StoreView::StoreView(Holdfast store) : StoreView(store, options_for(store)) {}

StoreView::~StoreView() {
  reader_->stop();
}

std::shared_ptr<const Snapshot> StoreView::latest() const {
  return reader_->latest();
}

StoreView::Subscription StoreView::subscribe(Callback callback) {
  const auto id = reader_->subscribe(std::move(callback));
  return {reader_, id};
}

void StoreView::refresh_lock(std::string_view key) {
  reader_->hint([&](ReadPace& pace) { pace.hint_lock(key); });
}

void StoreView::refresh_broken_lock(std::string_view key) {
  reader_->hear_break(key);
}

void StoreView::refresh_task(std::string_view owner, std::string_view id) {
  reader_->hint([&](ReadPace& pace) { pace.hint_task(owner, id); });
}

void StoreView::Subscription::end() noexcept {
  if (const auto reader = std::exchange(reader_, {}).lock()) reader->unsubscribe(id_);
}

StoreView::Subscription& StoreView::Subscription::operator=(Subscription&& other) noexcept {
  if (this != &other) {
    end();
    reader_ = std::move(other.reader_);
    id_ = other.id_;
  }
  return *this;
}

StoreView::Subscription::~Subscription() {
  end();
}

}  // namespace holdfast::view
