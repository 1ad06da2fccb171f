#include "engine/redis/subscriber.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "engine/redis/conn/dialer.hpp"
#include "engine/redis/errors.hpp"
#include "engine/redis/wire/command.hpp"
#include "os/event.hpp"
#include "os/process.hpp"
#include "os/random.hpp"
#include "os/thread.hpp"
#include "runtime/worker_pool.hpp"

namespace holdfast::redis {
namespace {

using std::chrono::milliseconds;
using waiting::WakeQueue;

/// A channel without watches stays subscribed for this long: a key is often waited for again.
constexpr BootClock::duration linger = std::chrono::seconds(1);
/// How long `watch` waits for the server's confirmation before it continues without.
constexpr milliseconds longest_confirmation = std::chrono::seconds(1);
/// The server is probed after this much silence, or sooner if the command timeout is shorter.
constexpr milliseconds longest_silence = std::chrono::seconds(1);

thread_local const Client* guest_of = nullptr;

}  // namespace

/// Shared by the watches and the thread. One of them at a time, the leader, reads and writes the connection.
class Subscriber::State : public std::enable_shared_from_this<State> {
 public:
  State(std::shared_ptr<const Endpoint> endpoint, std::shared_ptr<Log> log, const Purpose& purpose,
        std::shared_ptr<Client> client, PickEndpoint pick)
      : endpoint_(std::move(endpoint)),
        log_(std::move(log)),
        purpose_(purpose),
        client_(std::move(client)),
        pick_(std::move(pick)) {}

  struct Topic {
    Topic(Wakes wakes, waiting::IdleWaits& idle_waits)
        : waiters(wakes, idle_waits), arrivals(Wakes::all, idle_waits) {
      waiters.set_silent(true);
    }
    WakeQueue waiters;        ///< silent until it is confirmed
    WakeQueue arrivals;       ///< waits without a thread, until it is settled
    std::uint64_t asked = 0;  ///< the number of its SUBSCRIBE; 0: none yet
    bool confirmed = false;
    bool missed = false;  ///< a message may have been missed since a waiter last tried
    bool refused = false;
    BootTime unwatched_since = never;

    [[nodiscard]] bool settled() const noexcept { return confirmed || refused; }
  };
  using Topics = std::map<std::string, Topic, std::less<>>;

  struct Place {
    Topics::iterator topic;
    WakeQueue::Place waiter;
  };

  Place enter(const std::string& channel, BootTime deadline, const std::stop_token& stop) {
    // Constructed and destroyed without the mutex, which it locks.
    const std::stop_callback interrupt(stop, [this] {
      const std::lock_guard lock(mutex_);
      settled_.notify_all();
    });
    Lock lock(mutex_);
    const Place place = enter(channel);
    auto& topic = place.topic->second;
    if (start_thread()) {
      settled_.wait_for(lock, patience(deadline), [&] { return topic.settled() || stop.stop_requested(); });
    }
    if (!topic.confirmed) topic.missed = true;
    return place;
  }

  /// The same without blocking; `entered` gets the place.
  template <class Entered>
  void begin_enter(const std::string& channel, BootTime deadline, const std::stop_token& stop,
                   Entered entered) {
    Lock lock(mutex_);
    const Place place = enter(channel);
    auto& topic = place.topic->second;
    if (topic.settled() || !start_thread()) {
      if (!topic.confirmed) topic.missed = true;
      lock.unlock();
      return entered(place);
    }
    const auto arrival = topic.arrivals.enter();
    lock.unlock();
    const BootTime until = saturating_add(BootClock::now(), patience(deadline));
    auto wait =
        idle_waits_.make(until, until, stop,
                         [this, place, arrival, entered = std::move(entered)](const Result<bool>&) mutable {
                           {
                             const std::lock_guard inner(mutex_);
                             place.topic->second.arrivals.leave(arrival);
                             if (!place.topic->second.confirmed) place.topic->second.missed = true;
                           }
                           entered(place);
                         });
    lock.lock();
    const auto ended = topic.arrivals.begin(arrival, std::move(wait));
    lock.unlock();
    if (ended) ended->complete();
  }

  void leave(Place place) {
    const std::lock_guard lock(mutex_);
    auto& topic = place.topic->second;
    topic.waiters.leave(place.waiter);
    if (!topic.waiters.empty()) return;
    topic.unwatched_since = BootClock::now();
    unwatched_.emplace_back(topic.unwatched_since, place.topic->first);
  }

  /// noexcept: other threads hold the address of a waiter.
  bool sleep(Place place, BootTime look_again_at, BootTime deadline, const std::stop_token& stop) noexcept {
    Lock lock(mutex_);
    auto& topic = place.topic->second;
    const auto asleep = sleepers_.insert(sleepers_.end(), &place.waiter->second);
    // The subscriber's thread stops reading: a message that a sleeper reads itself needs no further wake-up.
    if (thread_polls_) rouse_thread();
    const bool woken = topic.waiters.sleep(
        lock, place.waiter, look_again_at, deadline, stop,
        [this](Lock& held, waiting::QueuedWaiter& waiter, BootTime until) { pause(held, waiter, until); });
    sleepers_.erase(asleep);
    if (!leading_) appoint();
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
    const auto ended = place.topic->second.waiters.begin(place.waiter, std::move(wait));
    lock.unlock();
    if (ended) ended->complete();
    return true;
  }

  void pass_on(Place place) {
    const std::lock_guard lock(mutex_);
    place.topic->second.waiters.pass_on(place.waiter);
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

  Place enter(const std::string& channel) {
    const auto [topic, is_new] = topics_.try_emplace(channel, purpose_.wakes, idle_waits_);
    topic->second.unwatched_since = never;
    if (is_new) {
      if (connection_) unasked_.push_back(channel);
      if (thread_asleep_) rouse_thread();
      if (leading_ && !thread_polls_) wake_.set();
    }
    return {topic, topic->second.waiters.enter()};
  }

  /// How long to wait for the server's confirmation.
  [[nodiscard]] BootClock::duration patience(BootTime deadline) const {
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
      if (leading_ || !sleepers_.empty()) {
        leave_client(lock);
        if (thread_asleep_ && !stopping_) doze(lock, idle_waits_.next() - now);
      } else {
        leading_ = thread_polls_ = true;
        turn(lock, idle_waits_.next());
        leading_ = thread_polls_ = false;
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
    // Short sleeps, because this clock stands still while the machine is suspended.
    idle_.wait_for(lock, std::min<BootClock::duration>(at_most, std::chrono::seconds(1)));
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

  /// One sleeper reads the connection for all; the others wait to be poked.
  void pause(Lock& lock, waiting::QueuedWaiter& waiter, BootTime until) {
    if (leading_ || stopping_) {
      // Short sleeps, because this clock stands still while the machine is suspended.
      waiter.changed.wait_for(
          lock, std::min<BootClock::duration>(until - BootClock::now(), std::chrono::seconds(1)));
      return;
    }
    leading_ = true;
    waiter.polls = &wake_;
    turn(lock, until);
    waiter.polls = nullptr;
    leading_ = false;
  }

  /// Finds the next to read the connection: a sleeper, else the thread.
  void appoint() {
    if (sleepers_.empty()) {
      rouse_thread();
    } else {
      sleepers_.front()->poke();
    }
  }

  /// Serves the connection, sleeps once, then processes the input.
  void turn(Lock& lock, BootTime until) {
    const BootTime now = BootClock::now();
    if (connection_ && demotions_ != endpoint_->demotions()) lose();
    ask(now);
    pollfd polled[2] = {{.fd = wake_.descriptor(), .events = POLLIN, .revents = 0},
                        {.fd = -1, .events = 0, .revents = 0}};
    if (connection_) {
      polled[1].fd = connection_->stream->descriptor();
      polled[1].events = static_cast<short>(out_.empty() ? POLLIN : POLLIN | POLLOUT);
    } else if (!topics_.empty()) {
      dial(now, polled[1]);
      if (connection_) return;  // just made: used before any sleep
    }
    const auto nap = std::min<BootClock::duration>(this->nap(now), until - now);
    const bool idle = topics_.empty();
    const bool lends = thread_polls_ && client_;
    lock.unlock();
    if (!lends || !client_->lead_as_guest(polled, idle ? never : saturating_add(now, nap), &wake_)) {
      // Without the time that the client used meanwhile.
      const auto left = std::max<BootClock::rep>((nap - (BootClock::now() - now)).count(), 0);
      const timespec timeout{.tv_sec = 0, .tv_nsec = left};
      ppoll(polled, 2, idle ? nullptr : &timeout, nullptr);
    }
    if (polled[0].revents != 0) wake_.clear();
    lock.lock();
    if (thread_polls_) thread_asleep_ = false;
    if (!connection_) return;
    if (polled[1].revents != 0) {
      receive();
    } else if (!unanswered_.empty() && BootClock::now() >= answer_due()) {
      lose();  // the input was read just now: the answer is missing, not unread
    }
  }

  /// How long to sleep if nothing happens: until the next attempt to connect, the time to drop a channel, or
  /// the time to probe or give up the connection.
  std::chrono::nanoseconds nap(BootTime now) const {
    BootClock::duration nap = milliseconds(500);
    if (!connection_ && !dialer_) nap = std::min(nap, redial_at_ - now);
    if (connection_) nap = std::min(nap, (unanswered_.empty() ? probe_due() : answer_due()) - now);
    return std::clamp<std::chrono::nanoseconds>(nap, milliseconds(1), milliseconds(500));
  }

  [[nodiscard]] BootTime probe_due() const {
    return quiet_since_ + std::min(longest_silence, endpoint_->options().command_timeout);
  }
  [[nodiscard]] BootTime answer_due() const {
    return std::max(quiet_since_, unanswered_.front().asked_at) + endpoint_->options().command_timeout;
  }

  /// Subscribes new channels, and unsubscribes channels that were not watched for a while.
  void ask(BootTime now) {
    forget(now);
    if (!connection_) return;
    for (const auto& channel : std::exchange(unasked_, {})) {
      const auto topic = topics_.find(channel);
      if (topic == topics_.end() || topic->second.asked != 0) continue;
      topic->second.asked = ++last_asked_;
      say({"SUBSCRIBE", channel}, {.number = topic->second.asked, .channel = channel});
    }
    if (unanswered_.empty() && now >= probe_due()) probe(now);
    write();
  }

  /// A subscription is silent while nothing happens, and also when its connection is dead. So a channel is
  /// subscribed again, which changes nothing, needs no further right and must be answered.
  void probe(BootTime now) {
    const auto heard = std::ranges::find_if(topics_, [](const auto& one) { return one.second.confirmed; });
    if (heard == topics_.end()) {
      quiet_since_ = now;  // no message could have arrived
    } else {
      say({"SUBSCRIBE", heard->first}, {});
    }
  }

  void forget(BootTime now) {
    for (; !unwatched_.empty(); unwatched_.pop_front()) {
      const auto& [since, channel] = unwatched_.front();
      if (now - since < linger) return;
      const auto topic = topics_.find(channel);
      // Otherwise it was watched since; if it was left again, the queue has another entry for it.
      if (topic == topics_.end() || topic->second.unwatched_since != since) continue;
      if (topic->second.asked != 0) say({"UNSUBSCRIBE", topic->first}, {});
      topics_.erase(topic);
    }
  }

  /// A command that was sent.
  struct Question {
    std::uint64_t number = 0;  ///< of a topic's first SUBSCRIBE; 0 for the rest
    std::string channel = {};
    BootTime asked_at = BootClock::now();
  };

  void say(const Command& command, Question question) {
    if (!connection_) return;
    out_ += command.bytes();
    unanswered_.push_back(std::move(question));
  }

  void write() {
    while (connection_ && !out_.empty()) {
      const auto count = connection_->stream->write(out_);
      if (!count) return lose();
      if (*count == 0) return;
      out_.erase(0, *count);
    }
  }

  void dial(BootTime now, pollfd& polled) {
    if (!dialer_) {
      if (now < redial_at_) return;
      demotions_ = endpoint_->demotions();
      dialer_.emplace(pick_ ? pick_() : endpoint_, now);
    }
    auto outcome = dialer_->step(now);
    if (const auto* waiting = std::get_if<Dialer::Waiting>(&outcome)) {
      polled.fd = waiting->descriptor;
      polled.events = waiting->events;
      return;
    }
    const BootTime began = dialer_->began();
    dialer_.reset();
    if (auto* made = std::get_if<Connection>(&outcome)) {
      connection_.emplace(std::move(*made));
      quiet_since_ = now;
      unasked_.clear();
      for (const auto& [channel, topic] : topics_) unasked_.push_back(channel);
      if (lost_at_) endpoint_->tell_of_reconnect(*std::exchange(lost_at_, std::nullopt), now);
      return;
    }
    if (lost_at_) endpoint_->tell_of_reconnect(began, now, std::get<Error>(outcome).code());
    redial_at_ = now + backoff_.next(os::jitter_fraction());
  }

  void receive() {
    std::array<char, 16384> bytes;
    do {
      const auto count = connection_->stream->read(bytes);
      if (!count) return lose();
      connection_->reader.feed({bytes.data(), *count});
      if (*count == 0) break;  // TLS may have half a record and wait for the rest, which poll reports
      quiet_since_ = BootClock::now();
    } while (connection_->stream->has_more());
    for (;;) {
      auto reply = connection_->reader.next();
      if (!reply) return lose();
      if (!*reply) return;
      backoff_.reset();
      if (!hear(***reply)) return lose();
    }
  }

  /// False if the reply is unexpected.
  bool hear(const redisReply& reply) {
    const auto parts = elements_of(reply);
    if (parts.size() == 3 && text_of(*parts[0]) == "message") {
      if (const auto topic = topics_.find(text_of(*parts[1])); topic != topics_.end()) {
        topic->second.waiters.wake();
      }
      return true;
    }
    if (unanswered_.empty()) return false;
    const auto question = std::move(unanswered_.front());
    unanswered_.pop_front();
    if (is_error(reply)) {
      refuse(question, error_of(reply));
      return true;
    }
    if (parts.size() != 3) return false;
    if (text_of(*parts[0]) == "subscribe") confirm(text_of(*parts[1]), question.number);
    return true;
  }

  void confirm(std::string_view channel, std::uint64_t number) {
    const auto topic = topics_.find(channel);
    // A topic that was dropped and added again since waits for its own confirmation.
    if (topic == topics_.end() || topic->second.asked != number) return;
    topic->second.confirmed = true;
    topic->second.waiters.set_silent(false);
    if (std::exchange(topic->second.missed, false)) topic->second.waiters.wake();
    settle(topic->second);
  }

  void refuse(const Question& question, const Error& error) {
    const auto topic = topics_.find(question.channel);
    if (topic != topics_.end() && question.number != 0 && topic->second.asked == question.number) {
      topic->second.refused = true;
      settle(topic->second);
    }
    if (told_ || !log_) return;
    told_ = true;
    log_->write(LogLevel::warning,
                endpoint_->name() + ": " + std::string(purpose_.unheard) + " (" + error.cause() + ")");
  }

  void settle(Topic& topic) {
    topic.arrivals.wake();
    settled_.notify_all();
  }

  void lose() {
    connection_.reset();
    out_.clear();
    unanswered_.clear();
    for (auto& [channel, topic] : topics_) {
      topic.asked = 0;
      topic.confirmed = false;
      topic.waiters.set_silent(true);
      topic.refused = false;
      topic.missed = true;
    }
    lost_at_ = BootClock::now();
    redial_at_ = *lost_at_ + backoff_.next(os::jitter_fraction());
  }

  const std::shared_ptr<const Endpoint> endpoint_;
  const std::shared_ptr<Log> log_;
  const Purpose purpose_;
  const std::shared_ptr<Client> client_;  ///< may be null
  const PickEndpoint pick_;               ///< may be null
  const os::ProcessIdentity process_;
  os::Event wake_;

  std::mutex mutex_;
  waiting::IdleWaits idle_waits_{mutex_, [this] { rouse_thread(); }};
  Topics topics_;
  std::vector<std::string> unasked_;  ///< topics added since the connection was made, not subscribed yet
  std::deque<std::pair<BootTime, std::string>> unwatched_;  ///< topics without watches, and since when
  std::condition_variable settled_;                         ///< some topic was confirmed or refused
  bool stopping_ = false;
  std::thread thread_;
  bool leading_ = false;       ///< a thread reads the connection
  bool thread_polls_ = false;  ///< the thread does
  bool thread_asleep_ = false;
  std::condition_variable idle_;
  std::list<waiting::QueuedWaiter*> sleepers_;

  // Used by the leader only.
  std::optional<Connection> connection_;
  std::string out_;
  std::deque<Question> unanswered_;  ///< in order
  BootTime quiet_since_{};           ///< when input last came, or could first have come
  std::uint64_t demotions_ = 0;      ///< the endpoint's count when it was dialled
  std::uint64_t last_asked_ = 0;
  std::optional<Dialer> dialer_;
  BootTime redial_at_{};
  std::optional<BootTime> lost_at_;  ///< empty: never, or replaced since
  Backoff backoff_;
  bool told_ = false;
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

Subscriber::Subscriber(std::shared_ptr<const Endpoint> endpoint, std::shared_ptr<Log> log,
                       const Purpose& purpose, std::shared_ptr<Client> client, PickEndpoint pick)
    // A forked child leaks its copy untouched: the thread does not exist there, the socket is the parent's.
    : state_(new State(std::move(endpoint), std::move(log), purpose, std::move(client), std::move(pick)),
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
  if (done.is_awaited()) {
    return done(std::make_unique<ChannelWatch>(state_, state_->enter(channel, deadline, stop)));
  }
  state_->begin_enter(channel, deadline, stop,
                      [state = state_, done = std::move(done)](State::Place place) mutable {
                        done(std::make_unique<ChannelWatch>(std::move(state), place));
                      });
}

}  // namespace holdfast::redis
