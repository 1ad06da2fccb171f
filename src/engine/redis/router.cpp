#include "engine/redis/router.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "engine/redis/conn/fence_floor.hpp"
#include "engine/redis/errors.hpp"
#include "os/random.hpp"

namespace holdfast::redis {
namespace {

using std::chrono::milliseconds;

/// A map is read again in the background after this time, if grants need its epochs; and a grant waits for it
/// after twice that. Two failovers that depose a master and bring it back take longer.
constexpr BootClock::duration map_is_fresh = std::chrono::seconds(5);
constexpr BootClock::duration map_is_stale = std::chrono::seconds(10);
/// How long one node may take to answer with its map before the next is asked.
constexpr BootClock::duration map_timeout = std::chrono::seconds(1);
/// How soon a stop request ends a call that waits for the pilot.
constexpr BootClock::duration look_for_stops = milliseconds(50);

std::atomic<std::uint64_t> routers = 0;

/// The error of a call whose deadline comes after this redirection.
Error why_on_its_way(Redirection::Kind kind, const redisReply& reply) {
  if (kind != Redirection::Kind::moved && kind != Redirection::Kind::ask) return error_of(reply);
  return {
      ErrorCode::ServiceUnavailable,
      "the nodes of the Redis cluster do not agree which of them has this key; check CLUSTER NODES of each",
      std::string(server_text(reply))};
}

}  // namespace

struct Router::Node {
  std::uint32_t index;
  RedisAddress address;
  std::shared_ptr<const Endpoint> endpoint;
  std::shared_ptr<Client> client;
  /// Its own config epoch, from the last map in which it had slots.
  std::atomic<std::uint64_t> epoch = 0;
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
  std::optional<std::uint32_t> master_;
  Node* node_ = nullptr;             ///< that it was last sent to
  std::shared_ptr<Waiter> waiter_;   ///< the thread that waits for it
  bool unsent_yet_ = true;           ///< it is still on the thread that sends it
  Node* led_at_ = nullptr;           ///< the waiting thread does its I/O there, and waits there
  bool guests_ = false;              ///< an idle thread does
  bool counted_ = false;             ///< in unawaited_
  std::optional<Error> last_error_;  ///< why it is still on its way
};

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

Router::Router(RedisOptions options, std::string_view home_key, std::shared_ptr<const Endpoint> endpoint,
               std::shared_ptr<Log> log, std::shared_ptr<Observer> observer)
    : options_(std::move(options)),
      endpoint_(std::move(endpoint)),
      log_(std::move(log)),
      observer_(std::move(observer)),
      home_slot_(slot_of(home_key)),
      number_(++routers) {}

Router::~Router() = default;

Result<std::shared_ptr<Router>> Router::open(const RedisOptions& options, std::string_view home_key,
                                             std::shared_ptr<Log> log, std::shared_ptr<Observer> observer) {
  auto endpoint = Endpoint::from(options, observer, Servers::cluster);
  if (!endpoint) return endpoint.error();
  // A forked child leaks its copy untouched, as it does its clients.
  std::shared_ptr<Router> router(
      new Router(options, home_key, *std::move(endpoint), std::move(log), std::move(observer)),
      [](Router* mine) {
        if (mine->process_.is_current()) delete mine;
      });
  if (auto read = router->read_first_map(); !read) return read.error();
  return router;
}

/// Only the opening thread uses the clients yet, so it may block.
Result<Ok> Router::read_first_map() {
  std::optional<Error> last;
  for (const auto& seed : options_.cluster_nodes) {
    Node* node = nullptr;
    {
      const Lock lock(mutex_);
      const auto address = reached_at(seed, seed.host, options_.cluster_connect_to);
      node = node_at(lock, address, seed.host);
    }
    if (node == nullptr) return Error(ErrorCode::InvalidArgument, "the TLS files cannot be used");
    const auto asked_at = BootClock::now();
    const auto map = read_slot_map(*node->client, node->address, options_);
    if (map) {
      const Lock lock(mutex_);
      use(lock, *map, asked_at);
      return Ok{};
    }
    last = map.error();
    if (!last->transient()) break;
  }
  return *last;
}

Router::Node* Router::node_at(const Lock&, const RedisAddress& address, const std::string& announced_host) {
  const auto found = std::ranges::find(nodes_, address, [](const auto& node) { return node->address; });
  if (found != nodes_.end()) return found->get();
  auto endpoint =
      Endpoint::from(node_options(options_, address, announced_host), observer_, Servers::cluster);
  if (!endpoint) return nullptr;
  auto client = Client::make(*endpoint);
  nodes_.push_back(std::make_unique<Node>(static_cast<std::uint32_t>(nodes_.size()), address,
                                          *std::move(endpoint), std::move(client)));
  return nodes_.back().get();
}

/// Returns whether something is new.
bool Router::use(const Lock& lock, const SlotMap& map, BootTime asked_at) {
  bool changed = false;
  std::vector<Node*> masters;
  for (const auto& master : map.masters()) {
    Node* node = node_at(lock, master.address, master.announced.host);
    masters.push_back(node);
    if (node == nullptr) continue;
    // Before the slots: a call that finds this owner must find its epoch too.
    changed |= node->epoch.exchange(master.config_epoch) != master.config_epoch;
    if (master.config_epoch > highest_epoch && !std::exchange(warned_of_epoch_, true) && log_) {
      log_->write(LogLevel::warning,
                  node->endpoint->name() + ": its config epoch " + std::to_string(master.config_epoch) +
                      " is above " + std::to_string(highest_epoch) +
                      " and is not applied: after a failover that lost writes, fences may repeat");
    }
  }
  for (std::uint16_t slot = 0; slot < cluster_slots; ++slot) {
    const auto* owner = map.owner(slot);
    Node* node = owner == nullptr ? nullptr : masters[static_cast<std::size_t>(owner - map.masters().data())];
    changed |= owners_[slot].exchange(node) != node;
  }
  std::erase(masters, nullptr);
  masters_ = std::move(masters);
  map_read_at_ = asked_at.time_since_epoch().count();
  return changed;
}

std::vector<std::uint32_t> Router::masters() const {
  const Lock lock(mutex_);
  std::vector<std::uint32_t> indexes;
  indexes.reserve(masters_.size());
  for (const auto* master : masters_) indexes.push_back(master->index);
  return indexes;
}

std::shared_ptr<const Endpoint> Router::any_endpoint() const {
  const Lock lock(mutex_);
  // Masters, where subscribers are counted (WaiterCount).
  if (!masters_.empty()) return masters_[++last_any_ % masters_.size()]->endpoint;
  return nodes_[++last_any_ % nodes_.size()]->endpoint;
}

std::shared_ptr<Router::Waiter> Router::waiter_of_this_thread() {
  thread_local std::vector<std::shared_ptr<Waiter>> waiters;
  const auto found = std::ranges::find(waiters, number_, [](const auto& waiter) { return waiter->router; });
  if (found != waiters.end()) return *found;
  // Those of routers that are gone.
  std::erase_if(waiters, [](const auto& waiter) {
    return waiter.use_count() == 1 && waiter->waits_at.load() == nullptr;
  });
  return waiters.emplace_back(std::make_shared<Waiter>(number_));
}

void Router::send(std::unique_ptr<Call> call, const std::stop_token& stop) {
  auto routed = std::make_unique<RoutedCall>(shared_from_this(), std::move(call), stop);
  Call& inner = *routed->inner_;
  const auto key = std::string_view(inner.bytes).substr(inner.key_at, inner.key_size);
  routed->slot_ = key.empty() ? home_slot_ : slot_of(key);
  routed->bytes = std::move(inner.bytes);
  routed->deadline = inner.deadline;
  // A node that is silent for a part of the command timeout may have been replaced by its replica.
  routed->patience = std::min<BootClock::duration>(
      inner.patience, std::max<BootClock::duration>(options_.command_timeout / 4, milliseconds(250)));
  routed->fail_fast = true;  // this router decides what happens next
  routed->fence_floor_at = inner.fence_floor_at;
  if (inner.fence_floor_at != std::string::npos) {
    const auto* const digits = &routed->bytes[inner.fence_floor_at];
    (void)std::from_chars(digits, digits + fifteen_digits(0).size(), routed->own_floor_);
  }
  routed->sent_before_ = inner.sent_before_;
  routed->master_ = inner.master;
  if (auto* delivery = static_cast<Delivery*>(std::exchange(inner.delivery_, nullptr))) {
    // This thread may be another than the one that waits.
    delivery->sent_again = true;
    routed->waiter_ = delivery->waiter;
    routed->led_at_ = delivery->led_at;
    routed->unsent_yet_ = !inner.awaited;
  } else if (inner.awaited) {
    routed->waiter_ = waiter_of_this_thread();
  }
  routed->counted_ = !inner.awaited;
  if (routed->counted_) ++unawaited_;
  routed->by_idle_io = inner.by_idle_io;
  start(std::move(routed));
}

/// Sends it to the owner of its slot.
void Router::start(std::unique_ptr<RoutedCall> call) {
  if (call->master_) {
    Node* node = nullptr;
    {
      const Lock lock(mutex_);
      const auto found = std::ranges::find(masters_, *call->master_, &Node::index);
      if (found != masters_.end()) node = *found;
    }
    if (node != nullptr) return dispatch(std::move(call), *node, false);
    return deliver(std::move(call),
                   Error(ErrorCode::ServiceUnavailable,
                         endpoint_->name() + ": the masters changed during the listing; retry"));
  }
  Node* node = owners_[call->slot_].load();
  if (node == nullptr) {
    call->last_error_ = Error(ErrorCode::ServiceUnavailable,
                              endpoint_->name() + ": no master has the slot of this key; check CLUSTER INFO");
    return park(std::move(call), std::nullopt);
  }
  if (call->fence_floor_at != std::string::npos) {
    const auto age = BootClock::now().time_since_epoch() - BootClock::duration(map_read_at_.load());
    if (age > map_is_stale) return park(std::move(call), std::nullopt);
    if (age > map_is_fresh) {
      const Lock lock(mutex_);
      if (!refresh_.asking()) want_map(lock, nullptr);
    }
  }
  dispatch(std::move(call), *node, false);
}

void Router::dispatch(std::unique_ptr<RoutedCall> call, Node& node, bool asking) {
  if (call->fence_floor_at != std::string::npos) {
    // A key on its way to another node counts there too, so the floor is not below either's.
    const Node* owner = owners_[call->slot_].load();
    const auto epoch = std::max(node.epoch.load(), owner == nullptr ? 0 : owner->epoch.load());
    // Set, not raised: a call may go back to a master of a lower epoch.
    std::ranges::copy(fifteen_digits(fence_floor_of(epoch, call->own_floor_)),
                      &call->bytes[call->fence_floor_at]);
  }
  call->asking = asking;
  const bool first = std::exchange(call->unsent_yet_, false);
  call->node_ = &node;
  // A first copy is left to the thread that sends it, unless that thread has another. Later ones are left to
  // it if they go where it waits.
  Node* none = nullptr;
  if (first && call->waiter_ && call->waiter_->call_at.compare_exchange_strong(none, &node)) {
    call->led_at_ = &node;
  }
  call->awaited = call->led_at_ == &node;
  if (call->awaited) ++node.led;
  if (call->by_idle_io) {
    Node* guest_at = guest_calls_.load() == 0 ? nullptr : guest_at_.load();
    call->by_idle_io = first && (guest_at == nullptr || guest_at == &node);
    if (call->by_idle_io) {
      guest_at_ = &node;
      ++guest_calls_;
      call->guests_ = true;
    }
  }
  const auto stop = call->stop_;
  node.client->send(std::move(call), stop);
}

/// On the thread that leads the client of its last node.
void Router::ended(std::unique_ptr<RoutedCall> call, Result<Reply> answer) {
  if (std::exchange(call->guests_, false)) --guest_calls_;
  if (call->awaited) --call->node_->led;
  if (answer && !is_error(**answer)) return deliver(std::move(call), std::move(answer));
  const Node& node = *call->node_;
  if (answer) {
    const auto redirection = redirection_of(**answer);
    const auto step = call->route_.answered(redirection, os::jitter_fraction());
    if (std::holds_alternative<CallRoute::Deliver>(step)) return deliver(std::move(call), std::move(answer));
    // A part of a script may have been carried out; any other refused copy was not.
    if (redirection.kind == Redirection::Kind::script_cut) call->sent_before_ = true;
    call->sent_ = false;
    call->last_error_ = node.endpoint->about(why_on_its_way(redirection.kind, **answer));
    if (redirection.kind == Redirection::Kind::moved) {
      // The new owner knows best. Until its map is here the slot stays as it is for other calls: one that
      // carries an epoch must not meet an owner whose epoch is not known yet.
      const Lock lock(mutex_);
      want_map(lock,
               node_at(lock, reached_at(redirection.address, node.address.host, options_.cluster_connect_to),
                       redirection.address.host));
    }
    return follow(std::move(call), step, node);
  }
  const auto& error = answer.error();
  const bool is_over = call->stop_.stop_requested() || BootClock::now() >= call->deadline;
  if (!error.transient() || is_over || call->inner_->fail_fast) {
    return deliver(std::move(call), std::move(answer));
  }
  call->last_error_ = error;
  follow(std::move(call), CallRoute::lost(), node);
}

void Router::follow(std::unique_ptr<RoutedCall> call, const CallRoute::Step& step, const Node& from) {
  if (call->master_) {
    const auto error = *call->last_error_;
    return deliver(std::move(call), error);
  }
  if (const auto* pause = std::get_if<CallRoute::Pause>(&step)) return park(std::move(call), pause->length);
  const auto* to = std::get_if<CallRoute::SendTo>(&step);
  if (to == nullptr) return park(std::move(call), std::nullopt);
  Node* node = nullptr;
  {
    const Lock lock(mutex_);
    node = node_at(lock, reached_at(to->announced, from.address.host, options_.cluster_connect_to),
                   to->announced.host);
  }
  if (node == nullptr) return park(std::move(call), std::nullopt);
  dispatch(std::move(call), *node, to->asking);
}

void Router::deliver(std::unique_ptr<RoutedCall> call, Result<Reply> answer) {
  auto inner = std::move(call->inner_);
  inner->sent_ = call->sent_;
  inner->sent_before_ = call->sent_before_;
  // Connections of several nodes: none has another's number.
  const auto node = call->node_ == nullptr ? 0 : call->node_->index + 1;
  inner->connection_ = (std::uint64_t{node} << 48U) | call->connection_;
  Delivery delivery{.waiter = std::move(call->waiter_), .led_at = call->led_at_};
  const auto& waiter = delivery.waiter;
  const bool handed_over = waiter && !call->awaited;
  const bool counted = call->counted_;
  const auto self = std::move(call->router_);
  call.reset();
  inner->delivery_ = &delivery;
  auto& target = *inner;
  target.finish(std::move(inner), std::move(answer));
  if (delivery.led_at != nullptr && !delivery.sent_again) waiter->call_at = nullptr;
  if (handed_over && !delivery.sent_again) {
    // The completion was finished first: that thread either sees it before it sleeps, or is seen here.
    if (Node* waits_at = waiter->waits_at.load()) waits_at->client->wake();
  }
  if (counted && --unawaited_ == 0) {
    const Lock lock(mutex_);
    drained_.notify_all();
  }
}

void Router::wait(Completion& completion) {
  detail::Trampoline::drain();
  if (completion.finished()) return;
  const auto self = shared_from_this();
  const auto waiter = waiter_of_this_thread();
  Node* node = waiter->call_at.load();
  if (node == nullptr) {
    // The call was handed over already, or another thread sent it. Its I/O may have been left to that thread:
    // a call behind it that no thread waits for makes a background thread lead until both are answered.
    std::vector<Node*> nodes;
    {
      const Lock lock(mutex_);
      for (const auto& one : nodes_) {
        if (one->led.load() > 0) nodes.push_back(one.get());
      }
    }
    struct Ignored final : Call {
      void finish(std::unique_ptr<Call>, Result<Reply>) override {}
    };
    for (Node* one : nodes) {
      auto behind = std::make_unique<Ignored>();
      behind->bytes = Command("PING").bytes();
      behind->deadline = saturating_add(BootClock::now(), options_.command_timeout);
      behind->fail_fast = true;
      one->client->send(std::move(behind), {});
    }
    return completion.wait();
  }
  Node* const before = waiter->waits_at.exchange(node);
  node->client->wait(completion);
  waiter->waits_at = before;
}

void Router::run_until_readable(int descriptor) noexcept {
  if (!process_.is_current()) return;
  const auto self = shared_from_this();
  if (Node* node = guest_at_.load()) node->client->run_until_readable(descriptor);
}

void Router::close() {
  if (!process_.is_current() || runtime::WorkerPool::on_library_thread()) return;
  std::vector<Node*> nodes;
  {
    const Lock lock(mutex_);
    for (const auto& node : nodes_) nodes.push_back(node.get());
  }
  for (Node* node : nodes) node->client->close();
  Lock lock(mutex_);
  drained_.wait(lock, [this] { return unawaited_.load() == 0; });
}

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

void Router::want_map(const Lock& lock, const Node* preferred) {
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
      const bool ready = here->ticket == 0 ? here->at <= now : here->ticket <= refresh_.answered();
      if (ready || here->call->deadline <= now || here->call->stop_.stop_requested()) {
        due.splice(due.end(), parked_, here);
      } else {
        next = std::min({next, here->at, here->call->deadline});
      }
    }
    if (!due.empty()) {
      lock.unlock();
      for (auto& parked : due) go_on(std::move(parked.call));
      due.clear();
      lock.lock();
      continue;
    }
    if (refresh_.asking()) {
      next = std::min(next, asked_at_ + map_timeout);
    } else {
      const auto step = refresh_.next(now, nodes_.size());
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
    return deliver(std::move(call), stopped);
  }
  if (call->deadline > BootClock::now()) return start(std::move(call));
  const auto late =
      call->last_error_.value_or(Error(ErrorCode::NetworkTimeout, endpoint_->name() + ": not sent in time"));
  deliver(std::move(call), late);
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
    call->patience = map_timeout;
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
    if (map) return refresh_.succeeded(use(lock, *map, asked_at_), now, os::jitter_fraction());
  }
  refresh_.failed(now, nodes_.size(), os::jitter_fraction());
}

}  // namespace holdfast::redis
