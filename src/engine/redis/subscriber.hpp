#pragma once

#include <functional>
#include <holdfast/change_feed.hpp>
#include <holdfast/lock_backend.hpp>
#include <holdfast/log.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/redis/client.hpp"
#include "engine/redis/conn/dialer.hpp"
#include "waiting/wake_queue.hpp"

namespace holdfast::redis {

using waiting::Wakes;

/// The waiters for channels in this process. All waiters share one connection, made for the first (of sharded
/// channels: one for each master whose channels are watched); those of one channel share its subscription.
/// One of the sleeping threads reads the connection, so that a message for it wakes no other thread; while
/// none sleeps, the subscriber's own thread reads. Waits without a thread are in the same queues, and are
/// always completed by the subscriber's thread: a sleeper that only reads the connection must not run
/// completions of others.
///
/// With Wakes::all a message wakes every waiter of its channel, and each reads for itself. Otherwise a
/// message wakes only the waiter that has waited longest: the others would be refused, and the next release
/// brings the next message. So a release costs each process one attempt, however many threads wait in it.
/// Without messages (a lock that expired, a holder that releases silently, a lost message), the first in the
/// queue and the one with the shortest pause poll for all (see waiting::WakeQueue); without a subscription
/// each waiter polls.
///
/// A silent connection is probed from time to time. A connection whose answer is overdue by the command
/// timeout, or whose server was demoted, is replaced; all waiters poll meanwhile.
///
/// No release is missed: `watch` completes after the server confirmed the subscription, and the caller tries
/// again after that, before it sleeps. When a connection breaks, confirming the new subscription wakes a
/// waiter of each channel as if a message had come.
class Subscriber {
 public:
  struct Purpose {
    Wakes wakes;
    /// For the log, if the server refuses the subscription: the effect, and what to do.
    std::string_view unheard;
  };
  /// `client`, if not null: the subscriber's thread does the I/O of its own calls through it when possible,
  /// so that a waiter that polls needs no further thread (see Call::by_idle_io). `where`, if it has
  /// functions, names the server that serves a channel; `endpoint` then only has the options and a name for
  /// messages. Global channels are all served by one server, and `where` is called before every attempt to
  /// connect; sharded ones by the master of their slot, and `where`, which must have its functions, is called
  /// when a channel is not served.
  Subscriber(std::shared_ptr<const Endpoint> endpoint, std::shared_ptr<Log> log, const Purpose& purpose,
             std::shared_ptr<Client> client = nullptr, Channels channels = Channels::global,
             WhereToListen where = {});
  /// Requires that no watch is left. On a thread of the library it does not join its own thread. In a forked
  /// child it does nothing.
  ~Subscriber();
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;

  /// Watches from its completion on, which runs inline if a thread waits for it, else on the subscriber's
  /// thread. If the server cannot be reached in time or refuses the subscription, the watch can still be used
  /// to sleep.
  void watch(const std::string& channel, BootTime deadline, const std::stop_token& stop,
             Done<std::unique_ptr<Watch>> done);
  /// The same; `wakes` in place of the purpose's. All watches of a channel must have the same.
  void watch(const std::string& channel, Wakes wakes, BootTime deadline, const std::stop_token& stop,
             Done<std::unique_ptr<Watch>> done);
  /// Returns a function that wakes waiters of the channel as a message does. It may outlive the subscriber.
  [[nodiscard]] std::function<void()> waker_of(std::string channel);

  /// The meaning of a message; empty: none for this feed. Called under a mutex: it must not block.
  using MeaningOf = std::function<std::optional<Change>(std::string_view channel, std::string_view payload)>;
  /// Follows the messages of all channels that match the pattern. Null if the server refuses that.
  void follow(const std::string& pattern, MeaningOf meaning_of, BootTime deadline,
              const std::stop_token& stop, Done<std::unique_ptr<ChangeFeed>> done);

  /// Whether this is the thread of a subscriber with that client.
  [[nodiscard]] static bool lends_this_thread_to(const Client& client) noexcept;

 private:
  class State;
  class ChannelWatch;
  class PatternFeed;
  std::shared_ptr<State> state_;
};

}  // namespace holdfast::redis
