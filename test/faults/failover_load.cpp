#include "failover_load.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <holdfast/locks.hpp>
#include <iostream>
#include <sstream>
#include <thread>

#include "support/calls.hpp"
#include "support/eventually.hpp"

namespace holdfast::test {

int failover_rounds() {
  const char* given = std::getenv("HOLDFAST_FAILOVERS");
  return given != nullptr ? std::max(std::atoi(given), 1) : 1;
}

void GrantLedger::add(const std::string& key, std::uint64_t fence, const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto [entry, is_new] = grants_.try_emplace({key, fence}, id);
  if (!is_new && entry->second != id && repeated_.insert({key, fence}).second) {
    std::cout << "fence " << fence << " of " << key << " was granted twice\n";
  }
}

void GrantLedger::hold(const std::string& key, std::uint64_t fence, BootTime until) {
  const std::lock_guard lock(mutex_);
  auto& holds = holds_[key];
  const auto now = BootClock::now();
  std::erase_if(holds, [&](const auto& hold) { return hold.second <= now; });
  overlaps_ += static_cast<int>(holds.size());
  holds[fence] = until;
}

void GrantLedger::end(const std::string& key, std::uint64_t fence) {
  const std::lock_guard lock(mutex_);
  holds_[key].erase(fence);
}

void GrantLedger::read_file_of(const RedisServer& server) {
  const auto directory = server.directory() / "appendonlydir";
  if (!std::filesystem::exists(directory)) return;
  for (const auto& file : std::filesystem::directory_iterator(directory)) {
    if (file.path().string().find(".incr.") == std::string::npos) continue;
    std::ostringstream text;
    text << std::ifstream(file.path(), std::ios::binary).rdbuf();
    read(text.str());
  }
}

void GrantLedger::read(const std::string& text) {
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

namespace {

/// A client that acquires and releases without a pause. An unknown acquire is sent again under the same id.
class LoadClient {
 public:
  LoadClient(std::shared_ptr<LockBackend> backend, GrantLedger& ledger, std::string key)
      : backend_(std::move(backend)),
        ledger_(ledger),
        key_(std::move(key)),
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
      } while (!outcome && outcome.error().transient() && outcome.error().effect() != Effect::id_is_spent &&
               !stop.stop_requested());
      if (!outcome) continue;
      answered();
      const auto* granted = std::get_if<Granted>(&*outcome);
      if (granted == nullptr) {
        std::this_thread::sleep_for(100us);
        continue;
      }
      const auto fence = granted->fence.value();
      ledger_.add(key_, fence, std::string(id.str()));
      ledger_.hold(key_, fence, asked + lease);
      ++grants_;
      std::this_thread::sleep_for(1ms);
      ledger_.end(key_, fence);
      (void)try_release(*backend_, {.lock = {.id = id, .key = test::key(key_)}});
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

/// Every client was granted its lock twice more.
bool all_work(const std::vector<std::unique_ptr<LoadClient>>& clients) {
  std::vector<std::uint64_t> before;
  for (const auto& client : clients) before.push_back(client->grants());
  return eventually(
      [&] {
        for (std::size_t i = 0; i < clients.size(); ++i) {
          if (clients[i]->grants() < before[i] + 2) return false;
        }
        return true;
      },
      60s);
}

}  // namespace

void fail_over_under_load(const FailoverKind& kind) {
  GrantLedger ledger;
  Locks guarded(kind.open());
  std::vector<Guard> guards;
  for (int i = 0; i < 8; ++i)
    guards.push_back(guarded.lock(kind.key_prefix + "guard" + std::to_string(i), {.ttl = 30s}));
  kind.replicate();  // a lock that no replica has is lost
  std::vector<std::unique_ptr<LoadClient>> clients;
  for (std::size_t i = 0; i < 6; ++i) {
    clients.push_back(
        std::make_unique<LoadClient>(kind.open(), ledger, kind.key_prefix + "k" + std::to_string(i % 3)));
  }

  std::vector<BootClock::duration> gaps;
  int lost = 0;
  for (int round = 0; round < failover_rounds(); ++round) {
    ASSERT_TRUE(all_work(clients));
    for (auto& client : clients) (void)client->take_longest_gap();
    kind.fail_over();
    ASSERT_TRUE(all_work(clients)) << "no lock is granted after the failover";
    BootClock::duration gap{};
    for (auto& client : clients) gap = std::max(gap, client->take_longest_gap());
    gaps.push_back(gap);
    kind.read_files(ledger);
    kind.restore();
    for (auto& guard : guards) {
      if (guard.still_held()) continue;
      ++lost;
      const auto why = guard.renewal_error();
      std::cout << "round " << round << ": " << guard.key()
                << " was lost: " << to_string(guard.loss_reason().value_or(LossReason::gone)) << " "
                << (why ? why->what() : "") << "\n";
    }
    std::erase_if(guards, [](const Guard& guard) { return !guard.still_held(); });
  }
  clients.clear();
  kind.read_files(ledger);

  EXPECT_EQ(ledger.repeated(), 0U) << "fences granted twice";
  EXPECT_TRUE(ledger.overlaps() == 0 || !kind.loses_nothing) << "locks were lost";
  EXPECT_EQ(lost, 0) << "guards with a lease that is longer than the failover";
  for (auto& guard : guards) EXPECT_TRUE(guard.release());
  std::ranges::sort(gaps);
  const auto ms = [](BootClock::duration length) {
    return std::chrono::duration_cast<milliseconds>(length).count();
  };
  std::cout << kind.name << ": " << gaps.size() << " failovers, " << ledger.grants()
            << " grants, no answer for " << ms(gaps[gaps.size() / 2]) << " ms (median), " << ms(gaps.back())
            << " ms (worst), " << ledger.repeated() << " repeated fences, " << ledger.overlaps()
            << " overlapping holds, " << lost << " guards lost\n";
}

}  // namespace holdfast::test
