#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "engine/redis/router.hpp"

namespace holdfast::redis {

// The parts of a Router, for the two files that implement it: router.cpp has the way of a call,
// router_pilot.cpp what the pilot learns meanwhile.

struct Router::Node {
  std::uint32_t index;
  RedisAddress address;
  std::shared_ptr<const Endpoint> endpoint;
  std::shared_ptr<Client> client;
  const bool in_url;
  /// The newest map, or a redirection since, names it: changed with the router's mutex. A node that has left
  /// the cluster is not asked for a map: it may be silent, or know only an old one.
  bool is_named = true;
  /// Its own config epoch, as it told itself: what another node says of it may be old. Never goes down.
  std::atomic<std::uint64_t> epoch = 0;
  /// Longer ago than any age that counts. Zero is not: the clock begins with the machine.
  static constexpr BootClock::rep not_asked = std::numeric_limits<BootClock::rep>::min() / 2;
  /// When it was asked for that; `not_asked`: it must be asked again.
  std::atomic<BootClock::rep> epoch_asked_at = not_asked;
  // Changed with the router's mutex, as the time above.
  std::uint64_t epoch_forgotten = 0;  ///< how often
  bool is_asked_for_epoch = false;
  BootTime ask_again_at{};
  std::optional<Error> epoch_refused;  ///< the last answer: the user lacks the right
  std::optional<Error> epoch_unknown;  ///< why there was no answer, for calls that wait for it

  /// It may have another epoch by now. An answer that is on its way is too old as well.
  void forget_epoch(const Lock&) {
    epoch_asked_at = not_asked;
    ++epoch_forgotten;
  }
  /// Calls there whose I/O is left to a waiting thread.
  std::atomic<std::size_t> led = 0;
};

/// A thread that waits for calls of one router.
struct Router::Waiter {
  explicit Waiter(std::uint64_t number) : router(number) {}
  const std::uint64_t router;
  /// Where the call was sent first that leaves the I/O to it; null if that call has ended.
  std::atomic<Node*> call_at = nullptr;
  /// The node whose client it waits with.
  std::atomic<Node*> waits_at = nullptr;
};

/// While a thread that leads a node's client runs completions. One of them may wait for another call: then
/// the thread goes on to lead here, for no other thread can, and that call may come here by a redirection.
struct Router::Completing {
  Completing(const Router& here, Node& at) noexcept
      : router(&here), node(&at), outer(std::exchange(innermost, this)) {}
  ~Completing() { innermost = outer; }
  Completing(const Completing&) = delete;
  Completing& operator=(const Completing&) = delete;
  /// Where this thread leads; null if it runs no completion of this router.
  [[nodiscard]] static Node* node_of(const Router& router) noexcept {
    for (const auto* one = innermost; one != nullptr; one = one->outer) {
      if (one->router == &router) return one->node;
    }
    return nullptr;
  }

  const Router* const router;
  Node* const node;
  Completing* const outer;
  static thread_local Completing* innermost;
};

/// The completion of a call, which may send it again: an operation of several commands.
struct Router::Delivery {
  std::shared_ptr<Waiter> waiter;
  Node* led_at;
  bool sent_again = false;
};

/// A call on its way through the cluster.
class Router::RoutedCall final : public Call {
 public:
  RoutedCall(std::shared_ptr<Router> router, std::unique_ptr<Call> inner, std::stop_token stop)
      : router_(std::move(router)),
        inner_(std::move(inner)),
        stop_(std::move(stop)),
        route_(inner_->fence_floor_at != std::string::npos) {}

 private:
  friend class Router;
  void finish(std::unique_ptr<Call> self, Result<Reply> answer) override {
    const auto router = router_;  // the call may be its last owner
    (void)self.release();
    router->ended(std::unique_ptr<RoutedCall>(this), std::move(answer));
  }

  std::shared_ptr<Router> router_;
  std::unique_ptr<Call> inner_;
  std::stop_token stop_;
  CallRoute route_;
  std::uint16_t slot_ = 0;
  std::uint64_t own_floor_ = 0;  ///< the request's fence floor
  std::uint64_t granted_by_epoch_ = 0;
  std::optional<std::uint32_t> master_;
  Node* node_ = nullptr;             ///< that it was last sent to
  std::shared_ptr<Waiter> waiter_;   ///< the thread that waits for it
  bool unsent_yet_ = true;           ///< it is still on the thread that sends it
  Node* led_at_ = nullptr;           ///< the waiting thread does its I/O there, and waits there
  bool guests_ = false;              ///< an idle thread does
  bool counted_ = false;             ///< in unawaited_
  std::optional<Error> last_error_;  ///< why it is still on its way
};

}  // namespace holdfast::redis
