// Holdfast and SyncGuard on one Redis: each sees, respects and never damages the other's locks.
#include <gtest/gtest.h>

#include <future>
#include <holdfast/locks.hpp>
#include <holdfast/redis.hpp>
#include <set>
#include <thread>

#include "core/nfc.hpp"
#include "interop/syncguard.hpp"
#include "support/calls.hpp"

namespace holdfast::test {
namespace {

using nlohmann::json;
using namespace std::string_literals;

/// Two names of one lock: as Holdfast's caller says it and as SyncGuard's does.
struct Names {
  std::string ours, theirs;
};

std::vector<Names> names() {
  std::vector<Names> all = {
      // The same text in different normal forms is one lock.
      {"caf\u00e9", "cafe\u0301"},
      {"cafe\u0301", "caf\u00e9"},
      {"\uac01", "\u1100\u1161\u11a8"},
      {"\u2126", "\u03a9"},
  };
  for (const auto& name : {
           "resource:123"s,
           "a"s,
           " "s,
           "x y"s,
           "\u9375"s,
           "\U0001F512"s,
           "\u0301"s,  // plain, Unicode
           "\""s,
           "\\"s,
           "/"s,
           "a\\/b"s,
           "{\"expiresAtMs\":1}"s,
           "\",\"expiresAtMs\":1,\"x\":\""s,  // like a record
           "\0"s,
           "a\nb\tc\x01\x7f"s,
           "\u2028\u2029"s,
           "%d%s"s,
           "*"s,
           "[a]"s,  // awkward
           "id:x"s,
           "fence:x"s,
           "{tag}:x"s,
           ":"s,
           "::"s,  // like names
           std::string(512, 'x'),
           std::string(511, 'x') + "y",
           "\u00e9"s + std::string(500, '"'),  // long
       }) {
    all.push_back({name, name});
  }
  return all;
}

class Interop : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = SyncGuard::missing(); !why.empty()) GTEST_SKIP() << why;
    server.emplace();
  }

  /// Both sides on one prefix.
  struct Sides {
    std::shared_ptr<LockBackend> ours;
    std::unique_ptr<SyncGuard> theirs;
  };
  Sides sides(const std::string& prefix = "syncguard") {
    auto where = server->unix_socket();
    where.lock_prefix = prefix;
    return {.ours = make_redis_lock_backend(where).value_or_throw(),
            .theirs = std::make_unique<SyncGuard>(*server, prefix)};
  }

  std::optional<RedisServer> server;
  const LockId id = LockId::generate();
};

/// With the second prefix every longer key's names are hashed, with the third even most counters' names, with
/// the last one also those of indexes: with a longer one no lock can be acquired.
std::vector<std::string> prefixes() {
  return {"syncguard", std::string(460, 'p'), std::string(900, 'p'), std::string(951, 'p')};
}

TEST_F(Interop, NamesAndHashesAgree) {
  for (const auto& prefix : prefixes()) {
    auto [ours, theirs] = sides(prefix);
    auto raw = server->raw();
    for (const auto& name : names()) {
      SCOPED_TRACE(name.ours);
      EXPECT_EQ(key_hash(name.ours), theirs->hash(name.theirs));
      const auto holder = LockId::generate();
      ASSERT_TRUE(acquire(*ours, holder, name.ours));
      const auto expected = theirs->names(name.theirs, holder.str());
      for (const auto* which : {"lock", "index", "fence"}) {
        EXPECT_EQ(raw.integer({"EXISTS", expected.at(which).get<std::string>()}), 1) << which;
      }
      ASSERT_FALSE(release(*ours, holder, name.ours));
    }
  }
}

TEST_F(Interop, TheirLockIsRefusedToUsSeenByUsAndReleasedByThemOnly) {
  for (const auto& prefix : prefixes()) {
    auto [ours, theirs] = sides(prefix);
    for (const auto& name : names()) {
      SCOPED_TRACE(name.ours);
      const auto lock = theirs->acquire(name.theirs);
      ASSERT_TRUE(lock);

      const auto outcome = try_acquire(*ours, id, name.ours).value_or_throw();
      ASSERT_TRUE(std::holds_alternative<Refused>(outcome));
      EXPECT_GT(*std::get<Refused>(outcome).free_in, 50s);
      EXPECT_TRUE(is_locked(*ours, name.ours));
      EXPECT_EQ(release(*ours, id, name.ours), Absence::other_owner);
      EXPECT_EQ(release(*ours, id), Absence::not_found);
      EXPECT_EQ(std::get<Absence>(extend(*ours, id, name.ours, 60s)), Absence::other_owner);

      const auto their_id = LockId::parse(lock->id).value_or_throw();
      for (const auto& found : {lookup(*ours, name.ours), lookup(*ours, their_id)}) {
        ASSERT_TRUE(found);
        EXPECT_EQ(found->id, their_id);
        EXPECT_EQ(found->key.str(), core::nfc(name.theirs).value_or_throw());
        EXPECT_EQ(found->fence.to_string(), lock->fence);
        EXPECT_EQ(to_ms(found->expires_at), lock->expires_at);
      }

      EXPECT_EQ(theirs->release(lock->id), 1);
      const auto granted = acquire(*ours, id, name.ours);
      ASSERT_TRUE(granted);
      EXPECT_GT(granted->fence.to_string(), lock->fence);
      ASSERT_FALSE(release(*ours, id, name.ours));
    }
  }
}

TEST_F(Interop, OurLockIsRefusedToThemSeenByThemAndReleasedByUsOnly) {
  for (const auto& prefix : prefixes()) {
    auto [ours, theirs] = sides(prefix);
    for (const auto& name : names()) {
      SCOPED_TRACE(name.ours);
      const auto granted = acquire(*ours, id, name.ours);
      ASSERT_TRUE(granted);

      EXPECT_FALSE(theirs->acquire(name.theirs));
      EXPECT_TRUE(theirs->is_locked(name.theirs));
      const auto stranger = std::string(LockId::generate().str());
      EXPECT_EQ(theirs->release(stranger), -1);
      EXPECT_EQ(theirs->extend(stranger), -1);
      const json expected = {{"lockId", id.str()},
                             {"key", core::nfc(name.ours).value_or_throw()},
                             {"fence", granted->fence.to_string()},
                             {"expiresAtMs", to_ms(granted->expires_at)},
                             {"acquiredAtMs", to_ms(granted->expires_at) - 60'000}};
      EXPECT_EQ(theirs->lookup(name.theirs), expected);
      EXPECT_EQ(theirs->lookup_by_id(id.str()), expected);

      ASSERT_FALSE(release(*ours, id, name.ours));
      EXPECT_FALSE(theirs->is_locked(name.theirs));
      const auto lock = theirs->acquire(name.theirs);
      ASSERT_TRUE(lock);
      EXPECT_GT(lock->fence, granted->fence.to_string());
      EXPECT_EQ(theirs->release(lock->id), 1);
    }
  }
}

TEST_F(Interop, WhoeverHasTheIdExtendsAndReleasesTheOthersLock) {
  auto [ours, theirs] = sides();
  for (const auto& name : names()) {
    SCOPED_TRACE(name.ours);
    const auto granted = acquire(*ours, id, name.ours, 10s);
    ASSERT_TRUE(granted);
    EXPECT_EQ(theirs->extend(id.str(), 20s), 1);  // from here on the record is in their form
    const auto extended = std::get<Extended>(extend(*ours, id, name.ours, 30s));
    EXPECT_EQ(theirs->lookup(name.theirs).at("expiresAtMs"), to_ms(extended.expires_at));
    EXPECT_EQ(acquire(*ours, id, name.ours)->fence, granted->fence);
    EXPECT_EQ(lookup(*ours, id)->key.str(), core::nfc(name.ours).value_or_throw());
    EXPECT_EQ(theirs->release(id.str()), 1);
    EXPECT_FALSE(is_locked(*ours, name.ours));

    const auto lock = theirs->acquire(name.theirs, 10s);
    ASSERT_TRUE(lock);
    const auto their_id = LockId::parse(lock->id).value_or_throw();
    EXPECT_TRUE(std::holds_alternative<Extended>(extend(*ours, their_id, std::nullopt, 20s)));
    EXPECT_EQ(theirs->extend(lock->id, 30s), 1);
    EXPECT_FALSE(release(*ours, their_id, name.ours));
    EXPECT_EQ(theirs->release(lock->id), -1);
  }
}

/// Labels that need escapes, in one JSON library's form and in the other's.
std::vector<std::string> labels() {
  return {"alice@web-3:812 make"s,        "a/b \"c\" \\d"s,        "\0\n\x1B[2J\x7f"s,
          "caf\u00e9 \u2028 \U0001F512"s, "\",\"lockId\":\"x\"}"s, std::string(256, '"')};
}

TEST_F(Interop, TheirExtendCarriesTheLabelOfOurHolderAlong) {
  auto [ours, theirs] = sides();
  for (const auto& text : labels()) {
    SCOPED_TRACE(text);
    const auto label = LockHolder::from_setting(text).value_or_throw();
    AcquireRequest request{.id = LockId::generate(), .key = key("k"), .ttl = ttl(10s), .holder = label};
    const auto granted = std::get<Granted>(try_acquire(*ours, request).value_or_throw());
    EXPECT_FALSE(theirs->acquire("k"));
    EXPECT_EQ(theirs->lookup("k").at("holder"), text);
    EXPECT_EQ(theirs->extend(request.id.str(), 20s), 1);  // from here on the record is in their form
    const auto seen = lookup(*ours, "k");
    ASSERT_TRUE(seen && seen->holder);
    EXPECT_EQ(seen->holder->str(), text);
    EXPECT_EQ(seen->fence, granted.fence);
    const auto outcome = try_acquire(*ours, LockId::generate(), "k").value_or_throw();
    ASSERT_TRUE(std::get<Refused>(outcome).holder);
    EXPECT_EQ(std::get<Refused>(outcome).holder->str(), text);
    EXPECT_TRUE(std::holds_alternative<Extended>(extend(*ours, request.id, "k", 30s)));
    EXPECT_EQ(lookup(*ours, "k")->holder->str(), text);
    EXPECT_TRUE(std::holds_alternative<Extended>(
        extend(*ours, request.id, "k", 30s, LockHolder::from_setting("adopter/\"").value_or_throw())));
    EXPECT_EQ(theirs->lookup("k").at("holder"), "adopter/\"");
    EXPECT_EQ(theirs->release(request.id.str()), 1);
    EXPECT_FALSE(lookup(*ours, "k"));
  }
}

TEST_F(Interop, TheirLockHasNoLabelUntilItIsAdopted) {
  auto [ours, theirs] = sides();
  const auto lock = theirs->acquire("k");
  ASSERT_TRUE(lock);
  EXPECT_FALSE(lookup(*ours, "k")->holder);
  EXPECT_FALSE(std::get<Refused>(try_acquire(*ours, id, "k").value_or_throw()).holder);
  const auto their_id = LockId::parse(lock->id).value_or_throw();
  for (const auto& text : labels()) {
    const auto label = LockHolder::from_setting(text).value_or_throw();
    EXPECT_TRUE(std::holds_alternative<Extended>(extend(*ours, their_id, "k", 30s, label)));
    EXPECT_EQ(lookup(*ours, "k")->holder, *label);
    EXPECT_EQ(theirs->extend(lock->id, 20s), 1);
    EXPECT_EQ(theirs->lookup("k").at("holder"), text);
    EXPECT_EQ(theirs->lookup("k").at("fence"), lock->fence);
  }
  EXPECT_TRUE(std::holds_alternative<Extended>(extend(*ours, their_id, "k", 30s, nullptr)));
  EXPECT_FALSE(theirs->lookup("k").contains("holder"));
  EXPECT_EQ(theirs->release(lock->id), 1);
}

TEST_F(Interop, FencesRiseAcrossBothSides) {
  auto [ours, theirs] = sides();
  std::vector<std::string> fences;
  for (int round = 0; round < 20; ++round) {
    const auto granted = acquire(*ours, id, "k");
    ASSERT_TRUE(granted);
    fences.push_back(granted->fence.to_string());
    ASSERT_FALSE(release(*ours, id, "k"));
    const auto lock = theirs->acquire("k");
    ASSERT_TRUE(lock);
    fences.push_back(lock->fence);
    ASSERT_EQ(theirs->release(lock->id), 1);
  }
  EXPECT_TRUE(std::ranges::is_sorted(fences));
  EXPECT_EQ(std::set(fences.begin(), fences.end()).size(), fences.size());
  EXPECT_EQ(fences.back(), "000000000000040");
}

TEST_F(Interop, WhatExpiredIsFreeForTheOther) {
  auto [ours, theirs] = sides();
  ASSERT_TRUE(acquire(*ours, id, "mine", 20ms));
  ASSERT_TRUE(theirs->acquire("yours", 20ms));
  std::this_thread::sleep_for(30ms);
  EXPECT_TRUE(theirs->acquire("mine"));
  EXPECT_TRUE(acquire(*ours, id, "yours"));
}

TEST_F(Interop, WhatRedisDidNotDropFollowsOneRuleOnBothSides) {
  auto [ours, theirs] = sides();
  auto raw = server->raw();
  // Takes a record's expiry from Redis and sets the one that it says, some seconds from now.
  const auto keep = [&](const std::string& name, int seconds) {
    const std::string lua =
        "local now = redis.call('TIME')[1] + ARGV[1]\n"
        "local text = string.gsub(redis.call('GET', KEYS[1]), '\"expiresAtMs\":%d+', '\"expiresAtMs\":' .. "
        "now .. '000')\n"
        "return redis.call('SET', KEYS[1], text)";
    raw.text({"EVAL", lua, "1", "syncguard:" + name, std::to_string(seconds)});
  };
  ASSERT_TRUE(acquire(*ours, id, "mine"));
  const auto lock = theirs->acquire("yours");
  ASSERT_TRUE(lock);

  for (const auto* name : {"mine", "yours"}) {
    keep(name, 30);
    EXPECT_FALSE(acquire(*ours, LockId::generate(), name));
    EXPECT_FALSE(theirs->acquire(name));
    EXPECT_TRUE(is_locked(*ours, name));
    EXPECT_TRUE(theirs->is_locked(name));
    keep(name, -5);
    EXPECT_FALSE(is_locked(*ours, name));
    EXPECT_FALSE(theirs->is_locked(name));
  }
  EXPECT_TRUE(theirs->acquire("mine"));
  EXPECT_TRUE(acquire(*ours, LockId::generate(), "yours"));
  EXPECT_EQ(theirs->release(lock->id), -1);
}

TEST_F(Interop, AWaiterGetsALockThatIsReleasedWithoutAWord) {
  auto [ours, theirs] = sides();
  Locks locks(ours);
  const auto lock = theirs->acquire("k");
  ASSERT_TRUE(lock);
  auto waiting = std::async(std::launch::async, [&] {
    const auto guard = locks.lock("k", {.wait = 30s});
    return guard.fence().to_string();
  });
  EXPECT_EQ(waiting.wait_for(300ms), std::future_status::timeout);
  ASSERT_EQ(theirs->release(lock->id), 1);
  EXPECT_GT(waiting.get(), lock->fence);
}

TEST_F(Interop, BothSidesCountTogetherWithoutLosingOne) {
  auto [ours, theirs] = sides();
  auto raw = server->raw();
  constexpr int rounds = 200;
  theirs->send({{"op", "count"}, {"key", "k"}, {"counter", "counter"}, {"rounds", rounds}});
  for (int round = 0; round < rounds;) {
    const auto holder = LockId::generate();
    if (!acquire(*ours, holder, "k")) {
      std::this_thread::sleep_for(1ms);
      continue;
    }
    const auto value = raw.text({"GET", "counter"});
    raw.text({"SET", "counter", std::to_string(value == "(nil)" ? 1 : std::stoi(value) + 1)});
    ASSERT_FALSE(release(*ours, holder, "k"));
    ++round;
  }
  EXPECT_EQ(theirs->receive().at("done"), rounds);
  EXPECT_EQ(raw.integer({"GET", "counter"}), 2 * rounds);
}

TEST_F(Interop, AServerThatForgetsTheScriptsIsTaughtAgainByBoth) {
  auto [ours, theirs] = sides();
  auto raw = server->raw();
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(acquire(*ours, id, "k"));
    raw.text({"SCRIPT", "FLUSH"});
    EXPECT_FALSE(theirs->acquire("k"));
    EXPECT_FALSE(release(*ours, id, "k"));
    raw.text({"SCRIPT", "FLUSH"});
    const auto lock = theirs->acquire("k");
    ASSERT_TRUE(lock);
    EXPECT_FALSE(acquire(*ours, id, "k"));
    raw.text({"SCRIPT", "FLUSH"});
    EXPECT_EQ(theirs->release(lock->id), 1);
  }
}

}  // namespace
}  // namespace holdfast::test
