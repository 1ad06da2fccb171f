#include "waiting/wake_listener.hpp"

#include <climits>
#include <system_error>

#include "os/random.hpp"
#include "os/thread.hpp"
#include "runtime/worker_pool.hpp"

namespace holdfast::waiting {
namespace {

/// The channel of the followers: behind that of the last word.
constexpr std::pair<std::size_t, std::uint64_t> any_key{WakeWords::word_count, 0};
constexpr std::uint32_t every_listener = 1;  ///< the bit that the mask of each listener has

std::uint32_t random_mask() {
  return std::uint32_t{2} << static_cast<unsigned>(os::jitter_fraction() * 30);
}

}  // namespace

WakeListener::WakeListener(std::shared_ptr<MappedWakeWords> words)
    : words_(std::move(words)), own_mask_(random_mask()), waits_(mutex_, [this] { rouse(); }) {}

void WakeListener::notify(const MappedWakeWords& words, WakeWords::Place place) noexcept {
  words->counts[place.word()][place.bit()].fetch_add(1);
  words->news[place.word()].fetch_add(1);
  words->bell.fetch_add(1);
  if (words->bell_sleepers.load() != 0) os::futex_wake(words->bell, INT_MAX, every_listener, words.scope());
}

bool WakeListener::start() {
  const std::lock_guard lock(mutex_);
  try {
    if (!thread_.joinable()) thread_ = os::start_thread([self = shared_from_this()] { self->run(); });
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

void WakeListener::begin_wait(Waiter& waiter, BootTime look_again_at, BootTime deadline,
                              const std::stop_token& stop, Done<bool> woken) {
  auto& word = words_->word_of(waiter.place);
  auto wait = waits_.make(look_again_at, deadline, stop,
                          [this, &word, &waiter, done = std::move(woken)](Result<bool> answer) mutable {
                            {
                              const std::lock_guard lock(mutex_);
                              leave(waiter);
                            }
                            // The waiter tries after this, if at all, so it sees the present state.
                            waiter.seen = word.changes.load();
                            done(std::move(answer));
                          });
  std::unique_lock lock(mutex_);
  enter(waiter);
  auto& queue = waiter.channel_->second.queue;
  // A change from before we listened is not announced.
  if (word.changes.load() != waiter.seen) queue.wake(waiter.queued_);
  const auto ended = queue.begin(waiter.queued_, std::move(wait));
  lock.unlock();
  if (ended) ended->complete();
}

void WakeListener::begin_follow(Follower& follower, BootTime deadline, const std::stop_token& stop,
                                Done<bool> woken) {
  auto wait = waits_.make(deadline, deadline, stop,
                          [this, &follower, done = std::move(woken)](const Result<bool>& answer) mutable {
                            {
                              const std::lock_guard lock(mutex_);
                              leave(follower.channel_, follower.queued_);
                            }
                            // A change may have come after the wait ended for another reason.
                            const auto now = all_changes();
                            const bool changed = (answer && *answer) || now != follower.seen_;
                            follower.seen_ = now;
                            done(changed);
                          });
  std::unique_lock lock(mutex_);
  if (channels_.empty()) (*words_)->listeners.fetch_add(1);
  follower.channel_ = channels_.try_emplace(any_key, Wakes::all, waits_, 0).first;
  auto& queue = follower.channel_->second.queue;
  follower.queued_ = queue.enter();
  // As for one key: a change from before we listened is not announced.
  if (all_changes() != follower.seen_) queue.wake(follower.queued_);
  const auto ended = queue.begin(follower.queued_, std::move(wait));
  lock.unlock();
  if (ended) ended->complete();
}

std::uint64_t WakeListener::all_changes() const noexcept {
  std::uint64_t sum = 0;
  for (const auto& word : (*words_)->words) sum += word.changes.load();
  return sum;
}

void WakeListener::enter(Waiter& waiter) {
  if (channels_.empty()) (*words_)->listeners.fetch_add(1);
  const auto word = waiter.place.word();
  auto& count = (*words_)->counts[word][waiter.place.bit()];
  waiter.channel_ =
      channels_.try_emplace({word, waiter.place.hash}, waiter.wakes, waits_, count.load()).first;
  waiter.queued_ = waiter.channel_->second.queue.enter(waiter.number_);
}

void WakeListener::leave(Channels::iterator channel, WakeQueue::Place queued) {
  auto& queue = channel->second.queue;
  queue.leave(queued);
  if (queue.empty()) channels_.erase(channel);
  if (channels_.empty()) (*words_)->listeners.fetch_sub(1);
}

void WakeListener::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (!thread_.joinable()) return;
    rouse();
  }
  if (runtime::WorkerPool::on_library_thread()) {
    thread_.detach();  // it shares ownership of this
  } else {
    thread_.join();
  }
}

void WakeListener::run() {
  const runtime::LibraryThread mark;
  auto& bell = (*words_)->bell;
  auto& bell_sleepers = (*words_)->bell_sleepers;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto heard = bell.load();
    collect_changes();
    const BootTime now = BootClock::now();
    waits_.end_due(now);
    if (waits_.any_ended()) {
      auto ended = waits_.take_ended();
      lock.unlock();
      for (auto& wait : ended) wait->complete();
      ended.clear();
      lock.lock();
      continue;
    }
    const BootTime until = waits_.next();
    asleep_ = true;
    lock.unlock();
    bell_sleepers.fetch_add(1);
    (void)os::futex_wait(bell, heard, until == never ? os::no_futex_limit : until - now,
                         own_mask_ | every_listener, words_->scope());
    bell_sleepers.fetch_sub(1);
    lock.lock();
    asleep_ = false;
  }
}

void WakeListener::collect_changes() {
  if (channels_.empty()) return;
  bool any = false;
  for (std::size_t word = 0; word < WakeWords::word_count; ++word) {
    const auto news = (*words_)->news[word].load();
    if (std::exchange(seen_news_[word], news) == news) continue;
    any = true;
    for (auto at = channels_.lower_bound({word, 0}); at != channels_.end() && at->first.first == word; ++at) {
      auto& [key, channel] = *at;
      const WakeWords::Place place{key.second};
      const auto count = (*words_)->counts[word][place.bit()].load();
      channel.queue.wake(count - std::exchange(channel.seen, count));
    }
  }
  const auto followers = any ? channels_.find(any_key) : channels_.end();
  if (followers != channels_.end()) followers->second.queue.wake();
}

void WakeListener::rouse() noexcept {
  if (!std::exchange(asleep_, false)) return;
  (*words_)->bell.fetch_add(1);
  os::futex_wake((*words_)->bell, INT_MAX, own_mask_, words_->scope());
}

}  // namespace holdfast::waiting
