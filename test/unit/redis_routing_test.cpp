#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>
#include <string>

#include "engine/redis/conn/fence_floor.hpp"
#include "engine/redis/conn/routing_fsm.hpp"
#include "support/replies.hpp"
#include "support/seeded.hpp"

namespace holdfast::redis {
namespace {

using namespace std::chrono_literals;
using Kind = Redirection::Kind;
using test::reply_of;

Redirection redirected(const std::string& error) {
  return redirection_of(*reply_of("-" + error + "\r\n"));
}
template <class Step>
bool is(const CallRoute::Step& step) {
  return std::holds_alternative<Step>(step);
}

TEST(Redirections, AreReadFromErrors) {
  const auto moved = redirected("MOVED 3999 127.0.0.1:6381");
  EXPECT_EQ(moved.kind, Kind::moved);
  EXPECT_EQ(moved.slot, 3999);
  EXPECT_EQ(moved.address, (RedisAddress{"127.0.0.1", 6381}));
  EXPECT_EQ(redirected("ASK 16383 node-b.example:7000").address, (RedisAddress{"node-b.example", 7000}));
  EXPECT_EQ(redirected("MOVED 1 ::1:7000").address, (RedisAddress{"::1", 7000}));
  EXPECT_EQ(redirected("MOVED 1 :7000").address, (RedisAddress{"", 7000})) << "the host that was asked";
  EXPECT_TRUE(redirected("MOVED 1 :7000").is_known);
  EXPECT_FALSE(redirected("MOVED 1 ?:7000").is_known)
      << "a cluster that prefers names, and a node without one";
  EXPECT_EQ(redirected("TRYAGAIN Multiple keys request during rehashing of slot").kind, Kind::try_again);
  EXPECT_EQ(redirected("CLUSTERDOWN Hash slot not served").kind, Kind::down);
  EXPECT_EQ(redirected("ERR Script attempted to access a non local key in a cluster node script: 0, on "
                       "@user_script:3.")
                .kind,
            Kind::script_cut);
}

TEST(Redirections, AnythingElseIsAnAnswer) {
  for (const auto* error :
       {"MOVED", "MOVED 1", "MOVED x h:1", "MOVED 16384 h:1", "MOVED 1 h:0", "MOVED 1 h:65536", "MOVED 1 h",
        "ASK 1 h:1x", "WRONGTYPE x", "ERR MOVED 1 h:1", "OOM x"}) {
    EXPECT_EQ(redirected(error).kind, Kind::none) << error;
  }
  EXPECT_EQ(redirection_of(*reply_of("+MOVED 1 h:1\r\n")).kind, Kind::none);
  EXPECT_EQ(redirection_of(*reply_of("$-1\r\n")).kind, Kind::none);
}

TEST(CallRoute, FollowsRedirectionsAtOnce) {
  CallRoute route(false);
  const auto moved = route.answered({.kind = Kind::moved, .slot = 1, .address = {"b", 2}}, 0);
  ASSERT_TRUE(is<CallRoute::SendTo>(moved));
  EXPECT_EQ(std::get<CallRoute::SendTo>(moved).announced, (RedisAddress{"b", 2}));
  EXPECT_FALSE(std::get<CallRoute::SendTo>(moved).asking);
  const auto ask = route.answered({.kind = Kind::ask, .slot = 1, .address = {"c", 3}}, 0);
  ASSERT_TRUE(is<CallRoute::SendTo>(ask));
  EXPECT_TRUE(std::get<CallRoute::SendTo>(ask).asking);
  EXPECT_TRUE(is<CallRoute::Deliver>(route.answered({}, 0)));
}

TEST(CallRoute, ACallThatCarriesAnEpochWaitsForTheMap) {
  CallRoute route(true);
  EXPECT_TRUE(is<CallRoute::AfterRefresh>(route.answered({.kind = Kind::moved}, 0)));
  EXPECT_TRUE(is<CallRoute::SendTo>(route.answered({.kind = Kind::ask}, 0)));
}

TEST(CallRoute, ANodeWithoutANameIsLookedUpInTheMap) {
  CallRoute route(false);
  EXPECT_TRUE(is<CallRoute::AfterRefresh>(route.answered(redirected("MOVED 1 ?:7000"), 0)));
}

TEST(CallRoute, NodesThatDisagreeDoNotSendItAroundForever) {
  CallRoute route(false);
  int hops = 0;
  while (is<CallRoute::SendTo>(route.answered({.kind = Kind::moved}, 0))) ++hops;
  EXPECT_EQ(hops, 5);
  EXPECT_TRUE(is<CallRoute::SendTo>(route.answered({.kind = Kind::moved}, 0))) << "it began again";
}

TEST(CallRoute, PausesGrowWhileASlotMoves) {
  CallRoute route(false);
  BootClock::duration before{};
  for (int i = 0; i < 7; ++i) {
    const auto step = route.answered({.kind = Kind::try_again}, 0);
    ASSERT_TRUE(is<CallRoute::Pause>(step));
    EXPECT_GT(std::get<CallRoute::Pause>(step).length, before);
    before = std::get<CallRoute::Pause>(step).length;
  }
  EXPECT_EQ(before, 32ms);
  EXPECT_EQ(std::get<CallRoute::Pause>(route.answered({.kind = Kind::script_cut}, 0)).length, 32ms);
}

TEST(CallRoute, ALostNodeOrAClusterThatIsDownNeedsAMap) {
  CallRoute route(false);
  EXPECT_TRUE(is<CallRoute::AfterRefresh>(CallRoute::lost()));
  EXPECT_TRUE(is<CallRoute::AfterRefresh>(route.answered({.kind = Kind::down}, 0)));
}

BootTime at(BootClock::duration since) {
  return BootTime(since);
}
std::size_t asked(const MapRefresh::Step& step) {
  return std::get<MapRefresh::Ask>(step).candidate;
}
const std::vector<bool> all_nodes(3, true);
BootTime idle_until(const MapRefresh::Step& step) {
  return std::get<MapRefresh::Idle>(step).until;
}

TEST(MapRefresh, AQuestionAnswersOnlyWishesFromBeforeIt) {
  MapRefresh refresh;
  EXPECT_EQ(idle_until(refresh.next(at(1s), all_nodes)), never);
  const auto first = refresh.wish();
  EXPECT_EQ(asked(refresh.next(at(1s), all_nodes)), 0U);
  EXPECT_EQ(refresh.wish(), first + 1) << "it may have been answered already";
  EXPECT_EQ(refresh.wish(), first + 1);
  EXPECT_EQ(idle_until(refresh.next(at(1s), all_nodes)), never) << "one at a time";
  refresh.succeeded(true, at(1s), 0);
  EXPECT_EQ(refresh.answered(), first);
  EXPECT_EQ(asked(refresh.next(at(1s), all_nodes)), 0U) << "a change may be followed by another";
  refresh.succeeded(false, at(1s), 0);
  EXPECT_EQ(refresh.answered(), first + 1);
}

TEST(MapRefresh, AMapThatSaysNothingNewIsNotAskedForAtOnce) {
  MapRefresh refresh;
  BootTime now = at(10s);
  std::vector<BootClock::duration> pauses;
  for (int i = 0; i < 8; ++i) {
    refresh.wish();
    const auto step = refresh.next(now, all_nodes);
    if (const auto* idle = std::get_if<MapRefresh::Idle>(&step)) {
      pauses.push_back(idle->until - now);
      now = idle->until;
      (void)asked(refresh.next(now, all_nodes));
    }
    refresh.succeeded(false, now, 0);
  }
  EXPECT_EQ(pauses, (std::vector<BootClock::duration>{5ms, 10ms, 20ms, 40ms, 80ms, 160ms, 250ms}));
  refresh.wish();
  (void)asked(refresh.next(now + 2s, all_nodes));
  refresh.succeeded(false, now + 2s, 0);
  refresh.wish();
  EXPECT_EQ(idle_until(refresh.next(now + 2s, all_nodes)), now + 2s + 5ms)
      << "after some quiet it begins anew";
}

TEST(MapRefresh, AsksEveryNodeOnceBeforeItPauses) {
  MapRefresh refresh;
  refresh.wish(1);
  const BootTime now = at(1s);
  EXPECT_EQ(asked(refresh.next(now, all_nodes)), 1U) << "the node that a redirection named";
  refresh.failed(now, 3, 0);
  EXPECT_EQ(asked(refresh.next(now, all_nodes)), 2U);
  refresh.failed(now, 3, 0);
  EXPECT_EQ(asked(refresh.next(now, all_nodes)), 0U);
  refresh.failed(now, 3, 0);
  EXPECT_EQ(idle_until(refresh.next(now, all_nodes)), now + 5ms);
  EXPECT_EQ(asked(refresh.next(now + 5ms, all_nodes)), 1U);
  refresh.succeeded(true, now, 0);
  refresh.wish();
  EXPECT_EQ(asked(refresh.next(now + 5ms, all_nodes)), 1U) << "the one that answered last";
}

TEST(MapRefresh, AMapThatDidNotHelpIsFollowedByAnotherNodes) {
  MapRefresh refresh;
  BootTime now = at(1s);
  for (const std::size_t expected : {1U, 2U, 0U, 1U}) {
    refresh.wish_of_another();
    now += 1s;
    EXPECT_EQ(asked(refresh.next(now, all_nodes)), expected);
    refresh.succeeded(false, now, 0);
  }
  refresh.wish();
  EXPECT_EQ(asked(refresh.next(now + 1s, all_nodes)), 1U) << "it is only old";
  refresh.succeeded(false, now, 0);
  refresh.wish_of_another();
  refresh.wish(0);
  EXPECT_EQ(asked(refresh.next(now + 2s, all_nodes)), 0U) << "the node that a redirection named";
}

TEST(MapRefresh, ANodeThatIsOfNoUseIsSkipped) {
  MapRefresh refresh;
  BootTime now = at(1s);
  for (const std::size_t expected : {2U, 0U, 2U}) {
    refresh.wish_of_another();
    now += 1s;
    EXPECT_EQ(asked(refresh.next(now, {true, false, true})), expected);
    refresh.succeeded(false, now, 0);
  }
  refresh.wish();
  EXPECT_EQ(idle_until(refresh.next(now + 1s, {false, false, false})), never);
}

/// A cluster of a few slots that fails over, loses writes, moves slots and disagrees with itself; and a
/// client of the machines above. Time is a number.
class Simulation {
 public:
  explicit Simulation(test::Seeded& random) : random_(random) {
    for (std::size_t node = 0; node < nodes; ++node) nodes_[node].epoch = node + 1;
    for (std::size_t slot = 0; slot < slots; ++slot) {
      owner_[slot] = slot % nodes;
      for (auto& node : nodes_) node.view[slot] = owner_[slot];
    }
    read_map(0);
  }

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      now_ += std::chrono::microseconds(random_.below(2000));
      if (calls_.size() < 20) begin();
      if (random_.below(100) == 0) disturb();
      gossip(random_.below(3));
      if (!calls_.empty()) advance(random_.below(calls_.size()));
      refresh();
    }
    // The cluster becomes quiet: every call must end.
    for (auto& node : nodes_) node.down = node.cut_off = false;
    for (std::size_t slot = 0; slot < slots; ++slot) end_migration(slot);
    for (int step = 0; !calls_.empty(); ++step) {
      ASSERT_LT(step, 100'000) << calls_.size() << " calls go round in circles";
      now_ += std::chrono::microseconds(500);
      gossip(nodes * slots);
      advance(random_.below(calls_.size()));
      refresh();
    }
  }

  int delivered = 0, redirections = 0, failovers = 0;

 private:
  static constexpr std::size_t nodes = 5, slots = 6;
  /// See router.cpp: no node comes back as an owner while its old epoch may still count as known.
  static constexpr auto stale = 10s;

  struct Node {
    bool down = false;
    bool cut_off = false;  ///< from the other nodes; clients reach it, and get an old map
    std::uint64_t epoch = 0;
    BootTime deposed_at{};
    std::array<std::size_t, slots> view{};       ///< whom it considers the owner
    std::array<std::uint64_t, slots> counter{};  ///< as far as its data goes
  };
  struct SimulatedCall {
    std::size_t slot;
    CallRoute route;
    std::size_t at = 0;
    bool asking = false;
    bool repeated = false;  ///< what the client believes
    int executed = 0;
    MapRefresh::Ticket waits_for = 0;
    BootTime pauses_until{};
    std::uint64_t floor = 0;
  };

  static RedisAddress address(std::size_t node) { return {"n", static_cast<std::uint16_t>(node + 1)}; }

  void begin() {
    const bool carries_epoch = random_.below(2) == 0;
    calls_.push_back({.slot = random_.below(slots), .route = CallRoute(carries_epoch)});
    carries_.push_back(carries_epoch);
    start(calls_.back(), carries_epoch);
  }
  void start(SimulatedCall& call, bool carries_epoch) {
    call.asking = false;
    call.at = map_owner_[call.slot];
    if (carries_epoch && !knows_epoch(call.at)) call.waits_for = refresh_.wish();
    call.floor = fence_floor_of(known_epoch_[call.at]);
  }
  /// Each owner is asked for its own epoch: others may have missed a failover, or two.
  bool knows_epoch(std::size_t node) {
    const bool is_old = now_ - epoch_at_[node] > stale;
    if (!is_old && random_.below(10) != 0) return true;
    if (nodes_[node].down) return !is_old;
    known_epoch_[node] = std::max(known_epoch_[node], nodes_[node].epoch);
    epoch_at_[node] = now_;
    return true;
  }

  void disturb() {
    const auto slot = random_.below(slots);
    const auto to = random_.below(nodes);
    auto& target = nodes_[to];
    if (target.down || to == owner_[slot]) return;
    switch (random_.below(5)) {
      case 4:
        for (auto& node : nodes_) node.cut_off = false;
        if (random_.below(2) == 0) nodes_[random_.below(nodes)].cut_off = true;
        return;
      case 0: {  // a failover of one slot, which may lose the last grants
        if (now_ - target.deposed_at < 2 * stale || moving_.contains(slot)) return;
        auto& old = nodes_[owner_[slot]];
        target.epoch = ++last_epoch_;
        target.counter[slot] =
            old.counter[slot] - std::min<std::uint64_t>(old.counter[slot], random_.below(4));
        old.deposed_at = now_;
        old.down = random_.below(2) == 0;  // else it answers on, until it hears of it
        owner_[slot] = to;
        target.view = owner_;  // those that voted for it have told it
        ++failovers;
        return;
      }
      case 1:
        if (now_ - target.deposed_at >= 2 * stale) moving_.try_emplace(slot, Migration{.to = to});
        return;
      case 2:
        return end_migration(slot);
      default:
        for (auto& node : nodes_) node.down = false;
    }
  }
  /// With the data, and with a new epoch.
  void end_migration(std::size_t slot) {
    const auto moving = moving_.find(slot);
    if (moving == moving_.end()) return;
    auto& importer = nodes_[moving->second.to];
    auto& source = nodes_[owner_[slot]];
    if (importer.down || source.down) return;
    if (!moving->second.key_moved) importer.counter[slot] = source.counter[slot];
    importer.epoch = ++last_epoch_;
    importer.view = owner_;
    source.deposed_at = now_;
    source.view[slot] = importer.view[slot] = owner_[slot] = moving->second.to;
    moving_.erase(moving);
  }
  void gossip(std::size_t messages) {
    for (std::size_t i = 0; i < messages; ++i) {
      const auto slot = random_.below(slots);
      auto& node = nodes_[random_.below(nodes)];
      if (!node.cut_off) node.view[slot] = owner_[slot];
    }
  }

  void advance(std::size_t index) {
    auto& call = calls_[index];
    const bool carries = carries_[index];
    if (call.waits_for != 0) {
      if (refresh_.answered() < call.waits_for) return;
      call.waits_for = 0;
      return start(call, carries);
    }
    if (call.pauses_until > now_) return;
    if (std::exchange(call.pauses_until, {}) != BootTime{}) return start(call, carries);
    auto& node = nodes_[call.at];
    const bool asking = std::exchange(call.asking, false);
    if (node.down || random_.below(200) == 0) {
      if (random_.below(2) == 0) {
        if (!node.down && redirection(call, asking).kind == Kind::none) execute(call, node);
        call.repeated = true;  // its bytes were accepted
      }
      epoch_at_[call.at] = {};
      call.waits_for = refresh_.wish();
      return;
    }
    const auto said = redirection(call, asking);
    const auto step = call.route.answered(said, 0.5);
    if (said.kind == Kind::none) {
      execute(call, node);
      if (!call.repeated) {
        EXPECT_EQ(call.executed, 1);
      }
      EXPECT_GE(call.executed, 1);
      ++delivered;
      calls_.erase(calls_.begin() + static_cast<std::ptrdiff_t>(index));
      carries_.erase(carries_.begin() + static_cast<std::ptrdiff_t>(index));
      return;
    }
    ++redirections;
    // A MOVED alone does not change the map for other calls.
    if (said.kind == Kind::moved) {
      epoch_at_[call.at] = {};
      refresh_.wish(said.address.port - 1U);
    }
    if (const auto* to = std::get_if<CallRoute::SendTo>(&step)) {
      call.at = to->announced.port - 1U;
      call.asking = to->asking;
      if (carries && !knows_epoch(call.at)) call.waits_for = refresh_.wish();
      call.floor = fence_floor_of(std::max(known_epoch_[call.at], known_epoch_[map_owner_[call.slot]]));
    } else if (const auto* pause = std::get_if<CallRoute::Pause>(&step)) {
      call.pauses_until = now_ + pause->length;
    } else {
      call.waits_for = refresh_.wish();
    }
  }

  /// What a node answers, by what it knows.
  Redirection redirection(const SimulatedCall& call, bool asking) {
    const auto& node = nodes_[call.at];
    const auto moving = moving_.find(call.slot);
    const bool on_its_way = moving != moving_.end() && node.view[call.slot] == owner_[call.slot];
    if (node.view[call.slot] == call.at) {
      if (!on_its_way || owner_[call.slot] != call.at) return {};
      // Even slots stand for calls with several keys.
      if (call.slot % 2 == 0) return {.kind = Kind::try_again};
      auto& [to, key_moved] = moving->second;
      if (!key_moved && random_.below(4) == 0 && !nodes_[to].down) {
        key_moved = true;
        nodes_[to].counter[call.slot] = node.counter[call.slot];
      }
      if (!key_moved) return {};
      return {.kind = Kind::ask, .slot = static_cast<std::uint16_t>(call.slot), .address = address(to)};
    }
    if (asking && on_its_way && moving->second.to == call.at) return {};
    return {.kind = Kind::moved,
            .slot = static_cast<std::uint16_t>(call.slot),
            .address = address(node.view[call.slot])};
  }

  void execute(SimulatedCall& call, Node& node) {
    ++call.executed;
    if (!call_carries(call)) return;
    const auto fence = std::max(node.counter[call.slot], call.floor) + 1;
    node.counter[call.slot] = fence;
    EXPECT_TRUE(fences_.emplace(call.slot, fence).second) << "fence " << fence << " of slot " << call.slot;
  }
  [[nodiscard]] bool call_carries(const SimulatedCall& call) const {
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      if (&calls_[i] == &call) return carries_[i];
    }
    return false;
  }

  void refresh() {
    const auto step = refresh_.next(now_, std::vector<bool>(nodes, true));
    const auto* ask = std::get_if<MapRefresh::Ask>(&step);
    if (ask == nullptr) return;
    if (nodes_[ask->candidate].down) return refresh_.failed(now_, nodes, 0.5);
    refresh_.succeeded(read_map(ask->candidate), now_, 0.5);
  }
  /// A node's own view, which may be old.
  bool read_map(std::size_t from) {
    bool changed = false;
    for (std::size_t slot = 0; slot < slots; ++slot) {
      const auto owner = nodes_[from].view[slot];
      const auto former = std::exchange(map_owner_[slot], owner);
      if (former == owner) continue;
      changed = true;
      epoch_at_[former] = epoch_at_[owner] = {};
    }
    return changed;
  }

  test::Seeded& random_;
  BootTime now_ = at(100s);
  std::array<Node, nodes> nodes_{};
  std::array<std::size_t, slots> owner_{};
  struct Migration {
    std::size_t to;
    bool key_moved = false;
  };
  std::map<std::size_t, Migration> moving_;
  std::uint64_t last_epoch_ = nodes;
  std::deque<SimulatedCall> calls_;
  std::deque<bool> carries_;
  MapRefresh refresh_;
  std::array<std::size_t, slots> map_owner_{};
  std::array<std::uint64_t, nodes> known_epoch_{};
  std::array<BootTime, nodes> epoch_at_{};
  std::set<std::pair<std::size_t, std::uint64_t>> fences_;
};

TEST(RoutingSimulation, EveryCallEndsIsCarriedOutOnceAndNoFenceRepeats) {
  test::Seeded random;
  SCOPED_TRACE(random.seed());
  RecordProperty("seed", random.seed());
  Simulation simulation(random);
  simulation.run(300'000);
  EXPECT_GT(simulation.delivered, 1000);
  EXPECT_GT(simulation.redirections, 100);
  EXPECT_GT(simulation.failovers, 5);
}

}  // namespace
}  // namespace holdfast::redis
