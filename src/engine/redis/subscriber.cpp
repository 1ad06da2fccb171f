#include "engine/redis/subscriber.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "engine/redis/conn/leadership.hpp"
#include "engine/redis/conn/subscription_link.hpp"
#include "engine/redis/conn/subscriptions.hpp"
#include "engine/redis/wire/errors.hpp"
#include "os/event.hpp"
#include "os/process.hpp"
#include "os/thread.hpp"
#include "runtime/worker_pool.hpp"
#include "waiting/change_queue.hpp"

namespace holdfast::redis {
namespace {

using std::chrono::milliseconds;
using waiting::WakeQueue;

/// How long `watch` waits for the server's confirmation before it continues without.
constexpr milliseconds longest_confirmation = std::chrono::seconds(1);

thread_local const Client* guest_of = nullptr;

}  // namespace

/// Shared by the watches and the thread. One of them at a time, the leader, reads and writes the connection.
class Subscriber::State : public std::enable_shared_from_this<State> {
 public:
  State(std::shared_ptr<const Endpoint> endpoint, std::shared_ptr<Log> log, const Purpose& purpose,
        std::shared_ptr<Client> client, Channels channels, WhereToListen where)
      : endpoint_(std::move(endpoint)),
        log_(std::move(log)),
        purpose_(purpose),
        client_(std::move(client)),
        channels_(channels),
        where_(std::move(where)) {}

  /// What a feed has heard and not delivered yet.
  struct Heard {
    MeaningOf meaning_of;
    waiting::ChangeQueue changes = waiting::ChangeQueue();
  };

  struct Link;
  struct Waiters {
    Waiters(Wakes wakes, waiting::IdleWaits& idle_waits, std::condition_variable& any_settled, Link& its_link)
        : queue(wakes, idle_waits), arrivals(Wakes::all, idle_waits), settled(any_settled), link(&its_link) {
      queue.set_silent(true);
    }
    void hear(std::string_view channel, std::string_view payload) {
      for (auto* feed : feeds) {
        if (auto change = feed->meaning_of(channel, payload)) feed->changes.add(*std::move(change));
      }
      queue.wake();
    }
    void wake() {
      for (auto* feed : feeds) feed->changes.add({});
      queue.wake();
    }
    void set_silent(bool silent) { queue.set_silent(silent); }
    void settle() {
      arrivals.wake();
      settled.notify_all();
    }
    WakeQueue queue;
    WakeQueue arrivals;  ///< waits without a thread, until the topic is settled
    std::condition_variable& settled;
    Link* link;                 ///< that has the topic
    std::vector<Heard*> feeds;  ///< of a pattern
  };
  using Topics = Subscriptions<Waiters>;

  struct Link : SubscriptionLink<Topics> {
    using SubscriptionLink::SubscriptionLink;
  };

  struct Place {
    Topics::Place topic;
    WakeQueue::Place waiter;
  };

  Place enter(const std::string& channel, Wakes wakes, BootTime deadline, const std::stop_token& stop) {
    return enter_and_wait([&] { return enter(channel, wakes); }, deadline, stop);
  }
  /// The same for a feed of a pattern.
  Place follow(const std::string& pattern, Heard& feed, BootTime deadline, const std::stop_token& stop) {
    return enter_and_wait([&] { return enter(pattern, feed); }, deadline, stop);
  }

  /// The same without blocking; `entered` gets the place.
  template <class Entered>
  void begin_enter(const std::string& channel, Wakes wakes, BootTime deadline, const std::stop_token& stop,
                   Entered entered) {
    Lock lock(mutex_);
    const Place place = enter(channel, wakes);
    begin_use_of(lock, place, deadline, stop, std::move(entered));
  }
  template <class Entered>
  void begin_follow(const std::string& pattern, Heard& feed, BootTime deadline, const std::stop_token& stop,
                    Entered entered) {
    Lock lock(mutex_);
    const Place place = enter(pattern, feed);
    begin_use_of(lock, place, deadline, stop, std::move(entered));
  }

  [[nodiscard]] bool refused(Place place) {
    const std::lock_guard lock(mutex_);
    return place.topic->second.refused();
  }

  [[nodiscard]] std::vector<Change> take(Heard& feed) {
    const std::lock_guard lock(mutex_);
    return feed.changes.take();
  }

  void leave(Place place, const Heard& feed) {
    {
      const std::lock_guard lock(mutex_);
      std::erase(place.topic->second.waiters.feeds, &feed);
    }
    leave(place);
  }

  void leave(Place place) {
    const std::lock_guard lock(mutex_);
    auto& queue = place.topic->second.waiters.queue;
    queue.leave(place.waiter);
    if (queue.empty()) place.topic->second.waiters.link->topics.unwatch(place.topic, BootClock::now());
  }

  /// noexcept: other threads hold the address of a waiter.
  bool sleep(Place place, BootTime look_again_at, BootTime deadline, const std::stop_token& stop) noexcept {
    Lock lock(mutex_);
    // The subscriber's thread stops reading: a message that a sleeper reads itself needs no further wake-up.
    if (thread_polls_) rouse_thread();
    const auto pause = [&](Lock& held, waiting::QueuedWaiter& waiter, BootTime until) {
      leadership_.step(
          waiter,
          [&] {
            waiter.polls = &wake_;
            turn(held, until);
            waiter.polls = nullptr;
          },
          [&] { waiter.changed.wait_for(held, short_of(until - BootClock::now())); });
    };
    const bool woken =
        place.topic->second.waiters.queue.sleep(lock, place.waiter, look_again_at, deadline, stop, pause);
    appoint();
    return woken;
  }

  /// Returns false, and does nothing, if there is no thread that would end the wait.
  bool begin_wait(Place place, BootTime look_again_at, BootTime deadline, const std::stop_token& stop,
                  Done<bool>& woken) {
    {
      const std::lock_guard lock(mutex_);
      if (!start_thread()) return false;
    }
    auto wait = idle_waits_.make(look_again_at, deadline, stop, std::move(woken));
    Lock lock(mutex_);
    const auto ended = place.topic->second.waiters.queue.begin(place.waiter, std::move(wait));
    lock.unlock();
    if (ended) ended->complete();
    return true;
  }

  void wake(std::string_view channel) {
    const std::lock_guard lock(mutex_);
    for (const auto& link : links_) {
      if (auto* waiters = link->topics.waiters_of(channel)) waiters->queue.wake();
    }
  }

  [[nodiscard]] Wakes wakes() const noexcept { return purpose_.wakes; }

  void pass_on(Place place) {
    const std::lock_guard lock(mutex_);
    place.topic->second.waiters.queue.pass_on(place.waiter);
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.set();
    idle_.notify_one();
    if (!thread_.joinable()) return;
    if (runtime::WorkerPool::on_library_thread()) {
      thread_.detach();  // it shares ownership of this state
    } else {
      thread_.join();
    }
  }

  [[nodiscard]] bool in_own_process() const noexcept { return process_.is_current(); }

 private:
  using Lock = WakeQueue::Lock;

  /// `enter()` is called under the mutex. Then waits until its subscription is settled, or for a while.
  template <class Enter>
  Place enter_and_wait(const Enter& enter, BootTime deadline, const std::stop_token& stop) {
    // Constructed and destroyed without the mutex, which it locks.
    const std::stop_callback interrupt(stop, [this] {
      const std::lock_guard lock(mutex_);
      settled_.notify_all();
    });
    Lock lock(mutex_);
    const Place place = enter();
    auto& topic = place.topic->second;
    if (start_thread()) {
      settled_.wait_for(lock, confirmation_timeout(deadline),
                        [&] { return topic.settled() || stop.stop_requested(); });
    }
    topic.begin_use();
    return place;
  }

  /// Continues with `entered` when the place's subscription is settled, or after a while.
  template <class Entered>
  void begin_use_of(Lock& lock, Place place, BootTime deadline, const std::stop_token& stop,
                    Entered entered) {
    auto& topic = place.topic->second;
    if (topic.settled() || !start_thread()) {
      topic.begin_use();
      lock.unlock();
      return entered(place);
    }
    const auto arrival = topic.waiters.arrivals.enter();
    lock.unlock();
    const BootTime until = saturating_add(BootClock::now(), confirmation_timeout(deadline));
    auto wait =
        idle_waits_.make(until, until, stop,
                         [this, place, arrival, entered = std::move(entered)](const Result<bool>&) mutable {
                           {
                             const std::lock_guard inner(mutex_);
                             place.topic->second.waiters.arrivals.leave(arrival);
                             place.topic->second.begin_use();
                           }
                           entered(place);
                         });
    lock.lock();
    const auto ended = topic.waiters.arrivals.begin(arrival, std::move(wait));
    lock.unlock();
    if (ended) ended->complete();
  }

  Place enter(const std::string& channel, Wakes wakes) {
    auto& link = link_of(channel);
    const auto [topic, is_new] = link.topics.watch(channel, wakes, idle_waits_, settled_, link);
    return enter(topic, is_new);
  }
  Place enter(const std::string& pattern, Heard& feed) {
    auto& link = link_of(pattern);
    const auto [topic, is_new] = link.topics.watch_pattern(pattern, Wakes::all, idle_waits_, settled_, link);
    topic->second.waiters.feeds.push_back(&feed);
    return enter(topic, is_new);
  }
  Place enter(Topics::Place topic, bool is_new) {
    if (is_new) {
      if (thread_asleep_) rouse_thread();
      if (leadership_.led() && !thread_polls_) wake_.set();
    }
    return {topic, topic->second.waiters.queue.enter()};
  }

  /// The link that serves a new topic; or the one that has this topic.
  Link& link_of(const std::string& channel) {
    for (const auto& link : links_) {
      if (link->topics.contains(channel)) return *link;
    }
    return link_at(channel);
  }
  /// The link that serves the channel according to the newest map.
  Link& link_at(const std::string& channel) {
    const bool sharded = channels_ == Channels::sharded;
    const auto server = sharded ? where_.server_of(channel) : endpoint_;
    const auto found = std::ranges::find(links_, server, [](const auto& link) { return link->endpoint; });
    if (found != links_.end()) return **found;
    PickEndpoint pick;
    if (!sharded && where_.server_of) pick = [this] { return where_.server_of({}); };
    return *links_.emplace_back(
        std::make_unique<Link>(server, std::move(pick), endpoint_->options().command_timeout, channels_));
  }

  /// Moves topics to the masters that have their slots now.
  void reroute(BootTime now) {
    if (channels_ != Channels::sharded || now < reroute_at_) return;
    reroute_at_ = now + std::chrono::milliseconds(200);
    std::vector<Link*> known;  // link_at may add others
    known.reserve(links_.size());
    for (const auto& link : links_) known.push_back(link.get());
    for (Link* link : known) {
      auto moving =
          link->topics.take_unserved([&](const std::string& channel) { return &link_at(channel) != link; });
      for (auto& topic : moving) {
        auto& target = link_at(topic.key());
        topic.mapped().waiters.link = &target;
        target.topics.add(std::move(topic));
      }
    }
  }

  [[nodiscard]] bool has_topics() const noexcept {
    return std::ranges::any_of(links_, [](const auto& link) { return !link->topics.empty(); });
  }

  /// How long to wait for the server's confirmation.
  [[nodiscard]] BootClock::duration confirmation_timeout(BootTime deadline) const {
    return std::min<BootClock::duration>(
        {longest_confirmation, endpoint_->options().command_timeout, deadline - BootClock::now()});
  }

  /// False if the machine has no thread left: then only sleepers read the connection.
  bool start_thread() {
    try {
      if (!thread_.joinable()) thread_ = os::start_thread([self = shared_from_this()] { self->run(); });
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  }

  /// The thread: completes idle waits, and reads the connection while no sleeper can.
  void run() {
    const runtime::LibraryThread mark;
    guest_of = client_.get();
    Lock lock(mutex_);
    while (!stopping_) {
      const BootTime now = BootClock::now();
      idle_waits_.end_due(now);
      if (idle_waits_.any_ended()) {
        complete_ended(lock);
        continue;
      }
      thread_asleep_ = true;
      if (leadership_.led() || leadership_.has_followers()) {
        leave_client(lock);
        if (thread_asleep_ && !stopping_) doze(lock, idle_waits_.next() - now);
      } else {
        thread_polls_ = true;
        leadership_.lead([&] { turn(lock, idle_waits_.next()); });
        thread_polls_ = false;
        appoint();
      }
      thread_asleep_ = false;
    }
    leave_client(lock);
  }

  /// Leaves the I/O of this thread's calls to others.
  void leave_client(Lock& lock) {
    if (!client_) return;
    lock.unlock();
    (void)client_->lead_as_guest({}, never, nullptr);
    lock.lock();
  }

  void complete_ended(Lock& lock) {
    auto ended = idle_waits_.take_ended();
    lock.unlock();
    for (auto& wait : ended) wait->complete();
    ended.clear();
    lock.lock();
  }

  void doze(Lock& lock, BootClock::duration at_most) {
    if (idle_waits_.next() == never) return idle_.wait(lock);
    idle_.wait_for(lock, short_of(at_most));
  }

  /// Short sleeps, because the clock of a condition variable stands still while the machine is suspended.
  static BootClock::duration short_of(BootClock::duration sleep) {
    return std::min<BootClock::duration>(sleep, std::chrono::seconds(1));
  }

  /// Wakes the thread: it has work to do.
  void rouse_thread() noexcept {
    if (!std::exchange(thread_asleep_, false)) return;
    if (thread_polls_) {
      wake_.set();
    } else {
      idle_.notify_one();
    }
  }

  /// Finds the next to read the connection: a sleeper, else the thread.
  void appoint() {
    if (!leadership_.appoint()) rouse_thread();
  }

  /// Serves the connections, sleeps once, then processes the input.
  void turn(Lock& lock, BootTime until) {
    const BootTime now = BootClock::now();
    reroute(now);
    if (serve_all(now)) return;  // a connection was just made: it is used before any sleep
    polled_.assign(1, {.fd = wake_.descriptor(), .events = POLLIN, .revents = 0});
    BootClock::duration nap = milliseconds(500);
    for (const auto& link : links_) {
      polled_.push_back(link->to_poll());
      nap = std::min<BootClock::duration>(nap, link->nap(now));
    }
    nap = std::min<BootClock::duration>(nap, until - now);
    const bool idle = !has_topics();
    const bool lends = thread_polls_ && client_;
    lock.unlock();
    if (!lends || !client_->lead_as_guest(polled_, idle ? never : saturating_add(now, nap), &wake_)) {
      // Without the time that the client used meanwhile.
      const auto left = std::max<BootClock::rep>((nap - (BootClock::now() - now)).count(), 0);
      const timespec timeout{.tv_sec = 0, .tv_nsec = left};
      ppoll(polled_.data(), polled_.size(), idle ? nullptr : &timeout, nullptr);
    }
    if (polled_[0].revents != 0) wake_.clear();
    lock.lock();
    if (thread_polls_) thread_asleep_ = false;
    for (std::size_t i = 1; i < polled_.size(); ++i) {
      // Others may have been added since, behind these.
      auto& link = *links_[i - 1];
      const auto moved = [&](const RedisAddress& announced) {
        if (where_.moved) where_.moved(*link.endpoint, announced);
      };
      if (const auto refused = link.process_input(polled_[i].revents != 0, moved)) report_refusal(*refused);
    }
  }

  /// Returns whether a connection was made.
  bool serve_all(BootTime now) {
    bool made = false;
    for (const auto& link : links_) made |= link->serve(now);
    return made;
  }

  void report_refusal(const Error& error) {
    if (!log_ || std::exchange(reported_, true)) return;
    log_->write(LogLevel::warning,
                endpoint_->name() + ": " + std::string(purpose_.unheard) + " (" + error.cause() + ")");
  }

  const std::shared_ptr<const Endpoint> endpoint_;
  const std::shared_ptr<Log> log_;
  const Purpose purpose_;
  const std::shared_ptr<Client> client_;  ///< may be null
  const Channels channels_;
  const WhereToListen where_;  ///< has its functions if the channels are sharded
  const os::ProcessIdentity process_;
  os::Event wake_;

  std::mutex mutex_;
  waiting::IdleWaits idle_waits_{mutex_, [this] { rouse_thread(); }};
  std::condition_variable settled_;  ///< some topic was confirmed or refused
  bool stopping_ = false;
  std::thread thread_;
  bool thread_polls_ = false;  ///< the thread leads
  bool thread_asleep_ = false;
  std::condition_variable idle_;
  Leadership<waiting::QueuedWaiter, &waiting::QueuedWaiter::poke> leadership_;  ///< the followers sleep

  /// One, or one for each master of a cluster whose channels were watched; they stay.
  std::vector<std::unique_ptr<Link>> links_;

  // Used by the leader only.
  std::vector<pollfd> polled_;
  BootTime reroute_at_{};
  bool reported_ = false;  ///< that the server refuses subscriptions
};

class Subscriber::ChannelWatch final : public Watch {
 public:
  ChannelWatch(std::shared_ptr<State> state, State::Place place) : state_(std::move(state)), place_(place) {}
  ~ChannelWatch() override {
    if (state_->in_own_process()) state_->leave(place_);
  }
  void wait(BootTime look_again_at, BootTime deadline, std::stop_token stop, Done<bool> woken) override {
    if (!state_->in_own_process()) return woken(false);
    if (woken.is_awaited()) return woken(state_->sleep(place_, look_again_at, deadline, stop));
    if (!state_->begin_wait(place_, look_again_at, deadline, stop, woken)) {
      woken(Error(ErrorCode::Internal, "cannot start the thread that receives wake-ups"));
    }
  }
  void pass_on() noexcept override {
    if (state_->in_own_process()) state_->pass_on(place_);
  }

 private:
  std::shared_ptr<State> state_;
  State::Place place_;
};

class Subscriber::PatternFeed final : public ChangeFeed {
 public:
  PatternFeed(std::shared_ptr<State> state, State::Place place, std::unique_ptr<State::Heard> heard)
      : state_(std::move(state)), place_(place), heard_(std::move(heard)) {}
  ~PatternFeed() override {
    if (state_->in_own_process()) {
      state_->leave(place_, *heard_);
    } else {
      static_cast<void>(heard_.release());  // the leaked state refers to it
    }
  }

  void wait(BootTime deadline, std::stop_token stop, Done<std::vector<Change>> changes) override {
    if (!state_->in_own_process()) return changes(os::used_after_fork());
    if (auto there = state_->take(*heard_); !there.empty()) return changes(std::move(there));
    Done<bool> woken(
        [this, done = std::move(changes)](const Result<bool>&) mutable { done(state_->take(*heard_)); });
    if (!state_->begin_wait(place_, deadline, deadline, stop, woken)) {
      woken(Error(ErrorCode::Internal, "cannot start the thread that receives messages"));
    }
  }

 private:
  std::shared_ptr<State> state_;
  State::Place place_;
  std::unique_ptr<State::Heard> heard_;
};

Subscriber::Subscriber(std::shared_ptr<const Endpoint> endpoint, std::shared_ptr<Log> log,
                       const Purpose& purpose, std::shared_ptr<Client> client, Channels channels,
                       WhereToListen where)
    // A forked child leaks its copy untouched: the thread does not exist there, the socket is the parent's.
    : state_(new State(std::move(endpoint), std::move(log), purpose, std::move(client), channels,
                       std::move(where)),
             [](State* state) {
               if (state->in_own_process()) delete state;
             }) {}

bool Subscriber::lends_this_thread_to(const Client& client) noexcept {
  return guest_of == &client;
}

Subscriber::~Subscriber() {
  if (state_->in_own_process()) state_->stop();
}

void Subscriber::watch(const std::string& channel, BootTime deadline, const std::stop_token& stop,
                       Done<std::unique_ptr<Watch>> done) {
  watch(channel, state_->wakes(), deadline, stop, std::move(done));
}

void Subscriber::watch(const std::string& channel, Wakes wakes, BootTime deadline,
                       const std::stop_token& stop, Done<std::unique_ptr<Watch>> done) {
  if (done.is_awaited()) {
    return done(std::make_unique<ChannelWatch>(state_, state_->enter(channel, wakes, deadline, stop)));
  }
  state_->begin_enter(channel, wakes, deadline, stop,
                      [state = state_, done = std::move(done)](State::Place place) mutable {
                        done(std::make_unique<ChannelWatch>(std::move(state), place));
                      });
}

std::function<void()> Subscriber::waker_of(std::string channel) {
  return [state = std::weak_ptr(state_), channel = std::move(channel)] {
    const auto alive = state.lock();
    if (alive && alive->in_own_process()) alive->wake(channel);
  };
}

void Subscriber::follow(const std::string& pattern, MeaningOf meaning_of, BootTime deadline,
                        const std::stop_token& stop, Done<std::unique_ptr<ChangeFeed>> done) {
  auto heard = std::make_unique<State::Heard>(std::move(meaning_of));
  auto& feed = *heard;
  const bool is_awaited = done.is_awaited();
  auto entered = [state = state_, owned = std::move(heard),
                  done = std::move(done)](State::Place place) mutable {
    const bool refused = state->refused(place);
    auto made = std::make_unique<PatternFeed>(std::move(state), place, std::move(owned));
    done(refused ? nullptr : std::unique_ptr<ChangeFeed>(std::move(made)));
  };
  if (is_awaited) return entered(state_->follow(pattern, feed, deadline, stop));
  state_->begin_follow(pattern, feed, deadline, stop, std::move(entered));
}

}  // namespace holdfast::redis
