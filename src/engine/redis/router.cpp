#include "engine/redis/router.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "engine/redis/conn/fence_floor.hpp"
#include "engine/redis/conn/findings.hpp"
#include "engine/redis/router_parts.hpp"
#include "engine/redis/wire/errors.hpp"
#include "os/random.hpp"

namespace holdfast::redis {
namespace {

using std::chrono::milliseconds;

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

thread_local Router::Completing* Router::Completing::innermost = nullptr;

Router::Router(RedisOptions options, std::string_view home_key, std::shared_ptr<const Endpoint> endpoint,
               std::shared_ptr<Observer> observer)
    : options_(std::move(options)),
      endpoint_(std::move(endpoint)),
      observer_(std::move(observer)),
      home_slot_(slot_of(home_key)),
      number_(++routers) {}

Router::~Router() = default;

Result<std::shared_ptr<Router>> Router::open(const RedisOptions& options, std::string_view home_key,
                                             std::shared_ptr<Observer> observer) {
  auto endpoint = Endpoint::from(options, observer, Servers::cluster);
  if (!endpoint) return endpoint.error();
  // A forked child leaks its copy untouched, as it does its clients.
  std::shared_ptr<Router> router(new Router(options, home_key, *std::move(endpoint), std::move(observer)),
                                 [](Router* mine) {
                                   if (mine->process_.is_current()) delete mine;
                                 });
  if (auto read = router->read_first_map(); !read) return read.error();
  return router;
}

/// Only the opening thread uses the clients yet, so it may block.
Result<Ok> Router::read_first_map() {
  std::optional<Error> last;
  Findings findings;
  const auto deadline = saturating_add(BootClock::now(), endpoint_->options().connect_timeout);
  auto untried = static_cast<BootClock::rep>(options_.cluster_nodes.size());
  std::vector<Node*> seeds;  // all of them: the map of the first may be old, and name no node that lives
  for (const auto& seed : options_.cluster_nodes) {
    const Lock lock(mutex_);
    const auto address = reached_at(seed, seed.host, options_.cluster_connect_to);
    const auto node = find_or_add_node(lock, address, announced_for(seed, options_.cluster_connect_to));
    if (!node) return node.error();
    seeds.push_back(*node);
  }
  for (Node* node : seeds) {
    // A node that is silent leaves time for the next ones.
    const auto now = BootClock::now();
    auto map = read_slot_map(*node->client, node->address, options_, now + (deadline - now) / untried--);
    if (map && map->masters().empty()) {
      map = node->endpoint->about(
          {ErrorCode::ServiceUnavailable,
           "the node knows no master that has slots; check whether it was removed from the cluster"});
    }
    if (map) {
      const Lock lock(mutex_);
      use(lock, *map);
      has_sharded_channels_ = map->has_sharded_channels();
      return Ok{};
    }
    last = map.error();
    if (!last->transient()) return *last;
    const auto name = node->endpoint->name() + ": ", text = last->message();
    findings.add("node", to_text(node->address),
                 {last->code(), text.starts_with(name) ? text.substr(name.size()) : text, last->cause()});
  }
  if (options_.cluster_nodes.size() == 1) return *last;
  return Error(last->code(), endpoint_->name() + ": no node can be used. " + findings.text());
}

bool Router::is_in_url(const RedisAddress& address) const {
  return std::ranges::any_of(options_.cluster_nodes, [&](const RedisAddress& seed) {
    return reached_at(seed, seed.host, options_.cluster_connect_to) == address;
  });
}

Result<Router::Node*> Router::find_or_add_node(const Lock&, const RedisAddress& address,
                                               const std::string& announced_host) {
  const auto found = std::ranges::find(nodes_, address, [](const auto& node) { return node->address; });
  if (found != nodes_.end()) return found->get();
  auto endpoint =
      Endpoint::from(node_options(options_, address, announced_host), observer_, Servers::cluster,
                     is_in_url(address) ? ""
                                        : ". The cluster announced this address; if it is not reachable from "
                                          "here, map it with connect_to");
  if (!endpoint) return endpoint.error();
  auto client = Client::make(*endpoint);
  if (!client) return client.error();
  nodes_.push_back(std::make_unique<Node>(static_cast<std::uint32_t>(nodes_.size()), address,
                                          *std::move(endpoint), *std::move(client), is_in_url(address)));
  return nodes_.back().get();
}

Router::Node* Router::node_at(const Lock& lock, const RedisAddress& address,
                              const std::string& announced_host) {
  const auto node = find_or_add_node(lock, address, announced_host);
  return node ? *node : nullptr;
}

/// Returns whether something is new.
bool Router::use(const Lock& lock, const SlotMap& map) {
  bool changed = false;
  std::vector<Node*> masters;
  for (const auto& master : map.masters()) {
    Node* node = node_at(lock, master.address, master.announced.host);
    masters.push_back(node);
    if (node == nullptr) continue;
    // Promoted, or given slots, since it was asked.
    if (master.config_epoch > node->epoch) node->forget_epoch(lock);
  }
  for (std::uint16_t slot = 0; slot < cluster_slots; ++slot) {
    const auto* owner = map.owner(slot);
    Node* node = owner == nullptr ? nullptr : masters[static_cast<std::size_t>(owner - map.masters().data())];
    Node* const former = owners_[slot].exchange(node);
    if (former == node) continue;
    changed = true;
    // The new owner has a higher epoch than before; the former one may come back with one.
    if (node != nullptr) node->forget_epoch(lock);
    if (former != nullptr) former->forget_epoch(lock);
  }
  std::erase(masters, nullptr);
  // Each node of a cluster has an order of its own. A listing goes from one to the next, over several calls.
  std::ranges::sort(masters, {}, &Node::index);
  masters_ = std::move(masters);
  for (const auto& node : nodes_) node->is_named = std::ranges::find(masters_, node.get()) != masters_.end();
  return changed;
}

std::vector<bool> Router::useful_for_maps(const Lock&) const {
  std::vector<bool> useful;
  useful.reserve(nodes_.size());
  for (const auto& node : nodes_) useful.push_back(node->in_url || node->is_named);
  return useful;
}

std::vector<std::uint32_t> Router::masters() const {
  const Lock lock(mutex_);
  std::vector<std::uint32_t> indexes;
  indexes.reserve(masters_.size());
  for (const auto* master : masters_) indexes.push_back(master->index);
  return indexes;
}

std::vector<std::shared_ptr<const Endpoint>> Router::master_endpoints() const {
  const Lock lock(mutex_);
  std::vector<std::shared_ptr<const Endpoint>> endpoints;
  endpoints.reserve(masters_.size());
  for (const auto* master : masters_) endpoints.push_back(master->endpoint);
  return endpoints;
}

void Router::look_anew() {
  const Lock lock(mutex_);
  (void)refresh_.wish_of_another();
  call_pilot(lock);
}

std::shared_ptr<const Endpoint> Router::any_endpoint() const {
  const Lock lock(mutex_);
  // Masters, where subscribers are counted (WaiterCount).
  if (!masters_.empty()) return masters_[++last_any_ % masters_.size()]->endpoint;
  return nodes_[++last_any_ % nodes_.size()]->endpoint;
}

std::shared_ptr<const Endpoint> Router::endpoint_of(std::string_view key) const {
  const Node* owner = owners_[slot_of(key)].load();
  return owner == nullptr ? any_endpoint() : owner->endpoint;
}

void Router::moved(const Endpoint& node, const RedisAddress& announced) {
  const Lock lock(mutex_);
  const auto by = std::ranges::find(nodes_, &node, [](const auto& one) { return one->endpoint.get(); });
  if (by == nodes_.end()) return want_map(lock, nullptr);
  (*by)->forget_epoch(lock);
  if (announced.port == 0) return want_map(lock, nullptr);
  want_map(lock, node_at(lock, reached_at(announced, (*by)->address.host, options_.cluster_connect_to),
                         announced.host));
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
  routed->answer_timeout = std::min<BootClock::duration>(
      inner.answer_timeout, std::max<BootClock::duration>(options_.command_timeout / 4, milliseconds(250)));
  routed->fail_fast = true;  // this router decides what happens next
  routed->fence_floor_at = inner.fence_floor_at;
  routed->fence_floor_epoch = inner.fence_floor_epoch;
  if (inner.fence_floor_at != std::string::npos) {
    const auto* const digits = &routed->bytes[inner.fence_floor_at];
    (void)std::from_chars(digits, digits + fifteen_digits(0).size(), routed->own_floor_);
  }
  routed->sent_before_ = inner.sent_before_;
  routed->master_ = inner.master;
  routed->by_idle_io = inner.by_idle_io;
  if (auto* delivery = static_cast<Delivery*>(std::exchange(inner.delivery_, nullptr))) {
    // This thread may be another than the one that waits, or than the guest: no guest comes for this call.
    delivery->sent_again = true;
    routed->by_idle_io = false;
    routed->waiter_ = delivery->waiter;
    routed->led_at_ = delivery->led_at;
    routed->unsent_yet_ = !inner.awaited;
  } else if (inner.awaited) {
    routed->waiter_ = waiter_of_this_thread();
  }
  routed->counted_ = !inner.awaited;
  if (routed->counted_) ++unawaited_;
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
    if (node != nullptr) return dispatch(std::move(call), *node, nullptr);
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
  if (call->fence_floor_at != std::string::npos && !knows_epoch(*node)) {
    return park_for_epoch(std::move(call), *node);
  }
  dispatch(std::move(call), *node, nullptr);
}

/// `owner`: the node that has the slot and sent the call on, because the key is on its way; else null.
void Router::dispatch(std::unique_ptr<RoutedCall> call, Node& node, const Node* owner) {
  if (call->fence_floor_at != std::string::npos) {
    // A key on its way to another node counts there too, so the floor is not below either's. No other epoch
    // counts, whatever a newer map says by now: that of a successor would let a deposed master grant its
    // fences.
    const auto epoch = std::max(node.epoch.load(), owner == nullptr ? 0 : owner->epoch.load());
    // Set, not raised: a call may go back to a master of a lower epoch.
    const RememberedFence own{.fence = call->own_floor_, .epoch = call->fence_floor_epoch};
    // The configured floor, which only locks carry, is of no epoch.
    const auto configured = std::min(call->own_floor_, options_.fence_floor);
    const auto floor = std::max(fence_floor_of(epoch, own), configured);
    std::ranges::copy(fifteen_digits(floor), &call->bytes[call->fence_floor_at]);
    call->granted_by_epoch_ = epoch;
  }
  call->asking = owner != nullptr;
  const bool first = std::exchange(call->unsent_yet_, false);
  call->node_ = &node;
  // A first copy is left to the thread that sends it, unless that thread has another. Later ones are left to
  // it if they go where it waits.
  Node* none = nullptr;
  Node* const leads_at = first ? Completing::node_of(*this) : nullptr;
  const bool may_lead = first && call->waiter_ && (leads_at == nullptr || leads_at == &node);
  if (may_lead && call->waiter_->call_at.compare_exchange_strong(none, &node)) call->led_at_ = &node;
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
  const Completing here(*this, *call->node_);
  if (std::exchange(call->guests_, false)) --guest_calls_;
  if (call->awaited) --call->node_->led;
  if (answer && !is_error(**answer)) return deliver(std::move(call), std::move(answer));
  Node& node = *call->node_;
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
      node.forget_epoch(lock);
      Node* const owner =
          redirection.is_known
              ? node_at(lock, reached_at(redirection.address, node.address.host, options_.cluster_connect_to),
                        redirection.address.host)
              : nullptr;
      want_map(lock, owner);
    }
    return follow(std::move(call), step, node);
  }
  const auto& error = answer.error();
  const bool is_over = call->stop_.stop_requested() || BootClock::now() >= call->deadline;
  if (!error.transient() || is_over || call->inner_->fail_fast) {
    return deliver(std::move(call), std::move(answer));
  }
  call->last_error_ = error;
  {
    const Lock lock(mutex_);
    node.forget_epoch(lock);  // what happens to it while it is silent is not seen
  }
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
  // It then begins again at the owner, which sends it here once more.
  if (call->fence_floor_at != std::string::npos && !knows_epoch(*node)) {
    return park_for_epoch(std::move(call), *node);
  }
  dispatch(std::move(call), *node, to->asking ? &from : nullptr);
}

void Router::deliver(std::unique_ptr<RoutedCall> call, Result<Reply> answer) {
  auto inner = std::move(call->inner_);
  inner->sent_ = call->sent_;
  inner->sent_before_ = call->sent_before_;
  inner->epoch_ = call->granted_by_epoch_;
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
  Node* node = Completing::node_of(*this);
  if (node == nullptr) node = waiter->call_at.load();
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
  if (!process_.is_current()) return;
  std::vector<Node*> nodes;
  {
    const Lock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
    if (runtime::WorkerPool::on_library_thread()) return;
    for (const auto& node : nodes_) nodes.push_back(node.get());
  }
  for (Node* node : nodes) node->client->close();
  Lock lock(mutex_);
  drained_.wait(lock, [this] { return unawaited_.load() == 0; });
}

}  // namespace holdfast::redis
