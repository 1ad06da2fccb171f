#include "engine/redis/key_feed.hpp"

#include <poll.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "engine/redis/conn/key_tracking.hpp"
#include "engine/redis/conn/subscription_link.hpp"
#include "os/event.hpp"
#include "os/process.hpp"
#include "os/thread.hpp"
#include "runtime/worker_pool.hpp"
#include "waiting/change_queue.hpp"

namespace holdfast::redis {
namespace {

using std::chrono::milliseconds;

/// How long opening a feed waits for the servers before it continues without their confirmation.
constexpr milliseconds longest_opening = std::chrono::seconds(1);
/// How often the servers are asked for again.
constexpr milliseconds between_looks = std::chrono::seconds(1);
/// How often they are looked for though all that are known are heard: keys may have moved to new ones.
constexpr milliseconds between_searches = std::chrono::seconds(10);
/// How long a server is left alone that refused, or to which the reports became too dear.
constexpr milliseconds pause_length = std::chrono::seconds(30);

/// Shared by the feed and its thread. Only the thread uses the connections.
class KeyListener : public std::enable_shared_from_this<KeyListener> {
 public:
  using Opened = Done<std::unique_ptr<ChangeFeed>>;

  explicit KeyListener(TrackedKeys keys) : keys_(std::move(keys)) {}

  /// False if the machine has no thread left.
  bool start() {
    try {
      thread_ = os::start_thread([self = shared_from_this()] { self->run(); });
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  }

  void stop() noexcept {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.set();
    if (!thread_.joinable()) return;
    if (runtime::WorkerPool::on_library_thread()) {
      thread_.detach();  // it shares ownership of this object
    } else {
      thread_.join();
    }
  }

  /// Blocks until the servers have confirmed or refused, or for a while; returns whether one refused.
  bool wait_until_settled(BootTime until, const std::stop_token& stop) {
    const std::stop_callback interrupt(stop, [this] {
      const std::lock_guard lock(mutex_);
      settled_changed_.notify_all();
    });
    std::unique_lock lock(mutex_);
    settled_changed_.wait_for(lock, until - BootClock::now(),
                              [&] { return settled_ || refused_ || stop.stop_requested(); });
    return begin_use();
  }
  /// The same without blocking.
  void when_settled(BootTime until, const std::stop_token& stop, std::function<void(bool refused)> then) {
    on_stop_.emplace(stop, [this] { wake_.set(); });
    {
      const std::lock_guard lock(mutex_);
      opening_ = {.until = until, .then = std::move(then), .stop = stop};
    }
    wake_.set();
  }

  void wait(BootTime deadline, const std::stop_token& stop, Done<std::vector<Change>> done) {
    Lock lock(mutex_);
    if (!changes_.empty() || stop.stop_requested()) {
      auto taken = changes_.take();
      lock.unlock();
      return done(std::move(taken));
    }
    lock.unlock();
    on_stop_.emplace(stop, [this] { wake_.set(); });
    lock.lock();
    waiting_.emplace(Waiting{.deadline = deadline, .stop = stop, .done = std::move(done)});
    lock.unlock();
    wake_.set();
  }

  [[nodiscard]] bool in_own_process() const noexcept { return process_.is_current(); }

 private:
  using Link = SubscriptionLink<KeyTracking>;
  using Lock = std::unique_lock<std::mutex>;
  struct Server {
    std::shared_ptr<const Endpoint> endpoint;
    TrackingBudget budget = {};
    BootTime paused_until = {};
    std::unique_ptr<Link> link = nullptr;  ///< null: it is left alone
  };
  struct Opening {
    BootTime until = never;
    std::function<void(bool refused)> then = nullptr;
    std::stop_token stop = {};
  };
  struct Waiting {
    BootTime deadline;
    std::stop_token stop;
    Done<std::vector<Change>> done;
  };

  /// What was written before the feed was opened is no change of it. Requires the mutex.
  bool begin_use() {
    if (settled_) static_cast<void>(changes_.take());
    return refused_;
  }

  void run() {
    const runtime::LibraryThread mark;
    for (;;) {
      const auto now = BootClock::now();
      if (complete_due(now)) continue;
      BootTime until = never;
      {
        const std::lock_guard lock(mutex_);
        if (stopping_) return;
        until = std::min(opening_.then ? opening_.until : never, waiting_ ? waiting_->deadline : never);
      }
      look_for_servers(now);
      turn(now, until);
      settle();
    }
  }

  /// Completes what is due; returns whether something was.
  bool complete_due(BootTime now) {
    Lock lock(mutex_);
    if (stopping_) return false;
    if (opening_.then && (settled_ || refused_ || now >= opening_.until || opening_.stop.stop_requested())) {
      const auto then = std::exchange(opening_, {}).then;
      const bool refused = begin_use();
      lock.unlock();
      on_stop_.reset();
      then(refused);
      return true;
    }
    if (waiting_ && (!changes_.empty() || now >= waiting_->deadline || waiting_->stop.stop_requested())) {
      auto done = std::move(waiting_->done);
      waiting_.reset();
      auto taken = changes_.take();
      lock.unlock();
      on_stop_.reset();
      done(std::move(taken));
      return true;
    }
    return false;
  }

  void look_for_servers(BootTime now) {
    if (now < look_at_) return;
    look_at_ = now + between_looks;
    const bool is_deaf = std::ranges::any_of(
        servers_, [](const Server& server) { return server.link && !server.link->topics.confirmed(); });
    const bool anew = is_deaf || now >= search_at_;
    if (anew) search_at_ = now + between_searches;
    const auto all = keys_.servers(anew);
    std::erase_if(servers_,
                  [&](const Server& known) { return std::ranges::find(all, known.endpoint) == all.end(); });
    for (const auto& endpoint : all) {
      if (std::ranges::find(servers_, endpoint, &Server::endpoint) == servers_.end()) {
        servers_.push_back({.endpoint = endpoint});
      }
    }
    for (auto& server : servers_) {
      if (server.link || now < server.paused_until) continue;
      server.budget = {};
      server.link = std::make_unique<Link>(server.endpoint, nullptr, keys_.prefix,
                                           server.endpoint->options().command_timeout,
                                           [this](const std::string_view* name) { hear(name); });
    }
  }

  void hear(const std::string_view* name) {
    auto change = name != nullptr ? keys_.meaning_of(*name) : std::optional(Change{});
    if (!change) return;
    const std::lock_guard lock(mutex_);
    changes_.add(*std::move(change));
  }

  /// Serves the connections, sleeps once, then processes the input.
  void turn(BootTime now, BootTime until) {
    bool made = false;
    for (const auto& server : servers_) made |= server.link && server.link->serve(now);
    if (made) return;  // it is used before any sleep
    polled_.assign(1, {.fd = wake_.descriptor(), .events = POLLIN, .revents = 0});
    auto nap = std::min<BootClock::duration>(look_at_ - now, until - now);
    for (const auto& server : servers_) {
      if (!server.link) continue;
      polled_.push_back(server.link->to_poll());
      nap = std::min<BootClock::duration>(nap, server.link->nap(now));
    }
    nap = std::clamp<BootClock::duration>(nap, BootClock::duration::zero(), std::chrono::seconds(1));
    const auto seconds = std::chrono::floor<std::chrono::seconds>(nap);
    const timespec timeout{.tv_sec = seconds.count(), .tv_nsec = (nap - seconds).count()};
    ppoll(polled_.data(), polled_.size(), &timeout, nullptr);
    if (polled_[0].revents != 0) wake_.clear();
    std::size_t at = 0;
    for (auto& server : servers_) {
      if (server.link) process_input(server, polled_[++at].revents != 0);
    }
  }

  void process_input(Server& server, bool ready) {
    const auto moved = [](const auto&) {};  // tracking concerns no slot
    const bool refused = server.link->process_input(ready, moved).has_value();
    const auto [messages, names] = server.link->topics.take_counts();
    const auto now = BootClock::now();
    const bool affordable = server.budget.charge(messages, names, now);
    if (!refused && affordable) return;
    server.link.reset();
    server.paused_until = now + pause_length;
    const std::lock_guard lock(mutex_);
    refused_ = refused_ || refused;
    // From now on they are not heard.
    if (!refused) changes_.add({});
  }

  void settle() {
    const bool settled = !servers_.empty() && std::ranges::all_of(servers_, [](const Server& server) {
      return server.link && server.link->topics.confirmed();
    });
    const std::lock_guard lock(mutex_);
    if (std::exchange(settled_, settled) != settled || refused_) settled_changed_.notify_all();
  }

  const TrackedKeys keys_;
  const os::ProcessIdentity process_;
  os::Event wake_;
  std::thread thread_;

  std::mutex mutex_;
  std::condition_variable settled_changed_;
  waiting::ChangeQueue changes_;
  bool stopping_ = false;
  bool settled_ = false;  ///< all servers report
  bool refused_ = false;  ///< one has refused, once
  Opening opening_;
  std::optional<Waiting> waiting_;

  /// Set by the caller before it waits, reset by the thread before it completes the wait: never at once.
  std::optional<std::stop_callback<std::function<void()>>> on_stop_;

  // Of the thread.
  std::vector<Server> servers_;
  std::vector<pollfd> polled_;
  BootTime look_at_{};
  BootTime search_at_ = BootClock::now() + between_searches;  ///< its opener knows those of now
};

class KeyFeed final : public ChangeFeed {
 public:
  explicit KeyFeed(std::shared_ptr<KeyListener> listener) : listener_(std::move(listener)) {}
  ~KeyFeed() override {
    if (listener_->in_own_process()) listener_->stop();
  }
  void wait(BootTime deadline, std::stop_token stop, Done<std::vector<Change>> changes) override {
    if (!listener_->in_own_process()) return changes(os::used_after_fork());
    listener_->wait(deadline, stop, std::move(changes));
  }

 private:
  std::shared_ptr<KeyListener> listener_;
};

/// A forked child leaks its copy untouched: the thread does not exist there, the sockets are the parent's.
std::shared_ptr<KeyListener> make_listener(TrackedKeys keys) {
  return {new KeyListener(std::move(keys)), [](KeyListener* ended) {
            if (ended->in_own_process()) delete ended;
          }};
}

}  // namespace

void open_key_feed(TrackedKeys keys, BootTime deadline, const std::stop_token& stop,
                   Done<std::unique_ptr<ChangeFeed>> done) {
  std::shared_ptr<KeyListener> listener;
  try {
    listener = make_listener(std::move(keys));
  } catch (const Error& no_event) {
    return done(no_event);
  }
  if (!listener->start()) return done(std::unique_ptr<ChangeFeed>());
  const auto until = std::min(deadline, BootClock::now() + longest_opening);
  auto feed = std::make_unique<KeyFeed>(listener);
  if (done.is_awaited()) {
    const bool refused = listener->wait_until_settled(until, stop);
    if (refused) feed.reset();
    return done(std::unique_ptr<ChangeFeed>(std::move(feed)));
  }
  // std::function copies.
  auto shared = std::make_shared<std::pair<std::unique_ptr<KeyFeed>, Done<std::unique_ptr<ChangeFeed>>>>(
      std::move(feed), std::move(done));
  listener->when_settled(until, stop, [shared](bool refused) {
    if (refused) shared->first.reset();
    shared->second(std::unique_ptr<ChangeFeed>(std::move(shared->first)));
  });
}

}  // namespace holdfast::redis
