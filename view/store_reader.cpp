#include "view/store_reader.hpp"

#include <algorithm>
#include <ctime>
#include <set>
#include <utility>
#include <vector>

#include "view/rows.hpp"

namespace holdfast::view {
namespace {

/// Costs the store next to nothing, and is not a key that is in use.
constexpr std::string_view probed_key = "holdfast-view-probe";
/// The shortest counts. The first one may have to wake the server's process, as the requests of a page do
/// not: they follow one another, and would seem to cost less than they do.
constexpr int probes_in_a_row = 4;
/// As many as one task page may have: their data travels with them.
constexpr std::size_t tasks_per_page = 100;
/// As many failed tasks of a queue are read for their events, each time that there are more. The others are
/// counted: a queue that fails must not drive all other events out.
constexpr std::size_t failed_tasks_at_once = 5;
/// How often waiters are counted, where no lock has to be read.
constexpr std::chrono::seconds count_interval{2};
/// After which a page that is not answered means that the store is unreachable.
constexpr std::chrono::seconds page_timeout{2};

/// How often it is tried whether the user may read tasks, after a refusal.
constexpr std::chrono::seconds tasks_retry_interval{10};

/// This user may not read that: it is so until an operator changes it.
bool is_refusal(const Error& error, const std::stop_token& stop) {
  return error.code() == ErrorCode::AuthFailed && !error.transient() && !stop.stop_requested();
}

/// Processor time of this thread.
BootClock::duration own_time() noexcept {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
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

}  // namespace

StoreReader::StoreReader(Holdfast store, std::size_t max_queues, StoreModel& model)
    : store_(std::move(store)),
      is_server_(store_.locks().capabilities().backend == "redis"),
      max_queues_(max_queues),
      model_(model) {}

/// Calls the store. A server works while this thread sleeps; an embedded store is this thread.
template <class Call>
std::invoke_result_t<const Call&> StoreReader::timed(ReadingResult& result, const Call& call) {
  const auto begin = BootClock::now();
  const auto own = is_server_ ? own_time() : BootClock::duration();
  auto answer = call();
  result.took += BootClock::now() - begin;
  if (is_server_) result.took -= own_time() - own;
  return answer;
}

void StoreReader::read(const Reading& reading, BootTime sent, ReadingResult& result,
                       const std::stop_token& stop) {
  const auto& locks = store_.locks();
  switch (reading.what) {
    case Reading::What::probe:
      for (int i = 0; i < probes_in_a_row; ++i) {
        ReadingResult one;
        static_cast<void>(timed(one, [&] { return locks.is_locked(probed_key, stop); }));
        result.took = i == 0 ? one.took : std::min(result.took, one.took);
      }
      return;
    case Reading::What::lock_page:
      return read_locks(reading, sent, result, stop);
    case Reading::What::owners:
      return read_owners(reading, sent, result, stop);
    case Reading::What::task_page:
      return read_tasks(reading, sent, result, stop);
    case Reading::What::locks:
      return read_single_locks(reading.keys, sent, result, stop);
    case Reading::What::task:
      return read_task(reading, sent, result, stop);
    case Reading::What::queues:
    case Reading::What::queue:
      return read_queues(reading, sent, result, stop);
  }
}

void StoreReader::read_queues(const Reading& reading, BootTime sent, ReadingResult& result,
                              const std::stop_token& stop) {
  try {
    if (reading.what == Reading::What::queue) return count_queue(reading.key, sent, result, stop);
    auto page = timed(result, [&] { return store_.queues(reading.cursor, max_list_limit, stop); });
    if (page.queues.empty()) model_.set_queues_refused(false);
    if (reading.cursor.empty()) queues_found_ = 0;
    queues_found_ += page.queues.size();
    queues_beyond_ = queues_found_ - std::min(queues_found_, max_queues_);
    result.cursor = std::move(page.cursor);
    result.owners = std::move(page.queues);
  } catch (const Error& error) {
    // A user without the rights that queues need, or invalid data, does not hide locks and tasks.
    if (error.transient() || stop.stop_requested()) throw;
    if (is_refusal(error, stop)) model_.set_queues_refused(true);
  }
}

void StoreReader::count_queue(const std::string& name, BootTime sent, ReadingResult& result,
                              const std::stop_token& stop) {
  const auto queue = store_.queue(name);
  const auto counts = timed(result, [&] { return queue.counts(stop); });
  model_.set_queues_refused(false);
  // One whose tasks are all gone may still be found.
  const bool is_there = counts.records > 0 || counts.paused || counts.max_leased;
  const auto failed = model_.set_queue(name, is_there ? std::optional(row_of(name, counts)) : std::nullopt,
                                       {.sent = sent, .answered = this_moment()});
  if (failed > 0) read_failed_tasks(queue, failed, result, stop);
}

/// Those that failed last come first. A user who may not read them still sees how many there are.
void StoreReader::read_failed_tasks(const Queue& queue, std::size_t count, ReadingResult& result,
                                    const std::stop_token& stop) {
  std::vector<TaskRow> rows;
  try {
    ++result.round_trips;
    const auto page = timed(result, [&] {
      return queue.list({.status = TaskStatus::failed, .limit = std::min(count, failed_tasks_at_once)}, stop);
    });
    rows.reserve(page.tasks.size());
    for (const auto& task : page.tasks) rows.push_back(row_of(task));
  } catch (const Error& error) {
    model_.add_failed_tasks(queue.name(), {}, count, this_moment());
    if (error.transient() || stop.stop_requested()) throw;
    return;
  }
  model_.add_failed_tasks(queue.name(), rows, count - std::min(count, rows.size()), this_moment());
}

void StoreReader::read_locks(const Reading& reading, BootTime sent, ReadingResult& result,
                             const std::stop_token& stop) {
  const FreshLocks fresh(model_, this_moment(), reading.due);
  const ListLocks what{.cursor = reading.cursor,
                       .limit = max_list_limit,
                       .deadline = sent + page_timeout,
                       .order = LockOrder::as_found,
                       .known = reading.all_locks ? nullptr : &fresh};
  const auto page = timed(result, [&] { return store_.locks().list_raw(what, stop); });
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

void StoreReader::read_single_locks(std::span<const std::string> hinted, BootTime sent, ReadingResult& result,
                                    const std::stop_token& stop) {
  std::vector<LockKey> keys;
  keys.reserve(hinted.size());
  for (const auto& key : hinted) {
    if (auto stored = LockKey::stored(key)) keys.push_back(*std::move(stored));
  }
  if (keys.empty()) return;
  const ListLocks what{.deadline = sent + page_timeout, .only = keys};
  const auto page = timed(result, [&] { return store_.locks().list_raw(what, stop); });
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

void StoreReader::count_waiters(std::span<const LockKey> keys, ReadingResult& result,
                                const std::stop_token& stop) {
  try {
    // A page as found may be longer than a request to count.
    for (; !keys.empty() && may_count_; keys = keys.subspan(std::min(keys.size(), max_list_limit))) {
      const auto some = keys.first(std::min(keys.size(), max_list_limit));
      const auto counts = timed(result, [&] { return store_.locks().count_waiters(some, stop); });
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

void StoreReader::refuse_tasks(BootTime sent) {
  tasks_retry_at_ = sent + tasks_retry_interval;
  model_.refuse_tasks();
}

void StoreReader::read_owners(const Reading& reading, BootTime sent, ReadingResult& result,
                              const std::stop_token& stop) {
  if (sent < tasks_retry_at_) return model_.refuse_tasks();
  try {
    const auto& all = tasks();
    auto page =
        timed(result, [&] { return all.owners({.cursor = reading.cursor, .limit = max_list_limit}, stop); });
    result.cursor = std::move(page.cursor);
    result.owners = std::move(page.owners);
  } catch (const Error& error) {
    if (!is_refusal(error, stop)) throw;
    refuse_tasks(sent);
  }
}

void StoreReader::read_tasks(const Reading& reading, BootTime sent, ReadingResult& result,
                             const std::stop_token& stop) {
  if (sent < tasks_retry_at_) return model_.refuse_tasks();
  try {
    const auto& all = tasks();
    const ListTasks what{.cursor = reading.cursor, .limit = tasks_per_page};
    const auto page = timed(result, [&] { return all.list(reading.owner, what, stop); });
    std::vector<TaskRow> rows;
    rows.reserve(page.tasks.size());
    for (const auto& task : page.tasks) rows.push_back(row_of(task));
    model_.add_tasks(rows, {.sent = sent, .answered = this_moment()});
    model_.add_unreadable_tasks(page.unreadable.size());
    result.cursor = page.cursor;
  } catch (const Error& error) {
    if (is_refusal(error, stop)) return refuse_tasks(sent);
    // Invalid data of one owner does not hide the others.
    if (error.transient() || error.code() == ErrorCode::AuthFailed || stop.stop_requested()) throw;
    model_.keep_tasks_of(reading.owner, sent);
    model_.add_unreadable_tasks(1);
  }
}

void StoreReader::read_task(const Reading& reading, BootTime sent, ReadingResult& result,
                            const std::stop_token& stop) {
  std::optional<TaskRow> row;
  try {
    const auto& all = tasks();
    row = row_of(timed(result, [&] { return all.get(reading.owner, reading.key, stop); }));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::Internal) return;  // unreadable: the next round counts it
    if (is_refusal(error, stop)) return;              // the next round finds the same
    if (error.code() != ErrorCode::NotFound) throw;
  }
  model_.set_task(reading.owner, reading.key, row, {.sent = sent, .answered = this_moment()});
}

const Tasks& StoreReader::tasks() {
  if (!tasks_) tasks_.emplace(store_.tasks({.allow_anonymous = true}));
  return *tasks_;
}

}  // namespace holdfast::view
