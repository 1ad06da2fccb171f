#include <algorithm>
#include <set>
#include <utility>

#include "engine/redis/conn/slot_map.hpp"
#include "engine/redis/router_parts.hpp"
#include "engine/redis/wire/errors.hpp"
#include "os/random.hpp"

namespace holdfast::redis {
namespace {

/// A master that grants is asked for its epoch again in the background after this time; and a grant waits for
/// its answer after twice that. Two failovers that depose a master and bring it back take longer.
constexpr BootClock::duration epoch_is_fresh = std::chrono::seconds(5);
constexpr BootClock::duration epoch_is_stale = std::chrono::seconds(10);
constexpr BootClock::duration ask_again_after = std::chrono::milliseconds(100);
/// How long one node may take to answer with its map before the next is asked.
constexpr BootClock::duration map_timeout = std::chrono::seconds(1);
/// How soon a stop request ends a call that waits for the pilot.
constexpr BootClock::duration look_for_stops = std::chrono::milliseconds(50);

}  // namespace

/// Half of a question for the map.
class Router::MapCall final : public Call {
 public:
  MapCall(std::weak_ptr<Router> router, std::uint64_t question, std::optional<Result<Reply>> Router::* part)
      : router_(std::move(router)), question_(question), part_(part) {}

 private:
  void finish(std::unique_ptr<Call>, Result<Reply> answer) override {
    const auto router = router_.lock();
    if (!router) return;
    const Lock lock(router->mutex_);
    if (router->question_ != question_) return;
    ((*router).*part_).emplace(std::move(answer));
    router->changed_.notify_all();
  }

  std::weak_ptr<Router> router_;
  std::uint64_t question_;
  std::optional<Result<Reply>> Router::* part_;
};

/// A question for a node's own epoch.
class Router::EpochCall final : public Call {
 public:
  /// Requires the router's mutex.
  EpochCall(std::weak_ptr<Router> router, Node& node, BootTime asked_at)
      : router_(std::move(router)), node_(node), asked_at_(asked_at), forgotten_(node.epoch_forgotten) {}

 private:
  void finish(std::unique_ptr<Call>, Result<Reply> answer) override {
    const auto router = router_.lock();
    if (!router) return;
    const Lock lock(router->mutex_);
    node_.is_asked_for_epoch = false;
    node_.epoch_unknown.reset();
    // As for any other call: another attempt would not help, neither against a wrong password nor a missing
    // right.
    const auto refused = !answer              ? std::optional(answer.error())
                         : is_error(**answer) ? std::optional(node_.endpoint->about(error_of(**answer)))
                                              : std::nullopt;
    if (const auto epoch = answer ? own_epoch_in(**answer) : std::nullopt) {
      node_.epoch = std::max(node_.epoch.load(), *epoch);
      if (forgotten_ == node_.epoch_forgotten) {
        node_.epoch_asked_at = asked_at_.time_since_epoch().count();
      } else {
        node_.ask_again_at = {};
      }
    } else if (refused && !refused->transient()) {
      node_.epoch_refused = refused;
    } else {
      if (!answer) node_.epoch_unknown = answer.error();
      // It may not be the master any more.
      router->want_map(lock, nullptr);
    }
    router->changed_.notify_all();
  }

  std::weak_ptr<Router> router_;
  Node& node_;
  const BootTime asked_at_;
  const std::uint64_t forgotten_;
};

/// Leaves a call to the pilot: until it has a new map, or for a pause.
void Router::park(std::unique_ptr<RoutedCall> call, std::optional<BootClock::duration> pause) {
  call->unsent_yet_ = false;
  const Lock lock(mutex_);
  Parked parked{.call = std::move(call)};
  if (pause) {
    parked.at = BootClock::now() + *pause;
  } else {
    parked.ticket = parked.call->last_error_ ? refresh_.wish_of_another() : refresh_.wish();
  }
  parked_.push_back(std::move(parked));
  call_pilot(lock);
}

/// Whether its epoch is known well enough for a grant. Asks for it in the background before it is too old.
bool Router::knows_epoch(Node& node) {
  const auto age = BootClock::now().time_since_epoch() - BootClock::duration(node.epoch_asked_at.load());
  if (age > epoch_is_fresh) {
    Lock lock(mutex_);
    (void)ask_for_epoch(lock, node);
  }
  return age <= epoch_is_stale;
}

/// Returns whether it did; then the mutex was released meanwhile.
bool Router::ask_for_epoch(Lock& lock, Node& node) {
  const BootTime now = BootClock::now();
  if (node.is_asked_for_epoch || now < node.ask_again_at) return false;
  node.is_asked_for_epoch = true;
  node.ask_again_at = now + ask_again_after;
  node.epoch_refused.reset();  // the user may have got the right since
  auto call = std::make_unique<EpochCall>(weak_from_this(), node, now);
  lock.unlock();
  call->bytes = Command("CLUSTER INFO").bytes();
  call->deadline = now + map_timeout;
  call->answer_timeout = map_timeout;
  call->fail_fast = true;
  node.client->send(std::move(call), {});
  lock.lock();
  return true;
}

/// Leaves a call to the pilot until this node has told its epoch.
void Router::park_for_epoch(std::unique_ptr<RoutedCall> call, Node& node) {
  call->unsent_yet_ = false;
  const Lock lock(mutex_);
  Node* const owner = owners_[call->slot_].load();
  parked_.push_back({.call = std::move(call), .epoch_of = &node, .owner = owner});
  call_pilot(lock);
}

/// A parked call whose node has told its epoch, or whose slot has another owner.
bool Router::may_be_granted(const Parked& parked, BootTime now) const {
  const auto age = now.time_since_epoch() - BootClock::duration(parked.epoch_of->epoch_asked_at.load());
  return age <= epoch_is_stale || parked.epoch_of->epoch_refused ||
         owners_[parked.call->slot_].load() != parked.owner;
}

void Router::want_map(const Lock& lock, Node* preferred) {
  if (preferred != nullptr) preferred->is_named = true;
  (void)refresh_.wish(preferred == nullptr ? MapRefresh::no_preference : preferred->index);
  call_pilot(lock);
}

void Router::call_pilot(const Lock&) {
  if (std::exchange(piloting_, true)) return changed_.notify_all();
  pilot_.post([self = shared_from_this()] { self->pilot(); });
}

void Router::pilot() {
  Lock lock(mutex_);
  for (;;) {
    const BootTime now = BootClock::now();
    if (refresh_.asking()) take_map(lock, now);
    BootTime next = never;
    std::list<Parked> due;
    for (auto at = parked_.begin(); at != parked_.end();) {
      const auto here = at++;
      const bool ready = here->epoch_of != nullptr ? may_be_granted(*here, now)
                         : here->ticket == 0       ? here->at <= now
                                                   : here->ticket <= refresh_.answered();
      if (ready || here->call->deadline <= now || here->call->stop_.stop_requested()) {
        due.splice(due.end(), parked_, here);
      } else {
        next = std::min({next, here->at, here->call->deadline});
      }
    }
    if (!due.empty()) {
      for (auto& parked : due) {
        if (parked.epoch_of != nullptr && parked.epoch_of->epoch_refused)
          parked.refused = *parked.epoch_of->epoch_refused;
        if (parked.epoch_of != nullptr && parked.call->deadline <= now && !parked.call->last_error_)
          parked.call->last_error_ = parked.epoch_of->epoch_unknown;
      }
      lock.unlock();
      for (auto& parked : due) {
        if (parked.refused && parked.call->was_sent()) {
          // An earlier copy may have been carried out: what follows from the refusal is not known.
          deliver_from_pilot(std::move(parked.call), {ErrorCode::NetworkTimeout, parked.refused->message()});
        } else if (parked.refused) {
          deliver_from_pilot(std::move(parked.call), *parked.refused);
        } else {
          go_on(std::move(parked.call));
        }
      }
      due.clear();
      lock.lock();
      continue;
    }
    std::set<Node*> unknown;
    for (const auto& parked : parked_) {
      if (parked.epoch_of != nullptr) unknown.insert(parked.epoch_of);
    }
    bool asked = false;
    for (Node* node : unknown) asked |= ask_for_epoch(lock, *node);
    if (asked) continue;  // the mutex was released: an answer may be here
    if (!unknown.empty()) next = std::min(next, now + ask_again_after);
    if (closed_ && parked_.empty()) {
      // No call needs the map that was wished for.
      piloting_ = false;
      return;
    }
    if (refresh_.asking()) {
      next = std::min(next, asked_at_ + map_timeout);
    } else {
      const auto step = refresh_.next(now, useful_for_maps(lock));
      if (const auto* ask = std::get_if<MapRefresh::Ask>(&step)) {
        ask_for_map(lock, *nodes_[ask->candidate]);
        continue;
      }
      next = std::min(next, std::get<MapRefresh::Idle>(step).until);
    }
    if (next == never) {
      piloting_ = false;
      return;
    }
    if (!parked_.empty()) next = std::min(next, now + look_for_stops);
    changed_.wait_for(lock, next - now);
  }
}

/// A parked call whose time has come.
void Router::go_on(std::unique_ptr<RoutedCall> call) {
  if (call->stop_.stop_requested()) {
    const auto stopped = call->was_sent() ? Error(ErrorCode::NetworkTimeout,
                                                  endpoint_->name() + ": stopped before the reply arrived")
                                          : Error(ErrorCode::Aborted, "the caller stopped the operation");
    return deliver_from_pilot(std::move(call), stopped);
  }
  if (call->deadline > BootClock::now()) return start(std::move(call));
  const auto late =
      call->last_error_.value_or(Error(ErrorCode::NetworkTimeout, endpoint_->name() + ": not sent in time"));
  deliver_from_pilot(std::move(call), late);
}

/// On another thread if no thread waits for the call: its completion may wait for a call that needs the
/// pilot.
void Router::deliver_from_pilot(std::unique_ptr<RoutedCall> call, Error error) {
  if (call->inner_->awaited) return deliver(std::move(call), std::move(error));
  auto shared =
      std::make_shared<std::pair<std::unique_ptr<RoutedCall>, Error>>(std::move(call), std::move(error));
  pilot_.post([self = shared_from_this(),
               shared] { self->deliver(std::move(shared->first), std::move(shared->second)); },
              runtime::WorkerPool::Priority::limited);
}

void Router::ask_for_map(Lock& lock, Node& node) {
  const auto question = ++question_;
  asked_ = &node;
  asked_at_ = BootClock::now();
  nodes_reply_.reset();
  slots_reply_.reset();
  lock.unlock();
  // Without a waiting thread: leading here would run completions of others, which may wait for this thread.
  const auto ask = [&](Command command, std::optional<Result<Reply>> Router::* part) {
    auto call = std::make_unique<MapCall>(weak_from_this(), question, part);
    call->bytes = std::move(command).bytes();
    call->deadline = asked_at_ + map_timeout;
    call->answer_timeout = map_timeout;
    call->fail_fast = true;
    node.client->send(std::move(call), {});
  };
  ask({"CLUSTER SLOTS"}, &Router::slots_reply_);
  ask({"CLUSTER NODES"}, &Router::nodes_reply_);
  lock.lock();
}

/// Uses the replies of the question under way, or gives it up.
void Router::take_map(const Lock& lock, BootTime now) {
  const bool complete = nodes_reply_ && slots_reply_;
  if (!complete && now < asked_at_ + map_timeout) return;
  ++question_;  // what comes now is too late
  if (complete && *nodes_reply_ && *slots_reply_) {
    const auto map =
        SlotMap::from(***nodes_reply_, ***slots_reply_, asked_->address, options_.cluster_connect_to);
    // A node that was removed from the cluster, and reset, knows only itself.
    if (map && !map->masters().empty())
      return refresh_.succeeded(use(lock, *map), now, os::jitter_fraction());
  }
  const auto useful = std::ranges::count(useful_for_maps(lock), true);
  refresh_.failed(now, static_cast<std::size_t>(useful), os::jitter_fraction());
}

}  // namespace holdfast::redis
