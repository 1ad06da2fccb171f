#pragma once

#include <holdfast/lock_backend.hpp>
#include <holdfast/log.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "engine/redis/client.hpp"
#include "engine/redis/conn/dialer.hpp"
#include "waiting/wake_queue.hpp"

namespace holdfast::redis {

using waiting::Wakes;

/// Who waits for which channel in this process. All waiters share one connection, made when there is a first;
/// those of one channel share its subscription. One of the sleeping threads reads the connection, so that a
/// message for it needs to wake no other thread; a thread of our own does while none sleeps. Waits for which
/// no thread sleeps stand in the same queues, and are completed by our own thread always: a thread that only
/// reads the connection must not run what others have to do.
///
/// With Wakes::all a message wakes every waiter of its channel, and each looks again for itself. Else:
/// a message wakes one waiter, the one that has waited longest: the others would only be refused, and the
/// next release brings the next message. So a release costs each process one attempt, however many threads
/// wait in it. When nothing is heard (a lock that expired, a holder that releases silently, a lost message),
/// the first in the queue and the one that wants to soonest look again for all (see waiting::WakeQueue);
/// where there is no subscription everyone does.
///
/// A connection that is silent is asked something now and then; one that owes an answer for longer than the
/// command timeout, or whose server was demoted, is given up and made anew, and everyone polls meanwhile.
///
/// Nothing is missed: `watch` completes after the server confirmed the subscription, and the caller tries
/// again after that, before it sleeps. When a connection breaks, confirming the new subscription wakes a
/// waiter of each channel as if a message had come.
class Subscriber {
 public:
  struct Purpose {
    Wakes wakes;
    /// For the log, where the server does not let us: what that means, and what to do.
    std::string_view unheard;
  };
  /// `client`, if not null: what our own thread sends through it, it writes and reads itself where it can,
  /// so that a waiter that looks again needs no further thread (see Call::by_idle_io).
  Subscriber(std::shared_ptr<const Endpoint> endpoint, std::shared_ptr<Log> log, const Purpose& purpose,
             std::shared_ptr<Client> client = nullptr);
  /// Requires that no watch is left. On a thread of the library it does not wait for its own. In a forked
  /// child it does nothing.
  ~Subscriber();
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;

  /// Watches from its completion on: inline if a thread waits for it, else on our own thread. Where the
  /// server cannot be reached in time or does not let us subscribe, the watch still serves to sleep.
  void watch(const std::string& channel, BootTime deadline, const std::stop_token& stop,
             Done<std::unique_ptr<Watch>> done);

  /// Whether this is the thread of a subscriber with that client.
  [[nodiscard]] static bool lends_this_thread_to(const Client& client) noexcept;

 private:
  class State;
  class ChannelWatch;
  std::shared_ptr<State> state_;
};

}  // namespace holdfast::redis
