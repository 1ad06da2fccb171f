#include "engine/redis/subscriber.hpp"

#include <poll.h>

#include <array>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "engine/redis/conn/backoff.hpp"
#include "engine/redis/errors.hpp"
#include "engine/redis/wire/command.hpp"
#include "sys/event.hpp"
#include "sys/process.hpp"
#include "sys/random.hpp"
#include "sys/thread.hpp"

namespace holdfast::redis {
namespace {

using std::chrono::milliseconds;

/// A channel nobody watches any more stays subscribed for this long: who waits for a key often does so again.
constexpr BootClock::duration linger = std::chrono::seconds(1);
/// How long `watch` waits for the server's confirmation before it goes on without.
constexpr milliseconds longest_confirmation = std::chrono::seconds(1);

}  // namespace

/// Shared by the watches and the thread. One of them at a time, the leader, reads and writes the connection.
class Subscriber::State {
 public:
  State(std::shared_ptr<const Endpoint> endpoint, std::shared_ptr<Log> log, const Purpose& purpose)
      : endpoint_(std::move(endpoint)), log_(std::move(log)), purpose_(purpose) {}

  struct Topic {
    explicit Topic(Wakes wakes) : waiters(wakes) {}
    WakeQueue waiters;
    std::uint64_t asked = 0;  ///< the number of the SUBSCRIBE that stands for it; 0: none yet
    bool confirmed = false;
    bool silent = true;   ///< not confirmed: its waiters cannot rely on being woken
    bool missed = false;  ///< something may have been, since a waiter last tried
    bool refused = false;
    BootTime unwatched_since = never;
  };
  using Topics = std::map<std::string, Topic, std::less<>>;

  struct Place {
    Topics::iterator topic;
    WakeQueue::Place waiter;
  };

  Place enter(const std::string& channel, BootTime deadline, const std::stop_token& stop) {
    // Made and ended without the mutex, which it needs.
    const std::stop_callback interrupt(stop, [this] {
      const std::lock_guard lock(mutex_);
      settled_.notify_all();
    });
    Lock lock(mutex_);
    const auto [topic, is_new] = topics_.try_emplace(channel, purpose_.wakes);
    topic->second.unwatched_since = never;
    const Place place{topic, topic->second.waiters.enter()};
    auto& state = topic->second;
    if (!start_thread()) {
      state.missed = true;
      return place;
    }
    if (is_new) wake_.set();
    const auto limit = std::min<BootClock::duration>(
        {longest_confirmation, endpoint_->options().command_timeout, deadline - BootClock::now()});
    settled_.wait_for(lock, limit, [&] { return state.confirmed || state.refused || stop.stop_requested(); });
    if (!state.confirmed) state.missed = true;
    return place;
  }

  void leave(Place place) {
    const std::lock_guard lock(mutex_);
    auto& topic = place.topic->second;
    topic.waiters.leave(place.waiter);
    if (topic.waiters.empty()) topic.unwatched_since = BootClock::now();
  }

  /// noexcept: whoever waits is known to others by its address.
  bool sleep(Place place, BootTime look_again_at, BootTime deadline, const std::stop_token& stop) noexcept {
    Lock lock(mutex_);
    auto& topic = place.topic->second;
    const auto asleep = sleepers_.insert(sleepers_.end(), &*place.waiter);
    // The thread makes way: a message that we read ourselves needs to wake nobody.
    if (thread_polls_) wake_.set();
    const bool woken = topic.waiters.sleep(
        lock, place.waiter, look_again_at, deadline, stop, topic.silent,
        [this](Lock& held, WakeQueue::Waiter& waiter, BootTime until) { pause(held, waiter, until); });
    sleepers_.erase(asleep);
    if (!leading_) appoint();
    return woken;
  }

  void pass_on(Place place) {
    const std::lock_guard lock(mutex_);
    place.topic->second.waiters.pass_on();
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.set();
    idle_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  [[nodiscard]] bool is_home() const noexcept { return home_.is_here(); }

 private:
  using Lock = WakeQueue::Lock;

  /// False if the machine has no thread to give: then sleepers read the connection, and nobody else does.
  bool start_thread() {
    try {
      if (!thread_.joinable()) thread_ = sys::start_thread([this] { run(); });
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  }

  /// The thread: reads the connection while nobody sleeps who could.
  void run() {
    Lock lock(mutex_);
    while (!stopping_) {
      if (leading_ || !sleepers_.empty()) {
        idle_.wait(lock);
        continue;
      }
      leading_ = thread_polls_ = true;
      turn(lock, never);
      leading_ = thread_polls_ = false;
      appoint();
    }
  }

  /// One sleeper reads the connection for all; the others wait to be poked.
  void pause(Lock& lock, WakeQueue::Waiter& waiter, BootTime until) {
    if (leading_ || stopping_) {
      // In slices, because this clock stands still while the machine is suspended.
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
      idle_.notify_one();
    } else {
      sleepers_.front()->poke();
    }
  }

  /// What there is to do for the connection, then one sleep, then what came.
  void turn(Lock& lock, BootTime until) {
    const BootTime now = BootClock::now();
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
    const timespec timeout{.tv_sec = 0, .tv_nsec = std::max<BootClock::rep>(nap.count(), 0)};
    const bool idle = topics_.empty();
    lock.unlock();
    ppoll(polled, 2, idle ? nullptr : &timeout, nullptr);
    if (polled[0].revents != 0) wake_.clear();
    lock.lock();
    if (connection_ && polled[1].revents != 0) receive();
  }

  /// Until when to sleep if nothing happens: the next attempt to connect, or the time to forget a channel.
  std::chrono::nanoseconds nap(BootTime now) const {
    BootClock::duration nap = milliseconds(500);
    if (!connection_ && !dialer_) nap = std::min(nap, redial_at_ - now);
    return std::clamp<std::chrono::nanoseconds>(nap, milliseconds(1), milliseconds(500));
  }

  /// Subscribes what is new and unsubscribes what nobody has watched for a while.
  void ask(BootTime now) {
    for (auto at = topics_.begin(); at != topics_.end();) {
      auto& [channel, topic] = *at;
      if (topic.unwatched_since != never && now - topic.unwatched_since >= linger) {
        if (topic.asked != 0) say({"UNSUBSCRIBE", channel}, 0);
        at = topics_.erase(at);
        continue;
      }
      if (connection_ && topic.asked == 0) {
        topic.asked = ++last_asked_;
        say({"SUBSCRIBE", channel}, topic.asked);
      }
      ++at;
    }
    write();
  }

  void say(std::initializer_list<std::string_view> command, std::uint64_t number) {
    if (!connection_) return;
    out_ += Command(command).bytes();
    unanswered_.push_back(number);
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
      dialer_.emplace(endpoint_, now);
    }
    auto outcome = dialer_->step(now);
    if (const auto* waiting = std::get_if<Dialer::Waiting>(&outcome)) {
      polled.fd = waiting->descriptor;
      polled.events = waiting->events;
      return;
    }
    dialer_.reset();
    if (auto* made = std::get_if<Connection>(&outcome)) {
      connection_.emplace(std::move(*made));
      return;
    }
    redial_at_ = now + backoff_.next(sys::jitter_fraction());
  }

  void receive() {
    std::array<char, 16384> bytes;
    do {
      const auto count = connection_->stream->read(bytes);
      if (!count) return lose();
      connection_->reader.feed({bytes.data(), *count});
      if (*count == 0) break;  // TLS may have half a record and wait for the rest, which poll tells
    } while (connection_->stream->has_more());
    for (;;) {
      auto reply = connection_->reader.next();
      if (!reply) return lose();
      if (!*reply) return;
      backoff_.reset();
      if (!hear(***reply)) return lose();
    }
  }

  /// False if it makes no sense.
  bool hear(const redisReply& reply) {
    const auto parts = elements_of(reply);
    if (parts.size() == 3 && text_of(*parts[0]) == "message") {
      if (const auto topic = topics_.find(text_of(*parts[1])); topic != topics_.end()) {
        topic->second.waiters.wake();
      }
      return true;
    }
    if (unanswered_.empty()) return false;
    const auto number = unanswered_.front();
    unanswered_.pop_front();
    if (is_error(reply)) {
      refuse(number, error_of(reply));
      return true;
    }
    if (parts.size() != 3) return false;
    if (text_of(*parts[0]) == "subscribe") confirm(text_of(*parts[1]), number);
    return true;
  }

  void confirm(std::string_view channel, std::uint64_t number) {
    const auto topic = topics_.find(channel);
    // One that was dropped and came back since waits for its own confirmation.
    if (topic == topics_.end() || topic->second.asked != number) return;
    topic->second.confirmed = true;
    topic->second.silent = false;
    if (std::exchange(topic->second.missed, false)) topic->second.waiters.wake();
    settled_.notify_all();
  }

  void refuse(std::uint64_t number, const Error& error) {
    for (auto& [channel, topic] : topics_) {
      if (topic.asked == number && number != 0) topic.refused = true;
    }
    settled_.notify_all();
    if (told_ || !log_) return;
    told_ = true;
    log_->write(LogLevel::warning,
                endpoint_->name() + ": " + std::string(purpose_.unheard) + " (" + error.cause() + ")");
  }

  void lose() {
    connection_.reset();
    out_.clear();
    unanswered_.clear();
    for (auto& [channel, topic] : topics_) {
      topic.asked = 0;
      topic.confirmed = false;
      topic.silent = true;
      topic.refused = false;
      topic.missed = true;
    }
    redial_at_ = BootClock::now() + backoff_.next(sys::jitter_fraction());
  }

  const std::shared_ptr<const Endpoint> endpoint_;
  const std::shared_ptr<Log> log_;
  const Purpose purpose_;
  const sys::Birthplace home_;
  sys::Event wake_;

  std::mutex mutex_;
  Topics topics_;
  std::condition_variable settled_;  ///< some topic was confirmed or refused
  bool stopping_ = false;
  std::thread thread_;
  bool leading_ = false;       ///< somebody reads the connection
  bool thread_polls_ = false;  ///< the thread does
  std::condition_variable idle_;
  std::list<WakeQueue::Waiter*> sleepers_;

  // Of whoever leads.
  std::optional<Connection> connection_;
  std::string out_;
  std::deque<std::uint64_t> unanswered_;  ///< numbers of SUBSCRIBEs, 0 for the rest, in order
  std::uint64_t last_asked_ = 0;
  std::optional<Dialer> dialer_;
  BootTime redial_at_{};
  Backoff backoff_;
  bool told_ = false;
};

class Subscriber::ChannelWatch final : public Watch {
 public:
  ChannelWatch(std::shared_ptr<State> state, const std::string& channel, BootTime deadline,
               const std::stop_token& stop)
      : state_(std::move(state)), place_(state_->enter(channel, deadline, stop)) {}
  ~ChannelWatch() override {
    if (state_->is_home()) state_->leave(place_);
  }
  bool wait(BootTime look_again_at, BootTime deadline, const std::stop_token& stop) override {
    return state_->is_home() && state_->sleep(place_, look_again_at, deadline, stop);
  }
  void pass_on() noexcept override {
    if (state_->is_home()) state_->pass_on(place_);
  }

 private:
  std::shared_ptr<State> state_;
  State::Place place_;
};

Subscriber::Subscriber(std::shared_ptr<const Endpoint> endpoint, std::shared_ptr<Log> log,
                       const Purpose& purpose)
    // A forked child leaves its copy alone: the thread is not there, the socket is the parent's.
    : state_(new State(std::move(endpoint), std::move(log), purpose), [](State* state) {
        if (state->is_home()) delete state;
      }) {}

Subscriber::~Subscriber() {
  if (state_->is_home()) state_->stop();
}

std::unique_ptr<Watch> Subscriber::watch(const std::string& channel, BootTime deadline,
                                         const std::stop_token& stop) {
  return std::make_unique<ChannelWatch>(state_, channel, deadline, stop);
}

}  // namespace holdfast::redis
