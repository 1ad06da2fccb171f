// Clients of a master that fails over, by a crash, by plan, by a pause: what is granted, and how soon again.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <holdfast/locks.hpp>
#include <holdfast/redis.hpp>
#include <iostream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "support/calls.hpp"
#include "support/eventually.hpp"
#include "support/redis_sentinels.hpp"

namespace holdfast::test {
namespace {

/// How often each kind of failover happens; HOLDFAST_FAILOVERS=20 for a measurement, with sentinels that look
/// at their servers as often as in production.
int rounds() {
  const char* given = std::getenv("HOLDFAST_FAILOVERS");
  return given != nullptr ? std::max(std::atoi(given), 1) : 1;
}

constexpr std::uint64_t per_epoch = 1'000'000'000;

/// All grants of all keys, from the clients and from the servers' files.
class GrantLedger {
 public:
  void add(const std::string& key, std::uint64_t fence, const std::string& id) {
    const std::lock_guard lock(mutex_);
    const auto [entry, is_new] = grants_.try_emplace({key, fence}, id);
    if (!is_new && entry->second != id && repeated_.insert({key, fence}).second) {
      std::cout << "fence " << fence << " of " << key << " was granted twice\n";
    }
  }
  /// A client holds the lock, and can prove it until then.
  void hold(const std::string& key, std::uint64_t fence, BootTime until) {
    const std::lock_guard lock(mutex_);
    auto& holds = holds_[key];
    const auto now = BootClock::now();
    std::erase_if(holds, [&](const auto& hold) { return hold.second <= now; });
    // What the lock protects tells the two apart, because no fence is granted twice.
    overlaps_ += static_cast<int>(holds.size());
    holds[fence] = until;
  }
  void end(const std::string& key, std::uint64_t fence) {
    const std::lock_guard lock(mutex_);
    holds_[key].erase(fence);
  }
  /// Every grant that a server has ever written to its append-only file, also those whose reply was lost.
  void read_file_of(const RedisServer& server) {
    const auto directory = server.directory() / "appendonlydir";
    if (!std::filesystem::exists(directory)) return;
    for (const auto& file : std::filesystem::directory_iterator(directory)) {
      if (file.path().string().find(".incr.") == std::string::npos) continue;
      std::ostringstream text;
      text << std::ifstream(file.path(), std::ios::binary).rdbuf();
      read(text.str());
    }
  }

  [[nodiscard]] std::size_t grants() const { return grants_.size(); }
  [[nodiscard]] std::size_t repeated() const { return repeated_.size(); }
  [[nodiscard]] int overlaps() const { return overlaps_; }

 private:
  void read(const std::string& text) {
    const std::string begin = R"({"lockId":")", fence = R"(,"fence":")", key = R"(,"key":")";
    for (auto at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1)) {
      const auto record = text.substr(at, 400);
      const auto fence_at = record.find(fence), key_at = record.find(key);
      if (fence_at == std::string::npos || key_at == std::string::npos) continue;
      const auto key_begin = key_at + key.size();
      add(record.substr(key_begin, record.find('"', key_begin) - key_begin),
          std::stoull(record.substr(fence_at + fence.size(), 15)), record.substr(begin.size(), 22));
    }
  }

  std::mutex mutex_;
  std::map<std::pair<std::string, std::uint64_t>, std::string> grants_;
  std::set<std::pair<std::string, std::uint64_t>> repeated_;
  std::map<std::string, std::map<std::uint64_t, BootTime>> holds_;
  int overlaps_ = 0;
};

/// A client that acquires and releases without a pause. An unknown acquire is sent again under the same id.
class Load {
 public:
  Load(const RedisSentinels& servers, GrantLedger& ledger, std::size_t number)
      : backend_(make_redis_lock_backend(servers.client()).value_or_throw()),
        ledger_(ledger),
        key_("k" + std::to_string(number % 3)),
        thread_([this](const std::stop_token& stop) { run(stop); }) {}

  [[nodiscard]] std::uint64_t grants() const { return grants_; }
  /// The longest time between two answers since the last call.
  [[nodiscard]] BootClock::duration take_longest_gap() {
    return BootClock::duration(longest_gap_.exchange(0));
  }

 private:
  static constexpr auto lease = 1s;

  void answered() {
    const auto now = BootClock::now();
    longest_gap_ = std::max(longest_gap_.load(), (now - answered_at_).count());
    answered_at_ = now;
  }

  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const auto id = LockId::generate();
      const auto asked = BootClock::now();
      Result<AcquireOutcome> outcome = AcquireOutcome(Refused{});
      do {
        outcome = try_acquire(*backend_, id, key_, lease);
      } while (!outcome && outcome.error().transient() && !stop.stop_requested());
      if (!outcome) continue;
      answered();
      const auto* granted = std::get_if<Granted>(&*outcome);
      if (granted == nullptr) continue;
      const auto fence = granted->fence.value();
      ledger_.add(key_, fence, std::string(id.str()));
      ledger_.hold(key_, fence, asked + lease);
      ++grants_;
      std::this_thread::sleep_for(1ms);
      ledger_.end(key_, fence);
      (void)try_release(*backend_, {.lock = {.id = id, .key = key(key_)}});
    }
  }

  std::shared_ptr<LockBackend> backend_;
  GrantLedger& ledger_;
  const std::string key_;
  std::atomic<std::uint64_t> grants_ = 0;
  std::atomic<BootClock::rep> longest_gap_ = 0;
  BootTime answered_at_ = BootClock::now();
  std::jthread thread_;
};

class SentinelFailover : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = redis_missing(); !why.empty()) GTEST_SKIP() << why;
  }
};

using Disturb = std::function<void(RedisSentinels&, std::size_t master)>;

/// Clients at work while `begin` starts a failover and, when all of them work again, `end` brings the old
/// master back.
void fail_over_under_load(const std::string& kind, const Disturb& begin, const Disturb& end) {
  RedisSentinels servers(
      {.down_after = RedisSentinels::soon_down, .hurry = rounds() == 1, .config = {"appendonly yes"}});
  GrantLedger ledger;
  Locks guarded(make_redis_lock_backend(servers.client()).value_or_throw());
  std::vector<Guard> guards;
  for (int i = 0; i < 8; ++i) guards.push_back(guarded.lock("guard" + std::to_string(i), {.ttl = 30s}));
  servers.server(servers.master()).wait_for_replicas(2);  // a lock that no replica has is lost
  std::vector<std::unique_ptr<Load>> clients;
  for (std::size_t i = 0; i < 6; ++i) clients.push_back(std::make_unique<Load>(servers, ledger, i));

  const auto all_granted_again = [&] {
    std::vector<std::uint64_t> before;
    for (const auto& client : clients) before.push_back(client->grants());
    return eventually([&] {
      for (std::size_t i = 0; i < clients.size(); ++i) {
        if (clients[i]->grants() < before[i] + 2) return false;
      }
      return true;
    });
  };
  std::vector<BootClock::duration> gaps;
  int lost = 0;
  for (int round = 0; round < rounds(); ++round) {
    ASSERT_TRUE(all_granted_again());
    for (auto& client : clients) (void)client->take_longest_gap();
    const auto former = servers.master();
    const auto epoch = servers.epoch();
    begin(servers, former);
    (void)servers.wait_for_another_master(former);
    EXPECT_GT(servers.epoch(), epoch);
    ASSERT_TRUE(all_granted_again()) << "no lock is granted after the failover";
    BootClock::duration gap{};
    for (auto& client : clients) gap = std::max(gap, client->take_longest_gap());
    gaps.push_back(gap);
    ledger.read_file_of(servers.server(former));  // before it rejoins, and forgets what only it had
    end(servers, former);
    servers.settle();
    for (auto& guard : guards) lost += guard.still_held() ? 0 : 1;
  }
  clients.clear();
  for (std::size_t i = 0; i < servers.size(); ++i) ledger.read_file_of(servers.server(i));

  EXPECT_EQ(ledger.repeated(), 0U) << "fences granted twice";
  EXPECT_EQ(lost, 0) << "guards with a lease that is longer than the failover";
  for (auto& guard : guards) EXPECT_TRUE(guard.release());
  std::ranges::sort(gaps);
  const auto ms = [](BootClock::duration length) {
    return std::chrono::duration_cast<milliseconds>(length).count();
  };
  std::cout << kind << ": " << gaps.size() << " failovers, " << ledger.grants() << " grants, no answer for "
            << ms(gaps[gaps.size() / 2]) << " ms (median), " << ms(gaps.back()) << " ms (worst), "
            << ledger.repeated() << " repeated fences, " << ledger.overlaps() << " overlapping holds, "
            << lost << " guards lost; epoch " << servers.epoch() << "\n";
}

TEST_F(SentinelFailover, AKilledMasterRepeatsNoFence) {
  fail_over_under_load(
      "killed", [](RedisSentinels& servers, std::size_t master) { servers.server(master).kill(); },
      [](RedisSentinels& servers, std::size_t master) { servers.server(master).start(); });
}

TEST_F(SentinelFailover, APlannedFailoverRepeatsNoFence) {
  fail_over_under_load(
      "planned", [](RedisSentinels& servers, std::size_t) { servers.fail_over(); },
      [](RedisSentinels&, std::size_t) {});
}

TEST_F(SentinelFailover, AMasterThatIsPausedPastItsFailoverRepeatsNoFence) {
  fail_over_under_load(
      "paused", [](RedisSentinels& servers, std::size_t master) { servers.server(master).pause(); },
      [](RedisSentinels& servers, std::size_t master) { servers.server(master).resume(); });
}

TEST_F(SentinelFailover, InASplitBrainTheDeposedMasterGrantsLowerFences) {
  RedisSentinels servers({.down_after = RedisSentinels::soon_down});
  const auto former = servers.master();
  auto cut_off = servers.client();
  auto informed = cut_off;
  cut_off.sentinels.erase(cut_off.sentinels.begin(), cut_off.sentinels.begin() + 2);
  informed.sentinels.pop_back();
  const auto old_side = make_redis_lock_backend(cut_off).value_or_throw();
  const auto new_side = make_redis_lock_backend(informed).value_or_throw();
  const auto first = LockId::generate();
  const auto before = acquire(*old_side, first, "k");
  ASSERT_TRUE(before);
  ASSERT_FALSE(release(*old_side, first, "k"));

  // The third sentinel and its client hear nothing of the failover; when the old master is back, no sentinel
  // is there to tell it.
  servers.sentinel(2).pause();
  servers.server(former).pause();
  (void)servers.wait_for_another_master(former);
  std::optional<Granted> at_new;
  ASSERT_TRUE(eventually([&] {
    const auto outcome = try_acquire(*new_side, LockId::generate(), "k", 60s);
    const auto* granted = outcome ? std::get_if<Granted>(&*outcome) : nullptr;
    if (granted != nullptr) at_new = *granted;
    return at_new.has_value();
  }));
  servers.sentinel(0).pause();
  servers.sentinel(1).pause();
  servers.server(former).resume();

  std::vector<std::uint64_t> at_old;
  for (int i = 0; i < 10; ++i) {
    const auto id = LockId::generate();
    const auto granted = acquire(*old_side, id, "k");
    ASSERT_TRUE(granted) << "two masters, two holders: that is what a fence is for";
    at_old.push_back(granted->fence.value());
    EXPECT_FALSE(release(*old_side, id, "k"));
  }
  EXPECT_GT(at_old.front(), before->fence.value());
  EXPECT_LT(at_old.back(), at_new->fence.value());
  EXPECT_GT(at_new->fence.value(), per_epoch);

  for (std::size_t i = 0; i < RedisSentinels::sentinel_count; ++i) servers.sentinel(i).resume();
  int attempt = 0;
  EXPECT_TRUE(eventually(
      [&] {
        const auto outcome =
            try_acquire(*old_side, LockId::generate(), "another" + std::to_string(++attempt), 60s);
        const auto* granted = outcome ? std::get_if<Granted>(&*outcome) : nullptr;
        return granted != nullptr && granted->fence.value() > per_epoch;
      },
      30s))
      << "its sentinel hears of the switch, and so does the client";
}

}  // namespace
}  // namespace holdfast::test
